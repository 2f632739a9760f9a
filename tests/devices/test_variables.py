# SPDX-License-Identifier: Apache-2.0
"""Variables that change their type, that have no value on some path, and branches that are never taken; each kernel
against itself run by Python."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import Options

USE_TABLE = False
SIZE = 4
MODE = "fast"


def host_only(x):
    with open(x) as stream:
        return stream.read()


def types_change(x, o):
    v = x[0]
    v = (v, 2.5)
    v = v[1]
    v = v > 2
    o[0] = v
    v = x
    o[1] = v[1]
    _, b = x[0], x[1]
    _ = 0.5
    o[2] = b + _
    n = 0
    for k in range(3):
        n = n + x[0] / 4 if k > 0 else x[1]
    o[3] = n
    if x[0] > 2:
        w = 1
    else:
        w = 0.5
    o[4] = w
    t = (0, 0)
    for k in range(3):
        t = (t[0] + k, t[1] + 0.5)
    o[5] = t[0] * 10 + t[1]
    c = d = e = 0.0
    c += 1
    o[6] = c + d + e
    i: int = 3
    j: "no such type at all"  # noqa: F722, F842
    o[7] = i
    x0, x1 = x[0], x[1]
    x0, x1 = x1, x0
    o[8] = x0 * 10 + x1
    if (m := x[2] + 1) > 2 and (q := m * 2) > 4:
        o[9] = q
    o[10] = m
    x = x[1:]
    o[11] = x[0]


def arrays_change(x, o):
    a = x
    for k in range(3):
        o[k] = a[0]
        a = a[::-1] if k % 2 else a[1:]
    b = x[::2]
    if x[0] > 2:
        b = x
    o[3] = b[1]
    p, q = x[:2], x[2:]
    for _ in range(3):
        p, q = q, p
    o[4] = p[0] * 10 + q[0]


def pruned(x, o):
    if USE_TABLE:
        o[0] = TABLE[0]  # noqa: F821
    if MODE == "fast" and not USE_TABLE:
        o[1] = 1
    elif MODE == "slow":
        o[1] = host_only(x)
    o[2] = 1.0 if SIZE > 3 else host_only(x)
    if SIZE == 5 or USE_TABLE is True:
        try:
            o[3] = x.no_such_attribute
        finally:
            pass
    while USE_TABLE:
        import os  # noqa: F401
    for _ in range(0):
        o[4] = host_only(x)
    if o.ndim == 2:
        o[5, 0] = 1
    if len(x.shape) != 1:
        raise ValueError(f"{x}")
    if x is None:
        o[6] = None + 1


def never_assigned(x, o):
    for k in range(4):
        if k == 0:
            if x[0] < -100:
                pass
            else:
                total = x[0]
        elif k > 1:
            total = total + k
    o[0] = total
    if x[0] > -100:
        late = 5
    o[1] = late
    for n in range(x[1]):
        last = n
    o[2] = last


def rows(x, o):
    i = cuda.grid(2)[np.uint32(0)]
    for row in x:
        for v in row:
            o[i] += v
    for k, (a, b) in enumerate(x):
        o[1] += k * a - b
    a, b = x[1]
    o[2] = a * 10 + b
    (a, b), (c, d) = x
    o[3] = a + b + c + d
    height, width = x.shape
    o[4] = height * 10 + width
    for row in reversed(x):
        o[5] = o[5] * 10 + row[0]


KERNELS = [types_change, arrays_change, pruned, never_assigned]


@pytest.mark.parametrize("values", [(5, 3, 2, 9), (1, 2, 7, 0)])
@pytest.mark.parametrize("kernel", KERNELS)
def test_as_in_python(run, kernel, values):
    x = np.array(values)
    out, expected = np.zeros(12), np.zeros(12)
    run(kernel, "int64[::1], float64[::1]", 1, 1, x, out)
    kernel(x, expected)
    np.testing.assert_array_equal(out, expected)


def spaces_change(x, o):
    shared = cuda.shared.array(4, np.float64)
    own = cuda.local.array(4, np.float64)
    t = cuda.threadIdx.x
    for k in range(4):
        own[k] = k
    shared[t] = x[t]
    cuda.syncthreads()
    a = x
    for k in range(3):
        o[t] += a[t] * 10**k
        a = shared if k == 0 else own


def test_arrays_of_different_memories(run):
    x, out = np.array([5.0, 3, 2, 9]), np.zeros(4)
    run(spaces_change, "float64[::1], float64[::1]", 1, 4, x, out)
    np.testing.assert_array_equal(out, x + x * 10 + np.arange(4) * 100)


def test_rows(run):
    x, out = np.array([[5, 3], [2, 9]]), np.zeros(6)
    run(rows, "int64[:, ::1], float64[::1]", 1, 1, x, out)
    np.testing.assert_array_equal(out, [19, -3 + 2 - 9, 29, 19, 22, 25])


def make_kernel(flag, count, operation):
    def work(x, o):
        buffer = cuda.local.array(count, np.float64)
        if flag:
            for k in range(count):
                buffer[k] = operation(x[k])
        else:
            o[0] = buffer.no_such_attribute
        o[0] = buffer[count - 1]

    return work


@pytest.mark.parametrize("count", [1, 3])
def test_captured_constants_prune_and_size(run, count):
    x, out = np.array([5, 3, 2, 9]), np.zeros(1)
    run(make_kernel(True, count, lambda v: v * 2), "int64[::1], float64[::1]", 1, 1, x, out)
    assert out[0] == x[count - 1] * 2


def needs_a_value(x, o):
    found = None
    for k in range(x.size):
        if x[k] == 3:
            found = k
    o[0] = found + 1


@pytest.mark.parametrize("values", [(5, 3), (5, 5)])
def test_none_where_a_value_is_needed_fails_under_debug(run, values):
    x, out = np.array(values), np.zeros(1)
    options = Options({"debug": True})
    if 3 in values:
        run(needs_a_value, "int64[::1], float64[::1]", 1, 1, x, out, options=options)
        assert out[0] == 2
    else:
        with pytest.raises(TypeError, match="None where a value is needed"):
            run(needs_a_value, "int64[::1], float64[::1]", 1, 1, x, out, options=options)


def test_without_debug_none_is_zero(run):
    x, out = np.array([5, 5]), np.zeros(1)
    run(needs_a_value, "int64[::1], float64[::1]", 1, 1, x, out)
    assert out[0] == 1
