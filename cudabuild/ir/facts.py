# SPDX-License-Identifier: Apache-2.0
"""What the branches taken say about integers: in every block, the comparisons that are known to hold there.

For ::

    entry:
      %2: bool = cmp %i, %n predicate=lt
      branch %2 then=b1 else=b2
    b1:                                     -- here: i lt n, n gt i

Conditions made of ``and``, ``or``, ``inv``, ``select`` and phis of bools are taken apart. A fact speaks of the values
that a thread holds when it stands in the block. That needs care in one place only: a phi of bools remembers a
comparison made *before* its block, perhaps in the turn before (``FactsTable.remembers``).
"""

from __future__ import annotations

from cudabuild.ir.cfg import Dominators
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.types import Integer

__all__ = ["Facts", "FactsTable"]

_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}

#: Operations without operands or on a parameter alone that give one thread the same value each time.
_LEAVES = frozenset(("const", "sreg", "grid", "gridsize"))
#: Operations whose operand a fact about the result says something about.
_INVERTIBLE = frozenset(("add", "sub", "cast", "neg", "mul", "within"))


class Facts:
    """The facts that hold in one place. Never changed after it was made; an empty one is false in a condition."""

    __slots__ = ("derived", "relations", "truths")

    def __init__(self, parent: Facts | None = None) -> None:
        self.relations: dict[Value, tuple[tuple[str, Value], ...]] = dict(parent.relations) if parent else {}
        #: value -> results of invertible operations on it that have facts themselves
        self.derived: dict[Value, tuple[Instr, ...]] = dict(parent.derived) if parent else {}
        self.truths: dict[Value, bool] = dict(parent.truths) if parent else {}

    def __bool__(self) -> bool:
        return bool(self.relations)


