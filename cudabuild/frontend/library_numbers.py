# SPDX-License-Identifier: Apache-2.0
"""Functions of integers, of several numbers and of tables, written in the kernel language and compiled as device
functions. Where Python raises ValueError, integers are 0."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from cudabuild.types import float64, uint64

__all__ = [
    "are_close",
    "are_near",
    "binomial",
    "distance",
    "dot_product",
    "factorial",
    "heaviside",
    "interpolated",
    "permutations",
    "place_in",
    "power_of_ten",
    "product_of",
    "reciprocal",
    "rounded",
    "sinc",
    "spacing",
    "square_root",
    "unit_in_last_place",
]

#: Every power of ten that float64 holds exactly.
_POWERS = np.array([10.0**exponent for exponent in range(23)])


def factorial(n: Any) -> Any:
    """``n!`` modulo 2⁶⁴; from 66! on that is 0."""
    result = n * 0 + 1
    if n < 0 or n > 65:
        return n * 0
    for k in range(2, n + 1):
        result = result * k
    return result


def binomial(n: Any, k: Any) -> Any:
    """How many sets of ``k`` of ``n`` things there are: exact up to 2⁶³ for ``n`` below 2³¹.

    ``result * over`` is a multiple of ``i``, and divided before it is made.
    """
    if k < 0 or n < k:
        return n * 0
    if n - k < k:
        k = n - k
    result = n * 0 + 1
    for i in range(1, k + 1):
        over = n - k + i
        result = result // i * over + result % i * over // i
    return result


def permutations(n: Any, k: Any) -> Any:
    """``n * (n - 1) * …`` of ``k`` factors, modulo 2⁶⁴."""
    result = n * 0 + 1
    if k < 0 or n < k:
        return n * 0
    while k > 0 and result != 0:
        result = result * n
        n = n - 1
        k = k - 1
    return result


def square_root(n: Any) -> Any:
    """The whole part of the square root. That in float64 is off by one at most."""
    if n <= 0:
        return uint64(0)
    whole = uint64(n)
    root = uint64(math.sqrt(float64(whole)))
    if root > 4294967295:
        root = uint64(4294967295)
    if root * root > whole:
        root = root - 1
    elif whole - root * root > 2 * root:
        root = root + 1
    return root


def product_of(iterable: Any, start: Any = 1) -> Any:
    """Of a tuple or an array, in order."""
    result = start
    for value in iterable:
        result = result * value
    return result


def dot_product(p: Any, q: Any) -> Any:
    """The sum of the products of two tuples or arrays, in order."""
    total = 0
    for a, b in zip(p, q):  # noqa: B905 - the kernel language has no keywords of zip
        total = total + a * b
    return total


def distance(p: Any, q: Any) -> Any:
    """The Euclidean distance of two points, scaled by the largest difference so that nothing overflows; an infinity
    wins over a NaN."""
    largest = 0.0
    unknown = False
    for a, b in zip(p, q):  # noqa: B905
        difference = abs(a * 1.0 - b * 1.0)
        if difference > largest:
            largest = difference
        unknown = unknown or difference != difference
    if unknown and not math.isinf(largest):
        return largest * math.nan
    if largest == 0 or math.isinf(largest):
        return largest
    total = 0.0
    for a, b in zip(p, q):  # noqa: B905
        part = (a * 1.0 - b * 1.0) / largest
        total = total + part * part
    return largest * math.sqrt(total)


def are_close(a: Any, b: Any, relative: Any, absolute: Any) -> Any:
    """``math.isclose``."""
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    difference = abs(b - a)
    return difference <= abs(relative * b) or difference <= abs(relative * a) or difference <= absolute


def heaviside(x: Any, middle: Any) -> Any:
    """0 below zero, 1 above, ``middle`` at it; a NaN stays one."""
    if x == 0:
        return middle
    return 1.0 if x > 0 else 0.0 if x < 0 else x


def unit_in_last_place(x: Any) -> Any:
    """``math.ulp``."""
    x = abs(x)
    if x != x or math.isinf(x):
        return x
    above = math.nextafter(x, math.inf)
    return x - math.nextafter(x, 0.0) if math.isinf(above) else above - x


def spacing(x: Any) -> Any:
    """``numpy.spacing``: the way to the next number away from zero; an infinity has none."""
    if math.isinf(x):
        return x * 0.0
    above = math.nextafter(abs(x), math.inf) - abs(x)
    return -above if x < 0 else above


def sinc(x: Any) -> Any:
    """``numpy.sinc``: sin(πx) / πx, and 1 at 0."""
    if x == 0:
        return x * 0.0 + 1.0
    return math.sin(math.pi * x) / (math.pi * x)


def reciprocal(x: Any) -> Any:
    """``numpy.reciprocal`` of an integer: 1 / x without its fraction, and 0 of 0."""
    return x if x == 1 or x == -1 else x * 0


def power_of_ten(exponent: Any) -> Any:
    """As a float64, exact up to 10²²."""
    return _POWERS[exponent] if exponent <= 22 else 10.0**exponent


def rounded(x: Any, unit: Any, whole: Any) -> Any:
    """``numpy.round`` of a float: scaled, rounded to even, and scaled back, in the type of ``x``.

    ``unit`` is a power of ten, which ``x`` is divided by for digits before the point (``whole``).
    """
    if whole:
        return np.rint(x / unit) * unit
    return np.rint(x * unit) / unit


def interpolated(x: Any, xp: Any, fp: Any, left: Any, right: Any) -> Any:
    """``numpy.interp`` at ``x``, in float64: the polygon through the points; ``xp`` grows."""
    last = len(xp) - 1
    if x != x:
        return x
    if x > xp[last]:
        return right
    if x < xp[0]:
        return left
    low, high = 0, last
    while high - low > 1:
        middle = (low + high) // 2
        if xp[middle] <= x:
            low = middle
        else:
            high = middle
    if x == xp[last] or last == 0:
        return float64(fp[last])
    below, above = float64(fp[low]), float64(fp[low + 1])
    if x == xp[low]:
        return below
    slope = (above - below) / (float64(xp[low + 1]) - float64(xp[low]))
    found = slope * (x - float64(xp[low])) + below
    if found != found:  # an infinity among them: from the other side
        found = slope * (x - float64(xp[low + 1])) + above
        if found != found and below == above:
            found = below
    return found


def place_in(array: Any, value: Any, after: Any) -> Any:
    """``numpy.searchsorted``: how many elements of a sorted array lie before ``value``, or not ``after`` it."""
    low, high = 0, len(array)
    while low < high:
        middle = (low + high) // 2
        if array[middle] < value or (after and array[middle] == value):
            low = middle + 1
        else:
            high = middle
    return low


def are_near(a: Any, b: Any, relative: Any, absolute: Any, nan: Any) -> Any:
    """``numpy.isclose``, which measures by ``b``."""
    if a == b:
        return True
    if a != a or b != b:
        return nan and a != a and b != b
    if math.isinf(a) or math.isinf(b):
        return False
    return abs(a - b) <= absolute + relative * abs(b)
