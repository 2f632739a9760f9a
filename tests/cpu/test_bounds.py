# SPDX-License-Identifier: Apache-2.0
"""Indices on the CPU device, which checks them by default: what is out of range is told, what is not costs nothing."""

from __future__ import annotations

import inspect
import pickle
import re

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import emit_host_text, optimise_host_text
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.errors import BoundsError, LaunchError
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.types import float32, parse_signature

CHECKED = frozenset(("bounds",))


def fault_line(kernel):
    lines, first = inspect.getsourcelines(kernel)
    return first + next(offset for offset, line in enumerate(lines) if line.rstrip().endswith("# fault"))


def beyond_the_last(x, y):
    i = cuda.grid(1)
    if i <= x.size:
        y[i] = x[i]  # fault


def wrong_axis(a):
    i, j = cuda.grid(2)
    if i < a.shape[1] and j < a.shape[0]:
        a[i, j] = 1  # fault


def by_data(bins, values):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(bins, values[i], 1)  # fault


def small_tile(x):
    tile = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]  # fault
    cuda.syncthreads()
    x[t] = tile[31 - t % 32]


def after_shuffle(x, y):
    i = cuda.grid(1)
    value = cuda.shfl_down_sync(0xFFFFFFFF, x[i], 1)
    y[i + 8] = value  # fault


TABLE = np.arange(10, dtype=np.float32)


def constant_array(x):
    i = cuda.grid(1)
    x[i] = TABLE[i]  # fault


PLANTED = [
    (after_shuffle, "float32[::1], float32[::1]", 1, 32, (np.ones(32, "f4"), np.zeros(36, "f4")),
     "index 36 is out of range for axis 0 with 36 elements", (28, 0, 0)),
    (constant_array, "float32[::1]", 1, 16, (np.ones(16, "f4"),),
     "index 10 is out of range for axis 0 with 10 elements", (10, 0, 0)),
    (beyond_the_last, "float32[::1], float32[::1]", 1, 64, (np.ones(40, "f4"), np.zeros(64, "f4")),
     "index 40 is out of range for axis 0 with 40 elements", (40, 0, 0)),
    (wrong_axis, "float32[:, ::1]", (1, 1), (8, 8), (np.ones((4, 6), "f4"),),
     "index 4 is out of range for axis 0 with 4 elements", (4, 0, 0)),
    (by_data, "int32[::1], int32[::1]", 2, 32, (np.zeros(4, "i4"), np.array([0] * 50 + [-5] + [1] * 13, "i4")),
     "index -5 is out of range for axis 0 with 4 elements", (18, 0, 0)),
    (small_tile, "float32[::1]", 1, 64, (np.ones(64, "f4"),),
     "index 32 is out of range for axis 0 with 32 elements", (32, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "signature", "grid", "block", "args", "message", "thread"),
    PLANTED,
    ids=lambda v: getattr(v, "__name__", ""),
)
def test_the_first_offender_is_told_after_the_launch(run, kernel, signature, grid, block, args, message, thread):
    with pytest.raises(BoundsError) as caught:
        run(kernel, signature, grid, block, *args)
    error = caught.value
    assert isinstance(error, IndexError)
    assert isinstance(error, LaunchError)
    line, number = inspect.getsource(kernel).splitlines(), fault_line(kernel)
    text = line[number - kernel.__code__.co_firstlineno].strip()
    assert str(error) == (
        f"{message}\n  kernel: {kernel.__name__}, thread {thread} of block {error.block}\n"
        f"  at:     {__file__}:{number}: {text}"
    )
    assert (error.line, error.thread) == (number, thread)


def test_the_error_can_be_pickled(run):
    with pytest.raises(BoundsError) as caught:
        run(beyond_the_last, "float32[::1], float32[::1]", 1, 64, np.ones(40, "f4"), np.zeros(64, "f4"))
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert again.thread == (40, 0, 0)


def test_a_launch_that_failed_is_followed_by_one_that_does_not(run):
    x, y = np.ones(40, "f4"), np.zeros(64, "f4")
    launch = run.bind(beyond_the_last, "float32[::1], float32[::1]")
    for _ in range(2):
        with pytest.raises(BoundsError):
            launch((1, 1, 1), (64, 1, 1), 0, 0, (x, y))
        launch((1, 1, 1), (40, 1, 1), 0, 0, (x, y))
    np.testing.assert_array_equal(y[:40], 1)
    np.testing.assert_array_equal(y[41:], 0)


def test_none_turns_it_off_and_the_others_do_not_bring_it_back(monkeypatch):
    x = np.ones(64, "f4")
    signature = "float32[::1], float32[::1]"
    for setting, checked in (("none", False), ("bounds", True), ("uninit", False), ("bounds,races", True)):
        monkeypatch.setenv("CUDABUILD_CHECK", setting)
        launcher = CpuDevice().bind(KernelDefinition(beyond_the_last, signature), parse_signature(signature))
        assert bool(launcher.kernel.object.faults) is checked
        if checked:
            with pytest.raises(BoundsError):
                launcher((1, 1, 1), (64, 1, 1), 0, 0, (x[:40], np.zeros(64, "f4")))


def text_of(function, signature):
    typed = build_ir(KernelDefinition(function, signature), parse_signature(signature))
    return emit_host_text(run_passes(typed, target_kind="host"), checks=CHECKED)


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def scale(x, a):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i]


