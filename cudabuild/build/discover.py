# SPDX-License-Identifier: Apache-2.0
"""Finds the kernels of a project: by their decorators in the syntax, then as live definitions.

candidates = find_candidates(slicer)          # syntax only: which names are kernels, and where
kernels = load_kernels(slicer, candidates)    # runs the slice: definitions with signatures and frozen constants
"""

from __future__ import annotations

import linecache
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from cudabuild.build.candidates import Candidate, find_candidates
from cudabuild.build.imported import Imported
from cudabuild.build.project import Project
from cudabuild.build.resolve import EXTERNAL, Cell
from cudabuild.build.sandbox import Failure, Sandbox
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.definition import KernelDefinition
from cudabuild.errors import SourceError
from cudabuild.image.left import KINDS, LeftToJit
from cudabuild.source import get_source
from cudabuild.types.signature import Signature

__all__ = ["Candidate", "Kernel", "find_candidates", "leave", "load_kernels", "open_modules"]


@dataclass
class Kernel:
    """A kernel that was found.

    Attributes:
        module, qualname: its name.
        file, line: where it is written, the file relative to the project.
        definition: the live definition; None where it could not be made.
        left: why it is left to JIT, or None if it can be built.
        variant: what tells it from other kernels of its name; "" for kernels that stand in a module.
        recorded: the signatures that a signature file adds to its own.
    """

    module: str
    qualname: str
    file: str
    line: int
    definition: KernelDefinition | None = None
    left: LeftToJit | None = None
    variant: str = ""
    recorded: list[Signature] = field(default_factory=list)


def leave(project: Project, kernel: Kernel, kind: str, reason: str) -> LeftToJit:
    """Why a kernel is left to JIT, where the kernel itself is the reason."""
    return _explain(project, kernel, Failure(kernel.file, kernel.line, reason, kind), "")


def _explain(project: Project, kernel: Kernel, failure: Failure, name: str) -> LeftToJit:
    text = linecache.getline(os.path.join(project.root, failure.file), failure.line).strip()
    remedies = [remedy.format(name=repr(failure.about)) for remedy in KINDS[failure.kind]]
    return LeftToJit(
        kernel.module, kernel.qualname, failure.kind, failure.file, failure.line, text, name, failure.reason, remedies
    )


def open_modules(project: Project, slicer: Slicer, settings: BuildSettings) -> Sandbox | Imported:
    """What runs a project's modules, as ``discovery`` says; to be used in a ``with`` statement."""
    if settings.discovery == "import":
        tops = sorted({name.partition(".")[0] for name in project.files})
        return Imported(project, slicer, adopt=tops if settings.dialect == "numba" else settings.adopt)
    return Sandbox(project, slicer, settings.allow_imports)


def load_kernels(
    slicer: Slicer, candidates: Iterable[Candidate], sandbox: Sandbox | Imported, also: Iterable[Cell] = ()
) -> list[Kernel]:
    """Runs what all candidates need and finds their definitions.

    Args:
        slicer: knows the project.
        candidates: what :func:`find_candidates` found.
        sandbox: open; it must stay open while the definitions are compiled.
        also: names of modules that something else needs.
    """
    candidates = list(candidates)
    static = [candidate for candidate in candidates if not candidate.made_at_run_time]
    cells = {*((candidate.module, candidate.path[0]) for candidate in static), *also}
    chosen = slicer.slice_cells(sorted(cells))
    sandbox.run(chosen, sorted({module for module, _ in cells}))
    kernels: dict[tuple[str, str], Kernel] = {}
    for candidate in candidates:
        for kernel in _load(candidate, sandbox):
            known = kernels.setdefault((kernel.module, kernel.qualname), kernel)
            if known.left is not None and kernel.left is None:  # the one branch of several that was taken
                kernels[kernel.module, kernel.qualname] = kernel
    return list(kernels.values())


def _load(candidate: Candidate, sandbox: Sandbox | Imported) -> list[Kernel]:
    """The kernels that a candidate stands for; none for a device function, or if it turned out to be no kernel."""
    project = sandbox.project
    file = project.relative(project.files[candidate.module].path)
    kernel = Kernel(candidate.module, candidate.name, file, candidate.line)
    if candidate.made_at_run_time:
        kernel.left = leave(project, kernel, "run-time", "it is made at run time, inside a function")
        return [kernel]
    failure = sandbox.find_failure([(candidate.module, candidate.path[0])])
    if failure is not None:
        kernel.left = _explain(project, kernel, failure, _find_name(candidate, failure, sandbox))
        return [kernel] if candidate.certain else []
    value = _find_value(candidate)
    definitions = list(_find_definitions(value))
    if not definitions:
        if value is None:
            kernel.left = leave(project, kernel, "branch", "the branch that defines it was not taken")
        else:
            what = f"it is a {type(value).__name__} in the end, not a cudabuild kernel"
            kernel.left = leave(project, kernel, "not-a-kernel", what)
        return [kernel] if candidate.certain else []
    return [
        _check(Kernel(found.module, found.qualname, file, candidate.line, found), candidate, project)
        for found in definitions
        if not found.is_device
    ]


def _check(kernel: Kernel, candidate: Candidate, project: Project) -> Kernel:
    function = kernel.definition.function if kernel.definition is not None else None
    own = project.files.get(kernel.module)
    if not function or function.__module__ is None:
        kernel.module = candidate.module
        kernel.left = leave(project, kernel, "no-text", "its function was made by exec and belongs to no module")
    elif not project.owns(kernel.module):
        reason = f"its function belongs to {kernel.module}, which is not part of this project"
        kernel.module = candidate.module
        kernel.left = leave(project, kernel, "foreign", reason)
    elif "<locals>" in kernel.qualname:
        kernel.left = leave(project, kernel, "run-time", "it is made at run time, inside a function")
    elif own is None or function.__code__.co_filename != own.path:
        try:
            get_source(function)
        except SourceError as error:
            kernel.left = leave(project, kernel, "no-text", f"its source text is not there: {error}")
    return kernel


def _find_name(candidate: Candidate, failure: Failure, sandbox: Sandbox | Imported) -> str:
    """What a kernel uses that needs the statement to blame; "" where that is the kernel itself."""
    source = sandbox.project.find_module(candidate.module)
    resolver = sandbox.slicer.resolver
    for leaf in source.bound.get(candidate.path[0], []) if source is not None else []:
        for chain in sorted(leaf.later.reads | leaf.later.looks | leaf.now.reads | leaf.now.looks):
            resolution = resolver.resolve(candidate.module, chain)
            cells = {cell for cell in resolution.path | resolution.final if cell[0] != EXTERNAL}
            if chain[0] != candidate.path[0] and sandbox.find_failure(sorted(cells)) == failure:
                return ".".join(chain)
    return ""


def _find_value(candidate: Candidate) -> Any:
    value: Any = sys.modules.get(candidate.module)
    for name in candidate.path:
        value = getattr(value, name, None)
    return value


def _find_definitions(value: Any, depth: int = 0) -> Iterator[KernelDefinition]:
    """The definitions behind a dispatcher, through decorators that kept ``__wrapped__``, or in a container of them."""
    if depth < _DEEPEST and isinstance(value, dict | list | tuple | set | frozenset):
        for element in value.values() if isinstance(value, dict) else value:
            yield from _find_definitions(element, depth + 1)
        return
    for _ in range(100):
        definition = getattr(value, "definition", None)
        if isinstance(definition, KernelDefinition):
            yield definition
            return
        value = getattr(value, "__wrapped__", None)


#: Containers in containers are looked into this deep.
_DEEPEST = 3
