# SPDX-License-Identifier: Apache-2.0
"""What a top-level statement binds, reads and may change, from its syntax alone.

A module becomes a list of *leaves* (statements, with ``if`` opened up so that its branches are leaves of their own) and
each leaf gets :class:`Effects`: ``now``, what running the statement does, and ``later``, what the functions that it
defines do when they are called. Names are *chains*: ``cfg.tables[0]`` is read as ``("cfg", "tables")``. A function's
local variables become chains whose root starts with ``%``, so that ``t = TABLE; t.append(1)`` is seen to change TABLE.

    N = 4                       binds N
    N *= 2                      binds N, reads N, may change what N holds
    TABLE.append(N)             calls a method: may change TABLE
    from .consts import A, B    two leaves: one binds A, the other B
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from cudabuild.build.names import (
    Chain,
    arguments_of,
    chain_of,
    is_host_method,
    local_names,
    pairs_up,
    pattern_names,
    target_names,
)

__all__ = ["CallSite", "Effects", "ImportBinding", "Leaf", "Step", "analyse_module"]


@dataclass(frozen=True)
class ImportBinding:
    """``name`` is bound to module ``module``, or to its attribute ``attribute``; ``level`` counts leading dots.

    ``import a.b`` binds ``a`` to module ``a``, and imports ``imported``, which is ``a.b``.
    """

    name: str
    module: str
    attribute: str | None
    level: int
    imported: str


@dataclass(frozen=True)
class CallSite:
    """A call.

    Attributes:
        function: what is called, or None if it is not a plain dotted name.
        receiver, arguments: every chain that it receives.
        positions: how many positional arguments there are; ``keywords``: the names of the others, ``**`` for a mapping.
    """

    function: Chain | None
    receiver: frozenset[Chain]
    arguments: frozenset[Chain]
    positions: int = 0
    keywords: frozenset[str] = frozenset()


@dataclass
class Effects:
    """What running some code does to names outside of it.

    Attributes:
        reads: chains whose value it uses; ``looks``: dotted ones of which it only takes the value, without a call.
        stores: chains that it stores into (``x.a = …``, ``x[i] = …``, ``del x[i]``).
        mutates: chains that it may change in place (``x += …``).
        calls: the calls in it.
        links: (left, right): changing one of ``left`` may change one of ``right`` too, for they may be one object.
        wild: it may bind any name (``exec``, ``globals()``, …), and read any.
        peeks: it may read any name in a way that shows whether there is one (``globals()``).
    """

    reads: set[Chain] = field(default_factory=set)
    looks: set[Chain] = field(default_factory=set)
    stores: set[Chain] = field(default_factory=set)
    mutates: set[Chain] = field(default_factory=set)
    calls: list[CallSite] = field(default_factory=list)
    links: list[tuple[frozenset[Chain], frozenset[Chain]]] = field(default_factory=list)
    wild: bool = False
    peeks: bool = False


@dataclass(eq=False)
class Leaf:
    """One statement of a module, or the test of an ``if`` around others.

    Attributes:
        module: the module's name.
        index: program order in the module.
        node: the statement; the test expression of an ``if``.
        guards: the tests around it, outermost first.
        binds: names that it binds, rebinds or deletes in the module.
        values: name -> the expressions that plain assignments give it; ``opaque``: names bound in another way too.
        imports: names that it binds by importing; ``stars`` the modules of its star imports.
        defines: functions it binds by ``def``; they cannot be changed by being passed around.
        now, later: see the module's text. ``methods``: what the methods of a class do, apart from those decorated.
        annotations: chains read in annotations only.
    """

    module: str
    index: int
    node: ast.stmt | ast.expr
    guards: tuple[Leaf, ...] = ()
    binds: set[str] = field(default_factory=set)
    values: dict[str, list[ast.expr]] = field(default_factory=dict)
    opaque: set[str] = field(default_factory=set)
    imports: list[ImportBinding] = field(default_factory=list)
    stars: list[ImportBinding] = field(default_factory=list)
    defines: set[str] = field(default_factory=set)
    now: Effects = field(default_factory=Effects)
    later: Effects = field(default_factory=Effects)
    methods: Effects = field(default_factory=Effects)
    annotations: set[Chain] = field(default_factory=set)

    @property
    def line(self) -> int:
        """The first line, decorators included."""
        decorators = getattr(self.node, "decorator_list", [])
        return int(min([self.node.lineno, *(decorator.lineno for decorator in decorators)]))

    @property
    def is_definition(self) -> bool:
        """Running it runs no function body: a ``def`` or ``class``."""
        return isinstance(self.node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)


@dataclass(eq=False)
class Step:
    """A leaf to run; for the test of an ``if`` also what runs where it holds and where it does not."""

    leaf: Leaf
    body: list[Step] = field(default_factory=list)
    orelse: list[Step] = field(default_factory=list)


def analyse_module(name: str, tree: ast.Module) -> tuple[list[Leaf], list[Step]]:
    """The leaves of a module in program order, and the same as the steps that run them."""
    leaves: list[Leaf] = []
    return leaves, _flatten(name, tree.body, (), leaves)


def _flatten(module: str, body: Sequence[ast.stmt], guards: tuple[Leaf, ...], leaves: list[Leaf]) -> list[Step]:
    steps = []
    for node in body:
        # Only `if` is opened up. A statement of a `try`, `with` or loop decides which others run.
        parts: Sequence[ast.stmt | ast.expr] = [node.test] if isinstance(node, ast.If) else _split_import(node)
        for part in parts:
            leaf = Leaf(module, len(leaves), part, guards)
            _Collector(leaf).visit(part)
            leaves.append(leaf)
            step = Step(leaf)
            steps.append(step)
        if isinstance(node, ast.If):
            step.body = _flatten(module, node.body, (*guards, leaf), leaves)
            step.orelse = _flatten(module, node.orelse, (*guards, leaf), leaves)
    return steps


def _split_import(node: ast.stmt) -> Sequence[ast.stmt | ast.expr]:
    """``from m import a, b`` as two statements: needing ``a`` does not need ``b``."""
    if isinstance(node, ast.Import):
        return [ast.copy_location(ast.Import([alias]), node) for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        return [ast.copy_location(ast.ImportFrom(node.module, [alias], node.level), node) for alias in node.names]
    return [node]


#: Calls of these may bind, or hide reads of, any name of the module …
_WILD = frozenset({"exec", "eval", "globals", "locals", "vars"})
#: … and of these, a missing name is not seen.
_SEEN = frozenset({"exec", "eval"})


#: ``setattr(sys.modules[__name__], …)`` too.
_MODULES = ("sys", "modules")


class _Collector(ast.NodeVisitor):
    """Fills a leaf. ``self.effects`` is where effects go: the leaf's ``now``, ``later`` or ``methods``."""

    def __init__(self, leaf: Leaf) -> None:
        self.leaf = leaf
        self.effects = leaf.now
        self.scopes: list[dict[str, str]] = []
        self.classes: list[Chain] = []
        self.counter = 0

    # Names

    def _rooted(self, chain: Chain) -> Chain:
        """The chain with a local variable's root replaced by a name of its own."""
        for scope in reversed(self.scopes):
            if chain[0] in scope:
                return (scope[chain[0]], *chain[1:])
        return chain

    def _open_scope(self, names: Iterable[str]) -> None:
        self.counter += 1
        self.scopes.append({name: f"%{self.leaf.index}.{self.counter}.{name}" for name in names})

    def _read(self, chain: Chain) -> None:
        if not chain[0].startswith("%"):
            self.effects.reads.add(chain)

    def _is_module_level(self, name: str) -> bool:
        return not self.classes and self._rooted((name,)) == (name,)

    def _bind(self, name: str) -> Chain:
        if self._is_module_level(name):
            if self.effects is self.leaf.now:
                self.leaf.binds.add(name)
            else:
                self.effects.stores.add((name,))  # a `global` of a function
        return self._rooted((name,))

    def _bind_opaque(self, name: str) -> Chain:
        if self._is_module_level(name):
            self.leaf.opaque.add(name)
        return self._bind(name)

    def _references(self, node: ast.expr | None) -> frozenset[Chain]:
        """Every chain in an expression: what its value may be, hold or have been made from."""
        found: set[Chain] = set()
        pending: list[ast.AST] = [node] if node is not None else []
        while pending:
            part = pending.pop()
            chain = chain_of(part) if isinstance(part, ast.Name | ast.Attribute) else None
            if chain is not None:
                found.add(self._rooted(chain))
            else:
                pending.extend(ast.iter_child_nodes(part))
        return frozenset(found)

    # Expressions

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load):
            self._read(self._rooted((node.id,)))
        else:
            self._bind_opaque(node.id)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = chain_of(node)
        if chain is None:
            self.visit(node.value)
        else:
            self._look(chain)

    def _look(self, chain: Chain) -> None:
        chain = self._rooted(chain)
        if not chain[0].startswith("%"):
            self.effects.looks.add(chain)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._assign([node.target], node.value)

    def visit_Call(self, node: ast.Call) -> None:
        chain = chain_of(node.func)
        if chain is None:
            self.visit(node.func)
        else:
            self._read(self._rooted(chain))
        for part in [*node.args, *node.keywords]:
            self.visit(part)
        arguments: frozenset[Chain] = frozenset()
        for argument in [*node.args, *(keyword.value for keyword in node.keywords)]:
            arguments |= self._references(argument)
        receiver: frozenset[Chain] = frozenset()
        if isinstance(node.func, ast.Attribute):
            receiver = self._references(node.func.value)
        elif chain is None:
            receiver = self._references(node.func)
        rooted = self._rooted(chain) if chain is not None else None
        keywords = frozenset(keyword.arg or "**" for keyword in node.keywords)
        self.effects.calls.append(CallSite(rooted, receiver, arguments, len(node.args), keywords))
        wild = rooted is not None and rooted[-1] in _WILD and len(rooted) == 1
        if wild or _MODULES in receiver | arguments:
            self.effects.wild = True
            self.effects.peeks = self.effects.peeks or not wild or rooted is None or rooted[0] not in _SEEN

    def visit_Lambda(self, node: ast.Lambda) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._open_scope(argument.arg for argument in arguments_of(node.args))
        for _ in self._now_and_later():
            self.visit(node.body)
        self.scopes.pop()

    def _now_and_later(self) -> Iterator[None]:
        """For what may run at once, or whenever something uses the statement's names: a lambda, a generator."""
        outer = self.effects
        for effects in (outer, self.leaf.later) if outer is self.leaf.now else (outer,):
            self.effects = effects
            yield
        self.effects = outer

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, *elements: ast.expr
    ) -> None:
        names = {name for generator in node.generators for name in target_names(generator.target)}
        self.visit(node.generators[0].iter)
        self._open_scope(names)
        for position, generator in enumerate(node.generators):
            if position:
                self.visit(generator.iter)
            self._link_targets([generator.target], self._references(generator.iter))
            for condition in generator.ifs:
                self.visit(condition)
        for element in elements:
            self.visit(element)
        self.scopes.pop()

    def visit_ListComp(self, node: ast.ListComp) -> None:
        self._visit_comprehension(node, node.elt)

    def visit_SetComp(self, node: ast.SetComp) -> None:
        self._visit_comprehension(node, node.elt)

    def visit_GeneratorExp(self, node: ast.GeneratorExp) -> None:
        for _ in self._now_and_later():
            self._visit_comprehension(node, node.elt)

    def visit_DictComp(self, node: ast.DictComp) -> None:
        self._visit_comprehension(node, node.key, node.value)

    # Statements that bind

    def _assign(self, targets: Sequence[ast.expr], value: ast.expr | None) -> None:
        for target in targets:
            if isinstance(target, ast.Name) and value is not None:
                self._bind(target.id)
                if self._is_module_level(target.id):
                    self.leaf.values.setdefault(target.id, []).append(value)
            elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple) and pairs_up(target, value):
                for part, part_value in zip(target.elts, value.elts, strict=True):
                    self._assign([part], part_value)
            else:
                self._store(target)
        self._link_targets(targets, self._references(value))

    def _link_targets(self, targets: Sequence[ast.expr], right: frozenset[Chain]) -> None:
        left: frozenset[Chain] = frozenset()
        for target in targets:
            left |= self._references(target)
        if left and right:
            self.effects.links.append((left, right))

    def _store(self, target: ast.expr) -> None:
        """Records that ``target`` is assigned to or deleted."""
        if isinstance(target, ast.Name):
            self._bind_opaque(target.id)
        elif isinstance(target, ast.Tuple | ast.List):
            for element in target.elts:
                self._store(element)
        elif isinstance(target, ast.Starred):
            self._store(target.value)
        elif isinstance(target, ast.Attribute):
            chain = chain_of(target)
            self._stores(frozenset({self._rooted(chain)}) if chain else self._references(target.value))
            if chain:
                self._look(chain)  # of a module, this name alone
            else:
                self.visit(target.value)
        elif isinstance(target, ast.Subscript):
            self._stores(self._references(target.value))
            self.visit(target.value)
            self.visit(target.slice)

    def _stores(self, changed: frozenset[Chain]) -> None:
        self.effects.stores |= changed
        if _MODULES in changed:
            self.effects.wild = self.effects.peeks = True

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        self._assign(node.targets, node.value)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        self._annotation(node.annotation)
        if node.value is not None:
            self.visit(node.value)
            self._assign([node.target], node.value)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self.visit(node.value)
        if isinstance(node.target, ast.Name):
            chain = self._rooted((node.target.id,))
            self._read(chain)
            self.effects.mutates.add(chain)
        self._assign([node.target], node.value)

    def visit_Delete(self, node: ast.Delete) -> None:
        for target in node.targets:
            self._store(target)

    def _visit_for(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._store(node.target)
        self._link_targets([node.target], self._references(node.iter))
        for statement in [*node.body, *node.orelse]:
            self.visit(statement)

    visit_For = _visit_for
    visit_AsyncFor = _visit_for

    def _visit_with(self, node: ast.With | ast.AsyncWith) -> None:
        for item in node.items:
            self.visit(item.context_expr)
            held = self._references(item.context_expr)
            self.effects.mutates |= held  # __enter__ and __exit__ are method calls
            if item.optional_vars is not None:
                self._store(item.optional_vars)
                self._link_targets([item.optional_vars], held)
        for statement in node.body:
            self.visit(statement)

    visit_With = _visit_with
    visit_AsyncWith = _visit_with

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self._bind_opaque(node.name)
        self.generic_visit(node)

    def visit_Match(self, node: ast.Match) -> None:
        for name in pattern_names(node):
            self._bind_opaque(name)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            name = alias.asname or alias.name.partition(".")[0]
            module = alias.name if alias.asname else name
            self._import(ImportBinding(name, module, None, 0, alias.name))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        for alias in node.names:
            module = node.module or ""
            binding = ImportBinding(alias.asname or alias.name, module, alias.name, node.level, module)
            if alias.name == "*":
                self.leaf.stars.append(binding)
            else:
                self._import(binding)

    def _import(self, binding: ImportBinding) -> None:
        self._bind(binding.name)
        if self._is_module_level(binding.name):
            self.leaf.imports.append(binding)

    # Functions and classes

    def _annotation(self, node: ast.expr | None) -> None:
        if node is None:
            return
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            try:
                node = ast.parse(node.value, mode="eval").body
            except SyntaxError:
                return
        self.leaf.annotations |= {chain for chain in self._references(node) if not chain[0].startswith("%")}

    def _visit_called(self, expressions: Iterable[ast.expr]) -> None:
        """Decorators and base classes: their code runs with the definition."""
        for expression in expressions:
            chain = chain_of(expression)
            if chain is None:
                self.visit(expression)
            else:
                self._read(self._rooted(chain))

    def _visit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for expression in [*node.args.defaults, *node.args.kw_defaults]:
            if expression is not None:
                self.visit(expression)
        self._visit_called(node.decorator_list)
        for argument in arguments_of(node.args):
            self._annotation(argument.annotation)
        self._annotation(node.returns)
        name = self._bind(node.name)
        if self._is_module_level(node.name):
            self.leaf.defines.add(node.name)
        outer, outer_classes = self.effects, self.classes
        if outer is self.leaf.now:
            self.effects = self.leaf.methods if outer_classes and is_host_method(node) else self.leaf.later
        self.classes = []
        self._open_scope(local_names(node))
        # What it returns may be, or hold, what it read.
        self.effects.links.append((frozenset(outer_classes[-1:] or [name]), self._references_of_body(node.body)))
        for statement in node.body:
            self.visit(statement)
        self.scopes.pop()
        self.effects, self.classes = outer, outer_classes

    visit_FunctionDef = _visit_function
    visit_AsyncFunctionDef = _visit_function

    def _references_of_body(self, body: Sequence[ast.stmt]) -> frozenset[Chain]:
        nodes = (node for statement in body for node in ast.walk(statement))
        chains = (chain_of(node) for node in nodes if isinstance(node, ast.Name | ast.Attribute))
        rooted = (self._rooted(chain) for chain in chains if chain is not None)
        return frozenset(chain for chain in rooted if not chain[0].startswith("%"))

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_called([*node.decorator_list, *node.bases, *(keyword.value for keyword in node.keywords)])
        name = self._bind_opaque(node.name)
        self.classes = [*self.classes, name]
        for statement in node.body:
            if isinstance(statement, ast.Assign | ast.AnnAssign) and statement.value is not None:
                self.effects.links.append((frozenset({name}), self._references(statement.value)))
            self.visit(statement)
        self.classes = self.classes[:-1]