class FactsTable:
    """The facts of every block and of every edge."""

    def __init__(self, function: Function, dominators: Dominators) -> None:
        self.dominators = dominators
        self.canonical = _find_canonical(function)
        self.empty = Facts()
        self._blocks: dict[Block, Facts] = {dominators.order[0]: self.empty}
        self._edges: dict[tuple[Block, Block], Facts] = {}
        self._arms: dict[tuple[Value, bool, Facts], Facts] = {}
        number = {block: index for index, block in enumerate(dominators.order)}
        #: True if every cycle is a loop with one header. The front end makes nothing else.
        self.is_reducible = all(
            dominators.dominates(block, p)
            for block in dominators.order
            for p in block.predecessors
            if number.get(p, -1) >= number[block]
        )
        for block in dominators.order[1:]:
            self._blocks[block] = self._facts_of(block)

    def at(self, block: Block) -> Facts:
        """What holds throughout ``block``."""
        return self._blocks.get(block, self.empty)

    def on_edge(self, source: Block, target: Block) -> Facts:
        """What holds when control goes from ``source`` to ``target``."""
        key = (source, target)
        found = self._edges.get(key)
        if found is None:
            found = self.at(source)
            end = source.end
            if end is not None and end.op == "branch" and end.attrs["then"] is not end.attrs["else"]:
                found = self.given(end.operands[0], end.attrs["then"] is target, found)
            self._edges[key] = found
        return found

    def given(self, condition: Value, truth: bool, facts: Facts) -> Facts:
        """``facts``, and what follows when ``condition`` is ``truth``."""
        key = (condition, truth, facts)
        found = self._arms.get(key)
        if found is None:
            found = Facts(facts)
            self._learn(found, condition, truth)
            self._arms[key] = found
        return found

    def _facts_of(self, block: Block) -> Facts:
        outside = [p for p in block.predecessors if not self.dominators.dominates(block, p)]
        if len(outside) == 1:  # the edge lies on every path to the block
            return self.on_edge(outside[0], block)
        return self._blocks[self.dominators.parents[block]]

    def _learn(self, facts: Facts, condition: Value, truth: bool) -> None:
        """Adds to ``facts`` what ``condition`` being ``truth`` says."""
        if not isinstance(condition, Instr) or condition.op == "const":
            return
        facts.truths[condition] = truth
        a, *rest = condition.operands or [condition]
        if condition.op == "inv":
            self._learn(facts, a, not truth)
        elif condition.op == ("and" if truth else "or"):
            self._learn(facts, a, truth)
            self._learn(facts, rest[0], truth)
        elif condition.op == "select":
            self._learn_select(facts, condition, truth)
        elif condition.op == "phi":
            self._learn_phi(facts, condition, truth)
        elif condition.op == "cmp" and isinstance(a.type, Integer):
            predicate = condition.attrs["predicate"]
            self._add(facts, a, predicate if truth else _NEGATED[predicate], rest[0])

    def _learn_select(self, facts: Facts, select: Instr, truth: bool) -> None:
        condition, then, otherwise = select.operands
        for arm, other, chosen in ((then, otherwise, True), (otherwise, then, False)):
            if _constant(other) is (not truth):  # the other arm would give the other result
                self._learn(facts, condition, chosen)
                self._learn(facts, arm, truth)

    def _learn_phi(self, facts: Facts, phi: Instr, truth: bool) -> None:
        """If all operands but one are the constant ``not truth``, control came over that one's edge."""
        block = phi.block
        assert block is not None
        ways = [n for n, value in enumerate(phi.operands) if _constant(value) is not (not truth)]
        if len(ways) != 1:
            return
        source = block.predecessors[ways[0]]
        if not self.remembers(block, source):
            return
        end = source.end
        assert end is not None
        self._learn(facts, phi.operands[ways[0]], truth)
        if end.op == "branch" and end.attrs["then"] is not end.attrs["else"]:
            self._learn(facts, end.operands[0], end.attrs["then"] is block)
        for value, relations in self._blocks[source].relations.items():
            for predicate, other in relations:
                self._add(facts, value, predicate, other)

    def remembers(self, block: Block, source: Block) -> bool:
        """True if what held when control came from ``source`` still holds in ``block`` and below.

        Not over the back edge of a loop: there, values below ``block`` are those of the turn before. Over any other
        edge, a value that can be used below ``block`` was made before both.
        """
        return self.is_reducible and source in self._blocks and not self.dominators.dominates(block, source)

    def _add(self, facts: Facts, a: Value, predicate: str, b: Value) -> None:
        a, b = self.canonical.get(a, a), self.canonical.get(b, b)
        for value, relation in ((a, (predicate, b)), (b, (_MIRRORED[predicate], a))):
            known = facts.relations.get(value, ())
            if relation not in known:
                facts.relations[value] = (*known, relation)
                self._derive(facts, value)

    def _derive(self, facts: Facts, value: Value) -> None:
        if isinstance(value, Instr) and value.op in _INVERTIBLE:
            for operand in value.operands[: 1 if value.op == "within" else 2]:
                operand = self.canonical.get(operand, operand)
                known = facts.derived.get(operand, ())
                if isinstance(operand.type, Integer) and _constant(operand) is None and value not in known:
                    facts.derived[operand] = (*known, value)
                    self._derive(facts, operand)


def is_invariant(value: Value) -> bool:
    """True for a value that is the same for a thread from the first to the last instruction."""
    if isinstance(value, Param):
        return True
    if not isinstance(value, Instr):
        return False
    return value.op in _LEAVES or (value.op in ("dim", "stride") and isinstance(value.operands[0], Param))


def _constant(value: Value) -> object:
    """The value of a constant, or None."""
    return value.attrs["value"] if isinstance(value, Instr) and value.op == "const" else None


def _find_canonical(function: Function) -> dict[Value, Value]:
    """For leaves that are written more than once (``x.size`` in a test and in an index), the first one."""
    first: dict[tuple[object, ...], Value] = {}
    canonical: dict[Value, Value] = {}
    for instr in function.instructions():
        if is_invariant(instr) and instr.op != "const":
            key = (instr.op, instr.type, *instr.operands, *sorted(instr.attrs.items()))
            canonical[instr] = first.setdefault(key, instr)
    return canonical
