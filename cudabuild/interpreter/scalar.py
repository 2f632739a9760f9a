# SPDX-License-Identifier: Apache-2.0
"""Operations on single values, with the types and results of the compiled kernels: atomics, bits, fma."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["FUNCTIONS", "update"]


def update(name: str, array: Any, index: Any, *values: Any) -> Any:
    """``atomic.<name>``; returns the old value."""
    if name == "compare_and_swap":
        index, values, name = (0,) * array.ndim, (index, *values), "cas"
    old = array[index]
    given = [_convert(value, array.dtype) for value in values]
    if name == "cas":
        if old.tobytes() == given[0].tobytes():
            array[index] = given[1]
        return old
    array[index] = _UPDATES[name](old, given[0])
    return old


def _convert(value: Any, dtype: Any) -> Any:
    return np.asarray(value).astype(dtype)[()]


def _extreme(choose: Any) -> Any:
    return lambda old, value: old if old != old or value != value else choose(old, value)


_UPDATES: dict[str, Any] = {
    "add": lambda old, value: old + value,
    "sub": lambda old, value: old - value,
    "and_": lambda old, value: old & value,
    "or_": lambda old, value: old | value,
    "xor": lambda old, value: old ^ value,
    "inc": lambda old, value: 0 if old >= value else old + 1,
    "dec": lambda old, value: value if old == 0 or old > value else old - 1,
    "exch": lambda old, value: value,
    "max": _extreme(max),
    "min": _extreme(min),
    "nanmax": np.fmax,
    "nanmin": np.fmin,
}


def _bits(x: Any) -> tuple[int, int]:
    """An integer's bits as a number, and how many there are; a Python number has 64."""
    width = x.dtype.itemsize * 8 if isinstance(x, np.generic) else 64
    return int(x) & ((1 << width) - 1), width


def _brev(x: Any) -> Any:
    bits, width = _bits(x)
    turned = int(f"{bits:0{width}b}"[::-1], 2)
    if isinstance(x, np.generic):
        return _convert(np.uint64(turned), x.dtype)
    return turned - (1 << 64) if turned >> 63 else turned


def _clz(x: Any) -> int:
    bits, width = _bits(x)
    return width - bits.bit_length()


def _ffs(x: Any) -> int:
    bits, _ = _bits(x)
    return (bits & -bits).bit_length()


def _same(value: Any) -> Any:
    return value


def _selp(condition: Any, a: Any, b: Any) -> Any:
    if not isinstance(a, np.generic) and not isinstance(b, np.generic):
        chosen = a if condition else b
        return float(chosen) if isinstance(a, float) or isinstance(b, float) else chosen
    return _convert(a if condition else b, np.result_type(a, b))


def _fma(a: Any, b: Any, c: Any) -> Any:
    typed = [value.dtype for value in (a, b, c) if isinstance(value, np.floating)]
    kind = np.result_type(*typed) if typed else np.dtype(float)
    x, y, z = (float(value) for value in (a, b, c))
    if not all(map(math.isfinite, (x, y, z))):
        result = x * y + z
    else:
        result = _round(Fraction(x) * Fraction(y) + Fraction(z), x * y + z, kind.itemsize)
    return _convert(result, kind) if typed else result


def _round(exact: Fraction, zero: float, size: int) -> float:
    """``exact`` rounded to odd in float64, from which narrower types round correctly; to nearest for float64 itself."""
    if exact == 0:
        return zero if zero == 0 else 0.0
    try:
        near = float(exact)
    except OverflowError:
        return math.copysign(math.inf, exact)
    if size == 8 or math.isinf(near) or Fraction(near) == exact:
        return near
    other = float(np.nextafter(near, math.inf if exact > Fraction(near) else -math.inf))
    return near if int(np.float64(near).view(np.int64)) & 1 else other


def _cbrt(x: Any) -> Any:
    return np.cbrt(x) if isinstance(x, np.floating) else float(np.cbrt(float(x)))


def _rsqrt(x: Any) -> Any:
    root = np.sqrt(x if isinstance(x, np.floating) else np.float64(x))
    result = root.dtype.type(1) / root
    return result if isinstance(x, np.floating) else float(result)


#: Kernel-side names that depend on their arguments alone.
FUNCTIONS: dict[str, Any] = {
    "popc": lambda x: bin(_bits(x)[0]).count("1"),
    "brev": _brev,
    "clz": _clz,
    "ffs": _ffs,
    "selp": _selp,
    "literal_unroll": _same,
    "literally": _same,
    "fma": _fma,
    "cbrt": _cbrt,
    "rsqrt": _rsqrt,
}
