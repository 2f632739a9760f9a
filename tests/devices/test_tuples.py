# SPDX-License-Identifier: Apache-2.0
# ruff: noqa: B905, RUF005, RUF007
"""Tuples, named tuples, None, members of enums and what is iterated over; each kernel against itself run by Python."""

from __future__ import annotations

import enum
from collections import namedtuple
from typing import Any, NamedTuple

import numpy as np
import pytest

from cudabuild import cuda, kernel
from cudabuild.definition import KernelDefinition
from cudabuild.runtime.arguments import read_argument
from cudabuild.types import format_signature, parse_signature

Point = namedtuple("Point", "x y")


class Body(NamedTuple):
    place: tuple
    mass: float = 2.0


class Colour(enum.Enum):
    red = 1
    green = 2.5
    blue = 4


class Level(enum.IntEnum):
    low = -3
    high = 7


class Other(enum.IntEnum):
    seven = 7


ORIGIN = Point(1, 2)
WEIGHTS = [3, 5, 7]
NESTED = [[1, 2], [3, 4]]


def norm(p):
    return p.x * p.x + p.y * p.y


def swap(pair):
    return pair[1], pair[0]


def three(v):
    if v > 0:
        return v, v * 2, v * 3
    return 0, 0, 0.5


def tuples(x, o):
    t = (x[0], 2.5, (x[1], 4))
    o[0] = t[0] + t[1] + t[2][0] + t[-1][-1]
    o[1] = len(t) + len(()) + len((t, t))
    u = t[:2] + (7,)
    o[2] = u[2] + len(u) + len(t[1:])
    o[3] = (x[0], x[1]) == (x[0], 3)
    o[4] = (x[0], x[1]) < (x[0], 4)
    o[5] = ((1, 2) < (1, 2, 3)) + 2 * ((2,) > (1, 9)) + 4 * (() <= ())
    o[6] = (x[0] in (5, 6, x[1])) + 2 * (x[0] not in (0, 1))
    a, b = swap((x[0], x[1]))
    o[7] = a * 10 + b
    a, b, c = three(x[2])
    o[8] = a + b + c
    p = Point(x[0], y=3)
    o[9] = norm(p) + norm(ORIGIN) + p[0]
    body = Body((1, x[1]))
    o[10] = body.place[1] * body.mass + len(body)
    o[11] = isinstance(p, Point) + 2 * isinstance(p, tuple) + 4 * isinstance((1, 2), Point)
    o[12] = WEIGHTS[x[0] % 3] + NESTED[1][x[0] % 2]
    q = p if x[0] > 2 else Point(2, 3.5)
    o[13] = q.x + q.y
    first, second, third = x[:3]
    o[14] = first + second * third
    o[15] = bool(t) + bool(()) + len((1, 2) * 3) + (2 * (x[0], 4))[2] + len((1,) * 0)


def iteration(x, o):
    for i, v in enumerate(x):
        o[0] += i * v
    for i, (a, b) in enumerate(zip(x, x[1:]), 1):
        o[1] += i * a + b
    for (i, a), b in zip(enumerate(x), (2, 3, 4, 5)):
        o[2] += i * a * b
    for v in reversed(x):
        o[3] = o[3] * 2 + v
    for k in reversed(range(2, 9, 3)):
        o[4] = o[4] * 10 + k
    for v in (x[0], 2.5, True):  # a loop over different types
        o[5] += v * 2
    for part in ((1, 2), (3,), x, ()):
        for v in part:
            o[6] += v
        o[6] += len(part) * 100
    for part in (x, x[1:]):
        if part[0] == 3:
            break
        if len(part) == 4:
            continue
        o[7] += part[0]
    else:
        o[7] += 1000
    for v in [x[0], 4]:
        o[8] += v
    for i in range(np.uint64(3)):
        o[9] += i
    for i in range(np.uint8(1), np.uint64(4)):
        o[9] += i * 10
    n = 0
    for n, w in enumerate(WEIGHTS):
        o[10] += w * n
    o[11] = n
    for a, b in zip(x, (1,)):
        o[12] += a + b
    for _ in zip():
        o[13] = 1
    for name, f in (("one", 1), ("two", 2.5)):
        if name == "two":
            o[14] = f
    for a in range(3):
        for b in (a, 0.5):
            if b == 1:
                break
            o[15] += b


