# SPDX-License-Identifier: Apache-2.0
"""Every name of the kernel language compiles for every target and gives its tests' results on every device.

    python3 tests/experiments/language_table.py [--quick] [--gpu] [--targets LIST] [--jobs N] [--out FILE]

The names (``tests/devices/vocabulary.py``) are those of the compiler's registries, and the types, statements and names
that programs for numba-cuda expect. A child process for each file of ``tests/devices`` runs its tests, notes which
names the launched kernels use, and compiles the first kernel of each name for all targets: to a cubin, or to PTX for
``compute_…`` and for what the nvJitLink at hand is too old for. A name is blank where no kernel compiles, or no test of
a kernel that uses it passes; the only reason that counts is a hardware that lacks it (``LACKS``). ``--gpu``: fail
without a GPU. Without one its columns are empty. ``--targets``: not all, for a machine that is at hand for minutes.
``--quick``: three files of tests and three targets; only names that these files use must have no blank.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from reporting import CHECKOUT, Report, clean_environment, run

DEVICES = CHECKOUT / "tests" / "devices"
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests"), str(DEVICES)]

from gpu_presence import missing_device  # noqa: E402
from vocabulary import vocabulary  # noqa: E402

from cudabuild.target import TARGETS  # noqa: E402

__all__ = ["LACKS", "main"]

#: Name -> the compute capability below which no hardware has it. Every target of ours, from 7.5 on, has them all.
LACKS: dict[str, tuple[int, int]] = {}

QUICK_FILES = ("test_atomics", "test_kernels", "test_shuffles")
QUICK_TARGETS = ("sm_75", "sm_90", "compute_120")
#: Tests of compiled code as a whole, which use no name that others do not.
APART = "not random_programs and not hundred_thousand"
GPU = ("gpu32", "gpu64")


@dataclass
class Row:
    """One name: targets that compile it, why others do not, and by device a kernel whose test passed."""

    compiled: set[str] = field(default_factory=set)
    reasons: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)


def run_file(path: Path, folder: Path, targets: Iterable[str]) -> tuple[str, dict[str, Any]]:
    """One file's tests in a process of its own: how they went, and what they say of each name."""
    file = folder / f"{path.stem}.json"
    command = [
        sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "--hypothesis-seed=0",
        "--examples", "10", "-k", APART, "--language", file, "--targets", ",".join(targets), path,
    ]  # fmt: skip
    done = run(command, clean_environment(PYTHONPATH=str(CHECKOUT)), CHECKOUT)
    counts = ", ".join(re.findall(r"\d+ (?:passed|failed|errors?)", done.stdout[-400:]))
    failed = "" if done.returncode in (0, 5) else f"{counts or done.stderr[-500:]}\n{done.stdout[-1500:]}"
    nothing: dict[str, Any] = {"stages": {}, "compiled": {}, "results": {}}
    return failed, json.loads(file.read_text(encoding="utf-8")) if file.exists() else nothing


def collect(report: Report, files: list[Path], targets: Iterable[str], jobs: int) -> dict[str, Row]:
    rows: dict[str, Row] = {}
    unlinked: set[str] = set()
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor(jobs) as pool:
        done = pool.map(lambda path: run_file(path, Path(scratch), targets), files)
        for path, (failed, content) in zip(files, done, strict=True):
            if failed:
                report.check(f"{path.stem} passes", False, failed)
            unlinked |= {t for t, stage in content["stages"].items() if stage == "ptx" and not TARGETS[t].is_ptx}
            for name, by_target in content["compiled"].items():
                row = rows.setdefault(name, Row())
                row.compiled |= {target for target, reason in by_target.items() if not reason}
                row.reasons.update({target: reason for target, reason in by_target.items() if reason})
            for device, kernels in content["results"].items():
                for name, kernel in kernels.items():
                    rows.setdefault(name, Row()).kernels.setdefault(device, f"{path.stem[5:]}.{kernel}")
    if unlinked:
        report.note(f"compiled to PTX only, for want of a newer nvJitLink: {', '.join(sorted(unlinked))}")
    return rows


def print_table(
    report: Report, rows: dict[str, Row], targets: list[str], devices: tuple[str, ...], complete: bool
) -> None:
    """Prints the table; a name without a row counts where the table is to be ``complete``."""
    blanks, shown = [], 0
    for group, names in vocabulary().items():
        listed = [name for name in names if complete or name in rows]
        shown += len(listed)
        print(f"\n{group} ({len(listed)})\n{'name':44}{'targets':>8}  {'cpu':44}{'  '.join(GPU)}")
        for name in listed:
            row = rows.get(name, Row())
            wanted = [t for t in targets if TARGETS[t].cc >= LACKS.get(name, (0, 0))]
            missing = [target for target in wanted if target not in row.compiled]
            gpu = "     ".join("ok" if kind in row.kernels else "-" for kind in GPU)
            count = len(wanted) - len(missing)
            print(f"{name:44}{f'{count}/{len(targets)}':>8}  {row.kernels.get('cpu', '-'):44}{gpu}")
            if missing or any(device not in row.kernels for device in devices):
                reason = next((row.reasons[t] for t in missing if t in row.reasons), "")
                blanks.append(f"{name}{f': {reason}' if reason else ''}")
    print()
    total = sum(len(names) for names in vocabulary().values())
    detail = f"{shown} of {total} names, {len(targets)} targets, {', '.join(devices)}"
    report.check("no name is blank", shown > 50 and not blanks, f"{len(blanks)} of {detail}" if blanks else detail)
    for blank in blanks:
        report.note(f"blank: {blank}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="three files of tests, three targets")
    parser.add_argument("--gpu", action="store_true", help="fail where there is no GPU")
    parser.add_argument("--targets", help="compile for these only, separated by commas")
    parser.add_argument("--jobs", type=int, default=min(4, os.cpu_count() or 1), help="so many processes at a time")
    parser.add_argument("--out", type=Path, help="keep the rows in this file")
    options = parser.parse_args()
    report = Report("every name of the language")
    none = missing_device()
    if options.gpu:
        report.check("there is a GPU", none is None, none or "")
    files = sorted(DEVICES.glob("test_*.py"), key=lambda path: -path.stat().st_size)
    targets = options.targets.split(",") if options.targets else list(TARGETS)
    if options.quick:
        files = [path for path in files if path.stem in QUICK_FILES]
        targets = list(QUICK_TARGETS)
    rows = collect(report, files, targets, options.jobs)
    print_table(report, rows, targets, ("cpu", *GPU) if none is None else ("cpu",), not options.quick)
    if options.out is not None:
        content = {name: {"targets": sorted(row.compiled), "kernels": row.kernels} for name, row in rows.items()}
        options.out.write_text(json.dumps(content, indent=1, sort_keys=True), encoding="utf-8")
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
