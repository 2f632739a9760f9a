# SPDX-License-Identifier: Apache-2.0
"""A project opened for a build outside of its back-end: its modules as its own build finds them, and its settings."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cudabuild.errors import CudabuildError, ToolError

if TYPE_CHECKING:
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings

__all__ = ["OpenedProject", "open_project"]


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
                given = command.distribution.get_option_dict("build_cuda")
                for name, value in written.items():  # else what setup.cfg says stays
                    setattr(command, name, value)
                    given[name] = ("command line", value)
                command.ensure_finalized()
                project = command.find_project()
        except BaseError as error:
            raise CudabuildError(str(error)) from None
        except ValueError as error:  # what setuptools raises of a pyproject.toml that it cannot take, by version
            import setuptools

            raise CudabuildError(
                f"setuptools {setuptools.__version__} cannot read this project: {error}\n  found:    {os.getcwd()}"
            ) from None
        yield OpenedProject(project, command.find_settings(), command)


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
