# SPDX-License-Identifier: Apache-2.0
"""Barriers that count, votes, matches, shuffles and fences: whole warps, partial warps, divergent branches."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import int32, int64

WORDS = ("int32", "uint32", "int64", "uint64", "float32", "float64")
ALL = 0xFFFFFFFF


def lanes_of(flags):
    """The lanes of a warp where ``flags`` holds, as a mask."""
    return sum(1 << int(lane) for lane in np.flatnonzero(flags))


# barriers


def tally(x, out):
    i = cuda.grid(1)
    n = cuda.syncthreads_count(x[i] > 3)
    every = cuda.syncthreads_and(x[i] > 0)
    some = cuda.syncthreads_or(x[i] > 8)
    out[i] = n * 100 + every * 10 + some


@pytest.mark.parametrize("block", [1, 32, 48, 256])
def test_barriers_that_count(run, block):
    x = np.random.default_rng(block).integers(0, 10, 5 * block).astype(np.int32)
    x[block : 2 * block] = 5
    out = np.zeros(x.size, np.int64)
    run(tally, "int32[::1], int64[::1]", 5, block, x, out)
    for n in range(5):
        part = x[n * block : (n + 1) * block]
        expected = (part > 3).sum() * 100 + (part > 0).all() * 10 + (part > 8).any()
        assert (out[n * block : (n + 1) * block] == expected).all()


def settle(x, rounds):
    """Halves even numbers until none is left in the block; some threads leave first, whole warps of them."""
    i = cuda.grid(1)
    if x[i] < 0:
        return
    count = 0
    while cuda.syncthreads_or(x[i] % 2 == 0 and x[i] > 0):
        if x[i] % 2 == 0:
            x[i] //= 2
        count += 1
    if cuda.syncthreads_and(x[i] % 2):
        count += 1000
    rounds[i] = count + 10_000 * cuda.syncthreads_count(True)


def test_barriers_that_count_only_live_threads(run):
    x = np.random.default_rng(1).integers(1, 1 << 20, 128).astype(np.int64)
    x[32:64] = -1
    start, rounds = x.copy(), np.zeros(128, np.int64)
    run(settle, "int64[::1], int64[::1]", 1, 128, x, rounds)
    live = start > 0
    twos = np.array([(int(v) & -int(v)).bit_length() - 1 for v in start[live]])
    np.testing.assert_array_equal(x[live], start[live] >> twos)
    assert (x[~live] == -1).all()
    assert (rounds[live] == twos.max() + 1000 + 10_000 * 96).all()


def transpose(x, out):
    tile = cuda.shared.array((4, 32), int32)
    warp, lane = cuda.threadIdx.x // 32, cuda.threadIdx.x % 32
    tile[warp, lane] = x[cuda.grid(1)]
    cuda.syncwarp()
    out[cuda.grid(1)] = tile[warp, lane // 4 + lane % 4 * 8]


def test_syncwarp_orders_shared_memory(run):
    x = np.arange(256, dtype=np.int32)
    out = np.zeros_like(x)
    run(transpose, "int32[::1], int32[::1]", 2, 128, x, out)
    lane = np.arange(32)
    np.testing.assert_array_equal(out.reshape(8, 32), x.reshape(8, 32)[:, lane // 4 + lane % 4 * 8])


def halves(x, out):
    tile = cuda.shared.array(32, int64)
    lane = cuda.laneid
    tile[lane] = x[lane]
    if lane < 16:
        for step in range(4):
            cuda.syncwarp(0xFFFF)
            value = tile[(lane + 1) % 16]
            cuda.syncwarp(0xFFFF)
            tile[lane] = value + step
        out[lane] = tile[lane]
    else:
        cuda.syncwarp(0xFFFF0000)
        out[lane] = tile[48 - lane - 1]


def test_syncwarp_of_half_a_warp(run):
    x = np.random.default_rng(3).integers(0, 1000, 32).astype(np.int64)
    out = np.zeros_like(x)
    run(halves, "int64[::1], int64[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out[:16], np.roll(x[:16], -4) + 6)
    np.testing.assert_array_equal(out[16:], x[16:][::-1])


# shuffles


def every_shuffle(x, out, lane):
    i = cuda.grid(1)
    out[0, i] = cuda.shfl_sync(0xFFFFFFFF, x[i], lane)
    out[1, i] = cuda.shfl_up_sync(0xFFFFFFFF, x[i], lane)
    out[2, i] = cuda.shfl_down_sync(0xFFFFFFFF, x[i], lane)
    out[3, i] = cuda.shfl_xor_sync(0xFFFFFFFF, x[i], lane)
    out[4, i] = cuda.shfl_sync(0xFFFFFFFF, x[i], i * 7 + lane)


@pytest.mark.parametrize("name", WORDS)
@pytest.mark.parametrize("distance", [0, 1, 13, 31])
def test_every_shuffle(run, name, distance):
    x = (np.arange(64) * 5 + 1).astype(name)
    out = np.zeros((5, 64), name)
    run(every_shuffle, f"{name}[::1], {name}[:, ::1], int32", 1, 64, x, out, distance)
    lane = np.arange(32)
    for first in (0, 32):
        warp, found = x[first : first + 32], out[:, first : first + 32]
        np.testing.assert_array_equal(found[0], np.full(32, warp[distance]))
        np.testing.assert_array_equal(found[1], warp[np.where(lane >= distance, lane - distance, lane)])
        np.testing.assert_array_equal(found[2], warp[np.where(lane + distance < 32, lane + distance, lane)])
        np.testing.assert_array_equal(found[3], warp[lane ^ distance])
        np.testing.assert_array_equal(found[4], warp[((first + lane) * 7 + distance) % 32])


def prefix_sum(x, out):
    i = cuda.grid(1)
    value = x[i]
    step = 1
    while step < 32:
        below = cuda.shfl_up_sync(0xFFFFFFFF, value, step)
        if cuda.laneid >= step:
            value += below
        step *= 2
    out[i] = value


def test_prefix_sum(run):
    x = np.random.default_rng(8).integers(-9, 9, 256).astype(np.int64)
    out = np.zeros_like(x)
    run(prefix_sum, "int64[::1], int64[::1]", 2, 128, x, out)
    np.testing.assert_array_equal(out.reshape(-1, 32), x.reshape(-1, 32).cumsum(axis=1))


def butterfly(x, out):
    i = cuda.grid(1)
    value = x[i]
    for bit in range(5):
        value = max(value, cuda.shfl_xor_sync(0xFFFFFFFF, value, 1 << bit))
    out[i] = value


def quarters(x, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    value = x[i]
    if lane < 8:
        value = cuda.shfl_sync(0xFF, value, 7 - lane)
        value += cuda.shfl_up_sync(0xFF, value, 1)
    elif lane < 16:
        value = cuda.shfl_xor_sync(0xFF00, value, 3)
    else:
        value = cuda.shfl_xor_sync(0xFFFF0000, cuda.shfl_sync(0xFFFF0000, value, 16), 1) + lane
    out[i] = cuda.shfl_sync(0xFFFFFFFF, value, lane + 1)


def test_shuffles_of_a_whole_and_a_divided_warp(run):
    x = np.random.default_rng(9).integers(0, 1000, 64).astype(np.float64)
    out = np.zeros_like(x)
    run(butterfly, "float64[::1], float64[::1]", 1, 64, x, out)
    np.testing.assert_array_equal(out, np.repeat(x.reshape(2, 32).max(axis=1), 32))
    run(quarters, "float64[::1], float64[::1]", 1, 64, x, out)
    lane = np.arange(32)
    for warp, found in zip(x.reshape(2, 32), out.reshape(2, 32), strict=True):
        value = warp.copy()
        value[:8] = value[7::-1]
        value[:8] += np.append(value[0], value[:7])
        value[8:16] = value[lane[8:16] ^ 3]
        value[16:] = warp[16] + lane[16:]
        np.testing.assert_array_equal(found, np.roll(value, -1))


# votes


def every_vote(x, bools, lanes):
    i = cuda.grid(1)
    bools[0, i] = cuda.all_sync(0xFFFFFFFF, x[i])
    bools[1, i] = cuda.any_sync(0xFFFFFFFF, x[i])
    bools[2, i] = cuda.eq_sync(0xFFFFFFFF, x[i])
    lanes[i] = cuda.ballot_sync(0xFFFFFFFF, x[i])


@pytest.mark.parametrize("name", ["bool", "int32", "int64", "float32"])
def test_every_vote(run, name):
    rng = np.random.default_rng(2)
    x = np.concatenate([np.zeros(32), np.ones(32), rng.random(32) < 0.3, rng.random(32) < 0.9]).astype(name)
    bools, lanes = np.zeros((3, 128), np.bool_), np.zeros(128, np.uint32)
    run(every_vote, f"{name}[::1], bool[:, ::1], uint32[::1]", 2, 64, x, bools, lanes)
    for n, warp in enumerate(x.reshape(4, 32) != 0):
        mine = slice(32 * n, 32 * n + 32)
        assert (bools[0, mine] == warp.all()).all()
        assert (bools[1, mine] == warp.any()).all()
        assert (bools[2, mine] == (warp.all() or not warp.any())).all()
        assert (lanes[mine] == lanes_of(warp)).all()


def votes_apart(x, out):
    i = cuda.grid(1)
    lane = cuda.laneid
    odd = x[i] % 2 == 1
    if lane % 2 == 0:
        even_lanes = 0x55555555
        result = cuda.ballot_sync(even_lanes, odd)
        if cuda.any_sync(even_lanes, x[i] > 90):
            result += cuda.all_sync(even_lanes, x[i] < 99)
    elif lane < 16:
        result = cuda.ballot_sync(0x0000AAAA, odd)
        if cuda.eq_sync(0x0000AAAA, odd):
            result = cuda.ballot_sync(0x0000AAAA, not odd)
    else:
        result = 7
    out[i] = cuda.ballot_sync(0xFFFFFFFF, result % 2 == 1) ^ result


def test_votes_in_branches(run):
    x = np.random.default_rng(4).integers(0, 100, 256).astype(np.int32)
    x[1:16:2] = 3  # in the first warp they all vote alike
    out = np.zeros(256, np.uint32)
    run(votes_apart, "int32[::1], uint32[::1]", 2, 128, x, out)
    lane = np.arange(32)
    low = (lane % 2 == 1) & (lane < 16)
    for warp, found in zip(x.reshape(8, 32), out.reshape(8, 32), strict=True):
        odd, even_lanes = warp % 2 == 1, lane % 2 == 0
        result = np.full(32, 7, np.int64)
        result[even_lanes] = lanes_of(odd & even_lanes)
        if (warp[even_lanes] > 90).any():
            result[even_lanes] += (warp[even_lanes] < 99).all()
        same = odd[low].all() or not odd[low].any()
        result[low] = lanes_of(low & (~odd if same else odd))
        np.testing.assert_array_equal(found, result ^ lanes_of(result % 2 == 1))


def partial_warp(x, out):
    i = cuda.grid(1)
    if i >= x.size:
        return
    lanes = cuda.ballot_sync(0x000FFFFF, x[i] > 0)
    cuda.syncwarp(0x000FFFFF)
    total = cuda.shfl_down_sync(0x000FFFFF, x[i], 10)  # beyond lane 9 from a lane that is gone: not looked at
    out[i] = lanes + (total if cuda.laneid < 10 else 0)


def test_lanes_that_returned_are_not_waited_for(run):
    x = np.arange(-5, 15, dtype=np.int64)
    out = np.zeros(20, np.int64)
    run(partial_warp, "int64[::1], int64[::1]", 1, 32, x, out)
    expected = np.full(20, lanes_of(x > 0))
    expected[:10] += x[10:]
    np.testing.assert_array_equal(out, expected)


# matches


def every_match(x, any_, all_, same):
    i = cuda.grid(1)
    any_[i] = cuda.match_any_sync(0xFFFFFFFF, x[i])
    mask, alike = cuda.match_all_sync(0xFFFFFFFF, x[i])
    all_[i] = mask
    same[i] = alike


@pytest.mark.parametrize("name", WORDS)
def test_every_match(run, name):
    x = np.random.default_rng(6).integers(0, 4, 96).astype(name)
    x[32:64] = 1 << 31 if name.startswith("uint") else -7
    if name in ("int64", "uint64"):
        x[:32] += (np.arange(32) % 2 << 40).astype(name)  # the low halves alone do not tell
    any_, all_, same = np.zeros(96, np.uint32), np.zeros(96, np.uint32), np.zeros(96, np.bool_)
    run(every_match, f"{name}[::1], uint32[::1], uint32[::1], bool[::1]", 1, 96, x, any_, all_, same)
    for n, warp in enumerate(x.reshape(3, 32)):
        mine = slice(32 * n, 32 * n + 32)
        np.testing.assert_array_equal(any_[mine], [lanes_of(warp == value) for value in warp])
        assert (same[mine] == (n == 1)).all()
        assert (all_[mine] == (ALL if n == 1 else 0)).all()


def add_once_per_key(keys, sums):
    """Lanes with one key add together: the lowest adds for all."""
    i = cuda.grid(1)
    lane = cuda.laneid
    if lane < 24:
        peers = cuda.match_any_sync(0x00FFFFFF, keys[i])
        if cuda.ffs(peers) - 1 == lane:
            cuda.atomic.add(sums, keys[i], cuda.popc(peers))
    else:
        mask, alike = cuda.match_all_sync(0xFF000000, keys[i])
        if alike and lane == 24:
            cuda.atomic.add(sums, keys[i], 8 + (mask & 0xFFFFFF))
        elif not alike:
            cuda.atomic.add(sums, keys[i], 1)


def test_matches_in_branches(run):
    keys = np.random.default_rng(7).integers(0, 5, 256).astype(np.int32)
    keys[24:32] = keys[88:96] = 4
    sums = np.zeros(5, np.int64)
    run(add_once_per_key, "int32[::1], int64[::1]", 2, 128, keys, sums)
    np.testing.assert_array_equal(sums, np.bincount(keys, minlength=5))


# activemask, lanemask_lt


def here(out):
    i = cuda.grid(1)
    mask = cuda.activemask()
    out[i, 0] = (mask >> cuda.laneid) & 1
    if cuda.laneid % 3 == 0:
        out[i, 1] = cuda.activemask() & 0xB6DB6DB6  # lanes that cannot be here
    else:
        out[i, 1] = cuda.activemask() & 0x49249249
    out[i, 2] = cuda.lanemask_lt()


def test_activemask_holds_this_lane_and_none_of_another_branch(run):
    out = np.full((80, 3), 9, np.uint32)
    run(here, "uint32[:, ::1]", 2, 40, out)
    assert (out[:, 0] == 1).all()
    assert (out[:, 1] == 0).all()
    lane = np.tile(np.append(np.arange(32), np.arange(8)), 2)
    np.testing.assert_array_equal(out[:, 2], (1 << lane) - 1)


def elect(x, total):
    i = cuda.grid(1)
    if x[i] > 0:
        mask = cuda.activemask()
        if mask & cuda.lanemask_lt() == 0:
            cuda.atomic.add(total, 0, cuda.popc(mask))
    if cuda.popc(cuda.lanemask_lt()) != cuda.laneid:
        total[0] = -1_000_000


def test_each_thread_is_in_one_active_mask(run):
    x = np.random.default_rng(8).integers(-5, 5, 320).astype(np.int32)
    total = np.zeros(1, np.int64)
    run(elect, "int32[::1], int64[::1]", 2, 160, x, total)
    assert total[0] == (x > 0).sum()


# fences


def last_block(x, partial, done, out):
    """The block that finishes last adds up what all blocks left."""
    last = cuda.shared.array(1, int32)
    t = cuda.threadIdx.x
    if t == 0:
        total = int64(0)
        for k in range(cuda.blockDim.x):
            total += x[cuda.blockIdx.x * cuda.blockDim.x + k]
        partial[cuda.blockIdx.x] = total
        cuda.threadfence()
        last[0] = cuda.atomic.add(done, 0, 1) == cuda.gridDim.x - 1
    cuda.syncthreads()
    if last[0] and t == 0:
        cuda.threadfence()
        total = int64(0)
        for k in range(cuda.gridDim.x):
            total += partial[k]
        out[0] = total


def test_threadfence(run):
    x = np.random.default_rng(9).integers(-100, 100, 64 * 50).astype(np.int64)
    partial, done, out = np.zeros(50, np.int64), np.zeros(1, np.int32), np.zeros(1, np.int64)
    run(last_block, "int64[::1], int64[::1], int32[::1], int64[::1]", 50, 64, x, partial, done, out)
    assert out[0] == x.sum()


def message(x, out):
    """The first warp passes a number to the second: data, fence, flag."""
    box = cuda.shared.array(2, int32)
    t = cuda.threadIdx.x
    if t == 0:
        box[1] = 0
    cuda.syncthreads()
    if t == 0:
        box[0] = x[cuda.blockIdx.x]
        cuda.threadfence_block()
        cuda.atomic.exch(box, 1, 1)
    elif t == 32:
        while cuda.atomic.add(box, 1, 0) == 0:
            cuda.nanosleep(10)
        cuda.threadfence_block()
        out[cuda.blockIdx.x] = box[0]
    cuda.threadfence_system()


def test_threadfence_block(run):
    x = np.arange(100, 120, dtype=np.int32)
    out = np.zeros_like(x)
    run(message, "int32[::1], int32[::1]", 20, 64, x, out)
    np.testing.assert_array_equal(out, x)


def published(x, out):
    i = cuda.grid(1)
    out[i, 0] = x[i]
    cuda.threadfence_system()
    out[i, 1] = out[i, 0] * 2
    if i % 2:
        cuda.threadfence_system()
        cuda.threadfence_block()
        out[i, 2] = out[i, 1] + 1


def test_fences_between_accesses(run):
    x = np.arange(64, dtype=np.int32)
    out = np.zeros((64, 3), np.int32)
    run(published, "int32[::1], int32[:, ::1]", 2, 32, x, out)
    np.testing.assert_array_equal(out, np.stack([x, 2 * x, np.where(x % 2, 2 * x + 1, 0)], axis=1))
