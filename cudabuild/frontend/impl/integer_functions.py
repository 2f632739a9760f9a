# SPDX-License-Identifier: Apache-2.0
"""``math``'s functions of integers, and the bits that they have. Results are Python's: of 64 bits here, they wrap."""

from __future__ import annotations

import math
from typing import Any

import numpy

from cudabuild.frontend import library, library_numbers
from cudabuild.frontend.context import Context
from cudabuild.frontend.impl.complex_numbers import count_bits
from cudabuild.frontend.impl.registry import method, python_function
from cudabuild.frontend.operands import NoneOperand, Operand
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Float, Integer, Scalar, bool_, int32, int64, uint8, uint64, weak_int

__all__: list[str] = []


def _whole(context: Context, operand: Operand, what: str, position: int) -> Value:
    """A Python integer, or a bool as one."""
    value = context.scalar(operand, what, position)
    if isinstance(value.type, Boolean):
        return context.cast(value, weak_int)
    return context.cast(context.integer(value, what, position), weak_int)


def _python_integer(context: Context, result: Operand) -> Operand:
    if not isinstance(result, Value):  # refused inside
        return result
    return context.cast(result, context.table.int_of(int64))


@python_function(math.factorial)
def factorial(context: Context, n: Operand) -> Operand:
    number = _whole(context, n, "the argument of math.factorial", 1)
    return _python_integer(context, context.calls.call(context, library_numbers.factorial, [number], {}))


@python_function(math.comb)
def comb(context: Context, n: Operand, k: Operand) -> Operand:
    numbers = [_whole(context, part, "an argument of math.comb", at) for at, part in enumerate((n, k), 1)]
    return _python_integer(context, context.calls.call(context, library_numbers.binomial, numbers, {}))


@python_function(math.perm)
def perm(context: Context, n: Operand, k: Operand | None = None) -> Operand:
    if k is None or isinstance(k, NoneOperand):
        return factorial(context, n)
    numbers = [_whole(context, part, "an argument of math.perm", at) for at, part in enumerate((n, k), 1)]
    return _python_integer(context, context.calls.call(context, library_numbers.permutations, numbers, {}))


@python_function(math.isqrt)
def isqrt(context: Context, n: Operand) -> Operand:
    value = context.scalar(n, "the argument of math.isqrt", 1)
    if isinstance(value.type, Boolean):
        value = context.cast(value, weak_int)
    value = context.integer(value, "the argument of math.isqrt", 1)
    assert isinstance(value.type, Integer)
    number = context.cast(value, int64 if value.type.signed else uint64)
    return _python_integer(context, context.calls.call(context, library_numbers.square_root, [number], {}))


def _of_any_number(item: Any, function: Any, none: int) -> None:
    """``math.gcd()`` and its like: of nothing ``none``, of one its magnitude, of several one after the other."""

    @python_function(item)
    def rule(context: Context, *integers: Operand) -> Operand:
        numbers: list[Operand] = [
            context.integer(number, f"an argument of math.{item.__name__}", at) for at, number in enumerate(integers, 1)
        ]
        if not numbers:
            return context.weak(none)
        result = numbers[0]
        for other in numbers[1:] or numbers[:1]:
            result = context.calls.call(context, function, [result, other], {})
        return result


_of_any_number(math.gcd, library.greatest_common_divisor, 0)
_of_any_number(math.lcm, library.least_common_multiple, 1)


@python_function(*([numpy.bitwise_count] if hasattr(numpy, "bitwise_count") else []))  # of NumPy 2
def bitwise_count(context: Context, x: Operand) -> Operand:
    """NumPy's counts are uint8."""
    value = context.scalar(x, "the argument of numpy.bitwise_count", 1)
    if isinstance(value.type, Boolean):
        return context.cast(value, uint8)
    return context.cast(count_bits(context, context.integer(value, "the argument of numpy.bitwise_count", 1)), uint8)


@method("number", "bit_length")
def bit_length(context: Context, x: Operand) -> Operand:
    """The bits of the magnitude without zeros in front."""
    value = context.scalar(x, "what bit_length is called on")
    if isinstance(value.type, Boolean):
        value = context.cast(value, weak_int)
    value = context.integer(value, "what bit_length is called on")
    assert isinstance(value.type, Integer)
    size = context.emit("abs", value.type, value) if value.type.signed else value
    zeros = context.emit("clz", int32, size)
    count = context.emit("sub", int32, context.const(value.type.bits, int32), zeros)
    return context.cast(count, context.table.bit_count(int64))


@method("number", "is_integer")
def is_integer(context: Context, x: Operand) -> Operand:
    """Whether a number has no fraction; infinities and NaN have no value."""
    value = context.scalar(x, "what is_integer is called on")
    kind = value.type
    assert isinstance(kind, Scalar)
    if not isinstance(kind, Float):
        return context.const(True, bool_)
    whole = context.emit("cmp", bool_, context.emit("math", kind, value, function="trunc"), value, predicate="eq")
    return context.emit("and", bool_, whole, context.emit("isfinite", bool_, value))
