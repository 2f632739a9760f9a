# SPDX-License-Identifier: Apache-2.0
"""The table of defined results, bit for bit against Python: nothing a kernel computes can end the process."""

from __future__ import annotations

import math
import struct

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import float16, float32, float64, int8, int16, int32, int64, uint8, uint16, uint32, uint64

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def binary(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i] = x + y
        out[1, i] = x - y
        out[2, i] = x * y
        out[3, i] = x // y
        out[4, i] = x % y
        out[5, i] = x & y
        out[6, i] = x | y
        out[7, i] = x ^ y
        out[8, i] = x << y
        out[9, i] = x >> y
        out[10, i] = min(x, y)
        out[11, i] = max(x, y)
        out[12, i] = -x
        out[13, i] = ~x
        out[14, i] = abs(x)


def oracle(x, y, bits):
    """The same in Python's unbounded integers; the caller wraps."""
    too_far = y < 0 or y >= bits
    return [
        x + y,
        x - y,
        x * y,
        x // y if y else 0,
        x % y if y else 0,
        x & y,
        x | y,
        x ^ y,
        0 if too_far else x << y,
        (-1 if x < 0 else 0) if too_far else x >> y,
        min(x, y),
        max(x, y),
        -x,
        ~x,
        abs(x),
    ]


def edges(name):
    info = np.iinfo(name)
    bits = info.bits
    wanted = {
        0,
        1,
        2,
        3,
        7,
        bits - 1,
        bits,
        bits + 1,
        100,
        info.max,
        info.max - 1,
        info.max // 2,
        info.min,
        info.min + 1,
    }
    wanted |= {-1, -2, -3, -7, -bits, -100}
    return sorted(value for value in wanted if info.min <= value <= info.max)


