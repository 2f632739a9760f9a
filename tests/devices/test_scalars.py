# SPDX-License-Identifier: Apache-2.0
"""Single instructions on scalars, constant arrays, clocks: each against Python or NumPy."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import float32, int32

INTEGERS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def count_bits(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i, 0] = cuda.popc(x[i])
        out[i, 1] = cuda.clz(x[i])
        out[i, 2] = cuda.ffs(x[i])


def reverse(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cuda.brev(x[i])


def some_integers(name):
    dtype = np.dtype(name)
    bits = 8 * dtype.itemsize
    words = [0, 1, 2, 3, (1 << bits) - 1, 1 << (bits - 1), (1 << (bits - 1)) - 1, 0x5A, 0x80, 0xF0F0 << (bits // 2)]
    words += [int(word) for word in np.random.default_rng(bits).integers(0, 1 << 63, 40)]
    return np.array([word & ((1 << bits) - 1) for word in words], f"u{dtype.itemsize}").view(dtype), bits


@pytest.mark.parametrize("name", INTEGERS)
def test_bits_of_integers(run, name):
    x, bits = some_integers(name)
    counts, reversed_ = np.full((x.size, 3), -1, np.int32), np.zeros_like(x)
    run(count_bits, f"{name}[::1], int32[:, ::1]", 2, 32, x, counts)
    run(reverse, f"{name}[::1], {name}[::1]", 2, 32, x, reversed_)
    for value, found, back in zip(x, counts, reversed_, strict=True):
        word = int(value) & ((1 << bits) - 1)
        assert list(found) == [word.bit_count(), bits - word.bit_length(), (word & -word).bit_length()], hex(word)
        assert int(back) & ((1 << bits) - 1) == int(f"{word:0{bits}b}"[::-1], 2)


def bits_of_python_numbers(out):
    i = cuda.grid(1)
    if i % 2 == 0:
        out[i] = cuda.popc(i) * 1000 + cuda.clz(i) * 10 + cuda.ffs(i)
    elif cuda.popc(cuda.brev(i)) > 2:
        out[i] = cuda.clz(cuda.brev(i))
    else:
        out[i] = cuda.ffs(cuda.brev(i))


def test_python_numbers_have_64_bits(run):
    out = np.zeros(64, np.int64)
    run(bits_of_python_numbers, "int64[::1]", 2, 32, out)
    for i, found in enumerate(out):
        back = int(f"{i:064b}"[::-1], 2)
        even = i.bit_count() * 1000 + (64 - i.bit_length()) * 10 + (i & -i).bit_length()
        odd = 64 - back.bit_length() if i.bit_count() > 2 else (back & -back).bit_length()
        assert found == (odd if i % 2 else even)


def compact(x, out, count):
    """Each warp packs its odd numbers: a place is the number of lanes below that have one."""
    i = cuda.grid(1)
    lanes = cuda.ballot_sync(0xFFFFFFFF, x[i] % 2 == 1)
    if x[i] % 2 == 1:
        out[i // 32 * 32 + cuda.popc(lanes & cuda.lanemask_lt())] = x[i]
    if cuda.ffs(lanes) - 1 == cuda.laneid:
        count[i // 32] = cuda.popc(lanes) * 100 + cuda.clz(lanes)


def test_compaction(run):
    x = np.random.default_rng(4).integers(0, 100, 128).astype(np.int32)
    out, count = np.full(128, -1, np.int32), np.zeros(4, np.int32)
    run(compact, "int32[::1], int32[::1], int32[::1]", 2, 64, x, out, count)
    for warp in range(4):
        mine = x[warp * 32 : warp * 32 + 32]
        odd = mine[mine % 2 == 1]
        np.testing.assert_array_equal(out[warp * 32 : warp * 32 + odd.size], odd)
        assert count[warp] == odd.size * 100 + 31 - np.flatnonzero(mine % 2 == 1)[-1]


def choose(flag, a, b, out):
    i = cuda.grid(1)
    out[i] = cuda.selp(flag[i], a[i], b[i])
    if i % 3 == 0:
        out[i] += cuda.selp(i % 2 == 0, 100, b[i] * 2)


@pytest.mark.parametrize("name", ["int32", "uint8", "int64", "float32", "float64"])
def test_selp(run, name):
    a, b = np.arange(32).astype(name), (np.arange(32) + 50).astype(name)
    flag = np.arange(32) % 5 < 2
    out = np.zeros_like(a)
    run(choose, f"bool[::1], {name}[::1], {name}[::1], {name}[::1]", 1, 32, flag, a, b, out)
    i = np.arange(32)
    expected = np.where(flag, a, b)
    expected[::3] += np.where(i % 2 == 0, np.array(100, name), b * np.array(2, name))[::3]
    np.testing.assert_array_equal(out, expected)


def chooses_truth(x, out):
    i = cuda.grid(1)
    if x[i] > 2:
        out[i] = cuda.selp(x[i], x[i] > 5, i == 3)
    else:
        out[i] = cuda.selp(i == 3, True, False)


def test_selp_of_bools(run):
    x = np.array([0, 9, 3, 1, 7, 2, 6, 5], np.float32)
    out = np.zeros(8, np.bool_)
    run(chooses_truth, "float32[::1], bool[::1]", 1, 8, x, out)
    assert list(out) == [False, True, False, True, True, False, True, False]


def fused(a, b, c, out):
    i = cuda.grid(1)
    out[i] = cuda.fma(a[i], b[i], c[i])


def fused_in_a_branch(a, b, c, out):
    i = cuda.grid(1)
    out[i] = cuda.fma(a[i], 2, 1) if i % 2 else cuda.fma(-a[i], b[i], 0.5)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_fma_rounds_once(run, name):
    rng = np.random.default_rng(1)
    a, b = rng.random((2, 64)).astype(name)
    c = (-(a * b)).astype(name)  # cancels all but the rounding error of the product
    out = np.zeros_like(a)
    signature = ", ".join([f"{name}[::1]"] * 4)
    exact = lambda x, y, z: np.dtype(name).type(float(Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))))  # noqa: E731
    run(fused, signature, 2, 32, a, b, c, out)
    np.testing.assert_array_equal(out, [exact(*row) for row in zip(a, b, c, strict=True)])
    assert (out != 0).any()
    run(fused_in_a_branch, signature, 2, 32, a, b, c, out)
    expected = [exact(x, 2, 1) if i % 2 else exact(-x, y, 0.5) for i, (x, y) in enumerate(zip(a, b, strict=True))]
    np.testing.assert_allclose(out, expected, rtol=0, atol=0)


def roots(x, cube, inverse):
    i = cuda.grid(1)
    cube[i] = cuda.cbrt(x[i])
    inverse[i] = cuda.rsqrt(abs(x[i]))


def roots_in_a_branch(x, cube, inverse):
    i = cuda.grid(1)
    if x[i] < 0:
        cube[i] = cuda.cbrt(x[i] * 2)
        inverse[i] = cuda.rsqrt(-2 * x[i])
    else:
        cube[i] = inverse[i] = cuda.rsqrt(i + 1) + cuda.cbrt(27)


def cube_roots(x, name):
    """Rounded once, which NumPy's are not."""
    with localcontext() as context:
        context.prec = 40
        return np.array([math.copysign(float(Decimal(abs(float(v))) ** (Decimal(1) / 3)), v) for v in x], name)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_roots(run, name):
    x = (np.random.default_rng(7).standard_normal(64) * 100).astype(name)
    cube, inverse = np.zeros_like(x), np.zeros_like(x)
    signature = ", ".join([f"{name}[::1]"] * 3)
    wide = x.astype(np.float64)
    # CUDA C++ Programming Guide, "Mathematical Functions": cbrt is within 1 ulp, rsqrt within 2. On the CPU a C library
    # may be at work (glibc manual, "Known Maximum Errors in Math Functions": cbrt 4), and rsqrt rounds twice.
    near = 4 if run.kind == "cpu" else 1
    run(roots, signature, 2, 32, x, cube, inverse)
    np.testing.assert_array_almost_equal_nulp(cube, cube_roots(wide, name), near)
    np.testing.assert_array_almost_equal_nulp(inverse, (1 / np.sqrt(abs(wide))).astype(name), 2)
    run(roots_in_a_branch, signature, 2, 32, x, cube, inverse)
    np.testing.assert_array_almost_equal_nulp(cube[x < 0], cube_roots(2 * wide[x < 0], name), near)
    np.testing.assert_array_almost_equal_nulp(inverse[x < 0], (1 / np.sqrt(-2 * wide[x < 0])).astype(name), 2)
    np.testing.assert_allclose(cube[x >= 0], (1 / np.sqrt(np.arange(64) + 1) + 3)[x >= 0], rtol=1e-6)


