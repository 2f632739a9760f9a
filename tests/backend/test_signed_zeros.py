# SPDX-License-Identifier: Apache-2.0
"""Zeros of a comparison whose sign a minimum or maximum would lose."""

from __future__ import annotations

import pytest

from cudabuild.backend import llvm
from cudabuild.backend.ptx import emit_ptx
from cudabuild.backend.signed_zeros import keep_zero_signs
from cudabuild.target import parse_target

MODULE = """target triple = "nvptx64-nvidia-cuda"
define ptx_kernel void @k(ptr addrspace(1) %p) {{
  %x = load {kind}, ptr addrspace(1) %p
  %c = fcmp {predicate} {kind} %x, {zero}
  %s = select i1 %c, {kind} {first}, {kind} {second}
  store {kind} %s, ptr addrspace(1) %p
  ret void
}}
"""

ZEROS = {"float": ("0.000000e+00", "-0.000000e+00"), "double": ("0.000000e+00", "-0.000000e+00"),
         "half": ("0xH0000", "0xH8000")}  # fmt: skip


@pytest.mark.parametrize("kind", ZEROS)
@pytest.mark.parametrize("predicate", ["olt", "ogt", "ult", "ugt"])
@pytest.mark.parametrize("sign", [0, 1])
@pytest.mark.parametrize("swapped", [False, True])
def test_an_extreme_only_where_both_rules_agree(kind: str, predicate: str, sign: int, swapped: bool) -> None:
    zero = ZEROS[kind][sign]
    arms = (zero, "%x") if swapped else ("%x", zero)
    text = MODULE.format(kind=kind, predicate=predicate, zero=zero, first=arms[0], second=arms[1])
    changed = keep_zero_signs(text)
    ptx = emit_ptx(llvm.parse_module(changed), parse_target("sm_90"), 3)
    agrees = not swapped and predicate == ("olt" if sign else "ogt")
    assert ("max." in ptx or "min." in ptx) is agrees
    assert (changed == text) is agrees


def test_vectors_and_other_constants() -> None:
    text = (
        "  %c = fcmp olt <2 x float> %x, zeroinitializer\n"
        "  %s = select <2 x i1> %c, <2 x float> %x, <2 x float> zeroinitializer\n"
        "  %d = fcmp ogt <2 x half> %y, splat (half 0xH8000)\n"
        "  %t = select <2 x i1> %d, <2 x half> %y, <2 x half> splat (half 0xH8000)\n"
    )
    changed = keep_zero_signs(text)
    assert "fcmp olt <2 x float> %x, splat (float -0.000000e+00)" in changed
    assert "fcmp ogt <2 x half> %y, zeroinitializer" in changed
    kept = "  %c = fcmp olt float %x, 1.000000e+00\n  %s = select i1 %c, float %x, float 1.000000e+00\n"
    assert keep_zero_signs(kept) == kept
