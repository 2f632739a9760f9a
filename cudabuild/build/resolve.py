# SPDX-License-Identifier: Apache-2.0
"""Where a dotted name leads: through imports, star imports and sub-modules of a project, to where its value stands."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field

from cudabuild.build.effects import ImportBinding, Leaf
from cudabuild.build.names import Chain, chain_of
from cudabuild.build.project import Project, SourceModule
from cudabuild.errors import SourceError

__all__ = ["EXTERNAL", "Cell", "Resolution", "Resolver"]

#: (module, name), or ``(EXTERNAL, "numpy.random")`` for something outside of the project and the state that it keeps.
Cell = tuple[str, str]

EXTERNAL = "%external"


@dataclass
class Resolution:
    """Where a chain leads.

    Attributes:
        path: the cells on the way, each of which must exist; ``final``: those where the value stands.
        external: dotted names outside of the project.
        modules: modules of the project that must have been imported; ``whole``: those used as values.
    """

    path: set[Cell] = field(default_factory=set)
    final: set[Cell] = field(default_factory=set)
    external: set[str] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)


class Resolver:
    """Resolves names of a project's modules; answers are remembered."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self._resolved: dict[tuple[str, Chain], Resolution] = {}
        self._values: dict[tuple[str, Chain], list[tuple[str, Chain]]] = {}

    def resolve(self, module: str, chain: Chain) -> Resolution:
        """Follows a dotted name through imports of the project."""
        key = (module, chain)
        known = self._resolved.get(key)
        if known is None:
            known = Resolution()
            self._resolve(module, chain, known, set())
            self._resolved[key] = known
        return known

    def find_module(self, module: str) -> SourceModule | None:
        """The parsed module, or None where the project has none or it cannot be parsed."""
        try:
            return self.project.find_module(module)
        except SourceError:
            return None  # told when the statement that imports it runs

    def _resolve(self, module: str, chain: Chain, into: Resolution, seen: set[tuple[str, Chain]]) -> None:
        if (module, chain) in seen:
            return
        seen.add((module, chain))
        source = self.find_module(module)
        cell = (module, chain[0])
        into.path.add(cell)
        if source is None:
            into.final.add(cell)
            return
        leaves = source.bound.get(chain[0], [])
        for leaf in leaves:
            for binding in leaf.imports:
                if binding.name == chain[0]:
                    self._resolve_import(source, binding, chain, into, seen)
        if any(chain[0] in leaf.values or chain[0] in leaf.opaque or chain[0] in leaf.defines for leaf in leaves):
            into.final.add(cell)
        if not leaves:
            into.final.add(cell)
            if "__getattr__" in source.bound:
                into.path.add((module, "__getattr__"))
        for leaf in source.stars:
            if not _rebound_after(leaf, chain[0], leaves):
                self._resolve_star(source, leaf, chain, into, seen)

    def _resolve_import(
        self,
        source: SourceModule,
        binding: ImportBinding,
        chain: Chain,
        into: Resolution,
        seen: set[tuple[str, Chain]],
    ) -> None:
        target = source.absolute(binding)
        rest = chain[1:] if binding.attribute is None else (binding.attribute, *chain[1:])
        self.resolve_in(target, rest, into, seen)

    def resolve_in(self, module: str, rest: Chain, into: Resolution, seen: set[tuple[str, Chain]]) -> None:
        """Follows ``rest`` from the module object ``module``."""
        if not self.project.owns(module):
            dotted = ".".join((module, *rest))
            into.external.add(dotted)
            into.final.add((EXTERNAL, dotted))
            parts = dotted.split(".")
            into.path |= {(EXTERNAL, ".".join(parts[:end])) for end in range(1, len(parts) + 1)}
            if dotted == "os.getenv":
                into.path.add((EXTERNAL, "os.environ"))
            return
        into.modules.add(module)
        if not rest:
            into.whole.add(module)
            return
        source = self.find_module(module)
        inner = f"{module}.{rest[0]}"
        bound = source.bound.get(rest[0], []) if source is not None else []
        if self.project.owns(inner) and (not bound or _imports_itself(source, rest[0], bound)):
            self.resolve_in(inner, rest[1:], into, seen)
        if bound or not self.project.owns(inner):
            self._resolve(module, rest, into, seen)

    def _resolve_star(
        self, source: SourceModule, leaf: Leaf, chain: Chain, into: Resolution, seen: set[tuple[str, Chain]]
    ) -> None:
        for binding in leaf.stars:
            target = source.absolute(binding)
            star = (source.name, f"*{leaf.index}")
            if not self.project.owns(target):
                into.path.add(star)  # it may bind anything
                continue
            exporter = self.find_module(target)
            exports = exporter.exports if exporter is not None else None
            if exports is None or chain[0] in exports or (exporter is not None and exporter.stars):
                into.path.add(star)
                into.path.add((target, "__all__"))
                self.resolve_in(target, chain, into, seen)

    def callees(self, module: str, value: ast.expr) -> set[str]:
        """The names outside of the project that ``value``, or calling it, calls in the end: ``{"cudabuild.kernel"}``.

        Follows plain assignments (``jit = cb.kernel``), ``functools.partial``, both sides of a condition, elements of
        containers, attributes of classes, and functions that return one.
        """
        found: set[str] = set()
        pending = [(module, chain) for chain in self._called(module, value, into_kernels=True)]
        seen: set[tuple[str, Chain]] = set()
        while pending:
            item = pending.pop()
            if item not in seen:
                seen.add(item)
                found |= self.resolve(*item).external
                pending += self._stands_for(*item)
        return found

    def _stands_for(self, module: str, chain: Chain) -> list[tuple[str, Chain]]:
        """The names, and their modules, whose value a name has or gives when it is called."""
        known = self._values.get((module, chain))
        if known is not None:
            return known
        known = self._values[module, chain] = []
        for owner, name in self.resolve(module, chain).final:
            source = self.find_module(owner) if owner != EXTERNAL else None
            for leaf in source.bound.get(name, []) if source is not None else []:
                values = [*leaf.values.get(name, []), *_class_attribute(leaf.node, name, chain[-1])]
                for inner in values:
                    known += [(owner, called) for called in self._called(owner, inner, into_kernels=False)]
                for inner in _returned(leaf.node, name):
                    known += [(owner, called) for called in self._called(owner, inner, into_kernels=True)]
        return known

    def is_function(self, module: str, arguments: Sequence[ast.expr]) -> bool:
        """True if the first of some arguments is the name of a function that a ``def`` of the project makes."""
        chain = chain_of(arguments[0]) if arguments else None
        cells = self.resolve(module, chain).final if chain is not None else set()
        sources = [(self.find_module(owner), name) for owner, name in cells]
        return any(
            name in leaf.defines
            for source, name in sources
            if source is not None
            for leaf in source.bound.get(name, [])
        )

    def _called(self, module: str, value: ast.expr, into_kernels: bool) -> list[Chain]:
        """The chains that calling ``value`` calls in the end.

        A name that stands for ``kernel(f)`` is no decorator but a kernel, and is not followed; where a function returns
        that, or it is written as a decorator, it makes a kernel (``into_kernels``).
        """
        chains: list[Chain] = []
        pending = [value]
        while pending:
            part = pending.pop()
            chain = chain_of(part) if isinstance(part, ast.Name | ast.Attribute) else None
            if chain is not None:
                chains.append(chain)
            elif isinstance(part, ast.Call):
                function = chain_of(part.func)
                if (
                    function is not None
                    and part.args
                    and "functools.partial" in self.resolve(module, function).external
                ):
                    pending.append(part.args[0])
                elif into_kernels or not (isinstance(part.func, ast.Call) or self.is_function(module, part.args[:1])):
                    pending.append(part.func)
            elif isinstance(part, ast.Lambda):
                pending.append(part.body)
            elif isinstance(part, ast.IfExp):
                pending += [part.body, part.orelse]
            elif isinstance(part, ast.BoolOp):
                pending += part.values
            elif isinstance(part, ast.NamedExpr | ast.Subscript | ast.Attribute | ast.Starred):
                pending.append(part.value)
            elif isinstance(part, ast.Tuple | ast.List | ast.Set):
                pending += part.elts
            elif isinstance(part, ast.Dict):
                pending += part.values
        return chains


