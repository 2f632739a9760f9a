# SPDX-License-Identifier: Apache-2.0
"""Control flow, scopes and integer arithmetic as Python has them: each kernel against itself run by Python."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cudabuild import cuda


def loops_with_else(x, o):
    # for-else/while-else/break/continue
    s = 0
    for i in range(10, 0, -3):
        if i == 4:
            continue
        for j in range(i):
            if j == x[0]:
                break
            s += j
        else:
            s += 100
    else:
        s += 1000
    while s > 0:
        s -= 7
        if s == 5:
            break
    else:
        s = -s
    o[0] = s
    o[1] = i
    o[2] = j


def assignments(x, o):
    a, b = 1, 2
    for _ in range(x[1]):
        a, b = b, a + b
    o[0], o[1] = a, b
    c = d = x[2]
    c += 1
    o[2] = c * 10 + d
    (p, (q, r)) = (1, (x[0], 3))
    o[3] = p + q * r
    if (w := x[1]) > 2:
        o[4] = w
    o[5] = 1 < x[1] < 5 != x[0]
    o[6] = x[0] if x[0] > 3 else (x[1] if x[1] > 3 else x[2])
    o[7] = (x[0] and x[1]) or x[2]
    o[8] = not x[0]
    o[9] = -7 // x[1]
    o[10] = -7 % x[1]
    o[11] = 7 // -x[1]
    o[12] = 7 % -x[1]
    o[13] = x[-1]
    o[14] = o[-20]
    o[-1] = 77


def fact(n):
    if n <= 1:
        return 1
    return n * fact(n - 1)


def early(a, b):
    while True:
        if a > b:
            return a
        a += 1
        if a == 4:
            return -1


def multi(a):
    if a > 0:
        return a, True
    return 0, False


def functions(x, o):
    o[0] = fact(x[1] + 3)
    o[1] = early(x[0], x[1])
    v, ok = multi(x[1])
    o[2] = v if ok else -5
    v, ok = multi(-x[1])
    o[3] = v if ok else -5
    o[4] = 3 ** x[1]
    o[5] = x[1] ** 3
    o[6] = 2**-1 == 0.5
    o[7] = (-3) ** 3
    o[8] = x[1] << 3
    o[9] = -x[1] >> 1
    o[10] = ~x[1]
    o[11] = x[1] & 6 | 1 ^ 3
    o[12] = abs(-x[1])
    o[13] = min(x[0], x[1], 2)
    o[14] = max(3, x[1])
    o[15] = round(2.5)
    o[16] = round(3.5)
    o[17] = int(-2.7)
    o[18] = math.floor(-2.1)
    t = (1, x[0], 3)
    o[19] = t[x[2] % 3] if len(t) == 3 else 0


def nested_loops(x, o):
    n = 0
    for i in range(3):
        for j in range(3):
            if i == j:
                continue
            if i * j == 2:
                break
            n += i * 10 + j
        n += 1000
        if n > 5000:
            return
    o[0] = n
    i = 5
    for i in range(0):  # noqa: B007  (leaves i as it was)
        pass
    o[1] = i
    for k in range(5):
        k = k * 2
        o[2] += k
    for a in (1, x[0], 5):
        o[3] += a
    s = 0
    for e in x:
        s += e
    o[4] = s
    o[5] = sum_of(x)


def sum_of(a):
    t = 0
    for i in range(len(a)):
        t += a[i]
    return t


def joins_and_slices(x, o):
    f = 0
    for _ in range(4):
        f = f + x[0] / 2
    o[0] = int(f * 10)
    g = 1
    while g < 100:
        g = g * 2 + x[2]
    o[1] = g
    h = x[0]
    if h > 2:
        h = h * 1.5
    o[2] = int(h * 2)
    b = True
    b = b + 1
    o[3] = b
    m = x[:3]
    o[4] = m[2] + m.size
    r = x[::-1]
    o[5] = r[0]
    o[6] = x[1:][0] + x[-2:][1]
    o[7] = x[1:100].size
    o[8] = x[5:2].size
    o[9] = x[::2].shape[0]
    o[10] = x[-100:2].size
    o[11] = x[::-2].size
    o[12] = x[3:0:-1][0]


KERNELS = [loops_with_else, assignments, functions, nested_loops, joins_and_slices]


@pytest.mark.parametrize("values", [(5, 3, 2, 9), (0, 1, 0, 1), (2, 5, 7, -3), (9, 4, 1, 0)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, values):
    x = np.array(values)
    out, expected = np.zeros(20, np.int64), np.zeros(20, np.int64)
    run(kernel, "int64[::1], int64[::1]", 1, 1, x, out)
    kernel(x, expected)
    np.testing.assert_array_equal(out, expected)


def rounded_integers(x, digits, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = round(x[i], digits[i])


@pytest.mark.parametrize("kind", ["int8", "int32", "uint32", "int64", "uint64"])
def test_integers_are_rounded_to_tens(run, kind):
    """Ties to even, as in Python; what does not fit the type wraps."""
    limits = np.iinfo(kind)
    rng = np.random.default_rng(3)
    numbers = [
        *rng.integers(limits.min, limits.max, 500, kind, endpoint=True),
        *range(0, 100, 5),
        limits.min,
        limits.max,
    ]
    x = np.array([*numbers, *range(0, 126, 25), *([-15, -25, -5, -125] if limits.min else [])], kind)
    digits = rng.integers(-22, 3, x.size)
    digits[-40:] = -1
    out = np.zeros_like(x)
    run(rounded_integers, f"{kind}[::1], int64[::1], {kind}[::1]", -(-x.size // 64), 64, x, digits, out)
    expected = [round(int(value), int(count)) for value, count in zip(x, digits, strict=True)]
    fits = [number if count >= -18 else 0 for number, count in zip(expected, digits, strict=True)]
    np.testing.assert_array_equal(
        out, np.array([number % (1 << limits.bits) for number in fits], f"u{kind.lstrip('u')}").view(kind)
    )
