# SPDX-License-Identifier: Apache-2.0
"""Bounds that intervals alone cannot see, because the operands of an addition depend on each other.

For ``n - 1 - i`` where ``i < n``: intervals say ``-2³¹ … 2³¹``; as a linear form it is ``n - i - 1``, and putting the
bound ``i <= n - 1`` in place of ``i`` leaves ``0``. A range loop's index is the same kind of thing: with ``count =
(stop - 1 - start) // step + 1`` and ``k < count``, the product ``k * step`` is at most ``stop - 1 - start``, and
``start + k * step`` is at most ``stop - 1``.

A linear form is a sum of values ("atoms") times integers, plus an integer: a mathematical number, without any wrap.
Only instructions that the analysis has found unable to wrap are taken apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.ir.facts import Facts
from cudabuild.ir.intervals import Interval
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Integer

if TYPE_CHECKING:
    from cudabuild.ir.ranges import Analysis

__all__ = ["Linear", "LinearBounds"]

#: Coefficients by atom, and the constant.
Linear = tuple[dict[Value, int], int]

_DEPTH = 6  #: how deep a value is taken apart
_SUBSTITUTIONS = 3  #: how many atoms in a row are replaced by their bounds


class LinearBounds:
    """Answers from the analysis' present state, as every part of it does."""

    def __init__(self, analysis: Analysis) -> None:
        self.analysis = analysis
        self._forms: dict[tuple[Value, int], Linear] = {}

    def forget(self) -> None:
        """Drops what was computed from an earlier state."""
        self._forms.clear()

    def narrow(self, instr: Instr, true: Interval, facts: Facts) -> Interval | None:
        """``true``, the mathematical interval of an add, sub or mul, cut down; None if nothing is left."""
        form = self._form_of(instr, facts, _DEPTH)
        if form is None:
            form = ({instr: 1}, 0) if instr.op == "mul" else None
        if form is None:
            return true
        own = {instr: true}
        hi = min(true[1], self._upper(form, facts, _SUBSTITUTIONS, own))
        lo = max(true[0], -self._upper(_scaled(form, -1), facts, _SUBSTITUTIONS, own))
        return (lo, hi) if lo <= hi else None

    def upper(self, form: Linear, facts: Facts) -> int:
        """An upper bound of ``form`` where ``facts`` hold."""
        return self._upper(form, facts, _SUBSTITUTIONS, {})

    # forms

    def form(self, value: Value, facts: Facts, depth: int = _DEPTH) -> Linear:
        """``value`` as a linear form, itself the only atom if it is nothing better."""
        value = self.analysis.facts.canonical.get(value, value)
        key = (value, depth)
        known = self._forms.get(key)
        if known is None:
            known = self._forms[key] = self._find_form(value, facts, depth)
        return known

    def _find_form(self, value: Value, facts: Facts, depth: int) -> Linear:
        interval = self.analysis.base(value)
        if interval is not None and interval[0] == interval[1]:
            return {}, interval[0]
        if depth > 0 and isinstance(value, Instr) and value in self.analysis.exact:
            form = self._form_of(value, facts, depth)
            if form is not None:
                return form
        return {value: 1}, 0

    def _form_of(self, instr: Instr, facts: Facts, depth: int) -> Linear | None:
        """The mathematical result of ``instr`` as a linear form of its operands; None if it is not linear."""
        op = instr.op
        if op == "cast":
            if not isinstance(instr.operands[0].type, Integer):
                return None
            return self.form(instr.operands[0], facts, depth - 1)
        if op == "neg":
            return _scaled(self.form(instr.operands[0], facts, depth - 1), -1)
        if op not in ("add", "sub", "mul"):
            return None
        a, b = (self.form(operand, facts, depth - 1) for operand in instr.operands)
        if op == "mul":
            if not a[0]:
                return _scaled(b, a[1])
            return _scaled(a, b[1]) if not b[0] else None
        return _sum(a, b if op == "add" else _scaled(b, -1))

    # bounds

    def _upper(self, form: Linear, facts: Facts, substitutions: int, own: dict[Instr, Interval]) -> int:
        """An upper bound of ``form`` where ``facts`` hold. ``own``: intervals of values that are being computed."""
        best = form[1]
        for atom, factor in form[0].items():
            interval = own.get(atom) if isinstance(atom, Instr) else None
            interval = interval or self.analysis.refined(atom, facts)
            if interval is None:
                return best  # never reached: any bound is true
            best += factor * interval[1 if factor > 0 else 0]
        if substitutions > 0:
            for atom, factor in form[0].items():
                for bound in self.bounds(atom, factor, facts):
                    rest = {a: f for a, f in form[0].items() if a is not atom}
                    replaced = _sum((rest, form[1]), bound)
                    best = min(best, self._upper(replaced, facts, substitutions - 1, own))
        return best

    def bounds(self, atom: Value, factor: int, facts: Facts) -> list[Linear]:
        """Linear forms that are at least ``factor * atom``."""
        found = []
        for predicate, other in facts.relations.get(atom, ()):
            if predicate in (("lt", "le", "eq") if factor > 0 else ("gt", "ge", "eq")):
                offset = {"lt": -1, "gt": 1}.get(predicate, 0)
                least = self._least(atom, predicate, facts) if factor > 0 else None
                found.append(_scaled(_sum(self._resolved(other, least, facts), ({}, offset)), factor))
        if isinstance(atom, Instr):
            if atom.op == ("min" if factor > 0 else "max"):
                found += [_scaled(self.form(operand, facts), factor) for operand in atom.operands]
            elif atom.op == "within":
                found += self._within_bounds(atom, factor, facts)
            elif atom.op == "mul":
                found += self._product_bounds(atom, factor, facts)
            elif atom.op == "phi" and self.analysis.is_narrowing:
                for counter, a, b in self.analysis.trips.followers(atom, factor > 0):
                    found.append(_scaled(({counter: a} if a else {}, b), factor))
            elif atom.op == "floordiv":
                found += self._quotient_bounds(atom, factor, facts)
        return found

    def _least(self, atom: Value, predicate: str, facts: Facts) -> int | None:
        """The least that a value can be which ``atom`` is lt, le or eq."""
        interval = self.analysis.refined(atom, facts)
        return None if interval is None else interval[0] + (predicate == "lt")

    def _resolved(self, bound: Value, least: int | None, facts: Facts) -> Linear:
        """The form of ``bound``, which is known to be at least ``least``.

        A range loop's count is the quotient or, for an empty range, 0: where ``0 <= k < count``, it is the quotient.
        """
        if least is not None and isinstance(bound, Instr):
            chosen = self._chosen(bound, least, facts)
            if chosen is not None:
                return self.form(chosen, facts)
        return self.form(bound, facts)

    def _chosen(self, value: Instr, least: int, facts: Facts, depth: int = 4) -> Value | None:
        """The one operand that a select, max or phi must be if it is at least ``least``."""
        if value.op not in ("select", "max", "phi") or depth == 0:
            return value
        arms = value.operands[1:] if value.op == "select" else value.operands
        if value.op == "select":
            decided = self.analysis.decide(value.operands[0], facts)
            if decided is not None:
                arms = [arms[0 if decided else 1]]
        possible = []
        for arm in arms:
            interval = self.analysis.base(arm)
            if interval is not None and interval[1] >= least:
                possible.append(arm)
        if len(possible) != 1 or not isinstance(possible[0], Instr):
            return None
        if value.op == "phi":
            assert value.block is not None
            source = value.block.predecessors[value.operands.index(possible[0])]
            if not self.analysis.facts.remembers(value.block, source):
                return None
        return self._chosen(possible[0], least, facts, depth - 1)

    def _within_bounds(self, within: Instr, factor: int, facts: Facts) -> list[Linear]:
        value, low, high = (self.form(operand, facts) for operand in within.operands)
        limit = _sum(high, ({}, -1)) if factor > 0 else low
        return [_scaled(value, factor), _scaled(limit, factor)]

    def _product_bounds(self, product: Instr, factor: int, facts: Facts) -> list[Linear]:
        """``k * step <= a`` where ``step >= 1`` and ``k <= a // step``."""
        found: list[Linear] = []
        if factor < 0:
            return found
        for k, step in (product.operands, product.operands[::-1]):
            interval = self.analysis.refined(step, facts)
            if interval is None or interval[0] < 1:
                continue
            form = self.form(k, facts)
            for atom, times in form[0].items():
                if times != 1 or len(form[0]) != 1:
                    continue
                for bound in self.bounds(atom, 1, facts):
                    quotient = _sum(bound, ({}, form[1]))
                    found += [_scaled(d, factor) for d in self._dividend(quotient, step, facts)]
        return found

    def _dividend(self, quotient: Linear, step: Value, facts: Facts) -> list[Linear]:
        """``a``, where ``quotient`` is at most ``a // step``."""
        if len(quotient[0]) != 1 or quotient[1] > 0:
            return []
        ((atom, times),) = quotient[0].items()
        if times != 1 or not isinstance(atom, Instr) or atom.op != "floordiv":
            return []
        if self.form(atom.operands[1], facts) != self.form(step, facts):
            return []
        return [self.form(atom.operands[0], facts)]

    def _quotient_bounds(self, quotient: Instr, factor: int, facts: Facts) -> list[Linear]:
        """``a - d < d * (a // d) <= a`` for a constant ``d``, and its multiples."""
        divisor = self.analysis.base(quotient.operands[1])
        if divisor is None or divisor[0] != divisor[1] or divisor[0] < 1 or factor % divisor[0]:
            return []
        times = factor // divisor[0]
        dividend = self.form(quotient.operands[0], facts)
        return [_scaled(dividend if times > 0 else _sum(dividend, ({}, 1 - divisor[0])), times)]


def _sum(a: Linear, b: Linear) -> Linear:
    if not b[0]:
        return a[0], a[1] + b[1]
    terms = dict(a[0])
    for atom, factor in b[0].items():
        total = terms.get(atom, 0) + factor
        if total:
            terms[atom] = total
        else:
            terms.pop(atom, None)
    return terms, a[1] + b[1]


def _scaled(form: Linear, factor: int) -> Linear:
    if factor == 1:
        return form
    return ({atom: f * factor for atom, f in form[0].items()} if factor else {}), form[1] * factor
