# SPDX-License-Identifier: Apache-2.0
"""Shared and local arrays, and atomic updates."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.arrays import element_index
from cudabuild.frontend.impl.casts import scalar_type_of
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Float, Integer

__all__: list[str] = []


def _constant_shape(context: Context, shape: Operand, what: str) -> tuple[int, ...]:
    elements = context.elements(shape)
    parts = (shape,) if elements is None else elements
    sizes = []
    for part in parts:
        if not (is_const(part) and isinstance(const_of(part), int)) or const_of(part) < 0:
            raise Refusal(
                f"the shape of a {what} array is not a constant",
                found=describe(part),
                expected="an integer constant, or a tuple of them, each at least 0",
                do="use a number, or a global that holds one; for a size chosen at launch use shape 0 of a shared array"
                if what == "shared"
                else "use a number, or a global that holds one",
                operand=1,
            )
        sizes.append(int(const_of(part)))
    return tuple(sizes)


@kernel_name("shared.array")
def shared_array(context: Context, shape: Operand, dtype: Operand) -> Operand:
    sizes = _constant_shape(context, shape, "shared")
    kind = scalar_type_of(dtype)
    if sizes == (0,):
        return context.emit("dynamic_shared", Array(kind, 1, "C", space="shared"))
    array = Array(kind, len(sizes), "C", space="shared")
    return context.emit("shared", array, shape=sizes, key=context.allocation_key)


@kernel_name("local.array")
def local_array(context: Context, shape: Operand, dtype: Operand) -> Operand:
    sizes = _constant_shape(context, shape, "local")
    array = Array(scalar_type_of(dtype), len(sizes), "C", space="local")
    return context.emit("local", array, shape=sizes, key=context.allocation_key)


def _atomic(context: Context, function: str, array: Operand, index: Operand, value: Operand) -> Operand:
    if not (isinstance(array, Value) and isinstance(array.type, Array)):
        raise Refusal(
            f"cuda.atomic.{function} of something that is not an array",
            found=describe(array),
            expected="an array in global or shared memory",
            do="pass the array itself, and the index as the second argument",
            operand=1,
        )
    kind = array.type
    dtype = kind.dtype
    if kind.readonly:
        raise Refusal(
            "atomic update of a read-only array",
            found=kind.name,
            expected="a writable array",
            do="drop 'const' from its type in the signature",
            operand=1,
        )
    if not isinstance(dtype, (Integer, Float)) or dtype.bits < 32:
        raise Refusal(
            f"cuda.atomic.{function} on {dtype.name}",
            found=kind.name,
            expected="elements of int32, uint32, int64, uint64, float32 or float64",
            do="use an array of a wider type, such as int32",
            operand=1,
        )
    try:
        indices = element_index(context, array, index, f"cuda.atomic.{function}")
    except Refusal as refusal:
        refusal.operand = 2
        raise
    new = context.cast(context.scalar(value, "the value", 3), dtype)
    return context.emit("atomic", dtype, array, *indices, new, function=function)


def _register(function: str) -> None:
    @kernel_name(f"atomic.{function}")
    def rule(context: Context, array: Operand, index: Operand, value: Operand) -> Operand:
        return _atomic(context, function, array, index, value)


for _function in ("add", "min", "max"):
    _register(_function)
