# SPDX-License-Identifier: Apache-2.0
"""The threads that run blocks: one pool per process, a launch shared out among them.

Compiled code cannot be interrupted, so it never runs on the thread that asked for the launch: that thread waits in
slices, between which Python looks at signals. A launch that is broken off raises its stop flag (read at every block
start); workers stuck inside a block are left behind, with everything they still use, and a fresh pool takes over.

Two kinds of pools: one whose threads wait in compiled code (``handover.py``), and one that waits in Python.
"""

from __future__ import annotations

import ctypes
import os
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING

from cudabuild.cpu.handover import CLOSED, DONE, FULL, POOL_SIZE

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabuild.cpu.handover import Handover

__all__ = ["Job", "core_count", "report_error", "run_job"]

#: Kernels keep local arrays (up to 512 KiB a thread, as on a GPU) and recursion on the worker's stack. Address space is
#: reserved; memory is used only as far as it is touched.
_STACK = 64 << 20

#: How long an interrupted launch may take to reach its next block start before its workers are given up, in seconds.
_GRACE = 0.9

#: How long a caller waits at a time, in nanoseconds. A signal to its thread ends a slice; to another's, the next look.
_SLICE = 50_000_000

#: Bytes of each worker's own beside the pool (``Handover.work``): a cache line.
_MINE = 64

_ENTRY = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)


class Job:
    """One launch: what every worker calls, and what must stay alive while one of them may still be in there.

    Args:
        enter: the address of a ``void (LAUNCH *, int core)`` that runs blocks until none is left; called once per
            worker, at the same time. A core, or a worker, begins with the same part of the grid each time.
        launch: the address of its argument.
        stop: makes every ``enter`` return at its next block start.
        keep: buffers and arrays that the compiled code reads and writes.
    """

    __slots__ = ("enter", "error", "finished", "keep", "launch", "lock", "stop", "wanted", "within")

    def __init__(self, enter: int, launch: int, stop: Callable[[], None], keep: object) -> None:
        self.enter = enter
        self.launch = launch
        self.stop = stop
        self.keep = keep
        self.error: BaseException | None = None
        # Of a pool in Python: how many workers may still come, and how many are there.
        self.wanted = self.within = 0
        self.lock = threading.Lock()
        self.finished = threading.Lock()

    def run(self) -> None:
        """Does a worker's share, or the whole launch, on this thread."""
        before, _here.job = _here.job, self
        try:
            _ENTRY(self.enter)(self.launch, _here.number)
        finally:
            _here.job = before

    def join(self, queue: SimpleQueue[Job | None]) -> bool:
        """Says that this worker comes, and calls the next one; False if it need not come."""
        with self.lock:
            if not self.wanted:
                return False
            self.within += 1
            self.wanted -= 1
            more = self.wanted > 0
        if more:
            queue.put(self)
        return True

    def leave(self) -> None:
        """Says that this worker has found no block left: no other need come; the last one wakes the caller."""
        with self.lock:
            self.wanted = 0
            self.within -= 1
            last = self.within == 0
        if last:
            self.finished.release()


class _Here(threading.local):
    """What the thread of a worker knows: who it is, and the job that Python has it do."""

    pool: _Pool | None = None
    number = 0
    job: Job | None = None


_here = _Here()


