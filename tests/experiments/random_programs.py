# SPDX-License-Identifier: Apache-2.0
"""Random programs give on every device what the language defines.

    python3 tests/experiments/random_programs.py [--quick] [--count N] [--seed N] [--devices LIST] [--jobs N]
    python3 tests/experiments/random_programs.py --shrink SEED [--devices LIST] [--keep NAME --why TEXT]
    python3 tests/experiments/random_programs.py --show SEED

Each seed is a kernel (``tests/random_programs``): all scalar types, loops and branches, device functions, tuples,
arrays of several layouts and views of them, local and shared memory, atomics, both dialects of literals. What it must
leave in its arrays says an oracle in Python's integers and NumPy's floats; it is run on the CPU device (optimised with
checked indices, and with little optimisation without), on the Python device where Python means the same, and on the
GPU in both index widths. Programs run in child processes: one that dies or hangs is told by its seed. Then
miscompilations are planted, each in a compiler of its own, and must be found. The features of all programs are counted.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from reporting import CHECKOUT, Report, clean_environment

sys.path[:0] = [str(CHECKOUT), *(str(CHECKOUT / "tests" / part) for part in ("", "devices", "random_programs"))]

from gpu_presence import missing_device  # noqa: E402
from program_kept import save_program  # noqa: E402
from program_plants import ACCIDENTS, PLANTS, plant  # noqa: E402
from program_runs import Judge  # noqa: E402
from program_shrink import shrink  # noqa: E402
from program_tree import Program  # noqa: E402
from program_writer import make_program  # noqa: E402

__all__ = ["main"]

#: Programs for one child, and the seconds that one program may take there.
BATCH = 50
LIMIT = 120.0

KEPT = CHECKOUT / "tests" / "devices" / "once_failed"

DEVICES = {"cpu": ["cpu", "cpu-unchecked"], "python": ["python"], "gpu": ["gpu32", "gpu64"]}


class Tally:
    """What all children told."""

    def __init__(self, loud: bool = False) -> None:
        self.loud = loud
        self.lock = threading.Lock()
        self.programs = 0
        self.asked: Counter[str] = Counter()
        self.features: Counter[str] = Counter()
        self.holding: Counter[str] = Counter()
        self.beyond: Counter[str] = Counter()
        self.failures: dict[int, dict[str, str]] = {}

    def add(self, told: dict[str, Any]) -> None:
        with self.lock:
            self.programs += 1
            self.features.update(told["features"])
            self.holding.update(told["features"].keys())
            self.beyond.update(told["beyond"])
            self.asked.update(told["asked"])
            for where, what in told["failures"].items():
                self._note(told["seed"], where, what)
            if self.loud and self.programs % 500 == 0:
                print(f"       {self.programs} programs, {len(self.failures)} failed", flush=True)

    def fail(self, seed: int, where: str, what: str) -> None:
        with self.lock:
            self._note(seed, where, what)

    def _note(self, seed: int, where: str, what: str) -> None:
        self.failures.setdefault(seed, {})[where] = what
        if self.loud:
            print(f"       seed {seed}, {where}: {what[:1500]}", flush=True)


def run_seeds(
    seeds: range, configurations: list[str], tally: Tally, planted: str = "", once: bool = False, limit: float = LIMIT
) -> None:
    """Runs seeds in one child after another: a new one where one dies.

    Args:
        seeds, configurations, tally: what to run where, and who is told.
        planted: what is made wrong in the child.
        once: to stop when something has failed.
        limit: seconds that a program may take.
    """
    left = list(seeds)
    while left and not (once and tally.failures):
        left = _run_child(left, configurations, tally, planted, limit)


def _run_child(seeds: list[int], configurations: list[str], tally: Tally, planted: str, limit: float) -> list[int]:
    """One child for ``seeds``; those that it did not come to."""
    command = [sys.executable, __file__, "--child", ",".join(configurations), "--planted", planted]
    with tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, env=child_environment()
        )
        assert child.stdin is not None
        child.stdin.write(json.dumps(seeds))
        child.stdin.close()
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=_read, args=(child.stdout, lines), daemon=True).start()
        begun = 0
        try:
            while begun < len(seeds):
                line = lines.get(timeout=limit)
                if line is None:
                    break
                tally.add(json.loads(line))
                begun += 1
            status = child.wait(limit)
        except (queue.Empty, subprocess.TimeoutExpired):
            child.kill()
            child.wait()
            tally.fail(seeds[min(begun, len(seeds) - 1)], "hang", f"more than {limit:.0f} s")
            return seeds[begun + 1 :]
        if begun < len(seeds):
            errors.seek(0)
            tally.fail(seeds[begun], "crash", f"the process ended with status {status}: {errors.read()[-500:]}")
            return seeds[begun + 1 :]
    return []


def _read(stream: Any, lines: queue.Queue[str | None]) -> None:
    for line in stream:
        lines.put(line)
    lines.put(None)


def child_environment() -> dict[str, str]:
    path = os.pathsep.join([str(CHECKOUT), *filter(None, [os.environ.get("PYTHONPATH")])])
    return clean_environment(PYTHONPATH=path, CUDABUILD_CACHE_DIR=CACHE.name)


CACHE = tempfile.TemporaryDirectory(prefix="random-programs-")


def child(configurations: list[str], planted: str) -> int:
    """Runs the seeds of standard input; one line of JSON for each."""
    if planted:
        plant(planted)
    judge = Judge(configurations)
    out = os.fdopen(os.dup(1), "w")  # what a kernel or a library prints is not for the parent
    os.dup2(2, 1)
    for seed in json.load(sys.stdin):
        told = {"seed": seed, **_judge(judge, seed)}
        out.write(json.dumps(told) + "\n")
        out.flush()
    return 0


def _judge(judge: Judge, seed: int) -> dict[str, Any]:
    features: dict[str, int] = {}
    try:
        program = make_program(seed)
        features = dict(program.features())
        verdict = judge.judge(program)
    except Exception as error:  # the generator's or the oracle's own mistake is a failure like another
        return {
            "features": features,
            "beyond": [],
            "asked": [],
            "failures": {"oracle": f"{type(error).__name__}: {error}"},
        }
    asked = [name for name in judge.configurations if name != "python" or not verdict.beyond]
    return {"features": features, "beyond": sorted(verdict.beyond), "asked": asked, "failures": verdict.failures}


def run_all(first: int, count: int, configurations: list[str], jobs: int) -> Tally:
    tally = Tally(loud=True)
    size = max(1, min(BATCH, -(-count // jobs)))
    batches = [range(start, min(start + size, first + count)) for start in range(first, first + count, size)]
    with ThreadPoolExecutor(jobs) as pool:
        for done in [pool.submit(run_seeds, batch, configurations, tally) for batch in batches]:
            done.result()
    return tally


def find_plants(report: Report, first: int, most: int, jobs: int, quick: bool) -> None:
    """Each planted miscompilation is found within ``most`` programs, and what ends or stops a process is told."""
    for name in list(PLANTS)[:1] if quick else PLANTS:
        tally = Tally()
        start, step = first, 6 if quick else 50
        while not tally.failures and start < first + most:
            batches = [range(start + step * job, min(start + step * (job + 1), first + most)) for job in range(jobs)]
            with ThreadPoolExecutor(jobs) as pool:
                for done in [pool.submit(run_seeds, b, ["cpu-unchecked"], tally, name, True) for b in batches if b]:
                    done.result()
            start += step * jobs
        found = (
            f"by {len(tally.failures)} of {tally.programs} programs, the first seed {min(tally.failures)}"
            if tally.failures
            else f"not in {tally.programs}"
        )
        report.check(f"planted: {name}", bool(tally.failures), found)
    for name in ACCIDENTS:
        tally = Tally()
        run_seeds(range(first, first + 10), ["cpu-unchecked"], tally, name, True, 8 if name == "hang" else LIMIT)
        told = [(seed, where) for seed, failures in tally.failures.items() for where in failures]
        report.check(f"a {name} is told by its seed", [where for _, where in told] == [name], told)


def print_features(tally: Tally) -> None:
    programs = max(1, tally.programs)
    print(f"{'feature':42} programs with it     each")
    for name, total in sorted(tally.features.items()):
        print(f"{name:42} {100 * tally.holding[name] / programs:15.1f} %  {total / programs:7.2f}")
    for reason, count in tally.beyond.most_common():
        print(f"not for the Python device: {reason}: {count}")


def check(report: Report, tally: Tally, count: int) -> None:
    asked = ", ".join(f"{name} {number}" for name, number in sorted(tally.asked.items()))
    report.check(
        f"{count} programs: no difference, no crash, no hang", not tally.failures and tally.programs == count, asked
    )
    features, programs = tally.features, max(1, tally.programs)
    branches = sum(features[f"statement {word}"] for word in ("if", "for", "for-each", "while", "break", "continue"))
    mean, loops = features["statements"] / programs, branches / programs
    report.check("statements in a program, mean", mean >= 12, f"{mean:.1f}")
    report.check("loops and branches in a program, mean", loops >= 2, f"{loops:.1f}")
    axes = [features[f"layout {layout}"] / programs for layout in "CFA"]
    report.check("arrays of several layouts", all(axes), ", ".join(f"{x:.1f}" for x in axes))
    if count >= 500:
        missing = [kind for kind in ALL_TYPES if not features[f"type {kind}"]]
        report.check("every scalar type", not missing, ", ".join(missing))


ALL_TYPES = (
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "bfloat16", "float32",
    "float64", "complex64", "complex128", "int", "float",
)  # fmt: skip


def shrink_seed(seed: int, configurations: list[str], planted: str, keep: str, why: str) -> int:
    """Prints the smallest program found that fails as the seed's does; keeps it as a test by the name ``keep``."""
    if planted:
        plant(planted)
    judge = Judge(configurations)
    program = make_program(seed)
    failures = judge.judge(program).failures
    if not failures:
        print(f"seed {seed} does not fail on {', '.join(configurations)}")
        return 1
    name, what = next(reversed(failures.items()))
    one = Judge([name])

    def fails(candidate: Program) -> bool:
        found = one.judge(candidate).failures
        return name in found and error_of(found[name]) == error_of(what)

    small = shrink(program, fails)
    print(small.source())
    print(f"{small.signature}; grid {small.grid}, block {small.block}, literals {small.literals}")
    for name, what in judge.judge(small).failures.items():
        print(f"{name}: {what}")
    if keep:
        save_program(small, why or f"seed {seed}: {failures}", KEPT / f"{keep}.json")
    return 0


