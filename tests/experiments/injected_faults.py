# SPDX-License-Identifier: Apache-2.0
"""Calls of the operating system that fail: the right answer all the same, and at most one warning.

    python3 tests/experiments/injected_faults.py [--quick] [--jobs N]

Every work that publishes (``disk_work.py``), and the binding of shipped and cached images, is done again and again,
each time with another call of ``os``, ``mmap``, ``fcntl`` or ``open`` that ends in EBUSY, ESTALE, ENOSPC, EACCES,
EROFS, EDQUOT or EMFILE: once, instead of the call or after it; or all calls of its name from then on; or all calls
whatever. The cache keeps what it cannot write in this process's memory; a build says what is wrong and leaves what was
there. Afterwards nothing is lost, nothing wrong is found, nothing is left open, and the same work succeeds. Of the
calls in the source of these parts, each must have failed at least once.
"""

from __future__ import annotations

import argparse
import ast
import collections
import errno
import io
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from disk_calls import Call, DiskCalls, Phase
from disk_work import BINDINGS, TOLD, WORKS, Work, copy_state
from reporting import CHECKOUT, Report

from cudabuild import config
from cudabuild.cache import batch, shelf, store
from cudabuild.cache.locks import prepare_locks

__all__ = ["main"]

ERRORS = (errno.EBUSY, errno.ESTALE, errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE)

#: ``once``: instead of the call; ``lost``: after it, as where a file server's answer is lost; ``kind``: it and all
#: later calls of its name; ``all``: it and all later ones.
MODES = ("once", "lost", "kind", "all")

#: The longest that a work may take whose calls fail, in seconds, with waits for locks of ``WAIT``.
LONGEST = 5.0
WAIT = 0.05

#: Where calls are counted.
ROOMS = ("cache", "image", "importer/binding.py", "fingerprint/checks.py", "build/write.py", "build/wheel_file.py",
         "build/sdist_file.py", "recording/write.py")  # fmt: skip


#: The calls in them that no work here makes, with the reason.
UNREACHED = {
    ("cache/location.py", "os.path.islink"): "only where a name that must be there stays invisible",
    ("cache/locks.py", "os.close"): "in a forked process",
    ("image/index.py", "open"): "of commands that list what is shipped; they tell what the system says",
    ("build/sdist_file.py", "tarfile.open"): "writes to a file that is open; the calls come later",
}


class Fault:
    """Makes calls fail."""

    def __init__(self, number: int, name: str, mode: str, error: int) -> None:
        self.number, self.name, self.mode, self.error = number, name, mode, error
        self.lines: set[tuple[str, int]] = set()
        self.reached: set[tuple[str, int]] = set()

    def __call__(self, call: Call, phase: Phase) -> None:
        self.reached.add((call.file, call.line))
        if self.mode == "lost":
            fails = call.number == self.number and phase in ("half", "after")
        elif phase != "before":
            fails = False
        elif self.mode == "once":
            fails = call.number == self.number
        else:
            fails = call.number >= self.number and (self.mode == "all" or call.name == self.name)
        if fails:
            self.lines.add((call.file, call.line))
            raise OSError(self.error, os.strerror(self.error), call.path)


def list_calls(work: Work, base: str, folder: str) -> list[Call]:
    """The calls of a work that nothing disturbs."""
    calls: list[Call] = []
    prepare_state(work, base, folder)
    with DiskCalls([folder, *work.also], lambda call, phase: calls.append(call) if phase == "before" else None):
        result = work.do(folder)
    wrong = [*work.check_result(result), *work.check(folder, True)]
    if wrong:
        raise RuntimeError(f"{work.name}: wrong without a fault: {wrong}")
    return calls


def prepare_state(work: Work, base: str, folder: str) -> None:
    if work.is_read_only:
        work.forget()
    else:
        copy_state(base, folder)
    config._warned.clear()


def inject(work: Work, base: str, folder: str, fault: Fault) -> list[str]:
    """Does a work with a fault; what is wrong with what came of it."""
    prepare_state(work, base, folder)
    found: list[str] = []
    result = None
    told, sys.stderr = sys.stderr, io.StringIO()
    start = time.perf_counter()
    try:
        with DiskCalls([folder, *work.also], fault):
            result = work.do(folder)
    except TOLD as error:
        if not work.tells_errors:
            found.append(f"raised {type(error).__name__}: {error}")
    except Exception as error:
        found.append(f"raised {type(error).__name__}: {error}")
    finally:
        seconds = time.perf_counter() - start
        warnings = sys.stderr.getvalue().splitlines()  # type: ignore[attr-defined]
    try:
        if len(warnings) > 1 + work.warnings:
            found.append(f"{len(warnings)} warnings: {warnings}")
        if seconds > LONGEST:
            found.append(f"took {seconds:.1f} s")
        found += [f"in its own process: {one}" for one in (work.check_result(result) if result is not None else [])]
        del result
        found += [f"afterwards: {one}" for one in work.check(folder, False)]
        work.forget()
        again = work.do(folder)
        found += [f"after the next work: {one}" for one in [*work.check_result(again), *work.check(folder, True)]]
        found += [f"hours later: {one}" for one in [*work.check_rest(folder), *work.check(folder, True)]]
    except Exception as error:
        found.append(f"afterwards: {type(error).__name__}: {error}")
    finally:
        sys.stderr = told
    return found


