# SPDX-License-Identifier: Apache-2.0
"""``discovery = "import"``: the project's modules as Python itself imports them, for who builds without isolation.

Takes the place of :class:`~cudabuild.build.sandbox.Sandbox` in a worker process. Everything that the modules import
must be there, and everything that they do when they are imported is done.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterable
from contextlib import ExitStack
from types import TracebackType

from cudabuild import early
from cudabuild.build.project import Project
from cudabuild.build.resolve import Cell
from cudabuild.build.sandbox import Failure
from cudabuild.build.slice import Slice, Slicer

__all__ = ["Imported"]


class Imported:
    """Imports modules; a context manager, because the sources' folders are first on ``sys.path`` while it is open."""

    def __init__(self, project: Project, slicer: Slicer, adopt: Iterable[str] = ()) -> None:
        """Prepares.

        Args:
            project, slicer: the project.
            adopt: the modules, and packages of modules, in which ``numba.cuda`` means ``cudabuild.cuda``.
        """
        self.project = project
        self.slicer = slicer
        self._adopt = tuple(adopt)
        self._failures: dict[str, Failure] = {}
        self._folders: list[str] = []
        self._before: set[str] = set()
        self._open = ExitStack()

    def __enter__(self) -> Imported:
        self._open.enter_context(early.suspended())  # the mistakes of all kernels are told together
        self._before = set(sys.modules)
        self._folders = _source_folders(self.project)
        sys.path[:0] = self._folders
        if self._adopt:  # by name: the build step does not import the hook, but what a user may call
            importlib.import_module("cudabuild").adopt(*self._adopt)
        importlib.invalidate_caches()
        return self

    def __exit__(self, *error: object) -> None:
        for folder in self._folders:
            sys.path.remove(folder)
        for name in set(sys.modules) - self._before:
            if self.project.claims(name):
                del sys.modules[name]
        self._open.close()

    def run(self, chosen: Slice, modules: Iterable[str]) -> None:
        """Imports ``modules``; what a slice would choose does not matter here."""
        for name in modules:
            try:
                importlib.import_module(name)
            except (Exception, SystemExit) as error:
                self._failures[name] = self._failure(name, error)

    def find_failure(self, cells: Iterable[Cell]) -> Failure | None:
        """Why the modules of ``cells`` could not be imported, or None."""
        found = [self._failures[module] for module, _ in cells if module in self._failures]
        return found[0] if found else None

    def find_refusal(self, module: str) -> tuple[str, str] | None:
        """As in a sandbox; here everything may be imported."""
        return None

    def _failure(self, module: str, error: BaseException) -> Failure:
        """The innermost line of the project's own that an exception passed through."""
        file, line = self.project.files[module].path, 1
        own = {source.path for source in self.project.files.values()}
        traceback: TracebackType | None = error.__traceback__
        while traceback is not None:
            if traceback.tb_frame.f_code.co_filename in own:
                file, line = traceback.tb_frame.f_code.co_filename, traceback.tb_lineno
            traceback = traceback.tb_next
        if isinstance(error, SyntaxError) and error.filename in own:
            file, line = str(error.filename), error.lineno or 1
        text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
        reason = f"importing {module} fails here: {text}"
        return Failure(self.project.relative(file), line, reason, "import-fails")


def _source_folders(project: Project) -> list[str]:
    """The folders that the modules' names start at: each file's path without the parts of its name."""
    folders = []
    for file in project.files.values():
        folder = os.path.dirname(file.path)
        for _ in range(file.name.count(".") + file.is_package):
            folder = os.path.dirname(folder)
        if folder not in folders:
            folders.append(folder)
    return folders