def error_of(failure: str) -> str:
    """The exception's class; nothing where results differ."""
    name = failure.partition(":")[0]
    return name if name.endswith("Error") else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few programs")
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--devices", default="", help="cpu,python,gpu; by default all that are there")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--shrink", type=int, help="reduce the failing program of this seed")
    parser.add_argument("--keep", default="", metavar="NAME", help="with --shrink: keep the program as a test")
    parser.add_argument("--why", default="", help="with --keep: what the program shows")
    parser.add_argument("--show", type=int, help="print the program of this seed")
    parser.add_argument("--no-plants", action="store_true", help="plant no miscompilations")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    parser.add_argument("--planted", default="", help="with --shrink: a miscompilation to plant")
    options = parser.parse_args()
    if options.child:
        return child(options.child.split(","), options.planted)
    present = "cpu,python" if missing_device() else "cpu,python,gpu"
    names = [name for device in (options.devices or present).split(",") for name in DEVICES[device]]
    if options.show is not None:
        print(make_program(options.show).source())
        return 0
    if options.shrink is not None:
        return shrink_seed(options.shrink, names, options.planted, options.keep, options.why)
    count = 16 if options.quick else options.count
    report = Report(f"random programs on {', '.join(names)}")
    start = time.perf_counter()
    tally = run_all(options.seed, count, names, options.jobs)
    report.note(f"{time.perf_counter() - start:.0f} s for {count} programs")
    print_features(tally)
    check(report, tally, count)
    if not options.no_plants:
        find_plants(report, options.seed, 10_000, options.jobs, options.quick)
    with contextlib.suppress(OSError):
        CACHE.cleanup()
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
