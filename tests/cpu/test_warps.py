# SPDX-License-Identifier: Apache-2.0
"""Warp shuffles on the CPU device: modes, widths and masks against the PTX ISA's rule; divergence; lanes that left."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import compile_function
from cudabuild.cpu.device import CpuLauncher
from cudabuild.errors import LaunchError
from cudabuild.ir.ir import Block, Builder, Function, Param
from cudabuild.types import bool_, float32, int32, int64, none, uint32, weak_int


def shuffle_function(mode, kind):
    """``out[i] = shfl(mask, x[i], lanes[i], width)`` in typed IR: the front end has no name for every mode yet."""
    names = {"x": kind[::1], "lanes": int32[::1], "out": kind[::1], "mask": uint32, "width": int32}
    params = [Param(type, None, name, index) for index, (name, type) in enumerate(names.items())]
    x, lanes, out, mask, width = params
    entry, body, end = Block("entry"), Block("body"), Block("end")
    builder = Builder(entry)
    i = builder.emit("grid", weak_int, axis=0)
    size = builder.emit("dim", weak_int, x, axis=0)
    builder.branch(builder.emit("cmp", bool_, i, size, predicate="lt"), body, end)
    builder = Builder(body)
    value, lane = builder.emit("load", kind, x, i), builder.emit("load", int32, lanes, i)
    found = builder.emit("shfl", kind, mask, value, lane, width, mode=mode)
    builder.emit("store", none, out, i, found)
    builder.jump(end)
    Builder(end).ret()
    return Function(f"shuffle_{mode}", params, none, [entry, body, end], True)


def source_lane(mode, lane, amount, width):
    """PTX ISA, "shfl.sync", with the operand c that CUDA makes of ``width``."""
    segment = 32 - width
    clamp = 0 if mode == "up" else 31
    amount &= 31
    last = (lane & segment) | (clamp & ~segment)
    first = lane & segment
    if mode == "up":
        found, inside = lane - amount, lane - amount >= last
    elif mode == "down":
        found, inside = lane + amount, lane + amount <= last
    elif mode == "bfly":
        found, inside = lane ^ amount, lane ^ amount <= last
    else:
        found = first | (amount & ~segment)
        inside = found <= last
    return found if inside else lane


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
@pytest.mark.parametrize("kind", [float32, int64])
def test_every_mode_and_width(mode, kind):
    function = shuffle_function(mode, kind)
    launcher = CpuLauncher(compile_function(function), "shuffle", [p.name for p in function.params],
                           tuple(p.type for p in function.params))  # fmt: skip
    x = np.arange(96).astype(kind.name) * 3
    amounts = np.random.default_rng(4).integers(-3, 40, 96).astype(np.int32)
    for width in (1, 2, 4, 8, 16, 32):
        out = np.zeros_like(x)
        launcher((1, 1, 1), (96, 1, 1), 0, 0, (x, amounts, out, 0xFFFFFFFF, width))
        source = [source_lane(mode, n % 32, int(amounts[n]), width) + n // 32 * 32 for n in range(96)]
        np.testing.assert_array_equal(out, x[source])


def down(x, out, mask, delta):
    i = cuda.grid(1)
    out[i] = cuda.shfl_down_sync(mask, x[i], delta)


def test_partial_warp(run):
    x = np.arange(40, dtype=np.float32)
    out = np.zeros_like(x)
    run(down, "float32[::1], float32[::1], uint32, int32", 1, 40, x, out, 0xFFFFFFFF, 4)
    lane, live = np.arange(40) % 32, np.where(np.arange(40) < 32, 32, 8)
    np.testing.assert_array_equal(out, np.where(lane + 4 < live, np.roll(x, -4), x))  # a lane not there: the own value


def leavers(x, out):
    i = cuda.grid(1)
    if cuda.laneid % 4 == 3:
        return
    value = x[i]
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    cuda.syncthreads()
    value += cuda.shfl_down_sync(0xFFFFFFFF, value, 2)
    out[i] = value


def test_lanes_that_returned_are_not_waited_for(run):
    x = np.arange(64, dtype=np.float64)
    out = np.full(64, -1.0)
    run(leavers, "float64[::1], float64[::1]", 1, 64, x, out)
    here = np.arange(32) % 4 != 3
    for warp, found in zip(x.reshape(-1, 32), out.reshape(-1, 32), strict=True):
        value = warp.copy()
        for step in (1, 2):
            source = np.arange(32) + step
            ok = (source < 32) & here[source % 32]
            value = value + np.where(ok, value[source % 32], value)
        np.testing.assert_array_equal(found[here], value[here])
        assert (found[~here] == -1).all()


def stuck(x):
    value = x[cuda.threadIdx.x]
    if cuda.threadIdx.x == 37:
        x[0] = cuda.shfl_down_sync(0xFFFFFFFF, value, 1)
    cuda.syncthreads()
    x[cuda.threadIdx.x] = value


def test_a_warp_operation_that_waits_for_ever_is_an_error(run):
    x = np.zeros(64, np.float32)
    with pytest.raises(LaunchError) as caught:
        run(stuck, "float32[::1]", (2, 3), 64, x)
    assert "thread (37, 0, 0): a warp operation waits for ever" in str(caught.value)
    assert "stuck, block (" in str(caught.value)


def half_empty(x, out):
    # A mask of nobody: the lane is alone.
    out[cuda.grid(1)] = cuda.shfl_down_sync(0, x[cuda.grid(1)], 1)


def test_mask_of_nobody(run):
    x = np.arange(32, dtype=np.float32)
    out = np.zeros_like(x)
    run(half_empty, "float32[::1], float32[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out, x)
