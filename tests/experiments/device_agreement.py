# SPDX-License-Identifier: Apache-2.0
"""Every launch of tests/devices gives the same on the CPU device and on the GPU, in both index widths.

    python3 tests/experiments/device_agreement.py [--quick] [--gpu] [--out FILE]

The tests run with ``--agreement`` (``tests/devices/agreement.py``): each launch is made on every device, with the same
arguments and without contraction, and compared bit for bit; functions that are not exact are within the CUDA guide's
maximum errors of one another and, on each device, of a wider reference (``tests/devices/ulp.py``). Every name of the
kernel language is in two of the kernels compared, and in one where not all threads go. Without a GPU the tests compare
the CPU device with Python and NumPy, and every launch with one that runs its blocks in another order. ``--gpu``: fail
without a GPU. ``--out`` keeps the figures.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reporting import CHECKOUT, Report, clean_environment, run

DEVICES = CHECKOUT / "tests" / "devices"
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests"), str(DEVICES)]

from agreement import COMPOSED, GPU_ONLY, NOT_COMPARED  # noqa: E402
from corpus import TOGETHER, find_uses, kernel_names, python_names  # noqa: E402
from gpu_presence import missing_device  # noqa: E402
from ulp import limit_of  # noqa: E402

__all__ = ["main"]

#: Left out by ``--quick``: random programs, what takes its time, and tests without a launch.
SLOW = (
    "random_programs or hundred_thousand or float16 or test_complex or test_times or test_tuples or "
    "test_slice_assignment or test_records or test_texts or test_coverage or test_agreement or test_ulp"
)

#: Names whose values are not compared: what they return is the time, or they take an address of one device.
APART = {"clock", "globaltimer", "carray", "farray"}


def run_all_tests(report: Report, folder: Path, jobs: int, *selection: str) -> dict[str, Any]:
    """The notes of all of ``tests/devices``: in one process, or each file in one of its own, ``jobs`` at a time."""
    if jobs == 1:
        return run_tests(report, "tests/devices", folder / "all.json", *selection, str(DEVICES))
    files = sorted(DEVICES.glob("test_*.py"), key=lambda path: -path.stat().st_size)
    with ThreadPoolExecutor(jobs) as pool:
        found = list(
            pool.map(
                lambda path: run_tests(report, path.name, folder / f"{path.stem}.json", *selection, str(path)), files
            )
        )
    whole: dict[str, Any] = {"kernels": {}, "disagreements": [], "errors": {}, "others": []}
    for notes in found:
        whole["kernels"].update(notes["kernels"])
        whole["errors"].update(notes["errors"])
        whole["disagreements"] += notes["disagreements"]
        whole["others"] = notes["others"] or whole["others"]
    return whole


def run_tests(report: Report, title: str, file: Path, *selection: str) -> dict[str, Any]:
    """The notes of one run of the tests."""
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0",
        "--agreement", file, *selection,
    ]  # fmt: skip
    done = run(command, clean_environment(PYTHONPATH=str(CHECKOUT)), CHECKOUT)
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|deselected|errors?)", done.stdout[-400:]))
    # 5: no test is left of a file of which all are left out
    good = done.returncode == 5 or (done.returncode == 0 and "passed" in counts)
    if not report.check(title, good, counts or done.stderr[:3000]):
        print(done.stdout[-4000:])
    content: dict[str, Any] = {"kernels": {}, "disagreements": [], "errors": {}, "others": []}
    if file.exists():
        content.update(json.loads(file.read_text(encoding="utf-8")))
    return content


def check_agreement(report: Report, notes: dict[str, Any]) -> None:
    kernels = notes["kernels"].values()
    launches, values = (sum(kernel[what] for kernel in kernels) for what in ("launches", "values"))
    detail = f"{len(kernels)} kernels, {launches} launches, {values:,} values"
    report.check(f"the CPU device agrees with {', '.join(notes['others'])}", not notes["disagreements"], detail)
    for text in notes["disagreements"][:40]:
        report.note(text)
    exact = [kernel for kernel in kernels if not kernel["max_ulp_allowed"]]
    detail = f"{len(exact)} kernels, {sum(kernel['values'] for kernel in exact):,} values"
    report.check("without inexact functions: the same bits", all(not kernel["max_ulp"] for kernel in exact), detail)
    defined = {key: kernel for key, kernel in notes["kernels"].items() if key.startswith("test_defined_results.")}
    bits = sum(kernel["values"] for key, kernel in defined.items() if not kernel["functions"])
    report.check(
        "the table of defined results: the same bits", bits > 50_000, f"{len(defined)} kernels, {bits:,} values"
    )


def check_names(report: Report, notes: dict[str, Any], complete: bool) -> None:
    """The table of names: in how many kernels, and what was compared there; with ``complete``, that something was."""
    uses, kernels = find_uses(DEVICES), notes["kernels"]
    missing = []
    print(f"{'name':36} kernels  divergent  launches      values  max ulp apart")
    for name in [*kernel_names(), *sorted(python_names().values())]:
        found = uses.get(name, {})
        launched = [kernels[key] for key in found if key in kernels]
        values = sum(kernel["values"] for kernel in launched)
        apart = sum(found.values())
        print(
            f"{name:36} {len(found):7} {'-' if name in TOGETHER else apart:>10} "
            f"{sum(kernel['launches'] for kernel in launched):9} {values:11,} "
            f"{max((kernel['max_ulp'] for kernel in launched), default=0):14g}"
        )
        divergent = name in TOGETHER or apart > 0
        if len(found) < 2 or not divergent or (complete and not values and name not in APART):
            missing.append(name)
    title = f"every name is in two kernels, one of them divergent{', and compared' if complete else ''}"
    report.check(title, not missing, ", ".join(missing))


def print_functions(report: Report, runs: list[dict[str, Any]], kernels: dict[str, Any]) -> None:
    """The table of functions: the largest errors on each device and between the two, beside the guide's."""
    from test_functions import BINARY, UNARY

    errors: dict[str, dict[str, float]] = {}
    for notes in runs:
        for function, row in notes["errors"].items():
            errors.setdefault(function, {}).update(row)
    devices = sorted({device for row in errors.values() for device in row})
    print(f"{'function':28} {'guide':>5} {' '.join(f'{device:>6}' for device in devices)}  apart   (ulp)")
    tables = {case.spelling: case.table for case in (*UNARY, *BINARY)}
    beyond = []
    for function, row in errors.items():
        spelling, kind = function.split()
        limits = {device: limit_of(tables[spelling], kind, device) for device in row}
        guide = limit_of(tables[spelling], kind)
        found = " ".join(f"{row.get(device, float('nan')):6g}" for device in devices)
        print(f"{function:28} {guide:5} {found} {kernels[f'test_functions.{function}']['max_ulp']:6g}")
        beyond += [f"{function} on {device}" for device in row if row[device] > limits[device]]
    report.check("every function within its maximum error", bool(errors) and not beyond, ", ".join(beyond))


