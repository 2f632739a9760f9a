# SPDX-License-Identifier: Apache-2.0
"""What ``import cudabuild`` imports and costs.

    python3 tests/experiments/import_cost.py [--quick]

Medians over fresh interpreters, of ``-X importtime``'s cumulative figure and of the whole process against one that
imports nothing.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time

from reporting import CHECKOUT, Report, clean_environment, run

__all__ = ["main"]

HEAVY = {
    "asyncio", "cuda", "filelock", "json", "llvmlite", "logging", "numba", "numpy", "platformdirs", "re", "setuptools",
    "subprocess", "tempfile", "typing",
}  # fmt: skip
STATEMENTS = {
    "import cudabuild": "import cudabuild",
    "… and the names of a kernel module": "from cudabuild import cuda, float32, kernel",
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    repeats = 5 if parser.parse_args().quick else 25
    report = Report("import cost")
    for title, statement in STATEMENTS.items():
        modules, milliseconds = trace(statement, repeats)
        heavy = sorted({name.split(".")[0] for name in modules} & HEAVY)
        report.check(title, not heavy, f"{milliseconds:.2f} ms, {len(modules)} modules; heavy: {heavy or 'none'}")
        report.note(", ".join(sorted(modules)))
    empty, full = process_seconds(["pass", STATEMENTS["import cudabuild"]], repeats)
    report.check("whole process", full - empty < 0.1, f"{empty * 1e3:.1f} ms without, {full * 1e3:.1f} ms with")
    return report.status()


def trace(statement: str, repeats: int) -> tuple[list[str], float]:
    """The modules that the statement imports in a fresh interpreter, and the median of its cost in ms."""
    costs = []
    run([sys.executable, "-c", statement], clean_environment(), cwd=CHECKOUT)  # leaves bytecode for the others
    for _ in range(repeats):
        code = f"import sys; sys.stderr.write('started\\n'); {statement}"
        done = run([sys.executable, "-X", "importtime", "-c", code], clean_environment(), cwd=CHECKOUT)
        if done.returncode:
            raise SystemExit(done.stderr)
        lines = [line for line in done.stderr.split("started\n", 1)[1].splitlines() if line.startswith("import time:")]
        modules = [line.rpartition("|")[2].strip() for line in lines]
        costs.append(sum(int(line.split(":")[1].split("|")[0]) for line in lines) / 1e3)  # each line's own µs
    return modules, statistics.median(costs)


def process_seconds(statements: list[str], repeats: int) -> list[float]:
    """The median duration of a process per statement, interleaved."""
    seconds: list[list[float]] = [[] for _ in statements]
    for _ in range(repeats):
        for number, statement in enumerate(statements):
            start = time.perf_counter()
            run([sys.executable, "-c", statement], clean_environment(), cwd=CHECKOUT)
            seconds[number].append(time.perf_counter() - start)
    return [statistics.median(part) for part in seconds]


if __name__ == "__main__":
    sys.exit(main())
