# SPDX-License-Identifier: Apache-2.0
"""Which loops read the stop flag, which let others run, and which pay nothing."""

from __future__ import annotations

import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import emit_host_text
from cudabuild.cpu.loops import find_polls
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.ir.ranges import compute_ranges
from cudabuild.types import parse_signature


def grid_stride(x, n):
    i = cuda.grid(1)
    while i < x.size:
        x[i] = 1
        i += cuda.gridsize(1)


def ranges_of_any_step(x, n):
    for i in range(cuda.grid(1), x.size, n):
        x[i] = 1
    for i in range(n, 0, -3):
        for j in range(n):
            x[i] = x[j]


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


def escape_time(x, n):
    z = 0.0
    i = 0
    while i < n and z < 4.0:
        z = z * z + x[0]
        i += 1
    x[1] = i


def downwards(x, n):
    i = n
    while i >= 0:
        x[i] = 0
        i -= 2


def tries_ten_times(x, n):
    for _ in range(10):
        if cuda.atomic.cas(x, 0, 0, 1) == 0:
            break


@pytest.mark.parametrize(
    "function", [grid_stride, ranges_of_any_step, tree, doubling, escape_time, downwards, tries_ten_times],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_counted_loops_pay_nothing(function):
    assert polls_of(function) == []
    text = emit_host_text(lower(function))[0]
    assert "%stop monotonic" not in text.split(".body(")[-1]


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


def histogram_of_a_list(x, n):
    # The atomic decides nothing, and the exit depends on arithmetic only.
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        cuda.atomic.add(x, n, 1)


@pytest.mark.parametrize(
    "function", [binary_search, list_walk, unknown_step, grows_its_bound, histogram_of_a_list],
    ids=lambda f: f.__name__,
)  # fmt: skip
def test_loops_without_a_known_bound_read_the_stop_flag(function):
    assert polls_of(function) == ["stop"]


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
    assert polls_of(function) == ["turn"]
    _, dialect = emit_host_text(lower(function))
    assert dialect.plan.takes_turns


def lower(function):
    return run_passes(build_ir(KernelDefinition(function), parse_signature("int64[::1], int64")), target_kind="host")


def polls_of(function):
    ir = lower(function)
    return list(find_polls(ir, compute_ranges(ir, index_width=64)).values())
