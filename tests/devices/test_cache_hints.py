# SPDX-License-Identifier: Apache-2.0
"""Loads and stores with cache operators: the same values, the operator in the PTX, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import compiler, cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.target import parse_target
from cudabuild.types import parse_signature

KINDS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64"]


def vector(x, out):
    i = cuda.grid(1)
    if i < x.size:
        cuda.stcg(out, (0, i), cuda.ldca(x, i))
        cuda.stcs(out, (1, i), cuda.ldcg(x, i))
        cuda.stwb(out, (2, i), cuda.ldcs(x, i))
        cuda.stwt(out, (3, i), cuda.ldlu(x, i))
        out[4, i] = cuda.ldcv(x, i - x.size)


def matrix(x, out):
    i, j = cuda.grid(2)
    if i < x.shape[0] and j < x.shape[1]:
        if (i + j) % 2:
            cuda.stwt(out, (i, j), cuda.ldca(x, (i, j)) + cuda.ldcg(x, (i, -1)))
            cuda.stwb(out, (i, j), cuda.ldcv(out, (i, j)))
        else:
            cuda.stcg(out, (i, j), cuda.ldcs(x, (i, j)) + cuda.ldlu(x, (i, -1)))
            cuda.stcs(out, (i, j), cuda.ldcv(out, (i, j)))


@pytest.mark.parametrize("kind", KINDS)
def test_every_type(run, kind) -> None:
    x = np.arange(-3, 40).astype(kind)
    out = np.zeros((5, x.size), kind)
    run(vector, f"{kind}[::1], {kind}[:, ::1]", 2, 32, x, out)
    np.testing.assert_array_equal(out, [x] * 5)


def test_two_axes_and_strides(run) -> None:
    x = np.arange(35, dtype=np.float32).reshape(5, 7).T
    out = np.zeros((7, 5), np.float32)
    run(matrix, "float32[::1, :], float32[:, :]", (1, 1), (8, 8), x, out)
    np.testing.assert_array_equal(out, x + x[:, -1:])


@pytest.mark.parametrize("kind", ["int8", "float16", "float32", "uint64"])
def test_the_ptx_holds_the_operators(kind) -> None:
    definition, signature = KernelDefinition(vector), parse_signature(f"{kind}[::1], {kind}[:, ::1]")
    image = compiler.compile_image(definition, signature, target=parse_target("compute_80"), index_width=64)
    text = bytes(image.data).decode()
    bits = signature[0].dtype.size * 8
    for operator in ("ca", "cg", "cs", "lu", "cv"):
        assert f"ld.global.{operator}.b{bits}" in text
    for operator in ("cg", "cs", "wb", "wt"):
        assert f"st.global.{operator}.b{bits}" in text


def float_index(x):
    x[0] = cuda.ldcs(x, 1.0)


def too_many(x):
    x[0] = cuda.ldcs(x, (1, 2))


def stores_nothing(x):
    cuda.stcs(x, 0, x)


def in_shared_memory(x):
    values = cuda.shared.array(4, np.float32)
    x[0] = cuda.ldcs(values, 0)


@pytest.mark.parametrize(
    ("function", "kind", "message"),
    [
        (float_index, "float32", "float is not a valid index"),
        (too_many, "float32", "Expected 1 indices, got 2"),
        (stores_nothing, "float32", "what cuda.stcs stores"),
        (in_shared_memory, "float32", "ldcs requires array of integer or float type"),
        (too_many, "bool", "ldcs requires array of integer or float type"),
    ],
)
def test_refusals(function, kind, message) -> None:
    with pytest.raises(CompilationError, match=message):
        build_ir(KernelDefinition(function), parse_signature(f"{kind}[::1]"))
