# SPDX-License-Identifier: Apache-2.0
"""Locks between processes: taken from the operating system, so that a killed holder lets go; every wait is bounded.

The one door to filelock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator

from cudabuild import config

__all__ = ["hold_lock", "prepare_locks", "try_lock"]


def prepare_locks() -> None:
    """Makes locks ready for the end of the process, when what they import can no longer be (Python 3.10)."""
    import filelock

    del filelock  # loaded: that is all


@contextlib.contextmanager
def hold_lock(path: str, timeout: float, purpose: str) -> Iterator[bool]:
    """Holds the lock file ``path`` for the duration of a ``with`` block.

    Never raises for the lock's own sake: where it cannot be had (a read-only place, no locks on this file system, a
    holder that does not finish) the block runs with False, after one warning that names the lock.

    Args:
        path: the lock file; it is made, and left behind for the next (removing it would race with another taker).
        timeout: the longest wait in seconds.
        purpose: what is waited for, for the log.
    """
    import filelock

    lock = filelock.FileLock(path, mode=0o600)
    held = _acquire(lock, path, timeout, purpose)
    try:
        yield held
    finally:
        if held:
            with contextlib.suppress(OSError):  # the file system went away: so did the lock
                lock.release()


def try_lock(path: str) -> Callable[[], None] | None:
    """Takes the lock file ``path`` if it is free, without a wait.

    Returns:
        What lets go of it, or None where somebody holds it. Where there can be no locks, what does nothing.
    """
    import filelock

    lock = filelock.FileLock(path, mode=0o600)

    def release() -> None:
        with contextlib.suppress(OSError):
            lock.release()

    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        return None
    except (OSError, NotImplementedError, RuntimeError) as error:
        config.warn(f"the lock {path} cannot be taken ({error}): going on without", f"lock {os.path.dirname(path)}")
        return lambda: None
    return release


#: A wait longer than this is told in the log.
_PATIENCE = 2.0


def _acquire(lock: object, path: str, timeout: float, purpose: str) -> bool:
    import filelock

    assert isinstance(lock, filelock.BaseFileLock)
    for wait in (min(_PATIENCE, timeout), max(timeout - _PATIENCE, 0.0)):
        try:
            lock.acquire(timeout=wait, poll_interval=0.02)
            return True
        except filelock.Timeout:
            config.log("info", f"waiting for {purpose} in another process ({path})")
        except (OSError, NotImplementedError, RuntimeError) as error:
            config.warn(f"the lock {path} cannot be taken ({error}): going on without", f"lock {os.path.dirname(path)}")
            return False
    config.warn(f"the lock {path} was not free within {timeout:.0f} s: going on without", f"lock {path}")
    return False
