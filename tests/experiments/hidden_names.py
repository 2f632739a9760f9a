# SPDX-License-Identifier: Apache-2.0
"""A file system on which the names that others make stay hidden for seconds, as a network file system's memory of
names that were not there keeps them.

A process sees at once what it made, or opened so as to make it where it is missing: that asks the server. A folder that
cannot be made because it is there stays hidden all the same. What is put in the place of a name that is seen is seen.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from typing import Any

__all__ = ["HiddenNames"]


class HiddenNames:
    """Hides new names below a folder from this process, once :meth:`hide` was called; from those that it forks too.

    Attributes:
        hidden: how many calls were answered with "no such file" for it.
    """

    def __init__(self, root: str, log: str, seconds: float) -> None:
        """Describes the file system; nothing is hidden yet.

        Args:
            root: the folder, which itself may be new.
            log: a file that all processes of the experiment share, outside of ``root``.
            seconds: how long a name is hidden.
        """
        self.root = root
        self.seconds = seconds
        self.hidden = 0
        self._log = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        self._read = 0
        self._made: dict[str, tuple[float, set[int]]] = {}
        self._guard = threading.Lock()
        self._fstat, self._pread, self._lstat = os.fstat, os.pread, os.lstat

    def hide(self) -> None:
        """Puts the calls in place, for the life of the process."""
        for name in ("stat", "lstat", "access", "readlink", "unlink", "utime", "chmod"):
            self._wrap(name)
        real_list, real_scan, real_open, real_mkdir = os.listdir, os.scandir, os.open, os.mkdir

        def listdir(path: Any = ".") -> list[str]:
            self._look(path)
            return [name for name in real_list(path) if not self._is_hidden(os.path.join(path, name))]

        def scandir(path: Any = ".") -> Any:
            self._look(path)
            with real_scan(path) as entries:
                return iter([entry for entry in entries if not self._is_hidden(entry.path)])

        def open_(path: Any, flags: int, *args: Any, **kwargs: Any) -> int:
            if flags & os.O_CREAT:
                self._look(os.path.dirname(path))
                self._note(path)
            else:
                self._look(path)
            return real_open(path, flags, *args, **kwargs)

        def mkdir(path: Any, *args: Any, **kwargs: Any) -> None:
            self._look(os.path.dirname(path))
            self._write(path, process=0)  # hidden from the first moment, from this process's other threads too
            real_mkdir(path, *args, **kwargs)
            self._write(path)

        os.listdir, os.scandir, os.open, os.mkdir = listdir, scandir, open_, mkdir  # type: ignore[assignment]
        for name in ("replace", "rename", "link"):
            self._wrap_pair(name)

    def _wrap(self, name: str) -> None:
        real = getattr(os, name)

        def call(path: Any, *args: Any, **kwargs: Any) -> Any:
            if not isinstance(path, int):
                self._look(path)
            return real(path, *args, **kwargs)

        setattr(os, name, call)

    def _wrap_pair(self, name: str) -> None:
        real = getattr(os, name)

        def call(source: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
            self._look(source)
            self._look(os.path.dirname(target))
            self._note(target)
            return real(source, target, *args, **kwargs)

        setattr(os, name, call)

    def _note(self, path: str) -> None:
        """Tells the others of a name that is about to be made; one that is there, but hidden here, comes into sight."""
        if not (path == self.root or path.startswith(self.root + os.sep)):
            return
        try:
            self._lstat(path)
        except FileNotFoundError:
            self._write(path)
            return
        self._update()
        if path in self._made:
            self._made[path][1].add(os.getpid())

    def _write(self, path: str, process: int | None = None) -> None:
        maker = os.getpid() if process is None else process
        os.write(self._log, f"{time.monotonic()} {maker} {path}\n".encode())

    def _update(self) -> None:
        with self._guard:  # else another thread would see what is hidden while this one has read of it
            size = self._fstat(self._log).st_size
            if size > self._read:
                *lines, rest = self._pread(self._log, size - self._read, self._read).split(b"\n")
                self._read = size - len(rest)  # of a line that is being written
                for line in lines:
                    made, process, path = line.decode().split(" ", 2)
                    self._made.setdefault(path, (float(made), set()))[1].add(int(process))

    def _is_hidden(self, path: str) -> bool:
        if not path.startswith(self.root):
            return False
        self._update()
        now, process = time.monotonic(), os.getpid()
        while len(path) >= len(self.root):
            made = self._made.get(path)
            if made is not None and made[0] > now - self.seconds and process not in made[1]:
                return True
            path = os.path.dirname(path)
        return False

    def _look(self, path: Any) -> None:
        if self._is_hidden(os.fspath(path)):
            self.hidden += 1
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), path)