def find(x, value):
    for i, v in enumerate(x):
        if v == value:
            return i


def maybe(v):
    if v > 3:
        return None
    return v, v * 0.5


def default(v, extra=None):
    if extra is None:
        return v
    return v + extra


def none_and_values(x, o):
    at = find(x, 3)
    o[0] = -1 if at is None else at
    if at is not None:
        o[1] = x[at] + at
    o[2] = at == 1
    o[3] = at != None  # noqa: E711
    pair = maybe(x[0])
    if pair is None:
        pair = (9, 9)
    o[4] = pair[0] + pair[1]
    o[5] = default(x[0]) + default(x[0], 2) + default(x[0], None)
    best = None
    for v in x:
        if best is None or v > best:
            best = v
    o[6] = best
    o[7] = (find(x, 100) or 50) + (None is None)
    o[8] = bool(find(x, -77)) + 2 * bool(at)
    flag = bool(x[0] > 2)
    o[9] = (flag is True) + 2 * (flag is not False) + 4 * (x[0] is None)
    missing = find(x, 1234)
    o[10] = not missing
    o[11] = isinstance(missing, int) + 2 * isinstance(at, int)


def pick(flag):
    return Colour.red if flag else Colour.green


def enums(x, o):
    o[0] = (Colour.red == Colour.red) + 2 * (Colour.red is Colour.green) + 4 * (Colour.red != Colour.blue)
    o[1] = Colour["green"].value
    o[2] = pick(x[0] > 2) == Colour.red
    o[3] = pick(x[0] > 2).value + 1
    o[4] = x[0] + Level.high - Level["low"]
    o[5] = (x[0] > Level.high) + 2 * (Level.high == Other.seven) + 4 * (Level.high is Other.seven)
    o[6] = Level.low.value + len(Colour.red.name)
    level = Level.low
    if x[0] > 2:
        level = Level.high
    o[7] = level * 2
    o[8] = (level is Level.high) + 2 * (level == 7) + 4 * isinstance(level, Level) + 8 * isinstance(level, int)
    o[9] = x[Level.low] + abs(Level.low)
    o[10] = level in (Level.high, 99)
    o[11] = isinstance(Colour.red, Colour) + 2 * isinstance(Colour.red, int)
    for c in (Colour.red, Colour.blue):
        o[12] += c.value
    o[13] = Level.high if x[1] > 0 else 0.5


def matching(x, o):
    for i in range(4):
        match x[i]:
            case 0:
                o[i] = 10
            case 3 | 5:
                o[i] = 20
            case Level.high:
                o[i] = 25
            case v if v > 8:
                o[i] = 30 + v
            case -1 as w:
                o[i] = w
            case _:
                o[i] = 40
    match (x[0], 2, None):
        case (a, 2, None) if a == 0:
            o[4] = 1
        case (a, b, None):
            o[4] = a * 10 + b
    match (1, 2, 3):
        case (1, 2):
            o[5] = undefined_name  # noqa: F821
        case (1, *rest):
            o[5] = len(rest)
    match bool(x[0] > 2):
        case True:
            o[6] = 1
        case False:
            o[6] = 2


KERNELS = [tuples, iteration, none_and_values, enums, matching]


