# SPDX-License-Identifier: Apache-2.0
"""Writes the archives and the index of every package of a build, and removes what an earlier build left."""

from __future__ import annotations

import contextlib
import os
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable

from cudabuild.build.execute import BuildResult
from cudabuild.build.plan import DIALECT_NAME, Artefacts, find_artefacts, is_artefact
from cudabuild.build.project import Project
from cudabuild.image.archive import write_archive
from cudabuild.image.image import KernelImage
from cudabuild.image.index import INDEX_NAME, build_index, write_index
from cudabuild.image.left import LeftToJit

__all__ = ["Written", "write_packages"]

#: owner -> (its folder, bytes written, images written)
Written = dict[str, tuple[str, int, int]]


def write_packages(
    project: Project,
    result: BuildResult,
    place: Callable[[Artefacts], str],
    *,
    in_tree: bool,
    adopted: Collection[str] = (),
) -> Written:
    """Writes what a build made.

    Args:
        project: the project.
        result: what its build made.
        place: the folder for the archives of a package.
        in_tree: the folders are in the source tree: version control is told to ignore them.
        adopted: modules of packages that are written for numba: a note beside the archives has the import hook adopt
            a package.

    Returns:
        What was written, by package.

    Raises:
        OSError: a file cannot be written.
    """
    images: dict[Artefacts, list[KernelImage]] = defaultdict(list)
    left: dict[Artefacts, list[LeftToJit]] = defaultdict(list)
    for image in result.images:
        images[find_artefacts(project, image.module)].append(image)
    for kernel in result.kernels:
        if kernel.left:
            left[find_artefacts(project, kernel.module)].append(kernel.left)
    wanted = sorted(set(images) | set(left))
    written: Written = {}
    with _Files() as files:
        for artefacts in wanted:
            folder = place(artefacts)
            size = _write_package(files, folder, artefacts.owner, images[artefacts], left[artefacts], in_tree)
            written[artefacts.owner] = (folder, size, len(images[artefacts]))
            if artefacts.owner in adopted:
                with open(files.new(folder, DIALECT_NAME), "wb"):
                    pass  # its name says it all
        files.commit()
    keep = {place(artefacts): files.names(place(artefacts)) for artefacts in wanted}
    for folder in {place(find_artefacts(project, module)) for module in project.files} | set(keep):
        _remove(folder, keep.get(folder, set()))
    return written


def _write_package(
    files: _Files, folder: str, owner: str, images: list[KernelImage], left: Iterable[LeftToJit], in_tree: bool
) -> int:
    by_target: dict[str, list[KernelImage]] = defaultdict(list)
    for image in images:
        by_target[image.target].append(image)
    os.makedirs(folder, exist_ok=True)
    sizes = {}
    for target, group in sorted(by_target.items()):
        sizes[target] = write_archive(files.new(folder, f"{target}.cuar"), group, target)
    write_index(files.new(folder, INDEX_NAME), build_index(owner, images, sizes, left))
    if in_tree:
        with open(files.new(folder, ".gitignore"), "w", encoding="utf-8", newline="\n") as stream:
            stream.write("*\n")
    return sum(sizes.values())


class _Files:
    """Files that take their places together, once all of them are written; if anything fails, none does."""

    def __init__(self) -> None:
        self._moves: dict[str, str] = {}

    def __enter__(self) -> _Files:
        return self

    def __exit__(self, *error: object) -> None:
        for temporary in self._moves.values():
            with contextlib.suppress(OSError):  # it is in its place, or was never made
                os.unlink(temporary)

    def new(self, folder: str, name: str) -> str:
        """Where to write a file, for now."""
        path = os.path.join(folder, name)
        self._moves[path] = f"{path}.{os.getpid()}.new.tmp"
        return self._moves[path]

    def commit(self) -> None:
        """Puts every file in its place."""
        for path, temporary in self._moves.items():
            os.replace(temporary, path)

    def names(self, folder: str) -> set[str]:
        """The names of a folder's files."""
        return {os.path.basename(path) for path in self._moves if os.path.dirname(path) == folder}


def _remove(folder: str, keep: set[str]) -> None:
    """Removes an earlier build's files; setuptools never empties its build folder."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        if name not in keep and is_artefact(path):
            os.unlink(path)
    if not keep:
        with contextlib.suppress(OSError):  # something of the user's own stands in it
            os.rmdir(folder)