class _Pool:
    """Daemon threads that do jobs; here they wait at a queue in Python, and callers at a lock."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.closed = False
        self.queue: SimpleQueue[Job | None] = SimpleQueue()
        before = threading.stack_size(_STACK)
        try:
            for number in range(size):
                name = f"cudabuild-cpu-{number}"
                threading.Thread(target=self._start, args=(number,), name=name, daemon=True).start()
        finally:
            threading.stack_size(before)

    def _start(self, number: int) -> None:
        _here.pool, _here.number = self, number
        self.work(number)

    def work(self, number: int) -> None:
        """Does jobs until the pool is closed."""
        while (job := self.queue.get()) is not None:
            if job.join(self.queue):
                job.run()
                job.leave()
            del job  # an idle worker must not keep the arrays of its last launch alive

    def find_job(self, number: int) -> Job | None:
        """The job that a worker has got from elsewhere than Python."""
        return None

    def begin(self, job: Job, workers: int, cores: int) -> int:
        """Has so many workers do ``job`` (0), or tells why not: ``FULL``, ``CLOSED``. It may be ``DONE``, too."""
        with _guard:
            if self.closed:
                return CLOSED
            job.finished.acquire()
            job.wanted = workers
            self.queue.put(job)  # whoever takes it gives it to the next: an interrupt here finds all begun, or nothing
        return 0

    def wait(self, job: Job) -> bool:
        """Waits for a slice of time; True once no worker is in the job, and if it was not begun."""
        if job.wanted or job.within:
            job.finished.acquire(timeout=_SLICE * 1e-9)
        return not (job.wanted or job.within)

    def forget(self, job: Job) -> None:
        """No worker is in the job."""

    def close(self) -> None:
        """Lets every worker end once it is out of the job it is in; called with the guard."""
        self.closed = True
        for _ in range(self.size):
            self.queue.put(None)


class _CompiledPool(_Pool):
    """Its workers never come back to Python while there are launches to do or to wait for."""

    def __init__(self, size: int, handover: Handover) -> None:
        self.handover = handover
        #: The launches that workers may be in, by address: what they use lives as long.
        self.jobs: dict[int, Job] = {}
        self.memory = ctypes.create_string_buffer(POOL_SIZE + _MINE * size + 64)
        self.address = -(-ctypes.addressof(self.memory) // 64) * 64
        super().__init__(size)

    def _find_mine(self, number: int) -> int:
        return self.address + POOL_SIZE + _MINE * number

    def work(self, number: int) -> None:
        self.handover.work(self.address, self._find_mine(number))

    def find_job(self, number: int) -> Job | None:
        return self.jobs.get(ctypes.c_uint64.from_address(self._find_mine(number)).value)

    def begin(self, job: Job, workers: int, cores: int) -> int:
        self.jobs[job.launch] = job
        return int(self.handover.post(self.address, job.enter, job.launch, workers, cores, _SLICE))

    def wait(self, job: Job) -> bool:
        return bool(self.handover.wait(self.address, job.launch, _SLICE))

    def forget(self, job: Job) -> None:
        self.jobs.pop(job.launch, None)

    def close(self) -> None:
        self.handover.close(self.address)


_guard = threading.Lock()
_pool: _Pool | None = None

#: False: workers wait in Python even where they need not.
_compiled = True


def core_count() -> int:
    """The number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_job(job: Job, workers: int, cores: int, handover: Handover | None) -> None:
    """Runs ``job`` and waits for it; KeyboardInterrupt ends the wait and the launch.

    Args:
        job: the launch.
        workers: the most threads that may run it.
        cores: how many cores there are: with fewer than threads, nobody stays awake to wait.
        handover: how to reach the workers in compiled code; None to do it in Python.
    """
    if _here.pool is not None:
        job.run()  # Python launches a kernel on a worker, in a finaliser say: waiting here could wait for itself
    else:
        while not _share(job, workers, cores, handover):
            pass
    if job.error is not None:
        raise job.error


def report_error(error: BaseException) -> None:
    """Ends the launch that this worker is in; its caller raises ``error``."""
    job = _here.job
    if job is None and _here.pool is not None:
        job = _here.pool.find_job(_here.number)
    assert job is not None
    job.error = job.error or error
    job.stop()


def _share(job: Job, workers: int, cores: int, handover: Handover | None) -> bool:
    """Has the pool do the job; False if it could not begin."""
    pool = _pool or _make_pool(handover)
    try:
        status = pool.begin(job, max(1, min(workers, pool.size)), cores)
        while status == 0:
            status = DONE if pool.wait(job) else 0
        pool.forget(job)
        if status == FULL:
            time.sleep(0.001)
    except BaseException:
        _break_off(pool, job)
        raise
    return status == DONE


def _break_off(pool: _Pool, job: Job) -> None:
    job.stop()
    deadline = time.monotonic() + _GRACE
    done = False
    try:
        while not done and time.monotonic() < deadline:
            done = pool.wait(job)
    finally:
        if done:
            pool.forget(job)
        else:
            _abandon(pool)


def _make_pool(handover: Handover | None) -> _Pool:
    global _pool
    with _guard:
        if _pool is None:
            size = core_count()
            _pool = _CompiledPool(size, handover) if handover is not None and _compiled else _Pool(size)
        return _pool


def _abandon(pool: _Pool) -> None:
    global _pool
    with _guard:
        if _pool is pool:
            _pool = None
        pool.close()


def _after_fork() -> None:
    """A child process has only the thread that forked: the parent's workers are not there."""
    global _pool, _guard
    _pool = None
    _guard = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
