# SPDX-License-Identifier: Apache-2.0
"""Bounds for what a loop accumulates: a value that changes by at most ``d`` a turn, in a loop of at most ``t`` turns.

For ::

    head:
      %k: int = phi %zero, %k1
      %hits: int = phi %zero, %hits1            -- 0 … (turns) * 1
      %c: bool = cmp %k, %n predicate=lt        -- turns <= hi(n) - 0
      branch %c then=body else=exit
    body:
      …                                         -- %hits1 is %hits or %hits + 1
      %k1: int = add %k, %one
      jump head

Turns are counted where control goes back to the header. The number of turns follows from any phi of the header that
only grows (or only shrinks) and is bounded where control goes back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.ir.cfg import Loop
from cudabuild.ir.intervals import Interval, join, limits
from cudabuild.ir.ir import Block, Instr, Value
from cudabuild.types import Integer

if TYPE_CHECKING:
    from cudabuild.ir.ranges import Analysis

__all__ = ["TripBounds"]


class TripBounds:
    """Answers from the analysis' present state; sound whenever that state holds every real value."""

    def __init__(self, analysis: Analysis, loops: dict[Block, Loop]) -> None:
        self.analysis = analysis
        self.loops = loops
        self._stepping: set[Instr] = set()
        self._turns: dict[Loop, int | None] = {}

    def forget(self) -> None:
        """Drops what was computed from an earlier state."""
        self._turns.clear()

    def bound(self, phi: Instr) -> Interval | None:
        """The interval of a loop header's phi by its start, its change per turn and the number of turns."""
        loop = self.loops.get(phi.block) if phi.block is not None else None
        if loop is None:
            return None
        start = self._start(phi, loop)
        step = self._step(phi, loop)
        if start is None or step is None:
            return None
        if step == (0, 0):
            return start
        turns = self.turns(loop)
        if turns is None:
            return None
        lo, hi = _after(start, step, turns)
        assert isinstance(phi.type, Integer)
        low, high = limits(phi.type)
        return (lo, hi) if low <= lo and hi <= high else None  # beyond, it may wrap

    def turns(self, loop: Loop) -> int | None:
        """How often control can go back to the header for one entry into the loop, at most; None if unknown."""
        if loop not in self._turns:
            self._turns[loop] = None  # an answer for loops that ask for themselves
            found = [self._turns_by(phi, loop) for phi in loop.header.phis if isinstance(phi.type, Integer)]
            self._turns[loop] = min((turns for turns in found if turns is not None), default=None)
        return self._turns[loop]

    def followers(self, phi: Instr, upper: bool) -> list[tuple[Instr, int, int]]:
        """Counters ``k`` that ``phi`` keeps step with: ``phi <= a * k + b`` as ``(k, a, b)`` (``>=`` unless ``upper``).

        In ``hits <= k`` there is more than in both intervals: where ``k < n``, so is ``hits``.
        """
        loop = self.loops.get(phi.block) if phi.block is not None else None
        if loop is None or self.bound(phi) is None:
            return []
        start = self._start(phi, loop)
        step = self._step(phi, loop)
        if start is None or step is None:
            return []
        by = max(step[1], 0) if upper else min(step[0], 0)
        base = start[1] if upper else start[0]
        found = []
        for counter in loop.header.phis:
            if counter is phi or not isinstance(counter.type, Integer) or self._turns_by(counter, loop) is None:
                continue
            first = self._start(counter, loop)
            pace = self._step(counter, loop)
            if first is None or pace is None:
                continue
            grows = pace[0] > 0
            least = min(abs(pace[0]), abs(pace[1]))  # turns so far <= (counter - first) / least
            if by % least == 0:
                factor = by // least if grows else -by // least
                found.append((counter, factor, base - factor * first[0 if grows else 1]))
        return found

    def _turns_by(self, phi: Instr, loop: Loop) -> int | None:
        """The turns after which ``phi`` would leave the interval that it has wherever control goes back."""
        start = self._start(phi, loop)
        step = self._step(phi, loop)
        if start is None or step is None or step[0] <= 0 <= step[1]:
            return None
        last: Interval | None = None
        for latch in loop.latches:
            interval = self.analysis.refined(phi, self.analysis.facts.on_edge(latch, loop.header))
            if interval is not None:
                last = interval if last is None else join(last, interval)
        if last is None:
            return 0
        assert isinstance(phi.type, Integer)
        low, high = limits(phi.type)
        if last[0] + step[0] < low or last[1] + step[1] > high:
            return None  # it may wrap and come round again
        room = last[1] - start[0] if step[0] > 0 else start[1] - last[0]
        return room // min(abs(step[0]), abs(step[1])) + 1 if room >= 0 else 0

    def _start(self, phi: Instr, loop: Loop) -> Interval | None:
        """The interval of ``phi`` when the loop is entered."""
        found: Interval | None = None
        for value, source in zip(phi.operands, loop.header.predecessors, strict=True):
            if source not in loop.latches:
                interval = self.analysis.refined(value, self.analysis.facts.on_edge(source, loop.header))
                if interval is not None:
                    found = interval if found is None else join(found, interval)
        return found

    def _step(self, phi: Instr, loop: Loop) -> Interval | None:
        """By how much ``phi`` changes from one turn to the next; None if that is not known."""
        if phi in self._stepping:  # phis of one header that take each other's value (``k, m = m, k``)
            return None
        backs = [v for v, p in zip(phi.operands, loop.header.predecessors, strict=True) if p in loop.latches]
        self._stepping.add(phi)
        try:
            return self._joined(backs, phi, loop, {phi: (0, 0)})
        finally:
            self._stepping.discard(phi)

    def _joined(
        self, values: list[Value], phi: Instr, loop: Loop, known: dict[Value, Interval | None]
    ) -> Interval | None:
        found: Interval | None = None
        for value in values:
            change = self._change(value, phi, loop, known)
            if change is None:
                return None
            found = change if found is None else join(found, change)
        return found

    def _change(self, value: Value, phi: Instr, loop: Loop, known: dict[Value, Interval | None]) -> Interval | None:
        """``value - phi`` as an interval, modulo the type's size; ``known`` holds answers already found."""
        if value in known:
            return known[value]
        known[value] = None  # cycles other than loops known here have no answer
        if isinstance(value, Instr) and value.block in loop.blocks and value.type == phi.type:
            known[value] = self._change_of(value, phi, loop, known)
        return known[value]

    def _change_of(self, value: Instr, phi: Instr, loop: Loop, known: dict[Value, Interval | None]) -> Interval | None:
        if value.op == "within":
            return self._change(value.operands[0], phi, loop, known)
        if value.op == "select":
            return self._joined(value.operands[1:], phi, loop, known)
        if value.op == "phi":
            assert value.block is not None
            inner = self.loops.get(value.block)
            if inner is None:
                return self._joined(value.operands, phi, loop, known)
            entries = [
                v for v, p in zip(value.operands, value.block.predecessors, strict=True) if p not in inner.latches
            ]
            start = self._joined(entries, phi, loop, known)
            step = self._step(value, inner)
            turns = 0 if step == (0, 0) else self.turns(inner)
            return None if start is None or step is None or turns is None else _after(start, step, turns)
        if value.op not in ("add", "sub"):
            return None
        assert value.block is not None
        facts = self.analysis.facts.at(value.block)
        a, b = value.operands
        for base, other in ((a, b), (b, a)) if value.op == "add" else ((a, b),):
            change = self._change(base, phi, loop, known)
            by = self.analysis.refined(other, facts)
            if change is not None and by is not None:
                return (
                    (change[0] + by[0], change[1] + by[1])
                    if value.op == "add"
                    else (change[0] - by[1], change[1] - by[0])
                )
        return None


def _after(start: Interval, step: Interval, turns: int) -> Interval:
    return start[0] + turns * min(step[0], 0), start[1] + turns * max(step[1], 0)