def pairs_of(name):
    info = np.iinfo(name)
    values = edges(name)
    extra = np.random.default_rng(info.bits).integers(info.min, info.max, (2000, 2), dtype=name, endpoint=True)
    return [(x, y) for x in values for y in values] + [(int(x), int(y)) for x, y in extra]


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(run, name):
    info = np.iinfo(name)
    pairs = pairs_of(name)
    a, b = (np.array(column, name) for column in zip(*pairs, strict=True))
    out = np.zeros((15, len(pairs)), name)
    run(binary, f"{name}[::1], {name}[::1], {name}[:, ::1]", -(-len(pairs) // 128), 128, a, b, out)
    mask = (1 << info.bits) - 1
    expected = [[value & mask for value in oracle(x, y, info.bits)] for x, y in pairs]
    found = [[int(value) & mask for value in column] for column in out.T]
    for pair, want, have in zip(pairs, expected, found, strict=True):
        assert have == want, pair


@pytest.mark.parametrize("wider", ["int64", "float64"])
@pytest.mark.parametrize("name", INTEGERS)
def test_integers_that_are_widened_at_once(run, name, wider):
    """ptxas took -(-32768) of 16 bits for 32768 where the next instruction extended the sign."""
    info = np.iinfo(name)
    pairs = pairs_of(name)
    a, b = (np.array(column, name) for column in zip(*pairs, strict=True))
    out = np.zeros((15, len(pairs)), wider)
    run(binary, f"{name}[::1], {name}[::1], {wider}[:, ::1]", -(-len(pairs) // 128), 128, a, b, out)
    mask = (1 << info.bits) - 1
    wrapped = np.array([[value & mask for value in oracle(x, y, info.bits)] for x, y in pairs], np.uint64)
    assert np.array_equal(out, wrapped.astype(name).astype(wider).T)


def wrapped_and_used(a, wide, rest, less, scaled):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        for k, v in enumerate((-x, abs(x), 0 - x, x * -1, -abs(x), abs(-x), x - 1 + 1)):
            wide[k, i] = v
            rest[k, i] = v % 5
            less[k, i] = v < 0
            scaled[k, i] = v // 7 if k % 2 else v // 100


@pytest.mark.parametrize("name", [name for name in INTEGERS if name.startswith("i")])
def test_wrapped_integers_are_used(run, name):
    a = np.array(edges(name), name)
    wide, scaled = (np.zeros((7, a.size), np.int64) for _ in range(2))
    rest, less = np.zeros((7, a.size), name), np.zeros((7, a.size), np.bool_)
    kinds = f"{name}[::1], int64[:, ::1], {name}[:, ::1], bool[:, ::1], int64[:, ::1]"
    run(wrapped_and_used, kinds, 1, 64, a, wide, rest, less, scaled)
    with np.errstate(over="ignore"):
        values = np.stack([-a, abs(a), -a, -a, -abs(a), abs(-a), a])
    assert values.dtype == name
    assert np.array_equal(wide, values)
    assert np.array_equal(rest, values % np.array(5, name))
    assert np.array_equal(less, values < 0)
    divisors = [[7 if k % 2 else 100] for k in range(7)]
    assert np.array_equal(scaled, values.astype(np.int64) // np.array(divisors))


def extremes_of_negated(a, b, c, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = min(min(a[i], -b[i]), c[i])
        out[1, i] = max(max(a[i], -b[i]), c[i])
        out[2, i] = min(c[i], min(-b[i], a[i]))
        out[3, i] = max(c[i], max(-b[i], -a[i]))
        out[4, i] = min(a[i], -b[i], -c[i])
        out[5, i] = max(a[i], ~b[i], c[i])
        out[6, i] = min(min(max(c[i], 4), abs(min(b[i], -100))), a[i])
        out[7, i] = max(min(a[i], -b[i]), c[i])
        out[8, i] = max(max(a[i], abs(b[i])), c[i])


@pytest.mark.parametrize("name", [name for name in INTEGERS if name.startswith("i")])
def test_extremes_of_negated_integers(run, name):
    """ptxas lost the sign of the second operand where it made one instruction of two."""
    rng = np.random.default_rng(3)
    info = np.iinfo(name)
    a, b, c = rng.integers(info.min, info.max, (3, 500), dtype=name, endpoint=True)
    out = np.zeros((9, a.size), name)
    run(extremes_of_negated, f"{name}[::1], {name}[::1], {name}[::1], {name}[:, ::1]", 4, 128, a, b, c, out)
    with np.errstate(over="ignore"):
        low, high = np.minimum, np.maximum
        expected = [
            low(low(a, -b), c),
            high(high(a, -b), c),
            low(c, low(-b, a)),
            high(c, high(-b, -a)),
            low(low(a, -b), -c),
            high(high(a, ~b), c),
            low(low(high(c, 4), abs(low(b, -100))), a),
            high(low(a, -b), c),
            high(high(a, abs(b)), c),
        ]
    assert np.array_equal(out, np.stack(expected))


def beside_zero(a, n, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        for k, z in enumerate((+0.0, -0.0)):
            out[0 + k, i] = max(x, z)
            out[2 + k, i] = max(z, x)
            out[4 + k, i] = min(x, z)
            out[6 + k, i] = min(z, x)
            out[8 + k, i] = x if x > z else z
            out[10 + k, i] = z if x > z else x
            out[12 + k, i] = x if x < z else z
            out[14 + k, i] = z if x < z else x
            out[16 + k, i] = x if x >= z else z
            out[18 + k, i] = z if x <= z else x
            out[20 + k, i] = max(z, n[i])
            out[22 + k, i] = min(z, n[i])
        out[24, i] = max(-float32(n[i]), float32(n[i]))
        out[25, i] = min(float32(n[i]), -float32(n[i]))


def beside_zero_in_python(x, n):
    kind = type(x)
    out = [None] * 26
    for k, z in enumerate((kind(0.0), kind(-0.0))):
        out[0 + k] = max(x, z)
        out[2 + k] = max(z, x)
        out[4 + k] = min(x, z)
        out[6 + k] = min(z, x)
        out[8 + k] = x if x > z else z
        out[10 + k] = z if x > z else x
        out[12 + k] = x if x < z else z
        out[14 + k] = z if x < z else x
        out[16 + k] = x if x >= z else z
        out[18 + k] = z if x <= z else x
        out[20 + k] = max(z, kind(n))
        out[22 + k] = min(z, kind(n))
    out[24] = max(-kind(n), kind(n))
    out[25] = min(kind(n), -kind(n))
    return out


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_extremes_beside_zeros(run, name):
    """Python's rule, the first of equal ones, also for zeros of two signs and where the compiler finds an extreme."""
    values = np.array([0.0, -0.0, math.nan, 1.5, -1.5, math.inf, -math.inf], name)
    n = np.array([0, 3, -3, 0, 0, 1, -1], np.int32)
    out = np.zeros((26, values.size), name)
    run(beside_zero, f"{name}[::1], int32[::1], {name}[:, ::1]", 1, 32, values, n, out)
    with np.errstate(all="ignore"):
        expected = [beside_zero_in_python(x, int(m)) for x, m in zip(values, n, strict=True)]
    for x, column, want in zip(values, out.T, expected, strict=True):
        texts = [(str(found), str(wanted)) for found, wanted in zip(column, want, strict=True)]
        assert [found for found, _ in texts] == [wanted for _, wanted in texts], x


def by_constant(a, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        out[0, i] = x // 7
        out[1, i] = x % 7
        out[2, i] = x // -3
        out[3, i] = x % -3
        out[4, i] = x // 8
        out[5, i] = x % 8
        out[6, i] = x << 40
        out[7, i] = x >> 40
        out[8, i] = x << 3
        out[9, i] = x >> 3
        out[10, i] = x // -1


@pytest.mark.parametrize("name", ["int32", "int64"])
def test_integers_with_constants(run, name):
    bits = np.iinfo(name).bits
    values = edges(name)
    out = np.zeros((11, len(values)), name)
    run(by_constant, f"{name}[::1], {name}[:, ::1]", 1, 64, np.array(values, name), out)
    mask = (1 << bits) - 1
    for x, column in zip(values, out.T, strict=True):
        far = 0 if bits == 32 else x << 40, (-1 if x < 0 else 0) if bits == 32 else x >> 40
        want = [x // 7, x % 7, x // -3, x % -3, x // 8, x % 8, *far, x << 3, x >> 3, -x]
        assert [int(value) & mask for value in column] == [value & mask for value in want], x


def to_integers(x, signed, unsigned):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        signed[0, i] = int8(v)
        signed[1, i] = int16(v)
        signed[2, i] = int32(v)
        signed[3, i] = int64(v)
        unsigned[0, i] = uint8(v)
        unsigned[1, i] = uint16(v)
        unsigned[2, i] = uint32(v)
        unsigned[3, i] = uint64(v)


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_float_to_integer_saturates(run, name):
    bits = (7, 8, 15, 16, 31, 32, 63, 64)
    values = [0.0, -0.0, 0.5, -0.5, 0.999, -0.999, 1.5, -1.5, 2.5, 100.7, -100.7, math.inf, -math.inf, math.nan]
    values += [s * 2.0**n * f for n in bits for s in (1, -1) for f in (0.5, 1 - 2**-10, 1.0, 1 + 2**-10)]
    with np.errstate(over="ignore"):
        x = np.array(values, name)
    signed, unsigned = np.zeros((4, x.size), np.int64), np.zeros((4, x.size), np.uint64)
    run(to_integers, f"{name}[::1], int64[:, ::1], uint64[:, ::1]", 1, 128, x, signed, unsigned)
    for row, width in enumerate((8, 16, 32, 64)):
        for column, value in enumerate(x.tolist()):
            for out, low, high in (
                (signed, -(1 << (width - 1)), (1 << (width - 1)) - 1),
                (unsigned, 0, (1 << width) - 1),
            ):
                if math.isnan(value):
                    want = 0
                else:
                    want = low if value <= low else high if value >= high else math.trunc(value)
                assert int(out[row, column]) == want, (value, width)


def to_floats(x, half, single, double):
    i = cuda.grid(1)
    if i < x.size:
        half[i] = float16(x[i])
        single[i] = float32(x[i])
        double[i] = float64(x[i])


@pytest.mark.parametrize("name", [*INTEGERS, "float16", "float32", "float64", "bool"])
def test_conversion_to_float_rounds_once(run, name):
    rng = np.random.default_rng(11)
    if name == "bool":
        x = np.array([False, True])
    elif name[0] == "f":
        bits = rng.integers(0, 2**64, 20_000, dtype=np.uint64).view(np.float64)
        ties = (1 + np.arange(4096) / 2048) * 2.0 ** rng.integers(-26, 16, 4096)  # halfway between two halfs, and
        near = [ties * (1 + s * 2.0**-52) for s in (-1, 0, 1)]  # the doubles next to that
        with np.errstate(over="ignore", invalid="ignore"):
            x = np.concatenate([bits, *near, [0.0, -0.0, math.inf, -math.inf, 65504, 65519.99999, 65520]]).astype(name)
    else:
        info = np.iinfo(name)
        random = rng.integers(info.min, info.max, 2000, dtype=name, endpoint=True)
        x = np.concatenate([np.array(edges(name), name), random])
    out = [np.zeros(x.size, kind) for kind in (np.float16, np.float32, np.float64)]
    run(
        to_floats,
        f"{name}[::1], float16[::1], float32[::1], float64[::1]",
        -(-x.size // 256),
        256,
        x,
        *out,
    )
    with np.errstate(over="ignore", invalid="ignore"):
        for found in out:
            np.testing.assert_array_equal(found, x.astype(found.dtype))
            signs = np.signbit(found)[~np.isnan(found)]
            np.testing.assert_array_equal(signs, np.signbit(x.astype(found.dtype))[~np.isnan(found)])


def divide(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = a[i] / b[i]
        out[1, i] = a[i] // b[i]
        out[2, i] = a[i] % b[i]


@pytest.mark.parametrize("name", ["float16", "float32", "float64"])
def test_float_division_as_numpy(run, name):
    edge = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, -7.25, math.inf, -math.inf, math.nan, 1e-5, 6e4]
    rng = np.random.default_rng(3)
    pairs = [(x, y) for x in edge for y in edge] + list(rng.normal(0, 10, (500, 2)))
    a, b = (np.array(column, name) for column in zip(*pairs, strict=True))
    out = np.zeros((3, a.size), name)
    run(divide, f"{name}[::1], {name}[::1], {name}[:, ::1]", -(-a.size // 64), 64, a, b, out)
    with np.errstate(all="ignore"):
        expected = [a / b, a // b, a % b]
    for found, want in zip(out, expected, strict=True):
        np.testing.assert_array_equal(found, want)
        shown = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(found[shown]), np.signbit(want[shown]))


def compare(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i] = x < y
        out[1, i] = x <= y
        out[2, i] = x > y
        out[3, i] = x >= y
        out[4, i] = x == y
        out[5, i] = x != y


@pytest.mark.parametrize("name", ["float32", "float64", "int32", "uint32", "int64", "uint64"])
def test_comparisons(run, name):
    values = [0.0, -0.0, 1.0, -1.0, math.inf, -math.inf, math.nan] if name[0] == "f" else edges(name)
    a, b = (np.array(column, name) for column in zip(*[(x, y) for x in values for y in values], strict=True))
    out = np.zeros((6, a.size), np.bool_)
    run(compare, f"{name}[::1], {name}[::1], bool[:, ::1]", -(-a.size // 64), 64, a, b, out)
    expected = [a < b, a <= b, a > b, a >= b, a == b, a != b]
    np.testing.assert_array_equal(out, expected)


def fused(a, b, c, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] * b[i] + c[i]


def test_multiply_and_add_round_once_unless_told_not_to(run):
    from cudabuild.definition import DEFAULT_OPTIONS

    a = np.array([1 + 2**-12, 0.1, 3.3], np.float32)
    c = -(a * a)
    signature = "float32[::1], float32[::1], float32[::1], float32[::1]"
    twice, once = np.zeros(3, np.float32), np.zeros(3, np.float32)
    run(fused, signature, 1, 32, a, a, c, twice, options=DEFAULT_OPTIONS.replace(fma=False))
    np.testing.assert_array_equal(twice, 0)
    run(fused, signature, 1, 32, a, a, c, once)
    exact = a.astype(np.float64) ** 2 + c
    np.testing.assert_array_equal(once, exact.astype(np.float32))


def functions(x, out):
    i = cuda.grid(1)
    if i < x.size:
        v = x[i]
        out[0, i] = math.sqrt(v)
        out[1, i] = math.exp(v)
        out[2, i] = math.log(v)
        out[3, i] = math.sin(v)
        out[4, i] = math.cos(v)
        out[5, i] = math.tan(v)
        out[6, i] = math.atan(v)
        out[7, i] = math.sinh(v)
        out[8, i] = math.tanh(v)
        out[9, i] = math.erf(v)
        out[10, i] = math.expm1(v)
        out[11, i] = math.log1p(v)
        out[12, i] = math.log2(v)
        out[13, i] = math.log10(v)
        out[14, i] = math.pow(v, float32(2.5))
        out[15, i] = math.floor(v)
        out[16, i] = math.ceil(v)
        out[17, i] = math.fabs(v)
        out[18, i] = math.hypot(v, v)
        out[19, i] = math.gamma(v)
        out[20, i] = math.lgamma(v)
        out[21, i] = math.asinh(v)
        out[22, i] = math.atan2(v, float32(-2))
        out[23, i] = math.fmod(v, float32(0.3))
        out[24, i] = math.copysign(v, float32(-1))
        out[25, i] = math.erfc(v)


#: Row by row: the function in float64, and its largest error in float32 and float64, in units in the last place, by the
#: CUDA C++ Programming Guide, "Mathematical Functions" (0: rounded correctly, or exact).
ORACLES = [
    (math.sqrt, 0, 0), (math.exp, 2, 1), (math.log, 1, 1), (math.sin, 2, 2), (math.cos, 2, 2), (math.tan, 4, 2),
    (math.atan, 2, 2), (math.sinh, 3, 2), (math.tanh, 2, 2), (math.erf, 2, 2), (math.expm1, 1, 1), (math.log1p, 1, 1),
    (math.log2, 1, 1), (math.log10, 2, 1), (lambda v: math.pow(v, 2.5), 4, 2), (math.floor, 0, 0), (math.ceil, 0, 0),
    (math.fabs, 0, 0), (lambda v: math.hypot(v, v), 3, 2), (math.gamma, 5, 10), (math.lgamma, 6, 4),
    (math.asinh, 3, 3), (lambda v: math.atan2(v, -2.0), 3, 2), (lambda v: math.fmod(v, float(np.float32(0.3))), 0, 0),
    (lambda v: -v, 0, 0), (math.erfc, 4, 5),
]  # fmt: skip


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions(run, name):
    x = np.random.default_rng(1).uniform(0.1, 5, 300).astype(name)
    out = np.zeros((len(ORACLES), x.size), name)
    run(functions, f"{name}[::1], {name}[:, ::1]", 5, 64, x, out)
    for row, (oracle, single, double) in enumerate(ORACLES):
        want = np.array([oracle(v) for v in x.tolist()], name)
        limit = single if name == "float32" else double + (double > 0)  # the host's own function may be off by one
        if oracle is math.lgamma:  # 0 at 1 and 2, where a unit in the last place says nothing
            np.testing.assert_allclose(out[row], want, rtol=limit * np.finfo(name).eps, atol=4 * np.finfo(name).eps)
        else:
            np.testing.assert_array_max_ulp(out[row], want, limit)


def truths(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = bool(x[i])


@pytest.mark.parametrize("name", ["float32", "int8", "uint64", "float64"])
def test_truth_value(run, name):
    x = np.array([0, 1, 2, 100], name)
    if name[0] == "f":
        x = np.append(x, [-0.0, np.nan, np.finfo(name).smallest_subnormal]).astype(name)
    out = np.zeros(x.size, np.bool_)
    run(truths, f"{name}[::1], bool[::1]", 1, 32, x, out)
    np.testing.assert_array_equal(out, x.astype(bool))
    assert struct.unpack(f"{x.size}B", out.tobytes()) == tuple(int(value) for value in out)
