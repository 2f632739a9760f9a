# SPDX-License-Identifier: Apache-2.0
"""PTX that ptxas would miscompile: none of it is left. What the results are, the tests of devices ask a GPU."""

from __future__ import annotations

import re

import pytest
from operations import Kernel, make_ptx

from cudabuild.backend.cubin import link_cubin
from cudabuild.backend.disassemble import disassemble
from cudabuild.backend.ptxas import avoid_faults
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.errors import ToolError
from cudabuild.target import parse_target
from cudabuild.types import Array, int16, int32


@pytest.mark.parametrize("operation", ["neg", "abs"])
def test_signs_of_16_bits_are_multiplied(operation: str) -> None:
    k = Kernel("signs", Array(int16, 1, "C"))
    (x,) = k.arguments
    k.keep(k.op(operation, int16, k.op("load", int16, x, k.const(0))))
    ptx = make_ptx(k.finish(), "sm_90", 32)
    assert "mul.lo.s16" in ptx
    assert not re.search(r"(neg|abs)\.s16|sub\.s16\s+\S+ 0,", ptx)


def test_16_bits() -> None:
    assert avoid_faults("\tneg.s16 \t%rs2, %rs1;") == "\tmul.lo.s16 \t%rs2, %rs1, -1;"
    assert avoid_faults("\tsub.s16 \t%rs2, 0, %rs1;") == "\tmul.lo.s16 \t%rs2, %rs1, -1;"
    kept = "\tsub.s16 \t%rs2, %rs3, %rs1;\n\tneg.s32 \t%r1, %r2;\n\tneg.f16 \t%rs1, %rs2;"
    assert avoid_faults(kept) == kept


def test_a_magnitude_in_its_own_register() -> None:
    found = avoid_faults("\tabs.s16 \t%rs1, %rs1;")
    assert found == "\t{ .reg .b16 %n; mul.lo.s16 \t%n, %rs1, -1; max.s16 \t%rs1, %rs1, %n; }"


def minimum_of_three(name: str) -> Kernel:
    k = Kernel("three", Array(int32, 1, "C"))
    (x,) = k.arguments
    a, b, c = (k.op("load", int32, x, k.const(n)) for n in range(3))
    inner = k.op(name, int32, a, k.op("neg", int32, b))
    k.keep(k.op(name, int32, c, inner))
    return k


@pytest.mark.parametrize("name", ["min", "max"])
def test_a_negation_beside_several_extremes(name: str) -> None:
    ptx = make_ptx(minimum_of_three(name).finish(), "sm_90", 32)
    assert ptx.count(f"{name}.s32") == 2
    assert "neg.s32" not in ptx
    assert "not.b32" in ptx


def test_one_extreme_keeps_its_negation() -> None:
    kept = "\tneg.s32 \t%r1, %r2;\n\tmin.s32 \t%r3, %r1, %r4;"
    assert avoid_faults(kept) == kept


@pytest.mark.parametrize("target", ["sm_90", "sm_100"])
def test_the_machine_code_complements(target: str) -> None:
    chosen = parse_target(target)
    ptx = make_ptx(minimum_of_three("min").finish(), target, 32)
    try:
        code = disassemble(link_cubin(ptx, chosen, DEFAULT_OPTIONS, "kernel").data)
    except ToolError as error:
        pytest.skip(f"nothing to link or to disassemble with: {error}")
    assert "LOP3.LUT" in code
