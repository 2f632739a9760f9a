# SPDX-License-Identifier: Apache-2.0
"""NumPy's element functions on numbers, and Python's iterators, where all threads go and where some do.

Each kernel against itself run by Python.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from interpret import run_python

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS

UNCONTRACTED = DEFAULT_OPTIONS.replace(fma=False)


def arithmetic(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    out[i, 0] = np.add(v, x[0]) + np.subtract(v, x[0]) + np.multiply(v, x[1])
    out[i, 1] = np.divide(v, x[0]) + np.floor_divide(v, x[2]) + np.mod(v, x[2]) + np.power(v, x[2])
    out[i, 2] = np.negative(v) + np.positive(v) + np.square(v)
    out[i, 3] = np.minimum(v, x[0]) + np.maximum(v, x[1]) + np.fmin(v, x[2]) + np.fmax(v, x[3])
    out[i, 4] = np.logaddexp(v, x[0]) + np.logaddexp2(v, x[1])
    mantissa, exponent = np.frexp(v)
    out[i, 5] = mantissa * 100 + exponent
    mantissa, exponent = math.frexp(v)
    out[i, 6] = mantissa * 100 + exponent
    out[i, 7] = np.signbit(v - x[0])


def arithmetic_apart(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    if n[i] % 2:
        out[i, 0] = np.add(v, 1) * np.subtract(v, 2) * np.multiply(v, 3)
        out[i, 1] = np.divide(v, 3) + np.floor_divide(v, x[0]) - np.mod(v, x[0]) - np.power(x[0], v)
        out[i, 2] = np.logaddexp(x[0], v) * np.logaddexp2(x[1], v)
        mantissa, exponent = np.frexp(v * 5)
        out[i, 3] = mantissa + exponent
    else:
        out[i, 0] = np.negative(v) * np.positive(v) - np.square(v)
        out[i, 1] = np.minimum(v, 0.5) * np.maximum(v, 0.5) + np.fmin(v, x[0]) * np.fmax(v, x[0])
        mantissa, exponent = math.frexp(v * 7)
        out[i, 2] = mantissa + exponent
        out[i, 3] = np.signbit(x[0] - v)


def comparisons(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    less, equal = np.less(v, x[0]), np.equal(v, x[0])
    out[i, 0] = less + 2 * np.less_equal(v, x[0]) + 4 * np.greater(v, x[0]) + 8 * np.greater_equal(v, x[0])
    out[i, 1] = equal + 2 * np.not_equal(v, x[0])
    out[i, 2] = np.logical_and(less, equal) + 2 * np.logical_or(less, equal) + 4 * np.logical_xor(less, equal)
    out[i, 3] = np.logical_not(less)


def comparisons_apart(x, n, out):
    i = cuda.grid(1)
    v = x[i]
    if np.greater(n[i], 9):
        out[i, 0] = np.less(v, x[1]) + 2 * np.greater_equal(v, x[1])
        out[i, 1] = np.logical_and(n[i], 4) + 2 * np.logical_or(v > 2, n[i] == 12) + 4 * np.logical_not(n[i] - 12)
        if np.greater(v, x[2]):
            out[i, 2] = np.logical_xor(n[i], 1)
    else:
        out[i, 0] = np.equal(n[i], 5) + 2 * np.not_equal(n[i], 6) + 4 * np.less_equal(n[i], 7)


def integers(x, n, out):
    i = cuda.grid(1)
    k = n[i]
    out[i, 0] = np.bitwise_and(k, 6) + np.bitwise_or(k, 8) * 100 + np.bitwise_xor(k, 5) * 10_000
    out[i, 1] = np.invert(k) + np.left_shift(k, n[0] % 5) + np.right_shift(k, 1)
    out[i, 2] = np.gcd(k, n[0]) + 100 * np.lcm(k, n[1]) + math.lcm(int(k), 4)


def integers_apart(x, n, out):
    i = cuda.grid(1)
    k = n[i]
    if k % 3 == 0:
        out[i, 0] = np.bitwise_and(k, n[0]) - np.bitwise_or(k, n[1])
        out[i, 1] = np.gcd(k, 12) * np.lcm(k, 3)
    elif k % 3 == 1:
        out[i, 0] = np.bitwise_xor(k, 255) - np.invert(k)
        out[i, 1] = np.left_shift(k, 2) - np.right_shift(k, 2) - math.lcm(int(k), 6)


def iterators(x, n, out):
    i = cuda.grid(1)
    for place, value in enumerate((x[i], x[0], 0.25)):
        out[i, 0] += place * value
    for a, b in zip((1, 2, 3), (x[i], x[1], x[2]), strict=False):
        out[i, 1] += a * b
    for value in reversed((x[i], x[0], x[1])):
        out[i, 2] = out[i, 2] * 0.5 + value
    out[i, 3] = all((x[i] > 0.2, n[i] > 3)) + 2 * any((x[i] > 0.9, n[i] > 15))
    if isinstance(n, np.ndarray):
        out[i, 4] = 1


def iterators_apart(x, n, out):
    i = cuda.grid(1)
    if n[i] % 2:
        for place, value in enumerate((n[i], 3, 4), 1):
            out[i, 0] += place * value
        out[i, 1] = 1 if all((n[i] > 5, x[i] < 0.5)) else 2
        if isinstance(1, int):
            out[i, 2] = 5
    elif any((n[i] > 8, x[i] < 0.1)):
        for a, b in zip((n[i], 2), (5, x[i]), strict=False):
            out[i, 0] += a * b
        for value in reversed((1, 2, n[i])):
            out[i, 1] = out[i, 1] * 2 + value


KERNELS = [
    arithmetic, arithmetic_apart, comparisons, comparisons_apart, integers, integers_apart, iterators, iterators_apart
]  # fmt: skip


@pytest.mark.parametrize("name", ["float32", "float64"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, name):
    rng = np.random.default_rng(3)
    x = rng.uniform(0.05, 0.95, 64).astype(name)
    n = rng.integers(1, 20, 64).astype(np.int32)
    out, expected = np.zeros((64, 8), name), np.zeros((64, 8), name)
    run(kernel, f"{name}[::1], int32[::1], {name}[:, ::1]", 2, 32, x, n, out, options=UNCONTRACTED)
    run_python(kernel, (2, 1, 1), (32, 1, 1), x, n, expected)
    near = {"float32": 3e-6, "float64": 1e-13}[name]
    np.testing.assert_allclose(out, expected, rtol=near, atol=near)


def shapes(a, out):
    i = cuda.grid(1)
    out[i, 0] = np.reshape(a, (6, 4))[i % 6, 1]
    out[i, 1] = np.ravel(a)[i]
    out[i, 2] = np.transpose(a)[i % 8, i % 3]
    out[i, 3] = a[1][slice(2, 5)][i % 3]


def shapes_apart(a, out):
    i = cuda.grid(1)
    if i % 2:
        out[i, 0] = np.reshape(a, (4, 6))[i % 4, i % 6] + np.ravel(a)[23 - i]
    else:
        out[i, 1] = np.transpose(a)[7 - i % 8, i % 3] + a[2][slice(3, 8)][i % 5]


@pytest.mark.parametrize("kernel", [shapes, shapes_apart])
def test_shapes(run, kernel):
    a = np.arange(24, dtype=np.int32).reshape(3, 8)
    out, expected = np.zeros((24, 4), np.int32), np.zeros((24, 4), np.int32)
    run(kernel, "int32[:, ::1], int32[:, ::1]", 2, 12, a, out)
    run_python(kernel, (2, 1, 1), (12, 1, 1), a, expected)
    np.testing.assert_array_equal(out, expected)


def parts(z, out):
    i = cuda.grid(1)
    out[i, 0] = np.real(z[i]) + 2 * np.imag(z[i])
    out[i, 1] = np.angle(z[i])
    out[i, 2] = np.real(np.conj(z[i]) * z[i])


def parts_apart(z, out):
    i = cuda.grid(1)
    if np.real(z[i]) > 0:
        out[i, 0] = np.imag(np.conj(z[i]))
    else:
        out[i, 0] = np.angle(z[i])


@pytest.mark.parametrize(("name", "part"), [("complex64", "float32"), ("complex128", "float64")])
@pytest.mark.parametrize("kernel", [parts, parts_apart])
def test_parts_of_complex_numbers(run, kernel, name, part):
    rng = np.random.default_rng(5)
    z = (rng.normal(size=64) + 1j * rng.normal(size=64)).astype(name)
    out, expected = np.zeros((64, 3), part), np.zeros((64, 3), part)
    run(kernel, f"{name}[::1], {part}[:, ::1]", 2, 32, z, out, options=UNCONTRACTED)
    run_python(kernel, (2, 1, 1), (32, 1, 1), z, expected)
    np.testing.assert_allclose(out, expected, rtol=4 * np.finfo(part).eps)
