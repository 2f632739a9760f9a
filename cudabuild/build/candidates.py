# SPDX-License-Identifier: Apache-2.0
"""Finds the kernels of a project by syntax alone: which names are kernels, where, and of which dialect.

@kernel("float32[::1]")                      a function, at module level or in a class, under if, try, with, for
def scale(x): …
k = kernel("float32[::1]")(scale)            a name that a kernel is bound to
TABLE = {"a": kernel(first), "b": …}         a container of kernels
def make(n):                                 made at run time: listed, for a signature file to name
    @kernel
    def inner(x): …
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from cudabuild.build.effects import Leaf
from cudabuild.build.names import arguments_of, chain_of
from cudabuild.build.project import SourceModule
from cudabuild.build.sandbox import Failure
from cudabuild.build.slice import Slicer
from cudabuild.errors import SourceError

__all__ = ["Candidate", "find_candidates"]

#: The decorators that make a kernel -> their dialect.
_DECORATORS = {
    "cudabuild.kernel": "cudabuild",
    "cudabuild.decorators.kernel": "cudabuild",
    "cudabuild.cuda.jit": "cudabuild",
    "cudabuild.cuda_jit.jit": "cudabuild",
    "numba.cuda.jit": "numba",
    "numba.cuda.decorators.jit": "numba",
}

#: What a module must mention to hold a kernel, unless it has its decorator from one that does.
_WORDS = (b"cudabuild", b"numba")

_FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, order=True)
class Candidate:
    """A name that a kernel decorator is applied to.

    Attributes:
        module, line, path: where; the path through classes, or the name that it is bound to.
        made_at_run_time: that happens inside a function.
        certain: False where the syntax leaves open whether a kernel is made, or a decorator of kernels.
        dialect: ``numba`` for a decorator of numba's own, else ``cudabuild``.
    """

    module: str
    line: int
    path: tuple[str, ...]
    made_at_run_time: bool = False
    certain: bool = True
    dialect: str = "cudabuild"

    @property
    def name(self) -> str:
        return ".".join(self.path)


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
    words = set(_WORDS)
    seen: set[str] = set()
    while words:
        wave = [name for name, text in texts.items() if name not in seen and any(word in text for word in words)]
        seen.update(wave)
        words = set()
        for name in wave:
            try:
                source = project.find_module(name)
            except SourceError as error:
                failures.append(replace(Failure.parse(str(error)), about=name))
                continue
            assert source is not None
            yield source
            words |= {bound.encode() for bound in source.bound if _dialects(slicer, name, bound)}


def _dialects(slicer: Slicer, module: str, name: str) -> set[str]:
    expression = ast.Name(name, ast.Load())
    return {_DECORATORS[found] for found in slicer.resolver.callees(module, expression) if found in _DECORATORS}


class _Scan:
    """The candidates of one statement."""

    def __init__(self, slicer: Slicer, source: SourceModule, leaf: Leaf) -> None:
        self.slicer = slicer
        self.source = source
        self.leaf = leaf
        self.found: list[Candidate] = []
        self._parameters: list[str] = []

    def run(self) -> list[Candidate]:
        if isinstance(self.leaf.node, ast.stmt):
            self._scan([self.leaf.node], (), inside_function=False)
        return self.found

    def _scan(self, body: Sequence[ast.AST], path: tuple[str, ...], inside_function: bool) -> None:
        for node in body:
            if isinstance(node, _FunctionNode):
                self._scan_function(node, path, inside_function)
            elif isinstance(node, ast.ClassDef):
                self._scan(node.body, (*path, node.name), inside_function)
            elif isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
                parts = list(ast.iter_child_nodes(node))
                expressions = [part for part in parts if isinstance(part, ast.expr)]
                for call in _calls_in(expressions):
                    self._scan_call(node, call, path, inside_function)
                self._scan([part for part in parts if not isinstance(part, ast.expr)], path, inside_function)

    def _scan_function(self, node: _FunctionNode, path: tuple[str, ...], inside_function: bool) -> None:
        dialects = [dialect for decorator in node.decorator_list for dialect in self._dialects(decorator)]
        if dialects and not any(map(_makes_device_function, node.decorator_list)):
            self._add(node, (*path, node.name), inside_function, dialects)
        elif not dialects:
            made = [dialect for decorator in node.decorator_list for dialect in self._dialects_at_call(decorator)]
            if made:
                self._add(node, (*path, node.name), True, made)
        before, names = len(self._parameters), [argument.arg for argument in arguments_of(node.args)]
        self._parameters += names
        self._scan(node.body, (*path, node.name, "<locals>"), inside_function=True)
        del self._parameters[before:]

    def _dialects_at_call(self, decorator: ast.expr) -> set[str]:
        """The dialects of kernels that objects of a class of the project make when they are called."""
        chain = chain_of(decorator.func if isinstance(decorator, ast.Call) else decorator)
        resolver = self.slicer.resolver
        found: set[str] = set()
        for module, name in resolver.resolve(self.source.name, chain).final if chain is not None else ():
            source = resolver.find_module(module)
            for leaf in source.bound.get(name, []) if source is not None else []:
                if isinstance(leaf.node, ast.ClassDef) and leaf.node.name == name:
                    calls = [part for part in ast.walk(leaf.node) if isinstance(part, ast.Call)]
                    names = {called for call in calls for called in resolver.callees(module, call.func)}
                    found |= {_DECORATORS[called] for called in names if called in _DECORATORS}
        return found

    def _scan_call(self, node: ast.AST, call: ast.Call, path: tuple[str, ...], inside_function: bool) -> None:
        """A call that makes a kernel: ``kernel(f)`` or ``kernel("…")(f)``; ``kernel("…")`` alone is a decorator."""
        dialects = self._dialects(call.func) if call.args else []
        if not dialects or _makes_device_function(call):
            return
        argument = call.args[0]
        certain = True
        if not isinstance(call.func, ast.Call):
            if not isinstance(argument, ast.Name | ast.Attribute | ast.Lambda | ast.Call):
                return
            certain = self.slicer.resolver.is_function(self.source.name, [argument])
        if inside_function and (not certain or _root(argument) in self._parameters):
            return  # nothing could tell; or it stands in a decorator of the project's own
        roots = _roots_bound(node, call) or ([argument.id] if isinstance(argument, ast.Name) else ["<lambda>"])
        for root in roots:
            self._add(node, (*path, root), inside_function, dialects, certain)

    def _add(
        self,
        node: ast.AST,
        path: tuple[str, ...],
        inside_function: bool,
        dialects: Sequence[str],
        certain: bool = True,
    ) -> None:
        dialect = "cudabuild" if "cudabuild" in dialects else "numba"
        line: int = getattr(node, "lineno", self.leaf.line)
        self.found.append(Candidate(self.source.name, line, path, inside_function, certain, dialect))

    def _dialects(self, expression: ast.expr) -> list[str]:
        """The dialects of the kernels that ``expression``, or calling it, makes."""
        names = self.slicer.resolver.callees(self.source.name, expression)
        return [_DECORATORS[name] for name in names if name in _DECORATORS]


def _calls_in(expressions: Sequence[ast.expr]) -> Iterator[ast.Call]:
    """Every call that evaluating some expressions makes, outermost first; none of a lambda's body."""
    pending: list[ast.AST] = list(expressions)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.Lambda):
            continue
        if isinstance(node, ast.Call):
            yield node
        pending += ast.iter_child_nodes(node)


