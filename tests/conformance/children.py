# SPDX-License-Identifier: Apache-2.0
"""Runs the suite's files, one child process each, and collects what became of every item.

A child that dies or hangs costs the item that it was running: the rest of the file goes on in a new process.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from suite import Item

__all__ = ["Outcome", "Settings", "replace", "run_items"]

HERE = Path(__file__).resolve().parent
CHECKOUT = HERE.parent.parent


@dataclass(frozen=True)
class Outcome:
    """What became of an item.

    Attributes:
        verdict: ``passed``, ``failed``, ``skipped``, ``xfailed``, ``xpassed``; ``error`` (its file cannot be imported),
            ``died`` (the process ended or was ended), ``missing`` (the file does not offer it).
        reason: one line; empty where it passed.
        text: the whole story of a failure.
        seconds: how long it took.
        hooked: whether the source hook gave text to a function of its.
    """

    verdict: str
    reason: str = ""
    text: str = ""
    seconds: float = 0.0
    hooked: bool = False

    @property
    def passed(self) -> bool:
        return self.verdict == "passed"


@dataclass(frozen=True)
class Settings:
    """How children run.

    Attributes:
        suite: the unpacked ``tests`` folder.
        device: ``cpu`` or ``gpu``.
        work: a folder for this run's files.
        source_hook: whether functions without text are given theirs.
        item_limit, file_limit: seconds that an item, and all items of a file together, may take.
        grace: seconds on top of ``item_limit`` before a silent process is ended from outside.
        jobs: processes at a time.
        warnings: what Python does with warnings: ``default``, or ``error`` as the suite itself has it.
        tell: called with a line of progress.
    """

    suite: Path
    device: str
    work: Path
    source_hook: bool = True
    item_limit: int = 120
    file_limit: int = 1200
    grace: int = 30
    jobs: int = 2
    warnings: str = "default"
    tell: Callable[[str], Any] = field(default=print)


def run_items(items: Iterable[Item], settings: Settings) -> dict[str, Outcome]:
    """The outcome of every item, by id."""
    by_file: dict[str, list[str]] = {}
    for item in items:
        by_file.setdefault(item.file, []).append(item.id)
    found: dict[str, Outcome] = {}
    files = sorted(by_file, key=lambda file: -len(by_file[file]))  # long ones first
    with ThreadPoolExecutor(settings.jobs) as pool:
        for file, outcomes in zip(files, pool.map(lambda f: _run_file(f, by_file[f], settings), files), strict=True):
            found.update(outcomes)
            passed = sum(outcome.passed for outcome in outcomes.values())
            took = sum(outcome.seconds for outcome in outcomes.values())
            settings.tell(f"{file}: {passed} of {len(outcomes)} pass, {took:.1f} s")
    return found


def _run_file(file: str, ids: list[str], settings: Settings) -> dict[str, Outcome]:
    found: dict[str, Outcome] = {}
    deadline = time.monotonic() + settings.file_limit
    while left := [test for test in ids if test not in found]:
        folder = Path(tempfile.mkdtemp(dir=settings.work))
        ended = _run_child(file, left, folder, settings, deadline)
        before = len(found)
        _read_results(folder / "results", left, ended, found)
        if ended == "" or len(found) == before:
            reason = ended or "the file does not offer this test"
            verdict = "died" if ended else "missing"
            found.update({test: Outcome(verdict, reason) for test in left if test not in found})
    return found


def _run_child(file: str, ids: list[str], folder: Path, settings: Settings, deadline: float) -> str:
    """Runs one process; empty where it came to its end by itself, otherwise how it ended."""
    (folder / "wanted").write_text("\n".join(ids), encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    results = folder / "results"
    results.touch()
    command = [
        sys.executable, "-m", "pytest", "-q", "-c", folder / "pytest.ini", "--rootdir", settings.suite,
        "-p", "conformance_plugin", "-p", "no:cacheprovider", "-p", "no:randomly", "-W", settings.warnings,
        f"--timeout={settings.item_limit}", "--tb=short", settings.suite / file,
    ]  # fmt: skip
    with open(folder / "output", "wb") as output:
        child = subprocess.Popen(
            [str(part) for part in command],
            cwd=folder,
            env=_environment(folder, settings),
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            ended = _watch(child, results, settings, deadline)
        finally:
            _kill(child)
    if ended or child.returncode in (0, 1, 2, 5):  # 2: a collection error, which the plugin has told
        return ended
    tail = (folder / "output").read_text("utf-8", errors="replace").strip().splitlines()[-1:]
    how = f"signal {-child.returncode}" if child.returncode < 0 else f"status {child.returncode}"
    return f"the process ended with {how}: {''.join(tail)[:200]}"


def _watch(child: subprocess.Popen[bytes], results: Path, settings: Settings, deadline: float) -> str:
    """Waits for the child, at most until it has told nothing for longer than an item may take."""
    size, last = 0, time.monotonic()
    while True:
        try:
            child.wait(0.2)
            return ""
        except subprocess.TimeoutExpired:
            now = time.monotonic()
            if (grown := results.stat().st_size) != size:
                size, last = grown, now
            if now - last > settings.item_limit + settings.grace:
                return f"no answer within {settings.item_limit} s"
            if now > deadline:
                return f"the file took longer than {settings.file_limit} s"


def _kill(child: subprocess.Popen[bytes]) -> None:
    """Ends the child's process group: a test's own children too."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    finally:
        child.wait()


def _environment(folder: Path, settings: Settings) -> dict[str, str]:
    dropped = ("CUDABUILD_", "CONFORMANCE_", "NUMBA_", "PYTEST_", "PYTHON")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {
        **kept,
        "CONFORMANCE_RESULTS": str(folder / "results"),
        "CONFORMANCE_SOURCE_HOOK": str(int(settings.source_hook)),
        "CONFORMANCE_SUITE": str(settings.suite),
        "CONFORMANCE_WANTED": str(folder / "wanted"),
        "CUDABUILD_CACHE_DIR": str(settings.work / "cache"),
        "CUDABUILD_DEVICE": settings.device,
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONPATH": os.pathsep.join((str(HERE / "shim"), str(CHECKOUT))),
    }


def _read_results(path: Path, ids: list[str], ended: str, found: dict[str, Outcome]) -> None:
    started = ""
    for line in path.read_text("utf-8").splitlines():
        entry = json.loads(line)
        if "start" in entry:
            started = entry["start"]
        elif "file" in entry:  # nothing of it can run
            outcome = Outcome(entry["outcome"], entry["reason"], entry["text"])
            found.update({test: outcome for test in ids if test not in found and test.startswith(entry["file"])})
        else:
            found[entry["id"]] = Outcome(
                entry["outcome"], entry["reason"], entry["text"], entry["seconds"], entry["hooked"]
            )
            started = ""
    if started and started not in found:
        found[started] = Outcome("died", ended or "the process ended in this test")
