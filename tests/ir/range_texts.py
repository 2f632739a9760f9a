# SPDX-License-Identifier: Apache-2.0
"""Ranges of functions that are written as text, and the texts of loops that several tests change."""

from __future__ import annotations

from ir_text import parse

from cudabuild.ir.ir import Function, Value
from cudabuild.ir.ranges import Ranges, compute_ranges

__all__ = ["COUNTER", "I32", "I64", "INT32", "INT64", "check", "ranges_of", "steps"]

I32 = 2**31 - 1
I64 = 2**63 - 1
INT32 = (-(2**31), I32)
INT64 = (-(2**63), I64)


def ranges_of(
    text: str, width: int = 32, launch_bounds: int | None = None
) -> tuple[Ranges, dict[str, Value], Function]:
    function, values = parse(text)
    return compute_ranges(function, index_width=width, launch_bounds=launch_bounds), values, function


def check(text: str, width: int = 32, **expected: tuple[int, int]) -> Ranges:
    ranges, values, _ = ranges_of(text, width)
    assert {name: ranges.of(values[name]) for name in expected} == expected
    return ranges


COUNTER = """
kernel mandelbrot(limit: int32, most: int, x: float32[::1]) -> none
entry:
  %zero: int = const value=0
  %one: int = const value=1
  jump target=head
head:
  %it: int = phi %zero, %it1
  %it32: int32 = cast %it
  %more: bool = cmp %it32, %limit predicate=lt
  branch %more then=body else=end
body:
  %v: float32 = load %x, %it
  %four: float32 = const value=4.0
  %inside: bool = cmp %v, %four predicate=lt
  branch %inside then=next else=end
next:
  %it1: int = add %it, %one
  jump target=head
end:
  return
"""

STEPS = """
kernel f(n: int, x: float32[::1]) -> none
entry:
  %start: int = {start}
  %stop: int = dim %x axis=0
  %step: int = {step}
  %zero: int = const value=0
  %one: int = const value=1
  %last: int = sub {high}, %one
  %room: int = sub %last, {low}
  %size: int = {size}
  %steps: int = floordiv %room, %size
  %count1: int = add %steps, %one
  %some: bool = cmp {low}, {high} predicate=lt
  %count: int = select %some, %count1, %zero
  jump target=head
head:
  %k: int = phi %zero, %k1
  %hits: int = phi %zero, %hits1
  %more: bool = cmp %k, %count predicate=lt
  branch %more then=body else=end
body:
  %far: int = mul %k, %step
  %i: int = add %start, %far
  %hit: bool = cmp %i, %n predicate=eq
  branch %hit then=yes else=next
yes:
  %more_hits: int = add %hits, %one
  jump target=next
next:
  %hits1: int = phi %hits, %more_hits
  %k1: int = add %k, %one
  jump target=head
end:
  return
"""


def steps(start: str, step: str, up: bool = True) -> str:
    low, high = ("%start", "%stop") if up else ("%stop", "%start")
    size = step if up else step.replace("value=-", "value=")
    return STEPS.format(start=start, step=step, low=low, high=high, size=size)
