# SPDX-License-Identifier: Apache-2.0
"""Runs the tests that need a GPU, each file in a process of its own, several at a time.

    python3 tests/gpu/each_file.py [--jobs 8] [PATH ...]

A kernel that faults leaves the process without a usable CUDA context; the tests of other files must not pay for it.
Prints what pytest says of the files with failures, and the totals.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

__all__ = ["main"]

CHECKOUT = Path(__file__).resolve().parent.parent.parent
OPTIONS = ("-q", "-m", "gpu", "--tb=short", "-p", "no:cacheprovider", "-p", "no:randomly")
_COUNT = re.compile(r"(\d+) (passed|failed|skipped|errors?|xfailed)")


def find_files(paths: list[str]) -> list[str]:
    """The test files below ``paths`` with tests that need a GPU, those with most tests first."""
    command = [sys.executable, "-m", "pytest", "--collect-only", *OPTIONS, "--continue-on-collection-errors", *paths]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    files = Counter(line.partition("::")[0] for line in found.stdout.splitlines() if "::" in line)
    for line in found.stdout.splitlines():
        if line.startswith("ERROR "):
            files[line.split()[1]] += 1
    return [name for name, _ in files.most_common()]


def run_file(name: str, limit: float) -> tuple[str, int, str, float]:
    start = time.perf_counter()
    try:
        command = [sys.executable, "-m", "pytest", *OPTIONS, name]
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT, timeout=limit)
        return name, done.returncode, done.stdout + done.stderr, time.perf_counter() - start
    except subprocess.TimeoutExpired as stopped:
        text = stopped.stdout.decode(errors="replace") if isinstance(stopped.stdout, bytes) else ""
        return name, 124, f"{text}\nstopped after {limit:.0f} s", limit


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", nargs="*", default=["tests"])
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--limit", type=float, default=240, help="seconds for each file")
    options = parser.parse_args(arguments)
    totals: Counter[str] = Counter()
    files = find_files(options.paths)
    failed = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, status, text, seconds in pool.map(lambda name: run_file(name, options.limit), files):
            lines = text.rstrip().splitlines()
            totals.update({kind: int(count) for count, kind in _COUNT.findall(lines[-1] if lines else "")})
            if status:
                failed.append(name)
                print(f"\n=== {name}, status {status}, {seconds:.0f} s", *lines[-120:], sep="\n", flush=True)
    print("\nfiles:", len(files), "with failures:", *(failed or ["none"]))
    print(", ".join(f"{count} {kind}" for kind, count in totals.items()))
    return 1 if failed or not totals["passed"] else 0


if __name__ == "__main__":
    sys.exit(main())
