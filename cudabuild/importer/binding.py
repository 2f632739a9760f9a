# SPDX-License-Identifier: Apache-2.0
"""Binding: from a live kernel to the image that its package ships.

At a kernel's first launch: the function's own module -> the folders that may hold its archives -> the archives for this
device, best first -> the record of *(module, qualname, signature)* -> the check that the kernel still is what was built
-> the image. The way starts at the function's globals, not at ``sys.modules``: a module that is still executing, runs
as ``__main__``, was reloaded or replaced by another version has its own spec there.
"""

from __future__ import annotations

import os
import sys

from cudabuild import config
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint import effective_options
from cudabuild.image.archive import Archive
from cudabuild.image.provider import Matcher, find_in_archive
from cudabuild.importer.finder import FOLDER, NOTE
from cudabuild.target import TARGETS, find_target, rank_targets, sort_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FunctionType
    from typing import Any

    from cudabuild.definition import Options
    from cudabuild.image.archive import Record
    from cudabuild.image.image import ImageRequest, KernelImage
    from cudabuild.image.left import LeftToJit
    from cudabuild.target import Target

__all__ = ["ArchiveFolder", "ShippedProvider", "find_archive_folders", "find_left_to_jit", "find_recorded_options"]

_ENDING = ".cuar"


class ArchiveFolder:
    """The archives of one package; each is opened when it is first looked into, once per process.

    Attributes:
        path: the folder, on disk or inside a zip file.
    """

    def __init__(self, path: str, loader: Any = None) -> None:
        """Looks at what there is.

        Args:
            path: the folder.
            loader: reads the files by ``get_data`` where the folder is not one of the file system.

        Raises:
            OSError: there is no such folder, or it holds no archive.
            ImageFormatError: the loader cannot read it.
        """
        self.path = path
        self._loader = loader
        self._archives: dict[str, Archive | None] = {}
        if loader is None:
            names = [name.removesuffix(_ENDING) for name in os.listdir(path) if name.endswith(_ENDING)]
        else:
            _read_by(loader, os.path.join(path, "index.json"))
            names = list(TARGETS)  # a loader cannot list a folder; what is not there shows at opening
        self._targets = [target for target in map(find_target, names) if target is not None]
        if not self._targets:
            raise FileNotFoundError(path)

    def targets(self, kind: str) -> list[Target]:
        """The targets of one kind, ``cubin`` or ``ptx``, that there may be archives for."""
        return [target for target in self._targets if target.kind == kind]

    def shipped(self, kind: str) -> list[Target]:
        """Those that there are archives for: for messages, since a loader is asked for each."""
        return sort_targets(target for target in self.targets(kind) if self._is_there(target))

    def _is_there(self, target: Target) -> bool:
        if self._loader is None:
            return True
        try:
            return bool(_read_by(self._loader, os.path.join(self.path, target.name + _ENDING)))
        except (OSError, ImageFormatError):
            return False

    def open(self, target: Target) -> Archive | None:
        """The archive for a target; None if there is none or it is damaged (then with one warning)."""
        if target.name not in self._archives:
            path = os.path.join(self.path, target.name + _ENDING)
            archive: Archive | None = None
            try:
                source = path if self._loader is None else _read_by(self._loader, path)
                archive = Archive(source, path, target=target.name)  # one that was renamed is for another device
            except OSError as error:
                if self._loader is None:  # it is looked for again: files that are too many, or far away, may be back
                    _report_unreadable(self.path, error)
                    return None
            except ImageFormatError as error:
                config.warn(f"{error}; its images are not used")
            self._archives[target.name] = archive
        return self._archives[target.name]


#: Folder -> its archives, or None where there are none. A package is looked at once per process.
_folders: dict[str, ArchiveFolder | None] = {}


def find_archive_folders(function: FunctionType, notes: list[str] | None = None) -> list[ArchiveFolder]:
    """The folders that may hold a function's images, the outermost package's first.

    Args:
        function: the kernel.
        notes: what cannot be read is added to it, with the reason.
    """
    scope = function.__globals__
    loader = getattr(scope.get("__spec__"), "loader", None) or scope.get("__loader__")
    found = []
    unreadable: list[str] = []
    for path in _candidates(function):
        if path not in _folders:
            try:
                _folders[path] = _look(path, loader)
            except OSError as error:
                unreadable.append(_report_unreadable(path, error))
                continue
        folder = _folders[path]
        if folder is not None and folder not in found:
            found.append(folder)
    if notes is not None:
        notes += unreadable
    return found


