# SPDX-License-Identifier: Apache-2.0
"""Checks that archives are what a build would make of the sources now, for CI: status 1 if not, with the kernels.

Nothing is compiled. The versions of the tools that made an image are not compared.
"""

from __future__ import annotations

import argparse
import os
import zipfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cudabuild.cli.output import add_json_argument, count, json_of_settings, print_json
from cudabuild.cli.project import add_settings_arguments, open_project, open_wheel, written_settings
from cudabuild.image.archive import Archive
from cudabuild.image.index import INDEX_NAME, parse_index, read_index
from cudabuild.image.left import LeftToJit, find_left

if TYPE_CHECKING:
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings
    from cudabuild.build.staleness import Checked
    from cudabuild.build.survey import Survey

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the arguments."""
    parser.usage = "%(prog)s [-h] [--inplace | --out DIR | --wheel FILE] [--json] [--SETTING …] [project]"
    parser.add_argument("project", nargs="?", default=".", help="the folder of pyproject.toml (default: this one)")
    place = parser.add_mutually_exclusive_group()
    place.add_argument("--inplace", action="store_true", help="check the archives beside the modules (the default)")
    place.add_argument("--out", metavar="DIR", help="check what 'build --out DIR' made")
    place.add_argument("--wheel", metavar="FILE", help="check a wheel of the project")
    add_json_argument(parser)
    add_settings_arguments(parser)


def run(options: argparse.Namespace) -> int:
    """Compares, and says what is stale."""
    written = written_settings(options)
    if options.wheel:
        with open_wheel(options.wheel, options.project, written) as opened:
            return _report(options, *_check(opened.project, opened.settings, _WheelArchives(options.wheel)))
    out = os.path.abspath(options.out) if options.out else None
    with open_project(options.project, written, out) as opened:
        return _report(options, *_check(opened.project, opened.settings, _FolderArchives(out)))


class _FolderArchives:
    """Archives in the source tree, or below a folder laid out like a wheel."""

    def __init__(self, out: str | None) -> None:
        self._out = out

    def open(self, project: Project, module: str, target: str) -> Archive | None:
        path = os.path.join(self._folder(project, module), f"{target}.cuar")
        return Archive(path) if os.path.isfile(path) else None

    def all(self, project: Project) -> Iterator[Archive]:
        for folder in sorted({self._folder(project, module) for module in project.files}):
            for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
                if name.endswith(".cuar"):
                    yield Archive(os.path.join(folder, name))

    def left(self, project: Project) -> Iterator[LeftToJit]:
        for folder in sorted({self._folder(project, module) for module in project.files}):
            path = os.path.join(folder, INDEX_NAME)
            if os.path.isfile(path):
                yield from find_left(read_index(path))

    def _folder(self, project: Project, module: str) -> str:
        from cudabuild.build.plan import find_artefacts

        artefacts = find_artefacts(project, module)
        return artefacts.in_tree if self._out is None else os.path.join(self._out, *artefacts.inside.split("/"))


class _WheelArchives:
    """Archives in a wheel."""

    def __init__(self, path: str) -> None:
        with zipfile.ZipFile(path) as wheel:
            self._files = {name: wheel.read(name) for name in wheel.namelist() if name.endswith(".cuar")}
            folders = {os.path.dirname(name) for name in self._files}
            indexes = {f"{folder}/{INDEX_NAME}" for folder in folders} & set(wheel.namelist())
            self._indexes = {name: wheel.read(name) for name in sorted(indexes)}
        self._path = path

    def open(self, project: Project, module: str, target: str) -> Archive | None:
        from cudabuild.build.plan import find_artefacts

        inside = f"{find_artefacts(project, module).inside}/{target}.cuar"
        for name in self._files:
            if name == inside or name.endswith((f".data/purelib/{inside}", f".data/platlib/{inside}")):
                return self._archive(name)
        return None

    def all(self, project: Project) -> Iterator[Archive]:
        return map(self._archive, sorted(self._files))

    def left(self, project: Project) -> Iterator[LeftToJit]:
        for name, data in self._indexes.items():
            yield from find_left(parse_index(data, f"{self._path}/{name}"))

    def _archive(self, name: str) -> Archive:
        return Archive(self._files[name], f"{self._path}/{name}")


def _check(
    project: Project, settings: BuildSettings, archives: _FolderArchives | _WheelArchives
) -> tuple[Survey, BuildSettings, Checked]:
    from cudabuild.build.staleness import Problem, check_archives
    from cudabuild.build.survey import survey_project
    from cudabuild.errors import ImageFormatError

    survey = survey_project(project, settings)
    opened: dict[tuple[str, str], Archive | None] = {}

    def find(module: str, target: str) -> Archive | None:
        if (module, target) not in opened:
            opened[module, target] = archives.open(project, module, target)
        return opened[module, target]

    damaged = []
    try:
        left = list(archives.left(project))
    except ImageFormatError as error:
        left, damaged = [], [Problem("", "", "", "damaged", (), str(error))]

    def others() -> Iterator[Archive]:
        try:
            yield from archives.all(project)
        except ImageFormatError as error:
            damaged.append(Problem("", "", "", "damaged", (), str(error)))

    checked = check_archives(survey, settings, find, others(), left)
    if not any(problem.kind == "damaged" for problem in checked.problems):
        checked.problems += damaged
    return survey, settings, checked


def _report(options: argparse.Namespace, survey: Survey, settings: BuildSettings, checked: Checked) -> int:
    ok = not checked.problems and not survey.errors
    if options.json:
        print_json("check", {"ok": ok, **_json_of_check(survey, settings, checked)})
        return 0 if ok else 1
    for problem in checked.problems:
        print(f"stale: {problem}")
    for error in survey.errors:
        print(f"error: {error}")
    if ok:
        print(f"up to date: {count(len(survey.overloads), 'signature')}, {count(checked.current, 'image')}")
    else:
        stale = {(problem.module, problem.qualname) for problem in checked.problems if problem.module}
        print(f"{count(len(stale), 'kernel')} not as the sources are; {count(checked.current, 'image')} up to date")
        print("  do:       " + _remedy(options))
    return 0 if ok else 1


def _remedy(options: argparse.Namespace) -> str:
    place = f"--out {options.out}" if options.out else f"--wheel {options.wheel}" if options.wheel else "--inplace"
    return f"cudabuild build {place}{'' if options.project == '.' else f' {options.project}'}"


def _json_of_check(survey: Survey, settings: BuildSettings, checked: Checked) -> dict[str, Any]:
    return {
        "targets": [target.name for target in settings.targets],
        "index_widths": list(settings.index_widths),
        "settings": json_of_settings(settings),
        "current_images": checked.current,
        "problems": [
            {
                "module": problem.module,
                "qualname": problem.qualname,
                "signature": problem.signature,
                "variant": problem.variant,
                "kind": problem.kind,
                "targets": list(problem.targets),
                "reason": problem.reason,
            }
            for problem in checked.problems
        ],
        "errors": list(survey.errors),
    }
