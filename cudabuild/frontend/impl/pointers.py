# SPDX-License-Identifier: Apache-2.0
"""Pointers: an element at an index, and arrays of given extents. Nothing knows what memory is behind one."""

from __future__ import annotations

from typing import TypeGuard

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.casts import find_scalar_type
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, Static, describe
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Integer, Scalar, uint64, weak_int
from cudabuild.types.pointer import Pointer

__all__ = ["element_at", "is_pointer"]


def is_pointer(operand: Operand) -> TypeGuard[Value]:
    """Whether the operand is a pointer."""
    return isinstance(operand, Value) and isinstance(operand.type, Pointer)


def element_at(context: Context, pointer: Value, index: Operand) -> tuple[Value, list[Value]]:
    """``pointer[index]`` as the one element of an array, and its index; a negative one is before the pointer."""
    kind = pointer.type
    assert isinstance(kind, Pointer)
    if not (isinstance(index, Value) and isinstance(index.type, Integer)):
        raise Refusal(
            "an index is not an integer",
            found=describe(index),
            expected=f"one integer for a {kind.name}",
            do="make an array of it to index it in several dimensions: cuda.carray(pointer, shape)",
            operand=1,
        )
    offset = context.emit("mul", uint64, context.cast(index, uint64), context.const(kind.dtype.size, uint64))
    address = context.emit("add", uint64, context.cast(pointer, uint64), offset)
    array = context.emit("array_at", Array(kind.dtype, 1, "C"), address, context.weak(1))
    return array, [context.weak(0)]


def _array(context: Context, name: str, layout: str, pointer: Operand, shape: Operand, dtype: Operand | None) -> Value:
    address = context.integer(pointer, f"the first argument of cuda.{name}", 1)
    element: Scalar | None = address.type.dtype if isinstance(address.type, Pointer) else None
    if dtype is not None and not isinstance(dtype, NoneOperand):
        element = find_scalar_type(dtype.value) if isinstance(dtype, Static) else None
    if element is None:
        raise Refusal(
            f"cuda.{name} needs the type of the elements",
            found=describe(pointer) if dtype is None else describe(dtype),
            expected="a pointer, or an element type as the third argument",
            do=f"write cuda.{name}(address, shape, np.float32)",
            operand=1 if dtype is None else 3,
        )
    given = context.elements(shape)
    extents = [
        context.cast(context.integer(extent, f"the shape of cuda.{name}", 2), weak_int)
        for extent in ((shape,) if given is None else given)
    ]
    kind = Array(element, len(extents), layout)
    return context.emit("array_at", kind, context.cast(address, uint64), *extents)


@kernel_name("from_buffer")
def from_buffer(context: Context, array: Operand) -> Operand:
    """The address of the first element, as a pointer to elements of the array's type."""
    if not (isinstance(array, Value) and isinstance(array.type, Array)):
        raise Refusal(
            "from_buffer of something that is not an array",
            found=describe(array),
            expected="an array",
            do="pass the array itself",
            operand=1,
        )
    return context.emit("cast", Pointer(array.type.dtype), context.emit("address", weak_int, array))


@kernel_name("carray")
def carray(context: Context, pointer: Operand, shape: Operand, dtype: Operand | None = None) -> Operand:
    return _array(context, "carray", "C", pointer, shape, dtype)


@kernel_name("farray")
def farray(context: Context, pointer: Operand, shape: Operand, dtype: Operand | None = None) -> Operand:
    return _array(context, "farray", "F", pointer, shape, dtype)
