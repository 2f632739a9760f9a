# SPDX-License-Identifier: Apache-2.0
"""The build hook of hatchling: in pyproject.toml ``[tool.hatch.build.hooks.cudabuild]``, an empty table.

A wheel is given its archives when hatchling has finished it, so that what is in it decides, not what a hook thinks will
be; an editable installation is built in place; a source distribution loses what an in-place build has left.

hatchling imports this module through the entry-point group ``hatch``; nothing else does.
"""

from __future__ import annotations

import contextlib
import os
import sys
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.plugin import hookimpl

from cudabuild.build.real_backend import choose_extras, find_compile_requirements, note_shipped
from cudabuild.errors import CudabuildError

__all__ = ["CudabuildHook", "hatch_register_build_hook"]


class CudabuildHook(BuildHookInterface[Any]):
    """Compiles CUDA kernels into the archives that a wheel ships."""

    PLUGIN_NAME = "cudabuild"

    def dependencies(self) -> list[str]:
        """What compiling needs; nothing for source distributions."""
        if self.target_name != "wheel":
            return []
        try:
            return find_compile_requirements(choose_extras(self.root))
        except CudabuildError as error:
            sys.exit(f"error: {error}")

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Before the build: an editable installation runs from the source tree, so its archives go there."""
        if self.target_name == "wheel" and version == "editable":
            self._check(self._build_in_place)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """After the build: ``artifact_path`` is the finished file."""
        if self.target_name == "sdist":
            from cudabuild.build.sdist_file import remove_artefacts
            from cudabuild.build.sources import read_signature_files

            remove_artefacts(artifact_path, read_signature_files(self.root))
        elif self.target_name == "wheel" and version != "editable":
            self._check(self._ship, artifact_path)

    def _check(self, work: Any, *arguments: Any) -> None:
        """Does some work; the user's mistakes end the build with their message alone, and no unfinished wheel stays."""
        try:
            work(*arguments)
        except BaseException as error:  # Ctrl-C too
            for path in arguments:
                with contextlib.suppress(OSError):  # what went wrong first is what is told
                    os.unlink(path)
            if isinstance(error, CudabuildError):
                sys.exit(f"error: {error}")
            raise

    def _ship(self, wheel: str) -> None:
        from cudabuild.build.wheel_build import ship_in_wheel

        ship_in_wheel(wheel, self.root)
        note_shipped()

    def _build_in_place(self) -> None:
        from cudabuild.build.project import ModuleFile, Project
        from cudabuild.build.wheel_build import build_in_place
        from cudabuild.build.wheel_file import name_module

        files = {}
        for file in self.build_config.builder.recurse_included_files():
            named = name_module(file.distribution_path.replace(os.sep, "/"))
            if named is not None:
                files[named[0]] = ModuleFile(named[0], file.path, named[1])
        build_in_place(Project(self.root, files), self.root)


@hookimpl
def hatch_register_build_hook() -> type[CudabuildHook]:
    """The class that ``[tool.hatch.build.hooks.cudabuild]`` names."""
    return CudabuildHook
