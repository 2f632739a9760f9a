# SPDX-License-Identifier: Apache-2.0
"""What arithmetic, conversions and functions give, by NumPy, the C library and exact fractions."""

from __future__ import annotations

import ctypes
import ctypes.util
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["Wide", "exact_fma", "from_c", "next_after", "power", "remainder", "saturated"]

#: Wider than float64 where the C library has such a type: 11 more bits on x86-64.
Wide = np.longdouble


def from_c(name: str) -> Callable[[Any], Any]:
    """``erfl`` and its like: NumPy has no such functions. The result is rounded to float64."""
    function = getattr(ctypes.CDLL(ctypes.util.find_library("m")), name)
    function.argtypes, function.restype = [ctypes.c_longdouble], ctypes.c_longdouble
    return lambda x: np.array([function(float(value)) for value in x], Wide)


def remainder(x: Any, y: Any) -> Any:
    """Exact, so a float64 holds it."""
    ok = np.isfinite(x) & ~np.isnan(y) & (y != 0)
    return np.array([math.remainder(a, b) if fine else math.nan for a, b, fine in zip(x, y, ok, strict=True)])


def power(x: Any, y: Any) -> Any:
    """Of infinities in float64: glibc's ``powl`` takes every large exponent for an odd one there."""
    infinite = np.isinf(x) | np.isinf(y)
    return np.where(infinite, np.power(x.astype(np.float64), y.astype(np.float64)), np.power(x, y))


def next_after(x: Any, y: Any) -> Any:
    """C's, which gives ``y`` for zeros of two signs; NumPy's of float16 gives ``x``."""
    return np.where(x == y, y, np.nextafter(x, y))


def exact_fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z``, rounded once."""
    kind = x.dtype.type
    found = []
    with np.errstate(all="ignore"):
        for a, b, c in zip(x.tolist(), y.tolist(), z.tolist(), strict=True):
            if not (math.isfinite(a) and math.isfinite(b)):
                found.append(kind(np.float64(a) * np.float64(b) + np.float64(c)))
            elif not math.isfinite(c):
                found.append(kind(c))
            else:
                minus = math.copysign(1, a) * math.copysign(1, b) < 0 and math.copysign(1, c) < 0
                found.append(rounded(Fraction(a) * Fraction(b) + Fraction(c), kind, minus))
    return np.array(found, x.dtype)


def rounded(value: Fraction, kind: Any, minus: bool) -> Any:
    """The float of type ``kind`` nearest to a fraction, ties to even; ``minus``: a zero is negative."""
    if value == 0:
        return kind(-0.0 if minus else 0.0)
    info = np.finfo(kind)
    size = abs(value)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    step = max(exponent, int(info.minexp)) - info.nmant
    number = round(size / Fraction(2) ** step) * Fraction(2) ** step  # Python rounds a half to even
    if number > Fraction(float(info.max)):
        return kind(math.inf if value > 0 else -math.inf)
    return kind(float(number) if value > 0 else -float(number))


def saturated(x: Any, name: str) -> Any:
    """Floats as integers: towards zero, the nearest limit beyond the limits, 0 for NaN."""
    limits = np.iinfo(name)
    found = []
    for value in x.tolist():
        if math.isnan(value):
            found.append(0)
        elif math.isinf(value):
            found.append(limits.max if value > 0 else limits.min)
        else:
            found.append(max(limits.min, min(limits.max, math.trunc(value))))
    return np.array(found, name)
