# SPDX-License-Identifier: Apache-2.0
"""A local array that a device function returns lives on in its caller, inlined by LLVM or not."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda, float32
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition, Options
from cudabuild.types import parse_signature


def make_pair(a, b):
    pair = cuda.local.array(2, float32)
    pair[0] = a
    pair[1] = b
    return pair


def swap(pair):
    return make_pair(pair[1], pair[0])


def kernel(out):
    i = cuda.grid(1)
    first = make_pair(i, 2)
    second = swap(first)
    out[i] = first[0] * 100 + second[0] * 10 + second[1]


@pytest.mark.parametrize("checks", ["none", "races,barriers,uninit"])
@pytest.mark.parametrize("level", [0, 3])
def test_pairs(monkeypatch, checks, level):
    monkeypatch.setenv("CUDABUILD_CHECK", checks)
    out = np.zeros(16, np.float32)
    definition = KernelDefinition(kernel, options=Options({"opt": level}))
    CpuDevice().bind(definition, parse_signature("float32[::1]"))((1, 1, 1), (16, 1, 1), 0, 0, (out,))
    np.testing.assert_array_equal(out, [i * 100 + 20 + i for i in range(16)])
