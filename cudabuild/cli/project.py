# SPDX-License-Identifier: Apache-2.0
"""The project that a command is about: its modules as its own build finds them, and its settings."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.errors import CudabuildError, ToolError

if TYPE_CHECKING:
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings

__all__ = ["OpenedProject", "add_settings_arguments", "is_project", "open_project", "open_wheel", "written_settings"]

_METAVARS = {"words": "LIST", "choice": "WORD", "count": "N", "text": "TEXT", "signatures": "FILE"}


@dataclass
class OpenedProject:
    """A project in the current folder.

    Attributes:
        project, settings: its modules, and what is to be built of them.
        command: its ``build_cuda``; None for a wheel.
    """

    project: Project
    settings: BuildSettings
    command: Any = None


def _setting_names() -> list[str]:
    return [setting.name for setting in config.SETTINGS if setting.key and setting.variable]


def add_settings_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares an option for every setting of a build."""
    group = parser.add_argument_group("settings, which overrule the environment and [tool.cudabuild]")
    for name in _setting_names():
        setting = config.get_setting(name)
        flags = [f"--{setting.key}", *(["-j"] if name == "jobs" else [])]
        text = setting.doc.replace("%", "%%")
        if setting.kind == "flag":
            group.add_argument(*flags, action=argparse.BooleanOptionalAction, default=None, help=text)
        elif setting.kind == "choice":
            group.add_argument(*flags, metavar="|".join(setting.choices), help=text)
        elif setting.kind == "signatures":
            group.add_argument(*flags, action="append", metavar="FILE", help=text)
        else:
            group.add_argument(*flags, metavar=_METAVARS[setting.kind], help=text)


def written_settings(options: argparse.Namespace) -> dict[str, Any]:
    """Setting name -> what was written on the command line; paths are absolute."""
    written = {name: getattr(options, name) for name in _setting_names() if getattr(options, name, None) is not None}
    if "signatures" in written:
        written["signatures"] = [os.path.abspath(path) for path in written["signatures"]]
    return written


def is_project(path: str) -> bool:
    """True for a folder that a build can be started in."""
    return any(os.path.isfile(os.path.join(path, name)) for name in ("pyproject.toml", "setup.py", "setup.cfg"))


@contextlib.contextmanager
def open_project(folder: str, written: dict[str, Any], out: str | None = None) -> Iterator[OpenedProject]:
    """The project in a folder, which is the current one meanwhile. What its setup.py prints goes to standard error.

    Args:
        folder: the folder of pyproject.toml.
        written: settings of the command line.
        out: the folder to build into; None: the source tree.

    Raises:
        CudabuildError: there is no such folder, or a setting is wrong.
        ToolError: setuptools is missing.
    """
    if not os.path.isdir(folder):
        raise CudabuildError(f"no project\n  found:    {folder}\n  expected: the folder of a pyproject.toml")
    try:
        from setuptools.errors import BaseError
    except ImportError:
        raise ToolError("this needs setuptools, which is not installed: pip install 'cudabuild[build]'") from None
    with _change_folder(folder):
        try:
            with contextlib.redirect_stdout(sys.stderr):
                command = _make_command()
                command.inplace = out is None
                command.build_lib = out
                for name, value in written.items():  # else what setup.cfg says stays
                    setattr(command, name, value)
                command.ensure_finalized()
                project = command.find_project()
        except BaseError as error:
            raise CudabuildError(str(error)) from None
        yield OpenedProject(project, command.find_settings(), command)


@contextlib.contextmanager
def open_wheel(wheel: str, folder: str, written: dict[str, Any]) -> Iterator[OpenedProject]:
    """The modules of a finished wheel as a project.

    Args:
        wheel: the file.
        folder: the folder of the pyproject.toml that it was built from.
        written: settings of the command line.

    Raises:
        WheelError: it is no wheel.
        CudabuildError: a setting is wrong.
    """
    from cudabuild.build.settings import load_settings
    from cudabuild.build.wheel_build import find_sources
    from cudabuild.build.wheel_file import WheelFile

    root = os.path.abspath(folder)
    with WheelFile(wheel) as opened, tempfile.TemporaryDirectory(prefix="cudabuild-") as scratch:
        project = find_sources(opened, opened.find_modules(), root, scratch)
        yield OpenedProject(project, load_settings(root, written))


def _make_command() -> Any:
    """``build_cuda`` of the project in the current folder, whether or not it asks for cudabuild in its build."""
    from setuptools import Distribution  # first: it puts its own distutils in place

    from distutils.core import run_setup  # isort: skip

    from cudabuild.build.command import build_cuda
    from cudabuild.build.layouts import find_declared_modules

    if os.path.exists("setup.py"):
        distribution: Any = run_setup("setup.py", script_args=["build_cuda"], stop_after="config")
    else:
        distribution = Distribution({"script_name": "setup.py"})
        distribution.parse_config_files()
    if find_declared_modules(os.getcwd()) is None:
        distribution.set_defaults()  # setuptools looks for packages, and may find too many in other back-ends' projects
    distribution.cmdclass["build_cuda"] = build_cuda
    return distribution.get_command_obj("build_cuda")


@contextlib.contextmanager
def _change_folder(path: str) -> Iterator[None]:
    before = os.getcwd()
    os.chdir(path)
    try:
        yield
    finally:
        os.chdir(before)
