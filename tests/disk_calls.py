# SPDX-License-Identifier: Apache-2.0
"""A shim over the calls by which this package works on files: each can be stopped before it, after it, or made to fail.

While it is in place, ``os``, ``mmap``, ``fcntl`` and ``open`` tell an agent of every call about files below some
folders. Files that ``open`` gives make their reads and writes one by one through it, as the operating system sees them:
what is still in a buffer when a process is killed is lost, and a write can be stopped half-way.
"""

from __future__ import annotations

import builtins
import io
import mmap
import os
import sys
import tarfile
import tokenize
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import cudabuild

try:
    import fcntl
except ImportError:  # Windows, where nothing of this is used, but imported with the tests
    fcntl = None  # type: ignore[assignment]

__all__ = ["Call", "DiskCalls", "Phase"]

_PACKAGE = os.path.dirname(os.path.abspath(cudabuild.__file__)) + os.sep

#: Functions of ``os`` whose first argument is a path; of the second group, the second one too.
_PATHS = ("access", "chmod", "listdir", "lstat", "mkdir", "readlink", "remove", "rmdir", "scandir", "stat", "truncate",
          "unlink", "utime")  # fmt: skip
_PAIRS = ("link", "rename", "replace", "symlink")
#: … is an open file.
_DESCRIPTORS = ("fchmod", "fdatasync", "fstat", "fsync", "ftruncate", "lseek", "pread", "pwrite", "read", "write")
_LOCKS = ("flock", "lockf", "fcntl")

#: ``"before"``, ``"half"`` (of a write) or ``"after"``.
Phase = str


class Call(NamedTuple):
    """One call.

    Attributes:
        number: the first has 1.
        name: such as ``os.replace``.
        path: the file, or "" where only an open file is known.
        file, line: where in this package the call came from; the file is relative to the package.
    """

    number: int
    name: str
    path: str
    file: str
    line: int


