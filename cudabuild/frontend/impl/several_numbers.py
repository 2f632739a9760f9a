# SPDX-License-Identifier: Apache-2.0
"""Functions of several numbers, given as arguments, tuples or arrays: products, distances, tables; and NumPy's
roundings and powers that are no operator."""

from __future__ import annotations

import math
from typing import Any

import numpy

from cudabuild.frontend import library_numbers
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays, complex_numbers, operators
from cudabuild.frontend.impl.bits import fma
from cudabuild.frontend.impl.builtins import round_
from cudabuild.frontend.impl.math_functions import as_float, modf, two_floats
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import Operand, TupleOperand, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Array, Boolean, Float, Integer, Scalar, complex128, float64, weak_int

__all__: list[str] = []


def _members(context: Context, operand: Operand, what: str, position: int) -> Operand:
    """A tuple or an array of one axis, to be gone through."""
    if context.elements(operand) is not None:
        return operand
    if isinstance(operand, Value) and isinstance(operand.type, Array) and operand.type.ndim == 1:
        return operand
    raise Refusal(
        f"{what} is neither a tuple nor an array of one axis",
        found=describe(operand),
        expected="a tuple of numbers, or an array of one axis",
        do="pass a row of the array, such as x[i]",
        operand=position,
    )


@python_function(math.prod)
def prod(context: Context, iterable: Operand, *, start: Operand | None = None) -> Operand:
    numbers = _members(context, iterable, "the argument of math.prod", 1)
    first = context.weak(1) if start is None else start
    return context.calls.call(context, library_numbers.product_of, [numbers, first], {})


def _products(name: str, item: Any) -> None:
    @python_function(item, name=name)
    def rule(context: Context, p: Operand, q: Operand) -> Operand:
        both = [_members(context, part, f"an argument of {name}", at) for at, part in enumerate((p, q), 1)]
        return context.calls.call(context, library_numbers.dot_product, both, {})


_products("numpy.dot", numpy.dot)
if hasattr(math, "sumprod"):  # from Python 3.12 on
    _products("math.sumprod", math.sumprod)


@python_function(math.dist)
def dist(context: Context, p: Operand, q: Operand) -> Operand:
    both = [_members(context, part, "a point of math.dist", at) for at, part in enumerate((p, q), 1)]
    return context.calls.call(context, library_numbers.distance, both, {})


@python_function(math.hypot)
def hypot(context: Context, *coordinates: Operand) -> Operand:
    """Of two the function of that name; of more the distance from the origin."""
    if len(coordinates) == 2:
        a, b, kind = two_floats(context, "math.hypot", *coordinates)
        if is_const(a) and is_const(b):
            return context.const(math.hypot(const_of(a), const_of(b)), kind)
        return context.emit("math", kind, a, b, function="hypot")
    floats = [as_float(context, part, "an argument of math.hypot", at) for at, part in enumerate(coordinates, 1)]
    origin = TupleOperand(tuple(context.const(0.0, one.type) for one in floats))
    return context.calls.call(context, library_numbers.distance, [TupleOperand(tuple(floats)), origin], {})


@python_function(numpy.interp)
def interp(
    context: Context,
    x: Operand,
    xp: Operand,
    fp: Operand,
    left: Operand | None = None,
    right: Operand | None = None,
) -> Operand:
    """At one place; of float64, as in NumPy."""
    place = context.cast(context.scalar(x, "the place of numpy.interp", 1), float64)
    points = [_members(context, part, "a table of numpy.interp", at) for at, part in enumerate((xp, fp), 2)]
    ends: list[Operand] = []
    for end, index in ((left, 0), (right, -1)):
        value = arrays.get_item(context, points[1], context.weak(index)) if end is None else end
        ends.append(context.cast(context.scalar(value, "what numpy.interp gives outside"), float64))
    return context.calls.call(context, library_numbers.interpolated, [place, *points, *ends], {})


