# SPDX-License-Identifier: Apache-2.0
"""Arrays of the same memory with other elements or axes, to LLVM text: records' fields, reshaping, transposing."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from cudabuild.backend.memory import Parts, byte_strides, step, within_row
from cudabuild.backend.text import Operand, int_literal
from cudabuild.types import Array, Float, Integer, Scalar

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Instr

__all__ = ["ROWS"]


def _field(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    base, result = Parts(e, instr.operands[0]), instr.type
    assert isinstance(result, Array)
    pointer = step(e, base.pointer, "i8", int_literal(instr.attrs["offset"], 64))
    shape: tuple[int, ...] = instr.attrs.get("shape", ())
    extents = [int_literal(extent, e.index_bits) for extent in shape]
    if result.layout != "A":
        return [pointer, *base.shape, *extents]
    inner = [int_literal(prod(shape[axis + 1 :]) * result.dtype.size, 64) for axis in range(len(shape))]
    return [pointer, *base.shape, *extents, *byte_strides(e, base), *inner]


def _reshape(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    base = Parts(e, instr.operands[0])
    # An extent that does not fit the variant's width stays wide until it is passed on.
    extents = [e.scalar(extent) for extent in instr.operands[1:]]
    for have in base.shape:
        extents = [within_row(e, instr.operands[0], have, extent) for extent in extents]
    return [base.pointer, *extents]


def _transpose(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    base, result = Parts(e, instr.operands[0]), instr.type
    assert isinstance(result, Array)
    order: tuple[int, ...] = instr.attrs["order"]
    shape = [int_literal(1, e.index_bits) if axis < 0 else base.shape[axis] for axis in order]
    if result.layout != "A":
        return [base.pointer, *shape]
    strides = byte_strides(e, base)
    return [base.pointer, *shape, *(int_literal(0, 64) if axis < 0 else strides[axis] for axis in order)]


def _address(e: FunctionEmitter, instr: Instr) -> Operand:
    pointer = e.coerce(Parts(e, instr.operands[0]).pointer, "ptr")
    return e.integer_result(instr, e.text.emit("i64", f"ptrtoint {pointer.typed} to i64"))


def _array_at(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    result = instr.type
    assert isinstance(result, Array)
    address, *numbers = instr.operands
    pointer = e.text.emit("ptr", f"inttoptr {e.integer(address, 64).typed} to ptr")
    # An extent that does not fit the variant's width stays wide until it is passed on.
    shape = [e.scalar(extent) for extent in numbers[: result.ndim]]
    strides = [e.integer(stride, 64) for stride in numbers[result.ndim :]]
    return [e.coerce(pointer, e.dialect.pointer(result.space)), *shape, *strides]


def _retype(e: FunctionEmitter, instr: Instr) -> Operand:
    (value,) = instr.operands
    (target,) = e.leaf_types(instr.type)
    assert isinstance(value.type, Scalar)
    word = e.scalar(value) if isinstance(value.type, Float) else e.integer(value, 8 * value.type.size)
    if word.type != target:
        word = e.text.emit(target, f"bitcast {word.typed} to {target}")
    return e.integer_result(instr, word) if isinstance(instr.type, Integer) else word


ROWS: dict[str, Callable[[FunctionEmitter, Instr], Operand | Sequence[Operand]]] = {
    "field": _field,
    "reshape": _reshape,
    "transpose": _transpose,
    "address": _address,
    "array_at": _array_at,
    "retype": _retype,
}
