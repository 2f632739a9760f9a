# SPDX-License-Identifier: Apache-2.0
"""Types as arguments of kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run

from cudabuild import cuda, float32, int32
from cudabuild.errors import ArgumentError, SignatureError
from cudabuild.types import TypeArgument, format_signature, parse_signature


def through(x: Any, kind: Any, out: Any) -> None:
    tile = cuda.shared.array(8, kind)
    own = cuda.local.array(1, dtype=kind)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    own[0] = tile[7 - t]
    out[t] = own[0] + kind(2.75)


def second(x: Any, pair: Any, out: Any) -> None:
    if cuda.grid(1) == 0:
        out[0] = pair[1](x[0]) * pair[0]


@pytest.mark.parametrize("kind", ["float32", "int32", "uint8", "float64"])
def test_arrays_of_a_type_that_is_given(run: Run, kind: str) -> None:
    x, out = np.arange(8) * 1.5 + 0.1, np.zeros(8)
    run(through, f"float64[::1], type({kind}), float64[::1]", 1, 8, x, np.dtype(kind), out)
    np.testing.assert_array_equal(out, x.astype(kind)[::-1] + np.float64(2.75).astype(kind))


def test_types_in_tuples(run: Run) -> None:
    x, out = np.array([3.75]), np.zeros(1)
    run(second, "float64[::1], Tuple(int32, type(int16)), float64[::1]", 1, 32, x, (np.int32(2), np.int16), out)
    assert out[0] == 6.0


@pytest.mark.filterwarnings("ignore::cudabuild.cuda.errors.NumbaPerformanceWarning")
def test_each_type_is_an_overload_of_its_own() -> None:
    kernel = cuda.jit(through)
    x = np.arange(8) * 1.5 + 0.1
    for _ in range(2):  # the second time by the launcher that the first one left
        for kind in (np.float32, np.int32, int32, np.dtype("u1"), float32):
            out = np.zeros(8)
            kernel[1, 8](x, kind, out)
            dtype = np.dtype(getattr(kind, "name", kind))
            np.testing.assert_array_equal(out, x.astype(dtype)[::-1] + np.float64(2.75).astype(dtype))
    assert sorted(types[1].name for types in kernel.signatures) == ["type(float32)", "type(int32)", "type(uint8)"]
    assert cuda.typeof(np.float32) == TypeArgument(float32)


@pytest.mark.filterwarnings("ignore::cudabuild.cuda.errors.NumbaPerformanceWarning")
def test_another_type_is_refused() -> None:
    kernel = cuda.jit("void(float64[::1], type(float32), float64[::1])")(through)
    with pytest.raises(ArgumentError, match=r"kind is type\(int32\) for type\(float32\)"):
        kernel[1, 8](np.zeros(8), np.int32, np.zeros(8))
    with pytest.raises(ArgumentError, match="'kind' is a type of dtype object"):
        cuda.jit(through)[1, 8](np.zeros(8), np.object_, np.zeros(8))


@pytest.mark.parametrize(
    "text", ["type(float32)", "Tuple(int, type(bool)), float32[::1]", "type(Record(a: int32 at 0; 4))"]
)
def test_signatures(text: str) -> None:
    assert format_signature(parse_signature(text)) == text


@pytest.mark.parametrize("text", ["type()", "type(float32[:])", "type(float32"])
def test_bad_signatures(text: str) -> None:
    with pytest.raises(SignatureError):
        parse_signature(text)
