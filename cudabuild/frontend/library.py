# SPDX-License-Identifier: Apache-2.0
"""Parts of the language that are themselves written in the kernel language, compiled as device functions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cudabuild.lang.bits import fma

__all__ = [
    "all_of",
    "along_first_axis",
    "any_of",
    "apply_to_one",
    "apply_to_two",
    "greatest_common_divisor",
    "integer_power",
    "least_common_multiple",
    "logaddexp",
    "logaddexp2",
    "mantissa_and_exponent",
    "maximum",
    "maximum_of_numbers",
    "minimum",
    "minimum_of_numbers",
    "round_digits",
    "round_integer",
    "square",
    "store_one",
    "store_two",
    "sum_of",
]


def integer_power(base: Any, exponent: Any) -> Any:
    """``base ** exponent`` of integers; a negative exponent truncates the true value towards zero."""
    if exponent < 0:
        if base == 1:
            return base
        if base == -1:
            return base if exponent & 1 else -base
        return base * 0
    result = base * 0 + 1
    while exponent > 0:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent = exponent >> 1
    return result


def greatest_common_divisor(a: Any, b: Any) -> Any:
    """Euclid's algorithm; ``gcd(0, 0)`` is 0. The absolute value comes last: the smallest integer has none."""
    while b != 0:
        a, b = b, a % b
    return abs(a)


