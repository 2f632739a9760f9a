# SPDX-License-Identifier: Apache-2.0
"""``print`` in kernels: one line per call and thread; numbers, tuples, texts known at compile time, ``cuda.threadIdx``.

Integers and bools look as in Python, floats as C's ``%f`` (numba-cuda's choice).
"""

from __future__ import annotations

import builtins
from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.impl.threads import special_register
from cudabuild.frontend.operands import NoneOperand, Operand, Static, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.ir.printing import placeholder_of
from cudabuild.lang.name import Dim3
from cudabuild.types import Boolean, Complex, Float, Integer, Scalar, float64, int64, none, uint64

__all__: list[str] = []


@python_function(builtins.print)
def print_(context: Context, *values: Operand, sep: Operand | None = None, end: Operand | None = None) -> Operand:
    operands: list[Value] = []
    parts = [_format(context, value, position, operands) for position, value in enumerate(values, 1)]
    text = _text(sep, "sep", " ").join(parts) + _text(end, "end", "\n")
    context.emit("print", none, *operands, text=text)
    return NoneOperand()


def _text(operand: Operand | None, name: str, default: str) -> str:
    if operand is None or isinstance(operand, NoneOperand):
        return _escape(default)
    if isinstance(operand, Static) and isinstance(operand.value, str):
        return _escape(operand.value)
    raise Refusal(
        f"{name} of print is not a text known at compile time",
        found=describe(operand),
        expected="a string constant",
        do=f'write {name}="…"',
    )


def _escape(text: str) -> str:
    return text.replace("%", "%%").replace("\0", "")  # C's text ends at a NUL


def _format(context: Context, value: Operand, position: int, operands: list[Value], inside: bool = False) -> str:
    """The text of one value, with placeholders; appends what they take to ``operands``."""
    if isinstance(value, Static):
        return _format_static(context, value.value, value, position, operands, inside)
    if isinstance(value, NoneOperand):
        return "None"
    elements = context.elements(value)
    if elements is not None:
        parts = [_format(context, element, position, operands, inside=True) for element in elements]
        return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
    if isinstance(value, Value) and isinstance(value.type, Scalar):
        return _format_scalar(context, value, operands)
    raise Refusal(
        "print of something that is neither a number, a text nor a tuple",
        found=describe(value),
        expected="numbers, strings known at compile time, tuples of these",
        do="print elements: x[i]",
        operand=position,
    )


def _format_static(
    context: Context, value: Any, operand: Operand, position: int, operands: list[Value], inside: bool
) -> str:
    if isinstance(value, str):
        return _escape(repr(value) if inside else value)
    if isinstance(value, Dim3):
        axes = [special_register(context, f"{value.name}.{axis}") for axis in "xyz"]
        return f"({', '.join(_format_scalar(context, axis, operands) for axis in axes)})"
    raise Refusal(
        "print of something that is no value of a kernel",
        found=describe(operand),
        expected="numbers, strings known at compile time, tuples of these",
        do="print what it gives: call it, or index it",
        operand=position,
    )


def _format_scalar(context: Context, value: Value, operands: list[Value]) -> str:
    kind = value.type
    if is_const(value) and isinstance(kind, (Boolean, Integer)):
        return str(const_of(value))
    if isinstance(kind, Complex):
        operands += [context.cast(part, float64) for part in context.parts(value)]
        return "(%f%+fj)"
    if isinstance(kind, Integer):
        wide: Scalar = int64 if kind.signed else uint64
    elif isinstance(kind, Float):
        wide = float64
    else:
        assert isinstance(kind, Boolean)
        wide = kind
    operands.append(context.cast(value, wide))
    return placeholder_of(wide)
