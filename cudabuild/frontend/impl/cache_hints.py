# SPDX-License-Identifier: Apache-2.0
"""Loads and stores with a cache operator: those of ``load`` and ``store``, with a ``hint``."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays
from cudabuild.frontend.impl.assignment import check_writable
from cudabuild.frontend.impl.pointers import element_at, is_pointer
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, describe, type_of
from cudabuild.frontend.python_integers import check_stored
from cudabuild.ir.ir import Value
from cudabuild.lang.cache import LOADS, STORES
from cudabuild.lang.name import KernelName
from cudabuild.types import Array, Boolean, Float, Integer, none

__all__: list[str] = []


def _place(context: Context, name: str, array: Operand, index: Operand) -> tuple[Value, list[Value]]:
    """The array and the wrapped indices of one element in memory that the cache operators serve."""
    if is_pointer(array):
        return element_at(context, array, index)
    kind = array.type if isinstance(array, Value) else None
    number = (
        isinstance(kind, Array) and isinstance(kind.dtype, (Integer, Float)) and not isinstance(kind.dtype, Boolean)
    )
    if not (isinstance(kind, Array) and number and kind.space in ("global", "generic")):
        raise Refusal(
            f"{name} requires array of integer or float type",
            found=describe(array),
            expected="an argument of the kernel or a view of one, of integers or floats",
            do="index it with brackets: x[i]",
            operand=1,
        )
    assert isinstance(array, Value)
    given = context.elements(index)
    for part in (index,) if given is None else given:
        found = type_of(part)
        if not isinstance(found, Integer):
            raise Refusal(
                f"{found or describe(part)} is not a valid index",
                found=f"{name}(…, {describe(index)})",
                expected="an integer for each axis",
                do="convert it: int(x)",
                operand=2,
            )
    if (1 if given is None else len(given)) != kind.ndim:
        raise Refusal(
            f"Expected {kind.ndim} indices, got {'a scalar' if given is None else len(given)}",
            found=f"{name}({kind.name}, {describe(index)})",
            expected="an integer, or a tuple with one for each axis",
            do=f"write cuda.{name}(x, ({', '.join('ijkl'[: kind.ndim])}))",
            operand=2,
        )
    return array, arrays.element_index(context, array, index, f"cuda.{name}")


def _load(name: KernelName, hint: str) -> None:
    @kernel_name(name.name)
    def rule(context: Context, array: Operand, index: Operand) -> Operand:
        base, indices = _place(context, name.name, array, index)
        assert isinstance(base.type, Array)
        return context.emit("load", base.type.dtype, base, *indices, hint=hint)


def _store(name: KernelName, hint: str) -> None:
    @kernel_name(name.name)
    def rule(context: Context, array: Operand, index: Operand, value: Operand) -> Operand:
        base, indices = _place(context, name.name, array, index)
        check_writable(base)
        assert isinstance(base.type, Array)
        number = context.scalar(value, f"what cuda.{name.name} stores", 3)
        check_stored(context, number, base.type.dtype, 3)
        number = context.cast(number, base.type.dtype)
        context.emit("store", none, base, *indices, number, hint=hint)
        return NoneOperand()


for _hint, _name in LOADS.items():
    _load(_name, _hint)
for _hint, _name in STORES.items():
    _store(_name, _hint)
