# SPDX-License-Identifier: Apache-2.0
"""bfloat16 on the host: rounding written out in integers, for processors and C libraries that know nothing of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter

__all__ = ["brain_fma", "round_brain", "widen_brain"]


def round_brain(emitter: FunctionEmitter, value: Operand) -> Operand:
    """The bits of the bfloat16 nearest to a float or double, ties to even; a NaN stays one."""
    text = emitter.text
    if value.type == "double":
        value = _narrow_to_odd(emitter, value)
    bits = text.emit("i32", f"bitcast {value.typed} to i32")
    upper = text.emit("i32", f"lshr {bits.typed}, 16")
    odd = text.emit("i32", f"and {upper.typed}, 1")
    half = text.emit("i32", f"add {odd.typed}, 32767")
    rounded = text.emit("i32", f"lshr {text.emit('i32', f'add {bits.typed}, {half.text}').typed}, 16")
    quiet = text.emit("i32", f"or {upper.typed}, 64")
    nan = text.emit("i1", f"fcmp uno {value.typed}, {value.text}")
    chosen = text.emit("i32", f"select {nan.typed}, {quiet.typed}, {rounded.typed}")
    return text.emit("i16", f"trunc {chosen.typed} to i16")


def widen_brain(emitter: FunctionEmitter, word: Operand) -> Operand:
    """The float whose upper half a bfloat16 is."""
    bits = emitter.text.emit("i32", f"zext {word.typed} to i32")
    return emitter.text.emit("float", f"bitcast {emitter.text.emit('i32', f'shl {bits.typed}, 16').typed} to float")


def brain_fma(emitter: FunctionEmitter, words: Sequence[Operand]) -> Operand:
    """``a * b + c`` rounded once: the product is exact in double, the sum is rounded to odd."""
    text = emitter.text
    wide = [widen_brain(emitter, word) for word in words]
    a, b, c = (text.emit("double", f"fpext {value.typed} to double") for value in wide)

    def compute(op: str, x: Operand, y: Operand) -> Operand:
        return text.emit("double", f"{op} {x.typed}, {y.text}")

    product = compute("fmul", a, b)
    total = compute("fadd", product, c)
    # The error of the sum, exactly (Knuth's TwoSum); a NaN where something is infinite.
    virtual = compute("fsub", total, product)
    error = compute("fadd", compute("fsub", product, compute("fsub", total, virtual)), compute("fsub", c, virtual))
    below = text.emit("i1", f"fcmp olt {error.typed}, 0.0")
    above = text.emit("i1", f"fcmp ogt {error.typed}, 0.0")
    negative = text.emit("i1", f"fcmp olt {total.typed}, 0.0")
    shrinks = text.emit("i1", f"select {negative.typed}, {above.typed}, {below.typed}")
    inexact = text.emit("i1", f"or {below.typed}, {above.text}")
    return round_brain(emitter, _to_odd(emitter, total, "i64", inexact, shrinks))


def _narrow_to_odd(emitter: FunctionEmitter, value: Operand) -> Operand:
    """A double as the float towards zero from it, the last bit set where it is inexact: it rounds on as the double."""
    text = emitter.text
    near = text.emit("float", f"fptrunc {value.typed} to float")
    back = text.emit("double", f"fpext {near.typed} to double")
    inexact = text.emit("i1", f"fcmp one {back.typed}, {value.text}")
    size, wanted = text.call("double", "llvm.fabs.f64", back), text.call("double", "llvm.fabs.f64", value)
    too_large = text.emit("i1", f"fcmp ogt {size.typed}, {wanted.text}")
    return _to_odd(emitter, near, "i32", inexact, too_large)


def _to_odd(emitter: FunctionEmitter, value: Operand, word: str, inexact: Operand, too_large: Operand) -> Operand:
    text = emitter.text
    bits = text.emit(word, f"bitcast {value.typed} to {word}")
    step = text.emit(word, f"zext {too_large.typed} to {word}")
    last = text.emit(word, f"zext {inexact.typed} to {word}")
    cut = text.emit(word, f"sub {bits.typed}, {step.text}")
    odd = text.emit(word, f"or {cut.typed}, {last.text}")
    return text.emit(value.type, f"bitcast {odd.typed} to {value.type}")
