# SPDX-License-Identifier: Apache-2.0
"""Where the cache is, and whether it may be trusted. The one door to platformdirs."""

from __future__ import annotations

import os
import stat
import sys

from cudabuild import config

__all__ = ["check_private", "find_root", "prepare_root"]


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


def prepare_root(path: str) -> bool:
    """Makes the cache's folder where it is not there; False, with one warning, where it cannot be used."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
        reason = check_private(path)
        if not reason and not os.access(path, os.W_OK):
            reason = "it is read-only"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        config.warn(f"the cache {path} is not used: {reason}; set CUDABUILD_CACHE_DIR to a folder of your own")
    return not reason


def check_private(path: str, *, writable: bool = True) -> str:
    """Why a cache in ``path`` could have been filled by somebody else; "" where it could not.

    A layer that is only read may belong to root.

    Raises:
        OSError: the folder cannot be looked at.
    """
    if os.name != "posix":  # profile folders are private there, and modes say nothing
        return ""
    users = {os.geteuid()} if writable else {os.geteuid(), 0}
    if stat.S_ISLNK(os.lstat(path).st_mode) and os.lstat(path).st_uid not in users | {0}:
        return "it is a link that belongs to another user"
    found = os.stat(path)
    if not stat.S_ISDIR(found.st_mode):
        return "it is not a folder"
    if found.st_uid not in users:
        return "it belongs to another user"
    if found.st_mode & 0o022:
        return "others may write to it"
    return ""
