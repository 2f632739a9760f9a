# SPDX-License-Identifier: Apache-2.0
"""The test with which most kernels begin, as a function of its own: whether this thread has anything to do.

Where it is true for the first and the last thread of a row of a block, it is true for all between, if it says nothing
of ``threadIdx.x`` but that a number which grows with it is above, below or between numbers that do not. The schedule
then runs the row in a loop without the test: vectorised, its loads and stores need no masks (up to twice as fast).

Before::                                         After, beside the kernel::

    entry:                                          device guard(x: float32[::1]) -> bool
      %0: int = grid axis=0                           entry:
      %1: int = dim %x axis=0                           …
      %2: bool = cmp %0, %1 predicate=lt                %2: bool = cmp %0, %1 predicate=lt
      branch %2 then=body else=end                      return %2
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.types import Array, Boolean, Integer, Scalar, bool_, none

if TYPE_CHECKING:
    from cudabuild.backend.emit import RangeFacts

__all__ = ["find_guard"]

_CONVEX = frozenset(("lt", "le", "gt", "ge", "eq"))
_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "ne": "eq"}


def find_guard(function: Function, ranges: RangeFacts) -> Function | None:
    """The guard of a kernel, or None where it has none of the kind."""
    entry = function.blocks[0]
    end = entry.end
    if end is None or end.op != "branch" or any(instr.effect != "pure" for instr in entry.instructions[:-1]):
        return None
    if not all(isinstance(p.type, (Array, Scalar)) and not isinstance(p.type, Boolean) for p in function.params):
        return None
    sides = [_leaves(end.attrs[name]) for name in ("then", "else")]
    if sides[0] == sides[1] or not _is_convex(end.operands[0], not sides[0], ranges):
        return None
    return _make(function, entry, end.operands[0], not sides[0])


def _leaves(block: Block) -> bool:
    """True if a thread that goes there is done."""
    return [instr.op for instr in block.instructions if instr.op != "phi"] == ["return"]


def _is_convex(condition: Value, truth: bool, ranges: RangeFacts) -> bool:
    """True if the ``threadIdx.x`` for which ``condition`` is ``truth`` have none between them for which it is not."""
    if not isinstance(condition, Instr):
        return True
    if condition.op == ("and" if truth else "or"):
        return all(_is_convex(operand, truth, ranges) for operand in condition.operands)
    if condition.op == "inv":
        return _is_convex(condition.operands[0], not truth, ranges)
    if condition.op != "cmp":
        return _slope(condition, ranges) == 0
    predicate = condition.attrs["predicate"]
    a, b = (_slope(operand, ranges) for operand in condition.operands)
    if (a, b) == (0, 0):
        return True
    one_moves = None not in (a, b) and 0 in (a, b)
    return one_moves and (predicate if truth else _OPPOSITE.get(predicate)) in _CONVEX


def _slope(value: Value, ranges: RangeFacts) -> int | None:
    """0 for what is the same along x; 1 for what grows with ``threadIdx.x`` and never wraps; None for anything else."""
    if isinstance(value, Param):
        return 0
    assert isinstance(value, Instr)
    if value.op == "grid":
        return int(value.attrs["axis"] == 0)
    if value.op == "sreg":
        register = value.attrs["register"]
        return 1 if register == "tid.x" else None if register in ("laneid", "lanemask_lt") else 0
    below = [_slope(operand, ranges) for operand in value.operands]
    if value.effect == "pure" and value.op not in ("phi", "undef") and all(one == 0 for one in below):
        return 0
    if value.op == "cast" and below == [1] and _widens(value):
        return 1
    if value.op in ("add", "sub") and below in ([1, 0], [0, 1]) and isinstance(value.type, Integer):
        return 1 if ranges.exact(value) and (value.op == "add" or below == [1, 0]) else None
    return None


def _widens(cast: Instr) -> bool:
    before, after = cast.operands[0].type, cast.type
    return isinstance(before, Integer) and isinstance(after, Integer) and after.signed and before.bits <= after.bits


def _make(function: Function, entry: Block, condition: Value, truth: bool) -> Function:
    params = [Param(p.type, p.location, p.name, p.index) for p in function.params]
    values: dict[Value, Value] = dict(zip(function.params, params, strict=True))
    block = Block("entry")
    for instr in entry.instructions[:-1]:
        operands = [values[operand] for operand in instr.operands]
        values[instr] = Instr(instr.type, instr.location, instr.op, operands, dict(instr.attrs), block, instr.hint)
        block.instructions.append(values[instr])  # type: ignore[arg-type]
    answer = values[condition]
    if not truth:
        answer = Instr(bool_, None, "inv", [answer], {}, block)
        block.instructions.append(answer)
    block.instructions.append(Instr(none, None, "return", [answer], {}, block))
    return Function(f"{function.name}.guard", params, bool_, [block], False, function.location)