@python_function(numpy.searchsorted)
def searchsorted(context: Context, a: Operand, v: Operand, side: Operand | None = None) -> Operand:
    """Of one number in an array of one axis; an index."""
    from cudabuild.frontend.operands import Static

    table = _members(context, a, "the first argument of numpy.searchsorted", 1)
    value = context.scalar(v, "the second argument of numpy.searchsorted", 2)
    where = "left" if side is None else side.value if isinstance(side, Static) else None
    if where not in ("left", "right"):
        raise Refusal(
            "numpy.searchsorted on neither side",
            found=describe(side) if side is not None else "",
            expected="side='left' or side='right'",
            do="write side='right' to count equal elements too",
        )
    after = context.weak(where == "right")
    return context.calls.call(context, library_numbers.place_in, [table, value, after], {})


if hasattr(math, "fma"):  # from Python 3.13 on
    python_function(math.fma, name="math.fma")(fma)


def _of_float(item: Any, name: str, function: Any) -> None:
    @python_function(item, name=name)
    def rule(context: Context, x: Operand) -> Operand:
        return context.calls.call(context, function, [as_float(context, x, f"the argument of {name}", 1, name)], {})


_of_float(math.ulp, "math.ulp", library_numbers.unit_in_last_place)
_of_float(numpy.spacing, "numpy.spacing", library_numbers.spacing)
_of_float(numpy.sinc, "numpy.sinc", library_numbers.sinc)

python_function(numpy.modf, name="numpy.modf")(modf)


@python_function(numpy.divmod, name="numpy.divmod")
def numpy_divmod(context: Context, x1: Operand, x2: Operand) -> Operand:
    return TupleOperand((operators.binary(context, "//", x1, x2), operators.binary(context, "%", x1, x2)))


@python_function(numpy.float_power)
def float_power(context: Context, x1: Operand, x2: Operand) -> Operand:
    """In float64 at least, whatever the operands."""
    a = context.scalar(x1, "the first argument of numpy.float_power", 1)
    b = context.scalar(x2, "the second argument of numpy.float_power", 2)
    if complex_numbers.is_complex(a, b):
        return complex_numbers.power(context, "**", context.cast(a, complex128), context.cast(b, complex128))
    return operators.binary(context, "**", context.cast(a, float64), context.cast(b, float64))


@python_function(numpy.fix)
def fix(context: Context, x: Operand) -> Operand:
    """Towards zero; integers stay."""
    value = context.scalar(x, "the argument of numpy.fix", 1)
    if not isinstance(value.type, Float):
        return value
    return context.emit("math", value.type, value, function="trunc")


@python_function(numpy.round, numpy.around, name="numpy.round")
def numpy_round(context: Context, a: Operand, decimals: Operand | None = None) -> Operand:
    """NumPy's way: floats keep their type, and are scaled, rounded and scaled back."""
    value = context.scalar(a, "the argument of numpy.round", 1)
    kind = value.type
    digits = context.weak(0) if decimals is None else decimals
    digits = context.cast(context.integer(digits, "the number of decimals", 2), weak_int)
    if isinstance(kind, (Boolean, Integer)):
        return _round_integer(context, value, digits)
    if not isinstance(kind, Float):
        parts = [numpy_round(context, part, digits) for part in context.parts(value)]
        return context.emit("complex", kind, *(part for part in parts if isinstance(part, Value)))
    if is_const(digits) and const_of(digits) == 0:
        return context.emit("math", kind, value, function="rint")
    power: Operand
    if is_const(digits):
        whole: Operand = context.weak(const_of(digits) < 0)
        power = context.const(10.0 ** abs(const_of(digits)), float64)
    else:
        whole = operators.compare(context, "<", digits, context.weak(0))
        power = context.calls.call(context, library_numbers.power_of_ten, [context.emit("abs", weak_int, digits)], {})
    unit = context.convert(power, kind)
    return context.calls.call(context, library_numbers.rounded, [value, unit, whole], {})


def _round_integer(context: Context, value: Value, digits: Value) -> Operand:
    if isinstance(value.type, Boolean):
        return value
    if is_const(digits) and const_of(digits) >= 0:
        return value
    rounded = round_(context, value, digits)
    assert isinstance(value.type, Scalar)
    return context.convert(rounded, value.type)
