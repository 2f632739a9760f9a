# SPDX-License-Identifier: Apache-2.0
"""CUDA threads as operating-system threads, of which one runs at a time, in turn, until it waits or gives way."""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any

from cudabuild.errors import LaunchError
from cudabuild.interpreter.warp import exchange

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.interpreter.thread import Thread

__all__ = ["Schedule"]

_READY, _WAITING, _DONE = "ready", "waiting", "done"


class _Stop(BaseException):
    """Ends a CUDA thread whose launch has failed; passes every ``except Exception`` of the kernel."""


class _Runner:
    """One CUDA thread and its operating-system thread.

    Attributes:
        state: ``ready``, ``waiting`` or ``done``.
        at: where it waits: the kind of the meeting (``block``, ``grid``, or the mask of a warp operation), the
            operation, its arguments.
        result: what the meeting gave.
        error: what ended it, if not its own end.
    """

    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.turn: SimpleQueue[None] = SimpleQueue()
        self.state = _READY
        self.at: tuple[Any, str, tuple[Any, ...]] = ("", "", ())
        self.result: Any = None
        self.error: BaseException | None = None
        self.body: threading.Thread | None = None


class Schedule:
    """Runs threads that may meet.

    Args:
        run: calls the kernel as the thread that it is given.
        threads: of one block; of all blocks where the grid can meet.
    """

    def __init__(self, run: Callable[[Thread], None], threads: Sequence[Thread]) -> None:
        self._run = run
        self._runners = {id(thread): _Runner(thread) for thread in threads}
        self._handed_back: SimpleQueue[None] = SimpleQueue()
        self._stopping = False
        self._current: _Runner | None = None

    def run(self) -> None:
        """Runs all to their ends.

        Raises:
            LaunchError: they wait for each other for ever.
        """
        ready = deque(self._runners.values())
        try:
            while ready:
                runner = ready.popleft()
                self._resume(runner)
                if runner.error is not None:
                    raise runner.error
                if runner.state == _READY:
                    ready.append(runner)
                else:
                    ready.extend(self._release(runner))
            stuck = [runner for runner in self._runners.values() if runner.state == _WAITING]
            if stuck:
                raise LaunchError(_explain(stuck[0], len(stuck)))
        finally:
            self._end()

    def meet(self, thread: Thread, name: str, args: tuple[Any, ...]) -> Any:
        """Called by a CUDA thread where it waits for others or gives way to them."""
        runner = self._runners[id(thread)]
        if name.startswith("syncthreads"):
            runner.at = "block", name, args
        elif name == "cg.grid_group.sync":
            runner.at = "grid", name, ()
        elif name.endswith("_sync") or name == "syncwarp":
            mask = int(args[0]) & 0xFFFFFFFF if args else 0xFFFFFFFF
            runner.at = mask, name, args[1:]
        else:
            runner.at = "", name, ()
        runner.state = _WAITING if runner.at[0] != "" else _READY
        self._handed_back.put(None)
        runner.turn.get()
        if self._stopping:
            raise _Stop
        return runner.result

    # taking turns

    def _resume(self, runner: _Runner) -> None:
        self._current = runner
        if runner.body is None:
            runner.body = threading.Thread(target=self._main, args=(runner,), daemon=True)
            runner.body.start()
        else:
            runner.turn.put(None)
        while True:
            try:
                self._handed_back.get(timeout=0.1)
                break
            except Empty:
                continue  # awake now and then, for an interrupt that came while another thread had the processor
        self._current = None

    def _main(self, runner: _Runner) -> None:
        try:
            self._run(runner.thread)
        except _Stop:
            pass  # the launch has failed elsewhere, and says so there
        except BaseException as error:
            runner.error = error
        finally:
            runner.state = _DONE
            self._handed_back.put(None)

    def _end(self) -> None:
        """Ends what has not ended: after a failure, or an interrupt."""
        self._stopping = True
        for runner in self._runners.values():
            if runner.body is None or runner.state == _DONE:
                continue
            if runner is self._current:
                # It runs user code that may never come back: the exception meets it at its next line.
                ident = ctypes.c_ulong(runner.body.ident or 0)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Stop))
            else:
                runner.turn.put(None)
        for runner in self._runners.values():
            if runner.body is not None:
                runner.body.join(timeout=5)

    # meetings

    def _release(self, changed: _Runner) -> list[_Runner]:
        """Those that can go on now that one waits or has ended."""
        live = [runner for runner in self._runners.values() if runner.state != _DONE]
        mates = [runner for runner in live if runner.thread.block is changed.thread.block]
        freed = _meet_block(mates)
        if not freed:
            freed = _meet_warps([mate for mate in mates if mate.thread.warp == changed.thread.warp])
        if not freed and live and all(runner.at[0] == "grid" and runner.state == _WAITING for runner in live):
            freed = live
        for runner in freed:
            runner.state = _READY
        return freed


def _meet_block(mates: list[_Runner]) -> list[_Runner]:
    if not mates or any(mate.state != _WAITING or mate.at[0] != "block" for mate in mates):
        return []
    flags = [bool(mate.at[2][0]) for mate in mates if mate.at[2]]
    for mate in mates:
        kind = mate.at[1].rpartition("_")[2]
        mate.result = {"count": sum(flags), "and": int(all(flags)), "or": int(any(flags))}.get(kind)
    return mates


def _meet_warps(mates: list[_Runner]) -> list[_Runner]:
    """Lanes of one warp that wait, complete, at one operation with one mask."""
    for first in mates:
        mask, name, _ = first.at
        if first.state != _WAITING or not isinstance(mask, int):
            continue
        named = [mate for mate in mates if mask >> mate.thread.lane & 1]
        if first in named and all(mate.state == _WAITING and mate.at[:2] == (mask, name) for mate in named):
            results = exchange(name, {mate.thread.lane: mate.at[2] for mate in named})
            for mate in named:
                mate.result = results[mate.thread.lane]
            return named
    return []


def _explain(runner: _Runner, count: int) -> str:
    kind, name, _ = runner.at
    mask = f" with mask {kind:#010x}" if isinstance(kind, int) else ""
    return (
        f"threads wait for ever\n  found:    {count} threads, among them thread {runner.thread.index} of block "
        f"{runner.thread.block.index} in cuda.{name}{mask}\n"
        "  expected: every live thread of the block, or every live lane of the mask, to come to the same operation\n"
        "  do:       call it outside divergent branches, or name only the lanes that take the branch"
    )
