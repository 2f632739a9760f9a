# SPDX-License-Identifier: Apache-2.0
"""Every function of ``cuda.libdevice`` by its own name, on arguments of moderate size, against what Python computes."""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.lang.libdevice import FUNCTIONS

COUNT = 24


def norm(*xs: float) -> float:
    return math.sqrt(math.fsum(x * x for x in xs))


def bits(kind: str, value: Any) -> Any:
    """``value`` read as another type of its size: ``"d>q"``."""
    return struct.unpack(f"<{kind[2]}", struct.pack(f"<{kind[0]}", value))[0]


def solve(function: Callable[[float], float], wanted: float) -> float:
    """Where an ascending function has a value, within -7 and 7."""
    low, high = -7.0, 7.0
    for _ in range(90):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < wanted else (low, middle)
    return low


def mean_over_half_turn(function: Callable[[Any], Any]) -> float:
    """The mean over 0 to pi, for functions that are smooth and periodic there: trapezoids are exact enough."""
    values = function(np.linspace(0, math.pi, 2001))
    return float((values.sum() - (values[0] + values[-1]) / 2) / 2000)


def bessel_j(n: int, x: float) -> float:
    return mean_over_half_turn(lambda t: np.cos(n * t - x * np.sin(t)))


def bessel_i(n: int, x: float) -> float:
    return mean_over_half_turn(lambda t: np.exp(x * np.cos(t)) * np.cos(n * t))


def bessel_y(n: int, x: float) -> float:
    """By the integrals of the Digital Library of Mathematical Functions, 10.9.7, in Simpson's rule."""
    t = np.linspace(0, math.pi, 20001)
    first = np.sin(x * np.sin(t) - n * t)
    u = np.linspace(0, 12, 200001)
    second = (np.exp(n * u) + (-1) ** n * np.exp(-n * u)) * np.exp(-x * np.sinh(u))
    return (simpson(first, t[1]) - simpson(second, u[1])) / math.pi


def simpson(values: Any, step: float) -> float:
    return float(step / 3 * (values[0] + values[-1] + 4 * values[1:-1:2].sum() + 2 * values[2:-1:2].sum()))


def cdf(x: float) -> float:
    return 0.5 * math.erfc(-x / math.sqrt(2))


ROUNDED = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}

