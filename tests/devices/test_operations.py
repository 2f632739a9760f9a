# SPDX-License-Identifier: Apache-2.0
"""Every operator on every scalar type, and conversions between all of them, bit for bit against NumPy or Python."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from grids import FLOATS, INTEGERS, SCALARS, pairs, values
from oracles import exact_fma, saturated
from ulp import same_bits

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.types import bool_, float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

UNCONTRACTED = DEFAULT_OPTIONS.replace(fma=False)
BLOCK = 128


def blocks(array):
    return -(-array.size // BLOCK)


def assert_same(found, wanted, what, *inputs):
    wrong = ~same_bits(found, wanted)
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        given = ", ".join(repr(column[at]) for column in inputs)
        raise AssertionError(f"{what} of {given} is {found[at]!r}, not {wanted[at]!r}; {wrong.sum()} differ")


def float_operations(a, b, out, whole):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i] = x + y
        out[1, i] = x - y
        out[2, i] = x * y
        out[3, i] = x / y
        out[4, i] = x // y
        out[5, i] = x % y
        out[6, i], out[7, i] = divmod(x, y)
        out[8, i] = min(x, y)
        out[9, i] = max(x, y)
        out[10, i] = -x
        out[11, i] = +x
        out[12, i] = abs(x)
        out[13, i] = math.sqrt(x)
        out[14, i] = math.fmod(x, y)
        out[15, i] = math.copysign(x, y)
        out[16, i] = np.floor(x)
        out[17, i] = np.ceil(x)
        out[18, i] = np.trunc(x)
        out[19, i] = np.rint(x)
        out[20, i] = x * x + y
        out[21, i] = cuda.fma(x, y, x)
        whole[0, i] = round(x)
        whole[1, i] = math.floor(x)
        whole[2, i] = math.ceil(x)
        whole[3, i] = math.trunc(x)
        whole[4, i] = int(x)


FLOAT_OPERATIONS = (
    "+", "-", "*", "/", "//", "%", "divmod[0]", "divmod[1]", "min", "max", "neg", "pos", "abs", "sqrt", "fmod",
    "copysign", "floor", "ceil", "trunc", "rint", "x * x + y", "fma",
)  # fmt: skip


@pytest.mark.parametrize("name", FLOATS)
def test_float_operations(run, name):
    a, b = pairs(name, name)
    out, whole = np.zeros((22, a.size), name), np.zeros((5, a.size), np.int64)
    signature = f"{name}[::1], {name}[::1], {name}[:, ::1], int64[:, ::1]"
    run(float_operations, signature, blocks(a), BLOCK, a, b, out, whole, options=UNCONTRACTED)
    with np.errstate(all="ignore"):
        wanted = [
            a + b, a - b, a * b, a / b, a // b, a % b, a // b, a % b,
            np.where(b < a, b, a), np.where(b > a, b, a), -a, +a, abs(a), np.sqrt(a), np.fmod(a, b), np.copysign(a, b),
            np.floor(a), np.ceil(a), np.trunc(a), np.rint(a), a * a + b, exact_fma(a, b, a),
        ]  # fmt: skip
        integers = [np.rint(a), np.floor(a), np.ceil(a), np.trunc(a), a]
    for what, found, right in zip(FLOAT_OPERATIONS, out, wanted, strict=True):
        assert_same(found, right, what, a, b)
    for what, found, right in zip(("round", "floor", "ceil", "trunc", "int"), whole, integers, strict=True):
        assert_same(found, saturated(right, "int64"), what, a)


def fused(x, y, z, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = cuda.fma(x[i], y[i], z[i])


@pytest.mark.parametrize("name", FLOATS)
def test_fma_rounds_once_next_to_ties(run, name):
    """Products halfway between two numbers, and something small that decides: what two roundings get wrong."""
    eps, tiny = float(np.finfo(name).eps), float(np.finfo(name).smallest_subnormal)
    rng = np.random.default_rng(8)
    odd = 1 + 2 * rng.integers(0, 200, 2000)
    x = (1 + odd * eps).astype(name)
    y = np.full(2000, 1.5, name)
    y[::3] = -1.25
    z = (rng.choice([-1, 1], 2000) * np.maximum(tiny, eps * 2.0 ** -rng.integers(2, 40, 2000))).astype(name)
    out = np.zeros_like(x)
    run(fused, ", ".join([f"{name}[::1]"] * 4), 16, 128, x, y, z, out)
    assert_same(out, exact_fma(x, y, z), "fma", x, y, z)


def more_of_integers(a, b, out, quotient):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i], out[1, i] = divmod(x, y)
        out[2, i] = x**y
        out[3, i] = pow(x, y)
        out[4, i] = +x
        out[5, i] = x**3
        out[6, i] = math.gcd(x, y)
        quotient[i] = x / y


@pytest.mark.parametrize("name", INTEGERS)
def test_more_of_integers(run, name):
    a, b = pairs(name, name)
    out, quotient = np.zeros((7, a.size), name), np.zeros(a.size)
    signature = f"{name}[::1], {name}[::1], {name}[:, ::1], float64[::1]"
    run(more_of_integers, signature, blocks(a), BLOCK, a, b, out, quotient)
    bits = 8 * a.itemsize
    mask = (1 << bits) - 1
    wanted = []
    for x, y in zip(a.tolist(), b.tolist(), strict=True):
        if y >= 0:
            power = pow(x, y, 1 << bits)
        else:  # the true value, towards zero
            power = x ** (-y % 2) if x in (1, -1) else 0
        gcd = math.gcd(x, y)
        wanted.append([x // y if y else 0, x % y if y else 0, power, power, x, x**3, gcd])
    for n, what in enumerate(("//", "%", "**", "pow", "pos", "**3", "gcd")):
        right = np.array([row[n] & mask for row in wanted], f"u{a.itemsize}").view(name)
        assert_same(out[n], right, what, a, b)
    with np.errstate(all="ignore"):
        assert_same(quotient, a.astype(np.float64) / b.astype(np.float64), "/", a, b)


def one_pair(x, y, total, product, bits, k, i):
    total[i] = x + y
    product[i] = x * y
    bits[k, i] = (
        (x < y) + 2 * (x <= y) + 4 * (x > y) + 8 * (x >= y) + 16 * (x == y) + 32 * (x != y)
    )  # fmt: skip


def mixed(a, b0, b1, b2, b3, b4, b5, t0, t1, t2, t3, t4, t5, p0, p1, p2, p3, p4, p5, bits):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        one_pair(x, b0[i], t0, p0, bits, 0, i)
        one_pair(x, b1[i], t1, p1, bits, 1, i)
        one_pair(x, b2[i], t2, p2, bits, 2, i)
        one_pair(x, b3[i], t3, p3, bits, 3, i)
        one_pair(x, b4[i], t4, p4, bits, 4, i)
        one_pair(x, b5[i], t5, p5, bits, 5, i)


NUMBERS = (*INTEGERS, *FLOATS)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("name", NUMBERS)
def test_every_pair_of_types(run, name, half):
    others = NUMBERS[:6] if half == 0 else NUMBERS[5:]
    grids = [pairs(name, other) for other in others]
    size = min(a.size for a, _ in grids)
    rng = np.random.default_rng(1)
    chosen = [rng.permutation(a.size)[:size] for a, _ in grids]
    a = grids[0][0][chosen[0]]
    right = [b[places] for (_, b), places in zip(grids, chosen, strict=True)]
    kinds = [np.result_type(name, other).name for other in others]
    totals, products = ([np.zeros(size, kind) for kind in kinds] for _ in range(2))
    bits = np.zeros((6, size), np.uint8)
    types = [name, *others, *kinds, *kinds]
    signature = ", ".join([*(f"{kind}[::1]" for kind in types), "uint8[:, ::1]"])
    run(mixed, signature, blocks(a), BLOCK, a, *right, *totals, *products, bits, options=UNCONTRACTED)
    with np.errstate(all="ignore"):
        for n, (b, other) in enumerate(zip(right, others, strict=True)):
            assert_same(totals[n], a + b, f"{name} + {other}", a, b)
            assert_same(products[n], a * b, f"{name} * {other}", a, b)
            rows = [a < b, a <= b, a > b, a >= b, a == b, a != b]
            assert_same(
                bits[n], sum(row.astype(np.uint8) << k for k, row in enumerate(rows)), f"{name} < {other}", a, b
            )


def conversions(x, o0, o1, o2, o3, o4, o5, o6, o7, o8, o9, o10, o11):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        o0[i] = bool_(v)
        o1[i] = int8(v)
        o2[i] = int16(v)
        o3[i] = int32(v)
        o4[i] = int64(v)
        o5[i] = uint8(v)
        o6[i] = uint16(v)
        o7[i] = uint32(v)
        o8[i] = uint64(v)
        o9[i] = float16(v)
        o10[i] = float32(v)
        o11[i] = float64(v)


@pytest.mark.parametrize("name", SCALARS)
def test_every_conversion(run, name):
    x = values(name)
    out = [np.zeros(x.size, kind) for kind in SCALARS]
    run(conversions, ", ".join(f"{kind}[::1]" for kind in (name, *SCALARS)), blocks(x), BLOCK, x, *out)
    for found in out:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            if name in FLOATS and found.dtype.kind in "iu":
                wanted = saturated(x, found.dtype.name)
            else:
                wanted = x.astype(found.dtype)
        assert_same(found, wanted, f"{found.dtype.name} of {name}", x)


def logic(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i] = x & y
        out[1, i] = x | y
        out[2, i] = x ^ y
        out[3, i] = not x
        out[4, i] = x and y
        out[5, i] = x or y
        out[6, i] = x < y
        out[7, i] = x == y
        out[8, i] = min(x, y)
        out[9, i] = max(x, y)
        out[10, i] = x + y > 1
        out[11, i] = -x < -y


def test_bools(run):
    a, b = pairs("bool", "bool")
    out = np.zeros((12, a.size), np.bool_)
    run(logic, "bool[::1], bool[::1], bool[:, ::1]", blocks(a), BLOCK, a, b, out)
    both = a & b
    either = a | b
    wanted = [both, either, a ^ b, ~a, both, either, ~a & b, a == b, both, either, both, a & ~b]
    for n, right in enumerate(wanted):
        assert_same(out[n], right, f"row {n}", a, b)


def shifts(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] << b[i]
        out[1, i] = a[i] >> b[i]


@pytest.mark.parametrize("count", ["int8", "uint8", "int64"])
@pytest.mark.parametrize("name", ["int32", "int64"])
def test_shifts_by_counts_of_another_type(run, name, count):
    a, b = pairs(name, count)
    kind = np.result_type(name, count).name
    bits = np.iinfo(kind).bits
    out = np.zeros((2, a.size), kind)
    run(shifts, f"{name}[::1], {count}[::1], {kind}[:, ::1]", blocks(a), BLOCK, a, b, out)
    wrap = lambda number: (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))  # noqa: E731
    for x, y, left, right in zip(a.tolist(), b.tolist(), *out.tolist(), strict=True):
        far = not 0 <= y < bits
        assert left == (0 if far else wrap(x << y)), (x, y)
        assert right == ((-1 if x < 0 else 0) if far else x >> y), (x, y)
