# SPDX-License-Identifier: Apache-2.0
"""Results under ``literals="numba"``: what its types change, on every device."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from launching import Run

from cudabuild import cuda, device_function
from cudabuild.definition import DEFAULT_OPTIONS

NUMBA = DEFAULT_OPTIONS.replace(literals="numba")
DEBUG = NUMBA.replace(debug=True, opt=0)


def integers(out: Any, a: Any, b: Any) -> None:
    out[0] = a + b  # int32, in 64 bits
    out[1] = a * b
    out[2] = a << 20
    out[3] = a // 0
    out[4] = a % 0
    out[5] = -a
    out[6] = cuda.threadIdx.x - 1
    out[7] = int(7.9)
    out[8] = 2**40


def floats(out: Any, x: Any, n: Any) -> None:
    out[0] = x[0] * 0.1  # float32 by float64
    out[1] = x[0] + 1
    out[2] = n / 2
    out[3] = 1 / 0
    out[4] = n / 0
    out[5] = x[0] ** 2
    out[6] = math.floor(x[0])
    total = 0
    for _ in range(3):
        total += x[0]
    out[7] = total
    out[8] = x[0] / 3


def unsigned(out: Any, u: Any) -> None:
    out[0] = u + 1
    out[1] = min(u, 3.5)
    out[2] = u >> 1


def rounded(out: Any, x: Any, digits: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        out[i] = round(x[i], digits)


def rounded_each(out: Any, x: Any, digits: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        out[i] = round(x[i], digits[i])


def extremes(out: Any, x: Any, y: Any) -> None:
    out[0] = min(x[0], y[0])
    out[1] = max(x[0], y[0])
    out[2] = min(y[0], x[0])
    out[3] = max(y[0], x[0])
    out[4] = max(x[0], y[0], 2)
    out[5] = min(math.nan, 3.0)


def divided(out: Any, x: Any, y: Any) -> None:
    out[0] = x[0] / y[0]
    out[1] = 1.0


def test_integers_are_64_bits_wide(run: Run) -> None:
    out = np.zeros(9, np.int64)
    big = np.int32(2**31 - 1)
    run(integers, "int64[::1], int32, int32", 1, 1, out, big, big, options=NUMBA)
    wide = int(big)
    assert list(out) == [2 * wide, wide * wide, wide << 20, 0, 0, -wide, -1, 7, 2**40]


def test_floats_beside_literals_are_float64(run: Run) -> None:
    out = np.zeros(9, np.float64)
    x = np.array([1.1], np.float32)
    run(floats, "float64[::1], float32[::1], int64", 1, 1, out, x, 7, options=NUMBA)
    value = float(x[0])
    square = float(x[0] * x[0])
    expected = [value * 0.1, value + 1, 3.5, math.inf, math.inf, square, 1.0, value + value + value, value / 3]
    assert list(out) == expected


def test_the_largest_unsigned_integers(run: Run) -> None:
    out = np.zeros(3, np.float64)
    run(unsigned, "float64[::1], uint64", 1, 1, out, 2**63, options=NUMBA)
    assert list(out) == [float(-(2**63) + 1), 3.5, float(2**62)]


@pytest.mark.parametrize("digits", [-3, -1, 0, 1, 2, 5, 12])
def test_rounding_to_digits(run: Run, digits: int) -> None:
    x = np.array([0.125, 2.5, 1234.5678, -0.375, 1e300, math.inf, -math.inf, math.nan, 0.0, 15.0, 25.0])
    out = np.zeros_like(x)
    run(rounded, "float64[::1], float64[::1], int64", 1, 32, out, x, digits, options=NUMBA)
    expected = [round(float(value), digits) for value in x]
    np.testing.assert_array_equal(out, expected)


def test_rounding_is_exact(run: Run) -> None:
    """Numbers beside and on decimal ties, where a product alone would decide wrongly."""
    rng = np.random.default_rng(7)
    wholes = rng.integers(-(10**6), 10**6, 2000)
    digits = rng.integers(-6, 15, 2000)
    ties = [(2 * int(whole) + 1) / 2 * 10.0 ** -int(count) for whole, count in zip(wholes, digits, strict=True)]
    x = np.array([*ties, *np.nextafter(ties, np.inf), *np.nextafter(ties, -np.inf), 2.675, 1.005, 0.15, -0.25, 5e-324])
    counts = np.array([*digits, *digits, *digits, 2, 2, 1, 1, 3])
    out = np.zeros_like(x)
    blocks = -(-x.size // 128)
    run(rounded_each, "float64[::1], float64[::1], int64[::1]", blocks, 128, out, x, counts, options=NUMBA)
    expected = [round(float(value), int(count)) for value, count in zip(x, counts, strict=True)]
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


def test_rounding_keeps_float32(run: Run) -> None:
    x = np.array([0.125, 2.675, 33.35], np.float32)
    out = np.zeros_like(x)
    run(rounded, "float32[::1], float32[::1], int64", 1, 32, out, x, 2, options=NUMBA)
    np.testing.assert_allclose(out, [round(float(value), 2) for value in x], rtol=1e-7)


@pytest.mark.parametrize(("first", "second"), [("float32", "float32"), ("float64", "float32"), ("float16", "float16")])
def test_extremes_pass_over_a_nan(run: Run, first: str, second: str) -> None:
    """As C's fmin and fmax: the other number, on whichever side the NaN is."""
    for a, b in ((1.5, -2.25), (math.nan, 1.5), (1.5, math.nan), (math.nan, math.nan), (math.inf, math.nan)):
        out = np.zeros(6)
        x, y = np.array([a], first), np.array([b], second)
        run(extremes, f"float64[::1], {first}[::1], {second}[::1]", 1, 1, out, x, y, options=NUMBA)
        low, high = np.fmin(x, y)[0], np.fmax(x, y)[0]
        np.testing.assert_array_equal(out, [low, high, low, high, np.fmax(high, 2), 3.0])
    out = np.zeros(6)
    zeros = (np.array([0.0], first), np.array([-0.0], second))
    run(extremes, f"float64[::1], {first}[::1], {second}[::1]", 1, 1, out, *zeros, options=NUMBA)
    assert list(np.signbit(out[:4])) == [True, False, True, False]


