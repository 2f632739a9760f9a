# SPDX-License-Identifier: Apache-2.0
"""Python integers that the type which they meet cannot hold: what is not refused has Python's result.

What is refused: ``tests/golden/wrong_kernels/integers_out_of_bounds.txt`` and its like.
"""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda, int8
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature

A = np.array([5, -7, 127, -128, 0], np.int8)


def exact(a, n, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        out[0, i] = min(x, 1000)
        out[1, i] = max(x, 1000)
        out[2, i] = min(-1000, x)
        out[3, i] = max(-1000, x, 3)
        out[4, i] = (x < 1000) + 2 * (x == 300) + 4 * (x > -300) + 8 * (x in (1000, 5))
        out[5, i] = (x << 1000) + 10 * (x >> 1000)
        out[6, i] = x**1001
        out[7, i] = int8(300) + np.int8(1)
        out[8, i] = x + n  # a Python integer that is not known wraps: 1000 is -24
        out[9, i] = 100 if i < 0 else x


def test_exact_where_nothing_is_refused(run) -> None:
    out = np.zeros((10, 5), np.int64)
    run(exact, "int8[::1], int, int64[:, ::1]", 1, 32, A, 1000, out)
    wide = [int(x) for x in A]
    with np.errstate(over="ignore"):
        wrapped = (A + np.int8(-24)).astype(np.int64)
    wanted = [
        wide,
        [1000] * 5,
        [-1000] * 5,
        [max(x, 3) for x in wide],
        [1 + 4 + 8 * (x == 5) for x in wide],
        [10 * (-1 if x < 0 else 0) for x in wide],
        [(x**1001 + 128) % 256 - 128 for x in wide],
        [45] * 5,
        wrapped,
        wide,
    ]
    np.testing.assert_array_equal(out, wanted)


def grows(a, out):
    total = 0
    step = 100
    for value in a:
        total = total + value // step
        step = step + 100  # from here on not known, and no longer refused
    out[0] = total


def wide_in_numba(a, out):
    out[0] = a[0] // 1000 + (a[0] & 0xFFFF) + a[1] * 1000
    out[1] = max(a[0], 1000)
    out[2] = a[0] if a[1] > 0 else 1000


def test_a_constant_that_varies_is_no_constant(run) -> None:
    out = np.zeros(1, np.int64)
    run(grows, "int8[::1], int64[::1]", 1, 1, A[:2].copy(), out)
    # the second divisor is 200, which wraps to -56
    assert out[0] == 5 // 100 + -7 // -56


def test_numba_computes_in_64_bits(run) -> None:
    out = np.zeros(3, np.int64)
    options = DEFAULT_OPTIONS.replace(literals="numba")
    run(wide_in_numba, "int8[::1], int64[::1]", 1, 1, A[:2].copy(), out, options=options)
    assert list(out) == [5 - 7000, 1000, 1000]


def known_in_a_call(x, step):
    return x // step


def calls_with_constants(a):
    a[0] = known_in_a_call(a[1], 1000)


def test_a_constant_that_is_passed_on_is_known() -> None:
    with pytest.raises(CompilationError, match="a Python integer that int8 cannot hold") as caught:
        build_ir(KernelDefinition(calls_with_constants), parse_signature("int8[::1]"))
    assert "x // step" in str(caught.value)
