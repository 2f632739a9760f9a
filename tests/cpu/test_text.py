# SPDX-License-Identifier: Apache-2.0
"""LLVM text of the CPU device: what vectorises, what is not emitted at all."""

from __future__ import annotations

import re

import pytest

from cudabuild import cuda
from cudabuild.backend import llvm
from cudabuild.cpu.compile import emit_host_text, optimise_host_text
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.types import float32, parse_signature


def text_of(function, signature):
    typed = build_ir(KernelDefinition(function, signature), parse_signature(signature))
    return emit_host_text(run_passes(typed, target_kind="host"))[0]


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def scale(x, a):
    i = cuda.grid(1)
    if i >= x.size:
        return
    x[i] = a * x[i]


def axpby(a, x, b, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a * x[i] + b * y[i]


def stencil(u, out, k):
    j, i = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        out[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])


def matmul(a, b, c):
    tile = cuda.shared.array((16, 16), float32)
    column, row = cuda.grid(2)
    tile[cuda.threadIdx.y, cuda.threadIdx.x] = a[row, column]
    cuda.syncthreads()
    total = float32(0)
    for k in range(16):
        total += tile[cuda.threadIdx.y, k] * b[k, column]
    c[row, column] = total


def unknown_sign(x, order, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[order[i]]


VECTORS = [
    (saxpy, "float32, float32[::1], float32[::1]"),
    (scale, "float32[::1], float32"),
    (axpby, "float32, float32[::1], float32, float32[::1], float32[::1]"),
    (stencil, "float32[:, ::1], float32[:, ::1], float32"),
]


@pytest.mark.parametrize(("function", "signature"), VECTORS)
def test_barrier_free_kernels_vectorise(function, signature):
    optimised = optimise_host_text(text_of(function, signature))
    assert "<8 x float>" in optimised or "<16 x float>" in optimised


@pytest.mark.parametrize(
    ("function", "signature"), [*VECTORS, (matmul, "float32[:, ::1], float32[:, ::1], float32[:, ::1]")]
)
def test_indices_of_known_sign_are_not_wrapped(function, signature):
    functions = text_of(function, signature).split("\n}")
    (body,) = [
        text for text in functions if "define internal" in text and f"@cudabuild.{function.__name__}.body(" in text
    ]
    assert "getelementptr" in body
    assert "select" not in body


def test_indices_of_unknown_sign_are_wrapped():
    assert "select" in text_of(unknown_sign, "float32[::1], int32[::1], float32[::1]")


def test_multiplication_and_addition_are_fused_and_llvm_contracts_nothing():
    text = text_of(saxpy, "float32, float32[::1], float32[::1]")
    assert ("@llvm.fma.f32" in text) == llvm.host_has_fma()
    assert "contract" not in text


def test_a_kernel_without_barriers_has_no_coroutine_and_allocates_nothing():
    text = text_of(saxpy, "float32, float32[::1], float32[::1]")
    assert "coro" not in text
    assert "schedule.open(ptr %launch, ptr %block, i32 %core, i1 false, i64 0)" in text


def test_frames_of_a_tiled_product_are_small():
    """Every live thread costs its frame: at most 1 KiB beyond its own local arrays."""
    signature = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"
    optimised = optimise_host_text(text_of(matmul, signature))
    sizes = [int(size) for size in re.findall(r"call ptr @schedule.frames\(ptr[^,]*, i64 (\d+)\)", optimised)]
    assert sizes
    assert max(sizes) <= 256
