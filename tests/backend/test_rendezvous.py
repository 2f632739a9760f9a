# SPDX-License-Identifier: Apache-2.0
"""Barriers, votes, fences, atomics and constant arrays in PTX."""

from __future__ import annotations

import pytest
from filechecks import filecheck
from operations import Kernel, make_ptx, rendezvous_kernel

from cudabuild.backend.check import check_function
from cudabuild.backend.nvptx import NvptxDialect
from cudabuild.errors import CompilationError
from cudabuild.types import Array, float32, float64, int64, none, uint32, uint64, weak_int


def test_each_operation_is_one_instruction() -> None:
    filecheck(
        make_ptx(rendezvous_kernel(), "sm_75"),
        """
        CHECK: bar.red.popc.u32
        CHECK: bar.red.and.pred
        CHECK: bar.red.or.pred
        CHECK: bar.warp.sync [[MASK:%r.*]];
        CHECK: vote.sync.all.pred {{.*}}, [[MASK]];
        CHECK: vote.sync.any.pred {{.*}}, [[MASK]];
        CHECK: vote.sync.uni.pred {{.*}}, [[MASK]];
        CHECK: vote.sync.ballot.b32 {{.*}}, [[MASK]];
        CHECK: bar.warp.sync -1;
        CHECK: vote.sync.ballot.b32 {{.*}}, -1;
        CHECK: activemask.b32
        CHECK: membar.cta;
        CHECK: membar.gl;
        CHECK: membar.sys;
        CHECK: %clock64;
        CHECK: %globaltimer;
        CHECK: nanosleep.u32
        """,
    )


def test_the_grid_waits_at_the_drivers_workspace() -> None:
    """Its address is ``%envreg1 << 32 | %envreg2``; one thread of a block arrives, between barriers."""
    k = Kernel("waits")
    k.op("grid_sync", none)
    filecheck(
        make_ptx(k.finish(), "sm_90"),
        """
        CHECK: bar.sync 0;
        CHECK: mov.b32 [[HIGH:%r.*]], %envreg1;
        CHECK: mov.b32 [[LOW:%r.*]], %envreg2;
        CHECK: cvt.u64.u32 [[WIDE:%rd.*]], [[HIGH]];
        CHECK: shl.b64 [[TOP:%rd.*]], [[WIDE]], 32;
        CHECK: cvt.u64.u32 [[BASE:%rd.*]], [[LOW]];
        CHECK: or.b64 [[AT:%rd.*]], [[TOP]], [[BASE]];
        CHECK: membar.gl;
        CHECK: atom.global.add.u32 {{.*}}, [[[AT]]+4]
        CHECK: ld.volatile.global.b32 {{.*}}, [[[AT]]+4];
        CHECK: membar.gl;
        CHECK: bar.sync 0;
        """,
    )


@pytest.mark.parametrize(
    ("function", "kind", "wanted"),
    [
        ("sub", uint32, "neg.s32"),
        ("sub", float32, "atom.global.add.f32"),
        ("sub", float64, "atom.global.add.f64"),
        ("exch", float32, "atom.global.exch.b32"),
        ("inc", uint32, "atom.global.inc.u32"),
        ("dec", uint32, "atom.global.dec.u32"),
        ("xor", int64, "atom.global.xor.b64"),
        ("nanmax", int64, "atom.global.max.s64"),
        ("nanmin", uint64, "atom.global.min.u64"),
    ],
)
def test_atomics_that_the_hardware_has_are_no_loops(function, kind, wanted) -> None:
    k = Kernel("updates", Array(kind, 1, "C"), kind)
    array, value = k.arguments
    k.keep(k.op("atomic", kind, array, k.const(0), value, function=function))
    ptx = make_ptx(k.finish(), "sm_75")
    assert wanted in ptx
    assert "bra" not in ptx


def constant_kernel(*tables: tuple[int, int]) -> Kernel:
    """Reads one element of each table: its first byte, and its number of elements."""
    k = Kernel("reads", weak_int)
    for first, size in tables:
        data = bytes((first + at) % 256 for at in range(8 * size))
        table = k.op("constant", Array(float64, 1, "C", True, "const"), shape=(size,), data=data.hex())
        k.keep(k.op("load", float64, table, k.arguments[0]))
    return k


def test_constant_arrays_of_one_content_share_memory() -> None:
    ptx = make_ptx(constant_kernel((1, 4), (2, 4), (1, 4), (2, 4), (1, 4)).finish(), "sm_90")
    assert ptx.count(".const .align 16 .b8 kernel_constant") == 2
    assert "ld.const.b64" in ptx


def test_too_many_constant_arrays_are_refused() -> None:
    check_function(constant_kernel((0, 4096), (1, 4096)).finish(), NvptxDialect())
    with pytest.raises(CompilationError) as caught:
        check_function(constant_kernel((0, 4096), (1, 4096), (2, 1)).finish(), NvptxDialect())
    assert str(caught.value).splitlines()[0] == "<unknown>:1: too many constant arrays (in reads)"
    assert "found:    65544 bytes of constant arrays" in str(caught.value)
    assert "expected: at most 65536 bytes of constant memory" in str(caught.value)
    assert "do:       pass an array as an argument of the kernel" in str(caught.value)