def axpby(n, a, x, b, y, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = a * x[i] + b * y[i]


def stencil(u, out, k):
    j, i = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])


@pytest.mark.parametrize(
    ("kernel", "signature", "conditions"),
    [
        (scale, "float32[::1], float32", 0),
        (saxpy, "float32, float32[::1], float32[::1]", 1),
        (axpby, "int, float32, float32[::1], float32, float32[::1], float32[::1]", 3),
        (stencil, "float32[:, ::1], float32[:, ::1], float32", 2),
    ],
)
def test_checked_loops_vectorise(kernel, signature, conditions):
    text, dialect = text_of(kernel, signature)
    assert len(dialect.plan.conditions) == conditions
    optimised = optimise_host_text(text)
    assert re.search(r"<(?:8|16|32) x float>", optimised)
    assert ("@schedule.fault" in optimised) is (conditions > 0)


def test_a_guard_that_implies_the_check_leaves_none():
    text, dialect = text_of(scale, "float32[::1], float32")
    assert dialect.faults.sites == ()
    assert "fault" not in text


def trust_me(n, x, y):
    i = cuda.grid(1)
    if i < n:
        y[i] = x[i]


@pytest.mark.parametrize("n", [-5, 0, 39, 40, 41, 2**62])
@pytest.mark.parametrize("sizes", [(40, 40), (40, 64), (64, 40), (64, 64), (0, 64)])
def test_a_launch_is_trusted_only_where_it_can_be(run, n, sizes):
    """Whatever is decided at launch, the outcome is that of looking at each index."""
    x, y = np.ones(sizes[0], "f4"), np.zeros(sizes[1], "f4")
    last = min(n, 64)
    if last <= min(sizes):
        run(trust_me, "int, float32[::1], float32[::1]", 2, 32, n, x, y)
    else:
        with pytest.raises(BoundsError, match=f"index {min(sizes)} is out of range"):
            run(trust_me, "int, float32[::1], float32[::1]", 1, 64, n, x, y)
    count = max(0, min(last, *sizes))
    np.testing.assert_array_equal(y[:count], 1)
    np.testing.assert_array_equal(y[last if last > 0 else 0 :], 0)


def view_of_nothing(a, k):
    row = a[k]  # fault
    for j in range(row.size):
        row[j] = 1


def test_a_row_that_is_not_there_is_empty(run):
    whole = np.zeros((5, 4), "f4")
    with pytest.raises(BoundsError, match="index 3 is out of range for axis 0 with 3 elements") as caught:
        run(view_of_nothing, "float32[:, ::1], int32", 1, 1, whole[:3], 3)
    assert caught.value.line == fault_line(view_of_nothing)
    np.testing.assert_array_equal(whole, 0)


def unsigned(x, k):
    x[k[0]] = 1


def test_an_unsigned_index_is_never_negative(run):
    x = np.zeros(8, "f4")
    with pytest.raises(BoundsError, match="index 18446744073709551615 is out of range for axis 0 with 8 elements"):
        run(unsigned, "float32[::1], uint64[::1]", 1, 1, x, np.array([2**64 - 1], np.uint64))
    np.testing.assert_array_equal(x, 0)


def many_threads_fail(x):
    x[cuda.grid(1) + x.size] = 1


def test_a_million_faults_are_one(run):
    with pytest.raises(BoundsError):
        run(many_threads_fail, "float32[::1]", 4096, 256, np.zeros(3, "f4"))