@pytest.mark.parametrize("values", [(5, 3, 2, 9), (0, -1, 7, 2), (3, 3, 0, -77)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, values):
    x = np.array(values)
    out, expected = np.zeros(16), np.zeros(16)
    run(kernel, "int64[::1], float64[::1]", 1, 1, x, out)
    kernel(x, expected)
    np.testing.assert_array_equal(out, expected)


def arguments(o, t, p, n, e, i):
    o[0] = t[0] + t[1][0] + t[1][1][0] + len(t[2])
    o[1] = p.x + p.y
    o[2] = 1 if n is None else n
    o[3] = e is Colour.green
    o[4] = e.value
    o[5] = i + 1
    o[6] = i is Level.high


CASES: list[Any] = [
    ((1, (2.5, (np.float32(3),)), ()), Point(1, 2.5), None, Colour.green, Level.high),
    ((2, (np.int8(5), (4,)), (1, 2)), Point(np.float32(0.5), 7), 5, Colour.blue, Level.low),
    ((2, (np.int8(5), (True,)), ((), None)), Point(ORIGIN[0], 7), 2.5, Colour.red, 12),
]


@pytest.mark.parametrize("values", CASES)
def test_arguments(run, values):
    signature = ", ".join(["float64[::1]", *(read_argument(value).type.name for value in values)])
    assert format_signature(parse_signature(signature)) == signature
    out, expected = np.zeros(7), np.zeros(7)
    run(arguments, signature, 1, 1, out, *values)
    arguments(expected, *values)
    np.testing.assert_array_equal(out, expected)


def arrays_in_tuples(pair, scale):
    for k in range(pair.x.size):
        pair.x[k] = pair.y[k] * scale[0][0]


def test_arrays_in_tuples(run):
    x, y = np.zeros(3, np.float32), np.arange(3, dtype=np.float32)
    run(
        arrays_in_tuples,
        "NamedTuple(Point, x: float32[::1], y: float32[::1]), Tuple(Tuple(float32), int)",
        1,
        1,
        Point(x, y),
        ((1.5,), 2),
    )
    np.testing.assert_array_equal(x, y * np.float32(1.5))


def test_one_overload_for_each_kind():
    launched = kernel(arguments)
    for values in CASES * 2:
        out, expected = np.zeros(7), np.zeros(7)
        launched[1, 1](out, *values)
        arguments(expected, *values)
        np.testing.assert_array_equal(out, expected)
    assert len(launched.signatures) == 3
    assert isinstance(launched.definition, KernelDefinition)


def divergent(x, o):
    i = cuda.grid(1)
    if i % 3 == 0:
        for k, (a, b) in enumerate(zip(x, reversed(x))):
            o[i] += a * k + b
    elif i % 3 == 1:
        for a in (x[i % 4], 0.5, i):
            o[i] += a if isinstance(a, float) else a * 2
        for k, v in enumerate(reversed((1, 2, 3)), i):
            o[i] += k * v
    elif i < o.size:
        best = None
        for a, b in zip(x, range(i, i + 9)):
            if a < 5 and (best is None or a * b > best):
                best = a * b
        if best is not None and not isinstance(best, tuple):
            o[i] = best


def test_threads_that_go_different_ways(run):
    x = np.array([5, 3, 2, 9])
    out, expected = np.zeros(40), np.zeros(40)
    run(divergent, "int64[::1], float64[::1]", 2, 20, x, out)
    for i in range(40):
        if i % 3 == 0:
            expected[i] = sum(a * k + b for k, (a, b) in enumerate(zip(x, x[::-1])))
        elif i % 3 == 1:
            expected[i] = x[i % 4] * 2 + 0.5 + i * 2 + sum(k * v for k, v in enumerate((3, 2, 1), i))
        else:
            expected[i] = max(a * b for a, b in zip(x, range(i, i + 9)) if a < 5)
    np.testing.assert_array_equal(out, expected)


def scale(v, factor):
    return v * cuda.literally(factor)


def literals(x, o):
    i = cuda.grid(1)
    for v in cuda.literal_unroll((x[0], 0.5, x)):
        if isinstance(v, float) or not isinstance(v, int):
            o[i] += 1
    if i > 0:
        pair = tuple(zip((x[0], x[1]), (2, 0.5)))
        for a, b in cuda.literal_unroll(pair):
            o[i] += a * b
        buffer = cuda.local.array(tuple(range(2, 4)), np.int64)
        o[i] += scale(buffer.size, cuda.literally(3))


def more_literals(x, o):
    if x.size > 1:
        o[0] = len(tuple(reversed((1, 2)))) + len(tuple())  # noqa: C408
        for v in cuda.literal_unroll((1, 2)):
            o[cuda.literally(1)] += v


def test_literals(run):
    x, out = np.array([5, 3]), np.zeros(2)
    run(literals, "int64[::1], float64[::1]", 1, 2, x, out)
    np.testing.assert_array_equal(out, [2, 2 + 10 + 1.5 + 18])
    run(more_literals, "int64[::1], float64[::1]", 1, 1, x, out)
    np.testing.assert_array_equal(out, [2, 2 + 10 + 1.5 + 18 + 3])