TABLE = np.arange(12, dtype=np.float32).reshape(3, 4) / 4
FLAGS = np.array([True, False, True])
COLUMNS = np.asfortranarray(np.arange(6, dtype=np.int16).reshape(2, 3))
POINT = np.array(2.5)


def looked_up(out):
    i = cuda.grid(1)
    table = cuda.const.array_like(TABLE)
    if FLAGS[i % 3]:
        out[i] = table[i % 3, -1 - i % 4] * POINT[()]
    else:
        out[i] = COLUMNS[i % 2, i % 3] + TABLE.size + len(COLUMNS)


def test_constant_arrays(run):
    out = np.zeros(48, np.float32)
    run(looked_up, "float32[::1]", 2, 24, out)
    for i, found in enumerate(out):
        wanted = TABLE[i % 3, -1 - i % 4] * 2.5 if FLAGS[i % 3] else COLUMNS[i % 2, i % 3] + 12 + 2
        assert found == wanted


def looked_up_in_a_branch(x, out):
    i = cuda.grid(1)
    if x[i] > 0:
        table = cuda.const.array_like(TABLE)
        out[i] = table[x[i] % 3, 0]
    else:
        out[i] = cuda.const.array_like(COLUMNS)[1, -x[i] % 3]


def test_constant_arrays_in_branches(run):
    x = np.arange(-16, 16, dtype=np.int32)
    out = np.zeros(32, np.float32)
    run(looked_up_in_a_branch, "int32[::1], float32[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out, np.where(x > 0, TABLE[x % 3, 0], COLUMNS[1, -x % 3]))


def row_sum(row):
    total = float32(0)
    for value in row:
        total += value
    return total


def make_closure():
    weights = np.array([1, 10, 100], np.int32)

    def closure(out):
        i = cuda.grid(1)
        scratch = cuda.local.array(weights.shape[0], int32)
        for k in range(weights.size):
            scratch[k] = weights[(k + i) % 3]
        out[i] = row_sum(TABLE[i % 3]) + row_sum(TABLE[:, 1]) + scratch[0]

    return closure


def test_constant_arrays_of_closures_and_views(run):
    out = np.zeros(6, np.float32)
    run(make_closure(), "float32[::1]", 1, 6, out)
    expected = [TABLE[i % 3].sum() + TABLE[:, 1].sum() + 10 ** (i % 3) for i in range(6)]
    np.testing.assert_array_equal(out, expected)


def clocks(out):
    i = cuda.grid(1)
    cycles = cuda.clock()
    before = cuda.globaltimer()
    if i % 2 == 0:
        while cuda.globaltimer() - before < 3000:
            cuda.nanosleep(100)
    after = cuda.globaltimer()
    out[i, 0] = after - before
    out[i, 1] = cuda.clock() - cycles


def test_clocks_count_up(run):
    out = np.full((8, 2), -1, np.int64)
    run(clocks, "int64[:, ::1]", 2, 4, out)
    assert (out[::2, 0] >= 3000).all()
    assert (out[::2, 1] > 0).all()
    assert (out >= 0).all()
    assert out[:, 0].max() < 10**10


def sleeps(out):
    i = cuda.grid(1)
    if i % 2:
        cuda.nanosleep(i * 10)
    if i % 3 == 0:
        start = cuda.clock()
        cuda.nanosleep(out[i])
        out[i] = cuda.clock() >= start
    else:
        begin = cuda.globaltimer()
        cuda.nanosleep(out[i])
        out[i] = cuda.globaltimer() >= begin


def test_nanosleep_returns(run):
    out = np.arange(64, dtype=np.uint32)
    run(sleeps, "uint32[::1]", 1, 64, out)
    assert (out == 1).all()
