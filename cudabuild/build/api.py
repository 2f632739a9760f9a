# SPDX-License-Identifier: Apache-2.0
"""The build as a function, for build systems and scripts of one's own."""

from __future__ import annotations

import os
from concurrent.futures import Executor
from typing import Any

from cudabuild.build.job import Outcome, run_job
from cudabuild.build.opened import open_project

__all__ = ["build_project"]


def build_project(
    folder: str | os.PathLike[str] = ".",
    *,
    out: str | os.PathLike[str] | None = None,
    executor: Executor | None = None,
    quiet: bool = True,
    **settings: Any,
) -> Outcome:
    """Compiles the kernels of a project, as ``python -m cudabuild build`` does.

    ::

        with distributed.Client(address).get_executor(pure=False) as executor:
            outcome = build_project("my_project", executor=executor, archs="75 80 90")
        print(*outcome.summary(), sep="\\n")

    Args:
        folder: that of pyproject.toml; the current folder of the process while the project is read and built.
        out: the folder to write to, laid out as in a wheel; by default archives go beside the modules.
        executor: where to compile; by default what the settings say. Its tasks get and give bytes, so they may run on
            other machines that have the same cudabuild.
        quiet: shows no progress.
        settings: those of ``[tool.cudabuild]`` by name, with ``_`` for ``-``; they overrule all others.

    Returns:
        What was built and written.

    Raises:
        BuildError: kernels are wrong; with everything that is. Nothing was written.
        SettingError, TargetError: a setting is wrong.
        ToolError: nothing can be compiled here.
        CudabuildError: there is no such project.
        OSError: a file cannot be written.
    """
    place = None if out is None else os.path.abspath(out)
    with open_project(os.fspath(folder), settings, place) as opened:
        find_place = opened.command.find_place
        return run_job(
            opened.project, opened.settings, find_place, in_tree=place is None, quiet=quiet, executor=executor
        ).check()
