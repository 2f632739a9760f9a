# SPDX-License-Identifier: Apache-2.0
"""Locks between processes: taken from the operating system, so that a killed holder lets go; every wait is bounded.

Linux locks single bytes of a file for whoever opened it (locks of open file descriptions): all keys of a cache are
bytes of one empty file. Elsewhere files are locked as a whole, by filelock, to which this is the one door.
"""

from __future__ import annotations

import contextlib
import errno
import os
import struct
import sys
import time
import weakref
from collections.abc import Callable, Iterator

from cudabuild import config

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["KeyLocks", "hold_lock", "prepare_locks", "try_lock"]

#: A wait longer than this is told in the log, in seconds.
_PATIENCE = 2.0

#: Between two attempts: longer and longer, up to this.
_LONGEST_PAUSE = 0.05

#: Kernels other than Linux's may answer for it, and know the call but not this command.
_has_ranges = sys.platform == "linux" and hasattr(fcntl, "F_OFD_SETLK")

#: ``struct flock``: type, whence, start, length, process; where the last is 0 the lock is the open file's.
_FLOCK = struct.Struct("hhqqi0q")

#: What a lock that somebody else holds is answered with.
_HELD = (errno.EACCES, errno.EAGAIN)

#: Where keys are locked by whole files: there are this many, chosen by the key's first byte.
_STRIPES = 256


def prepare_locks() -> None:
    """Makes locks ready for the end of the process, when what they import can no longer be (Python 3.10)."""
    if not _has_ranges:
        import filelock

        del filelock  # loaded: that is all


class KeyLocks:
    """The locks of keys that one holder has; a context manager that lets go of them in the end.

    Two holders in one process are as strange to each other as two processes.
    """

    def __init__(self, folder: str, warning: str) -> None:
        """Holds nothing yet.

        Args:
            folder: where the lock files are; it must be there.
            warning: the key under which it is warned, once, that there can be no locks.
        """
        self._folder = folder
        self._warning = warning
        self._held: set[object] = set()
        self._files: dict[str, _RangeFile | _WholeFile] = {}

    def __enter__(self) -> KeyLocks:
        return self

    def __exit__(self, *error: object) -> None:
        self.release()

    def try_take(self, key: bytes) -> bool:
        """Takes the lock of a key, without a wait: False where somebody else has it.

        Where there can be no locks, True after one warning.
        """
        path = self._path(key)
        try:
            return self._attempt(key)
        except _TROUBLES as error:
            _warn_of_trouble(path, error, self._warning)
            return True

    def take(self, key: bytes, timeout: float, purpose: str) -> bool:
        """Takes the lock of a key; False, after a warning, where it could not be had in ``timeout`` seconds."""
        return _wait(lambda: self._attempt(key), self._path(key), timeout, purpose, self._warning)

    def release(self) -> None:
        """Lets go of all."""
        self._held.clear()
        for path, file in list(self._files.items()):
            file.close()
            self._files.pop(path, None)

    def _path(self, key: bytes) -> str:
        return os.path.join(self._folder, "keys" if _has_ranges else f"{key[0] % _STRIPES:02x}")

    def _attempt(self, key: bytes) -> bool:
        path = self._path(key)
        # Of the key, as much as is a place in a file; two of a million keys meet once in ten million caches.
        place = int.from_bytes(key[:8], "little") >> 2
        name = (path, place) if _has_ranges else path
        if name in self._held:
            return True
        file = self._files.get(path)
        if file is None:
            file = self._files[path] = _open_lock(path)
        taken = file.take(place, 1)
        if self._path(key) != path:  # there turned out to be no ranges
            self._files.pop(path).close()
            return self._attempt(key)
        if taken:
            self._held.add(name)
        return taken


@contextlib.contextmanager
def hold_lock(path: str, timeout: float, purpose: str, warning: str | None = None) -> Iterator[bool]:
    """Holds the lock file ``path`` for the duration of a ``with`` block.

    Never raises for the lock's own sake: where it cannot be had (a read-only place, no locks on this file system, a
    holder that does not finish) the block runs with False, after one warning that names the lock.

    Args:
        path: the lock file; it is made, and left behind for the next (removing it would race with another taker).
        timeout: the longest wait in seconds.
        purpose: what is waited for, for the log.
        warning: the key under which it is warned, once, that there can be no locks; the folder's by default.
    """
    lock = _open_lock(path)  # which opens no file yet
    try:  # around the taking too: an interruption may come just after it
        yield _wait(lambda: lock.take(0, 0), path, timeout, purpose, warning)
    finally:
        lock.close()