def least_common_multiple(a: Any, b: Any) -> Any:
    """0 where one of them is 0."""
    divisor = greatest_common_divisor(a, b)
    if divisor == 0:
        return divisor
    return abs(a // divisor * b)


def mantissa_and_exponent(x: Any) -> Any:
    """``m, e`` with ``x == m * 2**e`` and ``0.5 <= abs(m) < 1``, exactly; ``x, 0`` for zeros, infinities and NaN.

    The logarithm, which may be off in its last place, only proposes the exponent.
    """
    if x == 0 or x - x != 0:
        return x * 1.0, 0
    scaled, exponent = x * 1.0, 0
    if abs(scaled) < 1e-30:  # subnormal numbers of every type become normal
        scaled = scaled * 18446744073709551616.0 * 18446744073709551616.0
        exponent = -128
    guess = math.floor(math.log2(abs(scaled))) + 1
    mantissa = math.ldexp(scaled, -guess)
    if abs(mantissa) >= 1:
        mantissa = mantissa * 0.5
        guess = guess + 1
    elif abs(mantissa) < 0.5:
        mantissa = mantissa * 2.0
        guess = guess - 1
    return mantissa, exponent + guess


def maximum(x1: Any, x2: Any) -> Any:
    """The larger, or a NaN among the two."""
    return x1 if x1 >= x2 or x1 != x1 else x2


def minimum(x1: Any, x2: Any) -> Any:
    """The smaller, or a NaN among the two."""
    return x1 if x1 <= x2 or x1 != x1 else x2


def maximum_of_numbers(x1: Any, x2: Any) -> Any:
    """The larger; the other one of a NaN."""
    return x1 if x1 >= x2 or x2 != x2 else x2


def minimum_of_numbers(x1: Any, x2: Any) -> Any:
    """The smaller; the other one of a NaN."""
    return x1 if x1 <= x2 or x2 != x2 else x2


def square(x: Any) -> Any:
    """x * x."""
    return x * x


def logaddexp(x1: Any, x2: Any) -> Any:
    """``log(exp(x1) + exp(x2))`` without overflow."""
    if x1 == x2:  # of infinities too
        return x1 + math.log(2.0)
    difference = x1 - x2
    if difference > 0:
        return x1 + math.log1p(math.exp(-difference))
    if difference <= 0:
        return x2 + math.log1p(math.exp(difference))
    return difference  # a NaN


def logaddexp2(x1: Any, x2: Any) -> Any:
    """``log2(2**x1 + 2**x2)`` without overflow."""
    if x1 == x2:
        return x1 + 1.0
    difference = x1 - x2
    if difference > 0:
        return x1 + math.log1p(2.0**-difference) / math.log(2.0)
    if difference <= 0:
        return x2 + math.log1p(2.0**difference) / math.log(2.0)
    return difference


def sum_of(iterable: Any, start: Any = 0) -> Any:
    """Of a tuple or an array, in order."""
    total = start
    for value in iterable:
        total = total + value
    return total


def any_of(iterable: Any) -> Any:
    """Whether one is true."""
    for value in iterable:  # noqa: SIM110 - a kernel has no generators
        if value:
            return True
    return False


def all_of(iterable: Any) -> Any:
    """Whether none is false."""
    for value in iterable:  # noqa: SIM110
        if not value:
            return False
    return True


def along_first_axis(x: Any, index: Any, ndim: Any) -> Any:
    """What of ``x`` belongs to ``index`` of an array of ``ndim`` dimensions; a rule of its own says it.

    Raises:
        TypeError: always; it is for kernels.
    """
    raise TypeError("for kernels only")


def store_one(function: Any, x: Any, out: Any) -> None:
    """``function`` of ``x`` into a 0-d array."""
    out[()] = function(along_first_axis(x, 0, 0))


def apply_to_one(function: Any, x: Any, out: Any) -> None:
    """``function`` of every element of ``x``, broadcast to ``out``."""
    for i in range(out.shape[0]):
        part = along_first_axis(x, i, out.ndim)
        if out.ndim == 1:
            out[i] = function(part)
        else:
            apply_to_one(function, part, out[i])


def store_two(function: Any, x: Any, y: Any, out: Any) -> None:
    """``function`` of ``x`` and ``y`` into a 0-d array."""
    out[()] = function(along_first_axis(x, 0, 0), along_first_axis(y, 0, 0))


def apply_to_two(function: Any, x: Any, y: Any, out: Any) -> None:
    """``function`` of every pair of elements, broadcast to ``out``."""
    for i in range(out.shape[0]):
        first = along_first_axis(x, i, out.ndim)
        second = along_first_axis(y, i, out.ndim)
        if out.ndim == 1:
            out[i] = function(first, second)
        else:
            apply_to_two(function, first, second, out[i])


#: From here on every float64 is a whole number: 2⁵².
_WHOLE = 4503599627370496.0


#: Every power of ten that float64 holds exactly.
_POWERS = np.array([10.0**exponent for exponent in range(23)])


def round_digits(x: Any, digits: Any) -> Any:
    """The float64 ``x`` with so many digits behind the point, or before it where they are negative; ties to even.

    Exact for up to 22 digits, as in Python: of a scaled number that is a tie only after rounding, the rest decides.
    """
    if not math.isfinite(x):
        return x
    if digits < -308:
        return x * 0.0
    if digits < 0:
        unit = _POWERS[-digits] if digits >= -22 else 10.0 ** (-digits)
        scaled = x / unit
        return _nearest(scaled, fma(-scaled, unit, x)) * unit
    if digits > 22:
        fine = 10.0 ** (digits - 22)
        scaled = x * 1e22 * fine
        return np.rint(scaled) / fine / 1e22 if abs(scaled) < _WHOLE else x
    unit = _POWERS[digits]
    scaled = x * unit
    if abs(scaled) >= _WHOLE:
        return x
    return _nearest(scaled, fma(x, unit, -scaled)) / unit


def round_integer(x: Any, digits: Any) -> Any:
    """The 64-bit integer ``x`` with zeros in its last ``-digits`` places; ties to even."""
    if digits >= 0:
        return x
    if digits < -18:
        return x * 0
    unit = x * 0 + 1  # of the type of x
    for _ in range(-digits):
        unit = unit * 10
    whole = x // unit
    rest = x - whole * unit
    if rest > unit - rest or (rest == unit - rest and whole % 2 == 1):
        whole = whole + 1
    return whole * unit


def _nearest(x: Any, rest: Any) -> Any:
    """The whole number nearest to ``x + rest``, of which ``x`` is the rounded sum."""
    whole = np.rint(x)
    over = x - whole
    if over == 0.5 and rest > 0.0:
        return whole + 1.0
    if over == -0.5 and rest < 0.0:
        return whole - 1.0
    return whole
