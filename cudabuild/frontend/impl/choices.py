# SPDX-License-Identifier: Apache-2.0
"""Functions that choose among numbers, replace some of them, or tell them apart."""

from __future__ import annotations

import math

import numpy

from cudabuild.frontend import library, library_numbers
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import complex_numbers, times
from cudabuild.frontend.impl.bits import choose_number
from cudabuild.frontend.impl.math_functions import as_float, two_floats
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import NoneOperand, Operand, const_of, describe
from cudabuild.frontend.python_integers import is_out_of_bounds
from cudabuild.ir.fold import round_float
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Boolean, BrainFloat, Complex, Float, Scalar, bool_

__all__: list[str] = []


@python_function(numpy.where)
def where(context: Context, condition: Operand, x: Operand | None = None, y: Operand | None = None) -> Operand:
    """Of numbers, with NumPy's result type; arrays would make a new array."""
    given = [operand for operand in (condition, x, y) if operand is not None]
    whole = [operand for operand in given if isinstance(operand, Value) and isinstance(operand.type, Array)]
    if x is None or y is None or whole:
        raise Refusal(
            "numpy.where makes a new array" if whole or len(given) == 1 else "numpy.where of two values",
            found=f"numpy.where({', '.join(map(describe, given))})",
            expected="numpy.where(condition, x, y) of numbers: nothing can be allocated in a kernel",
            do="write out[i] = numpy.where(condition[i], x[i], y[i])",
        )
    test = context.truth(condition)
    if isinstance(x, Value) and isinstance(y, Value) and x.type == y.type and times.is_time(x.type):
        return context.emit("select", x.type, test, x, y)
    return choose_number(context, "numpy.where", test, x, y)


@python_function(numpy.clip)
def clip(context: Context, a: Operand, a_min: Operand | None = None, a_max: Operand | None = None) -> Operand:
    """A bound that no number of the type passes is none, as in NumPy."""
    result = a
    for bound, function, sign in ((a_min, library.maximum, -1), (a_max, library.minimum, 1)):
        if bound is None or isinstance(bound, NoneOperand):
            continue
        kind = a.type if isinstance(a, Value) else None
        if is_out_of_bounds(bound, kind) and context.table.holds_constants and const_of(bound) * sign > 0:
            continue
        result = context.calls.call(context, function, [result, bound], {})
    return result


def _limit(kind: Float) -> float:
    """The largest finite number."""
    if isinstance(kind, BrainFloat):
        return float.fromhex("0x1.fep127")
    fraction, exponent = {16: (10, 15), 32: (23, 127)}.get(kind.bits, (52, 1023))
    return round_float((2.0 - 2.0**-fraction) * 2.0**exponent, kind)


@python_function(numpy.nan_to_num)
def nan_to_num(
    context: Context,
    x: Operand,
    copy: Operand | None = None,
    nan: Operand | None = None,
    posinf: Operand | None = None,
    neginf: Operand | None = None,
) -> Operand:
    """0 for a NaN and the largest numbers for infinities, or what is given."""
    value = context.scalar(x, "the argument of numpy.nan_to_num", 1)
    if isinstance(value.type, Complex):
        parts = [nan_to_num(context, part, copy, nan, posinf, neginf) for part in context.parts(value)]
        return context.emit("complex", value.type, *(part for part in parts if isinstance(part, Value)))
    kind = value.type
    if not isinstance(kind, Float):
        return value

    def given(operand: Operand | None, default: float) -> Value:
        if operand is None or isinstance(operand, NoneOperand):
            return context.const(default, kind)
        return context.cast(context.scalar(operand, "a replacement of numpy.nan_to_num"), kind)

    result = context.emit("select", kind, context.emit("isnan", bool_, value), given(nan, 0.0), value)
    infinite = context.emit("isinf", bool_, value)
    above = context.emit("cmp", bool_, value, context.const(0.0, kind), predicate="gt")
    limit = context.emit("select", kind, above, given(posinf, _limit(kind)), given(neginf, -_limit(kind)))
    return context.emit("select", kind, infinite, limit, result)


@python_function(numpy.heaviside)
def heaviside(context: Context, x1: Operand, x2: Operand) -> Operand:
    a, b, _ = two_floats(context, "numpy.heaviside", x1, x2)
    return context.calls.call(context, library_numbers.heaviside, [a, b], {})


@python_function(math.isclose)
def isclose(
    context: Context,
    a: Operand,
    b: Operand,
    *,
    rel_tol: Operand | None = None,
    abs_tol: Operand | None = None,
) -> Operand:
    x, y, kind = two_floats(context, "math.isclose", a, b)
    relative = context.weak(1e-9) if rel_tol is None else as_float(context, rel_tol, "rel_tol of math.isclose")
    absolute = context.weak(0.0) if abs_tol is None else as_float(context, abs_tol, "abs_tol of math.isclose")
    tolerances = [context.cast(part, kind) for part in (relative, absolute)]
    return context.calls.call(context, library_numbers.are_close, [x, y, *tolerances], {})


@python_function(numpy.isclose)
def numpy_isclose(
    context: Context,
    a: Operand,
    b: Operand,
    rtol: Operand | None = None,
    atol: Operand | None = None,
    equal_nan: Operand | None = None,
) -> Operand:
    x, y, kind = two_floats(context, "numpy.isclose", a, b)
    relative = context.weak(1e-5) if rtol is None else as_float(context, rtol, "rtol of numpy.isclose")
    absolute = context.weak(1e-8) if atol is None else as_float(context, atol, "atol of numpy.isclose")
    tolerances = [context.cast(part, kind) for part in (relative, absolute)]
    nan = context.const(False, bool_) if equal_nan is None else context.truth(equal_nan)
    return context.calls.call(context, library_numbers.are_near, [x, y, *tolerances, nan], {})


def _infinity(name: str, predicate: str) -> None:
    function = getattr(numpy, name)

    @python_function(function, name=f"numpy.{name}")
    def rule(context: Context, x: Operand) -> Operand:
        value = as_float(context, x, f"the argument of numpy.{name}")
        beyond = context.emit("cmp", bool_, value, context.const(0.0, value.type), predicate=predicate)
        return context.emit("and", bool_, context.emit("isinf", bool_, value), beyond)


_infinity("isposinf", "gt")
_infinity("isneginf", "lt")


@python_function(numpy.reciprocal)
def reciprocal(context: Context, x: Operand) -> Operand:
    """Of an integer an integer, as in NumPy."""
    value = context.scalar(x, "the argument of numpy.reciprocal", 1)
    kind = value.type
    if isinstance(kind, Complex):
        return complex_numbers.binary(context, "/", context.const(complex(1.0), kind), value)
    if isinstance(kind, Float):
        return context.emit("div", kind, context.const(1.0, kind), value)
    assert isinstance(kind, Scalar)
    number = context.cast(value, context.table.signed(kind)) if isinstance(kind, Boolean) else value
    return context.calls.call(context, library_numbers.reciprocal, [number], {})
