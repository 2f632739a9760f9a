# SPDX-License-Identifier: Apache-2.0
"""Python's cyclic garbage collector, kept from running in the middle of a compilation.

A compilation makes tens of thousands of small objects within a tenth of a second, and lets go of nearly all of them at
its end. The collector takes such growth for a reason to look through everything that the process holds: 70 ms in a
program with NumPy and a few more modules, more than the front end itself takes.
"""

from __future__ import annotations

import gc
import threading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["PausedCollection"]

_lock = threading.Lock()
_paused = 0  #: how many threads want it so
_was_enabled = False


class PausedCollection:
    """``with PausedCollection():`` no automatic garbage collection; in several threads until the last one is done."""

    def __enter__(self) -> None:
        global _paused, _was_enabled
        with _lock:
            if _paused == 0:
                _was_enabled = gc.isenabled()
                gc.disable()
            _paused += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        global _paused
        with _lock:
            _paused -= 1
            if _paused == 0 and _was_enabled:
                gc.enable()
