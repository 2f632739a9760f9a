# SPDX-License-Identifier: Apache-2.0
"""Threads that wait for others in loops: locks, flags, whole blocks; runaway loops and Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.errors import LaunchError
from cudabuild.types import parse_signature

KERNEL_SECONDS = 20


@pytest.fixture(autouse=True)
def never_hangs():
    """Interrupts a launch that makes no progress: a failure, not a hang."""
    timer = threading.Timer(KERNEL_SECONDS, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    yield
    timer.cancel()
    timer.join()


def locked_count(lock, count):
    while cuda.atomic.cas(lock, 0, 0, 1) != 0:
        pass
    cuda.threadfence()
    count[0] = count[0] + 1
    cuda.threadfence()
    cuda.atomic.exch(lock, 0, 0)


def test_a_lock_that_every_thread_takes(run):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    run(locked_count, "int32[::1], int64[::1]", 100, 128, lock, count)
    assert (count[0], lock[0]) == (12_800, 0)


def locked_with_barriers(lock, count):
    # Holders of the lock give way at a shuffle while they hold it.
    for _ in range(3):
        done = False
        while not done:
            if cuda.atomic.cas(lock, 0, 0, 1) == 0:
                before = count[0]
                cuda.syncwarp(1 << cuda.laneid)
                count[0] = before + 1
                cuda.threadfence()
                cuda.atomic.exch(lock, 0, 0)
                done = True
        cuda.syncthreads()


def test_a_lock_held_over_a_suspension(run):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    run(locked_with_barriers, "int32[::1], int64[::1]", 7, 96, lock, count)
    assert count[0] == 3 * 7 * 96


def thread_order(flag, out):
    # Every thread waits for the one after it: the last one must run first.
    t = cuda.grid(1)
    size = cuda.gridsize(1)
    while t + 1 < size and flag[t + 1] == 0:
        cuda.threadfence()
    out[t] = out[t + 1] + 1 if t + 1 < size else 1
    cuda.threadfence()
    flag[t] = 1


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (1, 200), (40, 33), (300, 4)])
def test_threads_and_blocks_that_wait_for_later_ones(run, blocks, threads):
    count = blocks * threads
    flag, out = np.zeros(count, np.int32), np.zeros(count, np.int64)
    run(thread_order, "int32[::1], int64[::1]", blocks, threads, flag, out)
    np.testing.assert_array_equal(out, np.arange(count, 0, -1))


def polled_flags(flag, out):
    # The loads alone say that another block may have stored meanwhile.
    b = cuda.blockIdx.x
    last = cuda.gridDim.x - 1
    if b < last:
        while cuda.ldcv(flag, b + 1) == 0 if b % 2 else cuda.ldcg(flag, b + 1) == 0:
            pass
    out[b] = out[b + 1] + 1 if b < last else 1
    cuda.threadfence()
    cuda.stwt(flag, b, 1)


def test_blocks_that_poll_through_the_caches(run):
    flag, out = np.zeros(300, np.int32), np.zeros(300, np.int64)
    run(polled_flags, "int32[::1], int64[::1]", 300, 1, flag, out)
    np.testing.assert_array_equal(out, np.arange(300, 0, -1))


def chained_sums(ticket, ready, total, x, out):
    # A scan across blocks in one launch: each block waits for the sum of the one before it.
    shared = cuda.shared.array(2, np.int64)
    t = cuda.threadIdx.x
    if t == 0:
        shared[0] = cuda.atomic.add(ticket, 0, 1)
        shared[1] = 0
    cuda.syncthreads()
    block = shared[0]
    cuda.atomic.add(shared, 1, x[block * cuda.blockDim.x + t])
    cuda.syncthreads()
    if t == 0:
        if block > 0:
            while cuda.atomic.add(ready, block - 1, 0) == 0:
                cuda.nanosleep(100)
            shared[1] += total[block - 1]
        total[block] = shared[1]
        cuda.threadfence()
        cuda.atomic.add(ready, block, 1)
    cuda.syncthreads()
    out[block] = shared[1]


def test_a_scan_across_blocks(run):
    x = np.random.default_rng(1).integers(0, 100, 500 * 64)
    ready, total, out = np.zeros(500, np.int32), np.zeros(500, np.int64), np.zeros(500, np.int64)
    signature = "int64[::1], int32[::1], int64[::1], int64[::1], int64[::1]"
    run(chained_sums, signature, 500, 64, np.zeros(1, np.int64), ready, total, x, out)
    np.testing.assert_array_equal(out, x.reshape(500, 64).sum(axis=1).cumsum())


def waits_for_host(flag, out):
    while flag[0] == 0:
        cuda.threadfence_system()
    out[cuda.grid(1)] = flag[0]


def test_a_flag_that_the_host_sets(run):
    flag, out = np.zeros(1, np.int32), np.zeros(64, np.int32)
    timer = threading.Timer(0.2, flag.__setitem__, [0, 5])
    timer.start()
    run(waits_for_host, "int32[::1], int32[::1]", 2, 32, flag, out)
    timer.join()
    assert (out == 5).all()


def warp_and_waiting(flag, out):
    # Lane 0 of warp 0 waits for warp 1 while the rest of warp 0 waits for lane 0 in a shuffle.
    t = cuda.threadIdx.x
    value = t
    if t == 0:
        while cuda.atomic.add(flag, 0, 0) == 0:
            pass
        value = 1000
    if t == 63:
        cuda.atomic.add(flag, 0, 1)
    out[t] = cuda.shfl_sync(0xFFFFFFFF, value, 0)


def test_a_lane_that_waits_for_another_warp_while_its_own_waits_for_it(run):
    out = np.zeros(64, np.int64)
    run(warp_and_waiting, "int32[::1], int64[::1]", 1, 64, np.zeros(1, np.int32), out)
    np.testing.assert_array_equal(out, np.repeat([1000, 32], 32))


# -- the grid


def ring(values, out, steps):
    group = cuda.cg.this_grid()
    i = cuda.grid(1)
    size = cuda.gridsize(1)
    for step in range(steps):
        if step % 2 == 0:
            out[i] = values[(i + 1) % size]
        else:
            values[i] = out[(i + 1) % size]
        group.sync()


@pytest.mark.parametrize(("blocks", "threads"), [(1, 1), (5, 64), (200, 32)])
def test_grid_sync(run, blocks, threads):
    count = blocks * threads
    values, out = np.arange(count), np.zeros(count, np.int64)
    run(ring, "int64[::1], int64[::1], int64", blocks, threads, values, out, 20)
    np.testing.assert_array_equal(values, (np.arange(count) + 20) % count)


def leaves_early(x, steps):
    # Block b takes part in b rounds: blocks and threads that have returned are not waited for.
    i = cuda.grid(1)
    grid = cuda.cg.this_grid()
    for step in range(steps):
        if cuda.blockIdx.x < step or cuda.threadIdx.x < step:
            return
        cuda.atomic.add(x, step, 1)
        grid.sync()
        if x[step] == 0:
            x[0] = -i - 1


def test_grid_sync_without_those_that_returned(run):
    x = np.zeros(12, np.int64)
    run(leaves_early, "int64[::1], int64", 12, 12, x, 12)
    np.testing.assert_array_equal(x, [(12 - step) ** 2 for step in range(12)])


def mixed(x):
    if cuda.threadIdx.x == 3:
        cuda.cg.this_grid().sync()
    cuda.syncthreads()
    x[0] = 1


def test_a_grid_sync_that_waits_for_ever_is_an_error(run):
    with pytest.raises(LaunchError) as caught:
        run(mixed, "int64[::1]", 2, 64, np.zeros(1, np.int64))
    assert "thread (3, 0, 0): a grid sync waits for ever" in str(caught.value)
    assert "found:    other threads of the block wait at a barrier" in str(caught.value)


def test_a_grid_that_is_too_large_to_synchronise(run):
    x = np.zeros(1, np.int64)
    with pytest.raises(LaunchError) as caught:
        run(mixed, "int64[::1]", 4000, 1024, x)
    assert str(caught.value).splitlines() == [
        "mixed synchronises the grid, so all its blocks must run together",
        "  found:    4000 blocks of (1024, 1, 1) threads",
        "  expected: at most 1024 blocks of that size",
        "  do:       launch fewer blocks, and let each do more in a loop",
    ]


# -- Ctrl-C


def forever(x):
    while x[0] == 0:
        x[1] += 1


def forever_in_a_device_function(x):
    x[1] = runaway(x)
    x[2] = 7


def runaway(x):
    n = 0
    while x[0] == 0:
        n += 2
        if n == 5:
            return n
    return n


def forever_with_barriers(x):
    while True:
        cuda.syncthreads()


def forever_with_shuffles(x):
    v = x[0]
    while v == 0:
        v = cuda.shfl_down_sync(0xFFFFFFFF, v, 1)


def lock_never_freed(x):
    while cuda.atomic.cas(x, 0, 1, 2) != 1:
        pass


def counts_until_forbidden(x):
    for i in range(1 << 60):
        cuda.syncthreads()
        x[1] = i


def counts_far(x):
    v = x[0]
    for i in range(1 << 62):
        v = (v ^ i) * 3
    x[2] = v


def counts_far_in_memory(x):
    for i in range(x.size + (1 << 40)):
        x[i & 1] += i


def counts_down(x):
    i = (1 << 62) + x[0]
    v = 0
    while i >= 0:
        v = (v ^ i) * 3
        i -= 2
    x[2] = v


def counts_by_a_step(x):
    v = 0
    for i in range(x[0], 1 << 62, x[3] + 1):
        v = (v ^ i) * 3
    x[2] = v


def nested(x):
    v = x[0]
    for i in range(100_000):
        for j in range(100_000):
            for k in range(100_000):
                for m in range(100_000):
                    v = (v ^ i ^ j ^ k) * 3 + m
    x[2] = v


def nested_short_loops(x):
    v = x[0]
    for i in range(200):
        for j in range(200):
            for k in range(200):
                for m in range(200):
                    for n in range(200):
                        v = (v ^ i ^ j ^ k) * 3 + m - n
    x[2] = v


def nested_in_a_device_function(x):
    v = x[0]
    for i in range(1 << 60):
        v = mixed_up(v, i)
    x[2] = v


def mixed_up(v, n):
    for i in range(n):
        v = (v ^ i) * 3
    return v


def counts_with_shuffles(x):
    v = x[0]
    for i in range(1 << 60):
        v = cuda.shfl_sync(0xFFFFFFFF, v + i, 0)
    x[2] = v


def counts_with_atomics(x):
    for _ in range(1 << 60):
        cuda.atomic.add(x, 1, 1)
    x[2] = 1


def calls_itself(x):
    x[2] = fibonacci(200 + x[0])


def fibonacci(n):
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def calls_itself_from_a_loop(x):
    x[2] = even_steps(40 + x[0], x)


def even_steps(n, x):
    if n == 0:
        return 0
    total = 0
    for i in range(1 << 60):
        total += (odd_steps(n - 1, x) ^ i) * 3
    return total


def odd_steps(n, x):
    return even_steps(n - 1, x) if n > 0 else x[0]


RUNAWAYS = [forever, forever_in_a_device_function, forever_with_barriers, forever_with_shuffles, lock_never_freed,
            counts_until_forbidden, counts_far, counts_far_in_memory, counts_down, counts_by_a_step, nested,
            nested_short_loops, nested_in_a_device_function, counts_with_shuffles, counts_with_atomics, calls_itself,
            calls_itself_from_a_loop]  # fmt: skip


def interrupted(launch):
    """Runs a launch until Ctrl-C ends it; nobody may be left behind, and the next launch must be right."""
    from cudabuild.cpu import workers

    pool = workers._pool
    timer = threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT])
    start = time.monotonic()
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        launch()
    timer.join()
    assert time.monotonic() - start < 1.1
    if pool is not None:
        assert workers._pool is pool


def count_together(run):
    lock, count = np.zeros(1, np.int32), np.zeros(1, np.int64)
    run(locked_count, "int32[::1], int64[::1]", 2, 32, lock, count)
    assert count[0] == 64


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
@pytest.mark.parametrize("threads", [64, 1024])
@pytest.mark.parametrize("function", RUNAWAYS, ids=lambda f: f.__name__)
def test_control_c_ends_a_runaway_kernel(run, function, threads):
    x = np.zeros(4, np.int64)
    launcher = run.bind(function, "int64[::1]")
    interrupted(lambda: launcher((3, 1, 1), (threads, 1, 1), 0, 0, (x,)))
    assert x[2] == 0  # what follows the loop has not run
    count_together(run)


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
@pytest.mark.parametrize("checks", ["races barriers uninit", "bounds races", "bounds"])
@pytest.mark.parametrize(
    "function", [counts_far_in_memory, nested, calls_itself, forever_with_barriers], ids=lambda f: f.__name__
)
def test_control_c_ends_a_kernel_that_is_watched(run, function, checks, monkeypatch):
    monkeypatch.setenv("CUDABUILD_CHECK", checks)
    x = np.zeros(4, np.int64)
    definition = KernelDefinition(function, "int64[::1]")
    launcher = CpuDevice().bind(definition, parse_signature("int64[::1]"))
    interrupted(lambda: launcher((3, 1, 1), (1024, 1, 1), 0, 0, (x,)))
    monkeypatch.undo()
    count_together(run)


def touches(x):
    x[0] = 1


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
def test_control_c_ends_a_launch_of_two_thousand_million_blocks(run):
    x = np.zeros(4, np.int64)
    launcher = run.bind(touches, "int64[::1]")
    interrupted(lambda: launcher((2**31 - 1, 65535, 1), (64, 1, 1), 0, 0, (x,)))
    count_together(run)


def short_loops(x):
    # No loop of it looks: the flag is read after each row of threads, also where blocks run as one.
    v = x[0] + cuda.grid(1)
    for i in range(3000):
        v = (v ^ i) * 3
    if v == 7:
        x[2] = v


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
@pytest.mark.parametrize("block", [(256, 1, 1), (1, 1024, 1), (1, 16, 64), (32, 32, 1)])
def test_control_c_ends_many_short_threads(run, block):
    x = np.zeros(4, np.int64)
    launcher = run.bind(short_loops, "int64[::1]")
    interrupted(lambda: launcher((1 << 20, 1, 1), block, 0, 0, (x,)))
    count_together(run)


# -- loops in strips


def strips(out, low, high, step):
    # Sums over loops in each form; what a strip's end leaves out or does twice would show.
    a = b = c = d = 0
    for i in range(low, high):
        a += i * i
    for i in range(high, low, -3):
        b += i * i
    i = low
    while i <= high:
        c += i * i
        i += step
    i = high
    while i > low:
        d += i * i
        i -= step
    out[0], out[1], out[2], out[3], out[4] = a, b, c, d, i


@pytest.mark.parametrize("step", [1, 3, 1000, 1 << 61])
@pytest.mark.parametrize(
    ("low", "high"), [(0, 0), (5, 3), (0, 1), (-7, 16384), (3, 16387), (3, 16388), (-50_000, 50_001)]
)
def test_strips_leave_out_no_turn(run, low, high, step):
    out = np.zeros(5, np.int64)
    run(strips, "int64[::1], int64, int64, int64", 1, 1, out, low, high, step)
    down = range(high, low, -step)
    last = high - step * len(down)
    expected = [range(low, high), range(high, low, -3), range(low, high + 1, step), down]
    np.testing.assert_array_equal(out, [*(sum(i * i for i in one) for one in expected), last])


def narrow_strips(out, x):
    total = 0.0
    count = 0
    for i in range(x.size):
        total += x[i]
        if x[i] > 0.5:
            count += 1
    out[0], out[1] = total, count


def test_strips_of_loops_that_carry_more(run):
    x = np.random.default_rng(3).random(100_003)
    out = np.zeros(2)
    run(narrow_strips, "float64[::1], float64[::1]", 1, 1, out, x)
    assert out[1] == (x > 0.5).sum()
    np.testing.assert_allclose(out[0], x.sum(), rtol=1e-12)