def whole_divided(out: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    out[i] = x[i] // 4
    out[i] = x[i] // y[i]
    out[i] += x[i] % y[i]


def test_a_thread_ends_where_it_divides_an_integer_by_zero(run: Run) -> None:
    x, y, out = np.array([17, 9, 5]), np.array([5, 0, 2]), np.zeros(3, np.int64)
    with pytest.raises(ZeroDivisionError, match="integer division or modulo by zero"):
        run(whole_divided, "int64[::1], int64[::1], int64[::1]", 1, 3, out, x, y, options=DEBUG)
    assert list(out) == [5, 2, 3]


def reciprocal(x: Any) -> Any:
    return 1.0 / x


def store_reciprocals(x: Any, out: Any, i: Any) -> None:
    for k in range(4):
        out[i, k] = 1.0 / x[i, k]


def divides_below(x: Any, out: Any) -> None:
    i = cuda.grid(1)
    store_reciprocals(x, out, i)
    if x[i, 0] > 0:
        out[i, 3] = reciprocal(x[i, 3]) + 1.0
    cuda.syncthreads()
    out[i, 0] = out[(i + 1) % 4, 1]


def test_a_thread_ends_where_it_divides_by_zero(run: Run) -> None:
    """In the function that divides; one with a result goes on, and barriers do not wait for threads that ended."""
    x = np.arange(1.0, 17.0).reshape(4, 4)
    x[2, 1] = x[1, 0] = 0.0
    out = np.zeros((4, 4))
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run(divides_below, "float64[:, ::1], float64[:, ::1]", 1, 4, x, out, options=DEBUG)
    expected = np.zeros((4, 4))
    for i in range(4):
        for k in range(4):
            if x[i, k] == 0.0:
                break
            expected[i, k] = 1.0 / x[i, k]
        if x[i, 0] > 0:
            expected[i, 3] = 1.0 / x[i, 3] + 1.0
    expected[:, 0] = expected[[1, 2, 3, 0], 1]
    np.testing.assert_array_equal(out, expected)


def test_a_float_division_by_zero_is_an_error_under_debug(run: Run) -> None:
    out = np.zeros(2)
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run(divided, "float64[::1], float64[::1], float64[::1]", 1, 1, out, np.ones(1), np.zeros(1), options=DEBUG)
    assert list(out) == [0.0, 0.0]  # the thread ends there
    fast = DEBUG.replace(fastmath=True)
    run(divided, "float64[::1], float64[::1], float64[::1]", 1, 1, out, np.ones(1), np.zeros(1), options=fast)
    assert list(out) == [math.inf, 1.0]


def _plus_one(x: Any) -> Any:
    return x + 1


_weakly = device_function(literals="weak")(_plus_one)
_as_numba = device_function(literals="numba")(_plus_one)


def _each_table(out: Any, x: Any) -> None:
    out[0] = _weakly(x[0])
    out[1] = _as_numba(x[0])
    out[2] = _plus_one(x[0])
    out[3] = _weakly(x[0])


@pytest.mark.parametrize(("literals", "plain"), [("weak", 1.0), ("numba", 1.0 + float(np.float32(3e-8)))])
def test_one_function_under_several_decorators(run: Run, literals: str, plain: float) -> None:
    """float32 + 1 is a float32 or a float64; a function without a decorator does as its caller does."""
    out, x = np.zeros(4), np.array([3e-8], np.float32)
    run(_each_table, "float64[::1], float32[::1]", 1, 1, out, x, options=DEFAULT_OPTIONS.replace(literals=literals))
    assert list(out) == [1.0, 1.0 + float(x[0]), plain, 1.0]


def zeros_of_two_signs(out: Any, x: Any, y: Any) -> None:
    out[0] = min(x[0], y[0])
    out[1] = max(y[0], x[0])
    out[2] = min(0.0, -0.0)
    out[3] = max(-0.0, 0.0)
    out[4] = min(-0.0, 0.0)
    out[5] = max(0.0, -0.0)


def test_constants_have_the_extremes_of_values(run: Run) -> None:
    out = np.ones(6)
    arguments = np.array([0.0]), np.array([-0.0])
    run(zeros_of_two_signs, "float64[::1], float64[::1], float64[::1]", 1, 1, out, *arguments, options=NUMBA)
    assert list(np.signbit(out)) == [True, False] * 3
    assert not out.any()


def ranges_of_floats(out: Any, x: Any) -> None:
    i = cuda.grid(1)
    for _ in range(math.floor(x[i])):
        out[i, 0] += 1
    for k in range(1, x[i], 2):
        out[i, 1] += k
    for k in range(x[i], -3.9, np.float32(-1.5)):
        out[i, 2] += k


def test_range_truncates_floats(run: Run) -> None:
    x, out = np.array([3.7, -2.5, 0.9, 7.0]), np.zeros((4, 3))
    run(ranges_of_floats, "float64[:, ::1], float64[::1]", 1, 4, out, x, options=NUMBA)
    wanted = [[max(0, math.floor(v)), sum(range(1, int(v), 2)), sum(range(int(v), -3, -1))] for v in x]
    np.testing.assert_array_equal(out, wanted)
