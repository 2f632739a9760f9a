# SPDX-License-Identifier: Apache-2.0
"""``debug=True`` on every device: what goes wrong in a kernel is raised after the launch, with its line and thread."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import Options
from cudabuild.errors import BoundsError, LaunchError
from cudabuild.types import float32, int32

DEBUG = Options({"debug": True})


class TooBig(Exception):
    """An exception of the user's own."""


class Picky(Exception):
    """One that cannot be made from a message."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one, two)


def fault_line(kernel: Callable[..., Any]) -> int:
    """The line that ends in ``# fault``."""
    lines, first = inspect.getsourcelines(kernel)
    return first + next(offset for offset, line in enumerate(lines) if line.rstrip().endswith("# fault"))


def beyond(x, y):
    i = cuda.grid(1)
    y[i] = x[i + 1]  # fault


def before(x, y):
    i = cuda.grid(1)
    y[i] = x[i - 3 - x.size]  # fault


def second_axis(a):
    i, j = cuda.grid(2)
    a[i, j] += 1  # fault


def own_array(x):
    s = cuda.local.array(4, int32)
    for k in range(4):
        s[k] = k
    x[cuda.grid(1)] = s[x[0]]  # fault


def shared_array(x):
    s = cuda.shared.array(8, int32)
    s[cuda.threadIdx.x % 9] = 1  # fault
    cuda.syncthreads()
    x[0] = s[0]


def row(a, k):
    r = a[k]  # fault
    r[0] = 1


def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)  # fault


def element(x, i):
    return x[i]  # fault


def in_function(x, y):
    i = cuda.grid(1)
    y[i] = element(x, i * 2)


def quotient(x, y):
    i = cuda.grid(1)
    y[i] = 100 // x[i]  # fault


def remainder(x, y):
    i = cuda.grid(1)
    y[i] = 100 % (x[i] - 1)  # fault


def asserted(x, limit):
    i = cuda.grid(1)
    assert x[i] < limit, "beyond the limit"  # fault
    x[i] = 0


def bare_assert(x):
    assert x[cuda.grid(1)] != 5  # fault


def raised(x):
    i = cuda.grid(1)
    if x[i] == 5:
        raise ValueError(f"{x[i]} is not allowed")  # fault


def raised_class(x):
    if x[cuda.grid(1)] == 5:
        raise KeyError  # fault


def raised_own(x):
    if x[cuda.grid(1)] == 5:
        raise TooBig("much too big")  # fault


def raised_picky(x):
    if x[cuda.grid(1)] == 5:
        raise Picky("one", "two")  # fault


def tuple_element(x):
    choices = (3, 4, 5)
    x[0] = choices[x[cuda.grid(1)]]  # fault


def constant_divisor(x):
    if x[cuda.grid(1)] == 5:
        x[0] = 7 // 0  # fault


def raised_after_barrier(x):
    s = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    if s[31 - t] == 5:
        raise RuntimeError("five")  # fault


def ints(count: int, *, five: int | None = None) -> Any:
    x = np.ones(count, np.int32)
    if five is not None:
        x[five] = 5
    return x


LINE = ("int32[::1]", 2, 32)
TWO = ("int32[::1], int32[::1]", 2, 32)
OUT = "index {} is out of range for axis {} with {} elements"

