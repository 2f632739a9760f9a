# SPDX-License-Identifier: Apache-2.0
"""The guard at a kernel's beginning: which ones are split off, that loops without it need no masks, random guards."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cpu.compile import emit_host_text, optimise_host_text
from cudabuild.cpu.guards import find_guard
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.ir.ranges import compute_ranges
from cudabuild.types import parse_signature

SIGNATURE = "float32[:, ::1], float32[:, ::1], int64"


def lower(function, signature=SIGNATURE):
    return run_passes(build_ir(KernelDefinition(function), parse_signature(signature)), target_kind="host")


def heat(old, new, n):
    x, y = cuda.grid(2)
    if 0 < x < old.shape[1] - 1 and 0 < y < old.shape[0] - 1:
        new[y, x] = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]


def early_return(old, new, n):
    x, y = cuda.grid(2)
    if x >= old.shape[1] or y >= old.shape[0] or x + 1 < n:
        return
    new[y, x] = old[y, x]


def by_thread(old, new, n):
    if cuda.threadIdx.x == n and cuda.blockIdx.x != 3:
        new[0, 0] = old[0, 0]


@pytest.mark.parametrize("function", [heat, early_return, by_thread])
def test_guards_that_are_split_off(function):
    ir = lower(function)
    assert find_guard(ir, compute_ranges(ir, index_width=64)) is not None


def not_equal(old, new, n):
    if cuda.threadIdx.x != n:
        new[0, 0] = old[0, 0]


def one_of_two(old, new, n):
    i = cuda.grid(1)
    if i < 3 or i > n:
        new[0, i] = old[0, i]


def every_second(old, new, n):
    i = cuda.grid(1)
    if i % 2 == 0:
        new[0, i] = old[0, i]


def by_memory(old, new, n):
    i = cuda.grid(1)
    if old[0, 0] > 1:
        new[0, i] = old[0, i]


def product(old, new, n):
    i = cuda.grid(1)
    if i * n < 100:
        new[0, i] = old[0, i]


def both_sides(old, new, n):
    i = cuda.grid(1)
    if i < n:
        new[0, i] = old[0, i]
    else:
        new[0, i] = 0


def may_wrap(old, new, n):
    if cuda.grid(1) + n < 100:
        new[0, 0] = old[0, 0]


@pytest.mark.parametrize(
    "function", [not_equal, one_of_two, every_second, by_memory, product, both_sides, may_wrap]
)  # fmt: skip
def test_guards_that_are_left_alone(function):
    ir = lower(function)
    assert find_guard(ir, compute_ranges(ir, index_width=64)) is None


def test_the_loop_needs_no_masks():
    optimised = optimise_host_text(emit_host_text(lower(heat))[0])
    assert "x float>" in optimised
    assert "masked" not in optimised


TESTS = [
    "x < n", "x >= n", "x + 3 <= n", "n > x", "0 < x < n", "n - 20 <= x", "x == n", "x - 2 > n", "n < 5",
    "y < n", "y + 1 > 2", "cuda.threadIdx.x > n", "cuda.threadIdx.x + 1 <= cuda.blockDim.x // 2",
    "cuda.blockIdx.x == 1", "x < a.shape[1] - 1", "y < a.shape[0]", "not x < n", "x != n", "x % 3 == 1",
]  # fmt: skip


@pytest.mark.parametrize("seed", range(25))
def test_random_guards(run, seed, tmp_path):
    draw = random.Random(seed)
    terms = draw.sample(TESTS, draw.randrange(1, 4))
    joined = f" {draw.choice(['and', 'or', 'and'])} ".join(f"({term})" for term in terms)
    head = f"    if not ({joined}):\n        return\n    " if seed % 2 else f"    if {joined}:\n        "
    text = f"from cudabuild import cuda\ndef k(a, out, n):\n    x, y = cuda.grid(2)\n{head}out[y, x] += 1 + a[y, x]\n"
    file = tmp_path / f"random_guard_{seed}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    a, out = np.zeros((9, 64), np.float32), np.zeros((9, 64), np.float32)
    for n in (-3, 0, 7, 31, 32, 70):
        out[:] = 0
        run(module.k, SIGNATURE, (2, 3), (32, 3), a, out, n)
        for (y, x), found in np.ndenumerate(out):
            names = {"x": x, "y": y, "n": n, "a": a, "cuda": _Thread(x)}
            assert found == bool(eval(joined, names)), (text, n, x, y)


class _Thread:
    """What a guard reads of ``cuda`` in the thread at ``x``."""

    def __init__(self, x):
        self.threadIdx, self.blockIdx, self.blockDim = (_Axis(value) for value in (x % 32, x // 32, 32))


class _Axis:
    def __init__(self, x):
        self.x = x
