# SPDX-License-Identifier: Apache-2.0
"""``cuda.libdevice``: results of each kind of signature, and what a wrong call says. ``tests/backend`` compiles all."""

from __future__ import annotations

import math

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.lang.libdevice import FUNCTIONS
from cudabuild.types import float32, float64, parse_signature

X = np.array([0.5, -1.25, 3.0, 10.75, -0.0])


def floats(x, out):
    i = cuda.grid(1)
    if i < x.size:
        out[0, i] = cuda.libdevice.sin(x[i])
        out[1, i] = cuda.libdevice.fabs(x[i])
        out[2, i] = cuda.libdevice.fma(x[i], x[i], 1)
        out[3, i] = cuda.libdevice.norm3d(x[i], 2.0, 3.0)
        out[4, i] = cuda.libdevice.ldexp(x[i], 3)
        out[5, i] = cuda.libdevice.normcdf(x[i])
        out[6, i] = cuda.libdevice.cospi(x[i])


def test_functions_of_floats(run) -> None:
    out = np.zeros((7, X.size))
    run(floats, "float64[::1], float64[:, ::1]", 1, 32, X, out)
    cdf = [0.5 * math.erfc(-x / math.sqrt(2)) for x in X]
    expected = [np.sin(X), np.abs(X), X * X + 1, np.sqrt(X * X + 13), X * 8, cdf, np.cos(np.pi * X)]
    np.testing.assert_allclose(out, expected, rtol=1e-14, atol=1e-14)


def several(x, out, whole):
    i = cuda.grid(1)
    if i < x.size:
        s, c = cuda.libdevice.sincos(x[i])
        out[0, i], out[1, i] = s, c
        mantissa, exponent = cuda.libdevice.frexp(x[i])
        out[2, i], whole[0, i] = mantissa, exponent
        out[3, i], out[4, i] = cuda.libdevice.modf(x[i])
        out[5, i], whole[1, i] = cuda.libdevice.remquo(x[i], 2.0)


def test_functions_of_several_results(run) -> None:
    out, whole = np.zeros((6, X.size)), np.zeros((2, X.size), np.int32)
    run(several, "float64[::1], float64[:, ::1], int32[:, ::1]", 1, 32, X, out, whole)
    mantissa, exponent = np.frexp(X)
    fraction, integer = np.modf(X)
    rest = [math.remainder(x, 2.0) for x in X]
    np.testing.assert_allclose(out, [np.sin(X), np.cos(X), mantissa, fraction, integer, rest], rtol=1e-15, atol=0)
    quotients = [round((x - r) / 2.0) for x, r in zip(X, rest, strict=True)]
    np.testing.assert_array_equal(whole, [exponent, [int(math.copysign(abs(q) % 8, q)) for q in quotients]])


def bits(a, b, out, halves):
    i = cuda.grid(1)
    if i < a.size:
        out[0, i] = cuda.libdevice.umulhi(a[i], b[i])
        out[1, i] = cuda.libdevice.byte_perm(a[i], b[i], 0x0123)
        out[2, i] = cuda.libdevice.brev(a[i])
        out[3, i] = cuda.libdevice.usad(a[i], b[i], 7)
        out[4, i] = cuda.libdevice.popc(a[i])
        out[5, i] = cuda.libdevice.float2uint_rz(float32(a[i]))
        halves[0, i] = cuda.libdevice.float2half_rn(float32(i) / 3)
        halves[1, i] = cuda.libdevice.float2half_rn(cuda.libdevice.half2float(halves[0, i]))


def test_functions_of_bits(run) -> None:
    a = np.array([0, 1, 0x12345678, 0xFFFFFFFF], np.uint32)
    b = np.array([5, 0xFFFFFFFF, 0x9ABCDEF0, 0x80000000], np.uint32)
    out, halves = np.zeros((6, a.size), np.uint32), np.zeros((2, a.size), np.uint16)
    run(bits, "uint32[::1], uint32[::1], uint32[:, ::1], uint16[:, ::1]", 1, 32, a, b, out, halves)
    wide = a.astype(object), b.astype(object)
    expected = [
        [x * y >> 32 for x, y in zip(*wide, strict=True)],
        a.byteswap(),
        [int(f"{x:032b}"[::-1], 2) for x in wide[0]],
        [abs(x - y) + 7 & 0xFFFFFFFF for x, y in zip(*wide, strict=True)],
        [x.bit_count() for x in wide[0]],
        [min(int(np.float32(x)), 0xFFFFFFFF) for x in wide[0]],
    ]
    np.testing.assert_array_equal(out, np.array(expected, np.uint32))
    thirds = (np.arange(4, dtype=np.float32) / np.float32(3)).astype(np.float16).view(np.uint16)
    np.testing.assert_array_equal(halves, [thirds, thirds])


def vector(out):
    values = cuda.local.array(4, float64)
    shared = cuda.shared.array(2, float32)
    for n in range(4):
        values[n] = n + 1
    shared[0], shared[1] = 3, 4
    if cuda.grid(1) == 0:
        out[0] = cuda.libdevice.norm(4, values)
        out[1] = cuda.libdevice.rnormf(2, shared)


def test_functions_of_vectors(run) -> None:
    out = np.zeros(2)
    run(vector, "float64[::1]", 1, 1, out)
    np.testing.assert_allclose(out, [math.sqrt(30), 1 / 5], rtol=1e-6)


def rounded(x, y, out):
    out[0] = cuda.libdevice.dadd_rn(x, y)
    out[1] = cuda.libdevice.dadd_rz(x, y)
    out[2] = cuda.libdevice.dadd_ru(x, y)
    out[3] = cuda.libdevice.dadd_rd(x, y)
    out[4] = cuda.libdevice.double2float_ru(x + y)
    out[5] = cuda.libdevice.double2float_rd(x + y)


def test_directed_rounding(run) -> None:
    out = np.zeros(6)
    x, y = 1.0, -1e-30
    run(rounded, "float64, float64, float64[::1]", 1, 1, x, y, out)
    below = np.nextafter(1.0, 0.0)
    np.testing.assert_array_equal(out, [1.0, below, 1.0, below, 1.0, 1.0])


def test_the_table_names_every_function_once() -> None:
    assert len(FUNCTIONS) == 347
    assert dir(cuda.libdevice)
    assert repr(cuda.libdevice.sinf) == "cuda.libdevice.sinf"
    assert "-> (float64, float64)" in (cuda.libdevice.sincos.__doc__ or "")


def wrong_count(out):
    out[0] = cuda.libdevice.sincos(1.0, 2.0)[0]


def wrong_vector(out):
    out[0] = cuda.libdevice.norm(2, out[0])


@pytest.mark.parametrize(
    ("function", "message"),
    [(wrong_count, "wrong arguments for cuda.libdevice.sincos"), (wrong_vector, "cuda.libdevice.norm is no vector")],
)
def test_wrong_calls(function: object, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        build_ir(KernelDefinition(function), parse_signature("float64[::1]"))  # type: ignore[arg-type]
