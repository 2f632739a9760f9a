# SPDX-License-Identifier: Apache-2.0
"""Finds the kernels of a project: by their decorators in the syntax, then as live definitions from a slice.

candidates = find_candidates(slicer)          # syntax only: which names are kernels, and where
kernels = load_kernels(slicer, candidates)    # runs the slice: definitions with signatures and frozen constants
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from cudabuild.build.effects import Leaf
from cudabuild.build.names import chain_of
from cudabuild.build.project import SourceModule
from cudabuild.build.sandbox import Failure, Sandbox
from cudabuild.build.slice import Slicer
from cudabuild.definition import KernelDefinition
from cudabuild.errors import SourceError

__all__ = ["Candidate", "Kernel", "find_candidates", "load_kernels"]

#: The decorators that make a kernel.
_KERNEL_DECORATORS = frozenset({"cudabuild.kernel", "cudabuild.decorators.kernel", "cudabuild.cuda.jit"})


@dataclass(frozen=True, order=True)
class Candidate:
    """A name that a kernel decorator is applied to; ``made_at_run_time`` where that happens inside a function."""

    module: str
    line: int
    path: tuple[str, ...]
    made_at_run_time: bool = False

    @property
    def name(self) -> str:
        return ".".join(self.path)


@dataclass
class Kernel:
    """A kernel that was found.

    Attributes:
        module, qualname: its name.
        file, line: where it is written, the file relative to the project.
        definition: the live definition; None where the slice could not make it.
        failure: why it is left to JIT, or None if it can be built.
    """

    module: str
    qualname: str
    file: str
    line: int
    definition: KernelDefinition | None = None
    failure: Failure | None = None


def find_candidates(slicer: Slicer) -> tuple[list[Candidate], list[Failure]]:
    """The kernels of a project by syntax alone, in order of module and line, and the files that cannot be parsed."""
    candidates: list[Candidate] = []
    failures: list[Failure] = []
    for source in _relevant_modules(slicer, failures):
        for leaf in source.leaves:
            candidates += _Scan(slicer, source, leaf).run()
    return sorted(set(candidates)), failures


def _relevant_modules(slicer: Slicer, failures: list[Failure]) -> Iterator[SourceModule]:
    """The modules that can hold a kernel: those that mention cudabuild, or a decorator that such a module hands on."""
    project = slicer.project
    texts = {name: project.read(name) for name in project.files}
    words = {b"cudabuild"}
    seen: set[str] = set()
    while words:
        wave = [name for name, text in texts.items() if name not in seen and any(word in text for word in words)]
        seen.update(wave)
        words = set()
        for name in wave:
            try:
                source = project.find_module(name)
            except SourceError as error:
                failures.append(Failure.parse(str(error)))
                continue
            assert source is not None
            yield source
            words |= {bound.encode() for bound in source.bound if _is_kernel_decorator(slicer, name, (bound,))}


def _is_kernel_decorator(slicer: Slicer, module: str, chain: tuple[str, ...]) -> bool:
    return not _KERNEL_DECORATORS.isdisjoint(slicer.resolver.external_names(module, chain))


class _Scan:
    """The candidates of one statement."""

    def __init__(self, slicer: Slicer, source: SourceModule, leaf: Leaf) -> None:
        self.slicer = slicer
        self.source = source
        self.leaf = leaf
        self.found: list[Candidate] = []

    def run(self) -> list[Candidate]:
        if isinstance(self.leaf.node, ast.stmt):
            self._scan([self.leaf.node], (), inside_function=False)
        return self.found

    def _scan(self, body: Sequence[ast.AST], path: tuple[str, ...], inside_function: bool) -> None:
        for node in body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if any(self._makes_kernel(decorator) for decorator in node.decorator_list):
                    self._add(node, (*path, node.name), inside_function)
                self._scan(node.body, (*path, node.name, "<locals>"), inside_function=True)
            elif isinstance(node, ast.ClassDef):
                self._scan(node.body, (*path, node.name), inside_function)
            elif isinstance(node, ast.Assign) and self._applies_decorator(node.value):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        self._add(node, (*path, target.id), inside_function)
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                inner = [part for part in ast.iter_child_nodes(node) if not isinstance(part, ast.expr)]
                self._scan(inner, path, inside_function)

    def _add(self, node: ast.stmt, path: tuple[str, ...], inside_function: bool) -> None:
        self.found.append(Candidate(self.source.name, node.lineno, path, inside_function))

    def _makes_kernel(self, decorator: ast.expr) -> bool:
        while isinstance(decorator, ast.Call):
            decorator = decorator.func
        chain = chain_of(decorator)
        return chain is not None and _is_kernel_decorator(self.slicer, self.source.name, chain)

    def _applies_decorator(self, value: ast.expr) -> bool:
        """``kernel(f)`` or ``kernel("…")(f)``; not ``kernel("…")`` alone, which is a decorator."""
        if not isinstance(value, ast.Call) or not value.args or not self._makes_kernel(value):
            return False
        return isinstance(value.func, ast.Call) or isinstance(value.args[0], ast.Name | ast.Attribute | ast.Lambda)


def load_kernels(slicer: Slicer, candidates: Iterable[Candidate], sandbox: Sandbox) -> list[Kernel]:
    """Runs the slice of all candidates and finds their definitions.

    Args:
        slicer: knows the project.
        candidates: what :func:`find_candidates` found.
        sandbox: open; it must stay open while the definitions are compiled.
    """
    candidates = list(candidates)
    static = [candidate for candidate in candidates if not candidate.made_at_run_time]
    chosen = slicer.slice_cells((candidate.module, candidate.path[0]) for candidate in static)
    sandbox.run(chosen, sorted({candidate.module for candidate in static}))
    kernels: dict[tuple[str, str], Kernel] = {}
    for candidate in candidates:
        kernel = _load(candidate, sandbox)
        if kernel is not None:
            kernels.setdefault((kernel.module, kernel.qualname), kernel)
    return list(kernels.values())


def _load(candidate: Candidate, sandbox: Sandbox) -> Kernel | None:
    file = sandbox.project.relative(sandbox.project.files[candidate.module].path)
    kernel = Kernel(candidate.module, candidate.name, file, candidate.line)
    here = Failure(file, candidate.line, "")
    if candidate.made_at_run_time:
        kernel.failure = here.because("it is made at run time, inside a function")
        return kernel
    kernel.failure = sandbox.find_failure([(candidate.module, candidate.path[0])])
    if kernel.failure is not None:
        return kernel
    value = _find_value(candidate)
    definition = _find_definition(value)
    if definition is None:
        what = "the branch that defines it was not taken" if value is None else f"it is {_describe(value)} in the end"
        kernel.failure = here.because(f"{what}, not a cudabuild kernel" if value is not None else what)
        return kernel
    if definition.is_device:
        return None
    kernel.module, kernel.qualname, kernel.definition = definition.module, definition.qualname, definition
    if not sandbox.project.owns(definition.module):
        kernel.failure = here.because(f"its function belongs to {definition.module}, which is not part of this project")
    return kernel


def _find_value(candidate: Candidate) -> Any:
    value: Any = sys.modules.get(candidate.module)
    for name in candidate.path:
        value = getattr(value, name, None)
    return value


def _find_definition(value: Any) -> KernelDefinition | None:
    """The definition behind a dispatcher, through decorators that kept ``__wrapped__``."""
    for _ in range(100):
        definition = getattr(value, "definition", None)
        if isinstance(definition, KernelDefinition):
            return definition
        value = getattr(value, "__wrapped__", None)
    return None


def _describe(value: Any) -> str:
    return f"a {type(value).__name__}"
