# SPDX-License-Identifier: Apache-2.0
"""Blocks that run as one: which kernels allow it, what their threads see, and where a fault is said to be."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import emit_host_text
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.errors import BoundsError
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.types import float32, parse_signature


def joins(function, signature="int64[:, :, ::1]"):
    ir = run_passes(build_ir(KernelDefinition(function), parse_signature(signature)), target_kind="host")
    return emit_host_text(ir)[1].plan.joined


def mark(out):
    x, y, z = cuda.grid(3)
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] += 1 + x + 1000 * y + 1000000 * z


def mark_by_hand(out):
    x = cuda.threadIdx.x + cuda.blockDim.x * cuda.blockIdx.x
    y = cuda.blockIdx.y * cuda.blockDim.y + cuda.threadIdx.y
    z = cuda.grid(3)[2]
    if x < out.shape[2] and y < out.shape[1] and z < out.shape[0]:
        out[z, y, x] += 1 + x + 1000 * y + 1000000 * z


def stride(out):
    for x in range(cuda.grid(1), out.shape[2], cuda.gridDim.x * cuda.blockDim.x):
        for z in range(out.shape[0]):
            for y in range(out.shape[1]):
                out[z, y, x] += 1 + x + 1000 * y + 1000000 * z


@pytest.mark.parametrize("function", [mark, mark_by_hand, stride])
def test_kernels_that_know_their_place_in_the_grid_only(function):
    assert joins(function)


def by_thread(out):
    out[0, 0, cuda.threadIdx.x] = cuda.grid(1)


def by_block(out):
    out[0, 0, cuda.blockIdx.x] = cuda.grid(1)


def by_lane(out):
    out[0, 0, cuda.grid(1)] = cuda.laneid


def place(n):
    return cuda.threadIdx.x + n


def by_callee(out):
    out[0, 0, cuda.grid(1)] = place(1)


def by_shared(out):
    values = cuda.shared.array(4, float32)
    values[0] = cuda.grid(1)
    out[0, 0, cuda.grid(1)] = values[0]


@pytest.mark.parametrize("function", [by_thread, by_block, by_lane, by_callee, by_shared])
def test_kernels_that_can_tell_blocks_apart(function):
    assert not joins(function)


@pytest.mark.parametrize("order", [None, "7"])
@pytest.mark.parametrize(
    ("grid", "block"),
    [
        ((1, 1, 1), (1, 1, 1)),
        ((7, 3, 2), (5, 2, 3)),
        ((300, 1, 1), (1, 1, 1)),  # more blocks than a worker takes at a time
        ((9, 2, 1), (1000, 1, 1)),  # more threads than a row may have
        ((65, 1, 3), (33, 2, 1)),
    ],
)
@pytest.mark.parametrize("function", [mark, mark_by_hand])
def test_every_thread_runs_once(run, monkeypatch, function, grid, block, order):
    if order is not None:
        monkeypatch.setenv("CUDABUILD_CPU_ORDER", order)
    extents = [g * b for g, b in zip(grid, block, strict=True)]
    out = np.zeros([max(1, n - cut) for n, cut in zip(extents[::-1], (0, 1, 2), strict=True)], np.int64)
    run(function, "int64[:, :, ::1]", grid, block, out)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, 1 + x + 1000 * y + 1000000 * z)


@pytest.mark.parametrize("cores", [2, 3, 5, 16])
@pytest.mark.parametrize(
    ("grid", "block"), [((3, 41, 2), (32, 2, 2)), ((997, 1, 1), (33, 1, 1)), ((5, 7, 40), (64, 1, 1))]
)
def test_every_thread_runs_once_whatever_part_a_worker_begins_with(run, monkeypatch, grid, block, cores):
    monkeypatch.setattr("cudabuild.cpu.device.core_count", lambda: cores)
    extents = [g * b for g, b in zip(grid, block, strict=True)]
    for _ in range(20):
        out = np.zeros(extents[::-1], np.int64)
        run(mark, "int64[:, :, ::1]", grid, block, out)
        z, y, x = np.indices(out.shape)
        np.testing.assert_array_equal(out, 1 + x + 1000 * y + 1000000 * z)


def test_a_strided_loop_in_joined_blocks(run):
    out = np.zeros((2, 3, 10000), np.int64)
    run(stride, "int64[:, :, ::1]", 5, 64, out)
    z, y, x = np.indices(out.shape)
    np.testing.assert_array_equal(out, 1 + x + 1000 * y + 1000000 * z)


def one_bad_index(out, bad):
    x, y, z = cuda.grid(3)
    if x == bad[0] and y == bad[1] and z == bad[2]:
        out[x - out.size * 2] = 1


@pytest.mark.parametrize("bad", [(0, 0, 0), (29, 0, 0), (17, 3, 1), (34, 5, 5), (4, 5, 3), (5, 2, 2)])
def test_a_fault_names_the_block_and_the_thread_of_the_launch(monkeypatch, bad):
    monkeypatch.setenv("CUDABUILD_CHECK", "bounds")
    grid, block = (7, 3, 2), (5, 2, 3)
    launcher = CpuDevice().bind(KernelDefinition(one_bad_index), parse_signature("int64[::1], int64[::1]"))
    with pytest.raises(BoundsError) as caught:
        launcher(grid, block, 0, 0, (np.zeros(100, np.int64), np.array(bad)))
    where = [divmod(n, size) for n, size in zip(bad, block, strict=True)]
    blocks, threads = (tuple(pair[part] for pair in where) for part in (0, 1))
    assert (caught.value.block, caught.value.thread) == (blocks, threads)
