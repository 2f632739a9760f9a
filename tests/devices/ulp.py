# SPDX-License-Identifier: Apache-2.0
"""How far a function's result may be from the correctly rounded one, and how far it is."""

from __future__ import annotations

from typing import Any

import numpy as np

from cudabuild.backend.libdevice import find_digest

__all__ = ["C_LIBRARY_ULP", "MAX_ULP", "bound_holds", "is_float", "limit_of", "same_bits", "ulp_distance"]

#: Function, by libdevice's name without ``__nv_`` and type suffix -> its largest error in float32 and in float64, in
#: units in the last place, counted from the correctly rounded result. Source: CUDA C++ Programming Guide 13.0, section
#: "Mathematical Functions", tables "Single-Precision" and "Double-Precision Mathematical Standard Library Functions
#: with Maximum ULP Error" (17 and 18 there). 0: rounded correctly, or exact; the last line's functions, which the
#: guide does not list, are exact by what they mean.
MAX_ULP: dict[str, tuple[int, int]] = {
    "add": (0, 0), "sub": (0, 0), "mul": (0, 0), "div": (0, 0), "sqrt": (0, 0), "fma": (0, 0),
    "rsqrt": (2, 1), "cbrt": (1, 1), "rcbrt": (1, 1),
    "hypot": (3, 2), "rhypot": (2, 1), "norm3d": (3, 2), "rnorm3d": (2, 1), "norm4d": (3, 2), "rnorm4d": (2, 1),
    "exp": (2, 1), "exp2": (2, 1), "exp10": (2, 1), "expm1": (1, 1),
    "log": (1, 1), "log2": (1, 1), "log10": (2, 1), "log1p": (1, 1),
    "sin": (2, 2), "cos": (2, 2), "tan": (4, 2), "sincos": (2, 2), "sinpi": (1, 2), "cospi": (1, 2), "sincospi": (1, 2),
    "asin": (2, 2), "acos": (2, 2), "atan": (2, 2), "atan2": (3, 2),
    "sinh": (3, 2), "cosh": (2, 1), "tanh": (2, 1), "asinh": (3, 3), "acosh": (4, 3), "atanh": (3, 2),
    "pow": (4, 2), "erf": (2, 2), "erfc": (4, 5), "erfinv": (2, 5), "erfcinv": (4, 6), "erfcx": (4, 4),
    "normcdf": (5, 5), "normcdfinv": (5, 8), "lgamma": (6, 4), "tgamma": (5, 10),
    "j0": (9, 7), "j1": (9, 7), "y0": (9, 7), "y1": (9, 7), "cyl_bessel_i0": (6, 6), "cyl_bessel_i1": (6, 6),
    "frexp": (0, 0), "ldexp": (0, 0), "scalbn": (0, 0), "scalbln": (0, 0), "logb": (0, 0), "ilogb": (0, 0),
    "fmod": (0, 0), "remainder": (0, 0), "remquo": (0, 0), "modf": (0, 0), "fdim": (0, 0),
    "trunc": (0, 0), "round": (0, 0), "rint": (0, 0), "nearbyint": (0, 0), "ceil": (0, 0), "floor": (0, 0),
    "copysign": (0, 0), "nextafter": (0, 0), "fabs": (0, 0), "fmin": (0, 0), "fmax": (0, 0),
}  # fmt: skip

#: Where the guide's figure does not hold: (function, type) -> an interval of the argument; "larger inside".
EXCEPT_INSIDE = {
    ("lgamma", "float32"): (-10.001, -2.264),
    ("lgamma", "float64"): (-23.0001, -2.2637),
}

_INTEGERS: dict[int, Any] = {2: np.int16, 4: np.int32, 8: np.int64}


#: Where the CPU device finds no libdevice and calls the C library, whose errors are sometimes larger in float64.
#: Source: GNU C Library manual 2.39, "Known Maximum Errors in Math Functions", x86_64.
C_LIBRARY_ULP = {"cbrt": 4, "cosh": 2, "log10": 2, "tanh": 2}


def limit_of(function: str, dtype: Any, kind: str = "gpu") -> int:
    """The most that ``function`` may be off on a device of this kind, in ulp of the result.

    A 16-bit float is computed in float32 and rounded once more: one unit at most where the function is not exact.
    """
    single, double = MAX_ULP[function]
    name = np.dtype(dtype).name
    if name in ("float16", "bfloat16"):
        return min(single, 1)
    if name == "float32":
        return single
    in_c = kind.startswith("cpu") and find_digest() is None
    return max(double, C_LIBRARY_ULP.get(function, 0)) if in_c else double


def bound_holds(function: str, x: Any) -> Any:
    """For each first argument in ``x``: whether the guide gives its bound there."""
    x = np.asarray(x)
    low, high = EXCEPT_INSIDE.get((function, x.dtype.name), (np.inf, -np.inf))
    return ~((x > low) & (x < high))


def is_float(dtype: Any) -> bool:
    """Whether it is a real floating type; NumPy takes ml_dtypes' for one without a kind."""
    return dtype.kind == "f" or dtype.name == "bfloat16"


def ulp_distance(a: Any, b: Any) -> Any:
    """How many floats lie between each element of ``a`` and of ``b``, plus one; a float64 array of the same shape.

    Both have one float type. Equal numbers, the two zeros, and two NaN are 0 apart; a NaN is infinitely far from every
    number. Infinity is one unit from the largest finite number, as if numbers went on.
    """
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    assert is_float(a.dtype), a.dtype
    steps = [_position(values) for values in (a, b)]
    high, low = np.maximum(*steps), np.minimum(*steps)
    apart = (high.astype(np.uint64) - low.astype(np.uint64)).astype(np.float64)  # wraps where signs differ: right so
    one, both = np.isnan(a) | np.isnan(b), np.isnan(a) & np.isnan(b)
    return np.where(both, 0.0, np.where(one, np.inf, apart))


def _position(values: Any) -> Any:
    """An int64 for each float, in their order, one apart for neighbours; 0 for both zeros."""
    bits = values.view(_INTEGERS[values.dtype.itemsize]).astype(np.int64)
    lowest = np.int64(-(1 << (8 * values.dtype.itemsize - 1)))  # the bits of -0.0
    return np.where(bits < 0, lowest - bits, bits)


def same_bits(a: Any, b: Any) -> Any:
    """Elementwise: the same bits, signs of zeros included; a NaN is any NaN, whose bits no device promises."""
    a, b = np.asarray(a), np.asarray(b)
    assert a.dtype == b.dtype, (a.dtype, b.dtype)
    if a.dtype.names is not None:
        fields = [same_bits(a[name], b[name]) for name in a.dtype.names]
        return np.logical_and.reduce([field.reshape(*a.shape, -1).all(axis=-1) for field in fields])
    if a.dtype.name == "bfloat16":
        return same_bits(a.astype(np.float32), b.astype(np.float32))
    if a.dtype.kind in "mM":
        return a.view(np.int64) == b.view(np.int64)  # not a time is not equal to itself
    if a.dtype.kind == "c":
        return same_bits(a.real, b.real) & same_bits(a.imag, b.imag)
    if is_float(a.dtype):
        return ((a == b) & (np.signbit(a) == np.signbit(b))) | (np.isnan(a) & np.isnan(b))
    return a == b
