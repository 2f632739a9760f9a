# SPDX-License-Identifier: Apache-2.0
"""Long loops in strips: the stop flag is read between them, and LLVM still finds a plain counted loop to vectorise.

Before::                                         After::

    head:                                            head:
      %i = phi [ 0, entry ], [ %next, latch ]          %o = phi [ 0, entry ], [ %i, renew ]
      %c = icmp slt %i, %n                             %end = smin(%n, %o + turns)
      br %c, body, exit                                br inner
                                                     inner:
                                                       %i = phi [ %o, head ], [ %next, latch ]
                                                       %c = icmp slt %i, %n
                                                       %near = icmp slt %i, %end
                                                       br %near, body, leave
                                                     leave:
                                                       br %c, renew, exit
                                                     renew:
                                                       read the flag; br head

The comparison with the end of the strip implies the loop's own, which LLVM moves out of the loop.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand, int_literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.cpu.loops import Strip

__all__ = ["begin_strip", "leave_strip"]

_ORDERS = {"lt": ("slt", "smin"), "le": ("sle", "smin"), "gt": ("sgt", "smax"), "ge": ("sge", "smax")}


def begin_strip(emitter: FunctionEmitter, strip: Strip) -> Operand:
    """Divides the header that is being written; the end of the strip."""
    counted = strip.counted
    text = emitter.text
    emitter.edges.divide_header(strip.loop.latches)
    bound = emitter.edges.hoist(counted.bound)
    span = _make_span(emitter, emitter.edges.hoist(counted.change.operands[1]), strip.turns)
    counter = emitter.scalar(counted.phi)
    how = "sadd" if counted.change.op == "add" else "ssub"
    far = text.call("i64", f"llvm.{how}.sat.i64", emitter.convert(counter, 64), span)
    end = text.call("i64", f"llvm.{_ORDERS[counted.predicate][1]}.i64", emitter.convert(bound, 64), far)
    if counter.bits == bound.bits == 32:
        end = text.emit("i32", f"trunc {end.typed} to i32")
    emitter.edges.begin_inner()
    return end


def leave_strip(emitter: FunctionEmitter, strip: Strip, end: Operand, look: Callable[[], None]) -> None:
    """Writes the end of the inner header. ``look`` reads the flag, and ends in a block that goes on."""
    text = emitter.text
    branch = emitter.block.end
    assert branch is not None
    counter = emitter.convert(emitter.scalar(strip.counted.phi), end.bits)
    near = text.emit("i1", f"icmp {_ORDERS[strip.counted.predicate][0]} {counter.typed}, {end.text}")
    then, otherwise = branch.attrs["then"], branch.attrs["else"]
    stays = then in strip.loop.blocks
    inside, outside = (then, otherwise) if stays else (otherwise, then)
    leave, renew, gone = text.name("leave"), text.name("renew"), emitter.label(outside)
    text.branch(near, emitter.label(inside), leave)
    text.start(leave)
    text.branch(emitter.scalar(branch.operands[0]), *((renew, gone) if stays else (gone, renew)))
    text.start(renew)
    look()
    emitter.edges.end_header(outside, leave)


def _make_span(emitter: FunctionEmitter, step: Operand, turns: int) -> Operand:
    """``turns`` times the step, without overflow: where the step is larger, a strip has fewer turns."""
    most = (1 << 62) // turns
    if step.constant is not None:
        value = emitter.convert(step, 64).constant
        assert value is not None
        return int_literal(max(-most, min(most, value)) * turns, 64)
    low, high = int_literal(-most, 64), int_literal(most, 64)
    bounded = emitter.text.call("i64", "llvm.smax.i64", emitter.convert(step, 64), low)
    bounded = emitter.text.call("i64", "llvm.smin.i64", bounded, high)
    return emitter.text.emit("i64", f"mul nsw {bounded.typed}, {turns}")
