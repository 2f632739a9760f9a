# SPDX-License-Identifier: Apache-2.0
"""Division, powers and elementary functions of complex numbers, written in the kernel language.

Everything is computed in the type of the parts. Branch cuts and signs of zeros: W. Kahan, "Branch Cuts for Complex
Elementary Functions, or Much Ado About Nothing's Sign Bit" (1987). Infinities and NaN: C's Annex G, and where that
leaves a choice, the one that CPython's ``cmath`` makes; where ``cmath`` raises, the result is C's.
"""

from __future__ import annotations

import math
from typing import Any

__all__ = [
    "FUNCTIONS",
    "ORDERED",
    "complex_power",
    "divide",
    "integer_power",
    "isclose",
    "log_of_base",
    "phase",
    "polar",
    "rect",
]

_LN2 = math.log(2.0)
_LN10 = math.log(10.0)
_INF = math.inf
_NAN = math.nan

#: Beyond it sums of squares may overflow in float32; the formulas for large arguments are exact enough there.
_LARGE = 1e18
#: Parts below it are scaled up: they may be subnormal, in float32 or float64.
_SMALL = 1.2e-38
_SCALE = 2.0**100
_SCALE_LOG = 100.0 * _LN2
_SCALE_ROOT = 2.0**-50


def _is_finite(z: Any) -> Any:
    return math.isfinite(z.real) and math.isfinite(z.imag)


def _unit(x: Any) -> Any:
    """1 for an infinity, else 0, with the sign of ``x``."""
    return math.copysign(1.0 if math.isinf(x) else 0.0, x)


def divide(z: Any, w: Any) -> Any:
    """Smith's quotient (1962): no intermediate overflow; then infinities that came out as NaN (Annex G.5.1)."""
    a, b, c, d = z.real, z.imag, w.real, w.imag
    if math.fabs(c) >= math.fabs(d):
        ratio = d / c
        size = c + d * ratio
        real = (a + b * ratio) / size
        imag = (b - a * ratio) / size
    else:
        ratio = c / d
        size = c * ratio + d
        real = (a * ratio + b) / size
        imag = (b * ratio - a) / size
    if math.isnan(real) and math.isnan(imag):
        if c == 0.0 and d == 0.0:
            if not (math.isnan(a) and math.isnan(b)):
                real = math.copysign(_INF, c) * a
                imag = math.copysign(_INF, c) * b
        elif (math.isinf(a) or math.isinf(b)) and _is_finite(w):
            a = _unit(a)
            b = _unit(b)
            real = _INF * (a * c + b * d)
            imag = _INF * (b * c - a * d)
        elif (math.isinf(c) or math.isinf(d)) and _is_finite(z):
            c = _unit(c)
            d = _unit(d)
            real = 0.0 * (a * c + b * d)
            imag = 0.0 * (b * c - a * d)
    return complex(real, imag)


def integer_power(base: Any, exponent: Any) -> Any:
    """``base ** exponent`` by squaring."""
    left = abs(exponent)
    result = complex(base.real * 0.0 + 1.0, base.imag * 0.0)
    if not _is_finite(base):
        result = complex(math.copysign(1.0, 1.0 + abs(base.real)), math.copysign(0.0, 1.0 + abs(base.real)))
    first = True
    while left > 0:
        if left & 1:
            result = base if first else result * base
            first = False
        left = left >> 1
        if left > 0:
            base = base * base
    if exponent < 0:
        result = 1.0 / result
    return result


def complex_power(base: Any, exponent: Any) -> Any:
    """By squaring for whole exponents up to 100, as CPython does; else by ``exp(exponent * log(base))`` in parts."""
    whole = math.fabs(exponent.real) <= 100.0 and exponent.imag == 0.0
    if whole:
        rounded = int(exponent.real)
        if rounded == exponent.real:
            return integer_power(base, rounded)
    if base.real == 0.0 and base.imag == 0.0:
        if exponent.imag == 0.0 and exponent.real > 0.0:
            return base * 0.0
        return complex(base.real * 0.0 + _NAN, base.real * 0.0 + _NAN)
    size = math.hypot(base.real, base.imag)
    angle = math.atan2(base.imag, base.real)
    length = math.pow(size, exponent.real)
    turn = angle * exponent.real
    if exponent.imag != 0.0:
        length = length * math.exp(-angle * exponent.imag)
        turn = turn + exponent.imag * _log_size(base.real, base.imag)
    return complex(length * math.cos(turn), length * math.sin(turn))


