# SPDX-License-Identifier: Apache-2.0
"""The ``operator`` module, NumPy's element functions on scalars, and ``sum``, ``any``, ``all``."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

from cudabuild import cuda

A = np.array([7, -7, 12, 0, 5], np.int32)
B = np.array([2, 3, -5, 4, 5], np.int32)
X = np.array([1.5, -2.25, np.nan, 0.0, -0.0, np.inf, 3.0])
Y = np.array([2.0, -3.0, 1.0, np.nan, 0.0, 5.0, 3.0])


def arithmetic(a, b, out, quotients):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = operator.add(a[i], b[i])
        out[1, i] = operator.isub(a[i], b[i])
        out[2, i] = operator.mul(a[i], b[i])
        out[3, i] = operator.floordiv(a[i], b[i])
        out[4, i] = operator.mod(a[i], b[i])
        out[5, i] = operator.xor(a[i], b[i])
        out[6, i] = operator.and_(a[i], operator.invert(b[i]))
        out[7, i] = operator.lshift(a[i], 3) + operator.rshift(b[i], 1)
        out[8, i] = operator.neg(a[i]) + operator.pos(b[i]) + operator.abs(a[i])
        out[9, i] = np.add(a[i], np.multiply(b[i], 2))
        out[10, i] = np.floor_divide(a[i], b[i]) + np.remainder(a[i], b[i])
        out[11, i] = np.bitwise_or(a[i], np.left_shift(b[i], 1))
        out[12, i] = operator.pow(a[i], 2) + np.power(b[i], 3)
        quotients[0, i] = operator.truediv(a[i], b[i])
        quotients[1, i] = np.divide(a[i], b[i])


def test_arithmetic(run) -> None:
    out, quotients = np.zeros((13, A.size), np.int32), np.zeros((2, A.size))
    run(arithmetic, "int32[::1], int32[::1], int32[:, ::1], float64[:, ::1]", 1, 32, A, B, out, quotients)
    expected = [
        A + B, A - B, A * B, A // B, A % B, A ^ B, A & ~B, (A << 3) + (B >> 1), -A + B + abs(A), A + B * 2,
        A // B + A % B, A | (B << 1), A**2 + B**3,
    ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(quotients, [A / B, A / B])


def comparisons(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = operator.eq(x[i], y[i])
        out[1, i] = operator.ne(x[i], y[i])
        out[2, i] = operator.lt(x[i], y[i])
        out[3, i] = np.less_equal(x[i], y[i])
        out[4, i] = np.greater(x[i], y[i])
        out[5, i] = operator.ge(x[i], y[i])
        out[6, i] = np.logical_and(x[i], y[i])
        out[7, i] = np.logical_or(x[i], y[i])
        out[8, i] = np.logical_xor(x[i], y[i])
        out[9, i] = np.logical_not(x[i])
        out[10, i] = operator.truth(x[i]) and operator.not_(y[i])
        out[11, i] = np.signbit(x[i])


def test_comparisons(run) -> None:
    out = np.zeros((12, X.size), np.bool_)
    run(comparisons, "float64[::1], float64[::1], bool[:, ::1]", 1, 32, X, Y, out)
    expected = [
        X == Y, X != Y, X < Y, X <= Y, X > Y, X >= Y, np.logical_and(X, Y), np.logical_or(X, Y), np.logical_xor(X, Y),
        np.logical_not(X), X.astype(bool) & ~Y.astype(bool), np.signbit(X),
    ]  # fmt: skip
    np.testing.assert_array_equal(out, expected)


def elements(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = np.maximum(x[i], y[i])
        out[1, i] = np.minimum(x[i], y[i])
        out[2, i] = np.fmax(x[i], y[i])
        out[3, i] = np.fmin(x[i], y[i])
        out[4, i] = np.square(x[i])
        out[5, i] = np.sign(x[i])
        out[6, i] = np.clip(x[i], -1.0, 2.0)
        out[7, i] = np.logaddexp(x[i], y[i])
        out[8, i] = np.logaddexp2(x[i], y[i])


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_element_functions(run, kind) -> None:
    x, y = X.astype(kind), Y.astype(kind)
    out = np.zeros((9, X.size), kind)
    run(elements, f"{kind}[::1], {kind}[::1], {kind}[:, ::1]", 1, 32, x, y, out)
    with np.errstate(invalid="ignore"):
        sums = [np.logaddexp(x, y), np.logaddexp2(x, y)]
    expected = [
        np.maximum(x, y), np.minimum(x, y), np.fmax(x, y), np.fmin(x, y), np.square(x), np.sign(x), np.clip(x, -1, 2),
        *sums,
    ]  # fmt: skip
    np.testing.assert_allclose(out, expected, rtol=1e-6 if kind == "float32" else 1e-14)


def whole_numbers(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = math.gcd(a[i], b[i])
        out[1, i] = math.lcm(a[i], b[i])
        out[2, i] = np.maximum(a[i], b[i])
        out[3, i] = np.sign(a[i])
        out[4, i] = np.clip(a[i], -3, 6)


def test_functions_of_whole_numbers(run) -> None:
    out = np.zeros((5, A.size), np.int32)
    run(whole_numbers, "int32[::1], int32[::1], int32[:, ::1]", 1, 32, A, B, out)
    np.testing.assert_array_equal(out, [np.gcd(A, B), np.lcm(A, B), np.maximum(A, B), np.sign(A), np.clip(A, -3, 6)])


def split(x, mantissas, exponents):
    i = cuda.grid(1)
    if i < x.size:
        mantissas[i], exponents[i] = math.frexp(x[i])


@pytest.mark.parametrize("kind", ["float64", "float32"])
def test_mantissa_and_exponent(run, kind) -> None:
    limits = np.finfo(kind)
    powers = 2.0 ** np.arange(-100, 100, dtype=kind)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, limits.max, -limits.tiny, limits.smallest_subnormal, 3e-39]
    parts = [
        np.array(special, kind),
        powers,
        np.nextafter(powers, 0, dtype=kind),
        np.nextafter(powers, 1e30, dtype=kind),
    ]
    x = np.concatenate(parts)
    mantissas, exponents = np.zeros(x.size, kind), np.zeros(x.size, np.int32)
    run(split, f"{kind}[::1], {kind}[::1], int32[::1]", 4, 256, x, mantissas, exponents)
    expected = np.frexp(x)
    np.testing.assert_array_equal(mantissas, expected[0])
    np.testing.assert_array_equal(np.signbit(mantissas), np.signbit(x))
    finite = np.isfinite(x)
    np.testing.assert_array_equal(exponents[finite], expected[1][finite])


def totals(x, out, flags):
    i = cuda.grid(1)
    if i == 0:
        out[0] = sum(x)
        out[1] = sum((1, 2.5, x[0]), 10)
        out[2] = sum(x[1:3])
        flags[0] = any(x)
        flags[1] = all(x)
        flags[2] = any((x[2] > 100, x[1] > 1))
        flags[3] = all((x[2] > 100, x[1] > 1))


def test_sums_of_tuples_and_arrays(run) -> None:
    x = np.array([0.0, 2.0, 3.0, 4.5])
    out, flags = np.zeros(3), np.zeros(4, np.bool_)
    run(totals, "float64[::1], float64[::1], bool[::1]", 1, 1, x, out, flags)
    np.testing.assert_array_equal(out, [9.5, 13.5, 5.0])
    np.testing.assert_array_equal(flags, [True, False, True, False])


def inversions(masks, x, out):
    i = cuda.grid(1)
    if i < masks.size:
        out[0, i] = ~masks[i]
        out[1, i] = np.invert(masks[i])
        out[2, i] = ~(x[i] > 1)
        out[3, i] = 1 if ~masks[i] else 0
        out[4, i] = masks[i] & ~(x[i] > 1)
        out[5, i] = np.add(masks[i], x[i] > 1)


def test_bools_are_those_of_numpy(run) -> None:
    masks, x, out = np.array([True, False, True, False]), np.array([0.0, 1.0, 2.0, 3.0]), np.zeros((6, 4), np.int8)
    run(inversions, "bool[::1], float64[::1], int8[:, ::1]", 1, 4, masks, x, out)
    np.testing.assert_array_equal(out, [~masks, ~masks, ~(x > 1), ~masks, masks & ~(x > 1), np.add(masks, x > 1)])