#: Kernel, launch, arguments; class, first line of the message, the threads (x, block x) that may be named.
PLANTED = [
    (beyond, TWO, lambda: (ints(64), ints(64)), BoundsError, OUT.format(64, 0, 64), {(31, 1)}),
    (before, TWO, lambda: (ints(64), ints(64)), BoundsError, OUT.format("-[0-9]+", 0, 64), {(n, 0) for n in range(3)}),
    (second_axis, ("int32[:, ::1]", (1, 2), (4, 8)), lambda: (np.zeros((4, 15), np.int32),), BoundsError,
     OUT.format(15, 1, 15), {(n, 0) for n in range(4)}),
    (own_array, LINE, lambda: (ints(64) * 4,), BoundsError, OUT.format(4, 0, 4), None),
    (shared_array, LINE, lambda: (ints(64),), BoundsError, OUT.format(8, 0, 8),
     {(n, b) for n in (8, 17, 26) for b in (0, 1)}),
    (row, ("int32[:, ::1], int32", 1, 1), lambda: (np.zeros((3, 4), np.int32), 3), BoundsError,
     OUT.format(3, 0, 3), {(0, 0)}),
    (row, ("int32[:, ::1], int32", 1, 1), lambda: (np.zeros((3, 4), np.int32), -4), BoundsError,
     OUT.format(-4, 0, 3), {(0, 0)}),
    (histogram, TWO, lambda: (ints(50, five=40), ints(5)), BoundsError, OUT.format(5, 0, 5), {(8, 1)}),
    (in_function, TWO, lambda: (ints(126), ints(64)), BoundsError, OUT.format(126, 0, 126), {(31, 1)}),
    (quotient, TWO, lambda: (ints(64) - ints(64, five=33) // 5, ints(64)), ZeroDivisionError,
     "integer division or modulo by zero", {(1, 1)}),
    (remainder, TWO, lambda: (ints(64), ints(64)), ZeroDivisionError, "integer division or modulo by zero", None),
    (asserted, ("int32[::1], int32", 2, 32), lambda: (ints(64, five=60), 5), AssertionError,
     "beyond the limit", {(28, 1)}),
    (bare_assert, LINE, lambda: (ints(64, five=3),), AssertionError, "assertion failed", {(3, 0)}),
    (raised, LINE, lambda: (ints(64, five=3),), ValueError, "{x[i]} is not allowed", {(3, 0)}),
    (raised_class, LINE, lambda: (ints(64, five=3),), KeyError, "raised without a message", {(3, 0)}),
    (raised_own, LINE, lambda: (ints(64, five=3),), TooBig, "much too big", {(3, 0)}),
    (raised_picky, LINE, lambda: (ints(64, five=3),), LaunchError, "Picky: one, two", {(3, 0)}),
    (tuple_element, LINE, lambda: (ints(64, five=3),), IndexError, "tuple index out of range", {(3, 0)}),
    (constant_divisor, LINE, lambda: (ints(64, five=3),), ZeroDivisionError, "integer division", {(3, 0)}),
    (raised_after_barrier, LINE, lambda: (ints(64, five=32),), RuntimeError, "five", {(31, 1)}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("kernel", "launch", "arguments", "kind", "message", "threads"),
    PLANTED,
    ids=[f"{case[0].__name__}{n}" for n, case in enumerate(PLANTED)],
)
def test_the_first_offender_is_raised(run, kernel, launch, arguments, kind, message, threads):
    signature, grid, block = launch
    with pytest.raises(kind) as caught:
        run(kernel, signature, grid, block, *arguments(), options=DEBUG)
    error = caught.value
    assert type(error) is kind
    text = error.args[0]
    assert text.startswith(message) or "[0-9]" in message, text
    place = element if kernel is in_function else kernel
    assert (error.kernel, error.file, error.line) == (kernel.__name__, __file__, fault_line(place))
    (x, _, _), (block_x, _, _) = error.thread, error.block
    assert threads is None or (x, block_x) in threads
    assert f"kernel: {kernel.__name__}, thread {error.thread} of block {error.block}" in text
    assert f"at:     {__file__}:{error.line}: " in text


def test_a_negative_index_is_told_as_it_was_written(run):
    x, y = ints(8), ints(8)
    with pytest.raises(BoundsError, match=r"index -11 is out of range for axis 0 with 8 elements"):
        run(before, "int32[::1], int32[::1]", 1, 1, x, y, options=DEBUG)


@pytest.mark.parametrize(
    ("kernel", "launch", "arguments"),
    [
        (beyond, TWO, lambda: (ints(65), ints(64))),
        (second_axis, ("int32[:, ::1]", (1, 2), (4, 8)), lambda: (np.zeros((4, 16), np.int32),)),
        (row, ("int32[:, ::1], int32", 1, 1), lambda: (np.zeros((3, 4), np.int32), -3)),
        (histogram, TWO, lambda: (ints(64, five=40), ints(6))),
        (in_function, TWO, lambda: (ints(127), ints(64))),
        (quotient, TWO, lambda: (ints(64), ints(64))),
        (asserted, ("int32[::1], int32", 2, 32), lambda: (ints(64), 5)),
        (raised, LINE, lambda: (ints(64),)),
        (raised_after_barrier, LINE, lambda: (ints(64),)),
    ],
)
def test_what_goes_right_gives_the_same_result_as_without_debug(run, kernel, launch, arguments):
    signature, grid, block = launch
    checked, plain = arguments(), arguments()
    run(kernel, signature, grid, block, *checked, options=DEBUG)
    run(kernel, signature, grid, block, *plain)
    for a, b in zip(checked, plain, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_failed_access_touches_nothing_and_the_thread_goes_on(run):
    """Elements beside the array stay; what was not there reads as 0; the arrays come back."""
    whole = ints(64)
    x, y = whole[16:32], ints(32)
    with pytest.raises(BoundsError):
        run(beyond, "int32[::1], int32[::1]", 1, 32, x, y, options=DEBUG)
    np.testing.assert_array_equal(whole, 1)
    np.testing.assert_array_equal(y, [1] * 15 + [0] * 17)


def test_assert_and_raise_mean_nothing_without_debug(run):
    x = ints(64, five=3)
    run(raised, "int32[::1]", 2, 32, x)
    run(bare_assert, "int32[::1]", 2, 32, x)
    run(asserted, "int32[::1], int32", 2, 32, x, 5)
    np.testing.assert_array_equal(x, 0)


def test_a_thread_that_raised_does_no_more(run):
    x = ints(64, five=3)
    with pytest.raises(AssertionError):
        run(asserted, "int32[::1], int32", 2, 32, x, 5, options=DEBUG)
    np.testing.assert_array_equal(x, np.where(np.arange(64) == 3, 5, 0))
