# SPDX-License-Identifier: Apache-2.0
"""Which loops of a function must look up from their work, and how.

A launch that is broken off must end within a second. Work between two looks at the stop flag is bounded by
instructions: what a thread executes in a loop that is known to end soon (``turns × instructions``, loops inside
included) needs no look. Every other loop reads the flag where control goes back to its header (``"stop"``), but

- where its exit can depend on what another thread does (an atomic operation, a fence, a sleep, a ``ldcv`` or a ``ldcg``
  is in it, and a value from memory decides), the thread also lets the others run there (``"turn"``), as at a barrier:
  the one it waits for may be any other thread of the grid;
- a barrier that every turn comes to has the schedule look;
- a loop that LLVM may vectorise is cut into *strips*, and looks between them (``strips.py``).

A function that stays one (it calls itself) returns at once when the launch is stopped, and its caller looks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from cudabuild.cpu.counting import Counted, count_turns, find_counted, find_exits
from cudabuild.ir.cfg import Dominators, Loop, find_loops, reverse_postorder
from cudabuild.ir.ir import Function, Instr, Value
from cudabuild.ir.ops import Effect

if TYPE_CHECKING:
    from cudabuild.backend.emit import RangeFacts
    from cudabuild.ir.ir import Block

__all__ = ["LIMIT", "Polls", "Strip", "calls_itself", "find_polls"]

#: What of a thread's instructions may pass between two looks. A block of 1,024 threads then takes about 0.1 s: the
#: flag is read at block starts too.
LIMIT = 1 << 17

_PRINT = 1000  #: instructions that a print is worth

#: A strip of fewer turns is not worth its entry.
_SHORTEST_STRIP = 64

#: What a thread that waits for another has in its loop, besides loads that see what other blocks stored …
_SIGNS = frozenset(("atomic", "atomic_cas", "fence", "nanosleep"))
_FRESH = frozenset(("cv", "cg"))  #: the cache operators of those loads
#: … and where what it waits for comes from.
_SOURCES = frozenset(("atomic", "atomic_cas", "load"))

_BARRIERS = frozenset(("barrier", "barrier_reduce"))
#: What no vector loop does.
_SCALAR = frozenset((*_SIGNS, "print", "call", "clock"))


@dataclass(frozen=True)
class Strip:
    """A loop that looks up after ``turns`` turns."""

    loop: Loop
    counted: Counted
    turns: int


@dataclass
class Polls:
    """Where a function looks up: false if nowhere.

    Attributes:
        latches: blocks that go back to a header -> ``"stop"`` or ``"turn"``.
        strips: by header.
    """

    latches: dict[Block, str] = field(default_factory=dict)
    strips: dict[Block, Strip] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.latches or self.strips)


def find_polls(function: Function, ranges: RangeFacts, limit: int = LIMIT) -> Polls:
    """Where a thread that executes ``function`` looks up from its work, at least once in ``limit`` instructions."""
    order = reverse_postorder(function)
    dominators = Dominators(order)
    polls = Polls()
    weights: dict[Loop, int] = {}  # what a loop executes between two looks
    for loop in sorted(find_loops(order, dominators).values(), key=lambda one: len(one.blocks)):
        turn = _weigh_turn(loop, weights)
        turns = count_turns(loop, dominators, ranges)
        if turns is not None and turn * (turns + 1) <= limit:
            weights[loop] = turn * (turns + 1)
            continue
        weights[loop] = turn
        if _waits(loop):
            polls.latches.update(dict.fromkeys(loop.latches, "turn"))
        elif not _has_barrier(loop, dominators):
            counted = find_counted(loop, ranges)
            length = 1 << (4 * limit // turn).bit_length() >> 1  # a power of two, so that vectors fill it
            if counted is not None and length >= _SHORTEST_STRIP and _may_vectorise(loop, polls):
                polls.strips[loop.header] = Strip(loop, counted, length)
                weights[loop] = turn * length
            else:
                for latch in loop.latches:
                    polls.latches.setdefault(latch, "stop")
    return polls


def calls_itself(function: Function) -> bool:
    """True if a function can be reached from itself."""
    calls = [i for one in (function, *function.callees) for i in one.instructions() if i.op == "call"]
    return any(call.attrs["callee"] is function for call in calls)


def _weigh_turn(loop: Loop, weights: dict[Loop, int]) -> int:
    """The instructions that one turn executes at most before it, or a loop inside it, looks."""
    inside = [one for one in weights if one.header in loop.blocks]
    nearest = [one for one in inside if not any(one.header in other.blocks for other in inside if other is not one)]
    own = loop.blocks.difference(*(one.blocks for one in nearest))
    return sum(_weigh(instr) for block in own for instr in block.instructions) + sum(weights[one] for one in nearest)


def _weigh(instr: Instr) -> int:
    if instr.op != "call":
        return _PRINT if instr.op == "print" else 1
    callee: Function = instr.attrs["callee"]
    return sum(len(one.instructions()) for one in (callee, *callee.callees))


def _has_barrier(loop: Loop, dominators: Dominators) -> bool:
    """True if every turn comes to a barrier of the block."""
    return any(
        any(instr.op in _BARRIERS for instr in block.instructions)
        and all(dominators.dominates(block, latch) for latch in loop.latches)
        for block in loop.blocks
    )


def _may_vectorise(loop: Loop, polls: Polls) -> bool:
    if any(block in polls.latches or block in polls.strips for block in loop.blocks):
        return False
    inside = [instr for block in loop.blocks for instr in block.instructions]
    return not any(instr.op in _SCALAR or instr.effect == Effect.SYNC for instr in inside)


def _waits(loop: Loop) -> bool:
    inside = [instr for block in loop.blocks for instr in block.instructions]
    if not any(_is_sign(instr) for instr in inside):
        return False
    seen: set[Value] = set()
    pending: list[Value] = [branch.operands[0] for branch in find_exits(loop)]
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
    return not find_exits(loop)


def _is_sign(instr: Instr) -> bool:
    if instr.op != "call":
        return instr.op in _SIGNS or (instr.op == "load" and instr.attrs.get("hint") in _FRESH)
    callee: Function = instr.attrs["callee"]
    return any(
        _is_sign(one) for function in (callee, *callee.callees) for one in function.instructions() if one.op != "call"
    )
