# SPDX-License-Identifier: Apache-2.0
"""A finished wheel: its modules by name, files put into it or taken out, and RECORD written anew.

Everything else stays what the back-end made it: file name, tags, ``Root-Is-Purelib``, metadata, order, times and
permissions of the files, and the lines of RECORD that speak of them.
"""

from __future__ import annotations

import base64
import contextlib
import csv
import hashlib
import io
import os
import shutil
import stat
import tempfile
import time
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO

from cudabuild.config import environment
from cudabuild.errors import WheelError

__all__ = ["WheelFile", "WheelModule", "name_module"]

#: The first moment that a zip archive can say.
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)
_PLAIN_FILE = (stat.S_IFREG | 0o644) << 16
_SIGNATURES = ("RECORD.jws", "RECORD.p7s")
#: What reading a damaged member ends with.
_DAMAGES = (zipfile.BadZipFile, zlib.error, EOFError)
_METHODS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}


@dataclass(frozen=True)
class WheelModule:
    """A Python source file of a wheel that can be imported once it is installed.

    Attributes:
        name: the module's dotted name.
        member: the file's path in the wheel.
        inside: its path below ``site-packages``; other than ``member`` for what lies in ``<name>.data/purelib``.
        is_package: it is an ``__init__.py``.
    """

    name: str
    member: str
    inside: str
    is_package: bool

    @property
    def prefix(self) -> str:
        """What stands before ``inside`` in ``member``: empty, or ``<name>.data/purelib/`` and the like."""
        return self.member.removesuffix(self.inside)


