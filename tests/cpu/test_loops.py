# SPDX-License-Identifier: Apache-2.0
"""Which loops read the stop flag each turn or between strips, which let others run, and which pay nothing."""

from __future__ import annotations

import re

import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import emit_host_text, optimise_host_text
from cudabuild.cpu.loops import find_polls
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.ir.ranges import compute_ranges
from cudabuild.types import parse_signature


def tree(x, n):
    step = cuda.blockDim.x // 2
    while step > 0:
        cuda.syncthreads()
        x[step] += 1
        step //= 2
    width = 16
    while width:
        x[0] += width
        width >>= 1


def doubling(x, n):
    step = 1
    while step < cuda.blockDim.x:
        x[step] = 1
        step *= 2


def tile(x, n):
    for i in range(16):
        for j in range(16):
            x[i] += x[j]


def tries_ten_times(x, n):
    for _ in range(10):
        if cuda.atomic.cas(x, 0, 0, 1) == 0:
            break


def barrier_each_turn(x, n):
    # The schedule looks at every barrier.
    for i in range(n):
        cuda.syncthreads()
        x[i] = 1


@pytest.mark.parametrize(
    "function", [tree, doubling, tile, tries_ten_times, barrier_each_turn],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_short_loops_pay_nothing(function):
    assert not polls_of(function)
    text = emit_host_text(lower(function))[0]
    assert "%stop monotonic" not in text.split(".body(")[-1]


def grid_stride(x, n):
    i = cuda.grid(1)
    while i < x.size:
        x[i] = 1
        i += cuda.gridsize(1)


def each(x, n):
    for i in range(n):
        x[i] = 1


def downwards(x, n):
    i = n
    while i >= 0:
        x[i] = 0
        i -= 2


def range_of_any_step(x, n):
    for i in range(0, x.size, n):
        x[i] = 1


def each_with_a_short_loop_inside(x, n):
    for i in range(n):
        for j in range(4):
            x[i] += j


@pytest.mark.parametrize(
    "function",
    [grid_stride, each, downwards, range_of_any_step, each_with_a_short_loop_inside],
    ids=lambda f: f.__name__,
)
def test_long_innermost_loops_look_between_strips(function):
    polls = polls_of(function)
    assert (len(polls.strips), polls.latches) == (1, {})
    (strip,) = polls.strips.values()
    assert strip.turns & (strip.turns - 1) == 0
    assert strip.turns >= 1024


def axpy(x, y, n):
    for i in range(n):
        y[i] = 2 * x[i] + y[i]


def test_strips_are_vectorised():
    signature = parse_signature("float32[::1], float32[::1], int64")
    text = optimise_host_text(emit_host_text(lower(axpy, signature))[0])
    assert re.search(r"call <(8|16) x float> @llvm.fma", text)
    assert "load atomic i32" in text


def rows(x, n):
    for i in range(n):
        for j in range(n):
            x[i] += x[j]


def test_a_loop_around_a_long_one_looks_each_turn():
    polls = polls_of(rows)
    assert (len(polls.strips), list(polls.latches.values())) == (1, ["stop"])


def cube(x, n):
    for i in range(1000):
        for j in range(100):
            for k in range(100):
                x[i] += j * k


def test_short_loops_add_up():
    # 100 × 100 turns need no look; all together they do, once for each turn of the outermost.
    assert list(polls_of(cube).latches.values()) == ["stop"]


def binary_search(x, n):
    low, high = 0, x.size
    while low < high:
        middle = (low + high) // 2
        if x[middle] < n:
            low = middle + 1
        else:
            high = middle
    x[0] = low


def list_walk(x, n):
    while n != 0:
        n = x[n]


def unknown_step(x, n):
    i = 0
    while i < x.size:
        i += n


def grows_its_bound(x, n):
    i = 0
    while i < n:
        i += 1
        n += x[i]


def escape_time(x, n):
    z = 0.0
    i = 0
    while i < n and z < 4.0:
        z = z * z + x[0]
        i += 1
    x[1] = i


def counts_atomically(x, n):
    # Never vectorised: a look each turn costs least.
    for i in range(n):
        cuda.atomic.add(x, i, 1)


def histogram_of_a_list(x, n):
    # The atomic decides nothing, and the exit depends on arithmetic only.
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        cuda.atomic.add(x, n, 1)


@pytest.mark.parametrize(
    "function",
    [binary_search, list_walk, unknown_step, grows_its_bound, escape_time, counts_atomically,
     histogram_of_a_list],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_other_loops_read_the_stop_flag_each_turn(function):
    polls = polls_of(function)
    assert (list(polls.latches.values()), polls.strips) == (["stop"], {})


def lock(x, n):
    while cuda.atomic.cas(x, 0, 0, 1) != 0:
        pass


def lock_with_a_flag(x, n):
    done = False
    while not done:
        if cuda.atomic.cas(x, 0, 0, 1) == 0:
            x[1] += 1
            done = True


def flag_and_fence(x, n):
    while x[0] == 0:
        cuda.threadfence()


def flag_and_sleep(x, n):
    while x[0] == 0:
        cuda.nanosleep(10)


def try_lock(x):
    return cuda.atomic.cas(x, 0, 0, 1) == 0


def lock_by_a_function(x, n):
    while not try_lock(x):
        pass


def work_queue(x, n):
    while True:
        i = cuda.atomic.add(x, 0, 1)
        if i >= n:
            break
        x[i] = 1


@pytest.mark.parametrize(
    "function", [lock, lock_with_a_flag, flag_and_fence, flag_and_sleep, lock_by_a_function, work_queue],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_loops_that_wait_let_others_run(function):
    assert list(polls_of(function).latches.values()) == ["turn"]
    _, dialect = emit_host_text(lower(function))
    assert dialect.plan.takes_turns


def recursive_search(x, n):
    while x[n] > n:
        n = x[n]
    return n if n == 0 else recursive_search(x, n - 1)


def calls_a_recursive_function(x, n):
    x[0] = recursive_search(x, n)


def test_a_function_that_calls_itself_returns_when_the_launch_is_stopped():
    text = emit_host_text(lower(calls_a_recursive_function))[0]
    device = text[text.index("define internal i64 @") :]
    assert device[: device.index("\n}")].count("ret i64 zeroinitializer") == 2  # its loop's, and after its call
    kernel = text[text.index("define internal void @cudabuild.calls_a_recursive_function.body") :]
    assert "%stop monotonic" in kernel[: kernel.index("\n}")]


def lower(function, signature=None):
    signature = signature or parse_signature("int64[::1], int64")
    return run_passes(build_ir(KernelDefinition(function), signature), target_kind="host")


def polls_of(function):
    ir = lower(function)
    return find_polls(ir, compute_ranges(ir, index_width=64))
