# SPDX-License-Identifier: Apache-2.0
"""Python's own functions."""

from __future__ import annotations

import builtins
import math

from cudabuild.frontend import library
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import complex_numbers, operators, texts, times
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import (
    IteratorOperand,
    Operand,
    Static,
    const_of,
    describe,
    is_const,
)
from cudabuild.frontend.python_integers import is_out_of_bounds
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Boolean, Float, Integer, Scalar, bool_, float64, int64, uint64, weak_int

__all__: list[str] = []


@python_function(builtins.abs)
def abs_(context: Context, x: Operand) -> Operand:
    if isinstance(x, Value) and times.is_time(x.type):
        return times.absolute(context, x)
    value = context.scalar(x, "the argument of abs", 1)
    assert isinstance(value.type, Scalar)
    if isinstance(value.type, Boolean):
        return context.cast(value, context.table.magnitude(value.type))
    if is_const(value) and isinstance(value.type, (Integer, Float)):
        constant = const_of(value)
        if constant > 0 or (constant == 0 and math.copysign(1, constant) > 0):  # the one zero too many is -0.0
            return value
    return context.emit("abs", value.type, value)


@python_function(builtins.min)
def min_(context: Context, *values: Operand) -> Operand:
    return _extreme(context, "min", values)


@python_function(builtins.max)
def max_(context: Context, *values: Operand) -> Operand:
    return _extreme(context, "max", values)


def _extreme(context: Context, op: str, values: tuple[Operand, ...]) -> Operand:
    """Python's min and max: the first of equals, and with a NaN whatever the comparisons say; or C's fmin and fmax."""
    if len(values) == 1:
        elements = context.elements(values[0])
        if elements is None:
            raise Refusal(
                f"{op} of one argument that is not a tuple",
                found=describe(values[0]),
                expected=f"{op}(a, b, …) or {op} of a tuple",
                do="write a loop over the elements",
                operand=1,
            )
        values = elements
    if not values:
        raise Refusal(f"{op} of nothing", found=f"{op}()", expected=f"{op}(a, b, …)", do="give at least one number")
    if any(isinstance(value, Value) and times.is_time(value.type) for value in values):
        return times.extreme(context, op, values)
    result = context.scalar(values[0], f"an argument of {op}", 1)
    for position, other in enumerate(values[1:], 2):
        value = context.scalar(other, f"an argument of {op}", position)
        if isinstance(result.type, Boolean) and isinstance(value.type, Boolean):
            result = context.emit("and" if op == "min" else "or", bool_, result, value)
            continue
        assert isinstance(result.type, Scalar)
        assert isinstance(value.type, Scalar)
        kind = context.table.extreme(result.type, value.type)
        beyond = _beyond(context, op, kind, result, value)
        if beyond is not None:
            result = beyond
            continue
        a, b = context.cast(result, kind), context.cast(value, kind)
        if complex_numbers.is_complex(a):
            complex_numbers.compare(context, "<" if op == "min" else ">", b, a)  # which refuses it
        result = _better(context, op, kind, a, b)
    return result


def _beyond(context: Context, op: str, kind: Scalar, a: Value, b: Value) -> Value | None:
    """The smaller or larger of a number and a known Python integer that its type cannot hold, else None."""
    for bound, other in ((a, b), (b, a)):
        if context.table.holds_constants and is_out_of_bounds(bound, kind):
            return other if (const_of(bound) > 0) == (op == "min") else bound
    return None


def _better(context: Context, op: str, kind: Scalar, a: Value, b: Value) -> Value:
    """The smaller or larger of two numbers of one type."""
    if isinstance(kind, Integer) and not (is_const(a) and is_const(b)):
        return context.emit(op, kind, a, b)
    function = context.table.float_extreme(op, kind) if isinstance(kind, Float) else None
    if is_const(a) and is_const(b):
        numbers = [const_of(a), const_of(b)]
        if function is not None:  # the other one of a NaN
            numbers = [number for number in numbers if number == number] or numbers
            numbers.sort(key=lambda number: (number, math.copysign(1, number)))  # -0.0 is less than 0.0 there
            return context.const(numbers[0 if op == "min" else -1], kind)
        return context.const((builtins.min if op == "min" else builtins.max)(numbers), kind)
    if function is not None:
        return context.emit("math", kind, a, b, function=function)
    better = context.emit("cmp", bool_, b, a, predicate="lt" if op == "min" else "gt")
    return context.emit("select", kind, better, b, a)