def _report_unreadable(folder: str, error: OSError) -> str:
    """Warns, once per process: where files cannot be read, there are mostly more than one. Returns the reason."""
    reason = f"{folder} cannot be read ({error.strerror or error})"
    config.warn(f"{reason}; its images are not used now", "unreadable archives")
    return reason


def _look(path: str, loader: Any) -> ArchiveFolder | None:
    """The archives in a folder, None where it has none.

    Raises:
        OSError: it is there and cannot be read.
    """
    try:
        return ArchiveFolder(path)
    except (FileNotFoundError, NotADirectoryError):
        if not hasattr(loader, "get_data") or os.path.isdir(os.path.dirname(path)):
            return None
    try:
        return ArchiveFolder(path, loader)
    except OSError:
        return None
    except ImageFormatError as error:
        config.warn(f"{error}; its images are not used")
        return None


def _read_by(loader: Any, path: str) -> bytes:
    """A file as a module's loader reads it.

    Raises:
        OSError: there is none.
        ImageFormatError: the loader cannot read it.
    """
    try:
        data = loader.get_data(path)
    except OSError:
        raise
    except Exception as error:  # what loaders raise is up to them: of a damaged zip file ZipImportError or zlib.error
        raise ImageFormatError(f"{path}: cannot be read ({type(error).__name__}: {error})") from None
    if not isinstance(data, bytes):
        raise ImageFormatError(f"{path}: the loader of its module gives no bytes but {type(data).__name__}")
    return data


def _candidates(function: FunctionType) -> Iterator[str]:
    """Paths of folders, most likely first, with repeats."""
    scope = function.__globals__
    spec = scope.get("__spec__")
    name = str(getattr(spec, "name", None) or scope.get("__name__") or "")
    file = scope.get("__file__") or getattr(spec, "origin", None) or function.__code__.co_filename
    if spec is None:  # a script, or runpy.run_path
        name = _script_name(file)
    parts = name.split(".")
    note = getattr(_spec_of(parts[0]), NOTE, None)
    if note is not None and _is_below(file, os.path.dirname(note)):
        yield note
    is_package = "__path__" in scope
    folder = os.path.dirname(file)
    packages = parts if is_package else parts[:-1]
    folders = [folder]
    for _ in packages:
        folders.append(os.path.dirname(folders[-1]))
    # folders[i] is that of the i-th package from the inside; the last one holds the outermost.
    for inner in reversed(folders[: len(packages)]):
        yield os.path.join(inner, FOLDER)
    # Single modules, and modules of namespace packages, have a folder of their own beside them.
    for outer, part in zip(folders[1:] if is_package else folders, reversed(parts), strict=False):
        yield os.path.join(outer, f"{FOLDER}_{part}")
    # A package whose __path__ leads elsewhere.
    for count in range(1, len(packages) + 1):
        origin = getattr(_spec_of(".".join(packages[:count])), "origin", None)
        if origin is not None:
            yield os.path.join(os.path.dirname(origin), FOLDER)
    # Archives that somebody else made for the package, kept apart from it.
    for root in config.get("archives"):
        for count in range(1, len(parts) + 1):
            yield os.path.join(root, *parts[:count], FOLDER)
            yield os.path.join(root, *parts[: count - 1], f"{FOLDER}_{parts[count - 1]}")


def _spec_of(name: str) -> Any:
    return getattr(sys.modules.get(name), "__spec__", None)


def _is_below(file: str, folder: str) -> bool:
    return file.startswith((folder + "/", folder + os.sep))


def _script_name(file: str) -> str:
    """The dotted name that a file run as a script would have as a module."""
    folder, base = os.path.split(os.path.abspath(file))
    parts = [os.path.splitext(base)[0]]
    while os.path.exists(os.path.join(folder, "__init__.py")):
        folder, base = os.path.split(folder)
        parts.append(base)
    return ".".join(reversed(parts))


#: Folder -> what its index says was left to JIT; read once per process, where a kernel is about to be compiled anyway.
_left: dict[str, list[LeftToJit]] = {}


