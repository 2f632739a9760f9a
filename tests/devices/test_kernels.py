# SPDX-License-Identifier: Apache-2.0
"""Whole kernels on the CPU device against NumPy."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import float32, float64, int32, int64


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


@pytest.mark.parametrize(("count", "block"), [(1, 1), (31, 32), (1000, 256), (4097, 1024), (100, 7)])
def test_saxpy(run, count, block):
    x, y = np.random.default_rng(count).random((2, count), dtype=np.float32)
    expected = np.float32(2) * x + y
    run(saxpy, "float32, float32[::1], float32[::1]", -(-count // block), block, 2.0, x, y)
    np.testing.assert_array_equal(y, expected)  # 2·x is exact, so a fused multiply-add rounds alike


def matmul(a, b, c):
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for step in range((a.shape[1] + 15) // 16):
        tile_a[ty, tx] = 0
        tile_b[ty, tx] = 0
        if row < a.shape[0] and step * 16 + tx < a.shape[1]:
            tile_a[ty, tx] = a[row, step * 16 + tx]
        if column < b.shape[1] and step * 16 + ty < b.shape[0]:
            tile_b[ty, tx] = b[step * 16 + ty, column]
        cuda.syncthreads()
        for k in range(16):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    if row < c.shape[0] and column < c.shape[1]:
        c[row, column] = total


@pytest.mark.parametrize("shape", [(16, 16, 16), (33, 50, 17), (64, 5, 100)])
def test_tiled_matmul(run, shape):
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, b = rng.random((m, k), dtype=np.float32), rng.random((k, n), dtype=np.float32)
    c = np.full((m, n), np.nan, np.float32)
    grid = (-(-n // 16), -(-m // 16))
    run(matmul, "float32[:, ::1], float32[:, ::1], float32[:, ::1]", grid, (16, 16), a, b, c)
    np.testing.assert_allclose(c, a @ b, rtol=1e-5)


def block_sum(x, out):
    partial = cuda.shared.array(32, float32)
    i = cuda.grid(1)
    value = float32(0)
    if i < x.size:
        value = x[i]
    delta = 16
    while delta > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, delta)
        delta //= 2
    warp = cuda.threadIdx.x // 32
    if cuda.laneid == 0:
        partial[warp] = value
    cuda.syncthreads()
    if cuda.threadIdx.x == 0:
        total = float32(0)
        for w in range((cuda.blockDim.x + 31) // 32):
            total += partial[w]
        cuda.atomic.add(out, 0, total)


@pytest.mark.parametrize("block", [32, 64, 96, 256, 1024])
@pytest.mark.parametrize("count", [1, 1000, 50_000])
def test_block_reduction(run, block, count):
    x = np.random.default_rng(count).integers(0, 8, count).astype(np.float32)  # sums stay exact
    out = np.zeros(1, np.float32)
    run(block_sum, "float32[::1], float32[::1]", -(-count // block), block, x, out)
    assert out[0] == x.sum(dtype=np.float64)


def tree_sum(x, out):
    values = cuda.shared.array(1024, float64)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    values[t] = x[i] if i < x.size else 0.0
    step = cuda.blockDim.x // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            values[t] += values[t + step]
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = values[0]


@pytest.mark.parametrize("block", [1, 2, 128, 1024])
def test_tree_reduction(run, block):
    x = np.random.default_rng(1).integers(0, 100, 5000).astype(np.float64)
    blocks = -(-x.size // block)
    out = np.zeros(blocks)
    run(tree_sum, "float64[::1], float64[::1]", blocks, block, x, out)
    padded = np.zeros(blocks * block)
    padded[: x.size] = x
    np.testing.assert_array_equal(out, padded.reshape(blocks, block).sum(axis=1))


def early_exit(x, out):
    shared = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    shared[t] = -1
    cuda.syncthreads()
    if i >= x.size or t % 3 == 2:
        return
    shared[t] = x[i]
    cuda.syncthreads()
    total = 0
    for k in range(cuda.blockDim.x):
        if shared[k] >= 0:
            total += shared[k]
    cuda.syncthreads()
    out[i] = total


def test_threads_that_returned_do_not_count_at_barriers(run):
    x = np.arange(600, dtype=np.int32)
    out = np.full(600, -7, np.int32)
    run(early_exit, "int32[::1], int32[::1]", 3, 256, x, out)
    for first in (0, 256, 512):
        index = np.arange(first, min(first + 256, 600))
        stays = (index - first) % 3 != 2
        assert (out[index[stays]] == x[index[stays]].sum()).all()
        assert (out[index[~stays]] == -7).all()


def barriers_under_uniform_conditions(x, rounds):
    buffer = cuda.shared.array(64, int64)
    t = cuda.threadIdx.x
    for r in range(rounds):
        if r % 2 == 0:
            buffer[t] = x[t]
            cuda.syncthreads()
            x[t] = buffer[(t + 1) % cuda.blockDim.x]
            cuda.syncthreads()
        else:
            k = 0
            while k < 3:
                buffer[t] = x[t]
                cuda.syncthreads()
                x[t] = buffer[(t + 2) % cuda.blockDim.x] + 1
                cuda.syncthreads()
                k += 1


def test_barriers_in_loops_and_branches(run):
    x = np.arange(48, dtype=np.int64)
    expected = x.copy()
    for r in range(5):
        for _ in range(1 if r % 2 == 0 else 3):
            expected = np.roll(expected, -1) if r % 2 == 0 else np.roll(expected, -2) + 1
    run(barriers_under_uniform_conditions, "int64[::1], int32", 1, 48, x, 5)
    np.testing.assert_array_equal(x, expected)


def uneven_barriers(out):
    t = cuda.threadIdx.x
    for _ in range(t + 1):
        cuda.syncthreads()
    cuda.atomic.add(out, 0, t)


def test_threads_leave_one_by_one(run):
    out = np.zeros(1, np.int32)
    run(uneven_barriers, "int32[::1]", 2, 100, out)
    assert out[0] == 2 * sum(range(100))


def positions(out):
    x, y, z = cuda.grid(3)
    nx, ny, _ = cuda.gridsize(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] = (z * ny + y) * nx + x


@pytest.mark.parametrize(("grid", "block"), [((3, 2, 4), (4, 3, 2)), ((1, 7, 1), (5, 1, 3)), ((2, 2, 2), (8, 8, 16))])
def test_three_dimensional_grid(run, grid, block):
    nx, ny, nz = (g * b for g, b in zip(grid, block, strict=True))
    out = np.full((nz, ny, nx), -1, np.int64)
    run(positions, "int64[:, :, ::1]", grid, block, out)
    np.testing.assert_array_equal(out, np.arange(nx * ny * nz).reshape(nz, ny, nx))


def registers(out, sync):
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    b = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    if sync:
        cuda.syncthreads()
    i = b * cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z + t
    out[i, 0] = cuda.threadIdx.x
    out[i, 1] = cuda.threadIdx.y
    out[i, 2] = cuda.threadIdx.z
    out[i, 3] = cuda.blockIdx.x
    out[i, 4] = cuda.blockIdx.y
    out[i, 5] = cuda.blockIdx.z
    out[i, 6] = cuda.laneid


@pytest.mark.parametrize("sync", [False, True])
def test_registers(run, sync):
    grid, block = (3, 2, 2), (5, 4, 3)
    count = math.prod(grid) * math.prod(block)
    out = np.full((count, 7), -1, np.int32)
    run(registers, "int32[:, ::1], bool", grid, block, out, sync)
    index = np.arange(count)
    thread, number = index % 60, index // 60
    columns = [thread % 5, thread // 5 % 4, thread // 20, number % 3, number // 3 % 2, number // 6, thread % 32]
    np.testing.assert_array_equal(out, np.stack(columns, axis=1))


def histogram(values, bins):
    local = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        local[t] = 0
    cuda.syncthreads()
    start = cuda.grid(1)
    stride = cuda.gridsize(1)
    for i in range(start, values.size, stride):
        cuda.atomic.add(local, values[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(bins, t, local[t])


def test_histogram(run):
    values = np.random.default_rng(3).integers(0, 16, 100_000).astype(np.uint8)
    bins = np.zeros(16, np.int32)
    run(histogram, "uint8[::1], int32[::1]", 20, 128, values, bins)
    np.testing.assert_array_equal(bins, np.bincount(values, minlength=16))


def extremes(values, low, high, total):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.min(low, 0, values[i])
        cuda.atomic.max(high, 0, values[i])
        cuda.atomic.add(total, 0, values[i])


@pytest.mark.parametrize("name", ["int32", "int64", "uint32", "uint64", "float32", "float64"])
def test_atomics_from_all_cores(run, name):
    rng = np.random.default_rng(5)
    values = rng.integers(0, 1000, 30_000).astype(name)
    if name[0] != "u":
        values -= 500
    low, high, total = (np.array([start], name) for start in (400, 100, 0))
    run(extremes, f"{name}[::1], {name}[::1], {name}[::1], {name}[::1]", 300, 100, values, low, high, total)
    assert (low[0], high[0], total[0]) == (values.min(), values.max(), values.sum())


def dynamic(x, out):
    buffer = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x
    buffer[t] = x[t]
    cuda.syncthreads()
    out[t] = buffer[buffer.size - 1 - t]


def test_dynamic_shared_memory(run):
    x = np.arange(96, dtype=np.float32)
    out = np.zeros_like(x)
    run(dynamic, "float32[::1], float32[::1]", 1, 96, x, out, shared=96 * 4)
    np.testing.assert_array_equal(out, x[::-1])


def mixed_shared(out):
    first = cuda.shared.array(3, int32)
    second = cuda.shared.array((2, 5), float64)
    rest = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    if t < 3:
        first[t] = 100 + t
    if t < 10:
        second[t // 5, t % 5] = 0.5 + t
    rest[t] = -t
    cuda.syncthreads()
    out[t] = first[t % 3] + second[t // 5 % 2, t % 5] + rest[31 - t]


def test_shared_arrays_do_not_overlap(run):
    out = np.zeros(32)
    run(mixed_shared, "float64[::1]", 2, 32, out, shared=32 * 4)
    t = np.arange(32)
    np.testing.assert_array_equal(out, 100 + t % 3 + 0.5 + t % 10 - (31 - t))


def local_arrays(x, out):
    mine = cuda.local.array(8, float32)
    i = cuda.grid(1)
    for k in range(8):
        mine[k] = x[i] * (k + 1)
    cuda.syncthreads()
    total = float32(0)
    for k in range(8):
        total += mine[7 - k]
        if k == 3:
            cuda.syncthreads()
    out[i] = total


def test_local_arrays_live_across_barriers(run):
    x = np.arange(256, dtype=np.float32)
    out = np.zeros_like(x)
    run(local_arrays, "float32[::1], float32[::1]", 4, 64, x, out)
    np.testing.assert_array_equal(out, x * 36)


def add_rows(x, y):
    i = cuda.grid(1)
    if i < x.shape[0]:
        for k in range(x.shape[1]):
            y[i, k] += x[i, k]


def test_strided_views_are_used_in_place(run):
    base = np.arange(400, dtype=np.float64).reshape(20, 20)
    x, y = base[::2, ::-3], np.zeros((30, 14)).T[::-1, ::2][:10, :7]
    assert not x.flags.c_contiguous
    expected = y + x
    run(add_rows, "float64[:, :], float64[:, :]", 1, 16, x, y)
    np.testing.assert_array_equal(y, expected)


def fortran(x, y):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = x[i, j] * 2


def test_fortran_order(run):
    x = np.asfortranarray(np.random.default_rng(2).random((9, 21)))
    y = np.zeros_like(x)
    run(fortran, "float64[::1, :], float64[::1, :]", (3, 6), (4, 4), x, y)
    np.testing.assert_array_equal(y, 2 * x)


def negative_indices(x, shift, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i - shift]


def test_negative_indices_wrap(run):
    x = np.arange(100, dtype=np.int32)
    out = np.zeros_like(x)
    run(negative_indices, "int32[::1], int, int32[::1]", 1, 128, x, 30, out)
    np.testing.assert_array_equal(out, np.roll(x, 30))


def rotate(x, y):
    """A device function: undecorated, reached from a kernel."""
    return y, -x


def shared_scan(x, t, count):
    """A device function with barriers."""
    buffer = cuda.shared.array(128, int32)
    buffer[t] = x
    step = 1
    while step < count:
        cuda.syncthreads()
        below = 0
        if t >= step:
            below = buffer[t - step]
        cuda.syncthreads()
        buffer[t] += below
        step *= 2
    cuda.syncthreads()
    return buffer[t]


def with_device_functions(x, out, scanned):
    i = cuda.grid(1)
    a, b = rotate(x[i], i)
    out[i, 0] = a
    out[i, 1] = b
    scanned[i] = shared_scan(x[i], cuda.threadIdx.x, cuda.blockDim.x)


def test_device_functions_with_and_without_barriers(run):
    x = np.random.default_rng(7).integers(-50, 50, 200).astype(np.int32)
    out, scanned = np.zeros((200, 2), np.int32), np.zeros(200, np.int32)
    run(with_device_functions, "int32[::1], int32[:, ::1], int32[::1]", 2, 100, x, out, scanned)
    np.testing.assert_array_equal(out, np.stack([np.arange(200), -x], axis=1))
    np.testing.assert_array_equal(scanned, x.reshape(2, 100).cumsum(axis=1).ravel())


def many_blocks(out):
    if cuda.threadIdx.x == 0:
        cuda.atomic.add(out, cuda.blockIdx.x % out.size, 1)
    cuda.syncthreads()


def test_a_hundred_thousand_blocks(run):
    out = np.zeros(64, np.int32)
    run(many_blocks, "int32[::1]", 100_000, 4, out)
    np.testing.assert_array_equal(out, np.bincount(np.arange(100_000) % 64))


def empty(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = 1


def test_empty_array(run):
    run(empty, "float32[::1]", 2, 32, np.zeros(0, np.float32))


def sinf(x, out):
    i = cuda.grid(1)
    out[i] = math.sin(x[i])


def test_a_kernel_named_like_a_library_function(run):
    x = np.linspace(-3, 3, 64, dtype=np.float32)
    out = np.zeros_like(x)
    run(sinf, "float32[::1], float32[::1]", 2, 32, x, out)
    np.testing.assert_allclose(out, np.sin(x), rtol=1e-6)