@python_function(builtins.round)
def round_(context: Context, x: Operand, ndigits: Operand | None = None) -> Operand:
    value = context.scalar(x, "the argument of round", 1)
    assert isinstance(value.type, Scalar)
    if ndigits is not None:
        return _round_digits(context, value, ndigits)
    if not isinstance(value.type, Float):
        return context.cast(value, weak_int)
    return context.cast(context.emit("math", value.type, value, function="rint"), weak_int)


def _round_digits(context: Context, value: Value, ndigits: Operand) -> Operand:
    assert isinstance(value.type, Scalar)
    kind = context.table.rounded_digits(value.type)
    digits = context.cast(context.integer(ndigits, "the number of digits", 2), weak_int)
    if kind is None:
        kept = context.table.signed(value.type)
        wide = context.cast(value, uint64 if isinstance(kept, Integer) and not kept.signed else int64)
        return context.convert(context.calls.call(context, library.round_integer, [wide, digits], {}), kept)
    exact = context.cast(context.cast(value, kind), float64)  # a decimal fraction of a float32 is none in float32
    return context.convert(context.calls.call(context, library.round_digits, [exact, digits], {}), kind)


@python_function(builtins.pow)
def pow_(context: Context, base: Operand, exponent: Operand) -> Operand:
    return operators.binary(context, "**", base, exponent)


@python_function(builtins.divmod)
def divmod_(context: Context, x: Operand, y: Operand) -> Operand:
    return operators.divide_with_rest(context, x, y)


@python_function(builtins.len)
def len_(context: Context, x: Operand) -> Operand:
    elements = context.elements(x)
    if elements is not None:
        return context.weak(len(elements))
    if isinstance(x, Value) and isinstance(x.type, Array) and x.type.ndim > 0:
        return context.emit("dim", weak_int, x, axis=0)
    if isinstance(x, Static) and isinstance(x.value, (str, bytes)):
        return context.weak(len(x.value))
    if isinstance(x, Value) and texts.is_text(x):
        return texts.text_length(context, x)
    raise Refusal(
        "len of something without a length",
        found=describe(x),
        expected="an array or a tuple",
        do="pass an array",
        operand=1,
    )


@python_function(builtins.int)
def int_(context: Context, x: Operand) -> Operand:
    if isinstance(x, Value) and times.is_time(x.type):
        return times.cast(context, x, int64)
    value = context.scalar(x, "the argument of int", 1)
    assert isinstance(value.type, Scalar)
    return context.cast(value, context.table.int_of(value.type))


@python_function(builtins.float)
def float_(context: Context, x: Operand) -> Operand:
    if isinstance(x, Static) and isinstance(x.value, str):  # float("nan")
        try:
            return context.weak(float(x.value))
        except ValueError:
            raise Refusal(
                "float of a text that is no number",
                found=describe(x),
                expected='float("nan")',
                do="write a number",
                operand=1,
            ) from None
    value = context.scalar(x, "the argument of float", 1)
    assert isinstance(value.type, Scalar)
    return context.cast(value, context.table.python_float_of(value.type))


@python_function(builtins.bool, whole=True)
def bool_cast(context: Context, x: Operand) -> Operand:
    return context.truth(x)


@python_function(builtins.range)
def range_(context: Context, *bounds: Operand) -> Operand:
    if not 1 <= len(bounds) <= 3:
        raise Refusal(
            "wrong arguments for range",
            found=f"{len(bounds)} arguments",
            expected="range(stop), range(start, stop) or range(start, stop, step)",
            do="give one to three integers",
        )
    values = []
    kinds = []
    for position, bound in enumerate(bounds, 1):
        value = context.scalar(bound, "an argument of range", position)
        if isinstance(value.type, Float) and not context.table.truncates_bounds:
            raise Refusal(
                "an argument of range is a float",
                found=describe(bound),
                expected="an integer",
                do="convert it: range(int(x))",
                operand=position,
            )
        assert isinstance(value.type, Scalar)
        kinds.append(value.type)
        values.append(context.cast(value, weak_int))
    start = values[0] if len(values) > 1 else context.weak(0)
    stop = values[1] if len(values) > 1 else values[0]
    step = values[2] if len(values) > 2 else context.weak(1)
    return IteratorOperand("range", (start, stop, step), context.table.range_item(*kinds))
