# SPDX-License-Identifier: Apache-2.0
"""Warp shuffles among lanes that are all there: types, scans, masks of divergent branches."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda


def down(x, out, mask, delta):
    i = cuda.grid(1)
    out[i] = cuda.shfl_down_sync(mask, x[i], delta)


@pytest.mark.parametrize("name", ["int32", "uint32", "int64", "uint64", "float32", "float64"])
def test_every_type(run, name):
    x = (np.arange(64) * 3).astype(name)
    out = np.zeros_like(x)
    run(down, f"{name}[::1], {name}[::1], uint32, int32", 1, 64, x, out, 0xFFFFFFFF, 5)
    lane = np.arange(64) % 32
    np.testing.assert_array_equal(out, np.where(lane + 5 < 32, np.roll(x, -5), x))


def scan(x, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    total = x[i]
    step = 1
    while step < 32:
        # The front end's one shuffle looks upwards: a scan from the far end.
        above = cuda.shfl_down_sync(0xFFFFFFFF, total, step)
        if lane + step < 32:
            total += above
        step *= 2
    out[i] = total


def test_scan_uses_the_values_of_its_own_step(run):
    x = np.random.default_rng(8).integers(-9, 9, 256).astype(np.int32)
    out = np.zeros_like(x)
    run(scan, "int32[::1], int32[::1]", 2, 128, x, out)
    expected = x.reshape(-1, 32)[:, ::-1].cumsum(axis=1)[:, ::-1]
    np.testing.assert_array_equal(out, expected.ravel())


def divergent(x, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    value = x[i]
    if lane < 16:
        for _ in range(3):
            value += cuda.shfl_down_sync(0x0000FFFF, value, 1)
    elif lane < 24:
        value += cuda.shfl_down_sync(0x00FF0000, value, 2)
    # lanes 24 to 31 have done nothing so far; now all meet
    out[i] = cuda.shfl_down_sync(0xFFFFFFFF, value, 8)


def test_masks_of_divergent_branches(run):
    x = np.random.default_rng(9).integers(0, 100, 64).astype(np.int64)
    out = np.zeros_like(x)
    run(divergent, "int64[::1], int64[::1]", 1, 64, x, out)
    lane = np.arange(32)
    for warp, found in zip(x.reshape(-1, 32), out.reshape(-1, 32), strict=True):
        value = warp.copy()
        for _ in range(3):
            value[:16] += np.append(value[1:16], value[15])
        value[16:24] += np.append(value[18:24], value[22:24])
        expected = np.append(value[8:], value[24:])
        # What a lane reads from outside the mask is undefined: after three steps that has reached lanes 13 to 15, after
        # one of two lanes 22 and 23.
        undefined = np.isin(lane + 8, (13, 14, 15, 22, 23))
        np.testing.assert_array_equal(found[~undefined], expected[~undefined])
