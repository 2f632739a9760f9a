# SPDX-License-Identifier: Apache-2.0
"""Writes down what this process launches: once per overload, at once, to a part of its own.

Nothing of the program is to notice: what cannot be described or written is told in one line, and the program goes on.
"""

from __future__ import annotations

import atexit
import io
import os
import threading
from typing import Any

from cudabuild import config
from cudabuild.cache.locks import prepare_locks
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CudabuildError
from cudabuild.recording.captured import Describer
from cudabuild.recording.parts import PARTS, format_record
from cudabuild.recording.read import parse_text
from cudabuild.recording.records import RecordedKernel
from cudabuild.recording.write import format_kernel, replace_file
from cudabuild.types.signature import Signature

__all__ = ["Recorder", "find_recorder"]

#: Kernels of our own (reductions, ufuncs) ship with no package of the user's.
_OURS = "cudabuild"

#: A part that is merged away under our hands this often in a row is a file system that lies.
_MOST_TRIES = 1000


class Recorder:
    """Records into one signature file.

    Attributes:
        path: the file, absolute: the program may change its folder.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.abspath(path)
        self._describer = Describer(self._keep_array)
        self._written: set[str] = set()
        self._lock = threading.Lock()
        self._pid = 0
        self._part = ""
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        """Another thread may have held it at the fork, and is not there to let go."""
        self._lock = threading.Lock()

    def add(self, definition: KernelDefinition, signature: Signature, dialect: str) -> None:
        """Records one overload of a kernel; a warning says why where it cannot be."""
        name = f"{definition.module}:{definition.qualname}"
        try:
            with self._lock:
                record = self._describer.kernel(definition, signature, dialect)
                text = format_kernel(record)
                if text not in self._written and record.module.partition(".")[0] != _OURS:
                    self._check(record, text)
                    self._append(format_record(text).encode())
                    self._written.add(text)
        except Exception as error:  # captured objects are anybody's, and what they raise must not end a program
            why = str(error) if isinstance(error, CudabuildError | OSError) else f"{type(error).__name__}: {error}"
            config.warn(f"{name} was not recorded in {self.path}: {why}", f"record {name}")

    def _check(self, record: RecordedKernel, text: str) -> None:
        """Raises CudabuildError where a record would not be read back as it is: nothing may spoil the whole file."""
        if [(found.key, found.signatures) for found in parse_text(text, self.path)] != [
            (record.key, record.signatures)
        ]:
            raise CudabuildError("what describes it cannot be written down exactly")

    def _append(self, data: bytes) -> None:
        """Appends whole lines to this process's part, and makes sure that they are still there for who merges next."""
        for _ in range(_MOST_TRIES):
            part = self._find_part()
            try:
                handle = os.open(part, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0), 0o666)
            except FileNotFoundError:
                self._make_folder()
                continue
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(handle, left) :]
                mine = os.fstat(handle)
            finally:
                os.close(handle)
            try:
                there = os.stat(part)
            except FileNotFoundError:  # taken by who merges, maybe before our lines: once more
                continue
            if (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
                return
        raise OSError(f"{self._part} does not stay where it is written")

    def _find_part(self) -> str:
        """The file of this process: a fork's child has one of its own."""
        if self._pid != os.getpid():
            self._pid = os.getpid()
            self._part = os.path.join(self.path + PARTS, f"{self._pid}-{os.urandom(8).hex()}.toml")
        return self._part

    def _make_folder(self) -> None:
        folder = self.path + PARTS
        os.makedirs(folder, exist_ok=True)
        replace_file(os.path.join(folder, ".gitignore"), b"*\n")

    def _keep_array(self, array: Any, name: str) -> str:
        """Writes an array beside the signature file; the path as the file names it."""
        import numpy

        folder = os.path.splitext(self.path)[0] + ".arrays"
        place = os.path.join(folder, f"{name[:32]}.npy")
        if not os.path.exists(place):
            stream = io.BytesIO()
            numpy.save(stream, array, allow_pickle=False)
            replace_file(place, stream.getvalue())
        return f"{os.path.basename(folder)}/{os.path.basename(place)}"

    def merge(self) -> None:
        """Moves what was recorded into the file."""
        from cudabuild.recording.merge import merge_parts

        merge_parts(self.path)


#: The setting -> its recorder.
_recorders: dict[str, Recorder] = {}


def find_recorder() -> Recorder | None:
    """That of ``CUDABUILD_RECORD``; None where nothing is recorded. What it has is merged when the process ends."""
    path = config.get("record")
    if not path:
        return None
    if path not in _recorders:
        prepare_locks()
        recorder = _recorders[path] = Recorder(path)
        atexit.register(recorder.merge)
    return _recorders[path]
