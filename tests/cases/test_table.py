# SPDX-License-Identifier: Apache-2.0
"""The table of cases is whole: every line has tests, every test exists, and each test here stands in it."""

from __future__ import annotations

import ast
from pathlib import Path

from case_table import TESTS, read_cases

#: Lines of each section: a case that is taken out of the table is missed here.
COUNTS = {"A": 8, "B": 10, "C": 17, "D": 7, "E": 8, "F": 3, "G": 3, "H": 1, "I": 2, "J": 1, "K": 1}


def find_tests(path: Path) -> dict[str, ast.FunctionDef]:
    """The tests of a file by name; those of a class as ``Class::test``."""
    found = {}
    for node in ast.parse(path.read_text("utf-8")).body:
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            for inner in node.body:
                if isinstance(inner, ast.FunctionDef) and inner.name.startswith("test"):
                    found[f"{node.name}::{inner.name}"] = inner
    return found


def test_every_section_is_whole() -> None:
    cases = read_cases()
    assert {section: sum(case.section == section for case in cases) for section in COUNTS} == COUNTS
    assert len(cases) == sum(COUNTS.values())
    for case in cases:
        assert case.kind
        assert case.holds
        assert all("#" in thread or " " in thread for thread in case.threads), case.kind
    threads = [thread for case in cases for thread in case.threads]
    assert len(threads) == len(set(threads))


def test_every_case_has_tests_that_exist() -> None:
    known: dict[str, dict[str, ast.FunctionDef]] = {}
    for case in read_cases():
        assert case.tests, case.kind
        for name in case.tests:
            file, _, test = name.partition("::")
            assert (TESTS / file).is_file(), f"{case.kind}: no file {file}"
            if not test:
                assert file.startswith("experiments/"), f"{case.kind}: {name} names no test"
                continue
            if file not in known:
                known[file] = find_tests(TESTS / file)
            assert test in known[file], f"{case.kind}: no test {name}"
            marks = [ast.unparse(mark) for mark in known[file][test].decorator_list]
            assert not any(mark.startswith(("pytest.mark.skip(", "pytest.mark.xfail")) for mark in marks), name


def test_every_test_here_stands_in_the_table() -> None:
    named = {name for case in read_cases() for name in case.tests}
    here = {
        f"cases/{path.name}::{test}"
        for path in (TESTS / "cases").glob("test_*.py")
        if path.name != Path(__file__).name
        for test in find_tests(path)
    }
    assert here - named == set()
