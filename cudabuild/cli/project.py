# SPDX-License-Identifier: Apache-2.0
"""The project that a command is about: its modules as its own build finds them, and its settings."""

from __future__ import annotations

import argparse
import contextlib
import os
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from cudabuild import config
from cudabuild.build.opened import OpenedProject, open_project

if TYPE_CHECKING:
    pass

__all__ = ["OpenedProject", "add_settings_arguments", "is_project", "open_project", "open_wheel", "written_settings"]

_METAVARS = {"words": "LIST", "choice": "WORD", "count": "N", "text": "TEXT", "signatures": "FILE"}


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
