# SPDX-License-Identifier: Apache-2.0
"""Ranges and passes against random kernels: what runs must lie in what was computed, and passes change no result."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interpreter import run, true_result
from programs import INTERESTING, programs

from cudabuild.ir.cfg import Dominators, reverse_postorder
from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.ir.passes import run_passes, simplify
from cudabuild.ir.passes.clone import clone_function
from cudabuild.ir.printer import format_function
from cudabuild.ir.ranges import Ranges, compute_ranges
from cudabuild.ir.verifier import verify_function
from cudabuild.types import Boolean, Integer
from cudabuild.types.layout import LARGEST_EXTENT

_SETTINGS = settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


@st.composite
def launches(draw: Any, width: int) -> tuple[tuple[Any, ...], dict[str, int]]:
    """Arguments and special registers that the variant of this width may be launched with."""
    bits = 31 if width == 32 else 63
    weak = st.sampled_from([v for n in INTERESTING for v in (n, -n) if -(2**bits) <= v < 2**bits])
    weak |= st.integers(-20, 20)
    largest = 2**31 - 1 if width == 32 else LARGEST_EXTENT
    extents = st.sampled_from([n for n in (*INTERESTING, LARGEST_EXTENT) if n <= largest]) | st.integers(0, 40)
    small = st.sampled_from([n for n in INTERESTING if n < 2**31]) | st.integers(-20, 20)
    threads = draw(st.sampled_from((1, 2, 32, 256, 1024)))
    top = 2**31 - 1 if width == 64 else (2**31 - 1) // threads
    blocks = draw(st.sampled_from([n for n in (1, 2, 100, 2**20, top) if n <= top]))
    block = draw(st.sampled_from(sorted({0, blocks // 2, blocks - 1})))
    thread = draw(st.sampled_from(sorted({0, threads // 2, threads - 1})))
    registers = {"tid.x": thread, "ntid.x": threads, "ctaid.x": block, "nctaid.x": blocks}
    shape = (draw(extents), draw(extents))
    return (draw(weak), draw(weak), draw(small), shape, (draw(extents),)), registers


def _load(shape: tuple[int, ...], index: int) -> int:
    """Some element: any int32, small ones often."""
    mixed = (index * 2654435761 + 12345) % 2**32
    return mixed % 16 if mixed & 64 else mixed


class _Observer:
    """Compares every value at the end of every block that runs with its range there."""

    def __init__(self, function: Function, ranges: Ranges) -> None:
        self.ranges = ranges
        self.dominators = Dominators(reverse_postorder(function))
        self.intervals: dict[tuple[Value, Block | None], tuple[int, int]] = {}
        self.text = format_function(function)

    def __call__(self, block: Block, values: dict[Value, Any]) -> None:
        for value, number in values.items():
            if not isinstance(value.type, (Integer, Boolean)) or number is None:
                continue
            if isinstance(value, Instr) and not self.dominators.dominates(value.block, block):  # type: ignore[arg-type]
                continue
            self.check(value, number, None)
            self.check(value, number, block)
            if isinstance(value, Instr) and value.block is block:
                self.check_exact(value, number, values)
            if isinstance(value.type, Boolean):
                assert self.ranges.decide(value, block) in (None, number), f"{self.where(value, block)}\n{self.text}"

    def check(self, value: Value, number: int, block: Block | None) -> None:
        key = (value, block)
        if key not in self.intervals:
            self.intervals[key] = self.ranges.of(value) if block is None else self.ranges.at(value, block)
        lo, hi = self.intervals[key]
        assert lo <= number <= hi, f"{number} not in {lo} … {hi}: {self.where(value, block)}\n{self.text}"

    def check_exact(self, instr: Instr, number: int, values: dict[Value, Any]) -> None:
        if not self.ranges.exact(instr):
            return
        assert isinstance(instr.type, Integer)
        operands = [values[operand] for operand in instr.operands]
        true = operands[0] if instr.op == "cast" else true_result(instr.op, operands, instr.type)
        assert true == number, f"not exact: {self.where(instr, instr.block)}\n{self.text}"

    def where(self, value: Value, block: Block | None) -> str:
        name = value.name if isinstance(value, Param) else value.op if isinstance(value, Instr) else "?"
        home = value.block.name if isinstance(value, Instr) and value.block is not None else "entry"
        return f"{name} of {home} at {block.name if block is not None else 'any block'}"


@pytest.mark.parametrize("width", [32, 64])
@_SETTINGS
@given(data=st.data())
def test_every_value_lies_in_its_range(width: int, data: st.DataObject) -> None:
    function = data.draw(programs())
    verify_function(function)
    ranges = compute_ranges(function, index_width=width)
    observer = _Observer(function, ranges)
    for _ in range(4):
        arguments, threads = data.draw(launches(width))
        run(function, arguments, threads=threads, load=_load, observe=observer, fuel=600)


@_SETTINGS
@given(data=st.data())
def test_passes_change_no_result(data: st.DataObject) -> None:
    function = data.draw(programs())
    copy = clone_function(function)
    assert format_function(copy) == format_function(function)
    run_passes(copy, target_kind="nvptx")
    verify_function(copy)
    for _ in range(4):
        arguments, threads = data.draw(launches(64))
        _, before, ended = run(function, arguments, threads=threads, load=_load, fuel=600)
        _, after, ended_after = run(copy, arguments, threads=threads, load=_load, fuel=600)
        assert ended_after or not ended, "the passes made the program longer"
        assert after[: len(before)] == before if not ended else after == before
    text = format_function(copy)
    simplify(copy)
    assert format_function(copy) == text, "simplifying twice changes more"
