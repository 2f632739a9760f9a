# SPDX-License-Identifier: Apache-2.0
"""Which top-level statements a kernel needs: the backward slice over all modules of a project.

A *cell* is a name of a module. Needing a cell needs every statement, before or after, that binds it or may change what
it holds, and what those statements need in turn. Running more statements than necessary is harmless, for a real import
runs them all; leaving one out would give a wrong constant. So every rule here errs on the side of more.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from cudabuild.build.effects import CallSite, Effects, Leaf
from cudabuild.build.names import Chain, chain_of
from cudabuild.build.project import Project, SourceModule
from cudabuild.build.purity import PURE_BUILTINS, SCALAR_BUILTINS, changes_nothing, is_pure, makes_scalar
from cudabuild.build.resolve import EXTERNAL, Cell, Resolution, Resolver

__all__ = ["Slice", "Slicer"]


_ALWAYS_THERE = frozenset({"cudabuild", "numba", "numpy"})
_BUILTINS = frozenset(vars(builtins))
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass
class Slice:
    """Statements that something needs, nearest first; the modules to import; and what runs if it can.

    Optional is what only annotations name, and what ``eval`` may read: it fails where it meets a missing name.
    """

    leaves: dict[Leaf, None] = field(default_factory=dict)
    modules: set[str] = field(default_factory=set)
    optional: dict[Leaf, None] = field(default_factory=dict)


@dataclass
class _Reach:
    """The cells that some code changes, stores into and reads; and the modules that it hands on as a whole."""

    changed: set[Cell] = field(default_factory=set)
    stored: set[Cell] = field(default_factory=set)
    read: set[Cell] = field(default_factory=set)
    whole: set[str] = field(default_factory=set)


@dataclass
class _Needs:
    """What running one statement needs: cells with (live, only for an annotation), and modules to import."""

    cells: set[tuple[Cell, bool, bool]] = field(default_factory=set)
    modules: set[str] = field(default_factory=set)
    in_order: list[tuple[Cell, bool, bool]] = field(default_factory=list)


class Slicer:
    """Answers what cells and statements need. Modules join the graph as they are reached."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.resolver = Resolver(project)
        #: Top-level packages outside of the project that may be imported, besides the usual ones.
        self.allowed: frozenset[str] = frozenset()
        self._considered: dict[str, SourceModule] = {}
        self._importers: dict[str, list[Leaf]] = defaultdict(list)
        self._indexed = 0
        self._effects: dict[Cell, set[Leaf]] = {}
        self._wild: dict[str, set[Leaf]] = {}
        self._peeking: set[Leaf] = set()
        self._handed_on: dict[str, set[Leaf]] = {}
        self._links: dict[Cell, set[Cell]] = {}
        self._reaches: dict[int, _Reach] = {}
        self._mutable: dict[Cell, bool] = {}
        self._needs: dict[tuple[Leaf, bool], _Needs] = {}
        self._leaves: dict[Cell, tuple[list[Leaf], list[tuple[Cell, bool]]]] = {}
        self._always: dict[str, list[str]] = {}

    def slice_cells(self, cells: Iterable[Cell], enter: Callable[[Leaf], bool] = lambda leaf: True) -> Slice:
        """What the given cells need once all modules have run.

        Args:
            cells: where to start.
            enter: whether to follow what a statement needs; what is not entered still belongs to the slice.
        """
        starts = list(cells)
        return self._until_stable(lambda walk: walk.start(starts), enter)

    def slice_leaf(self, leaf: Leaf, enter: Callable[[Leaf], bool] = lambda leaf: True) -> Slice:
        """What running one statement needs, apart from itself."""
        found = self._until_stable(lambda walk: walk.add_leaf_needs(leaf, live=False), enter)
        found.leaves.pop(leaf, None)
        return found

    def _until_stable(self, start: Callable[[_Walk], None], enter: Callable[[Leaf], bool]) -> Slice:
        while True:
            self._index()
            walk = _Walk(self, enter)
            start(walk)
            found = walk.run()
            if len(self._considered) == self._indexed:
                return found

    # The graph

    def consider(self, module: str) -> None:
        """Makes the statements of a module part of the graph, and those of every module that is imported with it."""
        pending = [module]
        while pending:
            name = pending.pop()
            source = self.resolver.find_module(name) if name not in self._considered else None
            if source is None:
                continue
            self._considered[name] = source
            parts = name.split(".")
            pending += [".".join(parts[:end]) for end in range(1, len(parts))]
            for leaf in source.leaves:
                if (leaf.imports or leaf.stars) and not any(map(_is_never_true, leaf.guards)):
                    for target in source.imported_by(leaf):
                        self._importers[target].append(leaf)
                        pending.append(target)

    def _is_there_or_not(self, module: str, name: str) -> bool:
        """True if a name is only ever imported: where that is refused there is no value, rather than a wrong one."""
        leaves = self._effects.get((module, name), set())
        return not self._handed_on.get(module) and all(isinstance(leaf.node, _IMPORTS) for leaf in leaves)

    def is_available(self, package: str) -> bool:
        """True for a top-level package outside of the project that a slice may import."""
        return package in sys.stdlib_module_names or package in _ALWAYS_THERE or package in self.allowed

    def importers_of(self, module: str) -> list[Leaf]:
        """The statements that import a module, of those that are part of the graph."""
        return self._importers.get(module, [])

    def always_imported_by(self, module: str) -> list[str]:
        """The modules that are imported with a module, whatever the machine: its packages, and by plain statements."""
        known = self._always.get(module)
        if known is None:
            source = self._considered.get(module)
            parts = module.split(".")
            known = [".".join(parts[:end]) for end in range(1, len(parts))]
            for leaf in source.leaves if source is not None else []:
                if isinstance(leaf.node, ast.Import | ast.ImportFrom) and not leaf.guards:
                    known += source.imported_by(leaf) if source is not None else []
            self._always[module] = known
        return known

    # What a statement needs, and what gives a cell its value: both remembered until modules join the graph

    def needs_of(self, leaf: Leaf, live: bool) -> _Needs:
        """The cells and modules that running a leaf needs."""
        known = self._needs.get((leaf, live))
        if known is None:
            known = self._needs[leaf, live] = self._find_needs(leaf, live)
        return known

    def _find_needs(self, leaf: Leaf, live: bool) -> _Needs:
        needs = _Needs()
        self._add_chains(needs, leaf.module, leaf.now.reads, True)
        self._add_chains(needs, leaf.module, leaf.now.looks, live)
        self._add_chains(needs, leaf.module, leaf.later.reads | leaf.later.looks, live or not leaf.is_definition)
        if live:
            self._add_chains(needs, leaf.module, leaf.methods.reads | leaf.methods.looks, True)
        source = self.project.find_module(leaf.module)
        for binding in [*leaf.imports, *leaf.stars] if source is not None else []:
            target = source.absolute(binding) if source is not None else ""
            if self.project.owns(target):
                needs.modules.add(target)
                if binding.attribute not in (None, "*"):
                    resolution = Resolution()
                    self.resolver.resolve_in(target, (str(binding.attribute),), resolution, set())
                    resolution.whole.clear()  # importing a module does not use all of it
                    self._add_resolution(needs, resolution, live, False)
        self._add_chains(needs, leaf.module, leaf.annotations, True, annotation=True)
        # In an order of its own, for the nearest failure is told; what stands in the same module is nearer.
        needs.in_order = sorted(needs.cells, key=lambda need: (need[0][0] != leaf.module, need))
        return needs

    def _add_chains(
        self, needs: _Needs, module: str, chains: Iterable[Chain], live: bool, annotation: bool = False
    ) -> None:
        for chain in chains:
            self._add_resolution(needs, self.resolver.resolve(module, chain), live, annotation)

    def _add_resolution(self, needs: _Needs, resolution: Resolution, live: bool, annotation: bool) -> None:
        cells = resolution.path | resolution.final
        for module in resolution.whole:
            source = self.resolver.find_module(module)
            cells |= {(module, name) for name in source.bound} if source is not None else set()
        needs.cells |= {(cell, live, annotation) for cell in cells}
        needs.modules |= resolution.modules

    def leaves_of(self, cell: Cell) -> tuple[list[Leaf], list[tuple[Cell, bool]]]:
        """What binds or may change a cell; and the cells that those of them may read which may read any.

        Of these, whether they need not be there: what is only imported, for ``eval``, which fails where it is missing.
        """
        known = self._leaves.get(cell)
        if known is None:
            if cell[0] != EXTERNAL:
                self.consider(cell[0])
            elif not self.is_available(cell[1].partition(".")[0]):
                known = self._leaves[cell] = ([], [])  # whatever imports it is refused
                return known
            wild = self._wild.get(cell[0], set())
            read = {
                ((leaf.module, name), leaf not in self._peeking and self._is_there_or_not(leaf.module, name))
                for leaf in wild
                for source in [self.project.find_module(leaf.module)]
                for name in (source.bound if source is not None else ())
            }
            leaves = self._effects.get(cell, set()) | self._handed_on.get(cell[0], set()) | wild
            in_order = sorted(leaves, key=lambda leaf: (leaf.module != cell[0], leaf.module, leaf.index))
            known = self._leaves[cell] = (in_order, sorted(read))
        return known

    def is_considered(self, module: str) -> bool:
        """True if what a module does when it is imported may matter."""
        return module in self._considered

    def _index(self) -> None:
        if self._indexed == len(self._considered):
            return
        self._indexed = len(self._considered)
        self._effects = defaultdict(set)
        self._wild = defaultdict(set)
        self._handed_on = defaultdict(set)
        self._peeking = set()
        self._mutable = {}
        self._needs = {}
        self._leaves = {}
        self._always = {}
        leaves = [leaf for source in self._considered.values() for leaf in source.leaves]
        self._links = self._find_links(leaves)
        for leaf in leaves:
            for cell in self._changed_by(leaf):
                self._effects[cell].add(leaf)

    def _find_links(self, leaves: list[Leaf]) -> dict[Cell, set[Cell]]:
        """Cell -> cells that may hold, or be, the same object. Modules outside of the project are no such holders."""
        links: dict[Cell, set[Cell]] = defaultdict(set)

        def join(module: str, left: Iterable[Chain], right: Iterable[Chain]) -> None:
            targets = {cell for cell in self._finals(module, right) if cell[0] != EXTERNAL}
            for cell in self._finals(module, left):
                if cell[0] != EXTERNAL:
                    links[cell] |= targets

        for leaf in leaves:
            for effects in (leaf.now, leaf.later, leaf.methods):
                for left, right in effects.links:
                    join(leaf.module, left, right)
                for call in effects.calls:
                    together = self._changed_by_call(leaf.module, call)
                    join(leaf.module, together, together)
            for binding in leaf.imports:
                links[leaf.module, binding.name] |= self.resolver.resolve(leaf.module, (binding.name,)).final
        return links

    def _finals(self, module: str, chains: Iterable[Chain]) -> set[Cell]:
        cells: set[Cell] = set()
        source = self.resolver.find_module(module)
        for chain in chains:
            if chain[0].startswith("%"):
                cells.add((module, chain[0]))
            elif chain[0] not in _BUILTINS or source is None or chain[0] in source.bound:  # nobody changes `Exception`
                cells |= self.resolver.resolve(module, chain).final
        return cells

    def _changed_by(self, leaf: Leaf) -> set[Cell]:
        """Every cell that running the leaf binds or may change."""
        bound = {(leaf.module, name) for name in leaf.binds}
        bound |= {(leaf.module, f"*{leaf.index}") for _ in leaf.stars}
        changed: set[Cell] = set()
        stored: set[Cell] = set()
        wild = {leaf.module} if leaf.now.wild else set()
        for module, effects in [(leaf.module, leaf.now), *self._called_effects(leaf)]:
            reach = self._reach_of(module, effects)
            changed |= reach.changed
            stored |= reach.stored
            for whole in reach.whole:
                self._handed_on[whole].add(leaf)
            if effects.wild:
                wild |= {module, leaf.module}
            if effects.peeks:
                self._peeking.add(leaf)
        for module in wild:
            self._wild[module].add(leaf)
        reached = set(changed)
        pending = list(changed)
        while pending:
            for cell in self._links.get(pending.pop(), ()):
                if cell not in reached:
                    reached.add(cell)
                    pending.append(cell)
        return bound | stored | {cell for cell in reached if self._is_mutable(cell)}

    def _reach_of(self, module: str, effects: Effects) -> _Reach:
        """Where the names of some effects lead. Names lead to the same places whatever is part of the graph."""
        known = self._reaches.get(id(effects))
        if known is None:
            known = self._reaches[id(effects)] = _Reach()
            chains = effects.stores | effects.mutates
            for call in effects.calls:
                chains |= self._changed_by_call(module, call)
            known.changed = self._finals(module, chains)
            known.stored = self._finals(module, effects.stores)
            known.read = self._finals(module, effects.reads)
            for chain in chains:
                if not chain[0].startswith("%"):  # `setattr(tables, name, 3)`: whoever receives a module may change it
                    known.whole |= self.resolver.resolve(module, chain).whole
        return known

    def _changed_by_call(self, module: str, call: CallSite) -> frozenset[Chain]:
        """The chains among what a call receives that it may change."""
        everything = call.arguments | call.receiver
        function = call.function
        if function is None:
            return everything
        if function[0].startswith("%"):
            return everything | {function}
        source = self.resolver.find_module(module)
        bound = source is not None and function[0] in source.bound
        if not bound and len(function) == 1 and function[0] in PURE_BUILTINS and not call.keywords & {"key", "**"}:
            return frozenset()
        resolution = self.resolver.resolve(module, function)
        outside = resolution.external and all(cell[0] == EXTERNAL for cell in resolution.final)
        if outside and all(changes_nothing(name, call.positions, call.keywords) for name in resolution.external):
            return frozenset()
        # `add = TABLE.append; add(1)`: what a name that is no `def` stands for may be a method of something.
        return everything if self._is_defined(resolution.final) else everything | {function}

    def _is_defined(self, cells: Iterable[Cell]) -> bool:
        """True if all cells are bound by ``def`` or ``class`` alone."""
        return all(
            leaf.is_definition
            for module, name in cells
            for source in [self.resolver.find_module(module)]
            if source is not None
            for leaf in source.bound.get(name, [])
        )

    def _called_effects(self, leaf: Leaf) -> list[tuple[str, Effects]]:
        """What the functions that a leaf may call do, and those that they may call."""
        found: list[tuple[str, Effects]] = []
        seen: set[Cell] = set()
        pending = list(self._reach_of(leaf.module, leaf.now).read)
        # An attribute of an instance may be a property; one of a class or module is just there.
        pending += [cell for cell in self._finals(leaf.module, leaf.now.looks) if not self._is_defined([cell])]
        while pending:
            cell = pending.pop()
            if cell in seen or cell[0] == EXTERNAL:
                continue
            seen.add(cell)
            source = self.resolver.find_module(cell[0])
            for binding in source.bound.get(cell[1], []) if source is not None else []:
                if binding is leaf:
                    continue
                for effects in (binding.later, binding.methods):
                    found.append((cell[0], effects))
                    pending += self._reach_of(cell[0], effects).read
                if isinstance(binding.node, ast.ClassDef):  # its bases' and metaclass's methods are its own
                    pending += self._reach_of(cell[0], binding.now).read
                if not binding.is_definition:
                    pending += self._links.get(cell, ())
        return found

    # What can change

    def _is_mutable(self, cell: Cell) -> bool:
        """False where whatever receives the cell's value cannot change it: numbers, texts, functions, modules."""
        known = self._mutable.get(cell)
        if known is None:
            self._mutable[cell] = False  # `N = N * 2`: as immutable as its other values
            known = self._mutable[cell] = self._find_mutable(cell)
        return known

    def _find_mutable(self, cell: Cell) -> bool:
        module, name = cell
        source = self._considered.get(module) or (self.resolver.find_module(module) if module != EXTERNAL else None)
        if source is None or name not in source.bound:
            return True
        for leaf in source.bound[name]:
            if name in leaf.opaque:
                return True
            if not all(self._is_immutable_value(module, value) for value in leaf.values.get(name, [])):
                return True
            if any(binding.name == name for binding in leaf.imports):
                resolution = self.resolver.resolve(module, (name,))
                inside = {other for other in resolution.final if other[0] != EXTERNAL and other != cell}
                if not all(map(is_pure, resolution.external)) or any(map(self._is_mutable, inside)):
                    return True
        return False

    def _is_immutable_value(self, module: str, value: ast.expr) -> bool:
        if isinstance(value, ast.Constant | ast.JoinedStr | ast.Lambda | ast.Compare):
            return True
        if isinstance(value, ast.Tuple):
            parts: list[ast.expr] = value.elts
        elif isinstance(value, ast.BinOp):
            parts = [value.left, value.right]
        elif isinstance(value, ast.UnaryOp):
            parts = [value.operand]
        elif isinstance(value, ast.BoolOp):
            parts = value.values
        elif isinstance(value, ast.IfExp):
            parts = [value.body, value.orelse]
        elif isinstance(value, ast.Subscript):
            parts = [value.value]
        elif isinstance(value, ast.Call):
            return self._makes_scalar(module, value)
        else:
            return self._names_immutable(module, value)
        return all(self._is_immutable_value(module, part) for part in parts)

    def _makes_scalar(self, module: str, call: ast.Call) -> bool:
        chain = chain_of(call.func)
        if chain is None:
            return False
        resolution = self.resolver.resolve(module, chain)
        if resolution.external:
            return all(map(makes_scalar, resolution.external))
        source = self.resolver.find_module(module)
        return len(chain) == 1 and chain[0] in SCALAR_BUILTINS and (source is None or chain[0] not in source.bound)

    def _names_immutable(self, module: str, value: ast.expr) -> bool:
        chain = chain_of(value)
        if chain is None:
            return False
        resolution = self.resolver.resolve(module, chain)
        if not all(map(is_pure, resolution.external)):
            return False
        inside = {cell for cell in resolution.final if cell[0] != EXTERNAL}
        return not any(self._is_mutable(cell) for cell in inside)