def _roots_bound(node: ast.AST, call: ast.Call) -> list[str]:
    """The names that may hold what ``call`` gives: walrus, targets of an assignment, the receiver of a method."""
    for part in ast.walk(node):
        if isinstance(part, ast.NamedExpr) and any(inner is call for inner in ast.walk(part.value)):
            return [part.target.id]
    targets: list[ast.expr] = []
    if isinstance(node, ast.Assign):
        targets = list(node.targets)
    elif isinstance(node, ast.AnnAssign | ast.AugAssign):
        targets = [node.target]
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and node.value is not call:
        targets = [node.value.func.value] if isinstance(node.value.func, ast.Attribute) else []
    roots = []
    while targets:
        target = targets.pop(0)
        if isinstance(target, ast.Tuple | ast.List):
            targets += target.elts
        elif isinstance(target, ast.Starred | ast.Subscript | ast.Attribute):
            targets.append(target.value)
        elif isinstance(target, ast.Name):
            roots.append(target.id)
    return roots


def _root(argument: ast.expr) -> str:
    chain = chain_of(argument)
    return chain[0] if chain is not None else ""


def _makes_device_function(decorator: ast.expr) -> bool:
    """True where ``device=True`` is written: the function is compiled with the kernels that call it."""
    while isinstance(decorator, ast.Call):
        for keyword in decorator.keywords:
            if keyword.arg == "device" and isinstance(keyword.value, ast.Constant) and keyword.value.value is True:
                return True
        decorator = decorator.func
    return False
