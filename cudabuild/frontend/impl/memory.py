# SPDX-License-Identifier: Apache-2.0
"""Shared and local arrays, atomic updates, and the order of accesses."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import NO_ALIGNMENT, Refusal
from cudabuild.frontend.impl.arrays import element_index
from cudabuild.frontend.impl.casts import scalar_type_of
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, const_of, describe, is_const
from cudabuild.frontend.python_integers import check_stored
from cudabuild.ir.ir import Value, element_type
from cudabuild.ir.ops import ATOMICS
from cudabuild.types import Array, Complex, Float, Integer, Type, float16, none

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


#: Every array made in a kernel begins at a multiple of this, so that the assembler may use the widest accesses.
_ALIGNMENT = 16
_LARGEST_ALIGNMENT = 1024


def _alignment(alignment: Operand | None) -> dict[str, int]:
    """The attribute of an array that asks for more alignment than all have."""
    if alignment is None or isinstance(alignment, NoneOperand):
        return {}
    value = const_of(alignment) if is_const(alignment) else None
    if not isinstance(value, int) or isinstance(value, bool):
        raise Refusal(
            "RequireLiteralValue: alignment must be a constant integer",
            found=describe(alignment),
            expected="a power of two",
            do="write the number, or a global that holds it",
            operand=3,
        )
    if value <= 0 or value & (value - 1) or value > _LARGEST_ALIGNMENT:
        raise Refusal(
            NO_ALIGNMENT,
            found=str(value),
            expected=f"1, 2, 4 … {_LARGEST_ALIGNMENT}",
            do="use the next power of two",
            operand=3,
        )
    return {"align": value} if value > _ALIGNMENT else {}


@kernel_name("shared.array")
def shared_array(context: Context, shape: Operand, dtype: Operand, alignment: Operand | None = None) -> Operand:
    sizes = _constant_shape(context, shape, "shared")
    kind = scalar_type_of(dtype)
    more = _alignment(alignment)
    if sizes == (0,):
        return context.emit("dynamic_shared", Array(kind, 1, "C", space="shared"), **more)
    array = Array(kind, len(sizes), "C", space="shared")
    return context.emit("shared", array, shape=sizes, key=context.allocation_key, **more)


@kernel_name("local.array")
def local_array(context: Context, shape: Operand, dtype: Operand, alignment: Operand | None = None) -> Operand:
    sizes = _constant_shape(context, shape, "local")
    array = Array(scalar_type_of(dtype), len(sizes), "C", space="local")
    return context.emit("local", array, shape=sizes, key=context.allocation_key, **_alignment(alignment))


def _fence(name: str, scope: str) -> None:
    @kernel_name(name)
    def rule(context: Context) -> Operand:
        context.emit("fence", none, scope=scope)
        return NoneOperand()


for _name, _scope in (("threadfence", "device"), ("threadfence_block", "block"), ("threadfence_system", "system")):
    _fence(_name, _scope)

#: Names under ``cuda.atomic`` -> functions of the IR's ``atomic``, where they differ.
_ATOMIC_NAMES = {"and": "and_", "or": "or_"}
_ELEMENTS = {
    "number": "elements of int32, uint32, int64, uint64, float16, float32 or float64",
    "integer": "elements of int32, uint32, int64 or uint64",
    "unsigned": "elements of uint32 or uint64",
}


def _atomic_array(name: str, array: Operand, elements: str) -> Value:
    """The array of an atomic operation, if it can be updated; ``elements`` is a key of ``_ELEMENTS``."""
    if not (isinstance(array, Value) and isinstance(array.type, Array)):
        raise Refusal(
            f"cuda.atomic.{name} of something that is not an array",
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
    if kind.packed:
        raise Refusal(
            "atomic update of elements that lie askew",
            found=kind.name,
            expected=f"addresses that are multiples of {dtype.size}",
            do="make the record's type with numpy.dtype(…, align=True)",
            operand=1,
        )
    fits = isinstance(dtype, Integer) or (elements == "number" and isinstance(dtype, Float))
    small = dtype.size < 4 and dtype != float16
    if not fits or small or (elements == "unsigned" and isinstance(dtype, Integer) and dtype.signed):
        raise Refusal(
            f"cuda.atomic.{name} on {dtype.name}",
            found=kind.name,
            expected=_ELEMENTS[elements],
            do="update the parts, such as cuda.atomic.add(array.real, …)"
            if isinstance(dtype, Complex)
            else "use an array of a wider type, such as int32"
            if elements == "number"
            else "use an array of such a type",
            operand=1,
        )
    return array


def _atomic_index(context: Context, name: str, array: Value, index: Operand) -> list[Value]:
    try:
        return element_index(context, array, index, f"cuda.atomic.{name}")
    except Refusal as refusal:
        refusal.operand = 2
        raise


def _converted(context: Context, value: Value, dtype: Type, position: int) -> Value:
    """``value`` as an element, as if it were stored."""
    check_stored(context, value, dtype, position)
    return context.cast(value, dtype)


def _register(function: str, elements: str) -> None:
    name = _ATOMIC_NAMES.get(function, function)

    @kernel_name(f"atomic.{name}")
    def rule(context: Context, array: Operand, index: Operand, value: Operand) -> Operand:
        target = _atomic_array(name, array, elements)
        indices = _atomic_index(context, name, target, index)
        dtype = element_type(target.type)
        new = _converted(context, context.scalar(value, "the value", 3), dtype, 3)
        return context.emit("atomic", dtype, target, *indices, new, function=function)


for _function, _elements in ATOMICS.items():
    _register(_function, _elements)


@kernel_name("atomic.cas")
def cas(context: Context, array: Operand, index: Operand, old: Operand, value: Operand) -> Operand:
    target = _atomic_array("cas", array, "number")
    indices = _atomic_index(context, "cas", target, index)
    dtype = element_type(target.type)
    wanted = _converted(context, context.scalar(old, "the value to compare with", 3), dtype, 3)
    new = _converted(context, context.scalar(value, "the value", 4), dtype, 4)
    return context.emit("atomic_cas", dtype, target, *indices, wanted, new)


@kernel_name("atomic.compare_and_swap")
def compare_and_swap(context: Context, array: Operand, old: Operand, value: Operand) -> Operand:
    target = _atomic_array("compare_and_swap", array, "number")
    dtype = element_type(target.type)
    assert isinstance(target.type, Array)
    wanted = _converted(context, context.scalar(old, "the value to compare with", 2), dtype, 2)
    new = _converted(context, context.scalar(value, "the value", 3), dtype, 3)
    first = [context.weak(0)] * target.type.ndim
    return context.emit("atomic_cas", dtype, target, *first, wanted, new)
