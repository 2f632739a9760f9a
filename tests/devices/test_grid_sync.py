# SPDX-License-Identifier: Apache-2.0
"""``cg.this_grid().sync()``: all blocks of a launch wait for one another."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.errors import LaunchError


def smooth(a, b, steps):
    """Every step reads what other blocks wrote in the step before."""
    i = cuda.grid(1)
    n = a.size
    grid = cuda.cg.this_grid()
    for step in range(steps):
        if step % 2 == 0:
            b[i] = a[(i + 1) % n] + a[i - 1]
        else:
            a[i] = b[(i + 1) % n] + b[i - 1]
        grid.sync()


@pytest.mark.parametrize(("blocks", "threads"), [(1, 7), (4, 64), (50, 33), (16, 256)])
def test_a_stencil_in_one_launch(run, blocks, threads):
    a = np.random.default_rng(blocks).integers(0, 10, blocks * threads).astype(np.int64)
    b = np.zeros_like(a)
    expected = a.copy()
    for _ in range(7):
        expected = np.roll(expected, -1) + np.roll(expected, 1)
    run(smooth, "int64[::1], int64[::1], int", blocks, threads, a, b, 7)
    np.testing.assert_array_equal(b, expected)


def normalise(x, total):
    """Blocks along three axes; only some threads have something to add."""
    t = cuda.threadIdx.x + cuda.blockDim.x * cuda.threadIdx.y
    block = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
    i = block * cuda.blockDim.x * cuda.blockDim.y + t
    if i < x.size and x[i] > 0:
        cuda.atomic.add(total, 0, x[i])
    cuda.cg.this_grid().sync()
    if i < x.size:
        x[i] = x[i] / total[0]
    cuda.cg.this_grid().sync()
    if i == 0:
        total[0] = 0
        for k in range(x.size):
            if x[k] > 0:
                total[0] += x[k]


def test_blocks_along_three_axes(run):
    x = np.random.default_rng(1).integers(-8, 8, 1000).astype(np.float64)
    start, total = x.copy(), np.zeros(1)
    run(normalise, "float64[::1], float64[::1]", (3, 2, 4), (8, 6), x, total)
    np.testing.assert_array_equal(x, start / start[start > 0].sum())
    np.testing.assert_allclose(total, 1)


def wait(out):
    cuda.cg.this_grid().sync()
    out[0] = 1


def test_more_blocks_than_the_device_runs_at_once(run):
    out = np.zeros(1, np.int32)
    if run.kind == "cpu":  # which runs any number
        run(wait, "int32[::1]", 2000, 64, out)
        assert out[0] == 1
        return
    with pytest.raises(LaunchError) as caught:
        run(wait, "int32[::1]", 100_000, 1024, out)
    assert str(caught.value) == (
        "too many blocks for a grid that waits for all of them\n"
        "  found:    wait[(100000, 1, 1), (1024, 1, 1)]\n"
        "  expected: no more blocks than the device runs at once, for this_grid().sync()\n"
        "  do:       launch fewer blocks, each doing more: for i in range(cuda.grid(1), n, cuda.gridsize(1))"
    )