# polar coordinates


def phase(z: Any) -> Any:
    """The angle from the positive real axis, from -pi to pi."""
    return math.atan2(z.imag, z.real)


def polar(z: Any) -> Any:
    """Distance from 0 and angle."""
    return math.hypot(z.real, z.imag), math.atan2(z.imag, z.real)


def rect(r: Any, phi: Any) -> Any:
    """The complex number at distance ``r`` from 0, at the angle ``phi``."""
    if phi == 0.0:
        return complex(r, r * phi if math.isfinite(r) else math.copysign(0.0, r) * phi)
    if math.isfinite(phi):
        return complex(r * math.cos(phi), r * math.sin(phi))
    if r == 0.0:
        return complex(0.0 * r * r, 0.0 * r * r)
    if math.isinf(r):
        return complex(math.fabs(r), phi - phi)
    return complex(phi - phi, phi - phi)


# logarithms and exponentials


def _log_size(x: Any, y: Any) -> Any:
    """``log(hypot(x, y))``, accurate where that is near 1, and where the squares would leave the type's range."""
    x = math.fabs(x)
    y = math.fabs(y)
    size = math.hypot(x, y)
    if 0.71 <= size <= 1.73:
        most = max(x, y)
        least = min(x, y)
        return math.log1p((most - 1.0) * (most + 1.0) + least * least) / 2.0
    if size > _LARGE and math.isfinite(x) and math.isfinite(y):
        return math.log(math.hypot(x / 2.0, y / 2.0)) + _LN2
    if 0.0 < size < _SMALL:
        return math.log(math.hypot(x * _SCALE, y * _SCALE)) - _SCALE_LOG
    return math.log(size)


def log(z: Any) -> Any:
    return complex(_log_size(z.real, z.imag), math.atan2(z.imag, z.real))


def log_of_base(z: Any, base: Any) -> Any:
    """Smith's quotient alone: where a logarithm is infinite or NaN, so are the parts of the result, as in CPython."""
    z = log(z)
    base = log(base)
    a, b, c, d = z.real, z.imag, base.real, base.imag
    if math.fabs(c) >= math.fabs(d):
        ratio = d / c
        size = c + d * ratio
        return complex((a + b * ratio) / size, (b - a * ratio) / size)
    if math.fabs(d) >= math.fabs(c):
        ratio = c / d
        size = c * ratio + d
        return complex((a * ratio + b) / size, (b * ratio - a) / size)
    return complex(c + d, c + d)


def log10(z: Any) -> Any:
    found = log(z)
    return complex(found.real / _LN10, found.imag / _LN10)


def log2(z: Any) -> Any:
    found = log(z)
    return complex(found.real / _LN2, found.imag / _LN2)


def log1p(z: Any) -> Any:
    x, y = z.real, z.imag
    angle = math.atan2(y, 1.0 + x)
    if math.fabs(x) < 0.5 and math.fabs(y) < 0.5:
        return complex(math.log1p(x * (2.0 + x) + y * y) / 2.0, angle)
    return complex(_log_size(1.0 + x, y), angle)


def exp(z: Any) -> Any:
    x, y = z.real, z.imag
    if y == 0.0:
        return complex(math.exp(x), y)
    if not math.isfinite(y):
        if not math.isinf(x):
            return complex(y - y, y - y)
        if x < 0.0:
            return complex(math.exp(x), math.exp(x))
        return complex(x, y - y)
    length = math.exp(x)
    if math.isinf(length) and math.isfinite(x):  # the product may still be finite
        length = math.exp(x - 1.0)
        return complex(length * math.cos(y) * math.e, length * math.sin(y) * math.e)
    return complex(length * math.cos(y), length * math.sin(y))


