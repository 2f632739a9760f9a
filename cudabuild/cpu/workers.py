# SPDX-License-Identifier: Apache-2.0
"""The threads that run blocks: one pool per process, a launch shared out among them.

Compiled code cannot be interrupted, so it never runs on the thread that asked for the launch: that thread waits on a
lock, which Ctrl-C can break. A launch that is broken off raises its stop flag (read at every block start); workers
stuck inside a block are left behind, with everything they still use, and a fresh pool takes over.
"""

from __future__ import annotations

import os
import threading
from queue import SimpleQueue
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Job", "core_count", "run_job"]

#: Kernels keep local arrays (up to 512 KiB a thread, as on a GPU) and recursion on the worker's stack. Address space is
#: reserved; memory is used only as far as it is touched.
_STACK = 64 << 20

#: How long an interrupted launch may take to reach its next block start before its workers are given up, in seconds.
_GRACE = 0.9


class Job:
    """One launch: what every worker calls, and what must stay alive while one of them may still be in there.

    Args:
        enter: runs blocks until none is left; called once per worker, at the same time.
        stop: makes every ``enter`` return at its next block start.
        keep: buffers and arrays that the compiled code reads and writes.
    """

    __slots__ = ("_enter", "_finished", "_lock", "_remaining", "error", "keep", "stop")

    def __init__(self, enter: Callable[[], None], stop: Callable[[], None], keep: object) -> None:
        self._enter = enter
        self.stop = stop
        self.keep = keep
        self.error: BaseException | None = None
        self._remaining = 0
        self._lock = threading.Lock()
        self._finished = threading.Lock()

    def start(self, workers: int) -> None:
        """Says how many times :meth:`run` will be called."""
        self._remaining = workers
        self._finished.acquire()

    def run(self) -> None:
        """Does this worker's share; the last worker to leave wakes the waiting thread."""
        try:
            self._enter()
        except BaseException as error:  # handed to the thread that waits, which raises it
            self.error = error
        with self._lock:
            self._remaining -= 1
            last = self._remaining == 0
        if last:
            self._finished.release()

    def wait(self, timeout: float = -1) -> bool:
        """Waits until every worker has left; False after ``timeout`` seconds."""
        return self._finished.acquire(timeout=timeout)


class _Pool:
    """Daemon threads that take jobs from one queue."""

    def __init__(self, size: int) -> None:
        self.queue: SimpleQueue[Job | None] = SimpleQueue()
        self.size = size
        self.idents: set[int] = set()
        before = threading.stack_size(_STACK)
        try:
            for number in range(size):
                threading.Thread(target=self._work, name=f"cudabuild-cpu-{number}", daemon=True).start()
        finally:
            threading.stack_size(before)

    def _work(self) -> None:
        self.idents.add(threading.get_ident())
        while (job := self.queue.get()) is not None:
            job.run()
            del job  # an idle worker must not keep the arrays of its last launch alive

    def close(self) -> None:
        """Lets every worker end once it is out of the job it is in."""
        for _ in range(self.size):
            self.queue.put(None)


_guard = threading.Lock()
_pool: _Pool | None = None


def core_count() -> int:
    """The number of cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run_job(job: Job, workers: int) -> None:
    """Runs ``job`` on up to ``workers`` threads and waits for it; KeyboardInterrupt ends the wait and the launch."""
    global _pool
    with _guard:
        if _pool is None:
            _pool = _Pool(core_count())
        pool = _pool
    if threading.get_ident() in pool.idents:
        # A finaliser that Python ran on a worker launches a kernel: waiting here could wait for itself.
        job.start(1)
        job.run()
    else:
        workers = max(1, min(workers, pool.size))
        job.start(workers)
        try:
            for _ in range(workers):
                pool.queue.put(job)
            job.wait()
        except BaseException:
            job.stop()
            if not job.wait(_GRACE):
                _abandon(pool)
            raise
    if job.error is not None:
        raise job.error


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
