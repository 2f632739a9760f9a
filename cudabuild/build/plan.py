# SPDX-License-Identifier: Apache-2.0
"""What to compile, and where the results go.

A package's archives stand in ``<package>/_cudabuild/``, where the package is the outermost regular one around a module.
A single module, or one right inside a namespace package, has ``_cudabuild_<name>/`` beside it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cudabuild.build.project import Project
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import FoundKernel, Task, split_targets

__all__ = ["FOLDER", "Artefacts", "find_artefacts", "is_artefact", "plan_tasks"]

#: The folder of a package that holds its archives; the import hook looks for it.
FOLDER = "_cudabuild"


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
    """True for a file that a build put into a source tree."""
    folder, name = os.path.split(path)
    folder = os.path.basename(folder)
    in_folder = folder == FOLDER or folder.startswith(f"{FOLDER}_")
    return in_folder and (name.endswith(".cuar") or name in ("index.json", ".gitignore"))


def plan_tasks(kernels: Iterable[FoundKernel], settings: BuildSettings) -> list[list[Task]]:
    """Every kernel × signature, for all targets: one list for each nvJitLink that is needed."""
    overloads = [(kernel, text) for kernel in kernels for text in kernel.signatures]
    groups: Sequence[tuple[object, ...]] = split_targets(settings.targets)
    return [
        [
            Task(kernel.module, kernel.qualname, text, tuple(map(str, targets)), settings.index_widths)
            for kernel, text in overloads
        ]
        for targets in groups
    ]
