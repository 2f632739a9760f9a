# SPDX-License-Identifier: Apache-2.0
"""Loops that count: whether one ends by itself, after how many turns, and where its counter and bound are.

A loop ends by itself if, every turn, it asks something of a counter that moves towards a bound that stays::

    head:
      %i: int = phi %start, %next
      %c: bool = cmp %i, %n predicate=lt
      branch %c then=body else=exit
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cudabuild.ir.cfg import Dominators, Loop
from cudabuild.ir.ir import Instr, Param, Value
from cudabuild.types import Integer

if TYPE_CHECKING:
    from cudabuild.backend.emit import RangeFacts

__all__ = ["Counted", "count_turns", "find_counted", "find_exits", "is_counted"]

#: How a counter moves.
_ADDING = frozenset(("add", "sub"))
_SCALING = frozenset(("mul", "floordiv", "shr"))
_ALL = _ADDING | _SCALING
_ORDERS = frozenset(("lt", "le", "gt", "ge"))

_LONGEST_HALVING = 64  #: turns of a loop that halves or doubles a 64-bit integer


class Counted(NamedTuple):
    """A loop whose only exit is its header's question ``phi predicate bound``.

    Attributes:
        phi: the counter, a signed integer.
        predicate: lt, le, gt or ge; the loop goes on while it holds.
        bound: the same every turn.
        change: the ``add`` or ``sub`` that moves the counter, by the same each turn, towards the bound.
    """

    phi: Instr
    predicate: str
    bound: Value
    change: Instr


def find_exits(loop: Loop) -> list[Instr]:
    """The branches that leave the loop."""
    return [
        block.end
        for block in loop.blocks
        if block.end is not None and block.end.op == "branch" and not loop.blocks.issuperset(block.successors)
    ]


def is_counted(loop: Loop, dominators: Dominators, ranges: RangeFacts) -> bool:
    """True if the loop ends by itself."""
    return _is_answered(loop, dominators, ranges, _ALL)


def count_turns(loop: Loop, dominators: Dominators, ranges: RangeFacts) -> int | None:
    """How often control goes back to the header for one entry, at most; None if nothing small is known."""
    turns = ranges.turns(loop.header)
    return _LONGEST_HALVING if turns is None and _is_answered(loop, dominators, ranges, _SCALING) else turns


def find_counted(loop: Loop, ranges: RangeFacts) -> Counted | None:
    """Counter and bound, if all of the loop hangs on one question in its header."""
    end = loop.header.end
    if end is None or end.op != "branch" or find_exits(loop) != [end]:
        return None
    condition = end.operands[0]
    if not isinstance(condition, Instr) or condition.op != "cmp" or condition.block is not loop.header:
        return None
    predicate = condition.attrs["predicate"]
    if end.attrs["then"] not in loop.blocks:
        predicate = _OPPOSITE[predicate]
    a, b = condition.operands
    for value, name, bound in ((a, predicate, b), (b, _SWAPPED[predicate], a)):
        phi = _unchanged(value)
        change = None if phi is None or name not in _ORDERS else _find_change(phi, loop)
        if phi is not None and change is not None and _ends(value, name, bound, loop, ranges, _ADDING):
            return Counted(phi, name, bound, change)
    return None


def _is_answered(loop: Loop, dominators: Dominators, ranges: RangeFacts, steps: frozenset[str]) -> bool:
    return any(
        _becomes(branch.operands[0], not stays, loop, ranges, steps) for branch, stays in _questions(loop, dominators)
    )


def _questions(loop: Loop, dominators: Dominators) -> list[tuple[Instr, bool]]:
    """The branches that leave the loop and are come to every turn, each with whether it stays on true."""
    found = []
    for branch in find_exits(loop):
        assert branch.block is not None
        if all(dominators.dominates(branch.block, latch) for latch in loop.latches):
            found.append((branch, branch.attrs["then"] in loop.blocks))
    return found


def _becomes(condition: Value, truth: bool, loop: Loop, ranges: RangeFacts, steps: frozenset[str]) -> bool:
    """True if ``condition``, asked every turn, is ``truth`` one day."""
    if not isinstance(condition, Instr):
        return False
    if condition.op == ("or" if truth else "and"):  # one of the two is enough
        return any(_becomes(operand, truth, loop, ranges, steps) for operand in condition.operands)
    if condition.op == "inv":
        return _becomes(condition.operands[0], not truth, loop, ranges, steps)
    if condition.op == "cast":  # "while n:"
        return not truth and _ends(condition.operands[0], "ne", None, loop, ranges, steps)
    if condition.op != "cmp":
        return False
    predicate = condition.attrs["predicate"]
    predicate = _OPPOSITE[predicate] if truth else predicate
    a, b = condition.operands
    return _ends(a, predicate, b, loop, ranges, steps) or _ends(b, _SWAPPED[predicate], a, loop, ranges, steps)


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _ends(
    value: Value, predicate: str, bound: Value | None, loop: Loop, ranges: RangeFacts, steps: frozenset[str]
) -> bool:
    """True if ``value predicate bound``, asked every turn, becomes false; a ``bound`` of None is 0."""
    if not isinstance(value.type, Integer) or (bound is not None and not _is_fixed(bound, loop)):
        return False
    phi = _counter(value, loop)
    if phi is None or phi.block is None:
        return False
    return all(
        isinstance(change, Instr) and change.op in steps and _approaches(phi, change, predicate, bound, loop, ranges)
        for change in _changes(phi, loop)
    )


def _counter(value: Value, loop: Loop) -> Instr | None:
    """The header's phi that ``value`` is, or is a fixed distance from."""
    for _ in range(4):
        if not isinstance(value, Instr):
            return None
        if value.op == "phi":
            return value if value.block is loop.header else None
        moved = value.op in ("add", "sub") and _is_fixed(value.operands[1], loop)
        if not moved and value.op != "within" and not _keeps(value):
            return None
        value = value.operands[0]
    return None


