# SPDX-License-Identifier: Apache-2.0
"""Names that need no more than one example each: every vector type, operators as functions, and what is left over."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.lang.vector import FIELDS, VECTORS


def vector_kernel(vector: Any, count: int) -> Any:
    def one(x, out):
        v = vector(x[0])
        out[0] = v.x

    def two(x, out):
        v = vector(x[0], x[1])
        out[0], out[1] = v.y, v.x

    def three(x, out):
        v = vector(x[0], x[1], x[2])
        out[0], out[1], out[2] = v.z, v.y, v.x

    def four(x, out):
        v = vector(x[0], x[1], x[2], x[3])
        out[0], out[1], out[2], out[3] = v.w, v.z, v.y, v.x

    return (one, two, three, four)[count - 1]


@pytest.mark.parametrize("name", sorted(VECTORS))
def test_vector_type(run, name: str) -> None:
    vector = VECTORS[name]
    assert vector.count == FIELDS.index(FIELDS[vector.count - 1]) + 1
    x = np.arange(1, vector.count + 1).astype(vector.element)
    out = np.zeros_like(x)
    run(vector_kernel(vector, vector.count), f"{vector.element}[::1], {vector.element}[::1]", 1, 1, x, out)
    np.testing.assert_array_equal(out, x[::-1])


def in_place_operators(a, b, out, quotients):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = operator.iadd(a[i], b[i])
        out[1, i] = operator.iand(a[i], b[i])
        out[2, i] = operator.ifloordiv(a[i], b[i])
        out[3, i] = operator.ilshift(a[i], b[i])
        out[4, i] = operator.imod(a[i], b[i])
        out[5, i] = operator.imul(a[i], b[i])
        out[6, i] = operator.ior(a[i], b[i])
        out[7, i] = operator.irshift(a[i], b[i])
        out[8, i] = operator.isub(a[i], b[i])
        out[9, i] = operator.ixor(a[i], b[i])
        out[10, i] = operator.ipow(a[i], 3)
        quotients[i] = operator.itruediv(a[i], b[i])


def test_in_place_operators(run) -> None:
    a, b = np.array([7, -9, 100, 6], np.int32), np.array([2, 3, 5, 1], np.int32)
    out, quotients = np.zeros((11, 4), np.int32), np.zeros(4)
    run(in_place_operators, "int32[::1], int32[::1], int32[:, ::1], float64[::1]", 1, 32, a, b, out, quotients)
    wanted = [a + b, a & b, a // b, a << b, a % b, a * b, a | b, a >> b, a - b, a ^ b, a**3]
    np.testing.assert_array_equal(out, wanted)
    np.testing.assert_array_equal(quotients, a / b)


def other_operators(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x, y = operator.getitem(a, i), operator.getitem(b, operator.index(i))
        operator.setitem(out, (0, i), operator.or_(x, y))
        out[1, i] = operator.sub(x, y)
        out[2, i] = operator.le(x, y)
        out[3, i] = operator.gt(x, y)
        out[4, i] = operator.is_(None, None)
        out[5, i] = operator.is_not(None, None)
        out[6, i] = np.amax(a) + np.amin(b)


def test_other_operators(run) -> None:
    a, b = np.array([7, -9, 100, 6], np.int32), np.array([2, 3, 5, 6], np.int32)
    out = np.zeros((7, 4), np.int32)
    run(other_operators, "int32[::1], int32[::1], int32[:, ::1]", 1, 32, a, b, out)
    ones = np.ones(4, np.int32)
    wanted = [a | b, a - b, a <= b, a > b, ones, 0 * ones, (a.max() + b.min()) * ones]
    np.testing.assert_array_equal(out, wanted)


class Settings:
    FACTOR = 3


def left_over(a, m, out):
    i = cuda.grid(1)
    if i < a.size:
        assert a.size > 0
        scaled = a[i] * Settings.FACTOR
        out[0, i] = scaled
        del scaled
        out[1, i] = (lambda x: x + 1)(a[i])
        out[2, i] = int(a[i]).bit_count()
        out[3, i] = m.flat[i]
        out[4, i] = cuda.warpsize
        out[5, i] = np.float32(a[i]).astype(np.int32) + a[i].item()


def test_what_is_left_over(run) -> None:
    a, m = np.array([7, 9, 100, 6], np.int32), np.arange(4, dtype=np.int32).reshape(2, 2)
    out = np.zeros((6, 4), np.int32)
    run(left_over, "int32[::1], int32[:, ::1], int32[:, ::1]", 1, 32, a, m, out)
    counts = [int(value).bit_count() for value in a]
    np.testing.assert_array_equal(out, [a * 3, a + 1, counts, m.ravel(), [32] * 4, 2 * a])


TABLE = np.array([2.0, 8.0, 5.0, 1.0], np.float32)


def methods_of_arrays(x, out, places):
    i = cuda.grid(1)
    if i < x.size:
        own = TABLE.copy()
        own[0] = x[i]
        out[0, i] = own.var()
        out[1, i] = x.view(np.int32)[i]
        places[0, i] = own.argmin()
        places[1, i] = own.argmax() + own.any() + own.all()


def test_methods_of_arrays(run) -> None:
    x = np.array([0.5, 2.0, 9.0, 30.0], np.float32)
    out, places = np.zeros((2, 4)), np.zeros((2, 4), np.int64)
    run(methods_of_arrays, "float32[::1], float64[:, ::1], int64[:, ::1]", 1, 32, x, out, places)
    for i, value in enumerate(x):
        own = TABLE.copy()
        own[0] = value
        assert abs(out[0, i] - own.var()) < 1e-4
        assert list(places[:, i]) == [own.argmin(), own.argmax() + 2]
    np.testing.assert_array_equal(out[1], x.view(np.int32))
