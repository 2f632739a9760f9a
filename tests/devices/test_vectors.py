# SPDX-License-Identifier: Apache-2.0
"""CUDA's vector types in kernels."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.lang.vector import VECTORS
from cudabuild.types import parse_signature


def parts(x, out):
    i = cuda.grid(1)
    if i < x.size:
        pair = cuda.float2(x[i], 2)
        triple = cuda.float32x3(pair, 3.5)
        full = cuda.float4(pair.y, pair, triple.z)
        again = cuda.float32x4(full)
        swapped = cuda.float4(again.w, again.z, again.y, again.x) if i % 2 else again
        out[i, 0], out[i, 1], out[i, 2], out[i, 3] = swapped.x, swapped.y, swapped.z, swapped.w


def test_vectors_from_numbers_and_vectors(run) -> None:
    x = np.arange(4, dtype=np.float32)
    out = np.zeros((4, 4), np.float32)
    run(parts, "float32[::1], float32[:, ::1]", 1, 32, x, out)
    rows = [[2, v, 2, 3.5] if n % 2 == 0 else [3.5, 2, v, 2] for n, v in enumerate(x)]
    np.testing.assert_array_equal(out, rows)


def length_squared(v):
    return v.x * v.x + v.y * v.y + v.z * v.z


def scaled(v, factor):
    return cuda.double3(v.x * factor, v.y * factor, v.z * factor)


def passed(out):
    v = scaled(cuda.float64x3(1, 2, 3), 2.0)
    out[0] = length_squared(v)
    total = cuda.longlong2(0, 0)
    for n in range(5):
        total = cuda.int64x2(total.x + n, total.y - n)
    out[1], out[2] = total.x, total.y
    out[3] = cuda.uchar2(300, -1).x
    out[4] = cuda.int8x1(200).x


def test_vectors_as_arguments_results_and_in_loops(run) -> None:
    out = np.zeros(5)
    run(passed, "float64[::1]", 1, 1, out)
    np.testing.assert_array_equal(out, [56, 10, -10, 44, -56])


def test_names() -> None:
    assert len(VECTORS) == 40
    assert cuda.float4 is cuda.float32x4
    assert (cuda.float4.aliases, cuda.int64x2.aliases) == (("float4",), ("long2", "longlong2"))
    assert cuda.longlong2 is cuda.long2 is cuda.int64x2
    assert repr(cuda.float4) == "cuda.float32x4"
    assert pickle.loads(pickle.dumps(cuda.uint3)) is copy.copy(cuda.uint3) is cuda.uint32x3
    with pytest.raises(AttributeError):
        cuda.float5  # noqa: B018
    with pytest.raises(AttributeError):
        cuda.nothing4  # noqa: B018


def too_few(out):
    out[0] = cuda.float3(1, 2).x


def no_number(out):
    out[0] = cuda.float2(out, 1).x


def no_such_field(out):
    out[0] = cuda.float2(1, 2).z


@pytest.mark.parametrize(
    ("function", "message"),
    [(too_few, "cuda.float32x3 is made of 3 numbers"), (no_number, "part 1 of cuda.float32x2"), (no_such_field, "'z'")],
)
def test_refusals(function, message) -> None:
    with pytest.raises(CompilationError, match=message):
        build_ir(KernelDefinition(function), parse_signature("float64[::1]"))