def _imports_itself(source: SourceModule | None, name: str, leaves: list[Leaf]) -> bool:
    """True if a package's ``from . import name`` is among the statements that bind the name of a sub-module."""
    return source is not None and any(
        binding.name == name and binding.attribute == name and source.absolute(binding) == source.name
        for leaf in leaves
        for binding in leaf.imports
    )


def _rebound_after(star: Leaf, name: str, leaves: list[Leaf]) -> bool:
    """True if a statement that always runs gives the name a value of its own after the star import."""
    plain = (ast.Assign, ast.AnnAssign, ast.FunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
    return any(
        leaf.index > star.index
        and not leaf.guards
        and isinstance(leaf.node, plain)
        and not any(chain[0] == name for chain in leaf.now.reads | leaf.now.looks)
        for leaf in leaves
    )


def _returned(node: ast.AST, name: str) -> list[ast.expr]:
    """What a function called ``name`` returns, where ``node`` holds its ``def``: of its local names, what they get."""
    found: list[ast.expr] = []
    for function in ast.walk(node):
        if not isinstance(function, ast.FunctionDef) or function.name != name:
            continue
        parts = list(ast.walk(function))
        found += [part.value for part in parts if isinstance(part, ast.Return) and part.value is not None]
        returned = {value.id for value in found if isinstance(value, ast.Name)}
        for part in parts:
            if isinstance(part, ast.Assign) and any(
                isinstance(target, ast.Name) and target.id in returned for target in part.targets
            ):
                found.append(part.value)
    return found


def _class_attribute(node: ast.AST, name: str, attribute: str) -> list[ast.expr]:
    """What the body of the class ``name`` gives to ``attribute``."""
    if not isinstance(node, ast.ClassDef) or node.name != name or attribute == name:
        return []
    return [
        part.value
        for part in node.body
        if isinstance(part, ast.Assign)
        and any(isinstance(target, ast.Name) and target.id == attribute for target in part.targets)
    ]