def exp2(z: Any) -> Any:
    return exp(complex(z.real * _LN2, z.imag * _LN2))


def expm1(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.fabs(x) < 0.5 and math.isfinite(y):
        half = math.sin(y / 2.0)
        return complex(math.expm1(x) * math.cos(y) - 2.0 * half * half, math.exp(x) * math.sin(y))
    return exp(z) - 1.0


def sqrt(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.isinf(y):
        return complex(math.fabs(y), y)
    if math.isinf(x):
        if math.isnan(y):
            return complex(x, y) if x > 0.0 else complex(y, math.fabs(x))
        if x > 0.0:
            return complex(x, math.copysign(0.0, y))
        return complex(math.fabs(y) * 0.0, math.copysign(x, y))
    width = math.fabs(x)
    height = math.fabs(y)
    if width == 0.0 and height == 0.0:
        return complex(width, y)
    if width < _SMALL and height < _SMALL:
        width = width * _SCALE
        height = height * _SCALE
        root = math.sqrt((width + math.hypot(width, height)) / 2.0)
        other = height / (2.0 * root) * _SCALE_ROOT
        root = root * _SCALE_ROOT
    else:
        width = width / 8.0
        root = 2.0 * math.sqrt(width + math.hypot(width, height / 8.0))
        other = height / (2.0 * root)
    if x >= 0.0:
        return complex(root, math.copysign(other, y))
    return complex(other, math.copysign(root, y))


# hyperbolic functions, and trigonometric ones by turning the plane


def cosh(z: Any) -> Any:
    x, y = z.real, z.imag
    if y == 0.0:
        return complex(math.cosh(x), math.fabs(y) if math.isnan(x) else math.copysign(0.0, x) * y)
    if not math.isfinite(y):
        if math.isinf(x):
            return complex(math.fabs(x), y - y)
        return complex(y - y, math.fabs(x) if x == 0.0 else y - y)
    if math.fabs(x) > 50.0:
        x = x - math.copysign(1.0, x)
        return complex(math.cos(y) * math.cosh(x) * math.e, math.sin(y) * math.sinh(x) * math.e)
    return complex(math.cos(y) * math.cosh(x), math.sin(y) * math.sinh(x))


def sinh(z: Any) -> Any:
    x, y = z.real, z.imag
    if y == 0.0:
        return complex(math.sinh(x), y)
    if not math.isfinite(y):
        if math.isinf(x):
            return complex(math.fabs(x) if math.isnan(y) else x, y - y)
        return complex(math.fabs(x) if x == 0.0 else y - y, y - y)
    if math.fabs(x) > 50.0:
        x = x - math.copysign(1.0, x)
        return complex(math.cos(y) * math.sinh(x) * math.e, math.sin(y) * math.cosh(x) * math.e)
    return complex(math.cos(y) * math.sinh(x), math.sin(y) * math.cosh(x))


def tanh(z: Any) -> Any:
    x, y = z.real, z.imag
    if not math.isfinite(y):
        if math.isinf(x):
            return complex(math.copysign(1.0, x), 0.0)
        return complex(y - y, y - y)
    if y == 0.0:
        return complex(math.tanh(x), y)
    # With t = tanh(x) and u = tan(y): (t + iu) / (1 + itu), whose denominator is real once it is multiplied out.
    t = math.tanh(x)
    u = math.tan(y)
    secant = 1.0 / math.cosh(x)
    both = t * u
    size = 1.0 + both * both
    return complex(t * (1.0 + u * u) / size, u / size * secant * secant)


def cos(z: Any) -> Any:
    return cosh(complex(-z.imag, z.real))


def sin(z: Any) -> Any:
    found = sinh(complex(-z.imag, z.real))
    return complex(found.imag, -found.real)


def tan(z: Any) -> Any:
    found = tanh(complex(-z.imag, z.real))
    return complex(found.imag, -found.real)


# their inverses


def _log_twice(x: Any, y: Any) -> Any:
    """``log(2 * hypot(x, y))`` of large parts."""
    return math.log(math.hypot(x / 2.0, y / 2.0)) + 2.0 * _LN2


def acos(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.isinf(y) or math.isinf(x) or math.fabs(x) > _LARGE or math.fabs(y) > _LARGE:
        angle = math.atan2(math.fabs(y), x)
        if math.isnan(x) or math.isnan(y):
            if math.isinf(x):
                return complex(y, math.fabs(x))
            return complex(x, -y) if math.isinf(y) else complex(x + y, x + y)
        return complex(angle, -math.copysign(_log_twice(x, y), y))
    if math.isnan(y) and x == 0.0:
        return complex(math.pi / 2.0 + x * x, y)
    left = sqrt(complex(1.0 - x, -y))
    right = sqrt(complex(1.0 + x, y))
    imag = math.asinh(right.real * left.imag - right.imag * left.real)
    return complex(2.0 * math.atan2(left.real, right.real), imag)


def acosh(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.isinf(x) or math.isinf(y) or math.fabs(x) > _LARGE or math.fabs(y) > _LARGE:
        if math.isnan(x) or math.isnan(y):
            if math.isinf(x) or math.isinf(y):
                return complex(math.fabs(x) if math.isinf(x) else math.fabs(y), y if math.isnan(y) else x)
            return complex(x + y, x + y)
        return complex(_log_twice(x, y), math.atan2(y, x))
    left = sqrt(complex(x - 1.0, y))
    right = sqrt(complex(x + 1.0, y))
    real = math.asinh(left.real * right.real + left.imag * right.imag)
    return complex(real, 2.0 * math.atan2(left.imag, right.real))


def asinh(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.isinf(x) or math.isinf(y) or math.fabs(x) > _LARGE or math.fabs(y) > _LARGE:
        if math.isnan(x) or math.isnan(y):
            if math.isinf(x):
                return complex(x, y)
            if math.isinf(y):
                return complex(math.fabs(y), x)
            return complex(x + y, x + y)
        return complex(math.copysign(_log_twice(x, y), x), math.atan2(y, math.fabs(x)))
    if math.isnan(x) and y == 0.0:
        return complex(x, y)
    left = sqrt(complex(1.0 + y, -x))
    right = sqrt(complex(1.0 - y, x))
    real = math.asinh(left.real * right.imag - right.real * left.imag)
    return complex(real, math.atan2(y, left.real * right.real - left.imag * right.imag))


def atanh(z: Any) -> Any:
    x, y = z.real, z.imag
    if math.isnan(x) or math.isnan(y):
        if math.isinf(y):
            return complex(0.0, math.copysign(math.pi / 2.0, y))
        if math.isinf(x):
            return complex(math.copysign(0.0, x), y)
        return complex(x if x == 0.0 else x + y, x + y)
    if math.isinf(x) or math.isinf(y) or math.fabs(x) > _LARGE or math.fabs(y) > _LARGE:
        # 1 / z to first order; the angle is a quarter turn, on the side of the cut that the zero's sign tells.
        size = math.hypot(x / 2.0, y / 2.0)
        real = math.copysign(0.0, x) if math.isinf(size) else x / 4.0 / size / size
        return complex(real, math.copysign(math.pi / 2.0, y))
    width = math.fabs(x)
    if width == 1.0 and math.fabs(y) < 1e-19:
        if y == 0.0:
            return complex(math.copysign(_INF, x), y)
        height = math.fabs(y)
        real = (math.log(math.hypot(height, 2.0)) - math.log(height)) / 2.0
        return complex(math.copysign(real, x), math.copysign(math.atan2(2.0, -height) / 2.0, y))
    gap = 1.0 - width
    real = math.log1p(4.0 * width / (gap * gap + y * y)) / 4.0
    return complex(math.copysign(real, x), -math.atan2(-2.0 * y, gap * (1.0 + width) - y * y) / 2.0)


def asin(z: Any) -> Any:
    found = asinh(complex(-z.imag, z.real))
    return complex(found.imag, -found.real)


def atan(z: Any) -> Any:
    found = atanh(complex(-z.imag, z.real))
    return complex(found.imag, -found.real)


# tests


def isclose(a: Any, b: Any, rel_tol: Any, abs_tol: Any) -> Any:
    """Whether ``a`` and ``b`` are as close as one of the tolerances asks; an infinity only to itself."""
    if a.real == b.real and a.imag == b.imag:
        return True
    if math.isinf(a.real) or math.isinf(a.imag) or math.isinf(b.real) or math.isinf(b.imag):
        return False
    most = max(abs(a), abs(b))
    return abs(a - b) <= max(rel_tol * most, abs_tol)


# NumPy's order of complex numbers: by the real parts, then by the imaginary ones


def less(a: Any, b: Any) -> Any:
    """``a < b``; a NaN in a part that counts makes it false."""
    if a.real == b.real:
        return a.imag < b.imag
    return a.real < b.real and a.imag == a.imag and b.imag == b.imag


def less_equal(a: Any, b: Any) -> Any:
    """``a <= b``, likewise."""
    if a.real == b.real:
        return a.imag <= b.imag
    return a.real < b.real and a.imag == a.imag and b.imag == b.imag


def greater(a: Any, b: Any) -> Any:
    """``a > b``, likewise."""
    return less(b, a)


def greater_equal(a: Any, b: Any) -> Any:
    """``a >= b``, likewise."""
    return less_equal(b, a)


def maximum(a: Any, b: Any) -> Any:
    """The later, or a NaN among the two."""
    return a if less_equal(b, a) or a != a else b


def minimum(a: Any, b: Any) -> Any:
    """The earlier, or a NaN among the two."""
    return a if less_equal(a, b) or a != a else b


def maximum_of_numbers(a: Any, b: Any) -> Any:
    """The later; the other one of a NaN."""
    return a if less_equal(b, a) or b != b else b


def minimum_of_numbers(a: Any, b: Any) -> Any:
    """The earlier; the other one of a NaN."""
    return a if less_equal(a, b) or b != b else b


def sign(z: Any) -> Any:
    """``z / abs(z)``, and 0 for 0."""
    return z if z == 0.0 else z / abs(z)


#: NumPy's functions of two numbers in that order.
ORDERED: dict[Any, str] = {
    less: "less",
    less_equal: "less_equal",
    greater: "greater",
    greater_equal: "greater_equal",
    maximum: "maximum",
    minimum: "minimum",
    maximum_of_numbers: "fmax",
    minimum_of_numbers: "fmin",
}

#: Functions of one complex number with a complex result -> how they are spelled.
FUNCTIONS: dict[Any, tuple[str, ...]] = {
    exp: ("cmath.exp", "numpy.exp"),
    exp2: ("numpy.exp2",),
    expm1: ("numpy.expm1",),
    log: ("numpy.log",),
    log2: ("numpy.log2",),
    log10: ("cmath.log10", "numpy.log10"),
    log1p: ("numpy.log1p",),
    sign: ("numpy.sign",),
    sqrt: ("cmath.sqrt", "numpy.sqrt"),
    cos: ("cmath.cos", "numpy.cos"),
    sin: ("cmath.sin", "numpy.sin"),
    tan: ("cmath.tan", "numpy.tan"),
    cosh: ("cmath.cosh", "numpy.cosh"),
    sinh: ("cmath.sinh", "numpy.sinh"),
    tanh: ("cmath.tanh", "numpy.tanh"),
    acos: ("cmath.acos", "numpy.arccos"),
    asin: ("cmath.asin", "numpy.arcsin"),
    atan: ("cmath.atan", "numpy.arctan"),
    acosh: ("cmath.acosh", "numpy.arccosh"),
    asinh: ("cmath.asinh", "numpy.arcsinh"),
    atanh: ("cmath.atanh", "numpy.arctanh"),
}
