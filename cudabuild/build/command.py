# SPDX-License-Identifier: Apache-2.0
"""``build_cuda``: the setuptools command that compiles a distribution's kernels into its packages.

A sub-command of ``build`` (see ``hooks.py``), after ``build_py``. It follows ``setuptools.command.build.SubCommand``:
outputs, their mapping into the source tree and the source files are told without building anything.

setuptools imports this module for every project with a pyproject.toml, wherever cudabuild is installed (it looks at the
options of all commands): what the work needs is imported when there is work.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, ClassVar

from setuptools import Command
from setuptools.errors import BaseError

if TYPE_CHECKING:
    from cudabuild.build.plan import Artefacts
    from cudabuild.build.project import Project
    from cudabuild.build.settings import BuildSettings

__all__ = ["build_cuda"]

#: The settings of :mod:`cudabuild.config` that are options here; a test compares.
_SETTINGS = {
    "archs": "targets to build for, such as '80 90a 120+PTX'",
    "ptx": "PTX to build besides: lowest, newest, none, or architectures",
    "arch-variables": "variables of other tools to take targets from: CUDAARCHS, TORCH_CUDA_ARCH_LIST",
    "index": "index widths: both, 32 or 64",
    "nvjitlink": "major version of nvJitLink: auto, 12 or 13",
    "packages": "packages to look for kernels in",
    "exclude": "modules to leave out",
    "discovery": "how kernels are found: slice or import",
    "allow-imports": "packages that constants may come from",
    "dialect": "what 'from numba import cuda' means in the project: cudabuild or numba",
    "adopt": "packages whose 'from numba import cuda' means cudabuild's",
    "signatures": "files with recorded signatures",
    "jobs": "how many processes compile",
    "executor": "where to compile: processes, or dask:ADDRESS",
    "fastmath": "approximate arithmetic: true or false",
    "fma": "fused multiply-add: true or false",
    "debug": "checks in kernels: true or false",
    "lineinfo": "source lines for profilers: true or false",
    "max-registers": "the most registers a thread may use",
}


class build_cuda(Command):
    """Compiles CUDA kernels into the archives that a wheel ships."""

    description = "compile the CUDA kernels of Python packages"
    user_options: ClassVar[list[tuple[str, str | None, str]]] = [
        ("build-lib=", "d", "folder to build into"),
        ("inplace", "i", "write into the source tree, beside the modules"),
        *((f"{key}=", "j" if key == "jobs" else None, text) for key, text in _SETTINGS.items()),
        ("strict", None, "make a kernel that is left to JIT an error"),
    ]
    boolean_options: ClassVar[list[str]] = ["inplace", "strict"]

    def initialize_options(self) -> None:
        """Sets every option to unset."""
        self.build_lib: str | None = None
        self.editable_mode = False
        self.inplace: Any = False
        for key in _SETTINGS:
            setattr(self, key.replace("-", "_"), None)
        self.strict: Any = None

    def finalize_options(self) -> None:
        """Takes the build folder from ``build_py``: the modules' own, in mixed projects too."""
        self.set_undefined_options("build_py", ("build_lib", "build_lib"))

    def run(self) -> None:
        """Builds and writes.

        Raises:
            setuptools.errors.BaseError: a setting or a kernel is wrong; with everything that is.
        """
        from distutils import log

        from cudabuild.build.job import run_job
        from cudabuild.build.real_backend import note_shipped
        from cudabuild.errors import CudabuildError

        try:
            outcome = run_job(self.find_project(), self.find_settings(), self.find_place, in_tree=self.is_in_tree)
            outcome.check()
        except CudabuildError as error:
            raise BaseError(str(error)) from None
        if not self.is_in_tree:
            note_shipped()
        for line in outcome.summary():
            # A number of its own in old versions of setuptools, that of ``logging`` in others.
            self.announce(f"cudabuild: {line}", level=log.INFO)

    # What is where

    def find_project(self) -> Project:
        """The modules that ``build_py`` finds; of a project with another back-end, those that its tables name."""
        from cudabuild.build.layouts import find_declared_modules
        from cudabuild.build.project import ModuleFile, Project

        root = os.getcwd()
        files = find_declared_modules(root)
        if files is not None:
            return Project(root, files)
        files = {}
        build_py = self.get_finalized_command("build_py")
        for package, module, path in build_py.find_all_modules():
            is_package = module == "__init__"
            name = package if is_package else ".".join(filter(None, (package, module)))
            files[name] = ModuleFile(name, os.path.abspath(path), is_package)
        return Project(root, files)

    def find_settings(self) -> BuildSettings:
        """The project's settings, with the command's options.

        Raises:
            SettingError, TargetError: one is wrong.
        """
        from cudabuild.build.settings import load_settings

        names = [key.replace("-", "_") for key in _SETTINGS]
        written: dict[str, Any] = {name: getattr(self, name) for name in names}
        written["strict"] = None if self.strict is None else bool(self.strict)
        given = self.distribution.get_option_dict(self.get_command_name())
        files = {name: source for name, (source, _) in given.items() if source != "command line"}
        places = {name: f"[build_cuda] of {source}" for name, source in files.items()}
        return load_settings(os.getcwd(), written, places)

    @property
    def is_in_tree(self) -> bool:
        """Whether the archives go into the source tree."""
        return bool(self.inplace) or (self.editable_mode and not self._is_strict_editable)

    @property
    def _is_strict_editable(self) -> bool:
        # Private to setuptools, and the only way to know: a strict installation links to what stands in build_lib.
        command = self.distribution.command_obj.get("editable_wheel")
        return str(getattr(command, "mode", None) or "").lower() == "strict"

    def find_place(self, artefacts: Artefacts) -> str:
        """The folder for the archives of a package."""
        return artefacts.in_tree if self.is_in_tree else self._in_build_lib(artefacts)

    def _in_build_lib(self, artefacts: Artefacts) -> str:
        assert self.build_lib is not None
        return os.path.join(self.build_lib, *artefacts.inside.split("/"))

    def _find_files(self) -> list[tuple[Artefacts, str]]:
        """(package, file name) of everything that a build writes, from a scan of the sources alone."""
        from cudabuild.build.discover import find_candidates
        from cudabuild.build.plan import DIALECT_NAME, find_artefacts
        from cudabuild.build.slice import Slicer
        from cudabuild.image.index import INDEX_NAME

        project, settings = self.find_project(), self.find_settings()
        candidates, _ = find_candidates(Slicer(project))
        owners = {
            find_artefacts(project, one.module)
            for one in candidates
            if settings.includes(one.module) and settings.takes(one.module, one.dialect)
        }
        names = [f"{target.name}.cuar" for target in settings.targets] + [INDEX_NAME]
        found = [(artefacts, name) for artefacts in sorted(owners) for name in names]
        return found + [(one, DIALECT_NAME) for one in sorted(owners) if settings.takes(one.owner, "numba")]

    def get_source_files(self) -> list[str]:
        """The modules that may hold kernels, relative to the project; needs no compiler."""
        project = self.find_project()
        return [os.path.relpath(file.path, project.root) for file in project.files.values()]

    def get_outputs(self) -> list[str]:
        """The files below ``build_lib`` that ``run`` writes, or would write if it built in there."""
        found = [os.path.join(self._in_build_lib(artefacts), name) for artefacts, name in self._find_files()]
        return found if self.is_in_tree else [path for path in found if os.path.exists(path)] or found

    def get_output_mapping(self) -> dict[str, str]:
        """Files below ``build_lib`` and where they really stand, for builds into the source tree."""
        if not self.is_in_tree:
            return {}
        return {
            os.path.join(self._in_build_lib(artefacts), name): os.path.join(artefacts.in_tree, name)
            for artefacts, name in self._find_files()
        }
