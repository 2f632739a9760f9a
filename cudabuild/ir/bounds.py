# SPDX-License-Identifier: Apache-2.0
"""Is an index below an extent? Always, or at least in every launch where some sums of its arguments are negative?

For ``if i < n: y[i] = x[i]`` nothing says that ``n`` is at most ``x.size``, but no thread can change either: ``i <=
n - 1``, so ``n - x.size - 1 < 0`` at launch says that the access is within bounds. One comparison at launch then stands
for one at each access. What a launch knows: integer arguments, extents of array arguments, sizes of blocks and grid.
"""

from __future__ import annotations

from collections.abc import Iterator

from cudabuild.ir.extents import extent_origin
from cudabuild.ir.facts import Facts
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.linear import Linear
from cudabuild.ir.ranges import Ranges
from cudabuild.types import Integer, weak_int

__all__ = ["IndexBounds"]

_DEPTH = 5  #: how many values in a row are replaced by their bounds
_MOST = 64  #: how many forms are looked at

#: Thread index -> what it is less than, as an operation and its attributes.
_LIMITS = {"tid": "ntid", "ctaid": "nctaid"}


class IndexBounds:
    """Answers for one function; see the module."""

    def __init__(self, function: Function, ranges: Ranges) -> None:
        self.is_kernel = function.is_kernel
        self.ranges = ranges
        self.analysis = ranges.analysis
        self._dims: dict[tuple[Value, int], Value] = {}
        for instr in function.instructions():
            if instr.op == "dim":
                self._dims.setdefault((instr.operands[0], instr.attrs["axis"]), instr)

    def is_nonnegative(self, index: Value, block: Block) -> bool:
        """True if the wrapped index ``index`` cannot be below zero."""
        return self.ranges.nonnegative(_unwrapped(self.ranges, index, block), block)

    def is_below(self, index: Value, array: Value, axis: int, block: Block) -> bool:
        """True if ``index`` is less than the extent of ``array`` whenever a thread stands in ``block``."""
        facts = self.analysis.facts.at(block)
        form = self._distance(index, array, axis, block, facts)
        return form is not None and self.analysis.linear.upper(form, facts) < 0

    def launch_conditions(
        self, index: Value, array: Value, axis: int, block: Block, nonnegative: bool
    ) -> list[Linear] | None:
        """Sums of what a launch knows: where all are negative, ``index`` is within bounds. None if that cannot be said.

        Their atoms are parameters, ``dim`` of parameters, ``sreg`` ntid and nctaid, and ``gridsize``.

        Args:
            index, array, axis, block: as for ``is_below``.
            nonnegative: whether the index is known not to be below zero.
        """
        facts = self.analysis.facts.at(block)
        form = self._distance(index, array, axis, block, facts) if self.is_kernel else None
        if form is None:
            return None
        wanted = [form]
        if not nonnegative:
            terms, constant = self.analysis.linear.form(index, facts)
            wanted.append(({atom: -factor for atom, factor in terms.items()}, -constant - 1))
        found = [self._first_known(one, facts) for one in wanted]
        return None if None in found else [one for one in found if one is not None and one[0]]

    def _first_known(self, form: Linear, facts: Facts) -> Linear | None:
        """The first upper bound of ``form`` that a launch can compute, and that can be negative."""
        for count, found in enumerate(self._known_at_launch(form, facts, _DEPTH)):
            if found is not None and (found[0] or found[1] < 0):
                return found
            if count > _MOST:
                break
        return None

    def _distance(self, index: Value, array: Value, axis: int, block: Block, facts: Facts) -> Linear | None:
        """``index - extent`` as a linear form."""
        dim = self._dims.get((array, axis))
        origin = extent_origin(array, axis, rows=False)
        if dim is None and isinstance(origin, tuple):
            array, axis = origin
            dim = self._dims.get(origin)
        terms, constant = self.analysis.linear.form(_unwrapped(self.ranges, index, block), facts)
        if dim is not None:
            extent = self.analysis.linear.form(dim, facts)
        elif isinstance(origin, int):
            extent = ({}, origin)
        elif isinstance(origin, Value):
            extent = self.analysis.linear.form(origin, facts)
        elif isinstance(array, Param):
            extent = ({Instr(weak_int, None, "dim", [array], {"axis": axis}): 1}, 0)
        else:
            return None
        total = dict(terms)
        for atom, factor in extent[0].items():
            total[atom] = total.get(atom, 0) - factor
        return {atom: factor for atom, factor in total.items() if factor}, constant - extent[1]

    def _known_at_launch(self, form: Linear, facts: Facts, depth: int) -> Iterator[Linear | None]:
        """Upper bounds of ``form`` that a launch can compute; None for each one that it cannot."""
        unknown = next((atom for atom in form[0] if not _is_known_at_launch(atom)), None)
        if unknown is None:
            yield form
            return
        yield None
        if depth == 0:
            return
        factor = form[0][unknown]
        rest = {atom: times for atom, times in form[0].items() if atom is not unknown}
        for terms, constant in self._upper_bounds(unknown, factor, facts):
            total = dict(rest)
            for atom, times in terms.items():
                total[atom] = total.get(atom, 0) + times
            replaced = {atom: times for atom, times in total.items() if times}
            yield from self._known_at_launch((replaced, form[1] + constant), facts, depth - 1)

    def _upper_bounds(self, atom: Value, factor: int, facts: Facts) -> Iterator[Linear]:
        """Forms that are at least ``factor * atom``, the sharpest first."""
        yield from self.analysis.linear.bounds(atom, factor, facts)
        limit = _thread_limit(atom) if factor > 0 else None
        if limit is not None:
            yield {limit: factor}, -factor
        interval = self.analysis.refined(atom, facts)
        if interval is not None and abs(interval[factor > 0]) < 1 << 31:
            yield {}, factor * interval[factor > 0]


def _unwrapped(ranges: Ranges, index: Value, block: Block) -> Value:
    """The operand of a ``wrap`` that changes nothing."""
    if isinstance(index, Instr) and index.op == "wrap" and ranges.nonnegative(index.operands[0], block):
        return index.operands[0]
    return index


def _is_known_at_launch(value: Value) -> bool:
    if isinstance(value, Param):
        return isinstance(value.type, Integer)
    if not isinstance(value, Instr):
        return False
    if value.op == "sreg":
        return str(value.attrs["register"]).startswith("n")
    return value.op == "gridsize" or (value.op == "dim" and isinstance(value.operands[0], Param))


def _thread_limit(value: Value) -> Value | None:
    """What a thread's index is less than."""
    if isinstance(value, Instr) and value.op == "grid":
        return Instr(weak_int, None, "gridsize", [], dict(value.attrs))
    if isinstance(value, Instr) and value.op == "sreg":
        register, _, axis = str(value.attrs["register"]).partition(".")
        if register in _LIMITS:
            return Instr(value.type, None, "sreg", [], {"register": f"{_LIMITS[register]}.{axis}"})
    return None