class WheelFile:
    """A wheel that is read now, and replaced as a whole by :meth:`save`. A context manager.

    Attributes:
        path: the wheel.
        dist_info: its metadata folder, such as ``pkg-1.0.dist-info``.

    Raises:
        WheelError: the file is no wheel, is signed, or breaks the rules that editing counts on; says which and why.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        self._changes: dict[str, bytes | None] = {}
        self._open()

    def _open(self) -> None:
        try:
            self._zip = zipfile.ZipFile(self.path)
        except (OSError, zipfile.BadZipFile) as error:
            raise self._error(f"it cannot be read: {error}") from None
        try:
            self._members = self._check_members()
            self.dist_info = self._find_dist_info()
            self._record = self._read_record()
        except BaseException:
            self._zip.close()
            raise

    def __enter__(self) -> WheelFile:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the wheel; changes that were not saved are forgotten."""
        self._zip.close()

    # Reading

    @property
    def names(self) -> tuple[str, ...]:
        """The paths of all files, as the wheel is with the changes made so far."""
        removed = {name for name, data in self._changes.items() if data is None}
        kept = [name for name in self._members if name not in removed and not name.endswith("/")]
        return tuple(kept + sorted(name for name in self._changes if name not in self._members and name not in removed))

    def read(self, name: str) -> bytes:
        """The bytes of a file, as the wheel is with the changes made so far.

        Raises:
            KeyError: there is no such file.
            WheelError: its bytes are damaged.
        """
        if name in self._changes:
            data = self._changes[name]
            if data is None:
                raise KeyError(name)
            return data
        return self._read_member(name)

    def _read_member(self, name: str) -> bytes:
        try:
            return self._zip.read(self._members[name])
        except _DAMAGES as error:
            raise self._error(f"{name} cannot be read: {error}") from None

    def find_modules(self) -> dict[str, WheelModule]:
        """The Python source files that can be imported, by module name, whatever layout the project has."""
        found: dict[str, WheelModule] = {}
        data = f"{self.dist_info.removesuffix('.dist-info')}.data"
        for member in self.names:
            inside = member
            for scheme in ("purelib", "platlib"):
                inside = inside.removeprefix(f"{data}/{scheme}/")
            named = name_module(inside)
            if named is None:
                continue
            name, is_package = named
            found.setdefault(name, WheelModule(name, member, inside, is_package))
        return found

    # Changing

    def set_file(self, name: str, data: bytes) -> None:
        """Adds a file, or replaces it.

        Raises:
            ValueError: ``name`` is no path below the wheel's root, or one of its metadata.
        """
        self._check_name(name)
        self._changes[name] = bytes(data)

    def remove_file(self, name: str) -> None:
        """Takes a file out.

        Raises:
            KeyError: there is no such file.
            ValueError: it is one of the wheel's metadata.
        """
        self._check_name(name)
        if name not in self.names:
            raise KeyError(name)
        self._changes[name] = None

    def save(self) -> bool:
        """Replaces the wheel by one with the changes; same wheel and same changes give the same bytes.

        A reader sees the old wheel or the new one, never a part; after an error the old one stands.

        Returns:
            False where nothing was to be changed: the file was not touched.

        Raises:
            WheelError: a file of the wheel is damaged, or not what RECORD says.
            OSError: the new wheel cannot be written.
        """
        changes = {name: data for name, data in self._changes.items() if self._is_change(name, data)}
        if not changes:
            return False
        folder, name = os.path.split(os.path.abspath(self.path))
        handle, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        try:
            with os.fdopen(handle, "wb") as stream, zipfile.ZipFile(stream, "w") as target:
                self._write(target, changes)
            shutil.copymode(self.path, temporary)
            self._zip.close()
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        self._changes.clear()
        self._open()
        return True

    def _is_change(self, name: str, data: bytes | None) -> bool:
        if name not in self._members:
            return data is not None
        return data is None or data != self._read_member(name)

    def _write(self, target: zipfile.ZipFile, changes: dict[str, bytes | None]) -> None:
        record_name = f"{self.dist_info}/RECORD"
        target.comment = self._zip.comment
        rows: list[tuple[str, str, str]] = []
        added = sorted(name for name, data in changes.items() if data is not None and name not in self._members)
        # Metadata stands last in a wheel, where installers look for it first.
        first_metadata = next(name for name in self._members if name.startswith(f"{self.dist_info}/"))
        for name, info in self._members.items():
            if name == first_metadata:
                for new in added:
                    rows.append(self._add(target, self._new_info(new), changes[new] or b""))
            if name == record_name:
                continue
            data = changes.get(name, b"")
            if name not in changes:
                rows += self._copy(target, info)
            elif data is not None:
                rows.append(self._add(target, _like(info), data))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([*rows, (record_name, "", "")])
        self._add(target, _like(self._members[record_name]), text.getvalue().encode("utf-8"))

    def _add(self, target: zipfile.ZipFile, info: zipfile.ZipInfo, data: bytes) -> tuple[str, str, str]:
        attributes = info.external_attr
        target.writestr(info, data)
        info.external_attr = attributes  # as in _copy
        return info.filename, f"sha256={_encode(hashlib.sha256(data).digest())}", str(len(data))

    def _copy(self, target: zipfile.ZipFile, info: zipfile.ZipInfo) -> list[tuple[str, str, str]]:
        """Copies a file that stays, checks it, and returns its line of RECORD; a folder has none."""
        name = info.filename
        if name.endswith("/"):
            target.writestr(_like(info), b"")
            return []
        row = self._record.get(name, (name, "", ""))
        algorithm, _, expected = row[1].partition("=")
        try:
            digest = hashlib.new(algorithm or "sha256")
        except ValueError:
            raise self._error(
                f"RECORD names the hash {algorithm!r} of {name}, which this Python does not know"
            ) from None
        new = _like(info)
        new.file_size = info.file_size  # tells whether the file needs the fields for more than 4 GiB
        try:
            with self._zip.open(info) as source, target.open(new, "w") as sink:
                for part in _read_parts(source):
                    digest.update(part)
                    sink.write(part)
        except _DAMAGES as error:
            raise self._error(f"{name} cannot be read: {error}") from None
        new.external_attr = info.external_attr  # zipfile makes 0o600 of none; it writes what stands here at the end
        if expected and expected.rstrip("=") != _encode(digest.digest()):
            raise self._error(f"{name} is not the file whose {algorithm} stands in RECORD")
        return [row if expected else (name, f"sha256={_encode(digest.digest())}", str(info.file_size))]

    def _new_info(self, name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, self._moment())
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = _PLAIN_FILE
        info.create_system = 3  # Unix, wherever this runs: the bytes must not depend on it
        return info

    def _moment(self) -> tuple[int, int, int, int, int, int]:
        """The time of new files: ``SOURCE_DATE_EPOCH``, else what the back-end gave to WHEEL."""
        epoch = (environment("SOURCE_DATE_EPOCH") or "").strip()
        if not epoch.isdigit():
            return self._members[f"{self.dist_info}/WHEEL"].date_time
        year, month, day, hour, minute, second = time.gmtime(int(epoch))[:6]
        return max((year, month, day, hour, minute, second), _ZIP_EPOCH)

    # Checks

    def _error(self, what: str, do: str = "build the wheel anew") -> WheelError:
        return WheelError(f"the wheel cannot be edited: {what}\n  file:     {self.path}\n  do:       {do}")

    def _check_members(self) -> dict[str, zipfile.ZipInfo]:
        members: dict[str, zipfile.ZipInfo] = {}
        for info in self._zip.infolist():
            name = info.filename
            if name in members:
                raise self._error(f"it holds {name} twice")
            if not _is_plain(name.removesuffix("/")):
                raise self._error(f"{name!r} is no path below the wheel's root")
            if info.flag_bits & 0x1:
                raise self._error(f"{name} is encrypted")
            if info.compress_type not in _METHODS:
                raise self._error(
                    f"{name} is compressed by method {info.compress_type}, and wheels are stored or deflated",
                    "let the back-end compress with deflate",
                )
            members[name] = info
        return members

    def _find_dist_info(self) -> str:
        tops = {name.partition("/")[0] for name in self._members if "/" in name}
        folders = sorted(top for top in tops if top.endswith(".dist-info"))
        if len(folders) != 1:
            found = " and ".join(folders) or "none"
            raise self._error(f"a wheel has one .dist-info folder, and this has {found}")
        for name in ("WHEEL", "RECORD"):
            if f"{folders[0]}/{name}" not in self._members:
                raise self._error(f"{folders[0]}/{name} is missing")
        for name in _SIGNATURES:
            if f"{folders[0]}/{name}" in self._members:
                raise self._error(
                    f"it is signed ({folders[0]}/{name}), and a change would break the signature",
                    "add the archives before signing",
                )
        text = self._read_member(f"{folders[0]}/WHEEL").decode("utf-8", "replace")
        versions = [line.partition(":")[2].strip() for line in text.splitlines() if line.startswith("Wheel-Version:")]
        if [version.partition(".")[0] for version in versions] != ["1"]:
            raise self._error(f"its format is {versions or 'not told'}, and 1.x is expected", "update cudabuild")
        return folders[0]

    def _read_record(self) -> dict[str, tuple[str, str, str]]:
        name = f"{self.dist_info}/RECORD"
        rows: dict[str, tuple[str, str, str]] = {}
        try:
            text = self._read_member(name).decode("utf-8")
            for line, row in enumerate(csv.reader(io.StringIO(text, newline="")), start=1):
                if row and len(row) != 3:
                    raise self._error(f"{name}:{line} has {len(row)} fields, and 3 are expected: path, hash, size")
                if row:
                    rows[row[0].replace("\\", "/")] = (row[0].replace("\\", "/"), row[1], row[2])
        except (UnicodeDecodeError, csv.Error) as error:
            raise self._error(f"{name} cannot be read: {error}") from None
        missing = sorted(path for path in rows if path not in self._members)
        if missing:
            raise self._error(f"{name} lists {missing[0]}, which is not there")
        return rows

    def _check_name(self, name: str) -> None:
        if not _is_plain(name) or name.endswith("/"):
            raise ValueError(f"{name!r} is no path of a file below the wheel's root")
        if name.startswith(f"{self.dist_info}/"):
            raise ValueError(f"{name} is metadata, which editing leaves alone")


def name_module(inside: str) -> tuple[str, bool] | None:
    """The module that a file below ``site-packages`` is, and whether it is a package's ``__init__.py``.

    None for what is not Python, or lies in a folder that no import statement can name, as a ``.dist-info`` is.
    """
    stem, extension = os.path.splitext(inside)
    parts = stem.split("/")
    if extension != ".py" or not all(part.isidentifier() for part in parts):
        return None
    is_package = parts[-1] == "__init__" and len(parts) > 1
    return ".".join(parts[:-1] if is_package else parts), is_package


def _is_plain(name: str) -> bool:
    return (
        not name.startswith("/") and "\\" not in name and all(part not in ("", ".", "..") for part in name.split("/"))
    )


def _like(info: zipfile.ZipInfo) -> zipfile.ZipInfo:
    """A member with another's name, time, permissions and compression."""
    new = zipfile.ZipInfo(info.filename, info.date_time)
    new.compress_type = info.compress_type
    new.external_attr = info.external_attr
    new.create_system = info.create_system
    new.comment = info.comment
    return new


def _encode(digest: bytes) -> str:
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")


def _read_parts(stream: IO[bytes]) -> Iterator[bytes]:
    while part := stream.read(1 << 20):
        yield part
