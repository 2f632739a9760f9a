# SPDX-License-Identifier: Apache-2.0
"""Votes, matches, warp barriers, barriers with a condition and ``activemask``: masks, divergence, lanes that left."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.errors import LaunchError

FULL = 0xFFFFFFFF


def votes(x, out):
    i = cuda.grid(1)
    flag = x[i] > 0
    out[i, 0] = cuda.ballot_sync(FULL, flag)
    out[i, 1] = cuda.all_sync(FULL, flag)
    out[i, 2] = cuda.any_sync(FULL, flag)
    out[i, 3] = cuda.eq_sync(FULL, flag)


def divergent_votes(x, out):
    i = cuda.grid(1)
    flag = x[i] > 0
    if cuda.laneid % 3 == 0:
        mask = 0x49249249
        out[i, 1] = cuda.all_sync(mask, flag)
        out[i, 0] = cuda.ballot_sync(mask, flag)
        out[i, 2] = cuda.any_sync(mask, flag)
        out[i, 3] = cuda.eq_sync(mask, flag)
    elif cuda.laneid % 3 == 1:
        out[i, 0] = cuda.ballot_sync(0x92492492, flag)
        out[i, 3] = cuda.eq_sync(0x92492492, flag)
        out[i, 2] = cuda.any_sync(0x92492492, flag)
        out[i, 1] = cuda.all_sync(0x92492492, flag)
    else:
        return


def expected_votes(flags, here):
    out = np.zeros((flags.size, 4), np.int64)
    for first in range(0, flags.size, 32):
        for i in range(first, min(first + 32, flags.size)):
            mates = [j for j in range(first, min(first + 32, flags.size)) if here(j % 32) == here(i % 32)]
            row = flags[mates]
            ballot = sum(1 << (j - first) for j in mates if flags[j])
            out[i] = ballot, row.all(), row.any(), row.all() or not row.any()
    return out


def flags_of(threads):
    x = np.random.default_rng(threads).integers(-1, 2, threads)
    x[32:64] = 1
    x[64:96] = -1
    return x


@pytest.mark.parametrize("threads", [32, 96, 110])
def test_votes_of_whole_and_partial_warps(run, threads):
    x, out = flags_of(threads), np.zeros((threads, 4), np.int64)
    run(votes, "int64[::1], int64[:, ::1]", 1, threads, x, out)
    np.testing.assert_array_equal(out, expected_votes(x > 0, lambda lane: 0))


@pytest.mark.parametrize("threads", [32, 96, 110])
def test_votes_under_divergence(run, threads):
    x, out = flags_of(threads), np.zeros((threads, 4), np.int64)
    run(divergent_votes, "int64[::1], int64[:, ::1]", 1, threads, x, out)
    expected = expected_votes(x > 0, lambda lane: lane % 3)
    expected[np.arange(threads) % 32 % 3 == 2] = 0
    np.testing.assert_array_equal(out, expected)


def matches(x, out):
    i = cuda.grid(1)
    if cuda.laneid < 20:
        out[i, 0] = cuda.match_any_sync(0xFFFFF, x[i])
        found, alike = cuda.match_all_sync(0xFFFFF, x[i] // 4)
    else:
        out[i, 0] = cuda.match_any_sync(0xFFF00000, x[i])
        found, alike = cuda.match_all_sync(0xFFF00000, x[i] // 4)
    out[i, 1] = found
    out[i, 2] = alike


@pytest.mark.parametrize("kind", ["int32", "int64", "uint64", "float32", "float64"])
def test_matches(run, kind):
    x = np.random.default_rng(3).integers(0, 4, 96).astype(kind)
    x[7] = 11
    out = np.zeros((96, 3), np.int64)
    run(matches, f"{kind}[::1], int64[:, ::1]", 1, 96, x, out)
    for i in range(96):
        group = [j for j in range(i // 32 * 32, i // 32 * 32 + 32) if (j % 32 < 20) == (i % 32 < 20)]
        alike = len({x[j] // 4 for j in group}) == 1
        if kind.startswith("float"):
            alike = len({x[j] // 4 for j in group}) == 1
        mask = 0xFFFFF if i % 32 < 20 else 0xFFF00000
        same = sum(1 << j % 32 for j in group if x[j] == x[i])
        assert out[i].tolist() == [same, mask if alike else 0, alike]


def exchange_by_memory(x):
    shared = cuda.shared.array(64, np.int64)
    t = cuda.threadIdx.x
    half = t // 16 % 2
    mask = 0xFFFF << (16 * half)
    shared[t] = t
    for _ in range(half * 3 + 1):  # the two halves of a warp meet a different number of times
        cuda.syncwarp(mask)
        value = shared[t // 16 * 16 + (t + 1) % 16]
        cuda.syncwarp(mask)
        shared[t] = value
    cuda.syncwarp()
    x[t] = shared[t ^ 31]


def test_syncwarp_with_masks(run):
    x = np.zeros(64, np.int64)
    run(exchange_by_memory, "int64[::1]", 1, 64, x)
    t = np.arange(64)
    moved = t // 16 * 16 + (t + t // 16 % 2 * 3 + 1) % 16
    np.testing.assert_array_equal(x, moved[t ^ 31])


def block_votes(x, out):
    t = cuda.threadIdx.x
    if x[t] == 99:
        return
    for turn in range(3):
        out[t, turn, 0] = cuda.syncthreads_count(x[t] > turn)
        out[t, turn, 1] = cuda.syncthreads_and(x[t] > turn)
        out[t, turn, 2] = cuda.syncthreads_or(x[t] > turn)


def block_votes_and_shuffles(x, out):
    t = cuda.threadIdx.x
    if x[t] == 99:
        return
    for turn in range(3):
        out[t, turn, 0] = cuda.syncthreads_count(cuda.shfl_sync(FULL, x[t], cuda.laneid) > turn)
        out[t, turn, 1] = cuda.syncthreads_and(x[t] > turn)
        out[t, turn, 2] = cuda.syncthreads_or(x[t] > turn)


@pytest.mark.parametrize("function", [block_votes, block_votes_and_shuffles])
def test_barriers_with_a_condition(run, function):
    for low, high in ((0, 5), (3, 5), (0, 1)):
        x = np.random.default_rng(5).integers(low, high, 200)
        x[::7] = 99
        out = np.zeros((200, 3, 3), np.int64)
        run(function, "int64[::1], int64[:, :, ::1]", 1, 200, x, out)
        live = x[x != 99]
        for turn in range(3):
            true = live > turn
            assert (out[x != 99, turn] == [true.sum(), true.all(), true.any()]).all()
        assert (out[x == 99] == 0).all()


def active(out):
    t = cuda.threadIdx.x
    if t % 32 < 8:  # noqa: SIM114 (two operations, not one)
        out[t] = cuda.activemask()
    elif t % 2 == 0:
        out[t] = cuda.activemask()
    cuda.syncthreads()


def test_activemask(run):
    out = np.zeros(64, np.int64)
    run(active, "int64[::1]", 1, 64, out)
    even = sum(1 << lane for lane in range(8, 32, 2))
    row = np.where(np.arange(32) < 8, 0xFF, np.where(np.arange(32) % 2, 0, even))
    np.testing.assert_array_equal(out, np.tile(row, 2))


def mixed_operations(out):
    # The same mask, but some vote while the others shuffle.
    if cuda.laneid < 16:
        out[cuda.laneid] = cuda.any_sync(FULL, True)
    else:
        out[cuda.laneid] = cuda.shfl_sync(FULL, 1, 0)


def test_lanes_that_meet_in_different_operations_wait_for_ever(run):
    with pytest.raises(LaunchError, match="a warp operation waits for ever"):
        run(mixed_operations, "int64[::1]", 1, 32, np.zeros(32, np.int64))
