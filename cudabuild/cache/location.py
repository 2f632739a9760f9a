# SPDX-License-Identifier: Apache-2.0
"""Where the cache is, and whether it may be trusted. The one door to platformdirs."""

from __future__ import annotations

import errno
import os
import stat
import sys
import time

from cudabuild import config
from cudabuild.errors import ImageFormatError

__all__ = ["check_private", "find_root", "make_folder", "open_own", "prepare_root", "warning_key"]

#: The longest wait, in seconds, for a folder that another computer made and that a network file system hides as yet.
_SETTLING = 5.0

#: The most links and folders on the way to a cache; more is a circle.
_LONGEST_WAY = 1000


def find_root() -> str | None:
    """The folder of the user cache, made or not; None where the user has no place of his own.

    ``CUDABUILD_CACHE_DIR``, or the platform's cache folder.
    """
    chosen: str = config.get("cache_dir")
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    if sys.platform == "linux":  # what platformdirs answers there, without importing it
        base = config.environment("XDG_CACHE_HOME") or ""
        path = os.path.join(base.strip() or os.path.expanduser("~/.cache"), "cudabuild")
    else:
        import platformdirs

        path = platformdirs.user_cache_dir("cudabuild", appauthor=False)
    # Without HOME and without an entry in the user database, "~" stays as it is.
    return path if os.path.isabs(path) else None


def prepare_root(path: str, *, quiet: bool = False) -> bool:
    """Makes the cache's folder where it is not there; False where it cannot be used; warns once unless ``quiet``."""
    try:
        try:
            reason = _make_root(path)
        except FileNotFoundError:  # somebody removes it, or its name is not seen yet
            reason = _make_root(path)
    except OSError as error:
        reason = error.strerror or str(error)
    if reason and not quiet:
        config.warn(
            f"the cache {path} is not used: {reason}; set CUDABUILD_CACHE_DIR to a folder of your own",
            warning_key(path),
        )
    return not reason


def _make_root(path: str) -> str:
    """Makes the folder; why it cannot be used."""
    make_folder(path)
    reason = check_private(path)
    return "it is read-only" if not reason and not os.access(path, os.W_OK) else reason


def make_folder(path: str) -> None:
    """Makes a folder of a cache, and those above it, unless they are there.

    A network file system remembers for seconds that a name was not there: a folder that cannot be made because another
    computer has made it may come into sight only then, and is waited for.

    Raises:
        OSError: it cannot be made, or what is there is no folder.
    """
    try:
        try:
            os.mkdir(path, 0o700)
        except FileNotFoundError:
            above = os.path.dirname(path)
            if above == path:
                raise
            make_folder(above)
            os.mkdir(path, 0o700)
    except OSError as error:  # some systems say that they are read-only before they say that it is there
        if not _comes_into_sight(path, error.errno == errno.EEXIST):
            raise


def _comes_into_sight(path: str, must: bool) -> bool:
    """Whether there is a folder at ``path``; where there ``must`` be something, it is waited for."""
    until = time.monotonic() + _SETTLING
    while True:
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)
        except FileNotFoundError:
            if not must or time.monotonic() >= until or os.path.islink(path):
                return False
        time.sleep(0.02)


def warning_key(root: str) -> str:
    """What all warnings share that say that a cache's place cannot be used: one is enough, whatever else fails."""
    return f"cache {root}"


def check_private(path: str, *, writable: bool = True) -> str:
    """Why a cache in ``path`` could have been filled by somebody else; "" where it could not.

    A layer that is only read may belong to root.

    Raises:
        OSError: the folder cannot be looked at.
    """
    if os.name != "posix":  # profile folders are private there, and modes say nothing
        return ""
    users = {os.geteuid()} if writable else {os.geteuid(), 0}
    link = _find_foreign_link(path, users | {0})
    if link:
        return f"{'it' if link == path else link} is a link that belongs to another user"
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid not in users:
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others may write to it"
    return ""


def _find_foreign_link(path: str, users: set[int]) -> str:
    """The first link on the way to ``path``, behind links too, that none of ``users`` made; "" where there is none.

    Who owns a link decides, now or later, which folder it leads to.
    """
    reached, *left = _split(path)
    for _ in range(_LONGEST_WAY):
        if not left:
            return ""
        reached = os.path.normpath(os.path.join(reached, left.pop(0)))  # links in ``reached`` are resolved already
        found = os.lstat(reached)
        if stat.S_ISLNK(found.st_mode):
            if found.st_uid not in users:
                return reached
            reached, *more = _split(os.path.join(os.path.dirname(reached), os.readlink(reached)))
            left[:0] = more
    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)


def _split(path: str) -> list[str]:
    """The root of an absolute path, and the names on the way from there."""
    absolute = path if os.path.isabs(path) else os.path.join(os.getcwd(), path)
    drive, tail = os.path.splitdrive(absolute)
    return [drive + os.sep, *(name for name in tail.split(os.sep) if name not in ("", os.curdir))]


def open_own(path: str, flags: int, *, make: bool = False) -> int:
    """Opens a file of a cache, as an opener of :func:`open`; ``make``: an empty one where there is none.

    A network file system remembers for seconds that a name was not there, but not for one who would make it.

    A folder may be private and a file in it still be somebody else's, put there before the folder was closed.

    Raises:
        OSError: it cannot be opened.
        ImageFormatError: it belongs to a user other than this one and root, or is no regular file.
    """
    # Without the flag, opening a pipe would wait for somebody who writes into it.
    flags |= getattr(os, "O_NONBLOCK", 0)
    descriptor = os.open(path, flags | os.O_CREAT, 0o600) if make else os.open(path, flags)
    try:
        if os.name == "posix":
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise ImageFormatError("it is no regular file")
            if found.st_uid not in (os.geteuid(), 0):
                raise ImageFormatError("it belongs to another user")
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor
