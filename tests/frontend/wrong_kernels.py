# SPDX-License-Identifier: Apache-2.0
"""Kernels with one mistake each (two where noted): the golden messages show what their writer is told."""

import cmath
import math

import numpy as np

from cudabuild import cuda
from cudabuild.types import float32, int32

TILE = 16
TABLE = np.arange(4.0)


def unknown_name(a, data):
    i = cuda.grid(1)
    if i < data.size:
        data[i] = a * dat[i]


def misspelt_index_name(x):
    i = cuda.thredIdx.x
    x[i] = 0.0


def unsupported_statement(x):
    i = cuda.grid(1)
    try:
        x[i] = 1.0
    except IndexError:
        pass


def list_instead_of_array(x):
    buffer = [0.0, 0.0, 0.0]
    x[0] = buffer[0]


def whole_array_arithmetic(x, y):
    i = cuda.grid(1)
    y[i] = x + 1.0


def too_many_indices(x):
    i, j = cuda.grid(2)
    x[i, j] = 0.0


def array_into_an_element(x, m):
    i = cuda.grid(1)
    x[i] = m[i]


def returns_a_value(x):
    i = cuda.grid(1)
    return x[i]


def float_index(x):
    i = cuda.grid(1)
    x[i / 2] = 0.0


def float_range(x, width):
    for i in range(width):
        x[i] = 0.0


def used_before_assigned(x):
    x[0] = total
    total = 1.0


def changes_type(x, flag):
    if flag:
        value = x
    else:
        value = 1.0
    x[0] = value


def calls_unsupported_math(x):
    i = cuda.grid(1)
    x[i] = math.fsum((x[i], 0.5))


def shape_at_run_time(x, n):
    tile = cuda.shared.array(n, float32)
    tile[0] = x[0]


def atomic_without_value(counts):
    cuda.atomic.add(counts, 0)


def atomic_on_bytes(flags):
    cuda.atomic.add(flags, 0, 1)


def identity_of_number(x, n):
    if n is TILE:
        x[0] = 1.0


def wrong_unpacking(m):
    rows, columns, depth = m.shape
    m[0, 0] = rows + columns + depth


def writes_read_only(x):
    x[0] = 1.0


def prints(x):
    i = cuda.grid(1)
    print(f"element {i} is {x[i]}")


def double_starred(x):
    first = x[0]
    second = x[1]

    x[0] = min(first, **second)


def bitwise_on_float(x, y):
    i = cuda.grid(1)
    x[i] = y[i] & 1


def captured_text_array(x):
    i = cuda.grid(1)
    x[i] = WAVES[i % 4]


def helper_with_mistake(value):
    return value.imaginary + 1.0


def mistake_in_helper(x):
    i = cuda.grid(1)
    x[i] = helper_with_mistake(x[i])


def several_mistakes(x, n):
    i = cuda.grid(1)
    x[i] = undefined_one + 1.0
    x[i, i] = 2.0
    x[n] = int32(1, 2)


def waits_and_recurs(n):
    if n <= 1:
        return 1
    cuda.syncthreads()
    return n * waits_and_recurs(n - 1)


def recursive_barrier(x):
    i = cuda.grid(1)
    x[i] = waits_and_recurs(x[i])


def wrong_keyword(x):
    tile = cuda.shared.array(shape=TILE, dtpe=float32)
    tile[0] = x[0]


def shuffles_bytes(flags):
    i = cuda.grid(1)
    flags[i] = cuda.shfl_down_sync(0xFFFFFFFF, flags[i], 1)


def matches_flags(flags):
    i = cuda.grid(1)
    flags[i] = cuda.match_any_sync(0xFFFFFFFF, flags[i] > 0)


def mask_of_floats(x):
    i = cuda.grid(1)
    if cuda.any_sync(x[i], x[i] > 0):
        x[i] = 0.0


def counts_bits_of_float(x):
    i = cuda.grid(1)
    x[i] = cuda.popc(x[i])


def atomic_inc_of_signed(counts):
    cuda.atomic.inc(counts, 0, 9)


def atomic_bits_of_float(x):
    cuda.atomic.or_(x, 0, 1)


def atomic_cas_without_index(counts):
    cuda.atomic.cas(counts, 0, 1)


def constant_of_argument(x):
    table = cuda.const.array_like(x)
    x[0] = table[1]


def writes_captured_array(x):
    i = cuda.grid(1)
    TABLE[i] = x[i]


WAVES = np.array(["ab", "cd", "ef", "gh"], object)


def keyword_only(x, *, n=2):
    x[0] = n


LARGE = np.zeros((100, 100))


def captures_a_large_array(x):
    i = cuda.grid(1)
    x[i] = LARGE[i // LARGE.shape[0], i % 100]


def more_axes_than_the_target(m, x):
    x[:] = m


def unknown_field(points):
    i = cuda.grid(1)
    points[i].hight = 1.0


def text_into_a_number(points):
    i = cuda.grid(1)
    points[i]["height"] = "tall"


def text_as_an_index(x):
    x["height"] = 1.0


def number_into_a_record(points):
    points[0] = 1.0


def number_into_a_text(names):
    names[0] = 3


def writes_a_read_only_field(points):
    points[0].height = 1.0


def reshapes_columns(m):
    m.reshape(-1)[0] = 1.0


def adds_two_dates(dates):
    dates[0] = dates[0] + dates[1]


def months_beside_days(months, days):
    months[0] = months[0] + days[0]


def complex_into_a_real_array(x, z):
    i = cuda.grid(1)
    x[i] = z[i] * 2.0


def math_of_a_complex_number(x, z):
    i = cuda.grid(1)
    x[i] = math.sin(z[i])


def order_of_complex_numbers(x, z):
    i = cuda.grid(1)
    if z[i] < z[0]:
        x[i] = 1.0
    x[0] = abs(max(z[0], z[1]))


def floor_of_a_complex_number(x, z):
    z[0] = z[1] // 2
    z[1] = ~z[0]
    x[0] = cmath.sin(z[0]).imag % 2


def atomic_on_complex_numbers(x, z):
    cuda.atomic.add(z, 0, 1j)
    cuda.shfl_sync(0xFFFFFFFF, z[0], 0)
    x[0] = z.imag.imag[0]


def grid_of_any_dimensions(x, n):
    x[cuda.grid(n)] = 1.0


def alignment_of_three(x):
    tile = cuda.shared.array(4, float32, alignment=3)
    tile[0] = x[0]


def alignment_at_run_time(x, n):
    own = cuda.local.array(4, float32, alignment=n)
    own[0] = x[0]


def integers_out_of_bounds(a, n, u):
    a[0] = a[1] // 1000
    a[1] += 300
    a[2] = -200
    n[0] = n[1] & 0xFFFFFFFF
    n[1] = 2**40 - n[1]
    n[2] = divmod(a[1], 1000)[1]
    u[0] = u[1] * -1
    u[1] = u[0] & ~3
    u[2] = 2**32 << u[1]
    u[3] = a[0] or 1000
    cuda.atomic.max(n, 0, 1 << 31)
    u[4:6] = -1


def smallest_of_bytes(a, n):
    best = 1000
    for value in a:
        if value < best:
            best = value
    n[0] = best


def limit_of(x):
    if x > 0:
        return x
    return 70000


def result_out_of_bounds(a, n):
    n[0] = limit_of(a[0])
    n[1] = np.maximum(a[1], 70000)
    n[2] = cuda.selp(a[2] > 0, -70000, a[2])
