# SPDX-License-Identifier: Apache-2.0
"""``cmath``, ``complex``, and NumPy's functions of complex numbers.

A function of ``cmath`` takes a real number for the complex one that it is; one of NumPy is that of real numbers where
it is given one.
"""

from __future__ import annotations

import builtins
import cmath
from collections.abc import Callable
from typing import Any

import numpy

from cudabuild.frontend import complex_library
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import complex_numbers, math_functions, numpy_functions, operator_functions, operators
from cudabuild.frontend.impl.registry import find_rule, python_function
from cudabuild.frontend.operands import Operand, describe
from cudabuild.frontend.promotion import complex_of
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Complex, Float, Integer, Scalar, bool_

__all__ = ["as_complex", "magnitude"]

#: Their rules for real numbers are there by now.
_REAL = (math_functions, numpy_functions, operator_functions)


def as_complex(context: Context, operand: Operand, what: str, position: int = 1) -> Value:
    """The argument as the complex number in which a function works on it."""
    value = context.scalar(operand, what, position)
    kind = value.type
    if isinstance(kind, Complex):
        return value
    assert isinstance(kind, Scalar)
    return context.cast(value, complex_of(context.table.math_argument(kind)))


def _call(context: Context, function: Any, *values: Operand) -> Operand:
    return context.calls.call(context, function, list(values), {})


def _object(spelling: str) -> Any:
    module, _, name = spelling.partition(".")
    return getattr({"cmath": cmath, "numpy": numpy}[module], name)


def _register(function: Any, spelling: str) -> None:
    item = _object(spelling)
    real = find_rule(item)

    @python_function(item, name=spelling)
    def rule(context: Context, z: Operand) -> Operand:
        if real is not None and not _is_complex(z):
            return real(context, [z], {})
        return _call(context, function, as_complex(context, z, f"the argument of {spelling}"))


def _is_complex(operand: Operand) -> bool:
    return isinstance(operand, Value) and isinstance(operand.type, Complex)


for _function, _spellings in complex_library.FUNCTIONS.items():
    for _spelling in _spellings:
        if _spelling != "numpy.log" or find_rule(numpy.log) is not None:
            _register(_function, _spelling)


def _register_ordered(function: Any, item: Any, name: str) -> None:
    real = find_rule(item)
    assert real is not None

    @python_function(item, name=f"numpy.{name}")
    def rule(context: Context, x1: Operand, x2: Operand) -> Operand:
        if not _is_complex(x1) and not _is_complex(x2):
            return real(context, [x1, x2], {})
        values = [context.scalar(x, f"an argument of numpy.{name}", at) for at, x in enumerate((x1, x2), 1)]
        kinds = [value.type for value in values]
        assert isinstance(kinds[0], Scalar)
        assert isinstance(kinds[1], Scalar)
        kind = context.table.arithmetic(kinds[0], kinds[1])
        return _call(context, function, *(context.cast(value, kind) for value in values))


for _function, _name in complex_library.ORDERED.items():
    _register_ordered(_function, getattr(numpy, _name), _name)


@python_function(cmath.log, name="cmath.log")
def log(context: Context, z: Operand, base: Operand | None = None) -> Operand:
    value = as_complex(context, z, "the argument of cmath.log")
    if base is None:
        return _call(context, complex_library.log, value)
    other = as_complex(context, base, "the base of cmath.log", 2)
    assert isinstance(value.type, Scalar)
    assert isinstance(other.type, Scalar)
    kind = context.table.arithmetic(value.type, other.type)
    return _call(context, complex_library.log_of_base, context.cast(value, kind), context.cast(other, kind))


@python_function(cmath.phase, name="cmath.phase")
def phase(context: Context, z: Operand) -> Operand:
    return _call(context, complex_library.phase, as_complex(context, z, "the argument of cmath.phase"))


@python_function(numpy.angle, name="numpy.angle")
def angle(context: Context, z: Operand) -> Operand:
    return _call(context, complex_library.phase, as_complex(context, z, "the argument of numpy.angle"))


@python_function(cmath.polar, name="cmath.polar")
def polar(context: Context, z: Operand) -> Operand:
    return _call(context, complex_library.polar, as_complex(context, z, "the argument of cmath.polar"))


@python_function(cmath.rect, name="cmath.rect")
def rect(context: Context, r: Operand, phi: Operand) -> Operand:
    a, b, _ = math_functions.two_floats(context, "cmath.rect", r, phi)
    return _call(context, complex_library.rect, a, b)