def inject_everywhere(work: Work, scratch: str, quick: bool) -> dict[str, Any]:
    """Lets every call of a work fail in every way; in the quick form each in one way, another for each."""
    base, folder = os.path.join(scratch, "base"), os.path.join(scratch, "state")
    os.makedirs(base)
    work.prepare(folder if work.is_read_only else base)
    calls = list_calls(work, base, folder)
    lines = {(call.file, call.line) for call in calls}
    failed: set[tuple[str, int]] = set()
    faults: list[str] = []
    runs = 0
    rng = random.Random(work.name)
    ways = [(mode, error) for mode in MODES for error in ERRORS]
    work.forget()
    before = _open_files()
    for call in calls:
        for mode, error in [rng.choice(ways)] if quick else ways:
            fault = Fault(call.number, call.name, mode, error)
            found = inject(work, base, folder, fault)
            what = f"{errno.errorcode[error]} {mode} {call.name} at {call.file}:{call.line}"
            faults += [f"{what}: {one}" for one in found]
            failed |= fault.reached if quick else fault.lines
            runs += 1
    work.forget()
    after = _open_files()
    if after > before:
        faults.append(f"{after - before} files were left open")
    return {"name": work.name, "runs": runs, "calls": len(calls), "lines": len(lines), "failed": sorted(failed),
            "faults": faults}  # fmt: skip


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0


# Which calls there are


_FUNCTIONS = {
    "os": {"access", "chmod", "fsync", "link", "listdir", "lstat", "makedirs", "mkdir", "open", "close",
           "remove", "rename", "replace", "rmdir", "scandir", "stat", "truncate", "unlink", "utime", "ftruncate"},
    "os.path": {"exists", "isdir", "isfile", "islink", "lexists", "getmtime", "getsize", "realpath"},
    "mmap": {"mmap"}, "fcntl": {"flock", "lockf", "fcntl"}, "shutil": {"copy", "copymode", "copyfile", "rmtree"},
    "tempfile": {"mkstemp", "mkdtemp"}, "zipfile": {"ZipFile"}, "tarfile": {"open"},
}  # fmt: skip


def list_sites() -> list[tuple[str, int, int, str]]:
    """File, first and last line, and text of every call on files in the rooms."""
    sites = []
    root = CHECKOUT / "cudabuild"
    for room in ROOMS:
        for path in [root / room] if room.endswith(".py") else sorted((root / room).glob("*.py")):
            text = path.read_text("utf-8")
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, ast.Call) and _is_on_files(node.func):
                    place = path.relative_to(root).as_posix()
                    sites.append((place, node.lineno, node.end_lineno or node.lineno, ast.unparse(node.func)))
    return sites


def _is_on_files(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id == "open"
    if not isinstance(function, ast.Attribute):
        return False
    return function.attr in _FUNCTIONS.get(ast.unparse(function.value), ())


# The parts of the experiment, shared out to processes


def run_part(tasks: list[list[Any]]) -> None:
    """Does some tasks, one line of JSON each."""
    prepare_locks()
    for module, name in ((store, "BUILD_WAIT"), (batch, "BUILD_WAIT"), (shelf, "_PUBLISH_WAIT")):
        assert hasattr(module, name)
        setattr(module, name, WAIT)
    works = {work.name: work for work in (*WORKS, *BINDINGS)}
    for name, quick in tasks:
        scratch = tempfile.mkdtemp(prefix="injected-faults-")
        try:
            result = inject_everywhere(works[name], scratch, quick)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        print(json.dumps(result), flush=True)


def run_parts(tasks: list[list[Any]], jobs: int) -> list[dict[str, Any]]:
    """Does all tasks in ``jobs`` processes."""

    def run(part: list[list[Any]]) -> list[dict[str, Any]]:
        command = [sys.executable, os.path.abspath(__file__), "--part", json.dumps(part)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"a part failed:\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
        return [json.loads(line) for line in done.stdout.splitlines()]

    parts = [tasks[start::jobs] for start in range(jobs)]
    with ThreadPoolExecutor(jobs) as pool:
        return [result for part in pool.map(run, [part for part in parts if part]) for result in part]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every call fails in one way")
    parser.add_argument("--only", help="the works whose names hold this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        run_part(json.loads(options.part))
        return 0
    report = Report("calls of the operating system that fail")
    names = [work.name for work in (*WORKS, *BINDINGS) if not options.only or options.only in work.name]
    results = run_parts([[name, options.quick] for name in names], options.jobs)
    failed: set[tuple[str, int]] = set()
    for result in sorted(results, key=lambda result: names.index(result["name"])):
        detail = f"{result['runs']} faults at {result['calls']} calls of {result['lines']} lines"
        faults = summarise(result["faults"])
        report.check(result["name"], not faults, "\n         ".join([detail, *faults]))
        failed.update((file, line) for file, line in result["failed"])
    if not options.only:
        missing = [f"{file}:{first} {text}" for file, first, last, text in list_sites()
                   if (file, text) not in UNREACHED
                   and not any((file, line) in failed for line in range(first, last + 1))]  # fmt: skip
        what = "was made while another failed" if options.quick else "has failed"
        report.check(f"every call in the source {what}", not missing, "\n         ".join(["", *missing]))
    report.check("faults", sum(result["runs"] for result in results) > 0, sum(result["runs"] for result in results))
    return report.status()


def summarise(faults: list[str]) -> list[str]:
    """One line for each place and kind of fault."""
    groups: dict[tuple[str, str], list[str]] = collections.defaultdict(list)
    for fault in faults:
        what, _, wrong = fault.partition(": ")
        groups[(what.rpartition(" at ")[2], wrong[:40])].append(fault)
    lines = [f"{found[0][:600]}  ({len(found)} times)" for found in groups.values()]
    return [*lines[:25], *(["…"] if len(lines) > 25 else [])]


if __name__ == "__main__":
    sys.exit(main())
