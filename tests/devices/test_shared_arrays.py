# SPDX-License-Identifier: Apache-2.0
"""Shared arrays of device functions: each specialisation has its own, as a template's instances have in CUDA C++."""

from __future__ import annotations

import numpy as np

from cudabuild import cuda
from cudabuild.types import float32, uint8


def filled(count, first, kind):
    array = cuda.shared.array(count, kind)
    t = cuda.threadIdx.x
    if t < count:
        array[t] = first + t
    return array


def two_shapes(out):
    t = cuda.threadIdx.x
    large = filled(64, 0, float32)
    small = filled(8, 1000, float32)
    cuda.syncthreads()
    out[t] = large[t] + small[t % 8]


def test_of_two_shapes(run):
    out = np.zeros(64, np.float32)
    run(two_shapes, "float32[::1]", 1, 64, out)
    t = np.arange(64)
    np.testing.assert_array_equal(out, t + 1000 + t % 8)


def two_types(out):
    t = cuda.threadIdx.x
    narrow = filled(32, 0, np.uint8)
    wide = filled(32, 1 << 40, np.int64)
    cuda.syncthreads()
    out[t] = narrow[31 - t] + wide[31 - t]


def test_of_two_types(run):
    out = np.zeros(32, np.int64)
    run(two_types, "int64[::1]", 1, 32, out)
    np.testing.assert_array_equal(out, 2 * (31 - np.arange(32)) + (1 << 40))


def made_for(count):
    def filled_with(value):
        array = cuda.shared.array(count, float32)
        t = cuda.threadIdx.x
        if t < count:
            array[t] = value
        return array

    return filled_with


sixteen, four = made_for(16), made_for(4)


def two_closures(out):
    t = cuda.threadIdx.x
    one, other = sixteen(1.0), four(2.0)
    cuda.syncthreads()
    out[t] = one[t] + other[t % 4]


def test_of_two_closures(run):
    out = np.zeros(16, np.float32)
    run(two_closures, "float32[::1]", 1, 16, out)
    assert out.tolist() == [3.0] * 16


def the_same_twice(out):
    t = cuda.threadIdx.x
    first = filled(16, 5, float32)
    second = filled(16, 7, float32)  # another constant, another instance
    again = filled(16, 5, float32)
    again[t] += 1.0
    out[t] = first[t] * 100.0 + second[t]


def test_one_specialisation_has_one_array(run):
    out = np.zeros(16, np.float32)
    run(the_same_twice, "float32[::1]", 1, 16, out)
    t = np.arange(16)
    np.testing.assert_array_equal(out, (5 + t + 1) * 100 + 7 + t)


def test_alignment(run):
    def kernel(x):
        first = cuda.shared.array(3, uint8)
        tile = cuda.shared.array((2, 3), float32, alignment=64)
        own = cuda.local.array(4, dtype=float32, alignment=32)
        t = cuda.threadIdx.x
        first[t] = t
        tile[1, t] = x[t]
        own[3] = x[t]
        cuda.syncthreads()
        x[t] = tile[1, 2 - t] + own[3] + first[2 - t]

    array = np.array([1, 2, 4], "f4")
    run(kernel, "float32[::1]", 1, 3, array)
    assert array.tolist() == [7, 5, 5]
