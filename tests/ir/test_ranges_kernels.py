# SPDX-License-Identifier: Apache-2.0
"""Kernels as people write them: every index and counter is known not to be negative, and to fit 32 bits."""

from __future__ import annotations

import math
from typing import Any

import pytest
from cudabuild_sample import cases

from cudabuild import cuda, float32
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.ir import Function, Instr, Value
from cudabuild.ir.passes import run_passes
from cudabuild.ir.ranges import Ranges, compute_ranges
from cudabuild.types import Integer, WeakInteger, parse_signature

TILE = 16


def saxpy(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = 2 * x[i] + y[i]


def early_return(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i >= x.shape[0]:
        return
    y[i] = x[x.size - 1 - i]


def written_out(x: Any, y: Any) -> None:
    i = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    if i < x.size:
        y[i] = x[i]


def stencil(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if 1 <= i < x.size - 1:
        y[i] = x[i - 1] + x[i + 1]


def stencil_of_reach_2(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i >= 2 and i + 2 < x.size:
        y[i] = x[i - 2] + x[i + 2]


def left_neighbour_first(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    left = i - 1
    if i > 0 and i < x.size:
        y[i] = x[left]


def clamped(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    y[max(min(i - 3, y.size - 1), 0)] = x[max(0, min(i + 3, x.size))]


def grid_stride(x: Any, y: Any) -> None:
    total = float32(0)
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        total += x[i]
    y[cuda.threadIdx.x] = total


def grid_stride_by_hand(x: Any, y: Any) -> None:
    start = cuda.threadIdx.x + cuda.blockIdx.x * cuda.blockDim.x
    for i in range(start, x.shape[0], cuda.gridDim.x * cuda.blockDim.x):
        y[i] = x[i]


def backwards(x: Any, y: Any) -> None:
    for i in range(x.size - 1, -1, -1):
        y[i] = x[i]


def every_other(x: Any, y: Any) -> None:
    for i in range(0, x.size, 2):
        y[i // 2] = x[i]


def triangle(x: Any, y: Any) -> None:
    for i in range(x.size):
        for j in range(i):
            y[j] = x[i - j] + x[i - j - 1]


def reduction_tree(x: Any, y: Any) -> None:
    tile = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    tile[t] = x[t]
    cuda.syncthreads()
    s = cuda.blockDim.x // 2
    while s > 0:
        if t < s:
            tile[t] += tile[t + s]
        cuda.syncthreads()
        s //= 2
    y[0] = tile[0]


def rings(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    y[i % y.size] = x[(i + 1) % x.size]


def bins(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        b = int(x[i])
        if 0 <= b < y.size:
            y[b] = 1


def masked(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    y[i & 255] = x[(i >> 3) & 31]


def compacted(x: Any, y: Any) -> None:
    count = 0
    for i in range(x.size):
        if x[i] > 0:
            y[count] = x[i]
            count += 1


def two_ends(x: Any, y: Any) -> None:
    lo = 0
    hi = x.size - 1
    while lo < hi:
        y[lo] = x[hi]
        lo += 1
        hi -= 1


def binary_search(x: Any, y: Any) -> None:
    lo = 0
    hi = x.size
    while lo < hi:
        mid = (lo + hi) // 2
        if x[mid] < 1:
            lo = mid + 1
        else:
            hi = mid
    y[lo] = 1


def iterations(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        z = x[i]
        it = 0
        while it < 1000 and abs(z) < 2:
            z = z * z + x[i]
            it += 1
        y[i] = it


def matrix(x: Any, y: Any) -> None:
    row, column = cuda.grid(2)
    n = int(math.sqrt(float(x.size)))
    if row < n and column < n:
        y[row * n + column] = x[column]


WRITTEN = [
    saxpy, early_return, written_out, stencil, stencil_of_reach_2, left_neighbour_first, clamped, grid_stride,
    grid_stride_by_hand, backwards, every_other, triangle, reduction_tree, rings, bins, masked, compacted, two_ends,
    binary_search, iterations,
]  # fmt: skip


def optimised(definition: KernelDefinition, signature: Any) -> Function:
    return run_passes(build_ir(definition, signature), target_kind="nvptx")


def indices(function: Function) -> list[tuple[Instr, Value]]:
    """What is used as an index, before it is wrapped, and where."""
    found = []
    for instr in function.instructions():
        if instr.op == "wrap":
            found.append((instr, instr.operands[0]))
        elif instr.op in ("load", "store", "atomic"):
            last = len(instr.operands) - (instr.op != "load")
            found += [(instr, operand) for operand in instr.operands[1:last] if getattr(operand, "op", "") != "wrap"]
    return found


def check_small(function: Function, ranges: Ranges, *, fits: bool) -> None:
    for instr, index in indices(function):
        assert instr.block is not None
        assert ranges.nonnegative(index, instr.block), (instr.location, ranges.at(index, instr.block))
        assert not fits or ranges.fits32(index, instr.block), (instr.location, ranges.at(index, instr.block))
    for instr in function.instructions():
        if instr.op == "phi" and isinstance(instr.type, WeakInteger) and fits:
            assert ranges.fits32(instr), (instr.location, instr.hint, ranges.of(instr))


@pytest.mark.parametrize("function", WRITTEN, ids=lambda f: f.__name__)
def test_idioms(function: Any) -> None:
    built = optimised(KernelDefinition(function), parse_signature("float32[::1], float32[::1]"))
    check_small(built, compute_ranges(built, index_width=32), fits=True)
    check_small(built, compute_ranges(built, index_width=64), fits=False)


@pytest.mark.parametrize("name", [case.kernel.__name__ for case in cases.make_cases()])
def test_sample_kernels(name: str) -> None:
    (definition,) = {case.kernel.definition for case in cases.make_cases() if case.kernel.__name__ == name}
    for signature in definition.signatures:
        built = optimised(definition, signature)
        check_small(built, compute_ranges(built, index_width=32), fits=True)
        check_small(built, compute_ranges(built, index_width=64), fits=False)


def test_a_product_of_unknown_size_is_not_claimed_to_be_small() -> None:
    built = optimised(KernelDefinition(matrix), parse_signature("float32[::1], float32[::1]"))
    ranges = compute_ranges(built, index_width=32)
    products = [i for i in built.instructions() if i.op == "mul" and isinstance(i.type, Integer)]
    assert products
    assert not any(ranges.fits32(product) for product in products)
