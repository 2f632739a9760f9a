# SPDX-License-Identifier: Apache-2.0
"""The table of ``README.md``: kinds of faults, and the tests that provoke them."""

from __future__ import annotations

import re
from pathlib import Path

__all__ = ["TESTS", "Case", "read_cases"]

TESTS = Path(__file__).resolve().parent.parent


class Case:
    """One line of the table.

    Attributes:
        section: ``A`` to ``J``.
        kind: what goes wrong.
        threads: where it was seen: ``numba#10434`` …
        holds: what happens here instead.
        tests: ``cases/test_races.py::test_…``, below ``tests/``; an experiment has no ``::``.
    """

    def __init__(self, section: str, kind: str, threads: list[str], holds: str, tests: list[str]) -> None:
        self.section = section
        self.kind = kind
        self.threads = threads
        self.holds = holds
        self.tests = tests


def read_cases() -> list[Case]:
    """All lines of the table, in order."""
    found = []
    section = ""
    for line in (TESTS / "cases" / "README.md").read_text("utf-8").splitlines():
        heading = re.match(r"## ([A-Z])\. ", line)
        if heading:
            section = heading[1]
        if not section or not line.startswith("| ") or line.startswith(("| kind", "| ---")):
            continue
        kind, threads, holds, tests = (cell.strip() for cell in line.strip("| ").split(" | "))
        found.append(Case(section, kind, threads.split(", "), holds, re.findall(r"`([^`]+)`", tests)))
    return found
