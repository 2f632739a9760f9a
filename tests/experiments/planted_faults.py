# SPDX-License-Identifier: Apache-2.0
"""The checks of the CPU device (``CUDABUILD_CHECK``) find every planted fault, and nothing in correct kernels.

    python3 tests/experiments/planted_faults.py [--quick] [--seeds N] [--jobs N] [--sanitizer PROGRAM]

Planted faults are reported with their lines; indices out of range and a division by zero with thread and block, under
the default check and under all of them. Correct kernels that look like them, the sample's kernels and random
race-free kernels (``tests/phase_kernels.py``) are not reported; the random ones are, once a barrier is taken away.
Without ``--quick`` the tests of ``tests/devices`` run under checks too; those that race by design are named here.
Last, what the checks cost in time. ``--sanitizer`` runs the planted faults on the GPU under compute-sanitizer where it
has a counterpart: races in shared memory (racecheck), divergent barriers (synccheck), addresses outside any memory of
the kernel (memcheck).
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from reporting import CHECKOUT, SAMPLE, Report, clean_environment, run

from cudabuild import cuda, kernel
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.errors import BoundsError, CheckError
from cudabuild.types import parse_signature

sys.path[:0] = [str(CHECKOUT / "tests"), str(SAMPLE / "src")]

import phase_kernels  # noqa: E402
from planted_kernels import CORRECT, FAULTY, PLANTED, marked_lines  # noqa: E402

__all__ = ["main"]

CHECKS = "bounds races barriers uninit"

#: What compute-sanitizer looks for with which tool: kernels whose fault is in shared memory or at a barrier, or leaves
#: an allocation. Not ``barrier_in_loop``: on an H200 it never ends, under compute-sanitizer's synccheck as well. Not
#: ``row_overflow``, ``local_past_the_end`` and ``division_by_zero``: they stay in an array, in a thread's own frame,
#: and a GPU divides by zero without a word.
COUNTERPARTS = {
    "tiled_product": "racecheck",
    "reduction": "racecheck",
    "barrier_under_if": "synccheck",
    "two_barriers": "synccheck",
    "read_past_the_end": "memcheck",
    "before_the_beginning": "memcheck",
    "shared_past_the_end": "memcheck",
    "atomic_past_the_end": "memcheck",
}

#: Tests of tests/devices whose kernels do race: a compare-and-swap loop that begins with a plain read, and blocks or
#: threads that write the same value to the same place.
RACING = {
    "test_a_loop_of_cas", "test_more_blocks_than_the_device_runs_at_once", "test_shared_arrays_do_not_overlap",
}  # fmt: skip


def launch(
    function: Any,
    signature: str,
    grid: Any,
    block: Any,
    arguments: tuple[Any, ...],
    shared: int = 0,
    options: Options = DEFAULT_OPTIONS,
) -> Any:
    """Runs a kernel on the CPU device; the error of its checks, or None."""
    launcher = CpuDevice().bind(KernelDefinition(function, signature, options=options), parse_signature(signature))
    sizes = [((*size, 1, 1) if isinstance(size, tuple) else (size, 1, 1))[:3] for size in (grid, block)]
    try:
        launcher(*sizes, 0, shared, arguments)
    except CheckError as error:
        return error
    return None


def check_planted(report: Report) -> None:
    for one in PLANTED:
        error = launch(*one[1:5], one.arguments(), one.shared)
        found = error.findings if error else ()
        lines = {party.location.line for finding in found for party in finding.parties}
        kinds = {finding.kind for finding in found}
        expected = marked_lines(one.kernel)
        holds = lines == expected and kinds == {one.check}
        report.check(
            f"{one.kernel.__name__} ({one.check})", holds, f"lines {sorted(lines)}, planted {sorted(expected)}"
        )


def check_faulty(report: Report) -> None:
    for one in FAULTY:
        options = DEFAULT_OPTIONS.replace(debug=one.check == "division")
        (line,) = marked_lines(one.kernel)
        for checks in ("bounds", CHECKS):
            os.environ["CUDABUILD_CHECK"] = checks
            error: Any = None
            try:
                launch(*one[1:5], one.arguments(), options=options)
            except (BoundsError, ZeroDivisionError) as found:
                error = found
            told = (error.line, error.thread, error.block) if error else None
            holds = told == (line, one.thread, one.place) and one.says in str(error)
            claim = f"{one.kernel.__name__} ({one.check}; checks: {checks})"
            report.check(claim, holds, f"line, thread, block: {told}, planted: {line, one.thread, one.place}")
    os.environ["CUDABUILD_CHECK"] = CHECKS


def check_correct(report: Report) -> None:
    from cudabuild_sample.cases import make_cases

    for one in CORRECT:
        report.check(f"{one.kernel.__name__} is left alone", launch(*one[1:5], one.arguments()) is None)
    for case in make_cases():
        arguments = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in case.arguments)
        try:
            case.kernel[case.grid, case.block](*arguments)
            problem = "" if case.error(arguments) <= case.tolerance else "wrong result"
        except CheckError as error:
            problem = str(error)
        report.check(f"{case.kernel.py_func.__name__} of the sample is left alone", not problem, problem)


def try_seeds(first: int, last: int) -> tuple[list[int], int, list[int]]:
    """Of the seeds from ``first``: those reported though correct, how many were broken, those not reported then."""
    os.environ["CUDABUILD_CHECK"] = CHECKS
    false, broken, missed = [], 0, []
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(first, last):
            phases = phase_kernels.PhaseKernel(seed)
            if run_phases(phases, Path(folder) / f"phases{seed}.py"):
                false.append(seed)
            if seed % 5 == 0 and phases.break_one():
                broken += 1
                if not run_phases(phases, Path(folder) / f"broken{seed}.py"):
                    missed.append(seed)
    return false, broken, missed


def run_phases(phases: phase_kernels.PhaseKernel, file: Path) -> Any:
    function = phase_kernels.load_kernel(phases, file)
    sizes = phase_kernels.BLOCKS, phase_kernels.THREADS
    return launch(function, phase_kernels.SIGNATURE, *sizes, phase_kernels.make_arguments())


def check_random(report: Report, seeds: int, jobs: int) -> None:
    step = max(1, min(100, seeds // jobs))
    starts = range(0, seeds, step)
    with ProcessPoolExecutor(jobs) as pool:
        parts = list(pool.map(try_seeds, starts, [min(start + step, seeds) for start in starts]))
    false = [seed for part in parts for seed in part[0]]
    missed = [seed for part in parts for seed in part[2]]
    broken = sum(part[1] for part in parts)
    report.check(f"{seeds} random race-free kernels are left alone", not false, f"reported: {false}" if false else "")
    report.check(f"{broken} with a barrier taken away are reported", not missed, f"missed: {missed}" if missed else "")


def check_device_tests(report: Report) -> None:
    """Every test of tests/devices under races, barriers and uninit."""
    options = ["-q", "-p", "checked_session", "-p", "no:cacheprovider", "-m", "not gpu", "tests/devices"]
    environment = clean_environment(PYTHONPATH=str(CHECKOUT / "tests" / "experiments"))
    done = run([sys.executable, "-m", "pytest", *options], environment, CHECKOUT)
    failed = set(re.findall(r"^FAILED \S+::(\w+)", done.stdout, re.MULTILINE))
    counts = re.findall(r"\d+ (?:passed|failed)", done.stdout)
    report.check("the kernels of tests/devices", "passed" in done.stdout and failed <= RACING, ", ".join(counts))
    report.check("those of them that race", failed >= RACING, ", ".join(sorted(failed)))


def launch_on_gpu(name: str) -> None:
    """One planted fault as a plain launch, for compute-sanitizer to watch."""
    one = next(one for one in (*PLANTED, *FAULTY) if one.kernel.__name__ == name)
    os.environ.pop("CUDABUILD_CHECK", None)
    # Device arrays: an array of the host's is copied to the same place within 256 bytes, which leaves room before it.
    arrays = [cuda.to_device(array) for array in one.arguments()]
    kernel(one.signature)(one.kernel)[one.grid, one.block, 0, one.shared](*arrays)
    cuda.synchronize()


def check_sanitizer(report: Report, sanitizer: str) -> None:
    for name, tool in COUNTERPARTS.items():
        command = [sanitizer, "--tool", tool, "--error-exitcode", "9", sys.executable, __file__, "--launch", name]
        done = run(command, clean_environment(CUDABUILD_DEVICE="gpu"))
        said = [line for line in (done.stdout + done.stderr).splitlines() if line.startswith("=========")]
        summary = said[-1] if said else f"status {done.returncode}"
        if "not supported" in done.stdout + done.stderr:
            report.note(f"{tool} refuses this device: {summary}")
        else:
            report.check(f"{name} under compute-sanitizer {tool}", done.returncode == 9, summary)


def measure(report: Report) -> None:
    """Time of the tiled product with and without checks."""
    product = next(one for one in PLANTED if one.kernel.__name__ == "tiled_product")
    arrays = tuple(np.ones((256, 256), np.float32) for _ in range(3))
    seconds = {}
    for checks in ("none", "barriers", "uninit", "races", CHECKS):
        os.environ["CUDABUILD_CHECK"] = checks
        launcher = CpuDevice().bind(
            KernelDefinition(product.kernel, product.signature), parse_signature(product.signature)
        )
        best = float("inf")
        for _ in range(2):
            start = time.perf_counter()
            try:
                launcher((32, 32, 1), (8, 8, 1), 0, 0, arrays)
            except CheckError:
                found = True
            else:
                found = False
            best = min(best, time.perf_counter() - start)
        seconds[checks] = best
        if checks in ("none", "barriers", "uninit"):
            report.check(f"nothing to find with {checks}", not found)
    for checks, took in seconds.items():
        report.note(f"tiled product of 256 × 256, {checks}: {took * 1e3:.1f} ms, {took / seconds['none']:.0f} ×")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer random kernels, no tests of tests/devices")
    parser.add_argument("--seeds", type=int, default=0, help="how many random kernels; 10,000 by default, quick: 40")
    parser.add_argument("--jobs", type=int, default=2, help="processes for the random kernels")
    parser.add_argument("--sanitizer", default="", help="compute-sanitizer; runs the planted faults on the GPU")
    parser.add_argument("--launch", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.launch:
        launch_on_gpu(options.launch)
        return 0
    os.environ["CUDABUILD_CHECK"] = CHECKS
    os.environ["CUDABUILD_DEVICE"] = "cpu"
    report = Report("planted faults and the checks of the CPU device")
    check_planted(report)
    check_faulty(report)
    check_correct(report)
    check_random(report, options.seeds or (40 if options.quick else 10_000), options.jobs)
    if not options.quick:
        check_device_tests(report)
    if options.sanitizer:
        check_sanitizer(report, options.sanitizer)
    measure(report)
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
