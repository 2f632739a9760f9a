# SPDX-License-Identifier: Apache-2.0
"""The ``math`` module, and NumPy's functions of the same meaning on scalars.

A float32 or float16 argument keeps its type, a typed integer makes float64, a weak argument makes a weak float.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

from cudabuild.frontend.context import Context
from cudabuild.frontend.folding import fold_cast
from cudabuild.frontend.impl import operators
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import Operand, TupleOperand, const_of, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Float, Scalar, WeakFloat, bool_, int32, weak_float

__all__: list[str] = []

#: IR function -> the Python functions that it computes. One operand, one float result.
_UNARY: dict[str, tuple[str, ...]] = {
    "sqrt": ("math.sqrt", "numpy.sqrt"),
    "cbrt": ("math.cbrt", "numpy.cbrt"),
    "exp": ("math.exp", "numpy.exp"),
    "exp2": ("math.exp2", "numpy.exp2"),
    "expm1": ("math.expm1", "numpy.expm1"),
    "log2": ("math.log2", "numpy.log2"),
    "log10": ("math.log10", "numpy.log10"),
    "log1p": ("math.log1p", "numpy.log1p"),
    "sin": ("math.sin", "numpy.sin"),
    "cos": ("math.cos", "numpy.cos"),
    "tan": ("math.tan", "numpy.tan"),
    "asin": ("math.asin", "numpy.arcsin"),
    "acos": ("math.acos", "numpy.arccos"),
    "atan": ("math.atan", "numpy.arctan"),
    "sinh": ("math.sinh", "numpy.sinh"),
    "cosh": ("math.cosh", "numpy.cosh"),
    "tanh": ("math.tanh", "numpy.tanh"),
    "asinh": ("math.asinh", "numpy.arcsinh"),
    "acosh": ("math.acosh", "numpy.arccosh"),
    "atanh": ("math.atanh", "numpy.arctanh"),
    "erf": ("math.erf",),
    "erfc": ("math.erfc",),
    "tgamma": ("math.gamma",),
    "lgamma": ("math.lgamma",),
    "floor": ("numpy.floor",),
    "ceil": ("numpy.ceil",),
    "trunc": ("numpy.trunc",),
    "rint": ("numpy.rint",),
}

#: Two operands of one float type.
_BINARY: dict[str, tuple[str, ...]] = {
    "atan2": ("math.atan2", "numpy.arctan2"),
    "pow": ("math.pow",),
    "hypot": ("numpy.hypot",),
    "copysign": ("math.copysign", "numpy.copysign"),
    "remainder": ("math.remainder",),
    "nextafter": ("math.nextafter", "numpy.nextafter"),
}

#: Predicates: a bool of one float.
_PREDICATES: dict[str, tuple[str, ...]] = {
    "isnan": ("math.isnan", "numpy.isnan"),
    "isinf": ("math.isinf", "numpy.isinf"),
    "isfinite": ("math.isfinite", "numpy.isfinite"),
}


def _objects(spellings: tuple[str, ...]) -> list[tuple[str, Any]]:
    """The objects spelled so; a name that this Python does not have yet (``math.cbrt`` before 3.11) is left out."""
    modules = {"math": math, "numpy": numpy}
    found = []
    for spelling in spellings:
        module, _, name = spelling.partition(".")
        item = getattr(modules[module], name, None)
        if item is not None:
            found.append((spelling, item))
    return found


def as_float(context: Context, operand: Operand, what: str, position: int = 1, function: str = "") -> Value:
    """The argument as the float in which a math function works on it; ``function`` is its name for the table."""
    value = context.scalar(operand, what, position)
    assert isinstance(value.type, Scalar)
    return context.cast(value, context.table.math_argument(value.type, function))


def _fold(context: Context, function: Any, *values: Value) -> Value | None:
    """The result for weak constants, where Python's own function has one."""
    if not all(is_const(value) and isinstance(value.type, WeakFloat) for value in values):
        return None
    if getattr(function, "__module__", None) != "math":
        return None
    try:
        return context.const(float(function(*map(const_of, values))), weak_float)
    except (ValueError, OverflowError):  # outside its domain: the device's result (NaN or infinity) is computed there
        return None


def _register_unary(ir_name: str, spelling: str, item: Any) -> None:
    @python_function(item, name=spelling)
    def rule(context: Context, x: Operand) -> Operand:
        value = as_float(context, x, f"the argument of {spelling}", 1, spelling)
        folded = _fold(context, item, value)
        return folded if folded is not None else context.emit("math", value.type, value, function=ir_name)


def two_floats(context: Context, spelling: str, x: Operand, y: Operand) -> tuple[Value, Value, Scalar]:
    a = context.scalar(x, f"the first argument of {spelling}", 1)
    b = context.scalar(y, f"the second argument of {spelling}", 2)
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kind = context.table.math_arguments(spelling.removeprefix("math."), a.type, b.type)
    return context.cast(a, kind), context.cast(b, kind), kind