def _is_never_true(guard: Leaf) -> bool:
    """The test of an ``if`` whose body does not run where a package is imported."""
    test = guard.node
    chain = chain_of(test) if isinstance(test, ast.expr) else None
    if chain is not None:
        return chain[-1] == "TYPE_CHECKING"
    return isinstance(test, ast.Compare) and ("__name__",) in guard.now.reads


class _Walk:
    """One closure over the graph. ``live`` says that host code runs, so that methods of a class may be called."""

    def __init__(self, slicer: Slicer, enter: Callable[[Leaf], bool]) -> None:
        self.slicer = slicer
        self.enter = enter
        self.found = Slice()
        self._seen_leaves: set[tuple[Leaf, bool, bool]] = set()
        self._seen_cells: set[tuple[Cell, bool, bool]] = set()
        self._pending: deque[tuple[Leaf, bool, bool]] = deque()
        self._starts: set[str] = set()
        self._uses: dict[str, set[str]] = defaultdict(set)
        self._asked: set[str] = set()

    def run(self) -> Slice:
        self._close()
        while self._push_importers():
            self._close()
        for leaf in self.found.leaves:
            self.found.optional.pop(leaf, None)
        return self.found

    def _close(self) -> None:
        while self._pending:
            leaf, live, optional = self._pending.popleft()
            (self.found.optional if optional else self.found.leaves).setdefault(leaf)
            if self.enter(leaf):
                self.add_leaf_needs(leaf, live, optional)
            else:
                for guard in leaf.guards:
                    self._push(guard, True, optional)

    def start(self, cells: Iterable[Cell]) -> None:
        for cell in cells:
            self._starts.add(cell[0])
            self._add_cell(cell, False, False)

    def add_leaf_needs(self, leaf: Leaf, live: bool, optional: bool = False) -> None:
        self._starts |= set() if self._starts else {leaf.module}
        for guard in leaf.guards:
            self._push(guard, True, optional)
        needs = self.slicer.needs_of(leaf, live)
        self.found.modules |= needs.modules
        for cell, live_there, annotation in needs.in_order:
            self._uses[leaf.module].add(cell[0])
            self._add_cell(cell, live_there, optional or annotation)

    def _add_cell(self, cell: Cell, live: bool, optional: bool) -> None:
        key = (cell, live, optional)
        if key in self._seen_cells:
            return
        self._seen_cells.add(key)
        leaves, read_by_wild = self.slicer.leaves_of(cell)
        for leaf in leaves:
            self._push(leaf, live, optional)
        for other, may_be_missing in read_by_wild:
            self._add_cell(other, True, optional or may_be_missing)

    def _push(self, leaf: Leaf, live: bool, optional: bool) -> None:
        key = (leaf, live, optional)
        if key not in self._seen_leaves:
            self._seen_leaves.add(key)
            self._pending.append(key)

    def _push_importers(self) -> bool:
        """Asks whether the modules run at all that only change something: by the tests around what imports them.

        Returns:
            Whether there was anything new to ask.
        """
        slicer = self.slicer
        sure: set[str] = set()
        pending = list(self._starts)
        while pending:
            module = pending.pop()
            if module not in sure:
                sure.add(module)
                pending += [*self._uses.get(module, ()), *slicer.always_imported_by(module)]
        asked = {leaf.module for leaf in self.found.leaves} - sure - self._asked
        self._asked |= asked
        for module in sorted(asked):
            for importer in slicer.importers_of(module):
                for guard in importer.guards:
                    self._push(guard, True, False)
        return bool(self._pending)
