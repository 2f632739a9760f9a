# SPDX-License-Identifier: Apache-2.0
"""Which loops of a kernel must look up from their work, and how.

A loop that counts towards a bound that does not change ends by itself, and gets nothing. Every other loop may never
end: where control goes back to its header it reads the stop flag (``"stop"``). If its exit can depend on what another
thread does (an atomic operation, a fence or a sleep is in it, and a value from memory decides), the thread also lets
the others run there (``"turn"``), as at a barrier: the one it waits for may be any other thread of the grid.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.ir.cfg import Dominators, Loop, find_loops, reverse_postorder
from cudabuild.ir.ir import Instr, Param, Value
from cudabuild.types import Integer

if TYPE_CHECKING:
    from cudabuild.backend.emit import RangeFacts
    from cudabuild.ir.ir import Block, Function

__all__ = ["find_polls"]

#: What a thread that waits for another has in its loop …
_SIGNS = frozenset(("atomic", "atomic_cas", "fence", "nanosleep"))
#: … and where what it waits for comes from.
_SOURCES = frozenset(("atomic", "atomic_cas", "load"))


def find_polls(function: Function, ranges: RangeFacts) -> dict[Block, str]:
    """The blocks that go back to the header of a loop without a known bound -> ``"stop"`` or ``"turn"``."""
    order = reverse_postorder(function)
    dominators = Dominators(order)
    polls: dict[Block, str] = {}
    for loop in find_loops(order, dominators).values():
        if _is_counted(loop, dominators, ranges):
            continue
        how = "turn" if _waits(loop) else "stop"
        for latch in loop.latches:
            if polls.get(latch) != "turn":
                polls[latch] = how
    return polls


def _exits(loop: Loop) -> list[Instr]:
    """The branches that leave the loop."""
    return [
        block.end
        for block in loop.blocks
        if block.end is not None and block.end.op == "branch" and not loop.blocks.issuperset(block.successors)
    ]


def _is_counted(loop: Loop, dominators: Dominators, ranges: RangeFacts) -> bool:
    for branch in _exits(loop):
        block = branch.block
        assert block is not None
        if all(dominators.dominates(block, latch) for latch in loop.latches):  # asked every turn
            stays = branch.attrs["then"] in loop.blocks
            if _becomes(branch.operands[0], not stays, loop, ranges):
                return True
    return False


def _becomes(condition: Value, truth: bool, loop: Loop, ranges: RangeFacts) -> bool:
    """True if ``condition``, asked every turn, is ``truth`` one day."""
    if not isinstance(condition, Instr):
        return False
    if condition.op == ("or" if truth else "and"):  # one of the two is enough
        return any(_becomes(operand, truth, loop, ranges) for operand in condition.operands)
    if condition.op == "inv":
        return _becomes(condition.operands[0], not truth, loop, ranges)
    if condition.op == "cast":  # "while n:"
        return not truth and _ends(condition.operands[0], "ne", None, loop, ranges)
    if condition.op != "cmp":
        return False
    predicate = condition.attrs["predicate"]
    predicate = _OPPOSITE[predicate] if truth else predicate
    a, b = condition.operands
    return _ends(a, predicate, b, loop, ranges) or _ends(b, _SWAPPED[predicate], a, loop, ranges)


_OPPOSITE = {"lt": "ge", "ge": "lt", "gt": "le", "le": "gt", "eq": "ne", "ne": "eq"}
_SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}


def _ends(value: Value, predicate: str, bound: Value | None, loop: Loop, ranges: RangeFacts) -> bool:
    """True if ``value predicate bound``, asked every turn, becomes false; a ``bound`` of None is 0."""
    if not isinstance(value.type, Integer) or (bound is not None and not _is_fixed(bound, loop)):
        return False
    phi = _counter(value, loop)
    if phi is None or phi.block is None:
        return False
    header = zip(phi.block.predecessors, phi.operands, strict=True)
    changes = [operand for predecessor, operand in header if predecessor in loop.blocks]
    return all(_approaches(phi, change, predicate, bound, loop, ranges) for change in changes)


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


def _approaches(phi: Instr, change: Value, predicate: str, bound: Value | None, loop: Loop, ranges: RangeFacts) -> bool:
    if not isinstance(change, Instr) or len(change.operands) != 2 or change.op not in _STEPS:
        return False
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


_STEPS = frozenset(("add", "sub", "mul", "floordiv", "shr"))


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


def _waits(loop: Loop) -> bool:
    inside = [instr for block in loop.blocks for instr in block.instructions]
    if not any(_is_sign(instr) for instr in inside):
        return False
    seen: set[Value] = set()
    pending: list[Value] = [branch.operands[0] for branch in _exits(loop)]
    while pending:
        value = pending.pop()
        if value in seen or not isinstance(value, Instr) or value.block not in loop.blocks:
            continue
        seen.add(value)
        if value.op in _SOURCES or value.op == "call":
            return True
        pending += value.operands
        if value.op == "phi":  # which operand it is was decided by a branch of the loop
            ends = [block.end for block in loop.blocks]
            pending += [end.operands[0] for end in ends if end is not None and end.op == "branch"]
    return not _exits(loop)


def _is_sign(instr: Instr) -> bool:
    if instr.op != "call":
        return instr.op in _SIGNS
    callee: Function = instr.attrs["callee"]
    return any(one.op in _SIGNS for function in (callee, *callee.callees) for one in function.instructions())
