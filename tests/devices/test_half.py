# SPDX-License-Identifier: Apache-2.0
"""``cuda.fp16`` and ``cuda.bf16``, and bfloat16 as a type: each result the float64 one, rounded once."""

from __future__ import annotations

import itertools
import math

import ml_dtypes
import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import bfloat16, float16, float32, float64, int16, int32, int64, uint8, uint16

BRAIN = np.dtype(ml_dtypes.bfloat16)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1.5, 2.5, -0.3, 0.1, 3e-5, -6e4, 100.7, math.inf, -math.inf, math.nan)


@pytest.fixture(autouse=True)
def _quiet():
    with np.errstate(all="ignore"):  # NaN and overflow are among the inputs
        yield


def pairs_of(dtype, count=500):
    rng = np.random.default_rng(5)
    words = rng.integers(0, 1 << 16, (2, count)).astype(np.uint16).view(dtype).astype(np.float64)
    everyday = rng.normal(0, 3, (2, count))
    edges = np.array(list(itertools.product(SPECIAL, SPECIAL))).T
    x, y = np.concatenate([edges, words, everyday], axis=1).astype(dtype)
    return x, y


def rounded(values, dtype):
    """Float64 results as ``dtype``, rounded once."""
    return np.asarray(values, np.float64).astype(dtype)


def assert_same(found, wanted, what):
    same = (found == wanted) & (np.signbit(found.astype(float)) == np.signbit(wanted.astype(float)))
    same |= np.isnan(found.astype(float)) & np.isnan(wanted.astype(float))
    assert same.all(), f"{what}: {found[~same][:5]} for {wanted[~same][:5]} at {np.flatnonzero(~same)[:5]}"


def steps_apart(found, wanted):
    """How many numbers of the type lie between."""
    words = [values.view(np.int16).astype(int) for values in (found, wanted)]
    places = [np.where(word < 0, -32768 - word, word) for word in words]
    nan = [np.isnan(values.astype(float)) for values in (found, wanted)]
    return np.where(nan[0] & nan[1], 0, np.where(nan[0] ^ nan[1], 1 << 16, np.abs(places[0] - places[1])))


def half_arithmetic(x, y, out, flags):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = cuda.fp16.hadd(a, b)
        out[1, i] = cuda.fp16.hsub(a, b)
        out[2, i] = cuda.fp16.hmul(a, b)
        out[3, i] = cuda.fp16.hdiv(a, b)
        out[4, i] = cuda.fp16.hfma(a, b, 0.5)
        out[5, i] = cuda.fp16.hneg(a)
        out[6, i] = cuda.fp16.habs(a)
        out[7, i] = cuda.fp16.hrcp(a)
        out[8, i] = cuda.fp16.hmax(a, b)
        out[9, i] = cuda.fp16.hmin(a, b)
        flags[0, i] = cuda.fp16.heq(a, b)
        flags[1, i] = cuda.fp16.hne(a, b)
        flags[2, i] = cuda.fp16.hge(a, b)
        flags[3, i] = cuda.fp16.hgt(a, b)
        flags[4, i] = cuda.fp16.hle(a, b)
        flags[5, i] = cuda.fp16.hlt(a, b)


def brain_arithmetic(x, y, out, flags):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = cuda.bf16.hadd(a, b)
        out[1, i] = cuda.bf16.hsub(a, b)
        out[2, i] = cuda.bf16.hmul(a, b)
        out[3, i] = cuda.bf16.hdiv(a, b)
        out[4, i] = cuda.bf16.hfma(a, b, 0.5)
        out[5, i] = cuda.bf16.hneg(a)
        out[6, i] = cuda.bf16.habs(a)
        out[7, i] = cuda.bf16.hrcp(a)
        out[8, i] = cuda.bf16.hmax(a, b)
        out[9, i] = cuda.bf16.hmin(a, b)
        flags[0, i] = cuda.bf16.heq(a, b)
        flags[1, i] = cuda.bf16.hne(a, b)
        flags[2, i] = cuda.bf16.hge(a, b)
        flags[3, i] = cuda.bf16.hgt(a, b)
        flags[4, i] = cuda.bf16.hle(a, b)
        flags[5, i] = cuda.bf16.hlt(a, b)


