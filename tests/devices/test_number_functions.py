# SPDX-License-Identifier: Apache-2.0
"""Functions of integers, of choices and of several numbers, against Python and NumPy themselves."""

from __future__ import annotations

import math
import operator
import warnings
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature

LARGE = [0, 1, 2, 3, 4, 15, 16, 17, 10**6, 2**31 - 1, 2**52 + 1, 10**18, 3037000499**2, 3037000499**2 - 1, 2**63 - 1]


def of_integers(n, k, out):
    i = cuda.grid(1)
    if i < n.size:
        a, b = n[i], k[i]
        out[i, 0] = math.isqrt(a)
        out[i, 1] = math.factorial(a % 21)
        out[i, 2] = math.comb(a % 62, b % 40)
        out[i, 3] = math.perm(a % 17, b % 9)
        out[i, 4] = math.perm(a % 10)
        out[i, 5] = math.gcd(a, b, 12) + 100 * math.gcd(b) + math.gcd()
        out[i, 6] = math.lcm(a % 100, b % 100, 6) + math.lcm()
        out[i, 7] = a.bit_length() + 100 * (-b).bit_length()
        out[i, 8] = int(np.bitwise_count(a)) + 100 * int(np.bitwise_count(-b))
        out[i, 9] = np.gcd(a, b) + np.lcm(a % 50, b % 50)


def test_functions_of_integers(run) -> None:
    n = np.array(LARGE, np.int64)
    k = np.array(LARGE[::-1], np.int64)
    out = np.zeros((n.size, 10), np.int64)
    run(of_integers, "int64[::1], int64[::1], int64[:, ::1]", 1, 32, n, k, out)
    for row, a, b in zip(out, LARGE, LARGE[::-1], strict=True):
        wanted = [
            math.isqrt(a), math.factorial(a % 21), math.comb(a % 62, b % 40), math.perm(a % 17, b % 9),
            math.factorial(a % 10), math.gcd(a, b, 12) + 100 * b, math.lcm(a % 100, b % 100, 6) + 1,
            a.bit_length() + 100 * b.bit_length(), a.bit_count() + 100 * b.bit_count(),
            math.gcd(a, b) + math.lcm(a % 50, b % 50),
        ]  # fmt: skip
        np.testing.assert_array_equal(row, np.array([w & (2**64 - 1) for w in wanted], np.uint64).view(np.int64))


def of_other_integers(small, wide, out):
    i = cuda.grid(1)
    if i < small.size:
        s, w = small[i], wide[i]
        out[i, 0] = math.isqrt(w)
        out[i, 1] = s.bit_length() + 100 * w.bit_length()
        out[i, 2] = int(np.bitwise_count(s)) + 100 * int(np.bitwise_count(w)) + 10_000 * int(np.bitwise_count(s > 0))
        out[i, 3] = math.factorial(s) + math.comb(s, 3) + math.perm(s, 3)  # of negative numbers 0
        out[i, 4] = int(np.reciprocal(s)) + 10 * int(np.reciprocal(w))
        out[i, 5] = int(np.clip(s, -3, 1000)) + 10 * int(np.clip(s, None, 4)) + 100 * int(np.clip(s, -1000, 2))
        out[i, 6] = int(np.where(s > 0, s, -1)) + int(np.where(w > 5, s, 1))
        quotient, rest = np.divmod(s, 3)
        out[i, 7] = int(quotient) + 1000 * int(rest)
        out[i, 8] = int(np.round(s, -1)) + int(np.around(w % 1000, -2)) + 7 * int(np.round(s))
        out[i, 9] = int(math.prod((s % 5, 3, 2), start=2)) + int(np.fix(s))


def test_functions_of_other_integers(run) -> None:
    small = np.array([-128, -7, -1, 0, 1, 5, 20, 127], np.int8)
    wide = np.array([2**64 - 1, (2**32 - 1) ** 2, (2**32 - 1) ** 2 - 1, 0, 1, 2, 2**53 + 1, 3], np.uint64)
    out = np.zeros((8, 10), np.int64)
    run(of_other_integers, "int8[::1], uint64[::1], int64[:, ::1]", 1, 32, small, wide, out)
    for row, s, w in zip(out, small, wide, strict=True):
        a, b = int(s), int(w)
        natural = 0 if a < 0 else math.factorial(a) + math.comb(a, 3) + math.perm(a, 3)
        inverse = {1: 1, -1: -1}
        ten = np.round(s, -1)
        wanted = [
            math.isqrt(b),
            a.bit_length() + 100 * b.bit_length(),
            a.bit_count() + 100 * b.bit_count() + 10_000 * (a > 0),
            natural,
            inverse.get(a, 0) + 10 * inverse.get(b, 0),
            max(a, -3) + 10 * min(a, 4) + 100 * min(a, 2),
            int(np.where(a > 0, a, -1)) + (a if b > 5 else 1),
            a // 3 + 1000 * (a % 3),
            int(ten) + int(np.round(b % 1000, -2)) + 7 * a,
            2 * (a % 5) * 6 + a,
        ]
        if a == 127:  # 127! ends in more than 64 zeros
            wanted[3] = math.comb(a, 3) + math.perm(a, 3)
        np.testing.assert_array_equal(row, wanted)


