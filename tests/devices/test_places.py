# SPDX-License-Identifier: Apache-2.0
"""Where a thread stands, asked in divergent branches."""

from __future__ import annotations

import numpy as np

from cudabuild import cuda


def two_ways(out):
    """Even blocks stride by the grid's size, odd ones compute the same by hand."""
    if cuda.blockIdx.x % 2 == 0:
        first, step = cuda.grid(1), cuda.gridsize(1)
    else:
        first = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
        step = cuda.gridDim.x * cuda.blockDim.x
    for i in range(first, out.size, step):
        out[i] += i * 10 + cuda.laneid % 10


def test_a_grid_stride_loop(run):
    out = np.zeros(1000, np.int64)
    run(two_ways, "int64[::1]", 5, 48, out)
    i = np.arange(1000)
    np.testing.assert_array_equal(out, i * 10 + i % 240 % 48 % 32 % 10)


def three_axes(out):
    if cuda.threadIdx.z == 0:
        x, y, z = cuda.grid(3)
    else:
        x = cuda.grid(1)
        _, y = cuda.grid(2)
        z = cuda.blockIdx.z * cuda.blockDim.z + cuda.threadIdx.z
    if x % 2:
        width, height, depth = cuda.gridsize(3)
    else:
        width = cuda.gridsize(1)
        height, depth = cuda.gridDim.y * cuda.blockDim.y, cuda.gridDim.z * cuda.blockDim.z
    out[z, y, x] = (z * height + y) * width + x + depth * 1000


def test_positions_along_three_axes(run):
    out = np.zeros((6, 8, 9), np.int64)
    run(three_axes, "int64[:, :, ::1]", (3, 2, 2), (3, 4, 3), out)
    np.testing.assert_array_equal(out, np.arange(6 * 8 * 9).reshape(6, 8, 9) + 6000)