def find_left_to_jit(function: FunctionType, qualname: str) -> LeftToJit | None:
    """Why the build of a function's package made no image of it, or None. Reads and parses the package's index."""
    scope = function.__globals__
    spec = scope.get("__spec__")
    module = str(getattr(spec, "name", None) or function.__module__ or "")
    loader = getattr(spec, "loader", None) or scope.get("__loader__")
    for path in _candidates(function):
        if path not in _left:
            _left[path] = _read_left(path, loader)
        for left in _left[path]:
            if left.module == module and left.qualname == qualname:
                return left
    return None


def _read_left(path: str, loader: Any) -> list[LeftToJit]:
    from cudabuild.image.index import INDEX_NAME, parse_index
    from cudabuild.image.left import find_left

    file = os.path.join(path, INDEX_NAME)
    try:
        if os.path.isdir(path) or not hasattr(loader, "get_data"):
            with open(file, "rb") as stream:
                data = stream.read()
        else:
            data = _read_by(loader, file)
        return find_left(parse_index(data, file))
    except (OSError, ValueError, ImageFormatError):  # it would only have explained: that there is no image is told
        return []


def find_recorded_options(request: ImageRequest) -> Options:
    """The options to compile with: the decorator's, and for the rest those that the package was built with."""
    options = request.options
    matcher = Matcher(request, by_name=True)
    for folder in find_archive_folders(request.definition.function):
        for target in [*folder.targets("cubin"), *folder.targets("ptx")]:
            archive = folder.open(target)
            try:
                named = (
                    [] if archive is None else archive.find_named(matcher.module, matcher.qualname, matcher.signature)
                )
            except ImageFormatError:  # reported when it was looked into for an image
                continue
            if named:
                return effective_options(options, named[0].options, named[0].decorated)[0]
    return options


class ShippedProvider:
    """Images that came with a package: cubins (``shipped``) or PTX (``ptx``), as two providers."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.name = "shipped" if kind == "cubin" else "ptx"

    def find(self, request: ImageRequest) -> KernelImage | None:
        """The image for ``request``, or None with the reason in ``request.notes``."""
        notes: list[str] = []
        folders = find_archive_folders(request.definition.function, notes)
        matcher = Matcher(request, by_name=True)
        for folder in folders:
            image = self._find_in(folder, matcher, request, notes)
            if image is not None:
                return image
        package = matcher.module.partition(".")[0]
        if not folders and not notes:
            notes.append(f"{package} ships no images")
        request.notes += [f"{self.name}: {note}" for note in dict.fromkeys(notes)]
        return None

    def find_left(self, request: ImageRequest) -> LeftToJit | None:
        """Why the build of the kernel's package made no image of it, or None: reads a file, for messages only."""
        return find_left_to_jit(request.definition.function, request.definition.qualname)

    def find_nearest(self, request: ImageRequest, *, named: bool = False) -> str:
        """What comes nearest to a missing image, and how it differs: reads all that ships, for messages only."""
        from cudabuild.image.nearest import describe_nearest

        return describe_nearest(self._records(request), request, named=named)

    def _records(self, request: ImageRequest) -> Iterator[Record]:
        """Everything that ships for the device, whosever it is."""
        for folder in find_archive_folders(request.definition.function):
            for target, reason in rank_targets(request.device, folder.targets(self.kind)):
                archive = folder.open(target) if reason is None else None
                try:
                    yield from archive.records() if archive is not None else ()
                except ImageFormatError:  # reported when it was looked into for an image
                    continue

    def _find_in(
        self, folder: ArchiveFolder, matcher: Matcher, request: ImageRequest, notes: list[str]
    ) -> KernelImage | None:
        ranked = rank_targets(request.device, folder.targets(self.kind))
        skipped = {target: reason for target, reason in ranked if reason is not None}
        reasons = []
        for target, reason in ranked:
            archive = folder.open(target) if reason is None else None
            if archive is None:
                continue
            try:
                record = find_in_archive(archive, matcher)
                if record is not None:
                    return record.load_image("shipped")
            except ImageFormatError as error:
                config.warn(f"{error}; its image is not used")
                matcher.reason = "is damaged"
            reasons.append(f"{target} {matcher.reason}")
        ships = folder.shipped(self.kind)
        if self.kind == "cubin" or not reasons:
            notes.append(f"{folder.path} ships {', '.join(map(str, ships)) or f'no {self.kind}'}")
        notes += reasons
        notes += [f"{target} {reason}" for target, reason in skipped.items() if target in ships] if not reasons else []
        return None
