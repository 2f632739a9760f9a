# SPDX-License-Identifier: Apache-2.0
"""What float32 would get wrong for 16-bit floats: neighbours, signs, and a multiply-add that rounds once."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter

__all__ = ["copy_sign", "fma_by_double", "half_copy_sign", "half_next_after", "next_after"]

#: A quiet NaN in the upper bits of both formats.
_NAN = 0x7FC0


def copy_sign(e: FunctionEmitter, words: Sequence[Operand]) -> Operand:
    """C's ``copysign`` of two 16-bit floats, given as their bits: a conversion would lose the sign of a NaN."""
    magnitude = e.text.emit("i16", f"and {words[0].typed}, 32767")
    sign = e.text.emit("i16", f"and {words[1].typed}, -32768")
    return e.text.emit("i16", f"or {magnitude.typed}, {sign.text}")


def half_copy_sign(e: FunctionEmitter, operands: Sequence[Operand]) -> Operand:
    """C's ``copysign`` of two halfs."""
    words = [e.text.emit("i16", f"bitcast {operand.typed} to i16") for operand in operands]
    return e.text.emit("half", f"bitcast {copy_sign(e, words).typed} to half")


def half_next_after(e: FunctionEmitter, operands: Sequence[Operand]) -> Operand:
    """C's ``nextafter`` of two halfs."""
    wide = [e.text.emit("float", f"fpext {operand.typed} to float") for operand in operands]
    words = [e.text.emit("i16", f"bitcast {operand.typed} to i16") for operand in operands]
    found = next_after(e, words, wide)
    return e.text.emit("half", f"bitcast {found.typed} to half")


def next_after(e: FunctionEmitter, words: Sequence[Operand], wide: Sequence[Operand]) -> Operand:
    """C's ``nextafter`` of two 16-bit floats, given as their bits, which count up with the magnitude, and as floats."""
    text = e.text
    (x, y), (bits, goal) = wide, words
    rises = text.emit("i1", f"fcmp olt {x.typed}, {y.text}")
    positive = text.emit("i1", f"icmp sge {bits.typed}, 0")
    away = text.emit("i1", f"icmp eq {rises.typed}, {positive.text}")  # from zero
    step = text.emit("i16", f"select {away.typed}, i16 1, i16 -1")
    found = text.emit("i16", f"add {bits.typed}, {step.text}")
    sign = text.emit("i16", f"and {goal.typed}, -32768")
    least = text.emit("i16", f"or {sign.typed}, 1")
    zero = text.emit("i1", f"fcmp oeq {x.typed}, 0.0")
    found = text.emit("i16", f"select {zero.typed}, {least.typed}, {found.typed}")
    equal = text.emit("i1", f"fcmp oeq {x.typed}, {y.text}")
    found = text.emit("i16", f"select {equal.typed}, {goal.typed}, {found.typed}")
    unordered = text.emit("i1", f"fcmp uno {x.typed}, {y.text}")
    found = text.emit("i16", f"select {unordered.typed}, i16 {_NAN}, {found.typed}")
    return found


def fma_by_double(e: FunctionEmitter, operands: Sequence[Operand]) -> Operand:
    """The multiply-add of three halfs: a double holds every such sum that is near a tie between two halfs.

    A float does not: with 24 bits it can round a sum onto a tie, which is then rounded once more.
    """
    wide = [e.text.emit("double", f"fpext {operand.typed} to double") for operand in operands]
    total = e.dialect.math(e, "fma", wide)
    return e.text.emit("half", f"fptrunc {total.typed} to half")
