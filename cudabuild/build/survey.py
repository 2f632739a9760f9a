# SPDX-License-Identifier: Apache-2.0
"""What a build would make of a project, without compiling: its kernels, their overloads and what each one means now.

Needs no compiler: fingerprints are made of source text and values. The slice runs in a process of its own, as it does
for a build.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cudabuild.build.pool import WorkerEnded, receive, send
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.recorded import read_recorded
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import Discovery, FoundKernel, Session, Task
from cudabuild.errors import CudabuildError, ToolError

__all__ = ["Overload", "Survey", "main", "survey_project"]

_START = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from cudabuild.build.survey import main; sys.exit(main())"
)


@dataclass(frozen=True)
class Overload:
    """One overload that a build would compile.

    Attributes:
        module, qualname, signature, variant: which.
        fingerprint: 32 bytes: what it means now.
        options: the compile options that differ from their defaults.
        decorated: the names of those that the decorator writes.
        parts: the labelled parts of the fingerprint, free values among them.
        recorded: only a signature file asks for it; what of it cannot be compiled is left to JIT.
    """

    module: str
    qualname: str
    signature: str
    fingerprint: bytes
    options: Mapping[str, Any]
    decorated: tuple[str, ...]
    parts: tuple[tuple[str, str], ...]
    variant: str = ""
    recorded: bool = False

    @property
    def free_values(self) -> dict[str, str]:
        """The frozen constants by name."""
        return {label: text for label, text in self.parts if not label.rpartition("/")[2].startswith("(")}


@dataclass(frozen=True)
class Survey:
    """What was found of a project.

    Attributes:
        kernels: all of them, in order of module and line.
        overloads: of the kernels that can be built.
        unreadable: the files that cannot be parsed, as ``file:line: reason``.
        errors: what is wrong, each once.
        notes: remarks for people.
    """

    kernels: tuple[FoundKernel, ...]
    overloads: tuple[Overload, ...]
    unreadable: tuple[str, ...]
    errors: tuple[str, ...]
    notes: tuple[str, ...] = ()


def survey_project(project: Project, settings: BuildSettings) -> Survey:
    """Discovers a project's kernels, and computes what each overload means.

    Raises:
        SettingError: something in a signature file is wrong.
        ToolError: the process that looks for kernels cannot be started, or ended.
    """
    read_recorded(settings)  # what is wrong in a signature file is told here, not by a process that ends
    paths = json.dumps([os.path.abspath(path) for path in sys.path])
    try:
        process = subprocess.Popen([sys.executable, "-c", _START, paths], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    except OSError as error:
        raise ToolError(f"no process can be started with {sys.executable}: {error}") from None
    files = {name: (file.name, file.path, file.is_package) for name, file in project.files.items()}
    with process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            send(process.stdin, (project.root, files, settings))
            found, overloads, errors = receive(process.stdout)
        except (EOFError, OSError):
            process.kill()
            how = WorkerEnded(process.wait()).how
            raise ToolError(f"the process that looks for kernels {how}; its message stands above") from None
    kernels = found.kernels
    errors = [kernel.error for kernel in kernels if kernel.error] + errors
    errors += settings.find_unknown_kernels(f"{kernel.module}:{kernel.qualname}" for kernel in kernels)
    if settings.strict:
        errors += [f"{kernel.left} (strict)" for kernel in kernels if kernel.left]
        errors += [f"{failure} (strict)" for failure in found.unreadable]
    return Survey(kernels, tuple(overloads), tuple(map(str, found.unreadable)), tuple(errors), found.notes)


def main() -> None:
    """Serves one parent process."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what a slice prints must not stand between our answers
    try:
        root, files, settings = receive(sys.stdin.buffer)
    except EOFError:
        return
    with contextlib.suppress(OSError):  # the parent is gone
        send(answers, _survey(Project(root, {name: ModuleFile(*file) for name, file in files.items()}), settings))


def _survey(project: Project, settings: BuildSettings) -> tuple[Discovery, list[Overload], list[str]]:
    from cudabuild.build.discover import open_modules
    from cudabuild.build.slice import Slicer
    from cudabuild.cache.store import Cache

    session = Session(project, settings, Cache.open())
    overloads: list[Overload] = []
    errors: list[str] = []
    with open_modules(project, Slicer(project), settings) as opened:
        found = session.discover(opened)
        for kernel in found.kernels:
            for text in kernel.signatures:
                try:
                    overloads.append(_describe(session, kernel, text))
                except CudabuildError as error:
                    errors.append(f"{kernel.module}:{kernel.qualname}({text}): {error}")
    return found, overloads, errors


def _describe(session: Session, kernel: FoundKernel, text: str) -> Overload:
    from cudabuild.definition import OPTIONS

    fingerprint, options = session.identify(Task(kernel.module, kernel.qualname, text, (), (), variant=kernel.variant))
    return Overload(
        kernel.module,
        kernel.qualname,
        text,
        fingerprint.digest,
        {spec.name: options[spec.name] for spec in OPTIONS if options[spec.name] != spec.default},
        fingerprint.decorated,
        fingerprint.parts,
        kernel.variant,
        text in kernel.recorded,
    )