VALUES = [-math.inf, -1.5, -1.0, -0.0, 0.0, 0.25, 0.5, 1.0, 2.5, 3.5, 1e30, math.inf, math.nan]


def of_floats(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = np.where(a < b, a, b)
        out[1, i] = np.where(a > 0, a, 7)
        out[2, i] = np.heaviside(a, b)
        out[3, i] = np.reciprocal(a)
        out[4, i] = np.nan_to_num(a)
        out[5, i] = np.nan_to_num(a, nan=1.0, posinf=2.0, neginf=-3.0)
        out[6, i] = np.isposinf(a) + 2 * np.isneginf(a) + 4 * a.is_integer()
        out[7, i] = math.isclose(a, b) + 2 * math.isclose(a, b, rel_tol=0.6) + 4 * math.isclose(a, b, abs_tol=3.0)
        out[8, i] = np.isclose(a, b) + 2 * np.isclose(a, b, 0.6) + 4 * np.isclose(a, b, atol=3, equal_nan=True)
        out[9, i] = math.ulp(a)
        out[10, i] = np.spacing(a)
        fraction, whole = np.modf(a)
        out[11, i] = fraction
        out[12, i] = whole
        out[13, i] = np.fix(a)
        out[14, i] = np.round(a)
        out[15, i] = np.round(a, 1)
        out[16, i] = np.clip(a, 0, 2)
        out[17, i] = np.copysign(1, np.round(a))


def expected_of_floats(x: Any, y: Any) -> list[Any]:
    kind = x.dtype.type
    pairs = [(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    whole = np.array([math.isfinite(a) and a == math.floor(a) for a, _ in pairs])
    # NumPy's own of a float16 below zero goes the other way
    spacing = np.where(x < 0, -np.spacing(-x), np.spacing(x)) if kind is np.float16 else np.spacing(x)
    ulps = [
        kind(math.ulp(a)) if kind is np.float64 or not math.isfinite(a) else np.spacing(abs(kind(a))) for a, _ in pairs
    ]
    return [
        np.where(x < y, x, y),
        np.where(x > 0, x, 7),
        np.heaviside(x, y),
        np.reciprocal(x),
        np.nan_to_num(x),
        np.nan_to_num(x, nan=1.0, posinf=2.0, neginf=-3.0),
        np.isposinf(x) + 2 * np.isneginf(x) + 4 * whole,
        [
            math.isclose(a, b) + 2 * math.isclose(a, b, rel_tol=0.6) + 4 * math.isclose(a, b, abs_tol=3.0)
            for a, b in pairs
        ],
        np.isclose(x, y) + 2 * np.isclose(x, y, 0.6) + 4 * np.isclose(x, y, atol=3, equal_nan=True),
        ulps,
        spacing,
        *np.modf(x),
        np.fix(x),
        np.round(x),
        np.round(x, 1),
        np.clip(x, 0, 2),
        np.copysign(1, np.round(x)),
    ]


@pytest.mark.parametrize("kind", ["float16", "float32", "float64"])
def test_functions_of_floats(run, kind: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = np.array(VALUES, kind)
        y = np.array([*VALUES[5:], *VALUES[:5]], kind)
        out = np.zeros((18, x.size), kind)
        run(of_floats, f"{kind}[::1], {kind}[::1], {kind}[:, ::1]", 1, 32, x, y, out)
        wanted = expected_of_floats(x, y)
    for number, (found, row) in enumerate(zip(out, wanted, strict=True)):
        np.testing.assert_array_equal(found, np.asarray(row).astype(kind), err_msg=f"row {number}")


def of_several(x, out, xp, fp):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        out[0, i] = math.prod((a, 2, 0.5)) + math.prod(xp)
        out[1, i] = np.dot(xp, fp) * a
        out[2, i] = math.dist((a, 1.0, 2.0), (0.5, a, 3))
        out[3, i] = math.dist(xp, fp) + math.dist((a,), (1,))
        out[4, i] = math.hypot(a, 2.0, 3.0) + math.hypot(a) + math.hypot(a, 1)
        out[5, i] = np.interp(a, xp, fp)
        out[6, i] = np.interp(a, xp, fp, left=-5.0, right=a)
        out[7, i] = np.searchsorted(xp, a) + 10 * np.searchsorted(xp, a, side="right")
        out[8, i] = np.float_power(a, 2) + np.float_power(2, 3)
        out[9, i] = np.sinc(a)
        out[10, i] = np.round(a, 2) + np.round(a * 100, -1) + np.around(a, i % 3)
        out[11, i] = operator.contains((1.0, 2.0), a) + operator.inv(i)
        out[12, i] = np.interp(a, (0.0, 1.0), (5.0, 6.0)) + np.isclose(a, 1)


def test_functions_of_several_numbers(run) -> None:
    x = np.array([-1.0, 0.0, 0.4, 1.0, 1.7, 2.0, 3.25, 4.0, 9.0])
    xp, fp = np.array([0.0, 1.0, 2.0, 4.0]), np.array([1.0, 3.0, -2.0, 0.5])
    out = np.zeros((13, x.size))
    run(of_several, "float64[::1], float64[:, ::1], float64[::1], float64[::1]", 1, 32, x, out, xp, fp)
    wanted = [
        x + np.prod(xp),
        np.dot(xp, fp) * x,
        [math.dist((a, 1.0, 2.0), (0.5, a, 3)) for a in x],
        [math.dist(xp, fp) + abs(a - 1) for a in x],
        [math.hypot(a, 2.0, 3.0) + abs(a) + math.hypot(a, 1) for a in x],
        np.interp(x, xp, fp),
        np.where(x > 4, x, np.interp(x, xp, fp, left=-5.0)),
        np.searchsorted(xp, x) + 10 * np.searchsorted(xp, x, side="right"),
        np.float_power(x, 2) + 8,
        np.sinc(x),
        [np.round(a, 2) + np.round(a * 100, -1) + np.around(a, i % 3) for i, a in enumerate(x)],
        [(a in (1.0, 2.0)) + ~i for i, a in enumerate(x)],
        np.interp(x, (0.0, 1.0), (5.0, 6.0)) + np.isclose(x, 1),
    ]
    np.testing.assert_allclose(out, wanted, rtol=1e-14, atol=1e-300)


def distances(x, out):
    i = cuda.grid(1)
    if i < x.shape[0]:
        out[i] = math.dist((x[i, 0], x[i, 1], 0.0), (x[i, 2], 0.0, 0.0))


def test_distances_neither_overflow_nor_lose_an_infinity(run) -> None:
    rows = [
        (3e200, 4e200, 0.0),
        (3e-200, 4e-200, 0.0),
        (math.inf, math.nan, 0.0),
        (math.nan, 1.0, 0.0),
        (1.0, 0.0, 1.0),
    ]
    x, out = np.array(rows), np.zeros(5)
    run(distances, "float64[:, ::1], float64[::1]", 1, 32, x, out)
    np.testing.assert_allclose(out, [5e200, 5e-200, math.inf, math.nan, 0.0], rtol=1e-15)


def over_arrays(x, out, counts):
    np.heaviside(x, 0.5, out[0])
    np.reciprocal(x, out[1])
    np.spacing(x, out=out[2])
    np.float_power(x, (2.0), out[3])
    np.bitwise_count(counts, counts)


def test_over_arrays(run) -> None:
    x, counts = np.array([-2.0, 0.5, 4.0], np.float32), np.array([0, 7, 255], np.int32)
    out = np.zeros((4, 3), np.float32)
    run(over_arrays, "float32[::1], float32[:, ::1], int32[::1]", 1, 1, x, out, counts)
    np.testing.assert_array_equal(out, [np.heaviside(x, 0.5), 1 / x, np.spacing(x), x**2])
    assert list(counts) == [0, 3, 8]


def of_types(x, n, z, out):
    out[0] = np.where(n[0] > 0, n[0], x[0]) / 3  # int8 and float32 give float32
    out[1] = np.float_power(x[0], 0.5)  # a float64
    out[2] = np.interp(x[0], x, x)
    z[0] = np.where(x[0] > 5, z[0], x[0])
    z[1] = np.nan_to_num(z[1])
    z[2] = np.reciprocal(z[2])
    z[3] = np.round(z[3], 1)
    z[4] = np.float_power(z[4], 2)


def test_types_are_numpys(run) -> None:
    x, n = np.array([2.0, 3.0], np.float32), np.array([5], np.int8)
    z = np.array([1j, complex(math.nan, math.inf), 2 + 2j, 1.26 - 3.14j, 1 + 2j])
    wanted = [2, complex(0, np.finfo(float).max), 1 / (2 + 2j), 1.3 - 3.1j, (1 + 2j) ** 2]
    out = np.zeros(3)
    run(of_types, "float32[::1], int8[::1], complex128[::1], float64[::1]", 1, 1, x, n, z, out)
    assert out[0] == np.float32(5) / np.float32(3)
    assert abs(out[1] - math.sqrt(2.0)) < 1e-15
    assert out[2] == 2.0
    np.testing.assert_allclose(z, wanted, rtol=1e-15)


def where_of_arrays(x, out):
    out[0] = np.where(x > 0, x, 1)[0]


def where_of_one(x, out):
    out[0] = np.where(x[0])


def distance_of_numbers(x, out):
    out[0] = math.dist(x[0], x[1])


def searches_left_of(x, out):
    out[0] = np.searchsorted(x, 1.0, side=x[0])


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (where_of_arrays, "operator '>'"),
        (where_of_one, r"out\[i\] = numpy.where\(condition\[i\], x\[i\], y\[i\]\)"),
        (distance_of_numbers, "neither a tuple nor an array of one axis"),
        (searches_left_of, "side='left' or side='right'"),
    ],
)
def test_what_is_refused(kernel: Any, text: str) -> None:
    with pytest.raises(CompilationError, match=text):
        build_ir(KernelDefinition(kernel), parse_signature("float64[::1], float64[::1]"))


@pytest.mark.skipif(not hasattr(math, "sumprod"), reason="math.sumprod is new in Python 3.12")
def test_sum_of_products(run) -> None:
    x, out = np.array([1.0, 2.0, 3.0]), np.zeros(1)
    run(sums_products, "float64[::1], float64[::1]", 1, 1, x, out)
    assert out[0] == 14 + 11


def sums_products(x, out):
    out[0] = math.sumprod(x, x) + math.sumprod((1, 2), (3, 4))


@pytest.mark.skipif(not hasattr(math, "sumprod"), reason="math.sumprod is new in Python 3.12")
def test_sums_of_products_in_some_threads(run) -> None:
    x, out = np.array([1.0, 2.0, 3.0]), np.zeros(3)
    run(sums_some_products, "float64[::1], float64[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out, [14, -2, 9])


def sums_some_products(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if i % 2 == 0:
            out[i] = math.sumprod(x[i:], x[i:])
        else:
            out[i] = -x[i]


@pytest.mark.skipif(not hasattr(math, "fma"), reason="math.fma is new in Python 3.13")
def test_fused_multiply_add(run) -> None:
    x, out = np.array([1 + 2.0**-30, 1 - 2.0**-30]), np.zeros(1)
    run(fuses, "float64[::1], float64[::1]", 1, 1, x, out)
    assert out[0] == -(2.0**-60)


def fuses(x, out):
    out[0] = math.fma(x[0], x[1], -1.0)


@pytest.mark.skipif(not hasattr(math, "fma"), reason="math.fma is new in Python 3.13")
def test_fused_multiply_add_in_some_threads(run) -> None:
    x, out = np.array([1 + 2.0**-30, 3.0, 1 - 2.0**-30]), np.zeros(3)
    run(fuses_some, "float64[::1], float64[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out, [math.fma(x[0], x[0], -1.0), -3.0, math.fma(x[2], x[2], -1.0)])


def fuses_some(x, out):
    i = cuda.grid(1)
    if i < x.size:
        if i % 2 == 0:
            out[i] = math.fma(x[i], x[i], -1.0)
        else:
            out[i] = -x[i]


def products_and_rests(x, n, out):
    i = cuda.grid(1)
    if i < n.size and n[i] != 0:
        quotient, rest = np.divmod(x[i], n[i])
        out[0, i] = quotient + 100 * rest
        if i % 2:
            out[1, i] = np.dot(x[i:], x[i:])
        else:
            out[1, i] = np.sinc(x[i] / 4)


def test_products_and_rests(run) -> None:
    x = np.array([-7.5, 3.25, 0.0, 1.5, 2.0, -0.5])
    n = np.array([2, -3, 0, 4, 7, -1], np.int32)
    out = np.zeros((2, 6))
    run(products_and_rests, "float64[::1], int32[::1], float64[:, ::1]", 1, 32, x, n, out)
    wanted = np.zeros((2, 6))
    for i in np.flatnonzero(n):
        quotient, rest = np.divmod(x[i], n[i])
        wanted[:, i] = quotient + 100 * rest, np.dot(x[i:], x[i:]) if i % 2 else np.sinc(x[i] / 4)
    np.testing.assert_allclose(out, wanted, rtol=1e-13, atol=1e-13)