def try_lock(path: str, warning: str | None = None) -> Callable[[], None] | None:
    """Takes the lock file ``path`` if it is free, without a wait.

    Returns:
        What lets go of it, or None where somebody holds it. Where there can be no locks, what does nothing.
    """
    lock = _open_lock(path)
    try:
        if lock.take(0, 0):
            return lock.close
    except _TROUBLES as error:
        _warn_of_trouble(path, error, warning)
        return lock.close
    lock.close()
    return None


#: What filelock and the system raise where there can be no locks.
_TROUBLES = (OSError, NotImplementedError, RuntimeError)


def _wait(attempt: Callable[[], bool], path: str, timeout: float, purpose: str, warning: str | None) -> bool:
    start, pause, told = time.monotonic(), 0.001, False
    while True:
        try:
            if attempt():
                return True
        except _TROUBLES as error:
            _warn_of_trouble(path, error, warning)
            return False
        waited = time.monotonic() - start
        if waited >= timeout:
            told_as = warning or f"lock {path}"
            config.warn(f"the lock {path} was not free within {timeout:.0f} s: going on without", told_as)
            return False
        if waited >= _PATIENCE and not told:
            config.log("info", f"waiting for {purpose} in another process ({path})")
            told = True
        time.sleep(min(pause, timeout - waited))
        pause = min(pause * 1.5, _LONGEST_PAUSE)


def _warn_of_trouble(path: str, error: BaseException, warning: str | None) -> None:
    key = warning or f"lock {os.path.dirname(path)}"
    config.warn(f"the lock {path} cannot be taken ({error}): going on without", key)


def _open_lock(path: str) -> _RangeFile | _WholeFile:
    return _RangeFile(path) if _has_ranges else _WholeFile(path)


class _RangeFile:
    """A file of which bytes are locked. It is opened at the first lock and closed, which lets go, at the end."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._file = -1
        self._substitute: _WholeFile | None = None

    def take(self, start: int, length: int) -> bool:
        """Locks ``length`` bytes at ``start``, all of them for 0; False where somebody else has one of them.

        Raises:
            OSError: the file cannot be opened, or its file system has no locks.
        """
        if self._substitute is not None:
            return self._substitute.take(start, length)
        if self._file < 0:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            self._file = os.open(self._path, flags, 0o600)
            _open_files.add(self)
        try:
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
        except OSError as error:
            if error.errno in _HELD:
                return False
            if error.errno != errno.EINVAL:
                raise
            return self._do_without_ranges(start, length)
        return True

    def _do_without_ranges(self, start: int, length: int) -> bool:
        global _has_ranges

        _has_ranges = False
        self.close()
        self._substitute = _WholeFile(self._path)
        return self._substitute.take(start, length)

    def close(self) -> None:
        """Lets go of everything."""
        if self._substitute is not None:
            self._substitute.close()
        if self._file < 0:
            return
        # Unlocked first: a forked process may have the file open too. Where that fails, closing does it.
        with contextlib.suppress(OSError):  # the file system went away: so did the lock
            fcntl.fcntl(self._file, fcntl.F_OFD_SETLK, _FLOCK.pack(fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0))
        file, self._file = self._file, -1  # before it is closed: nobody may close another file of that number
        _open_files.discard(self)
        with contextlib.suppress(OSError):
            os.close(file)

    def __del__(self) -> None:
        self.close()  # where an interruption came before that

    def forget(self) -> None:
        """In a forked process: the lock is its parent's, and must not outlive that here."""
        file, self._file = self._file, -1
        with contextlib.suppress(OSError):
            os.close(file)


class _WholeFile:
    """A file that is locked as a whole, by filelock."""

    def __init__(self, path: str) -> None:
        import filelock

        self._lock = filelock.FileLock(path, mode=0o600)

    def take(self, start: int, length: int) -> bool:
        """Locks the file; False where somebody else has it. Raises as filelock does where there can be no locks."""
        import filelock

        try:
            self._lock.acquire(timeout=0)
        except filelock.Timeout:
            return False
        return True

    def close(self) -> None:
        """Lets go of it."""
        with contextlib.suppress(OSError):  # the file system went away: so did the lock
            self._lock.release(force=True)


#: Those that are open now.
_open_files: weakref.WeakSet[_RangeFile] = weakref.WeakSet()


def _forget_all() -> None:
    for file in list(_open_files):
        file.forget()
    _open_files.clear()


if _has_ranges:
    os.register_at_fork(after_in_child=_forget_all)
