# SPDX-License-Identifier: Apache-2.0
"""What to compile, and where the results go.

A package's archives stand in ``<package>/_cudabuild/``, where the package is the outermost regular one around a module.
A single module, or one right inside a namespace package, has ``_cudabuild_<name>/`` beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cudabuild.backend.cubin import installed_linkers, linker_major
from cudabuild.build.project import Project
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import FoundKernel, Task
from cudabuild.errors import TargetError
from cudabuild.target import Target

__all__ = [
    "DIALECT_NAME",
    "FOLDER",
    "Artefacts",
    "TaskGroup",
    "find_artefacts",
    "is_artefact",
    "plan_tasks",
    "split_targets",
]

#: The folder of a package that holds its archives; the import hook looks for it.
FOLDER = "_cudabuild"

#: The file in it that says that the package is written for numba, which the import hook then stands in for.
DIALECT_NAME = "dialect-numba"


@dataclass(frozen=True, order=True)
class Artefacts:
    """Where the archives of one package, or of one module, go.

    Attributes:
        owner: the package's or module's dotted name.
        inside: the folder's path below the root of a wheel, with forward slashes.
        in_tree: the folder's path in the source tree.
    """

    owner: str
    inside: str
    in_tree: str


def find_artefacts(project: Project, module: str) -> Artefacts:
    """Where the archives of a module's kernels go."""
    package = project.package_of(module)
    if package is not None:
        parts = [*package.split("."), FOLDER]
        return Artefacts(package, "/".join(parts), os.path.join(os.path.dirname(project.files[package].path), FOLDER))
    *parents, name = module.split(".")
    folder = f"{FOLDER}_{name}"
    in_tree = os.path.join(os.path.dirname(project.files[module].path), folder)
    return Artefacts(module, "/".join([*parents, folder]), in_tree)


def is_artefact(path: str) -> bool:
    """True for a file that a build put into a source tree; a killed one leaves temporary files there too."""
    folder, name = os.path.split(path)
    folder = os.path.basename(folder)
    in_folder = folder == FOLDER or folder.startswith(f"{FOLDER}_")
    return in_folder and (name.endswith((".cuar", ".tmp")) or name in ("index.json", ".gitignore", DIALECT_NAME))


@dataclass(frozen=True)
class TaskGroup:
    """What one kind of process compiles: one process loads one nvJitLink.

    Attributes:
        linker: the major version that it loads; None where it only makes PTX.
        tasks: every kernel × signature, each for all targets that this linker serves.
    """

    linker: int | None
    tasks: tuple[Task, ...]


def plan_tasks(kernels: Iterable[FoundKernel], settings: BuildSettings) -> list[TaskGroup]:
    """Every kernel × signature for all targets, by the nvJitLink that makes them."""
    overloads = [(kernel, text) for kernel in kernels for text in kernel.signatures]
    return [
        TaskGroup(
            linker,
            tuple(
                Task(
                    kernel.module,
                    kernel.qualname,
                    text,
                    tuple(map(str, targets)),
                    settings.index_widths,
                    variant=kernel.variant,
                    recorded=text in kernel.recorded,
                )
                for kernel, text in overloads
            ),
        )
        for linker, targets in split_targets(settings.targets, settings.nvjitlink)
    ]


def split_targets(targets: Sequence[Target], nvjitlink: str = "auto") -> list[tuple[int | None, tuple[Target, ...]]]:
    """Targets by the major version of nvJitLink that makes them, the older first; PTX goes with the first.

    Args:
        targets: in canonical order.
        nvjitlink: the setting: ``"12"`` or ``"13"`` for that one, ``"auto"`` for 12.9 where it will do.

    Raises:
        TargetError: the one that is set cannot make a target.
    """
    wanted = None if nvjitlink == "auto" else int(nvjitlink)
    beyond = [target for target in targets if wanted is not None and not target.is_ptx and target.linker[0] > wanted]
    if beyond:
        raise TargetError(
            f"nvJitLink {wanted} cannot make {', '.join(map(str, beyond))}\n  found:    nvjitlink = {nvjitlink}\n"
            f"  expected: auto, or {beyond[0].linker[0]}\n"
            "  do:       with auto, each target is made by the oldest nvJitLink that can; both can be installed"
        )
    if wanted is None and not installed_linkers():  # a CUDA toolkit's, if any: which it is, is known once it is loaded
        return [(None, tuple(targets))]
    majors = {target: linker_major(target, wanted) for target in targets if not target.is_ptx}
    linkers: list[int | None] = [*sorted(set(majors.values()))]
    first = linkers[0] if linkers else None
    return [
        (linker, tuple(target for target in targets if majors.get(target, first) == linker))
        for linker in linkers or [None]
    ]
