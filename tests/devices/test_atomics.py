# SPDX-License-Identifier: Apache-2.0
"""Every atomic operation on every type, in global and shared memory, under contention and divergence."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import float32, float64, int32, int64, uint32, uint64

INTEGERS = ("int32", "uint32", "int64", "uint64")
FLOATS = ("float32", "float64")


def add(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.add(out, i % out.size, x[i])


def sub(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.sub(out, i % out.size, x[i])


def and_(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.and_(out, i % out.size, x[i])


def or_(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.or_(out, i % out.size, x[i])


def xor(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.xor(out, i % out.size, x[i])


def max_(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.max(out, i % out.size, x[i])


def min_(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.min(out, i % out.size, x[i])


def nanmax(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.nanmax(out, i % out.size, x[i])


def nanmin(x, out, old):
    i = cuda.grid(1)
    old[i] = cuda.atomic.nanmin(out, i % out.size, x[i])


UFUNCS = {
    add: np.add, sub: np.subtract, and_: np.bitwise_and, or_: np.bitwise_or, xor: np.bitwise_xor,
    max_: np.maximum, min_: np.minimum, nanmax: np.fmax, nanmin: np.fmin,
}  # fmt: skip
CASES = [(f, name) for f in UFUNCS for name in (*INTEGERS, *FLOATS) if not (name in FLOATS and f in (and_, or_, xor))]


@pytest.mark.parametrize(("function", "name"), CASES, ids=lambda case: getattr(case, "__name__", case))
def test_the_sum_of_all_updates(run, function, name):
    rng = np.random.default_rng(3)
    dtype = np.dtype(name)
    # Floats are small integers, so that sums are exact in any order.
    x = rng.integers(-90, 90, 2048).astype(dtype)
    if dtype.kind in "iu":
        x = rng.integers(0, 1 << (8 * dtype.itemsize), 2048, dtype=f"u{dtype.itemsize}").view(dtype)
    out = x[:7].copy()
    old = np.zeros_like(x)
    expected = out.copy()
    UFUNCS[function].at(expected, np.arange(x.size) % 7, x)
    run(function, f"{name}[::1], {name}[::1], {name}[::1]", 8, 256, x, out, old)
    np.testing.assert_array_equal(out, expected)
    for slot in range(7):
        # whoever came first saw the element as it was
        assert x[slot] in old[slot::7]


def missing(x, most, least, nanmost, nanleast):
    i = cuda.grid(1)
    cuda.atomic.max(most, i % 4, x[i])
    cuda.atomic.min(least, i % 4, x[i])
    cuda.atomic.nanmax(nanmost, i % 4, x[i])
    if x[i] != 7:  # which would change nothing
        cuda.atomic.nanmin(nanleast, i % 4, x[i])


@pytest.mark.parametrize("name", FLOATS)
def test_nan(run, name):
    x = np.arange(64, dtype=name)
    x[x % 4 == 1] = np.nan  # slot 1 gets nothing but NaN
    x[18] = x[40] = np.nan  # slots 2 and 0 one each
    start = np.array([5, 5, np.nan, 5], name)
    results = [start.copy() for _ in range(4)]
    run(missing, ", ".join([f"{name}[::1]"] * 5), 2, 32, x, *results)
    most, least, nanmost, nanleast = results
    nan = np.nan
    np.testing.assert_array_equal(most, [60, 5, nan, 63])
    np.testing.assert_array_equal(least, [0, 5, nan, 3])
    np.testing.assert_array_equal(nanmost, [60, 5, 62, 63])
    np.testing.assert_array_equal(nanleast, [0, 5, 2, 3])


def ring(counts, limits, tickets, down):
    i = cuda.grid(1)
    slot = i % limits.size
    tickets[i] = cuda.atomic.inc(counts, slot, limits[slot])
    if i % 2 == 0:
        cuda.atomic.dec(down, slot, limits[slot])


@pytest.mark.parametrize("name", ["uint32", "uint64"])
def test_inc_and_dec_count_round(run, name):
    limits = np.array([0, 1, 9, 200, 10_000], name)
    counts = np.array([0, 0, 0, 0, 20_000], name)  # the last is beyond its limit: reset by the first
    down = np.array([0, 1, 4, 0, 20_000], name)
    tickets = np.zeros(1280, name)
    run(ring, ", ".join([f"{name}[::1]"] * 4), 5, 256, counts, limits, tickets, down)
    each = 256
    expected = [0, each % 2, each % 10, each % 201, (each - 1) % 10_001]
    np.testing.assert_array_equal(counts, np.array(expected, name))
    for slot, limit in enumerate(limits[:4]):
        seen = np.bincount(tickets[slot::5].astype(np.int64), minlength=int(limit) + 1)
        assert seen.size == limit + 1
        assert seen.max() - seen.min() <= 1
    for slot, start in enumerate((0, 1, 4, 0, 20_000)):
        value = start
        for _ in range(128):
            value = int(limits[slot]) if value == 0 or value > limits[slot] else value - 1
        assert down[slot] == value


def exchange(x, out, chain):
    i = cuda.grid(1)
    chain[i] = cuda.atomic.exch(out, 0, x[i])


@pytest.mark.parametrize("name", [*INTEGERS, *FLOATS])
def test_exch_hands_every_value_on_once(run, name):
    x = np.arange(1, 513).astype(name)
    out = np.zeros(1, name)
    chain = np.zeros_like(x)
    run(exchange, ", ".join([f"{name}[::1]"] * 3), 4, 128, x, out, chain)
    np.testing.assert_array_equal(np.sort(np.append(chain, out)), np.arange(513).astype(name))


def claim(x, owners, firsts, seen):
    i = cuda.grid(1)
    seen[i] = cuda.atomic.cas(owners, (i % 3, x[i] % 5), 0, x[i])
    if i % 3 != 1:
        cuda.atomic.compare_and_swap(firsts, 0, x[i])


@pytest.mark.parametrize("name", INTEGERS)
def test_cas_lets_one_win(run, name):
    x = np.arange(1, 301).astype(name)
    owners, firsts = np.zeros((3, 5), name), np.zeros(4, name)
    seen = np.full(300, 7777).astype(name)
    run(claim, f"{name}[::1], {name}[:, ::1], {name}[::1], {name}[::1]", 3, 100, x, owners, firsts, seen)
    i = np.arange(300)
    for row in range(3):
        for column in range(5):
            mine = (i % 3 == row) & (x % 5 == column)
            assert owners[row, column] in x[mine]
            assert (seen[mine] == 0).sum() == 1
            assert set(seen[mine]) <= {0, owners[row, column]}
    assert firsts[0] in x[i % 3 != 1]
    assert (firsts[1:] == 0).all()


def product(x, out):
    i = cuda.grid(1)
    if i % 5 != 0:
        old = out[0]
        while True:
            before = cuda.atomic.cas(out, 0, old, old * x[i])
            if before == old:
                break
            old = before


@pytest.mark.parametrize("name", [*FLOATS, "int64"])
def test_a_loop_of_cas(run, name):
    x = np.where(np.arange(256) % 7 == 0, 2, -1).astype(name)
    out = np.ones(1, name)
    run(product, f"{name}[::1], {name}[::1]", 2, 128, x, out)
    assert out[0] == np.prod(x[np.arange(256) % 5 != 0].astype(np.float64))


def zeros_differ(out, old):
    old[0] = cuda.atomic.cas(out, 0, 0.0, 1.0)
    old[1] = cuda.atomic.compare_and_swap(out, -0.0, 2.0)


def test_cas_compares_bits(run):
    out, old = np.array([-0.0]), np.zeros(2)
    run(zeros_differ, "float64[::1], float64[::1]", 1, 1, out, old)
    assert out[0] == 2
    assert np.signbit(old).all()


def histogram(x, out):
    bins = cuda.shared.array(16, uint32)
    low = cuda.shared.array(4, int64)
    t = cuda.threadIdx.x
    if t < 16:
        bins[t] = 0
    if t < 4:
        low[t] = 1000
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < x.size:
        if x[i] % 2 == 0:
            cuda.atomic.inc(bins, x[i], 0xFFFFFFFF)
        else:
            cuda.atomic.add(bins, x[i], 1)
        cuda.atomic.min(low, x[i] // 4, x[i])
        cuda.atomic.xor(bins, -1, 0)
        cuda.atomic.or_(bins, 15, 0)
        cuda.atomic.and_(bins, 15, 0xFFFFFFFF)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(out, t, bins[t])
    if t < 4:
        cuda.atomic.add(out, 16 + t, low[t])


def test_integers_in_shared_memory(run):
    x = np.random.default_rng(2).integers(0, 16, 5000).astype(np.int32)
    out = np.zeros(20, np.int64)
    run(histogram, "int32[::1], int64[::1]", 20, 256, x, out)
    np.testing.assert_array_equal(out[:16], np.bincount(x, minlength=16))
    np.testing.assert_array_equal(out[16:], np.array([0, 4, 8, 12]) * 20)


def extremes(x, out):
    most = cuda.shared.array(2, float32)
    total = cuda.shared.array(2, float64)
    owner = cuda.shared.array(1, uint64)
    free = cuda.shared.array(1, uint32)
    t = cuda.threadIdx.x
    if t == 0:
        most[0] = most[1] = -1e30
        total[0] = total[1] = 0
        owner[0] = 0
        free[0] = 3
    cuda.syncthreads()
    if t % 3 != 2:
        cuda.atomic.nanmax(most, t % 3, x[t])
        cuda.atomic.sub(total, t % 3, x[t])
        cuda.atomic.cas(owner, 0, 0, t + 1)
        cuda.atomic.dec(free, 0, 3)
        cuda.atomic.exch(most, t % 3, cuda.atomic.max(most, t % 3, x[t]))
    cuda.syncthreads()
    if t == 0:
        out[0] = total[0]
        out[1] = total[1]
        out[2] = owner[0] % 3
        out[3] = free[0]


def test_floats_in_shared_memory(run):
    x = np.random.default_rng(5).integers(-50, 50, 96).astype(np.float32)
    out = np.zeros(4)
    run(extremes, "float32[::1], float64[::1]", 1, 96, x, out)
    t = np.arange(96)
    assert list(out[:2]) == [-x[t % 3 == 0].sum(), -x[t % 3 == 1].sum()]
    assert out[2] in (1, 2)
    assert out[3] == (3 - 64) % 4


def locked(total, lock):
    mutex = cuda.shared.array(1, int32)
    if cuda.threadIdx.x == 0:
        mutex[0] = 0
    cuda.syncthreads()
    # One thread at a time, of all blocks: what a lock is for. One thread of a warp asks, or the warp would wait for it.
    if cuda.threadIdx.x % 32 == 0:
        while cuda.atomic.cas(mutex, 0, 0, 1) != 0:
            cuda.nanosleep(20)
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            cuda.nanosleep(20)
        cuda.threadfence()
        total[0] += 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)
        cuda.threadfence_block()
        cuda.atomic.exch(mutex, 0, 0)


def test_locks(run):
    total, lock = np.zeros(1, np.int64), np.zeros(1, np.int32)
    run(locked, "int64[::1], int32[::1]", 6, 128, total, lock)
    assert total[0] == 6 * 4
    assert lock[0] == 0
