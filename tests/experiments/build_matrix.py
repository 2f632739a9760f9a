# SPDX-License-Identifier: Apache-2.0
"""Every way to build a project with kernels, each against each.

    python3 tests/experiments/build_matrix.py [--quick] [--scratch DIR] [--only TEXT] [--jobs N]

Rows are pairwise-complete over mode x layout x back-end x Python x setuptools: every two values that can meet do meet
in some row. Each row writes a tiny project with a kernel, plants stale archives in its source tree, builds, and checks

- archives: the kernel for every target, nothing else, and nothing of the stale ones;
- RECORD: every file with its hash and size, once;
- tag: pure where the project is, and the tag of the platform where it is not;
- loads: in a virtual environment the kernel binds to the image in the archive, with every module of the compile wing
  and llvmlite impossible to import; extension modules import too;
- sdist: no archive in it;
- same: a second build gives the same bytes (rows of ``pip wheel``).

Besides: a project that has nothing to do with cudabuild gives the same wheel whether it is installed or not.

The full form takes the Pythons that it finds, and downloads setuptools, the back-ends and the compiler into
``--scratch`` (kept if named, so that the next run is quick). ``--quick`` downloads nothing: this interpreter with what
is installed, and so many rows that every value occurs.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass
from pathlib import Path

from build_matrix_places import Installed, Prepared, prepare_full, prepare_quick
from build_matrix_projects import BACKENDS, LAYOUTS, supports
from build_matrix_rows import MODES, run_row, run_unrelated
from reporting import Report

__all__ = ["Row", "choose_pairwise", "main"]

SETUPTOOLS = ("64.0.0", "68.0.0", "70.1.0", "77.0.3", "newest")
#: Old versions of setuptools that a Python cannot import: it took distutils and pkgutil.ImpImporter away.
_TOO_OLD = {"3.12": ("64.0.0",), "3.13": ("64.0.0",), "3.14": ("64.0.0",), "3.15": ("64.0.0",)}


@dataclass(frozen=True)
class Row:
    """One build: a value of each dimension."""

    mode: str
    layout: str
    backend: str
    python: str
    setuptools: str

    @property
    def pairs(self) -> Iterator[tuple[tuple[int, str], tuple[int, str]]]:
        """Every two of its values."""
        return itertools.combinations(enumerate(astuple(self)), 2)


def find_rows(pythons: Iterable[str], backends: Iterable[str], versions: Sequence[str]) -> list[Row]:
    """Every row that can exist."""
    rows = []
    for mode, layout, backend, python in itertools.product(MODES, LAYOUTS, backends, pythons):
        own = "setuptools" in backend
        if not supports(backend, layout) or not MODES[mode](backend, layout):
            continue
        for version in versions if own else ["-"]:
            if version not in _TOO_OLD.get(python, ()):
                rows.append(Row(mode, layout, backend, python, version))
    return rows


def choose_pairwise(rows: Sequence[Row], strength: int = 2) -> list[Row]:
    """A small choice of ``rows`` in which every two values that meet in any of them meet.

    Args:
        rows: all that can exist.
        strength: 2, or 1 for a choice in which every single value occurs.
    """
    facts = {row: set(row.pairs) if strength == 2 else set(enumerate(astuple(row))) for row in rows}
    missing = set().union(*facts.values())
    chosen = []
    while missing:
        best = max(rows, key=lambda row: len(facts[row] & missing))
        chosen.append(best)
        missing -= facts[best]
    return sorted(chosen, key=rows.index)


def check_pairs(report: Report, possible: Iterable[Row], rows: Iterable[Row], *, quick: bool) -> None:
    """Counts afresh what the chosen rows cover."""
    if quick:
        wanted, covered = ({value for row in some for value in enumerate(astuple(row))} for some in (possible, rows))
    else:
        wanted, covered = ({pair for row in some for pair in row.pairs} for some in (possible, rows))
    what = "value" if quick else "pair of values"
    report.check(f"every {what} that can occur does", covered == wanted, f"{len(covered)} of {len(wanted)}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="this interpreter, what is installed, each value once")
    parser.add_argument("--scratch", metavar="DIR", type=Path, help="where environments and projects go; kept")
    parser.add_argument("--only", metavar="TEXT", default="", help="only rows whose line holds this text")
    parser.add_argument("--jobs", type=int, default=2, help="how many rows are built at a time")
    options = parser.parse_args()
    report = Report("every way to build")
    with tempfile.TemporaryDirectory() as temporary:
        scratch = (options.scratch or Path(temporary)).resolve()
        prepared = prepare_quick(scratch) if options.quick else prepare_full(scratch, SETUPTOOLS, report.note)
        versions = ("newest",) if options.quick else SETUPTOOLS
        possible = find_rows(prepared.pythons, [name for name in BACKENDS if name in prepared.backends], versions)
        possible = [row for row in possible if row.mode != "uv build" or prepared.uv]
        possible = [row for row in possible if row.layout != "Cython" or prepared.cython]
        rows = choose_pairwise(possible, 1 if options.quick else 2)
        absent = [name for name in BACKENDS if name not in prepared.backends]
        absent += [name for name, there in (("uv", prepared.uv), ("Cython", prepared.cython)) if not there]
        report.note(f"{len(rows)} rows of {len(possible)} that can exist; Python {', '.join(prepared.pythons)}")
        if absent:
            report.note(f"not installed, so not in the table: {', '.join(absent)}")
        check_pairs(report, possible, rows, quick=options.quick)
        rows = [row for row in rows if options.only in " ".join(astuple(row))]
        run_rows(report, prepared, rows, options.jobs)
        for version in versions:
            python = [one for one in prepared.pythons if version not in _TOO_OLD.get(one, ())][-1]
            name = f"an unrelated project is untouched, setuptools {version}, Python {python}"
            problem = run_unrelated(prepared, prepared.pythons[python], version)
            report.check(name, not problem, problem)
    return report.status()


def run_rows(report: Report, prepared: Prepared, rows: Sequence[Row], jobs: int) -> None:
    """Builds all rows, and prints the table as they are done, in order."""
    report.note(f"{'':4}{'mode':15}{'layout':15}{'back-end':22}{'Python':8}{'setuptools':11}seconds")

    def build(numbered: tuple[int, Row]) -> tuple[list[str], float]:
        start = time.perf_counter()
        number, row = numbered
        python: Installed = prepared.pythons[row.python]
        problems = run_row(prepared, python, number, row.mode, row.layout, row.backend, row.setuptools)
        return problems, time.perf_counter() - start

    with ThreadPoolExecutor(jobs) as pool:
        numbered = list(enumerate(rows, start=1))
        for (number, row), (problems, seconds) in zip(numbered, pool.map(build, numbered), strict=True):
            line = f"{number:3} {row.mode:15}{row.layout:15}{row.backend:22}{row.python:8}{row.setuptools:11}"
            report.check(f"{line}{seconds:5.1f}", not problems)
            for problem in problems:
                report.note(f"    {problem}")


if __name__ == "__main__":
    sys.exit(main())
