# SPDX-License-Identifier: Apache-2.0
"""Writers stopped and killed anywhere: afterwards every reader gets the right image, or a clean miss.

    python3 tests/experiments/killed_writers.py [--quick] [--kills N] [--jobs N]

First every work that publishes (``disk_work.py``) is stopped before, in the middle of and after each of its calls of
``os``, ``mmap``, ``fcntl`` and ``open``. While it stands there, and once more after its end by SIGKILL, two readers
look: one that is new, and one that had read everything before. Then the same work is done by another process, which
must not have to wait, and must leave nothing of the dead one behind. Then writers are killed at random times, alone and
in pairs, 10,000 times: what one of them has published, or a reader has found, must be found after every later kill.
"""

from __future__ import annotations

import argparse
import collections
import gc
import io
import json
import mmap
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from disk_calls import Call, DiskCalls, Phase
from disk_work import WORKS, InPlaceBuild, Recording, Work, age, copy_state, image_of, is_right
from reporting import Report

from cudabuild.cache.batch import Batch
from cudabuild.cache.locks import prepare_locks
from cudabuild.cache.store import Cache

__all__ = ["main"]

#: The longest that another writer may take after a kill, in seconds; a wait for the dead would take 30.
LONGEST = 5.0

#: So many kills go to one folder, then it is looked over and a new one begun.
CHUNK = 125


class Slot:
    """Memory that a writer shares with the one that kills it: what it was doing last."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096)

    def clear(self) -> None:
        self._memory[:8] = bytes(8)

    def note(self, count: int, text: str) -> None:
        self._memory[8:256] = text.encode()[:248].ljust(248)
        self._memory[:8] = struct.pack("<Q", count)

    def forget(self) -> None:
        self._memory[1024:2048] = bytes(1024)

    def mark(self, number: int) -> None:
        """Notes one of up to 1,024 things as done."""
        self._memory[1024 + number : 1025 + number] = b"1"

    def is_marked(self, number: int) -> bool:
        return self._memory[1024 + number : 1025 + number] == b"1"

    def read(self) -> tuple[int, str]:
        return struct.unpack("<Q", self._memory[:8])[0], self._memory[8:256].decode().strip()


SLOT = Slot()


def fork(work: Callable[[], object]) -> int:
    """Starts ``work`` in a copy of this process, with nowhere to write messages to; the copy's process id."""
    child = os.fork()
    if child:
        return child
    status = 3
    try:
        sys.stderr = io.StringIO()
        work()
        status = 0
    except BaseException as error:
        SLOT.note(1, f"{type(error).__name__}: {error}")
    finally:
        os._exit(status)


# At every call


def stop_at(work: Work, folder: str, point: int) -> tuple[int, bool]:
    """Starts a work that stops itself at its ``point``-th moment before, in or after a call; its process, and whether
    it got there."""
    count = 0

    def stop(call: Call, phase: Phase) -> None:
        nonlocal count
        count += 1
        if count == point:
            SLOT.note(count, f"{phase} {call.name} at {call.file}:{call.line}")
            os.kill(os.getpid(), signal.SIGSTOP)

    def run() -> None:
        with DiskCalls([folder], stop):
            work.do(folder)

    child = fork(run)
    _, status = os.waitpid(child, os.WUNTRACED)
    if os.WIFSTOPPED(status):
        return child, True
    if os.waitstatus_to_exitcode(status) != 0:
        raise RuntimeError(f"{work.name}: the writer failed at no fault: {SLOT.read()[1]}")
    return child, False


def stop_everywhere(work: Work, scratch: str, stride: int) -> dict[str, Any]:
    """Stops and kills one work at every ``stride``-th of its moments."""
    base, folder = os.path.join(scratch, "base"), os.path.join(scratch, "state")
    os.makedirs(base)
    work.prepare(base)
    faults: list[str] = []
    points, lines, slowest = 0, set(), 0.0
    point = 1 + random.Random(work.name).randrange(stride)
    while True:
        copy_state(base, folder)
        reader = work.open_reader(folder)
        child, stopped = stop_at(work, folder, point)
        if not stopped:
            break
        _, where = SLOT.read()
        found = [f"while it is stopped: {fault}" for fault in [*work.check(folder, False), *reader()]]
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found += [f"after its end: {fault}" for fault in [*work.check(folder, False), *reader()]]
        start = time.perf_counter()
        work.do(folder)
        slowest = max(slowest, time.perf_counter() - start)
        found += [f"after the next work: {fault}" for fault in [*work.check(folder, True), *reader()]]
        found += [f"hours later: {fault}" for fault in [*work.check_rest(folder), *work.check(folder, True)]]
        faults += [f"killed {where}: {fault}" for fault in found]
        lines.add(where.rpartition(" at ")[2])
        points += 1
        point += stride
    if slowest > LONGEST:
        faults.append(f"the next writer took {slowest:.1f} s")
    return {"name": work.name, "points": points, "lines": sorted(lines), "slowest": slowest, "faults": faults}


