# SPDX-License-Identifier: Apache-2.0
"""Which integers can an instruction give? Intervals for every integer of a function, sound under wrap-around.

For ::

    %i: int = grid axis=0                    of: 0 … 2³¹-2          (32-bit variant)
    %n: int = dim %x axis=0                      0 … 2³¹-1
    %c: bool = cmp %i, %n predicate=lt
    branch %c then=b1 else=b2
  b1:
    %j: int = add %i, %one                       1 … 2³¹-1          (at b1, %i is 0 … 2³¹-2)

An abstract interpretation over intervals: cycles of blocks are swept until nothing grows, phis widening to thresholds
on the way, then swept again to narrow. Operands are refined by the facts of the block (``facts.py``); where intervals
alone say too little, by linear forms (``linear.py``: ``n - 1 - i``, ``start + k * step``) and by the number of times a
loop can turn (``trips.py``: ``count += 1``). A result is any state that one more sweep does not enlarge, so it is sound
however it was reached.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable

from cudabuild.ir.cfg import Dominators, find_cycles, find_loops, reverse_postorder
from cudabuild.ir.facts import Facts, FactsTable
from cudabuild.ir.intervals import Interval, compare, evaluate, fit, join, limits, meet, true_interval
from cudabuild.ir.ir import Block, Function, Instr, Value
from cudabuild.ir.limits import leaf_interval, thread_product
from cudabuild.ir.linear import LinearBounds
from cudabuild.ir.trips import TripBounds
from cudabuild.types import Boolean, Integer
from cudabuild.types.layout import LARGEST_EXTENT

__all__ = ["Analysis", "Ranges", "compute_ranges"]

_INT32 = (-(1 << 31), (1 << 31) - 1)

_WIDEN_AFTER = 2  #: sweeps of a cycle before phis widen to the next threshold
_GIVE_UP_AFTER = 24  #: sweeps before a bound that still moves goes to its type's limit
_STOP_AFTER = 100  #: sweeps before nothing more is claimed of a cycle
_NARROWINGS = 4  #: sweeps that narrow at most
_DEPTH = 2  #: how far operands are evaluated again with a block's facts


class Ranges:
    """The integers that each value of one function can take, in one index width."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis

    def of(self, value: Value) -> Interval:
        """The smallest and the largest integer that ``value`` can be; its type's limits where nothing is known."""
        return self._or_limits(value, self.analysis.base(value))

    def at(self, value: Value, block: Block) -> Interval:
        """As ``of``, for the times when a thread stands in ``block``: what the branches taken say counts too."""
        analysis = self.analysis
        return self._or_limits(value, analysis.refined(value, analysis.facts.at(block)))

    def nonnegative(self, value: Value, block: Block | None = None) -> bool:
        """True if ``value`` is never below zero (where ``block`` is given: while a thread stands there)."""
        return (self.of(value) if block is None else self.at(value, block))[0] >= 0

    def fits32(self, value: Value, block: Block | None = None) -> bool:
        """True if ``value`` always fits an int32."""
        lo, hi = self.of(value) if block is None else self.at(value, block)
        return _INT32[0] <= lo and hi <= _INT32[1]

    def exact(self, instr: Instr) -> bool:
        """True if ``instr`` (add, sub, mul, neg, shl, abs, floordiv, wrap, cast) never wraps.

        Its result is then the mathematical one, and also in any narrower type that holds it and its operands.
        """
        return instr in self.analysis.exact

    def decide(self, condition: Value, block: Block | None = None) -> bool | None:
        """What a bool value always is, if that is known; else None."""
        analysis = self.analysis
        return analysis.decide(condition, analysis.facts.at(block) if block is not None else analysis.facts.empty)

    def turns(self, header: Block) -> int | None:
        """How often control goes back to a loop's header for one entry into the loop, at most; None if unknown."""
        trips = self.analysis.trips
        trips.forget()
        loop = trips.loops.get(header)
        return None if loop is None else trips.turns(loop)

    @staticmethod
    def _or_limits(value: Value, interval: Interval | None) -> Interval:
        if isinstance(value.type, Boolean):
            return (0, 1)
        if not isinstance(value.type, Integer):
            raise TypeError(f"a range is asked of a value of type {value.type}")
        return limits(value.type) if interval is None else interval  # None: never reached