@pytest.mark.parametrize("kernel", [half_arithmetic, brain_arithmetic])
def test_arithmetic_and_comparisons(run, kernel):
    dtype, name = (np.dtype("float16"), "float16") if kernel is half_arithmetic else (BRAIN, "bfloat16")
    x, y = pairs_of(dtype)
    out, flags = np.zeros((10, x.size), dtype), np.zeros((6, x.size), bool)
    run(kernel, f"{name}[::1], {name}[::1], {name}[:, ::1], bool[:, ::1]", -(-x.size // 128), 128, x, y, out, flags)
    a, b = x.astype(float), y.astype(float)
    greater = np.where(np.isnan(a), b, np.where(b > a, b, a))
    smaller = np.where(np.isnan(a), b, np.where(b < a, b, a))
    wanted = [a + b, a - b, a * b, a / b, a * b + 0.5, -a, np.abs(a), 1 / a, greater, smaller]
    tests = [a == b, (a < b) | (a > b), a >= b, a > b, a <= b, a < b]
    for row, exact in enumerate(wanted):
        if row == 4:  # rounded once more in float64: a tie may turn
            assert steps_apart(out[row], rounded(exact, dtype)).max() <= 1
        else:
            assert_same(out[row], rounded(exact, dtype), f"row {row}")
    np.testing.assert_array_equal(flags, tests)


def half_functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        out[0, i] = cuda.fp16.hsin(a)
        out[1, i] = cuda.fp16.hcos(a)
        out[2, i] = cuda.fp16.hlog(a)
        out[3, i] = cuda.fp16.hlog2(a)
        out[4, i] = cuda.fp16.hlog10(a)
        out[5, i] = cuda.fp16.hexp(a)
        out[6, i] = cuda.fp16.hexp2(a)
        out[7, i] = cuda.fp16.hexp10(a)
        out[8, i] = cuda.fp16.hsqrt(a)
        out[9, i] = cuda.fp16.hrsqrt(a)
        out[10, i] = cuda.fp16.hceil(a)
        out[11, i] = cuda.fp16.hfloor(a)
        out[12, i] = cuda.fp16.htrunc(a)
        out[13, i] = cuda.fp16.hrint(a)
        out[14, i] = cuda.fp16.htanh(a)
        out[15, i] = cuda.fp16.htanh_approx(a)


def brain_functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        out[0, i] = cuda.bf16.hsin(a)
        out[1, i] = cuda.bf16.hcos(a)
        out[2, i] = cuda.bf16.hlog(a)
        out[3, i] = cuda.bf16.hlog2(a)
        out[4, i] = cuda.bf16.hlog10(a)
        out[5, i] = cuda.bf16.hexp(a)
        out[6, i] = cuda.bf16.hexp2(a)
        out[7, i] = cuda.bf16.hexp10(a)
        out[8, i] = cuda.bf16.hsqrt(a)
        out[9, i] = cuda.bf16.hrsqrt(a)
        out[10, i] = cuda.bf16.hceil(a)
        out[11, i] = cuda.bf16.hfloor(a)
        out[12, i] = cuda.bf16.htrunc(a)
        out[13, i] = cuda.bf16.hrint(a)
        out[14, i] = cuda.bf16.htanh(a)
        out[15, i] = cuda.bf16.htanh_approx(a)


@pytest.mark.parametrize("kernel", [half_functions, brain_functions])
def test_functions_of_one_number(run, kernel):
    dtype, name = (np.dtype("float16"), "float16") if kernel is half_functions else (BRAIN, "bfloat16")
    x, _ = pairs_of(dtype)
    out = np.zeros((16, x.size), dtype)
    run(kernel, f"{name}[::1], {name}[:, ::1]", -(-x.size // 128), 128, x, out)
    a = x.astype(float)
    wanted = [
        np.sin(a), np.cos(a), np.log(a), np.log2(a), np.log10(a), np.exp(a), np.exp2(a), 10.0**a, np.sqrt(a),
        1 / np.sqrt(a), np.ceil(a), np.floor(a), np.trunc(a), np.rint(a), np.tanh(a), np.tanh(a),
    ]  # fmt: skip
    for row, exact in enumerate(wanted):
        assert steps_apart(out[row], rounded(exact, dtype)).max() <= (0 if row in (8, 10, 11, 12, 13) else 1), row


def more_of_brain(x, y, out, flags, signs):
    i = cuda.grid(1)
    if i < x.size:
        a, b = x[i], y[i]
        out[0, i] = cuda.bf16.hadd_sat(a, b)
        out[1, i] = cuda.bf16.hsub_sat(a, b)
        out[2, i] = cuda.bf16.hmul_sat(a, b)
        out[3, i] = cuda.bf16.hfma_sat(a, b, bfloat16(0))
        out[4, i] = cuda.bf16.hadd_rn(a, b)
        out[5, i] = cuda.bf16.hsub_rn(a, b)
        out[6, i] = cuda.bf16.hmul_rn(a, b)
        out[7, i] = cuda.bf16.hfma_relu(a, b, 0)
        out[8, i] = cuda.bf16.hmax_nan(a, b)
        out[9, i] = cuda.bf16.hmin_nan(a, b)
        flags[0, i] = cuda.bf16.hequ(a, b)
        flags[1, i] = cuda.bf16.hneu(a, b)
        flags[2, i] = cuda.bf16.hgeu(a, b)
        flags[3, i] = cuda.bf16.hgtu(a, b)
        flags[4, i] = cuda.bf16.hleu(a, b)
        flags[5, i] = cuda.bf16.hltu(a, b)
        flags[6, i] = cuda.bf16.hisnan(a)
        signs[i] = cuda.bf16.hisinf(a)


def test_what_only_bfloat16_has(run):
    x, y = pairs_of(BRAIN)
    out, flags, signs = np.zeros((10, x.size), BRAIN), np.zeros((7, x.size), bool), np.zeros(x.size, np.int32)
    signature = "bfloat16[::1], bfloat16[::1], bfloat16[:, ::1], bool[:, ::1], int32[::1]"
    run(more_of_brain, signature, -(-x.size // 128), 128, x, y, out, flags, signs)
    a, b = x.astype(float), y.astype(float)
    sums = [a + b, a - b, a * b, a * b]
    limited = [np.where(np.isnan(value), 0.0, np.clip(value, 0.0, 1.0)) for value in sums]
    nan = np.isnan(a) | np.isnan(b)
    relu = np.where(a * b > 0, a * b, np.where(np.isnan(a * b), np.nan, 0.0))
    extremes = [np.where(nan, np.nan, np.where(c, b, a)) for c in (b > a, b < a)]
    for row, exact in enumerate([*limited, *sums[:3], relu, *extremes]):
        found, wanted = out[row], rounded(exact, BRAIN)
        np.testing.assert_array_equal(found.astype(float), wanted.astype(float), str(row))
    ordered = [(a < b) | (a > b), a == b, a < b, a <= b, a > b, a >= b]
    np.testing.assert_array_equal(flags, [*(~np.array(ordered)), np.isnan(a)])
    np.testing.assert_array_equal(signs, np.where(np.isinf(a), np.sign(a), 0))


def to_integers(x, i16, u16, i32, u32, i64, u64, i8, u8):
    i = cuda.grid(1)
    if i < x.size:
        a = x[i]
        i16[0, i] = cuda.bf16.bfloat16_to_int16_rn(a)
        i16[1, i] = cuda.bf16.bfloat16_to_int16_rz(a)
        i16[2, i] = cuda.bf16.bfloat16_to_int16_rd(a)
        i16[3, i] = cuda.bf16.bfloat16_to_int16_ru(a)
        u16[0, i] = cuda.bf16.bfloat16_to_uint16_rn(a)
        u16[1, i] = cuda.bf16.bfloat16_to_uint16_rz(a)
        u16[2, i] = cuda.bf16.bfloat16_to_uint16_rd(a)
        u16[3, i] = cuda.bf16.bfloat16_to_uint16_ru(a)
        i32[0, i] = cuda.bf16.bfloat16_to_int32_rn(a)
        i32[1, i] = cuda.bf16.bfloat16_to_int32_rz(a)
        i32[2, i] = cuda.bf16.bfloat16_to_int32_rd(a)
        i32[3, i] = cuda.bf16.bfloat16_to_int32_ru(a)
        u32[0, i] = cuda.bf16.bfloat16_to_uint32_rn(a)
        u32[1, i] = cuda.bf16.bfloat16_to_uint32_rz(a)
        u32[2, i] = cuda.bf16.bfloat16_to_uint32_rd(a)
        u32[3, i] = cuda.bf16.bfloat16_to_uint32_ru(a)
        i64[0, i] = cuda.bf16.bfloat16_to_int64_rn(a)
        i64[1, i] = cuda.bf16.bfloat16_to_int64_rz(a)
        i64[2, i] = cuda.bf16.bfloat16_to_int64_rd(a)
        i64[3, i] = cuda.bf16.bfloat16_to_int64_ru(a)
        u64[0, i] = cuda.bf16.bfloat16_to_uint64_rn(a)
        u64[1, i] = cuda.bf16.bfloat16_to_uint64_rz(a)
        u64[2, i] = cuda.bf16.bfloat16_to_uint64_rd(a)
        u64[3, i] = cuda.bf16.bfloat16_to_uint64_ru(a)
        i8[i] = cuda.bf16.bfloat16_to_int8_rz(a)
        u8[i] = cuda.bf16.bfloat16_to_uint8_rz(a)


def saturated(value, dtype):
    limits = np.iinfo(dtype)
    if math.isnan(value):
        return 0
    return int(max(limits.min, min(limits.max, value if math.isinf(value) else int(value))))


def test_bfloat16_to_integers(run):
    x, _ = pairs_of(BRAIN)
    names = ("int16", "uint16", "int32", "uint32", "int64", "uint64")
    outs = [np.zeros((4, x.size), name) for name in names]
    small = [np.zeros(x.size, name) for name in ("int8", "uint8")]
    signature = ", ".join(["bfloat16[::1]", *(f"{name}[:, ::1]" for name in names), "int8[::1]", "uint8[::1]"])
    run(to_integers, signature, -(-x.size // 128), 128, x, *outs, *small)
    modes = (np.rint, np.trunc, np.floor, np.ceil)
    for out in outs:
        for row, mode in enumerate(modes):
            wanted = [saturated(float(mode(value)), out.dtype) for value in x.astype(float)]
            assert out[row].tolist() == wanted, (out.dtype, mode)
    for out in small:
        assert out.tolist() == [saturated(float(value), out.dtype) for value in x.astype(float)]


def from_integers(i16, u16, i32, u32, i64, u64, f32, out):
    i = cuda.grid(1)
    if i < f32.size:
        out[0, i] = cuda.bf16.int16_to_bfloat16_rn(i16[i])
        out[1, i] = cuda.bf16.int16_to_bfloat16_rz(i16[i])
        out[2, i] = cuda.bf16.int16_to_bfloat16_rd(i16[i])
        out[3, i] = cuda.bf16.int16_to_bfloat16_ru(i16[i])
        out[4, i] = cuda.bf16.uint16_to_bfloat16_rn(u16[i])
        out[5, i] = cuda.bf16.uint16_to_bfloat16_rz(u16[i])
        out[6, i] = cuda.bf16.uint16_to_bfloat16_rd(u16[i])
        out[7, i] = cuda.bf16.uint16_to_bfloat16_ru(u16[i])
        out[8, i] = cuda.bf16.int32_to_bfloat16_rn(i32[i])
        out[9, i] = cuda.bf16.int32_to_bfloat16_rz(i32[i])
        out[10, i] = cuda.bf16.int32_to_bfloat16_rd(i32[i])
        out[11, i] = cuda.bf16.int32_to_bfloat16_ru(i32[i])
        out[12, i] = cuda.bf16.uint32_to_bfloat16_rn(u32[i])
        out[13, i] = cuda.bf16.uint32_to_bfloat16_rz(u32[i])
        out[14, i] = cuda.bf16.uint32_to_bfloat16_rd(u32[i])
        out[15, i] = cuda.bf16.uint32_to_bfloat16_ru(u32[i])
        out[16, i] = cuda.bf16.int64_to_bfloat16_rn(i64[i])
        out[17, i] = cuda.bf16.int64_to_bfloat16_rz(i64[i])
        out[18, i] = cuda.bf16.int64_to_bfloat16_rd(i64[i])
        out[19, i] = cuda.bf16.int64_to_bfloat16_ru(i64[i])
        out[20, i] = cuda.bf16.uint64_to_bfloat16_rn(u64[i])
        out[21, i] = cuda.bf16.uint64_to_bfloat16_rz(u64[i])
        out[22, i] = cuda.bf16.uint64_to_bfloat16_rd(u64[i])
        out[23, i] = cuda.bf16.uint64_to_bfloat16_ru(u64[i])
        out[24, i] = cuda.bf16.float32_to_bfloat16_rn(f32[i])
        out[25, i] = cuda.bf16.float32_to_bfloat16_rz(f32[i])
        out[26, i] = cuda.bf16.float32_to_bfloat16_rd(f32[i])
        out[27, i] = cuda.bf16.float32_to_bfloat16_ru(f32[i])


def towards(value, mode):
    """An integer or float as a bfloat16, rounded in one of the four ways; exactly, by whole numbers."""
    if isinstance(value, float) and not math.isfinite(value):
        return value
    exact = value if isinstance(value, int) else None
    sign = -1 if (value < 0 or (value == 0 and math.copysign(1, value) < 0)) else 1
    if exact is None:
        numerator, denominator = abs(value).as_integer_ratio()
    else:
        numerator, denominator = abs(exact), 1
    if numerator == 0:
        return sign * 0.0
    exponent = max(numerator.bit_length() - denominator.bit_length() - 9, -133)
    while True:  # the unit of bfloat16s of this size
        scaled = (numerator << max(-exponent, 0), denominator << max(exponent, 0))
        whole, rest = divmod(*scaled)
        if whole < 256:
            break
        exponent += 1
    up = {"rz": False, "rd": sign < 0, "ru": sign > 0}.get(mode)
    if up is None:
        up = 2 * rest > scaled[1] or (2 * rest == scaled[1] and whole % 2 == 1)
    whole += up and rest > 0
    if whole.bit_length() + exponent > 128:
        return sign * math.inf
    return sign * math.ldexp(whole, exponent)


def test_to_bfloat16_in_four_ways(run):
    rng = np.random.default_rng(9)
    count = 400
    numbers = []
    for name in ("int16", "uint16", "int32", "uint32", "int64", "uint64"):
        limits = np.iinfo(name)
        edges = [limits.min, limits.max, limits.max - 1, 0, 1, 255, 256, 257, limits.max // 2, (1 << 14) + 33]
        large = ((1 << 53) + 1, (1 << 62) + (1 << 54) + 1, -(1 << 60) - 1)
        edges += [edge for edge in large if limits.min <= edge <= limits.max]
        random = rng.integers(limits.min, limits.max, count, dtype=name, endpoint=True)
        numbers.append(np.concatenate([np.array(edges, name), random])[:count])
    words = rng.integers(0, 1 << 32, count - 8).astype(np.uint32).view(np.float32)
    ends = np.array([0, -0.0, 3.4e38, -3.4e38, np.inf, np.nan, 1e-40, -1e-45], np.float32)
    numbers.append(np.concatenate([ends, words]))
    out = np.zeros((28, count), BRAIN)
    signature = ", ".join([*(f"{column.dtype.name}[::1]" for column in numbers), "bfloat16[:, ::1]"])
    run(from_integers, signature, -(-count // 128), 128, *numbers, out)
    for kind, column in enumerate(numbers):
        for offset, mode in enumerate(("rn", "rz", "rd", "ru")):
            wanted = np.array([towards(value, mode) for value in column.tolist()], BRAIN)
            assert_same(out[4 * kind + offset], wanted, f"{column.dtype} {mode}")


def as_bits(x, words, back, wide):
    i = cuda.grid(1)
    if i < x.size:
        words[0, i] = cuda.bf16.bfloat16_as_int16(x[i])
        words[1, i] = cuda.bf16.bfloat16_as_uint16(x[i])
        back[0, i] = cuda.bf16.int16_as_bfloat16(words[0, i])
        back[1, i] = cuda.bf16.uint16_as_bfloat16(uint16(words[0, i]))
        wide[0, i] = cuda.bf16.bfloat16_to_float32(x[i])
        back[2, i] = cuda.bf16.float32_to_bfloat16(wide[0, i] * float32(1.001))
        back[3, i] = cuda.bf16.float64_to_bfloat16(float64(wide[0, i]) * 1.003)


def test_bits(run):
    x, _ = pairs_of(BRAIN)
    words, back, wide = np.zeros((2, x.size), np.int16), np.zeros((4, x.size), BRAIN), np.zeros((1, x.size), np.float32)
    signature = "bfloat16[::1], int16[:, ::1], bfloat16[:, ::1], float32[:, ::1]"
    run(as_bits, signature, -(-x.size // 128), 128, x, words, back, wide)
    number = ~np.isnan(x.astype(float))
    np.testing.assert_array_equal(words[0][number], x.view(np.int16)[number])
    np.testing.assert_array_equal(words[1], words[0])
    exact = x.astype(np.float32)
    scaled = rounded(exact * np.float32(1.001), BRAIN), rounded(exact.astype(float) * 1.003, BRAIN)
    for row, wanted in enumerate((x, x, *scaled)):
        assert_same(back[row], wanted, str(row))
    assert_same(wide[0], exact, "wide")


# bfloat16 as a type

TABLE = np.array([0.5, 1.25, -3, 1e30], BRAIN)


def doubled(value, factor):
    return value * factor


def brain_everywhere(scalar, weak, x, out, wide):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(32, bfloat16)
    own = cuda.local.array(2, dtype=bfloat16)
    tile[i] = x[i]
    own[0] = doubled(x[i], 2)
    own[1] = scalar
    cuda.syncthreads()
    total = own[0] + tile[31 - i]
    for k in range(3):
        total += x[i] * 0.5 if k % 2 else -own[1]
    out[i] = total if total > TABLE[i % 3] else TABLE[i % 4] / 2
    wide[i] = x[i] + float32(1) / 3 + weak
    if not own[0]:
        out[i] = abs(own[1]) ** 2 + min(x[i], own[1]) // 2 + x[i] % 3


def test_places(run):
    x = np.linspace(-2, 2, 32).astype(BRAIN)
    x[7] = 0
    out, wide = np.zeros(32, BRAIN), np.zeros(32, np.float32)
    signature = "bfloat16, bfloat16, bfloat16[::1], bfloat16[::1], float32[::1]"
    scalar, weak = ml_dtypes.bfloat16(0.75), 2.5
    run(brain_everywhere, signature, 1, 32, scalar, weak, x, out, wide)
    half = BRAIN.type(0.5)
    total = rounded(rounded(x.astype(float) * 2, BRAIN).astype(float) + x[::-1].astype(float), BRAIN)
    for k in range(3):
        term = x * half if k % 2 else np.full_like(x, -scalar)
        total = rounded(total.astype(float) + term.astype(float), BRAIN)
    index = np.arange(32)
    wanted = np.where(total > TABLE[index % 3], total, rounded(TABLE[index % 4].astype(float) / 2, BRAIN))
    wanted[7] = BRAIN.type(0.5625)
    assert_same(out, wanted.astype(BRAIN), "places")
    third = np.float32(1) / np.float32(3)
    np.testing.assert_array_equal(wide, (x.astype(np.float32) + third) + np.float32(2.5))


def brain_conversions(x, i, number, flag, out, back, truth):
    k = cuda.grid(1)
    if k < x.size:
        out[0, k] = i[k]
        out[1, k] = number[k]
        out[2, k] = flag[k]
        out[3, k] = float16(x[k])
        out[4, k] = bfloat16(float32(x[k]) * float32(1.01))
        back[0, k] = int64(x[k])
        back[1, k] = int(x[k])
        back[2, k] = int32(x[k])
        back[3, k] = uint8(x[k])
        back[4, k] = int16(x[k])
        truth[k] = x[k]


def test_conversions(run):
    x, _ = pairs_of(BRAIN)
    rng = np.random.default_rng(2)
    i = rng.integers(-(1 << 62), 1 << 62, x.size)
    i[:3] = [(1 << 62) + (1 << 54) + 1, (1 << 53) + (1 << 45) + 1, -257]
    number = rng.normal(size=x.size) * 10.0 ** rng.uniform(-45, 38, x.size)
    flag = np.arange(x.size) % 3 == 0
    out, back, truth = np.zeros((5, x.size), BRAIN), np.zeros((5, x.size), np.int64), np.zeros(x.size, bool)
    signature = "bfloat16[::1], int64[::1], float64[::1], bool[::1], bfloat16[:, ::1], int64[:, ::1], bool[::1]"
    run(brain_conversions, signature, -(-x.size // 128), 128, x, i, number, flag, out, back, truth)
    assert_same(out[0], np.array([towards(value, "rn") for value in i.tolist()], BRAIN), "int64")
    assert_same(out[1], np.array([towards(value, "rn") for value in number.tolist()], BRAIN), "float64")
    assert_same(out[2], flag.astype(BRAIN), "bool")
    assert_same(out[3], x.astype(np.float16).astype(BRAIN), "float16")
    assert_same(out[4], rounded(x.astype(np.float32) * np.float32(1.01), BRAIN), "float32")
    for row, name in enumerate(("int64", "int64", "int32", "uint8", "int16")):
        assert back[row].tolist() == [saturated(value, np.dtype(name)) for value in x.astype(float).tolist()], name
    np.testing.assert_array_equal(truth, x.astype(float) != 0)


def functions_of_brain(x, out):
    i = cuda.grid(1)
    out[0, i] = math.exp(x[i])
    out[1, i] = math.sqrt(x[i])
    out[2, i] = math.sin(x[i])
    out[3, i] = math.atan2(x[i], x[i] + 1)
    out[4, i] = math.pow(x[i], bfloat16(3))
    out[5, i] = np.floor(x[i])
    out[6, i] = math.fabs(x[i])
    out[7, i] = math.ceil(x[i])


def test_functions_keep_the_type(run):
    x = np.linspace(0.1, 3, 32).astype(BRAIN)
    out = np.zeros((8, 32), BRAIN)
    run(functions_of_brain, "bfloat16[::1], bfloat16[:, ::1]", 1, 32, x, out)
    a = x.astype(float)
    after = rounded(a + 1, BRAIN).astype(float)
    wanted = [np.exp(a), np.sqrt(a), np.sin(a), np.arctan2(a, after), a**3, np.floor(a), np.abs(a), np.ceil(a)]
    for row, exact in enumerate(wanted):
        assert steps_apart(out[row], rounded(exact, BRAIN)).max() <= 1, row


def texts_as_numbers(out):
    out[0] = float("nan")
    out[1] = bfloat16(float("-inf"))
    out[2] = float(" 1e3 ")


def test_floats_from_texts(run):
    out = np.zeros(3, np.float32)
    run(texts_as_numbers, "float32[::1]", 1, 1, out)
    np.testing.assert_array_equal(out, [np.nan, -np.inf, 1000])


def arguments(a, b, pair, out):
    out[0] = a
    out[1] = b
    out[2] = pair[0] - pair[1]


def test_scalar_arguments(run):
    out = np.zeros(3, np.float32)
    brain = ml_dtypes.bfloat16(1.5)
    run(arguments, "bfloat16, float16, Tuple(bfloat16, bfloat16), float32[::1]", 1, 1, brain, 2.5, (3, 1e-3), out)
    np.testing.assert_array_equal(out, [1.5, 2.5, np.float32(ml_dtypes.bfloat16(3) - ml_dtypes.bfloat16(1e-3))])


def test_support_is_told():
    assert cuda.is_bfloat16_supported()
    assert cuda.is_float16_supported()


def half_atomics(x, total, extremes, turns, old):
    i = cuda.grid(1)
    if i < x.size:
        cuda.atomic.add(total, 0, x[i])
        cuda.atomic.sub(total, 1, x[i])
        cuda.atomic.max(extremes, 0, x[i])
        cuda.atomic.min(extremes, 1, x[i])
        cuda.atomic.nanmax(extremes, 2, x[i])
        cuda.atomic.nanmin(extremes, 3, x[i])
        cuda.atomic.exch(turns, i % 3, 1.0)
        old[i] = cuda.atomic.cas(turns, 3 + i, 0.5, x[i])
        tile = cuda.shared.array(3, float16)
        if i < 3:
            tile[i] = 0
        cuda.syncthreads()
        cuda.atomic.add(tile, 1, 1)
        cuda.syncthreads()
        if i == 0:
            turns[3 + x.size] = tile[1]


def test_atomics_on_float16(run):
    x = np.arange(-20, 44, dtype=np.float16)
    total, extremes = np.zeros(3, np.float16), np.array([0, 0, np.nan, np.nan], np.float16)
    turns, old = np.full(3 + x.size + 1, 0.5, np.float16), np.zeros_like(x)
    turns[10] = 2
    signature = ", ".join(["float16[::1]"] * 5)
    run(half_atomics, signature, 1, 64, x, total, extremes, turns, old)
    assert total.tolist() == [x.sum(dtype=float), -x.sum(dtype=float), 0]
    assert extremes.tolist() == [43, -20, 43, -20]
    wanted = x.copy()
    wanted[7] = 2
    np.testing.assert_array_equal(turns[3:-1], wanted)
    assert turns[:3].tolist() == [1, 1, 1]
    assert turns[-1] == 64
    np.testing.assert_array_equal(old, np.where(np.arange(64) == 7, 2, 0.5))


def in_every_construct(z, w, out):
    total = 0
    for value in z:
        total += value
    for a, b in zip(z, w, strict=False):
        total += a * b
    out[0] = total
    out[1] = math.hypot(z[0], w[0])
    out[2] = math.fmod(z[0], w[0])
    out[3] = math.ldexp(z[0], 2)
    fraction, whole = math.modf(z[0])
    out[4] = fraction + whole
    mantissa, exponent = math.frexp(z[0])
    out[5] = mantissa + exponent
    quotient, rest = divmod(z[0], w[1])
    out[6] = quotient * 10 + rest
    out[7] = min(z[0], w[0], 1) + max(z[0], 2.5)
    out[8] = np.maximum(z[0], w[0]) + np.fmin(z[0], w[0]) + np.sign(z[0])
    out[9] = (z[0] < w[0]) + (z[0] == 1) + (z[0] != w[0]) + (1 < z[0] < 3) + (not z[5])
    out[10] = z[0] ** -1 + z[0] ** 2
    out[11] = z[0] + np.int8(1) + z[0] * np.float32(2)
    out[12] = abs(complex(z[0], w[0])) + (z[0] * 1j).imag
    out[13] = int(z[0]) + round(z[0]) + math.floor(w[0]) + math.trunc(w[0])
    x = z[0]
    while x > 0.1:
        x = x / 2
    out[14] = x
    out[15] = z.sum() + np.max(w)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
def test_constructs(run, name):
    dtype = BRAIN if name == "bfloat16" else np.dtype(name)
    z, w = (np.array(numbers).astype(dtype) for numbers in ([1.5, 2, 3, 0.25, 7, 0], [2, 0.5, 1, 4, 2, 1]))
    out = np.zeros(16, dtype)
    run(in_every_construct, f"{name}[::1], {name}[::1], {name}[::1]", 1, 1, z, w, out)
    a, b = z.astype(float), w.astype(float)
    total = a.sum() + (a * b).sum()
    wanted = [total, 2.5, 1.5, 6, 1.5, 1.75, 30, 3.5, 4.5, 4, 2.9167, 5.5, 4, 7, 0.09375, a.sum() + 4]
    step = float(ml_dtypes.finfo(dtype).eps)
    np.testing.assert_allclose(out.astype(float), wanted, rtol=2 * step)


def shows_brain(x):
    print(x[0], (x[1], 1), bfloat16(-0.5))


def test_print(run, capfd):
    capfd.readouterr()
    run(shows_brain, "bfloat16[::1]", 1, 1, np.array([1.5, np.inf], BRAIN))
    if run.kind != "cpu":
        import ctypes

        cuda.synchronize()
        ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr().out.strip() == "1.500000 (inf, 1) -0.500000"
