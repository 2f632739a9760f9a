# SPDX-License-Identifier: Apache-2.0
"""Positions in the grid that are written out, and what only looks like one."""

from __future__ import annotations

import pytest
from ir_text import parse

from cudabuild.ir.passes import recognise_grid, simplify
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function

REGISTERS = "\n".join(
    f"  %{short}_{axis}: int32 = sreg register={short}.{axis}\n  %{short}{axis}: int = cast %{short}_{axis}"
    for short in ("tid", "ntid", "ctaid", "nctaid")
    for axis in "xyz"
)


def recognised(lines: str, kind: str = "int") -> str:
    """The last operation before the return, after the pass."""
    body = "\n".join(f"  {line.strip()}" for line in lines.strip().splitlines())
    function, _ = parse(f"device f() -> {kind}\nentry:\n{REGISTERS}\n{body}\n  return %v")
    recognise_grid(function)
    simplify(function)
    verify_function(function)
    return format_function(function).strip().splitlines()[-2].partition(" = ")[2]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("%p: int = mul %ctaidx, %ntidx\n%v: int = add %p, %tidx", "grid axis=0"),
        ("%p: int = mul %ntidz, %ctaidz\n%v: int = add %tidz, %p", "grid axis=2"),
        ("%v: int = mul %nctaidy, %ntidy", "gridsize axis=1"),
        ("%v: int = mul %ntidx, %nctaidx", "gridsize axis=0"),
    ],
)
def test_positions(lines: str, expected: str) -> None:
    assert recognised(lines) == expected


@pytest.mark.parametrize(
    "lines",
    [
        "%p: int = mul %ctaidx, %ntidy\n%v: int = add %p, %tidx",
        "%p: int = mul %ctaidx, %ntidx\n%v: int = add %p, %tidy",
        "%p: int = mul %ctaidx, %ctaidx\n%v: int = add %p, %tidx",
        "%p: int = mul %nctaidx, %ntidx\n%v: int = add %p, %tidx",
        "%p: int = add %ctaidx, %ntidx\n%v: int = add %p, %tidx",
        "%v: int = mul %ntidx, %ntidx",
    ],
)
def test_what_looks_like_one(lines: str) -> None:
    assert not recognised(lines).startswith("grid axis")


def test_a_sum_that_could_wrap_stays() -> None:
    narrow = "%p: int32 = mul %ctaid_x, %ntid_x\n%s: int32 = add %p, %tid_x\n%v: int = cast %s"
    assert recognised(narrow).startswith("cast")


def test_registers_cut_to_fewer_bits_stay() -> None:
    lines = "%b: int16 = cast %ctaid_x\n%w: int = cast %b\n%p: int = mul %w, %ntidx\n%v: int = add %p, %tidx"
    assert recognised(lines).startswith("add")