# At random times


class Storm:
    """Writers that go on until they are killed."""

    name = ""
    writers = 1
    span = 0.008  #: a kill comes within so many seconds of the writer's first call

    def prepare(self, folder: str) -> None:
        """Makes the state before the first one."""

    def write(self, folder: str, rng: random.Random) -> None:
        """Publishes something; called again and again."""
        raise NotImplementedError

    def check(self, folder: str) -> list[str]:
        """What is wrong for a reader after a kill."""
        raise NotImplementedError

    def finish(self, folder: str) -> list[str]:
        """What is wrong when a whole work follows upon the last kill."""
        return []


class CacheStorm(Storm):
    name = "one writer of a cache"
    limit: int | None = None
    NAMES = [(f"k{number}", target) for number in range(10) for target in ("sm_80", "sm_90")]

    def __init__(self) -> None:
        self._seen: set[tuple[str, str]] = set()

    def prepare(self, folder: str) -> None:
        self._seen = set()
        SLOT.forget()

    def write(self, folder: str, rng: random.Random) -> None:
        cache = Cache(folder, limit=self.limit)
        for _ in range(rng.randrange(1, 4)):
            names = rng.sample(self.NAMES, rng.randrange(1, 4))
            way = rng.randrange(4)
            if way == 0:
                for name, target in names:
                    key = image_of(name, target).key
                    cache.build_once(key, target, lambda name=name, target=target: image_of(name, target))  # type: ignore[misc]
            elif way == 1:
                batch = Batch(cache)
                for name, target in names:
                    batch.claim(image_of(name, target).key)
                    batch.add(image_of(name, target))
                batch.flush()
            else:
                cache.publish(*(image_of(name, target) for name, target in names))
            for name in names:
                SLOT.mark(self.NAMES.index(name))
            if way == 2:
                cache.write_note(f"tools-{rng.randrange(3)}", b"note" * 100)

    def check(self, folder: str) -> list[str]:
        cache = Cache(folder)
        faults = []
        for number, (name, target) in enumerate(self.NAMES):
            image = cache.find(image_of(name, target).key, target)
            was_there = (name, target) in self._seen or SLOT.is_marked(number)
            if image is None and was_there and self.limit is None:
                faults.append(f"{name} for {target} had been published and is lost")
            elif image is not None:
                self._seen.add((name, target))
                if not is_right(image, name, target):
                    faults.append(f"{name} for {target} is a wrong image")
        return faults

    def finish(self, folder: str) -> list[str]:
        age(folder)
        Cache(folder).publish(*(image_of(name, target) for name, target in self.NAMES))
        self._seen.update(self.NAMES)
        faults = self.check(folder)
        for target in ("sm_80", "sm_90"):
            shelf = Cache(folder).shelves(target)[0]
            needed = {f"seg-{segment:016x}.cuar" for segment in shelf._read_index().segments} | {"index.cuix", ".lock"}
            rest = set(os.listdir(os.path.join(folder, target))) - needed
            faults += [f"{target}/{name} is left behind" for name in sorted(rest)]
        return faults


class PairStorm(CacheStorm):
    name = "two writers of one cache"
    writers = 2
    span = 0.04  # so long that each publishes in the middle of the other's publishing


class EvictingStorm(CacheStorm):
    name = "two writers of a cache that is full"
    writers = 2
    limit = 30_000


class BuildStorm(Storm):
    name = "an in-place build"
    _work = InPlaceBuild()

    def prepare(self, folder: str) -> None:
        self._work.prepare(folder)

    def write(self, folder: str, rng: random.Random) -> None:
        self._work._build(folder, rng.choice([self._work.OLD, self._work.NEW]))

    def check(self, folder: str) -> list[str]:
        # Archives of both builds may stand there; each is whole, and one of the two.
        return [fault for fault in self._work.check(folder, False) if "lost" not in fault]

    def finish(self, folder: str) -> list[str]:
        self._work.do(folder)
        return [*self._work.check(folder, True), *self._work.check_rest(folder)]


class RecordingStorm(Storm):
    name = "a signature file"
    _work = Recording()

    def prepare(self, folder: str) -> None:
        self._work.prepare(folder)

    def write(self, folder: str, rng: random.Random) -> None:
        self._work.do(folder)
        if rng.random() < 0.3:  # so that there is something to add again
            self._work.prepare(folder)

    def check(self, folder: str) -> list[str]:
        return self._work.check(folder, False)