def print_exceptions(report: Report) -> None:
    for key, arguments in NOT_COMPARED.items():
        for name, reason in arguments.items():
            report.note(f"not compared: {key}, {name}: {reason}")
    for key, reason in GPU_ONLY.items():
        report.note(f"on GPUs only: {key}: {reason}")
    for key, bounds in COMPOSED.items():
        for name, (ulp, reason) in bounds.items():
            report.note(f"within {ulp} ulp: {key}, {name}: {reason}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="leave out random programs and what takes its time")
    parser.add_argument("--gpu", action="store_true", help="fail where there is no GPU")
    parser.add_argument("--jobs", type=int, default=1, help="so many processes at a time, one for each file")
    parser.add_argument("--out", type=Path, help="keep the figures in this file")
    options = parser.parse_args()
    report = Report("what the devices compute")
    none = missing_device()
    if options.gpu:
        report.check("there is a GPU", none is None, none or "")
    selection = ["-k", f"not ({SLOW})"] if options.quick else []
    with tempfile.TemporaryDirectory() as folder:
        notes = run_all_tests(report, Path(folder), options.jobs, "-m", "not gpu", *selection)
        runs = [notes]
        if none is None:
            file = Path(folder) / "gpu.json"
            sweep = str(DEVICES / "test_functions.py")
            runs.append(run_tests(report, "every function on the GPU", file, "-m", "gpu", *selection, sweep))
    check_agreement(report, notes)
    check_names(report, notes, not options.quick)
    print_functions(report, runs, notes["kernels"])
    print_exceptions(report)
    if options.out is not None:
        options.out.write_text(json.dumps(runs, indent=1), encoding="utf-8")
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
