# SPDX-License-Identifier: Apache-2.0
"""Every function of ``math`` and NumPy, and Python's own, in two kernels: where all threads go and where some do.

Each kernel against itself run by Python. How exact functions are is told by ``test_functions.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from interpret import run_python

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS

UNCONTRACTED = DEFAULT_OPTIONS.replace(fma=False)


def of_math(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    out[i, 0] = math.acos(v) + math.asin(v) + math.atan(v) + math.atan2(v, x[0])
    out[i, 1] = math.acosh(v + 1) + math.asinh(v) + math.atanh(v)
    out[i, 2] = math.ceil(v * 9) + math.floor(v * 9) + math.trunc(float(v) * 9)
    out[i, 3] = math.copysign(v, -1) + math.fabs(-v) + math.fmod(v, 0.25)
    out[i, 4] = math.cos(v) + math.sin(v) + math.tan(v)
    out[i, 5] = math.cosh(v) + math.sinh(v) + math.tanh(v)
    out[i, 6] = math.degrees(v) + math.radians(v)
    out[i, 7] = math.erf(v) + math.erfc(v) + math.gamma(v) + math.lgamma(v)
    out[i, 8] = math.exp(v) + math.expm1(v)
    out[i, 9] = math.hypot(v, x[0]) + math.remainder(v, 0.25)
    out[i, 10] = math.log(v) + math.log10(v) + math.log1p(v) + math.log2(v) + math.log(v, 3)
    out[i, 11] = math.ldexp(v, int(n[i])) + math.nextafter(v, 2)
    fraction, whole = math.modf(v * 9)
    out[i, 12] = whole * 100 + fraction
    out[i, 13] = math.pow(v, 1.5) + math.sqrt(v)
    out[i, 14] = math.isnan(v) + 2 * math.isinf(v) + 4 * math.isfinite(v)
    out[i, 15] = math.gcd(n[i] * 6, 15)


def of_math_apart(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    if i % 3 == 0:
        out[i, 0] = math.sin(v) * math.cos(v) * math.tan(v) + math.asin(v) - math.acos(v)
        out[i, 1] = math.atan(v) * math.atan2(x[0], v)
        out[i, 2] = math.sinh(v) * math.cosh(v) * math.tanh(v)
        out[i, 3] = math.asinh(v) * math.acosh(1 + v) + math.atanh(v)
        out[i, 4] = math.exp(-v) * math.expm1(v)
        out[i, 5] = math.gcd(n[i], n[0])
        if math.isfinite(v) and not math.isnan(v) and not math.isinf(v):
            out[i, 6] = math.erf(v) * math.erfc(v) * math.gamma(v + 1) * math.lgamma(v + 3)
    elif i % 3 == 1:
        out[i, 0] = math.log(1 + v) * math.log2(1 + v) * math.log10(1 + v) * math.log1p(v)
        out[i, 1] = math.pow(v, v) * math.sqrt(v) * math.hypot(v, 2)
        out[i, 2] = math.degrees(v) * math.radians(v)
        for k in range(n[i] % 3):
            out[i, 3] += math.fmod(v, 0.5) * math.remainder(v, 0.5) * math.copysign(v, k - 1) * math.fabs(k - v)
        whole, fraction = math.modf(v * 9)[::-1]
        out[i, 4] = whole * 10 + fraction
        out[i, 5] = math.floor(v * 7) * 100 + math.ceil(v * 7) * 10 + math.trunc(float(v) * 7)
        out[i, 6] = math.ldexp(v, 3) - math.nextafter(v, 0)


def of_newer_math(x, n, out):
    i = cuda.grid(1)
    out[i, 0] = math.cbrt(x[i]) + math.exp2(x[i])


def of_newer_math_apart(x, n, out):
    i = cuda.grid(1)
    if i % 2:
        out[i, 0] = math.cbrt(x[i])
    else:
        out[i, 0] = math.exp2(x[i])


def of_numpy(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    out[i, 0] = np.arccos(v) + np.arcsin(v) + np.arctan(v) + np.arctan2(v, x[0])
    out[i, 1] = np.arccosh(v + 1) + np.arcsinh(v) + np.arctanh(v)
    out[i, 2] = np.ceil(v * 9) + np.floor(v * 9) + np.trunc(v * 9) + np.rint(v * 9)
    out[i, 3] = np.copysign(v, x[0] - 1) + np.fabs(-v) + np.absolute(-v) + np.fmod(v, x[0])
    out[i, 4] = np.cos(v) + np.sin(v) + np.tan(v)
    out[i, 5] = np.cosh(v) + np.sinh(v) + np.tanh(v)
    out[i, 6] = np.degrees(v) + np.radians(v) + np.rad2deg(v) + np.deg2rad(v)
    out[i, 7] = np.exp(v) + np.exp2(v) + np.expm1(v)
    out[i, 8] = np.log(v) + np.log10(v) + np.log1p(v) + np.log2(v)
    out[i, 9] = np.ldexp(v, n[i]) + np.nextafter(v, x[0])
    out[i, 10] = np.hypot(v, x[0]) + np.cbrt(v) + np.sqrt(v)
    out[i, 11] = np.isnan(v) * 1 + np.isinf(v) * 2 + np.isfinite(v) * 4


def of_numpy_apart(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    if n[i] % 2:
        out[i, 0] = np.arccos(v) * np.arcsin(v) * np.arctan(v) * np.arctan2(x[0], v)
        out[i, 1] = np.arccosh(1 + v) * np.arcsinh(v) * np.arctanh(v)
        out[i, 2] = np.ceil(v * 5) * 1000 + np.floor(v * 5) * 100 + np.trunc(v * 5) * 10 + np.rint(v * 5)
        out[i, 3] = np.copysign(v, -v) * np.fabs(v) * np.abs(v - 1) * np.fmod(v, x[1])
        out[i, 4] = np.cos(v) * np.sin(v) * np.tan(v)
    elif np.isfinite(v) and not np.isnan(v) and not np.isinf(v):
        out[i, 0] = np.cosh(v) * np.sinh(v) * np.tanh(v)
        out[i, 1] = np.degrees(v) * np.radians(v) + np.rad2deg(v) * np.deg2rad(v)
        out[i, 2] = np.exp(v) * np.exp2(v) * np.expm1(v)
        out[i, 3] = np.log(1 + v) * np.log10(1 + v) * np.log1p(v) * np.log2(1 + v)
        out[i, 4] = np.ldexp(v, 2) * np.nextafter(v, v + 1)
        out[i, 5] = np.hypot(v, v) * np.cbrt(v) * np.sqrt(v)


def of_python(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    k = n[i]
    out[i, 0] = abs(-v) + min(v, x[0]) + max(v, x[1], x[2])
    out[i, 1] = round(v * 9) + int(v * 9) + float(k) + bool(k)
    out[i, 2] = pow(v, 2) + pow(k, 2)
    q, r = divmod(k, 3)
    out[i, 3] = q * 10 + r + len(n)
    for j in range(1, 8, 3):
        out[i, 4] += j * v


def of_python_apart(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    k = n[i]
    if k % 2:
        out[i, 0] = pow(2, k % 5) + abs(k - 5)
        out[i, 1], out[i, 2] = divmod(-k, 4)
        for j in range(k % 4, 0, -1):
            out[i, 3] += max(j, v)
    else:
        out[i, 0] = round(v * 5 - 2) + int(-v * 5)
        out[i, 1] = float(k) / len(x) if bool(k) else min(v, 0.5)


def casts(x, n, out):
    i = cuda.grid(1)
    v = x[i] * 300 - 100
    k = n[i] - 7
    out[i, 0] = np.int8(k) + np.int16(v) + np.int32(v) + np.int64(v)
    out[i, 1] = np.uint8(k) + np.uint16(k) + np.uint32(n[i])
    out[i, 2] = np.uint64(n[i])
    out[i, 3] = np.float16(k) + np.float32(v) + np.float64(v)
    out[i, 4] = np.bool_(k)


def casts_apart(x, n, out):
    i = cuda.grid(1)
    k = n[i]
    if k % 3 == 0:
        out[i, 0] = np.int8(k) * np.int16(k) - np.int32(k)
        out[i, 1] = np.int64(x[i] * 10) + np.bool_(k - 3)
    elif k % 3 == 1:
        out[i, 0] = np.uint8(k) * np.uint16(k) + np.uint32(k)
        out[i, 1] = np.uint64(k)
    else:
        out[i, 0] = np.float16(k) / np.float32(3)
        out[i, 1] = np.float64(x[i]) * np.float32(k)


KERNELS = [of_math, of_math_apart, of_numpy, of_numpy_apart, of_python, of_python_apart, casts, casts_apart]
if hasattr(math, "cbrt"):  # Python 3.11
    KERNELS += [of_newer_math, of_newer_math_apart]


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, name):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.05, 0.95, 64).astype(name)
    n = rng.integers(0, 20, 64).astype(np.int32)
    out, expected = np.zeros((64, 16), name), np.zeros((64, 16), name)
    run(kernel, f"{name}[::1], int32[::1], {name}[:, ::1]", 2, 32, x, n, out, options=UNCONTRACTED)
    run_python(kernel, (2, 1, 1), (32, 1, 1), x, n, expected)
    near = {"float32": 3e-6, "float64": 1e-13}[name]
    np.testing.assert_allclose(out, expected, rtol=near, atol=near)