STORMS: dict[str, tuple[type[Storm], float]] = {
    storm.name: (storm, share)
    for storm, share in [
        (CacheStorm, 0.35), (PairStorm, 0.25), (EvictingStorm, 0.2), (BuildStorm, 0.15), (RecordingStorm, 0.05),
    ]
}  # fmt: skip


def kill_at_random(storm: Storm, scratch: str, kills: int, seed: int) -> dict[str, Any]:
    """Kills ``kills`` writers, each at a random moment of its work."""
    folder = os.path.join(scratch, "state")
    os.makedirs(folder, mode=0o700)
    storm.prepare(folder)
    rng = random.Random(seed)
    faults: list[str] = []
    moments: collections.Counter[str] = collections.Counter()
    done = 0
    while done < kills:
        SLOT.clear()
        seeds = [seed * 7919 + done * 2 + number for number in range(storm.writers)]
        children = [fork(partial(_write_on, storm, folder, one)) for one in seeds]
        while SLOT.read()[0] == 0:
            time.sleep(0.0001)
        for child in rng.sample(children, len(children)):
            time.sleep(rng.uniform(0.0, storm.span))
            os.kill(child, signal.SIGKILL)
            _, status = os.waitpid(child, 0)
            if os.waitstatus_to_exitcode(status) != -signal.SIGKILL:
                faults.append(f"a writer ended by itself: {SLOT.read()[1]}")
            done += 1
        moment = SLOT.read()[1]
        moments[moment] += 1
        faults += [f"killed {moment}: {fault}" for fault in storm.check(folder)]
    faults += [f"after {done} kills: {fault}" for fault in storm.finish(folder)]
    return {"name": storm.name, "kills": done, "moments": dict(moments), "faults": faults}


def _write_on(storm: Storm, folder: str, seed: int) -> None:
    rng = random.Random(seed)
    count = 0

    def note(call: Call, phase: Phase) -> None:
        nonlocal count
        count += 1
        SLOT.note(count, f"{phase} {call.name} at {call.file}:{call.line}")

    with DiskCalls([folder], note):
        while True:
            storm.write(folder, rng)


# The parts of the experiment, shared out to processes


def run_part(tasks: list[list[Any]]) -> None:
    """Does some tasks, one line of JSON each."""
    prepare_locks()
    gc.collect()
    gc.freeze()  # forking copies less
    works = {work.name: work for work in WORKS}
    for kind, name, number, seed in tasks:
        scratch = tempfile.mkdtemp(prefix="killed-writers-")
        try:
            if kind == "stop":
                result = stop_everywhere(works[name], scratch, number)
            else:
                result = kill_at_random(STORMS[name][0](), scratch, number, seed)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        print(json.dumps({"kind": kind, **result}), flush=True)


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


def make_tasks(kills: int, stride: int) -> list[list[Any]]:
    tasks: list[list[Any]] = [["stop", work.name, stride, 0] for work in WORKS]
    for seed, (name, (_, share)) in enumerate(STORMS.items()):
        left = round(kills * share)
        while left > 0:
            tasks.append(["kill", name, min(CHUNK, left), seed * 1000 + left])
            left -= CHUNK
    return tasks


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="every eighth moment, 300 kills")
    parser.add_argument("--kills", type=int, help="kills at random times")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--part", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        run_part(json.loads(options.part))
        return 0
    kills = options.kills or (300 if options.quick else 10_000)
    report = Report("writers stopped before, in and after each call, and killed at random times")
    results = run_parts(make_tasks(kills, 8 if options.quick else 1), options.jobs)
    for result in results:
        if result["kind"] == "stop":
            detail = (
                f"stopped and killed at {result['points']} moments of {len(result['lines'])} lines; "
                f"the next writer took at most {result['slowest'] * 1000:.0f} ms"
            )
            tell(report, result["name"], result["faults"], detail)
    total = 0
    for name in STORMS:
        found = [result for result in results if result["kind"] == "kill" and result["name"] == name]
        moments = collections.Counter[str]()
        for result in found:
            moments.update(result["moments"])
        total += sum(result["kills"] for result in found)
        detail = f"{sum(result['kills'] for result in found)} kills at {len(moments)} different moments"
        tell(report, name, [fault for result in found for fault in result["faults"]], detail)
    report.check("kills at random times", total >= kills, total)
    return report.status()


def tell(report: Report, name: str, faults: list[str], detail: str) -> None:
    report.check(name, not faults, "\n         ".join([detail, *faults[:8], *(["…"] if len(faults) > 8 else [])]))


if __name__ == "__main__":
    sys.exit(main())