def _keeps(value: Instr) -> bool:
    """True for a cast that changes no integer."""
    if value.op != "cast":
        return False
    before, after = value.operands[0].type, value.type
    return (
        isinstance(before, Integer)
        and isinstance(after, Integer)
        and before.signed == after.signed
        and before.bits <= after.bits
    )


def _approaches(phi: Instr, change: Instr, predicate: str, bound: Value | None, loop: Loop, ranges: RangeFacts) -> bool:
    base, step = change.operands
    if change.op == "add" and _counter(step, loop) is phi:
        base, step = step, base
    if _counter(base, loop) is not phi or not _is_fixed(step, loop):
        return False
    low, high = ranges.of(step)
    if change.op in ("add", "sub"):
        if change.op == "sub":
            low, high = -high, -low
        assert isinstance(phi.type, Integer)
        # A step that could jump over the type's end would start again from the other one.
        safe = phi.type.bits == 64 or ranges.exact(change) or low == high in (1, -1)
        return safe and (
            (low > 0 and predicate in ("lt", "le"))
            or (high < 0 and predicate in ("gt", "ge"))
            or (low == high in (1, -1) and predicate == "ne")
        )
    if change.op == "mul":
        return low > 1 and ranges.of(phi)[0] > 0 and predicate in ("lt", "le") and ranges.exact(change)
    # halving ends at 0, or at -1 below it
    towards_zero = predicate == "gt" or (predicate == "ne" and ranges.nonnegative(phi))
    return towards_zero and (bound is None or ranges.of(bound)[0] >= 0) and low > (1 if change.op == "floordiv" else 0)


def _is_fixed(value: Value, loop: Loop) -> bool:
    """True if the value is the same in every turn of the loop."""
    if isinstance(value, Param):
        return True
    if not isinstance(value, Instr):
        return False
    if value.block not in loop.blocks:
        return True
    pure = value.effect == "pure" and value.op not in ("phi", "undef")
    return pure and all(_is_fixed(operand, loop) for operand in value.operands)


def _changes(phi: Instr, loop: Loop) -> list[Value]:
    """What the header's phi becomes in the next turn, for each way back."""
    assert phi.block is not None
    return [v for v, source in zip(phi.operands, phi.block.predecessors, strict=True) if source in loop.blocks]


def _unchanged(value: Value) -> Instr | None:
    """The phi that ``value`` is, perhaps in a wider type."""
    while isinstance(value, Instr) and value.op != "phi" and (value.op == "within" or _keeps(value)):
        value = value.operands[0]
    return value if isinstance(value, Instr) and value.op == "phi" else None


def _find_change(phi: Instr, loop: Loop) -> Instr | None:
    """The one addition or subtraction that moves ``phi``; None if there is none, or more than one."""
    changes = _changes(phi, loop)
    signed = isinstance(phi.type, Integer) and phi.type.signed
    if not signed or phi.block is not loop.header or len(changes) != 1:
        return None
    (change,) = changes
    if not isinstance(change, Instr) or change.op not in _ADDING:
        return None
    return change if _unchanged(change.operands[0]) is phi else None