#: Name, without the mark of its type and of a rounding mode -> the same in Python.
REFERENCES: dict[str, Callable[..., Any]] = {
    **{name: getattr(math, name) for name in (
        "acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "erf", "erfc", "exp", "expm1", "fabs",
        "floor", "ceil", "log", "log10", "log1p", "log2", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "lgamma",
        "atan2", "copysign", "fmod", "hypot", "pow", "remainder", "ldexp", "frexp",
    )},
    "cbrt": lambda x: x ** (1 / 3), "rcbrt": lambda x: x ** (-1 / 3), "rsqrt": lambda x: x**-0.5,
    "cospi": lambda x: math.cos(math.pi * x), "sinpi": lambda x: math.sin(math.pi * x),
    "exp2": lambda x: 2.0**x, "exp10": lambda x: 10.0**x, "tgamma": math.gamma,
    "erfcx": lambda x: math.exp(x * x) * math.erfc(x), "normcdf": cdf, "normcdfinv": lambda y: solve(cdf, y),
    "erfinv": lambda y: solve(math.erf, y), "erfcinv": lambda y: -solve(lambda x: math.erfc(-x), y),
    "j0": lambda x: bessel_j(0, x), "j1": lambda x: bessel_j(1, x), "jn": bessel_j,
    "y0": lambda x: bessel_y(0, x), "y1": lambda x: bessel_y(1, x), "yn": bessel_y,
    "cyl_bessel_i0": lambda x: bessel_i(0, x), "cyl_bessel_i1": lambda x: bessel_i(1, x),
    "rint": round, "nearbyint": round, "llrint": round, "round": lambda x: math.floor(x + 0.5),
    "llround": lambda x: math.floor(x + 0.5), "logb": lambda x: math.frexp(x)[1] - 1,
    "ilogb": lambda x: math.frexp(x)[1] - 1, "saturate": lambda x: min(max(x, 0), 1), "rcp64h": lambda x: 1 / x,
    "rcp": lambda x: 1 / x, "add": lambda x, y: x + y, "sub": lambda x, y: x - y, "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y, "fdivide": lambda x, y: x / y, "fdim": lambda x, y: max(x - y, 0), "fmax": max,
    "fmin": min, "nextafter": lambda x, y: x, "rhypot": lambda x, y: 1 / math.hypot(x, y),
    "fma": lambda x, y, z: x * y + z, "norm3d": norm, "norm4d": norm, "rnorm3d": lambda *x: 1 / norm(*x),
    "rnorm4d": lambda *x: 1 / norm(*x), "powi": lambda x, n: x**n, "scalbn": lambda x, n: x * 2**n,
    "sincos": lambda x: (math.sin(x), math.cos(x)),
    "sincospi": lambda x: (math.sin(math.pi * x), math.cos(math.pi * x)),
    "modf": math.modf, "remquo": lambda x, y: (math.remainder(x, y), round((x - math.remainder(x, y)) / y) & 7),
    "norm": lambda n, x: norm(*x[:n]), "rnorm": lambda n, x: 1 / norm(*x[:n]),
    "signbit": lambda x: int(math.copysign(1, x) < 0), "isnan": math.isnan, "isinf": math.isinf,
    "finite": math.isfinite, "isfinite": math.isfinite,
    "float_as_int": lambda x: bits("f>i", x), "float_as_uint": lambda x: bits("f>I", x),
    "int_as_float": lambda n: bits("i>f", n), "uint_as_float": lambda n: bits("I>f", n),
    "double_as_longlong": lambda x: bits("d>q", x), "longlong_as_double": lambda n: bits("q>d", n),
    "double2hiint": lambda x: bits("d>q", x) >> 32, "double2loint": lambda x: bits("I>i", bits("d>Q", x) & 0xFFFFFFFF),
    "hiloint2double": lambda high, low: bits("Q>d", high << 32 | low),
    "half2float": lambda n: bits("H>e", n), "float2half": lambda x: bits("e>H", x),
    "abs": abs, "llabs": abs, "max": max, "min": min, "llmax": max, "llmin": min, "umax": max, "umin": min,
    "ullmax": max, "ullmin": min, "clz": lambda n: 32 - n.bit_length(), "clzll": lambda n: 64 - n.bit_length(),
    "ffs": lambda n: (n & -n).bit_length(), "ffsll": lambda n: (n & -n).bit_length(), "popc": int.bit_count,
    "popcll": int.bit_count, "brev": lambda n: int(f"{n:032b}"[::-1], 2), "brevll": lambda n: int(f"{n:064b}"[::-1], 2),
    "hadd": lambda a, b: (a + b) >> 1, "uhadd": lambda a, b: (a + b) >> 1, "rhadd": lambda a, b: (a + b + 1) >> 1,
    "urhadd": lambda a, b: (a + b + 1) >> 1, "mul24": lambda a, b: a * b, "umul24": lambda a, b: a * b,
    "mulhi": lambda a, b: a * b >> 32, "umulhi": lambda a, b: a * b >> 32, "mul64hi": lambda a, b: a * b >> 64,
    "umul64hi": lambda a, b: a * b >> 64, "sad": lambda a, b, c: abs(a - b) + c, "usad": lambda a, b, c: abs(a - b) + c,
    "byte_perm": lambda a, b, c: sum((((b << 32 | a) >> 8 * (c >> 4 * n & 7)) & 255) << 8 * n for n in range(4)),
}  # fmt: skip


