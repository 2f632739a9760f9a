# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin of the child processes: imports the suite's files by their own names and writes down what happens.

``CONFORMANCE_SUITE`` is the unpacked ``tests`` folder, ``CONFORMANCE_RESULTS`` the file that takes one JSON object a
line: ``{"start": id}`` when an item begins, so that one that ends the process is known, and its result afterwards.
``CONFORMANCE_WANTED`` names a file with the ids to run; without it every item runs.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numba
import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__: list[str] = []

SUITE = Path(os.environ["CONFORMANCE_SUITE"])
_LONGEST_TEXT = 6000


class Record:
    """What is known of the running item."""

    def __init__(self) -> None:
        self.outcomes: list[str] = []
        self.reason = ""
        self.text = ""
        self.began = time.perf_counter()
        self.texts_before = numba._source_hook.registered


_records: dict[str, Record] = {}


def _write(entry: dict[str, Any]) -> None:
    with open(os.environ["CONFORMANCE_RESULTS"], "a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")


# collection


class SuiteModule(pytest.Module):
    """A file of the suite under the name that it has in the package."""

    def _getobj(self) -> Any:
        name = ".".join(("numba.cuda.tests", *self.path.relative_to(SUITE).with_suffix("").parts))
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        numba._source_hook.attach(module)
        spec.loader.exec_module(module)
        return module


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector:
    return pytest.Dir.from_parent(parent, path=path)  # a package's __init__ is imported by the names above only


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module:
    module: pytest.Module = SuiteModule.from_parent(parent, path=module_path)
    return module


def pytest_collectreport(report: pytest.CollectReport) -> None:
    if report.outcome != "passed":
        text = report.longreprtext if report.failed else str(report.longrepr)
        outcome = "error" if report.failed else "skipped"
        _write({"file": report.nodeid, "outcome": outcome, "reason": _last_line(text), "text": text[-_LONGEST_TEXT:]})


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    listing = os.environ.get("CONFORMANCE_WANTED")
    if listing:
        wanted = set(Path(listing).read_text("utf-8").splitlines())
        config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in wanted])
        items[:] = [item for item in items if item.nodeid in wanted]


# running


def pytest_runtest_logstart(nodeid: str) -> None:
    _records[nodeid] = Record()
    numba._dummies.running = True
    _write({"start": nodeid})


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    report: Any = yield
    record = _records[item.nodeid]
    if call.excinfo is not None and not record.reason and report.outcome != "passed":
        record.reason = _reason(call.excinfo.value) if report.failed else str(call.excinfo.value)
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    record = _records.setdefault(report.nodeid, Record())
    outcome = str(report.outcome)
    if hasattr(report, "wasxfail"):
        outcome = "xfailed" if outcome == "skipped" else "xpassed"
    record.outcomes.append(outcome)
    if outcome == "failed" and not record.text:
        record.text = report.longreprtext[-_LONGEST_TEXT:]
        record.reason = record.reason or _last_line(record.text)


def pytest_runtest_logfinish(nodeid: str) -> None:
    record = _records.pop(nodeid)
    numba._dummies.running = False
    for outcome in ("failed", "xfailed", "xpassed", "skipped"):
        if outcome in record.outcomes:
            break
    else:
        outcome = "passed"
    _write(
        {
            "id": nodeid,
            "outcome": outcome,
            "reason": "" if outcome == "passed" else record.reason[:400],
            "text": "" if outcome == "passed" else record.text,
            "seconds": round(time.perf_counter() - record.began, 3),
            "hooked": numba._source_hook.registered > record.texts_before,
        }
    )


def _reason(error: BaseException) -> str:
    """One line that says why: our own errors by their first diagnostic, a child process by the end of its output."""
    diagnostics = getattr(error, "diagnostics", None)
    if diagnostics:
        first = diagnostics[0]
        return f"{type(error).__name__}: {first.title}: {first.found}".rstrip(": ")
    output = getattr(error, "stderr", None)
    text = output.decode(errors="replace") if isinstance(output, bytes) else output or str(error)
    if "Traceback (most recent call last)" in text:
        return _last_error(text)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    found = [line.removeprefix("found:").strip() for line in lines if line.startswith("found:")]
    head = f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__
    return f"{head}: {found[0]}" if found else head


def _last_error(text: str) -> str:
    """Of an uncaught exception's text, the line that names it with the one that says what was found."""
    lines = text.rstrip().splitlines()
    start = max(number for number, line in enumerate(lines) if line.startswith("Traceback (most recent call last)"))
    while start + 1 < len(lines) and (lines[start + 1].startswith("  ") or not lines[start + 1]):
        start += 1
    told = [line.strip() for line in lines[start + 1 :]] or [lines[-1].strip()]
    found = [line.removeprefix("found:").strip() for line in told if line.startswith("found:")]
    return ": ".join(told[:1] + found[:1])


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("E  ")]
    last = (errors or lines or [""])[-1].removeprefix("E").strip()
    missing = re.match(r"ImportError: cannot import name '(\w+)' from '(numba[\w.]*)'", last)
    return f"AttributeError: cudabuild has no {missing[1]} (asked of {missing[2]})" if missing else last
