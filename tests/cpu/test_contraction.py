# SPDX-License-Identifier: Apache-2.0
"""A product and a sum are rounded once where the kernel says so, whatever checks stand between them."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.backend import llvm
from cudabuild.backend.contraction import find_fused
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.types import float32, parse_signature

CHECKS = ["bounds", "races", "barriers uninit", "bounds races barriers uninit"]
COUNT = 256


def forms(a, b, c, out):
    i = cuda.grid(1)
    if i < out.shape[1]:
        out[0, i] = a[i] * b[i] + c[i]
        out[1, i] = c[i] + a[i] * b[i]
        out[2, i] = a[i] * b[i] - c[i]
        out[3, i] = c[i] - a[i] * b[i]
        out[4, i] = -(a[i] * b[i]) - c[i]
        product = a[i] * b[i]
        out[5, i] = product + c[i]
        out[6, i] = product
        out[7, i] = a[i] * b[i] + c[i] * a[i]
        out[8, i] = (a[i] + b[i]) * c[i] * a[i] + b[i]


def loops(a, b, c, out):
    i = cuda.grid(1)
    total = c[i]
    for k in range(i % 5 + 1):
        if a[k] > 0:
            total = total * a[k] + b[k]
        else:
            total -= a[k] * b[k]
    out[0, i] = total
    for k in range(4):
        total += a[i - k] * b[k]
    out[1, i] += total * a[i]


def in_place(a, b, c, out):
    i = cuda.grid(1)
    out[0, i] = c[i]
    out[0, i] += a[i] * b[i]
    out[1, i] = a[i] * b[i]
    out[2, i] = out[1, i] + c[i]
    out[3, i] = cuda.atomic.add(out, (4, i), a[i] * b[i] + c[i])


def times(x, y):
    return x * y


def plus(x, y):
    return x + y


def in_functions(a, b, c, out):
    i = cuda.grid(1)
    out[0, i] = plus(times(a[i], b[i]), c[i])
    out[1, i] = times(a[i], b[i]) + c[i]


def together(a, b, c, out):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    s[t] = a[i]
    cuda.syncthreads()
    total = c[i]
    for k in range(64):
        total += s[k] * b[63 - k]
    out[0, i] = total
    product = s[63 - t] * b[t]
    cuda.syncthreads()
    out[1, i] = product + c[i]
    out[2, i] = cuda.shfl_xor_sync(0xFFFFFFFF, product * total, 1) + c[i]


def results(kernel, type, checks, monkeypatch, **options):
    monkeypatch.setenv("CUDABUILD_CHECK", checks)
    signature = f"{type}[::1], {type}[::1], {type}[::1], {type}[:, ::1]"
    definition = KernelDefinition(kernel, signature, options=DEFAULT_OPTIONS.replace(**options))
    launcher = CpuDevice().bind(definition, parse_signature(signature))
    arrays = [array.astype(type) for array in np.random.default_rng(5).standard_normal((3, COUNT))]
    out = np.zeros((9, COUNT), type)
    launcher((4, 1, 1), (64, 1, 1), 0, 0, (*arrays, out))
    return arrays, out


@pytest.mark.parametrize(("type", "options"), [("float32", {}), ("float64", {"opt": 1}), ("float32", {"debug": True})])
@pytest.mark.parametrize("kernel", [forms, loops, in_place, in_functions, together], ids=lambda kernel: kernel.__name__)
def test_checks_change_no_bit(kernel, type, options, monkeypatch):
    _, expected = results(kernel, type, "none", monkeypatch, **options)
    for checks in CHECKS:
        _, found = results(kernel, type, checks, monkeypatch, **options)
        np.testing.assert_array_equal(found.view(np.uint8), expected.view(np.uint8), err_msg=checks)


def test_products_are_rounded_once_and_without_fma_twice(monkeypatch):
    (a, b, c), out = results(forms, "float32", "bounds", monkeypatch)
    twice = a * b + c
    once = (a.astype(np.float64) * b + c).astype(np.float32)  # 48 bits of the product, and hardly ever a tie
    assert (once != twice).sum() > 20
    if llvm.host_has_fma():
        np.testing.assert_array_equal(out[0], once)
        np.testing.assert_array_equal(out[1], once)
    _, out = results(forms, "float32", "bounds", monkeypatch, fma=False)
    np.testing.assert_array_equal(out[0], twice)


def fused_lines(kernel):
    signature = parse_signature("float32[::1], float32[::1], float32[::1], float32[:, ::1]")
    function = run_passes(build_ir(KernelDefinition(kernel, signature), signature), target_kind="host")
    start = kernel.__code__.co_firstlineno
    return sorted(instr.location.line - start for instr in find_fused(function))


def used_twice(a, b, c, out):
    product = a[0] * b[0]
    out[0, 0] = product + c[0]
    out[1, 0] = product - c[1] * c[2]
    out[2, 0] = a[1] * b[1] + a[2] * b[2]


def test_a_product_that_is_used_twice_stays_one():
    assert fused_lines(used_twice) == [3, 4]
    assert fused_lines(in_functions) == []
    assert fused_lines(loops) == [5, 7, 10, 11]
