# SPDX-License-Identifier: Apache-2.0
"""What would make code here, remembered: asking the tools themselves loads LLVM and the linker (half a second).

The answer is kept under an identity of everything that it depends on and that is cheap to look at: the folders of the
import path (installing or removing a distribution changes its folder), this package's own compiler, the variables that
lead to a CUDA toolkit, the driver. A wrong guess costs nothing worse than an image of the compiler before.
"""

from __future__ import annotations

import os
import sys

from cudabuild import config
from cudabuild.digest import COMPILER_SOURCES, digest, digest_parts
from cudabuild.errors import ImageFormatError
from cudabuild.image.codec import pack, unpack

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from cudabuild.cache.store import Cache

    #: What would make the code of a target now, as in the image key; None where it cannot be made here.
    Toolchain = Callable[[str], Mapping[str, str] | None]

__all__ = ["ToolchainMemo", "identify_tools"]

#: The packages that the compiler's tools are found in.
_TOOLS = ("llvmlite", "nvidia", "cuda")
_SOURCES = (".py", ".pyc")  # the latter of an installation without sources; no "__pycache__" counts
#: The folders among `COMPILER_SOURCES`, with those inside them.
_FOLDERS = ("backend", "frontend", "frontend/impl", "ir", "ir/passes", "lang", "types")
_VARIABLES = ("CUDA_PATH", "CUDA_HOME", "CONDA_PREFIX", "LD_LIBRARY_PATH")


class ToolchainMemo:
    """Answers what ``find`` would, from the cache's notes where they know it."""

    def __init__(self, cache: Cache, find: Toolchain) -> None:
        self._cache = cache
        self._find = find
        self._known: dict[tuple[str, int], Mapping[str, str] | None] = {}

    def get(self, target: str, driver_version: int) -> Mapping[str, str] | None:
        """The toolchain for a target, or None where there is none.

        Args:
            target: the target's name.
            driver_version: as ``cuDriverGetVersion`` counts; the driver may be the linker.
        """
        place = (target, driver_version)
        if place not in self._known:
            self._known[place] = self._look_up(target, driver_version, self._find)
        return self._known[place]

    def remember(self, target: str, driver_version: int, found: Mapping[str, str]) -> None:
        """Notes what a compilation has just found out, so that the next process finds its image without asking.

        Not in a checkout: a file that is edited meanwhile would be taken for the one that compiled.
        """
        if not _is_checkout():
            self._known[target, driver_version] = self._look_up(target, driver_version, lambda _: found)

    def _look_up(self, target: str, driver_version: int, find: Toolchain) -> Mapping[str, str] | None:
        identity = identify_tools(driver_version)
        name = f"tools-{digest(identity).hex()[:32]}"
        answers = self._read(name, identity)
        if target not in answers:
            found = find(target)
            answers[target] = None if found is None else dict(found)
            self._cache.write_note(name, pack((identity, answers)))
        return answers[target]

    def _read(self, name: str, identity: bytes) -> dict[str, dict[str, str] | None]:
        data = self._cache.read_note(name)
        if data is None:
            return {}
        try:
            written_for, answers = unpack(data)
        except (ImageFormatError, TypeError, ValueError):
            return {}
        if written_for != identity or not isinstance(answers, dict) or not all(map(_is_answer, answers.values())):
            return {}
        return answers


def _is_answer(answer: object) -> bool:
    return answer is None or (isinstance(answer, dict) and all(isinstance(part, str) for part in answer.values()))


def identify_tools(driver_version: int, whole: bool = False) -> bytes:
    """A digest that changes when a tool, this package's compiler or the driver does.

    Args:
        driver_version: as ``cuDriverGetVersion`` counts.
        whole: whether all of this package counts, not its compiler alone.
    """
    pieces = [sys.version, sys.prefix, str(driver_version)]
    pieces += [f"{name}={config.environment(name)}" for name in _VARIABLES]
    pieces += [_look(entry) for entry in sys.path if _may_hold_tools(entry)]
    root = _root()
    if whole or _is_checkout():
        files: list[tuple[str, int, int, int]] = []
        for name in (".",) if whole else COMPILER_SOURCES:
            _look_at_sources(os.path.join(root, name), files)
        pieces.append(repr(sorted(files)))
    else:
        # Looking at 150 files would be a quarter of a hit. Installers put files in place, which changes their folder; a
        # file that somebody edits there is noticed when it is first imported, and Python keeps new bytecode for it.
        pieces += [_look(os.path.join(root, name)) for name in COMPILER_SOURCES if name.endswith(".py")]
        pieces += [_look(os.path.join(root, name, part)) for name in _FOLDERS for part in ("", "__pycache__")]
    return digest_parts(*(piece.encode("utf-8", "surrogateescape") for piece in pieces))


def _root() -> str:
    """The folder of this package."""
    return os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def _is_checkout() -> bool:
    """Whether people edit this package where it is."""
    return os.path.exists(os.path.join(os.path.dirname(_root()), "pyproject.toml"))


def _may_hold_tools(entry: str) -> bool:
    """Whether tools can come from an entry of the import path, a folder or a zip file; no other changes them."""
    folder = entry or os.curdir
    return any(os.access(f"{folder}/{name}", os.F_OK) for name in _TOOLS) or os.path.isfile(folder)


def _look(path: str) -> str:
    try:
        stat = os.stat(path or os.curdir)
    except OSError:
        return path
    return f"{path} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino} {stat.st_size}"


def _look_at_sources(path: str, files: list[tuple[str, int, int, int]]) -> None:
    """Adds what ``stat`` says of a source file, or of those in a folder."""
    try:
        if path.endswith(_SOURCES):
            stat = os.stat(path)
            files.append((path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))
            return
        for entry in os.scandir(path):
            name = entry.name
            if name.endswith(_SOURCES):
                stat = entry.stat()
                files.append((entry.path, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size))
            elif not name.startswith("__") and entry.is_dir():
                _look_at_sources(entry.path, files)
    except OSError:  # in a zip file: its own entry of the import path stands for it
        return
