# SPDX-License-Identifier: Apache-2.0
"""From LLVM text to PTX: shared optimiser runs, ISA versions, and code that both index widths can share."""

from __future__ import annotations

import pytest
from filechecks import filecheck
from operations import Kernel, emit, make_ptx
from test_emit import GATHER, SAXPY, STENCIL

from cudabuild.backend import llvm
from cudabuild.backend.ptx import emit_ptx, find_isa, optimise_llvm, pipeline_group, same_code
from cudabuild.ir.parser import parse_function
from cudabuild.target import TARGETS, Target, parse_target
from cudabuild.types import Array, float32, int32, int64, weak_int


def test_saxpy_reads_the_block_size_first_and_fuses() -> None:
    filecheck(
        make_ptx(parse_function(SAXPY), "sm_90", 32),
        """
        CHECK: .version 7.8
        CHECK: .target sm_90
        CHECK: .visible .entry kernel(
        CHECK: %ntid.x
        CHECK: %ctaid.x
        CHECK: mad.lo.s32
        CHECK: setp
        CHECK: ld.global.b32
        CHECK: fma.rn.f32
        CHECK: st.global.b32
        """,
    )


def test_no_wrap_where_the_sign_is_known_and_one_where_it_is_not() -> None:
    for source in (SAXPY, STENCIL):
        for width in (32, 64):
            ptx = make_ptx(parse_function(source), "sm_75", width)
            assert "selp" not in ptx
            assert "shr." not in ptx
    filecheck(
        make_ptx(parse_function(GATHER), "sm_75", 32),
        """
        CHECK: [[I:%r.*]], [%rd
        CHECK: shr.s32 [[S:%r.*]], [[I]], 31
        CHECK: and.b32 [[N:%r.*]], [[S]],
        CHECK: add.s32 {{.*}}, [[N]], [[I]]
        CHECK: mul.wide.s32
        """,
    )


def test_a_stencil_puts_constants_into_the_access() -> None:
    k = Kernel("stencil", Array(float32, 2, "C"))
    (x,) = k.arguments
    i, j = (k.op("within", weak_int, k.op("grid", weak_int, axis=n), k.const(1), k.const(1 << 20)) for n in (1, 0))
    for step in (-1, 1):
        k.keep(k.op("load", float32, x, i, k.op("add", weak_int, j, k.const(step))))
    ptx = make_ptx(k.finish(), "sm_90", 32)
    assert ptx.count("mul.wide") == 1
    assert "+8]" in ptx


def test_targets_share_two_pipelines() -> None:
    groups = {name: pipeline_group(target) for name, target in TARGETS.items()}
    assert set(groups.values()) == {"sm_75", "sm_100"}
    assert groups["sm_90a"] == "sm_75"
    assert groups["compute_100"] == "sm_100"


def test_generating_leaves_the_optimised_module_as_it_was() -> None:
    module = optimise_llvm(emit(parse_function(SAXPY)), "sm_75", 3)
    before = str(module)
    first = emit_ptx(module, parse_target("sm_80"), 3)
    emit_ptx(module, parse_target("sm_90"), 3)
    assert str(module) == before
    assert emit_ptx(module, parse_target("sm_80"), 3) == first


def test_a_target_outside_the_table_never_reaches_llvm() -> None:
    module = optimise_llvm(emit(parse_function(SAXPY)), "sm_75", 3)
    with pytest.raises(AssertionError, match="sm_107 is not in the target table"):
        emit_ptx(module, Target((10, 7)), 3)


def test_bad_text_is_an_assertion_not_an_abort() -> None:
    with pytest.raises(AssertionError, match="cudabuild wrote LLVM text that LLVM refuses"):
        llvm.parse_module("define void @k() { ret i32 0 }")
    with pytest.raises(AssertionError, match="cudabuild wrote LLVM text that LLVM refuses"):
        llvm.parse_module("define i32 @k(i32 %x) {\n  %y = add i32 %z, 1\n  %z = add i32 %x, 1\n  ret i32 %y\n}")


def test_the_isa_is_read_from_the_version_line() -> None:
    assert find_isa("//\n.version 8.6\n.target sm_100\n") == (8, 6)
    with pytest.raises(ValueError, match=r"without a \.version line"):
        find_isa("nothing")


def test_a_kernel_without_sizes_is_the_same_in_both_widths() -> None:
    k = Kernel("scalars", int32)
    k.params[:] = k.arguments
    k.params[0].index = 0
    function = k.finish()
    narrow, wide = (
        emit_ptx(optimise_llvm(emit(function, width, symbol=symbol), "sm_75", 3), parse_target("sm_90"), 3)
        for width, symbol in ((32, "k_01"), (64, "k_01_w64"))
    )
    assert same_code(narrow, "k_01", wide, "k_01_w64")
    saxpy = parse_function(SAXPY)
    assert not same_code(make_ptx(saxpy, "sm_90", 32), "kernel", make_ptx(saxpy, "sm_90", 64), "kernel")


def test_a_64_bit_shift_count_is_looked_at_in_full() -> None:
    """LLVM makes one ``shl.b64`` of a guarded shift, and takes the low 32 bits of a 64-bit count: wrong for 2**32."""
    k = Kernel("shift", int64, int64)
    k.keep(k.op("shl", int64, *k.arguments))
    filecheck(
        make_ptx(k.finish(), "sm_90"),
        """
        CHECK-DAG: min.u64 [[LOW:%rd[0-9]+]], [[COUNT:%rd[0-9]+]], 255
        CHECK: setp.lt.u64 {{.*}}, [[COUNT]], 64
        CHECK: shl.b64
        CHECK: selp.b64
        """,
    )