def compute_ranges(function: Function, *, index_width: int, launch_bounds: int | None = None) -> Ranges:
    """The ranges of every integer value of ``function``.

    Args:
        function: verified IR; not changed, and not to be changed while the result is in use.
        index_width: 32 for the variant whose launch was checked (``types/layout.py``), else 64.
        launch_bounds: the most threads per block, if promised.
    """
    analysis = Analysis(function, index_width, launch_bounds)
    analysis.run()
    return Ranges(analysis)


class Analysis:
    """The state: an interval per value (none yet: not reached), and which instructions cannot wrap."""

    def __init__(self, function: Function, index_width: int, launch_bounds: int | None) -> None:
        if index_width not in (32, 64):
            raise ValueError(f"index width {index_width}: expected 32 or 64")
        self.function = function
        self.index_width = index_width
        self.launch_bounds = launch_bounds
        self.order = reverse_postorder(function)
        self.dominators = Dominators(self.order)
        self.facts = FactsTable(function, self.dominators)
        self.ranges: dict[Value, Interval] = {}
        self.leaves: set[Value] = set()  #: values whose interval is given
        self.exact: set[Instr] = set()
        self.reachable: set[Block] = {self.order[0]}
        self.sweeps = 0
        self.is_narrowing = False
        self._refined: dict[tuple[Value, Facts, int], Interval | None] = {}  # answers from the state as it is
        self._products: dict[Instr, Interval | None] = {}  # what ``thread_product`` says, whatever the state
        self._version = 0  # of the state
        self._seen_at: dict[Instr, int] = {}  # the version that an instruction was evaluated from
        self.linear = LinearBounds(self)
        self.trips = TripBounds(self, find_loops(self.order, self.dominators))
        self.thresholds = self._find_thresholds()
        for param in function.params:
            self._start(param)
        #: the integers whose interval is computed
        self._computed: dict[Block, list[Instr]] = {block: [] for block in function.blocks}
        for block in function.blocks:
            for instr in block.instructions:
                if isinstance(instr.type, Integer):
                    self._start(instr)
                    if instr not in self.leaves:
                        self._computed[block].append(instr)

    def _start(self, value: Value) -> None:
        interval = leaf_interval(value, self.function, self.index_width, self.launch_bounds)
        if interval is not None:
            self.ranges[value] = interval
            self.leaves.add(value)

    def _find_thresholds(self) -> list[int]:
        found = {-1, 0, 1}
        for bits in (8, 16, 32, 64):
            for top in (1 << (bits - 1), 1 << bits):
                found |= {-top, -top + 1, top - 2, top - 1}
        found |= {1 << 62, -(1 << 62)}
        for instr in self.function.instructions():
            if instr.op == "const" and isinstance(instr.type, Integer):
                value = instr.attrs["value"]
                found |= {value - 1, value, value + 1}
        return sorted(found)

    # the fixpoint

    def run(self) -> None:
        for cycle in find_cycles(self.order):
            if len(cycle) == 1 and cycle[0] not in cycle[0].successors:
                self._sweep(cycle, self._grow)
            else:
                self._stabilise(cycle)

    def _stabilise(self, cycle: list[Block]) -> None:
        number = {block: index for index, block in enumerate(cycle)}
        heads = {b for b in cycle if any(p in number and number[p] >= number[b] for p in b.predecessors)}
        self.sweeps = 0
        self.is_narrowing = False

        def widen(instr: Instr, old: Interval | None, new: Interval | None) -> Interval | None:
            grown = self._grow(instr, old, new)
            if old is None or grown is None or grown == old or instr.op != "phi" or instr.block not in heads:
                return grown
            return self._widened(instr, old, grown)

        while self._sweep(cycle, widen):
            self.sweeps += 1
            if self.sweeps > _STOP_AFTER:
                self._surrender(cycle)
                return
        self.is_narrowing = True
        for _ in range(_NARROWINGS):
            if not self._sweep(cycle, self._shrink):
                break

    def _surrender(self, cycle: list[Block]) -> None:
        """Claims nothing of what ``cycle`` computes. A safety net: no function is known that sweeps for so long."""
        self.reachable.update(cycle)
        for instr in (instr for block in cycle for instr in self._computed[block]):
            assert isinstance(instr.type, Integer)
            self.ranges[instr] = limits(instr.type)
            self.exact.discard(instr)
        self._forget()

    def _forget(self) -> None:
        """Drops the answers that were given from an earlier state."""
        self._version += 1
        self._refined.clear()
        self.linear.forget()

    def _sweep(
        self, blocks: list[Block], update: Callable[[Instr, Interval | None, Interval | None], Interval | None]
    ) -> bool:
        """Evaluates every integer of ``blocks`` once; True if anything changed."""
        changed = False
        self.trips.forget()
        for block in blocks:
            if block not in self.reachable:
                if not any(self._is_feasible(p, block) for p in block.predecessors):
                    continue
                self.reachable.add(block)
                self._forget()
                changed = True
            facts = self.facts.at(block)
            for instr in self._computed[block]:
                if not self.is_narrowing:  # then bounds by turns count, too, which are taken anew for each sweep
                    if self._seen_at.get(instr) == self._version:
                        continue
                    self._seen_at[instr] = self._version
                old = self.ranges.get(instr)
                transferred, is_exact = self._transfer(instr, block, facts)
                new = update(instr, old, transferred)
                if new != old:
                    changed = True
                    self._forget()
                    if new is None:
                        del self.ranges[instr]
                    else:
                        self.ranges[instr] = new
                if is_exact != (instr in self.exact):
                    changed = True
                    self._forget()
                    (self.exact.add if is_exact else self.exact.discard)(instr)
        return changed

    @staticmethod
    def _grow(instr: Instr, old: Interval | None, new: Interval | None) -> Interval | None:
        return old if new is None else new if old is None else join(old, new)

    @staticmethod
    def _shrink(instr: Instr, old: Interval | None, new: Interval | None) -> Interval | None:
        return None if old is None or new is None else meet(old, new)

    def _widened(self, instr: Instr, old: Interval, new: Interval) -> Interval:
        if self.sweeps < _WIDEN_AFTER:
            return new
        assert isinstance(instr.type, Integer)
        low, high = limits(instr.type)
        lo, hi = new
        give_up = self.sweeps > _GIVE_UP_AFTER
        if lo < old[0]:
            at = bisect_right(self.thresholds, lo)
            lo = low if give_up or at == 0 else max(low, self.thresholds[at - 1])
        if hi > old[1]:
            at = bisect_left(self.thresholds, hi)
            hi = high if give_up or at == len(self.thresholds) else min(high, self.thresholds[at])
        return lo, hi

    def _is_feasible(self, source: Block, target: Block) -> bool:
        """False if control cannot go from ``source`` to ``target`` as far as is known now."""
        end = source.end
        if source not in self.reachable or end is None:
            return False
        if end.op != "branch" or end.attrs["then"] is end.attrs["else"]:
            return True
        return self.decide(end.operands[0], self.facts.at(source)) is not (end.attrs["then"] is not target)

    # values

    def base(self, value: Value) -> Interval | None:
        """The interval of ``value`` wherever it is; None if it was not reached."""
        return self.ranges.get(value)

    def refined(self, value: Value, facts: Facts, depth: int = _DEPTH) -> Interval | None:
        """The interval of ``value`` where ``facts`` hold; None if it was not reached or nothing satisfies them."""
        value = self.facts.canonical.get(value, value)
        interval = self.ranges.get(value)
        if interval is None or not facts.relations or interval[0] == interval[1]:
            return interval
        known = value in facts.relations or value in facts.derived
        if not known and (type(value) is not Instr or value.op not in _EVALUATED_AGAIN):
            return interval
        key = (value, facts, depth)
        if key not in self._refined:
            self._refined[key] = self._refine(value, interval, facts, depth)
        return self._refined[key]

    def _refine(self, value: Value, interval: Interval | None, facts: Facts, depth: int) -> Interval | None:
        for predicate, other in facts.relations.get(value, ()):
            bound = self.refined(other, facts, depth - 1) if depth > 0 else self.ranges.get(other)
            if bound is None or interval is None:
                return None
            interval = _restrict(interval, predicate, bound)
        if interval is not None and depth > 0:
            for result in facts.derived.get(value, ()):
                implied = self._invert(result, value, facts, depth - 1)
                interval = meet(interval, implied) if implied is not None else interval
                if interval is None:
                    return None
            interval = self._again(value, interval, facts, depth - 1)
        return interval

    def _again(self, value: Value, interval: Interval, facts: Facts, depth: int) -> Interval | None:
        """Evaluates ``value`` once more with its operands as the facts have them."""
        if type(value) is not Instr or value.op not in _EVALUATED_AGAIN:
            return interval
        operands = []
        moved = False
        for operand in value.operands:
            if not isinstance(operand.type, Integer):
                return interval
            found = self.refined(operand, facts, depth)
            if found is None:
                return None
            moved = moved or found != self.ranges.get(operand)
            operands.append(found)
        if not moved:
            return interval
        assert isinstance(value.type, Integer)
        return meet(interval, _evaluate(value, value.type, operands))

    def _invert(self, result: Instr, operand: Value, facts: Facts, depth: int) -> Interval | None:
        """What the facts about ``result`` say about its ``operand``; None for nothing."""
        interval = self.refined(result, facts, depth) if result in self.exact or result.op == "within" else None
        if interval is None:
            return None
        canonical = self.facts.canonical
        if result.op in ("cast", "within"):
            return interval
        if result.op == "neg":
            return -interval[1], -interval[0]
        a, b = (canonical.get(v, v) for v in result.operands)
        other = self.ranges.get(b if operand is a else a)
        if other is None:
            return None
        if result.op == "add":
            return interval[0] - other[1], interval[1] - other[0]
        if result.op == "sub":
            if operand is a:
                return interval[0] + other[0], interval[1] + other[1]
            return other[0] - interval[1], other[1] - interval[0]
        if other[0] == other[1] > 0:  # mul by a positive constant
            return -(-interval[0] // other[0]), interval[1] // other[0]
        return None

    def decide(self, condition: Value, facts: Facts, depth: int = 4) -> bool | None:
        """What a bool is where ``facts`` hold, if that is known."""
        if not isinstance(condition, Instr):
            return facts.truths.get(condition)
        if condition.op == "const":
            return bool(condition.attrs["value"])
        known = facts.truths.get(condition)
        if known is not None or depth == 0:
            return known
        if condition.op == "cmp" and isinstance(condition.operands[0].type, Integer):
            a, b = (self.refined(v, facts) for v in condition.operands)
            return compare(condition.attrs["predicate"], a, b) if a is not None and b is not None else None
        if condition.op in ("and", "or", "inv"):
            found = [self.decide(v, facts, depth - 1) for v in condition.operands]
            if condition.op == "inv":
                return None if found[0] is None else not found[0]
            settles = condition.op == "or"
            if settles in found:
                return settles
            return None if None in found else not settles
        return None

    # transfer

    def _transfer(self, instr: Instr, block: Block, facts: Facts) -> tuple[Interval | None, bool]:
        """The interval of ``instr``, and whether it is the mathematical result, never wrapped."""
        kind = instr.type
        assert isinstance(kind, Integer)
        op = instr.op
        if op == "phi":
            return self._transfer_phi(instr, block), False
        if op == "select":
            return self._transfer_select(instr, facts), False
        if op == "dim":
            return self._transfer_dim(instr, facts), False
        if op == "undef":  # a value that nobody may look at is none
            return None, False
        if op == "within":
            return self._transfer_within(instr, facts), False
        if op not in _EVALUATED:
            return limits(kind), False
        operands = self._operands(instr, facts)
        if operands is None:
            return None, False
        if op == "cast":
            source = instr.operands[0].type
            true = operands[0] if isinstance(source, (Integer, Boolean)) else None
        elif op in _LINEAR:
            true = self._true(instr, operands, facts)
            if true is None:
                return None, False
        else:
            true = true_interval(op, kind, operands)
        if true is None:
            return _evaluate(instr, kind, operands), False
        fitted = fit(true, kind)
        return fitted, fitted == true

    def _operands(self, instr: Instr, facts: Facts) -> list[Interval] | None:
        operands = []
        for operand in instr.operands:
            if isinstance(operand.type, Integer):
                found = self.refined(operand, facts)
                if found is None:
                    return None
            else:
                found = (0, 1) if isinstance(operand.type, Boolean) else _EVERYTHING
            operands.append(found)
        return operands

    def _true(self, instr: Instr, operands: list[Interval], facts: Facts) -> Interval | None:
        """The mathematical result of an add, sub or mul, by every means; None if nothing satisfies them all."""
        kind = instr.type
        assert isinstance(kind, Integer)
        true = true_interval(instr.op, kind, operands)
        assert true is not None
        if instr not in self._products:
            self._products[instr] = thread_product(instr, self.index_width, self.launch_bounds)
        product = self._products[instr]
        if product is not None:
            narrowed = meet(true, product)
            assert narrowed is not None, "the limits of a launch contradict those of its parts"
            true = narrowed
        if true[0] < 0 or true[1] > _INT32[1]:
            return self.linear.narrow(instr, true, facts)
        return true

    def _transfer_phi(self, phi: Instr, block: Block) -> Interval | None:
        found: Interval | None = None
        for operand, source in zip(phi.operands, block.predecessors, strict=True):
            if not self._is_feasible(source, block):
                continue
            interval = self.refined(operand, self.facts.on_edge(source, block))
            if interval is not None:
                found = interval if found is None else join(found, interval)
        if found is None:
            return None
        bound = self.trips.bound(phi) if self.is_narrowing else None
        return found if bound is None else meet(found, bound)

    def _transfer_select(self, select: Instr, facts: Facts) -> Interval | None:
        condition, then, otherwise = select.operands
        decided = self.decide(condition, facts)
        found: Interval | None = None
        for arm, truth in ((then, True), (otherwise, False)):
            if decided is not (not truth):
                interval = self.refined(arm, self.facts.given(condition, truth, facts))
                if interval is not None:
                    found = interval if found is None else join(found, interval)
        return found

    def _transfer_within(self, within: Instr, facts: Facts) -> Interval | None:
        operands = self._operands(within, facts)
        if operands is None:
            return None
        value, low, high = operands
        return meet(value, (low[0], high[1] - 1))

    def _transfer_dim(self, dim: Instr, facts: Facts) -> Interval | None:
        """The extent of a view is an operand of the view, or the base's; at most what an extent can be."""
        top = _INT32[1] if self.index_width == 32 else LARGEST_EXTENT
        length = self._view_length(dim.operands[0], dim.attrs["axis"])
        interval = None if length is None else self.refined(length, facts)
        return (0, top) if interval is None else meet((0, top), interval) or (0, top)

    def _view_length(self, array: Value, axis: int) -> Value | None:
        if not isinstance(array, Instr) or array.op != "view":
            return None
        at = 1
        kept = 0
        for letter in array.attrs["axes"]:
            if letter != "i":
                if kept == axis:
                    return array.operands[at + 2] if letter == "s" else None
                kept += 1
            at += {"i": 1, "s": 3, "-": 0}[letter]
        return None


_EVERYTHING = limits(Integer(64, True))
_LINEAR = frozenset(("add", "sub", "mul"))
_EVALUATED = frozenset(
    (
        "add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "neg", "inv", "abs",
        "cast", "wrap", "select",
    )
)  # fmt: skip

_EVALUATED_AGAIN = _EVALUATED - {"select"}


def _evaluate(instr: Instr, kind: Integer, operands: list[Interval]) -> Interval:
    if instr.op == "cast":
        source = instr.operands[0].type
        return fit(operands[0], kind) if isinstance(source, (Integer, Boolean)) else limits(kind)
    return evaluate(instr.op, kind, operands)


def _restrict(interval: Interval, predicate: str, bound: Interval) -> Interval | None:
    """The values of ``interval`` that can stand in a relation to some value of ``bound``."""
    lo, hi = interval
    if predicate == "lt":
        hi = min(hi, bound[1] - 1)
    elif predicate == "le":
        hi = min(hi, bound[1])
    elif predicate == "gt":
        lo = max(lo, bound[0] + 1)
    elif predicate == "ge":
        lo = max(lo, bound[0])
    elif predicate == "eq":
        lo, hi = max(lo, bound[0]), min(hi, bound[1])
    elif bound[0] == bound[1]:  # ne
        lo += lo == bound[0]
        hi -= hi == bound[0]
    return (lo, hi) if lo <= hi else None
