# SPDX-License-Identifier: Apache-2.0
"""Types of complex expressions: weak numbers take the parts' type, and nothing is computed in float64 unasked."""

from __future__ import annotations

import cmath

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.ir import Function
from cudabuild.ir.passes import run_passes
from cudabuild.types import Complex, Float, parse_signature


def made(function: object, signature: str) -> Function:
    ir = build_ir(KernelDefinition(function, signature), parse_signature(signature))  # type: ignore[arg-type]
    return run_passes(ir, target_kind="nvptx")


def phases(x, z, out):
    i = cuda.grid(1)
    out[i] = (1j * i / 2 + 3) * x[i] + z[i] * 2.0**0.5


def series(x, z, out):
    i = cuda.grid(1)
    total = 0j
    for k in range(10):
        total = total * z[i] + complex(x[i], 0.5) * k / 3
    out[i] = total


def functions(x, z, out):
    i = cuda.grid(1)
    out[i] = cmath.exp(z[i] * 1j) + cmath.sqrt(x[i]) + np.log(z[i]) ** 2 + cmath.rect(x[i], i * 0.1) / z[i]
    out[i] += abs(z[i]) + z[i] ** 1.5 + cmath.tanh(z[i]) + cmath.acos(z[i]) + cmath.atanh(z[i]) + cmath.log(z[i], 2)


@pytest.mark.parametrize("function", [phases, series, functions])
def test_float32_stays_float32(function: object) -> None:
    ir = made(function, "float32[::1], complex64[::1], complex64[::1]")
    wide = [
        str(instr)
        for part in (ir, *ir.callees)
        for instr in part.instructions()
        if instr.op != "const" and isinstance(instr.type, (Float, Complex)) and instr.type.size >= 8
        if instr.type.name not in ("complex64",)
    ]
    assert not wide


def typed(x, i, z, out):
    out[0] = z[0] * x[0]
    out[1] = z[0] * i[0]
    out[2] = 1j * i[0]
    out[3] = complex(i[0])
    out[4] = complex(x[0], x[1])
    out[5] = z[0] + 1
    out[6] = x[0] + 1j


@pytest.mark.parametrize(
    ("literals", "wanted"),
    [
        ("weak", "complex64 complex128 complex128 complex128 complex64 complex64 complex64"),
        ("numba", "complex64 complex128 complex128 complex128 complex64 complex128 complex128"),
    ],
)
def test_results_of_both_tables(literals: str, wanted: str) -> None:
    signature = "float32[::1], int32[::1], complex64[::1], complex128[::1]"
    definition = KernelDefinition(typed, signature, options=DEFAULT_OPTIONS.replace(literals=literals))
    ir = build_ir(definition, parse_signature(signature))
    found = []
    for instr in ir.instructions():
        if instr.op == "store":
            real = instr.operands[-1].operands[0]  # type: ignore[attr-defined]
            narrow = getattr(real, "op", "") == "cast" and real.operands[0].type.name == "float32"
            found.append("complex64" if narrow else "complex128")
    assert " ".join(found) == wanted
