# SPDX-License-Identifier: Apache-2.0
"""What a slice looked at besides the project's modules: variables of the environment, files, folders.

A build with nothing changed does not run the slices; it compares what they looked at the last time. What cannot be
compared (the answer of another process, of the network) is named, and then nothing is skipped.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from cudabuild import config
from cudabuild.build.project import Project

__all__ = ["Reached", "Recorder", "look_at"]

#: Events after which a value may depend on what no later look can compare. See Python's table of audit events.
_OUTSIDE = (
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile", "pty.spawn",
    "socket.", "subprocess.Popen", "urllib.Request", "http.client.connect", "winreg.", "sqlite3.connect",
)  # fmt: skip


@dataclass(frozen=True)
class Reached:
    """What slices looked at.

    Attributes:
        variables: of the environment, with their values; None where it was not set.
        files: path -> what :func:`look_at` said when it was reached.
        uncomparable: the first look at something that cannot be compared later, or "".
    """

    variables: tuple[tuple[str, str | None], ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    uncomparable: str = ""

    def __or__(self, other: Reached) -> Reached:
        """Both; the first look at a thing counts."""
        return Reached(
            tuple(sorted({**dict(other.variables), **dict(self.variables)}.items())),
            tuple(sorted({**dict(other.files), **dict(self.files)}.items())),
            self.uncomparable or other.uncomparable,
        )


def look_at(path: str) -> str:
    """What changes when a file or folder does; "" where there is none."""
    try:
        stat = os.stat(path)
    except (OSError, ValueError):
        return ""
    # Of a file and of a folder alike: putting something into a folder changes its time.
    return f"{stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino} {stat.st_size} {stat.st_mode}"


_active: Recorder | None = None
_hooked = False


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    recorder = _active
    if recorder is None:
        return
    if event == "open":
        if not _writes(arguments):
            recorder.add_file(arguments[0])
    elif event in ("os.listdir", "os.scandir"):
        recorder.add_file(os.curdir if arguments[0] is None else arguments[0])
    elif event in ("import", "ctypes.dlopen"):  # an extension module's file; a library
        place = arguments[1 if event == "import" else 0]
        if isinstance(place, str) and os.path.dirname(place):
            recorder.add_file(place)
    elif event.startswith(_OUTSIDE):
        recorder.uncomparable = recorder.uncomparable or event


def _writes(arguments: tuple[Any, ...]) -> bool:
    mode = arguments[1]
    return isinstance(mode, str) and mode[:1] in "wxa"


class Recorder:
    """Records what this process looks at while it is open: a context manager, one at a time; it may be opened again."""

    def __init__(self, project: Project) -> None:
        self.uncomparable = ""
        self._sources = {os.path.normcase(file.path) for file in project.files.values()}
        self._own = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        self._files: dict[str, str] = {}
        self._variables: dict[str, str | None] = {}
        self._undo: list[Callable[[], None]] = []

    def __enter__(self) -> Recorder:
        global _active, _hooked
        if not _hooked:  # a hook stays for good; ours does nothing where no recorder is open
            sys.addaudithook(_audit)
            _hooked = True
        self._undo.append(config.swap_environment(lambda data: _RecordingDict(data, self)))
        for name in ("stat", "lstat", "access"):  # no audit event tells of these
            self._wrap(name)
        _active = self
        return self

    def __exit__(self, *error: object) -> None:
        global _active
        _active = None
        while self._undo:
            self._undo.pop()()

    def take(self) -> Reached:
        """What was looked at since this was asked last."""
        reached = Reached(tuple(sorted(self._variables.items())), tuple(sorted(self._files.items())), self.uncomparable)
        self._variables, self._files, self.uncomparable = {}, {}, ""
        return reached

    def _wrap(self, name: str) -> None:
        plain = getattr(os, name)

        def looking(path: Any, *args: Any, **keywords: Any) -> Any:
            self.add_file(path)
            return plain(path, *args, **keywords)

        setattr(os, name, looking)
        self._undo.append(lambda: setattr(os, name, plain))

    def add_file(self, path: Any) -> None:
        """Notes a look at a file or folder."""
        if not isinstance(path, str | bytes | os.PathLike):  # an open descriptor: its opening was noted
            return
        text = os.path.abspath(os.fsdecode(path))
        if text.endswith(".pyc"):  # stands for a source, which an import does not open then
            with contextlib.suppress(ValueError):  # it stands for itself
                text = importlib.util.source_from_cache(text)
        if text in self._files or os.path.normcase(text) in self._sources:
            return
        if text.startswith(self._own):  # this package: part of what made the images
            return
        self._files[text] = ""  # the look below must not be noted
        self._files[text] = look_at(text)

    def add_variable(self, name: str, value: str | None) -> None:
        """Notes a look at a variable of the environment."""
        self._variables.setdefault(name, value)

    def add_environment(self) -> None:
        """Notes a look at all of the environment, which is never the same again."""
        self.uncomparable = self.uncomparable or "all of os.environ"


class _RecordingDict(dict[Any, Any]):
    """The encoded variables behind ``os.environ``."""

    def __init__(self, data: Any, recorder: Recorder) -> None:
        super().__init__(data)
        self._recorder = recorder

    def _note(self, key: Any) -> None:
        value = super().get(key)
        self._recorder.add_variable(os.fsdecode(key), None if value is None else os.fsdecode(value))

    def __getitem__(self, key: Any) -> Any:
        self._note(key)
        return super().__getitem__(key)

    def get(self, key: Any, default: Any = None) -> Any:
        self._note(key)
        return super().get(key, default)

    def __contains__(self, key: Any) -> bool:
        self._note(key)
        return super().__contains__(key)

    def __iter__(self) -> Iterator[Any]:
        self._recorder.add_environment()
        return super().__iter__()
