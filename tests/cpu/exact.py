# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of binary floats in exact numbers: what an operation must give, rounded as told."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Format", "arithmetic", "from_integer", "high_power", "high_sine", "round_to", "square_root", "to_integer"]

_DIGITS = 700  # bits behind the point of irrational results


class Format:
    """A binary float: its significant bits and the exponents of its largest and smallest numbers."""

    def __init__(self, dtype: Any) -> None:
        info = np.finfo(dtype)
        self.type = np.dtype(dtype).type
        self.bits = info.nmant + 1
        self.least = info.minexp - info.nmant  # of the smallest subnormal number
        self.largest = Fraction(float(info.max))


def round_to(value: Fraction, dtype: Any, mode: str = "rn", bits: int = 0) -> Any:
    """``value`` as a float of ``dtype``: ``rn`` to the nearest, ties to even; ``rz``, ``rm``, ``rp`` as directed.

    ``bits``: the significant bits to keep, where it is fewer than the type's.
    """
    kind = Format(dtype)
    if value == 0:
        return kind.type(0)
    sign = -1.0 if value < 0 else 1.0
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    exponent -= size < Fraction(2) ** exponent
    unit = Fraction(2) ** max(exponent - (bits or kind.bits) + 1, kind.least)
    found = unit * to_integer(value / unit, mode)
    if abs(found) > kind.largest:
        toward = {"rz": False, "rm": value < 0, "rp": value > 0, "rn": True}[mode]
        return kind.type(math.copysign(math.inf if toward else float(kind.largest), sign))
    # the sign of a zero that was not one
    return kind.type(math.copysign(float(abs(found)), sign))


def to_integer(value: Fraction, mode: str) -> int:
    """``value`` rounded to a whole number."""
    rounders: dict[str, Callable[[Fraction], int]] = {"rn": round, "rz": math.trunc, "rm": math.floor, "rp": math.ceil}
    return rounders[mode](value)


def square_root(value: Fraction, reciprocal: bool = False) -> Fraction:
    """√value, or 1/√value, to so many digits that it rounds like the number itself."""
    value = 1 / value if reciprocal else value
    scaled = (value.numerator << 2 * _DIGITS) // value.denominator
    root = math.isqrt(scaled)
    exact = root * root == scaled and (value.numerator << 2 * _DIGITS) % value.denominator == 0
    return Fraction(2 * root + (not exact), 1 << _DIGITS + 1)


def arithmetic(name: str, values: Sequence[Any], dtype: Any, mode: str) -> Any:
    """``add``, ``sub``, ``mul``, ``div``, ``fma``, ``rcp`` or ``sqrt`` of floats of ``dtype``."""
    if name == "rcp":
        return arithmetic("div", [dtype(1), *values], dtype, mode)
    if name == "sub":
        return arithmetic("add", [values[0], -values[1]], dtype, mode)
    if not all(map(np.isfinite, values)) or (name == "div" and values[1] == 0) or (name == "sqrt" and values[0] <= 0):
        return _special(name, values, dtype)
    a, *rest = (Fraction(float(value)) for value in values)
    signs = [bool(np.signbit(value)) for value in values]
    if name == "sqrt":
        return round_to(square_root(a), dtype, mode)
    if name in ("mul", "div"):
        exact = a * rest[0] if name == "mul" else a / rest[0]
        return _signed_zero(dtype, signs[0] != signs[1]) if exact == 0 else round_to(exact, dtype, mode)
    if name == "fma":
        terms, negative = (a * rest[0], rest[1]), (signs[0] != signs[1], signs[2])
    else:
        terms, negative = (a, rest[0]), (signs[0], signs[1])
    if sum(terms) == 0:
        return _signed_zero(dtype, negative[0] if negative[0] == negative[1] else mode == "rm")
    return round_to(sum(terms, Fraction(0)), dtype, mode)


def _signed_zero(dtype: Any, negative: bool) -> Any:
    return dtype(-0.0 if negative else 0.0)


def _special(name: str, values: Sequence[Any], dtype: Any) -> Any:
    """Infinities, NaN and zero divisors, where nothing is rounded."""
    with np.errstate(all="ignore"):
        if name == "fma":
            a, b, c = values
            product = a * b if not (np.isfinite(a) and np.isfinite(b)) else dtype(0)
            return dtype(product + c)
        found = {"add": np.add, "mul": np.multiply, "div": np.divide, "sqrt": np.sqrt}[name](*values)
        return dtype(found)


def from_integer(value: int, dtype: Any, mode: str) -> Any:
    return round_to(Fraction(value), dtype, mode)


def high_power(x: Fraction) -> Fraction:
    """2 to the power x."""
    whole = round(x)
    return Fraction(2) ** whole * _series(_LN2 * (x - whole), lambda n: n)


def high_log2(x: Fraction) -> Fraction:
    """The binary logarithm of a positive number."""
    exponent = x.numerator.bit_length() - x.denominator.bit_length()
    m = x / Fraction(2) ** exponent
    return exponent + _artanh((m - 1) / (m + 1)) * 2 / _LN2


def high_sine(x: Fraction, cosine: bool = False) -> Fraction:
    """sin x, or cos x."""
    turned = _cut(x - 2 * _PI * round(x / (2 * _PI)))
    term = Fraction(1) if cosine else turned
    total, n = term, 0 if cosine else 1
    while abs(term) > _EPSILON:
        term = _cut(-term * turned * turned / ((n + 1) * (n + 2)))
        total, n = total + term, n + 2
    return total


_EPSILON = Fraction(1, 1 << 300)


def _cut(x: Fraction) -> Fraction:
    return Fraction((x.numerator << _DIGITS) // x.denominator, 1 << _DIGITS)


def _artanh(x: Fraction) -> Fraction:
    power, total, n = _cut(x), Fraction(0), 1
    square = _cut(x * x)
    while abs(power) > _EPSILON:
        total += power / n
        power, n = _cut(power * square), n + 2
    return _cut(total)


def _series(x: Fraction, divisor: Callable[[int], int]) -> Fraction:
    term, total, n = Fraction(1), Fraction(1), 1
    x = _cut(x)
    while abs(term) > _EPSILON:
        term = _cut(term * x / divisor(n))
        total, n = total + term, n + 1
    return total


def _arctan_inverse(n: int) -> Fraction:
    power, total, k = Fraction(1, n), Fraction(0), 1
    while power > _EPSILON:
        total += power / k if k % 4 == 1 else -power / k
        power, k = _cut(power / (n * n)), k + 2
    return total


_LN2 = 2 * _artanh(Fraction(1, 3))
_PI = 16 * _arctan_inverse(5) - 4 * _arctan_inverse(239)