@python_function(cmath.isclose, name="cmath.isclose")
def isclose(
    context: Context, a: Operand, b: Operand, *, rel_tol: Operand | None = None, abs_tol: Operand | None = None
) -> Operand:
    x, y = (as_complex(context, z, "an argument of cmath.isclose", at) for at, z in enumerate((a, b), 1))
    tolerances = (context.weak(1e-9) if rel_tol is None else rel_tol, context.weak(0.0) if abs_tol is None else abs_tol)
    return _call(context, complex_library.isclose, x, y, *tolerances)


def _register_test(name: str, join: str) -> None:
    """``isnan`` and its like: true if it is of both parts, or of one."""
    for module in (cmath, numpy):
        item = getattr(module, name)
        real = find_rule(item)
        _register_one_test(item, name, join, real, f"{module.__name__}.{name}")


def _register_one_test(item: Any, name: str, join: str, real: Any, spelling: str) -> None:
    @python_function(item, name=spelling)
    def rule(context: Context, z: Operand) -> Operand:
        if real is not None and not _is_complex(z):
            found: Operand = real(context, [z], {})
            return found
        parts = context.parts(as_complex(context, z, f"the argument of {spelling}"))
        return context.emit(join, bool_, *(context.emit(name, bool_, part) for part in parts))


for _name, _join in (("isnan", "or"), ("isinf", "or"), ("isfinite", "and")):
    _register_test(_name, _join)


def magnitude(context: Context, value: Value) -> Value:
    """``abs(z)``."""
    kind = value.type
    assert isinstance(kind, Complex)
    return context.emit("math", kind.part, *context.parts(value), function="hypot")


def _absolute(real: Any) -> Callable[..., Operand]:
    def rule(context: Context, x: Operand) -> Operand:
        if isinstance(x, Value) and isinstance(x.type, Complex):
            return magnitude(context, x)
        result: Operand = real(context, [x], {})
        return result

    return rule


python_function(builtins.abs, name="abs")(_absolute(find_rule(builtins.abs)))
python_function(numpy.abs, name="numpy.abs")(_absolute(find_rule(numpy.abs)))


@python_function(numpy.conjugate, name="numpy.conjugate")
def conjugate(context: Context, z: Operand) -> Operand:
    return complex_numbers.conjugate(context, context.scalar(z, "the argument of numpy.conjugate", 1))


def _register_part(item: Any, name: str) -> None:
    @python_function(item, name=f"numpy.{name}")
    def rule(context: Context, z: Operand) -> Operand:
        return complex_numbers.number_attribute(context, context.scalar(z, f"the argument of numpy.{name}", 1), name)


for _name in ("real", "imag"):
    _register_part(getattr(numpy, _name), _name)


@python_function(builtins.complex, name="complex")
def complex_(context: Context, real: Operand | None = None, imag: Operand | None = None) -> Operand:
    values = [
        context.scalar(part, "an argument of complex", position)
        for position, part in enumerate((real, imag), 1)
        if part is not None
    ]
    if real is None or not values:
        raise Refusal("complex without a real part", found="complex()", expected="complex(real, imag)", do="write 0j")
    kinds = [complex_of(_part_type(context, value)) for value in values]
    kind = kinds[0] if len(kinds) == 1 else context.table.arithmetic(kinds[0], kinds[1])
    first = context.cast(values[0], kind)
    if len(values) == 1:
        return first
    # Python's rule: imag may be complex too, and is turned by a quarter.
    second = context.cast(values[1], kind)
    assert isinstance(kind, Complex)
    x, y = context.parts(first)
    u, v = context.parts(second)
    if _is_complex(values[1]):
        x = _value(operators.binary(context, "-", x, v))
    if _is_complex(values[0]):
        u = _value(operators.binary(context, "+", y, u))
    return complex_numbers.make(context, x, u, kind)


def _value(operand: Operand) -> Value:
    assert isinstance(operand, Value)
    return operand


def _part_type(context: Context, value: Value) -> Scalar:
    kind = value.type
    assert isinstance(kind, Scalar)
    if isinstance(kind, (Complex, Float)):
        return kind
    if isinstance(kind, (Boolean, Integer)):
        return context.table.float_of(context.table.signed(kind))
    raise Refusal("complex of something else", found=describe(value), expected="numbers", do="convert it first")