def reference(name: str) -> Callable[..., Any]:
    """What Python computes in the place of a function."""
    if name in REFERENCES:
        return REFERENCES[name]
    base = name.removeprefix("fast_")
    converted = re.fullmatch(r"(float|double|int|uint|ll|ull)2(float|double|int|uint|ll|ull)_(r[nzdu])", base)
    if converted:
        floats = ("float", "double")
        return ROUNDED[converted[3]] if converted[1] in floats and converted[2] not in floats else float
    base = re.sub(r"(_ieee)?_r[nzdu]$", "", base)
    for candidate in (base, base.removesuffix("f"), base[:-1] if base[-1:] in "fd" else base, base[1:]):
        if candidate in REFERENCES:
            return REFERENCES[candidate]
    raise KeyError(name)


def column(kind: str, name: str, position: int, seed: int) -> Any:
    """Arguments of one type: floats within 0.3 and 0.9 (for acosh above 1), small integers."""
    random = np.random.default_rng(seed)
    if kind.startswith("float"):
        shift = 1 if "acosh" in name else 0
        scale = 20 if "2" in name and "_r" in name else 1
        return (random.uniform(0.3, 0.9, COUNT) * scale + shift).astype(kind)
    if name in ("int_as_float", "uint_as_float", "longlong_as_double", "hiloint2double", "half2float") and not position:
        high = {"half2float": 15000, "longlong_as_double": 1 << 62}.get(name, 1 << 30)
        return random.integers(high // 4, high, COUNT).astype(kind)
    return random.integers(1, 4 if name[:2] in ("jn", "yn", "no", "rn") else 9, COUNT).astype(kind)


def one(function: Any) -> Any:
    def kernel(out, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i])

    return kernel


def two(function: Any) -> Any:
    def kernel(out, x, y):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i], y[i])

    return kernel


def three(function: Any) -> Any:
    def kernel(out, x, y, z):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i], y[i], z[i])

    return kernel


def four(function: Any) -> Any:
    def kernel(out, x, y, z, w):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(x[i], y[i], z[i], w[i])

    return kernel


def of_vector(function: Any) -> Any:
    def kernel(out, n, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i] = function(n[i], x)

    return kernel


def pair(function: Any) -> Any:
    def kernel(out, more, x):
        i = cuda.grid(1)
        if i < out.size:
            out[i], more[i] = function(x[i])

    return kernel


def pair_of_two(function: Any) -> Any:
    def kernel(out, more, x, y):
        i = cuda.grid(1)
        if i < out.size:
            out[i], more[i] = function(x[i], y[i])

    return kernel


MAKERS = {(1, 1): one, (1, 2): two, (1, 3): three, (1, 4): four, (2, 1): pair, (2, 2): pair_of_two}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_result(run, name: str) -> None:
    signature = FUNCTIONS[name]
    arguments, results = signature.arguments, signature.results
    vector = any("[" in kind for kind in arguments)
    columns = [column(kind.partition("[")[0], name, n, 7 * n + 1) for n, kind in enumerate(arguments)]
    outs = [np.zeros(COUNT, kind) for kind in results]
    maker = of_vector if vector else MAKERS[len(results), len(arguments)]
    kernel = maker(getattr(cuda.libdevice, name))
    kernel.label = f"libdevice {name}"
    arrays = [*outs, *columns]
    run(kernel, ", ".join(f"{array.dtype}[::1]" for array in arrays), 1, 32, *outs, *columns)
    call = reference(name)
    for i in range(COUNT):
        given = [values.tolist() if vector and n else values[i].item() for n, values in enumerate(columns)]
        wanted = call(*given)
        for out, value in zip(outs, wanted if len(outs) == 2 else (wanted,), strict=True):
            coarse = name.startswith("fast_") or name == "rcp64h"
            tolerance = 2e-3 if coarse else 2e-5 if "float32" in (*results, *arguments) else 1e-9
            if out.dtype.kind == "f":
                assert math.isclose(out[i], value, rel_tol=tolerance, abs_tol=tolerance / 10), (given, out[i], value)
            else:
                assert int(out[i]) == value, (given, out[i], value)
