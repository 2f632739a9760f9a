# SPDX-License-Identifier: Apache-2.0
"""Puts compiled kernels into a finished wheel.

The wheel says what is shipped, so this needs no idea of layouts: it holds for every back-end.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from cudabuild.build.job import Outcome, run_job
from cudabuild.build.plan import Artefacts, find_artefacts, is_artefact
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.settings import load_settings
from cudabuild.build.wheel_file import WheelFile, WheelModule

__all__ = ["build_in_place", "find_sources", "run_in_wheel", "ship_in_wheel"]

#: Where projects keep their packages; a source that stands elsewhere is named by its path in the wheel.
_SOURCE_FOLDERS = ("src", "", "python", "lib")


def ship_in_wheel(wheel: str, root: str, command_line: Mapping[str, Any] | None = None) -> None:
    """As :func:`run_in_wheel`, and tells the summary.

    Raises:
        BuildError: kernels are wrong; with everything that is.
    """
    _tell(run_in_wheel(wheel, root, command_line).check().summary())


def run_in_wheel(wheel: str, root: str, command_line: Mapping[str, Any] | None = None) -> Outcome:
    """Compiles the kernels of a wheel's modules and puts their archives into it, in place of those of an earlier build.

    Args:
        wheel: the file; replaced as a whole, or not at all, as where a kernel is wrong.
        root: the project's folder, for ``[tool.cudabuild]`` and for the places in messages.
        command_line: settings that overrule all others, by name.

    Raises:
        WheelError: the wheel cannot be edited.
        SettingError, TargetError: a setting is wrong.
        ToolError: there is no compiler.
    """
    with WheelFile(wheel) as opened, tempfile.TemporaryDirectory(prefix="cudabuild-") as scratch:
        modules = opened.find_modules()
        project = find_sources(opened, modules, root, os.path.join(scratch, "wheel"))
        output = os.path.join(scratch, "archives")

        def place(artefacts: Artefacts) -> str:
            return os.path.join(output, *_inside(artefacts, modules).split("/"))

        outcome = run_job(project, load_settings(root, command_line), place, in_tree=False)
        if not outcome.result.errors:
            _replace_archives(opened, output, {_inside(find_artefacts(project, name), modules) for name in modules})
            opened.save()
        outcome.written = {
            owner: (_inside_wheel(folder, output), size, count)
            for owner, (folder, size, count) in outcome.written.items()
        }
    return outcome


def build_in_place(project: Project, root: str, command_line: Mapping[str, Any] | None = None) -> None:
    """Compiles a project's kernels into its source tree; arguments and errors as for :func:`ship_in_wheel`."""
    settings = load_settings(root, command_line)
    _tell(run_job(project, settings, lambda artefacts: artefacts.in_tree, in_tree=True).check().summary())


def _tell(lines: list[str]) -> None:
    for line in lines:
        sys.stdout.write(f"cudabuild: {line}\n")
    sys.stdout.flush()


def find_sources(opened: WheelFile, modules: Mapping[str, WheelModule], root: str, scratch: str) -> Project:
    """A wheel's modules as a project: the user's own file where it is the same, else what the wheel holds.

    Args:
        opened, modules: the wheel, and what its ``find_modules`` found.
        root: the project's folder.
        scratch: a folder for the files that are not the user's own.
    """
    files: dict[str, ModuleFile] = {}
    own = False
    for name, module in modules.items():
        data = opened.read(module.member)
        path = _find_same(root, module.inside, data)
        own = own or path is not None
        if path is None:
            path = os.path.join(scratch, *module.inside.split("/"))
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as stream:
                stream.write(data)
        files[name] = ModuleFile(name, path, module.is_package)
    return Project(root if own else scratch, files)


def _find_same(root: str, inside: str, data: bytes) -> str | None:
    for folder in _SOURCE_FOLDERS:
        path = os.path.join(root, folder, *inside.split("/"))
        try:
            with open(path, "rb") as stream:
                if stream.read(len(data) + 1) == data:
                    return path
        except OSError:
            continue
    return None


def _inside(artefacts: Artefacts, modules: Mapping[str, WheelModule]) -> str:
    """The folder of a package's archives in the wheel."""
    return modules[artefacts.owner].prefix + artefacts.inside


def _inside_wheel(folder: str, output: str) -> str:
    return os.path.relpath(folder, output).replace(os.sep, "/")


def _replace_archives(opened: WheelFile, output: str, folders: set[str]) -> None:
    """Puts everything below ``output`` into the wheel; what else a build once put into ``folders`` is taken out."""
    new: dict[str, str] = {}
    for folder, _, names in os.walk(output):
        for name in names:
            path = os.path.join(folder, name)
            new[_inside_wheel(path, output)] = path
    for name in opened.names:
        if name not in new and is_artefact(name) and name.rpartition("/")[0] in folders:
            opened.remove_file(name)
    for name, path in new.items():
        with open(path, "rb") as stream:
            opened.set_file(name, stream.read())