class DiskCalls:
    """A context manager: within it, calls made by this package about files below ``folders`` go through ``agent``.

    ``agent(call, phase)`` may end the process, or raise an OSError: ``before`` the call instead of it, ``after`` it in
    place of its result (as where the answer of a file server is lost), in the ``half`` of a write with half of it done.
    """

    def __init__(self, folders: Iterable[str], agent: Callable[[Call, Phase], None]) -> None:
        self._folders = tuple(os.path.abspath(folder) for folder in folders)
        self._below = tuple(folder + os.sep for folder in self._folders)
        self._agent = agent
        self._files: set[int] = set()
        self._undo: list[tuple[Any, str, Any]] = []
        self._is_busy = False
        self.count = 0

    def __enter__(self) -> DiskCalls:
        for name in _PATHS:
            self._put(os, name, self._around_path(getattr(os, name), f"os.{name}"))
        for name in _PAIRS:
            self._put(os, name, self._around_pair(getattr(os, name), f"os.{name}"))
        for module, names in ((os, _DESCRIPTORS), (fcntl, _LOCKS)):
            for name in names:
                if not hasattr(module, name):  # fdatasync, on macOS
                    continue
                self._put(module, name, self._around_file(getattr(module, name), f"{module.__name__}.{name}"))
        self._put(os, "open", self._around_open(os.open))
        self._put(os, "close", self._around_close(os.close))
        self._put(mmap, "mmap", self._around_file(mmap.mmap, "mmap.mmap"))
        real = io.open
        opener = self._around_stream(real)
        # tarfile and tokenize have taken hold of ``open`` before.
        for place, name in ((io, "open"), (builtins, "open"), (tarfile, "bltn_open"), (tokenize, "_builtin_open")):
            self._put(place, name, opener)
        return self

    def __exit__(self, *error: object) -> None:
        while self._undo:
            setattr(*self._undo.pop())

    def _put(self, module: Any, name: str, function: Any) -> None:
        self._undo.append((module, name, getattr(module, name)))
        setattr(module, name, function)

    def is_ours(self, value: Any) -> bool:
        """Whether a path, or an open file's number, is one that is watched."""
        if isinstance(value, int):
            return value in self._files
        try:
            path = os.fsdecode(value)
        except TypeError:
            return False
        if f"{os.sep}." in path:
            path = os.path.normpath(path)
        return path in self._folders or path.startswith(self._below)

    def step(self, name: str, path: Any, act: Callable[[], Any], *, always: bool = False, undo: Any = None) -> Any:
        """Makes one call, with the agent before and after it.

        Args:
            name, path: what is called, and the file.
            act: makes the call.
            always: it is made even where the agent raises before it: closing.
            undo: gives up the result where the agent raises after it.
        """
        place = None if self._is_busy else _place()
        if place is None:
            return act()
        self.count += 1
        call = Call(self.count, name, path if isinstance(path, str) else "", *place)
        try:
            self._tell(call, "before")
        except OSError:
            if always:
                act()
            raise
        result = act()
        try:
            self._tell(call, "after")
        except OSError:
            if undo is not None:
                undo(result)
            raise
        return result

    def _tell(self, call: Call, phase: Phase) -> None:
        self._is_busy = True  # what the agent does itself is nobody's call
        try:
            self._agent(call, phase)
        finally:
            self._is_busy = False

    def step_write(self, raw: _RawFile, data: Any, write: Callable[[Any], int]) -> int:
        """A write, in two halves."""
        data = bytes(data)
        place = None if self._is_busy else _place()
        if place is None:
            return write(data)
        self.count += 1
        call = Call(self.count, "write", str(raw.name), *place)
        self._tell(call, "before")
        done = write(data[: len(data) // 2]) if len(data) > 1 else 0
        if done:
            self._tell(call, "half")
        done += write(data[done:])
        self._tell(call, "after")
        return done

    def _around_path(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(path: Any = ".", *args: Any, **kwargs: Any) -> Any:
            if self.is_ours(path) or self.is_ours(kwargs.get("dir_fd")):
                try:
                    return self.step(name, path, lambda: real(path, *args, **kwargs))
                except OSError:
                    if name == "os.access":  # an error is its answer
                        return False
                    raise
            return real(path, *args, **kwargs)

        return call

    def _around_pair(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(one: Any, other: Any, *args: Any, **kwargs: Any) -> Any:
            if self.is_ours(one) or self.is_ours(other):
                return self.step(name, other, lambda: real(one, other, *args, **kwargs))
            return real(one, other, *args, **kwargs)

        return call

    def _around_file(self, real: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(file: Any, *args: Any, **kwargs: Any) -> Any:
            if isinstance(file, int) and file in self._files:
                return self.step(name, "", lambda: real(file, *args, **kwargs))
            return real(file, *args, **kwargs)

        return call

    def _around_open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, *args: Any, **kwargs: Any) -> int:
            if not (self.is_ours(path) or self.is_ours(kwargs.get("dir_fd"))):
                return real(path, *args, **kwargs)
            file: int = self.step("os.open", path, lambda: real(path, *args, **kwargs), undo=os.close)
            self._files.add(file)
            return file

        return call

    def _around_close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(file: int) -> None:
            if file not in self._files:
                return real(file)
            self._files.discard(file)
            self.step("os.close", "", lambda: real(file), always=True)
            return None

        return call

    def _around_stream(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(
            file: Any, mode: str = "r", buffering: int = -1, encoding: Any = None, errors: Any = None,
            newline: Any = None, closefd: bool = True, opener: Any = None,
        ) -> Any:  # fmt: skip
            if not self.is_ours(file):
                return real(file, mode, buffering, encoding, errors, newline, closefd, opener)

            def make() -> _RawFile:
                return _RawFile(self, file, mode.replace("b", "").replace("t", ""), closefd, opener)

            raw = make() if isinstance(file, int) else self.step("open", file, make, undo=io.FileIO.close)
            self._files.add(raw.fileno())
            if buffering == 0:
                return raw
            kind = io.BufferedRandom if "+" in mode else io.BufferedReader if "r" in mode else io.BufferedWriter
            stream = kind(raw)
            return stream if "b" in mode else io.TextIOWrapper(stream, encoding, errors, newline)

        return call

    def forget(self, file: int) -> None:
        """Notes that a file was closed."""
        self._files.discard(file)


class _RawFile(io.FileIO):
    """An open file whose system calls go through a shim."""

    def __init__(self, shim: DiskCalls, file: Any, mode: str, closefd: bool, opener: Any) -> None:
        self._shim = shim
        super().__init__(file, mode, closefd, opener)

    def write(self, data: Any) -> int:
        return self._shim.step_write(self, data, super().write)

    def readinto(self, buffer: Any) -> int:
        result: int = self._shim.step("read", str(self.name), lambda: super(_RawFile, self).readinto(buffer))
        return result

    def read(self, size: int | None = -1) -> bytes:
        result: bytes = self._shim.step("read", str(self.name), lambda: super(_RawFile, self).read(size))
        return result

    def readall(self) -> bytes:
        result: bytes = self._shim.step("read", str(self.name), lambda: super(_RawFile, self).readall())
        return result

    def truncate(self, size: int | None = None) -> int:
        result: int = self._shim.step("truncate", str(self.name), lambda: super(_RawFile, self).truncate(size))
        return result

    def close(self) -> None:
        if self.closed:
            return
        self._shim.forget(self.fileno())
        self._shim.step("close", str(self.name), super().close, always=True)


def _place() -> tuple[str, int] | None:
    """The innermost line of this package that is being executed."""
    frame = sys._getframe(2)
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith(_PACKAGE):
            return file[len(_PACKAGE) :].replace(os.sep, "/"), frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return None