def _register_binary(ir_name: str, spelling: str, item: Any) -> None:
    @python_function(item, name=spelling)
    def rule(context: Context, x: Operand, y: Operand) -> Operand:
        a, b, kind = two_floats(context, spelling, x, y)
        folded = _fold(context, item, a, b)
        return folded if folded is not None else context.emit("math", kind, a, b, function=ir_name)


def _register_predicate(ir_name: str, spelling: str, item: Any) -> None:
    @python_function(item, name=spelling)
    def rule(context: Context, x: Operand) -> Operand:
        return context.emit(ir_name, bool_, as_float(context, x, f"the argument of {spelling}"))


def _register_all() -> None:
    tables: tuple[tuple[dict[str, tuple[str, ...]], Callable[[str, str, Any], None]], ...] = (
        (_UNARY, _register_unary),
        (_BINARY, _register_binary),
        (_PREDICATES, _register_predicate),
    )
    for table, register in tables:
        for ir_name, spellings in table.items():
            for spelling, item in _objects(spellings):
                register(ir_name, spelling, item)


_register_all()


@python_function(math.fabs, numpy.fabs)
def fabs(context: Context, x: Operand) -> Operand:
    value = as_float(context, x, "the argument of fabs", 1, "fabs")
    return context.emit("abs", value.type, value)


@python_function(math.log, name="math.log")
def log(context: Context, x: Operand, base: Operand | None = None) -> Operand:
    value = as_float(context, x, "the argument of math.log", 1, "log")
    natural = _log(context, value)
    if base is None:
        return natural
    return operators.binary(
        context, "/", natural, _log(context, as_float(context, base, "the base of math.log", 2, "log"))
    )


def _log(context: Context, value: Value) -> Value:
    folded = _fold(context, math.log, value)
    return folded if folded is not None else context.emit("math", value.type, value, function="log")


@python_function(numpy.log, name="numpy.log")
def numpy_log(context: Context, x: Operand) -> Operand:
    return _log(context, as_float(context, x, "the argument of numpy.log", 1, "numpy.log"))


@python_function(math.fmod, numpy.fmod)
def fmod(context: Context, x: Operand, y: Operand) -> Operand:
    a, b, kind = two_floats(context, "fmod", x, y)
    return context.emit("fmod", kind, a, b)


@python_function(math.ldexp, numpy.ldexp)
def ldexp(context: Context, x: Operand, i: Operand) -> Operand:
    value = as_float(context, x, "the first argument of ldexp", 1, "ldexp")
    exponent = context.cast(context.scalar(i, "the second argument of ldexp", 2), int32)
    return context.emit("math", value.type, value, exponent, function="ldexp")


@python_function(math.modf)
def modf(context: Context, x: Operand) -> Operand:
    """Fraction and whole part, both with the sign of ``x``; of an infinity 0 and the infinity."""
    value = as_float(context, x, "the argument of math.modf", 1, "modf")
    whole = context.emit("math", value.type, value, function="trunc")
    rest = context.emit("sub", value.type, value, whole)
    infinite = context.emit("isinf", bool_, value)
    fraction = context.emit("select", value.type, infinite, context.const(0.0, value.type), rest)
    return TupleOperand((context.emit("math", value.type, fraction, value, function="copysign"), whole))


def _rounding(ir_name: str) -> Callable[[Context, Operand], Operand]:
    def rule(context: Context, x: Operand) -> Operand:
        value = context.scalar(x, f"the argument of math.{ir_name}", 1)
        assert isinstance(value.type, Scalar)
        kind = context.table.whole(context.table.math_argument(value.type, ir_name))
        if not isinstance(value.type, Float):
            return context.cast(value, kind)
        if is_const(value) and math.isfinite(const_of(value)):
            whole = float(getattr(math, ir_name)(const_of(value)))
            return context.const(fold_cast(whole, value.type, kind), kind)
        return context.cast(context.emit("math", value.type, value, function=ir_name), kind)

    return rule


for _name in ("floor", "ceil", "trunc"):
    python_function(getattr(math, _name), name=f"math.{_name}")(_rounding(_name))


@python_function(math.degrees, numpy.degrees, numpy.rad2deg)
def degrees(context: Context, x: Operand) -> Operand:
    angle = as_float(context, x, "the angle")
    return operators.binary(context, "*", angle, context.const(180.0 / math.pi, angle.type))


@python_function(math.radians, numpy.radians, numpy.deg2rad)
def radians(context: Context, x: Operand) -> Operand:
    angle = as_float(context, x, "the angle")
    return operators.binary(context, "*", angle, context.const(math.pi / 180.0, angle.type))


@python_function(numpy.abs, numpy.absolute)
def numpy_abs(context: Context, x: Operand) -> Operand:
    value = context.scalar(x, "the argument of numpy.abs", 1)
    return value if isinstance(value.type, Boolean) else context.emit("abs", value.type, value)
