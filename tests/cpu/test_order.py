# SPDX-License-Identifier: Apache-2.0
"""``CUDABUILD_CPU_ORDER`` shuffles blocks: each runs once, and kernels that count on an order are found out."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.order import choose_order
from cudabuild.errors import SettingError


def record(ticket, turns):
    if cuda.threadIdx.x == 0:
        number = cuda.blockIdx.x + cuda.gridDim.x * (cuda.blockIdx.y + cuda.gridDim.y * cuda.blockIdx.z)
        turns[cuda.atomic.add(ticket, 0, 1)] = number


def turns_of(run, grid):
    blocks = grid[0] * grid[1] * grid[2]
    turns = np.full(blocks, -1)
    run(record, "int64[::1], int64[::1]", grid, 1, np.zeros(1, np.int64), turns)
    assert sorted(turns) == list(range(blocks))
    return turns.tolist()


@pytest.mark.parametrize("grid", [(1, 1, 1), (2, 1, 1), (210, 1, 1), (7, 5, 3), (1, 997, 1)])
def test_every_block_runs_once(run, grid, monkeypatch):
    blocks = grid[0] * grid[1] * grid[2]
    assert turns_of(run, grid) == list(range(blocks))  # so few threads are one worker's
    monkeypatch.setenv("CUDABUILD_CPU_ORDER", "7")
    orders = {tuple(turns_of(run, grid)) for _ in range(4)}
    if blocks > 2:
        assert len(orders) > 1


@pytest.mark.parametrize("blocks", [2, 3, 64, 1000, (1 << 31) - 1, 1 << 31, 1 << 40, (1 << 62) - 1])
def test_the_order_never_overflows(blocks, monkeypatch):
    monkeypatch.setenv("CUDABUILD_CPU_ORDER", "3")
    for _ in range(20):
        factor, offset = choose_order(blocks)
        assert np.gcd(factor, blocks) == 1
        assert (blocks - 1) * factor + offset < 1 << 63
    monkeypatch.delenv("CUDABUILD_CPU_ORDER")
    assert choose_order(blocks) == (0, 0)


def last_writer_wins(x):
    x[0] = cuda.blockIdx.x


def test_a_kernel_that_counts_on_the_order_is_found_out(run, monkeypatch):
    monkeypatch.setenv("CUDABUILD_CPU_ORDER", "1")
    seen = set()
    for _ in range(5):
        x = np.zeros(1, np.int64)
        run(last_writer_wins, "int64[::1]", 100, 1, x)
        seen.add(int(x[0]))
    assert len(seen) > 1


def test_a_bad_seed(run, monkeypatch):
    monkeypatch.setenv("CUDABUILD_CPU_ORDER", "random")
    with pytest.raises(SettingError) as caught:
        run(last_writer_wins, "int64[::1]", 1, 1, np.zeros(1, np.int64))
    assert str(caught.value).splitlines() == [
        "bad value of the environment variable CUDABUILD_CPU_ORDER",
        "  found:    'random'",
        "  expected: a whole number above 0",
    ]
