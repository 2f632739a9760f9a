# SPDX-License-Identifier: Apache-2.0
"""What is known of loops: counters, range loops of every step, accumulators."""

from __future__ import annotations

import pytest
from interpreter import run
from ir_text import parse
from range_texts import COUNTER, I32, I64, INT32, INT64, check, ranges_of, steps

from cudabuild.ir.ir import Value
from cudabuild.types.layout import LARGEST_EXTENT


@pytest.mark.parametrize("width", [32, 64])
def test_a_weak_counter_below_an_int32(width: int) -> None:
    ranges = check(COUNTER, width, it=(0, I32), it32=(0, I32), it1=(1, I32))
    assert not ranges.exact(parse(COUNTER)[1]["it1"]), "of another function"
    ranges, values, _ = ranges_of(COUNTER, width)
    assert ranges.exact(values["it1"])
    assert ranges.exact(values["it32"])


def test_a_weak_counter_below_a_weak_argument() -> None:
    text = COUNTER.replace("%it32, %limit", "%it, %most")
    check(text, 32, it=(0, I32), it1=(1, I32))
    check(text, 64, it=(0, I64), it1=(1, I64))


def test_a_counter_without_bound_wraps() -> None:
    text = COUNTER.replace("branch %more", "branch %never").replace(
        "  %it32", "  %never: bool = cmp %most, %most predicate=le\n  %it32"
    )
    ranges = check(text, it=INT64, it1=INT64, it32=INT32)
    assert not ranges.exact(ranges_of(text)[1]["it1"])


def test_grid_stride_loop() -> None:
    text = steps("grid axis=0", "gridsize axis=0")
    check(text, 32, k=(0, I32), k1=(1, I32), far=(0, I32 - 1), i=(0, I32 - 1), hits=(0, I32), more_hits=(1, I32))
    check(text, 64, i=(0, LARGEST_EXTENT - 1), k1=(1, LARGEST_EXTENT), more_hits=(1, LARGEST_EXTENT))


def test_a_constant_step() -> None:
    check(steps("const value=3", "const value=7"), 32, i=(3, 3 + (I32 - 4) // 7 * 7), k=(0, (I32 - 4) // 7 + 1))
    check(steps("cast %n", "const value=7").replace("= cast %n", "= add %n, %n"), 32, i=(-(2**32), I32 - 1))


def test_a_negative_step() -> None:
    """From a grid index down to just above the extent: above it, whatever they are."""
    text = steps("grid axis=0", "const value=-3", up=False)
    check(text, 32, i=(1, I32 - 1), far=(-((I32 - 2) // 3 * 3), 0))


UNIT = """
kernel f(n: int32, x: float32[::1]) -> none
entry:
  %start: int = grid axis=0
  %one: int = const value=1
  %size: int = dim %x axis=0
  jump target=head
head:
  %i: int = phi %start, %i1
  %more: bool = cmp %i, %size predicate=lt
  branch %more then=body else=end
body:
  %inside: int = within %i, %start, %size
  %last: int = sub %size, %one
  %mirror: int = sub %last, %inside
  %i1: int = add %i, %one
  jump target=head
end:
  return
"""


def test_a_unit_step() -> None:
    check(UNIT, 32, i=(0, I32), i1=(1, I32), inside=(0, I32 - 1), mirror=(0, I32 - 1))


def test_a_typed_counter() -> None:
    text = """
        kernel f(n: int32) -> none
        entry:
          %zero: int32 = const value=0
          %one: int32 = const value=1
          %two: int32 = const value=2
          jump target=head
        head:
          %i: int32 = phi %zero, %i1
          %j: int32 = phi %zero, %j1
          %u: int32 = phi %n, %u1
          %more: bool = cmp %i, %n predicate=lt
          branch %more then=body else=end
        body:
          %i1: int32 = add %i, %one
          %j1: int32 = add %j, %two
          %u1: int32 = floordiv %u, %two
          jump target=head
        end:
          return
    """
    ranges = check(text, i=(0, I32), i1=(1, I32), j=INT32, u=INT32)
    values = ranges_of(text)[1]
    ranges, values, _ = ranges_of(text)
    assert ranges.exact(values["i1"])
    assert not ranges.exact(values["j1"])


NESTED = """
kernel f(n: int) -> none
entry:
  %zero: int = const value=0
  %one: int = const value=1
  %four: int = const value=4
  %ten: int = const value=10
  jump target=outer
outer:
  %i: int = phi %zero, %i1
  %total: int = phi %n, %after
  %down: int = phi %ten, %down1
  %more: bool = cmp %i, %ten predicate=lt
  branch %more then=enter else=end
enter:
  jump target=inner
inner:
  %k: int = phi %zero, %k1
  %sum: int = phi %total, %sum1
  %again: bool = cmp %k, %four predicate=lt
  branch %again then=body else=next
body:
  %sum1: int = sub %sum, %k
  %k1: int = add %k, %one
  jump target=inner
next:
  %after: int = sub %sum, %one
  %down1: int = sub %down, %one
  %i1: int = add %i, %one
  jump target=outer
end:
  return
"""


def test_what_nested_loops_accumulate() -> None:
    """4 turns of at most 3, and 1 more, ten times over."""
    low = -(2**31)
    ranges = check(NESTED, 32, i=(0, 10), down=(0, 10), total=(low - 130, I32), sum=(low - 142, I32))
    ranges, values, function = ranges_of(NESTED)

    def observe(block: object, seen: dict[Value, int]) -> None:
        for name in ("total", "sum", "down"):
            value = values[name]
            if value in seen:
                lo, hi = ranges.of(value)
                assert lo <= seen[value] <= hi

    run(function, [low], observe=observe)


def test_a_reduction_tree() -> None:
    text = """
        kernel f() -> none
        entry:
          %r: int32 = sreg register=ntid.x
          %size: int = cast %r
          %zero: int = const value=0
          %two: int = const value=2
          %half: int = floordiv %size, %two
          jump target=head
        head:
          %s: int = phi %half, %s1
          %more: bool = cmp %s, %zero predicate=gt
          branch %more then=body else=end
        body:
          %t: int32 = sreg register=tid.x
          %t64: int = cast %t
          %partner: int = add %t64, %s
          %s1: int = floordiv %s, %two
          jump target=head
        end:
          return
    """
    check(text, s=(0, 512), partner=(1, 1023 + 512), s1=(0, 256))


def test_a_mirrored_pair_of_counters() -> None:
    text = """
        kernel f(x: float32[::1]) -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          %n: int = dim %x axis=0
          %last: int = sub %n, %one
          jump target=head
        head:
          %lo: int = phi %zero, %lo1
          %hi: int = phi %last, %hi1
          %more: bool = cmp %lo, %hi predicate=lt
          branch %more then=body else=end
        body:
          %lo1: int = add %lo, %one
          %hi1: int = sub %hi, %one
          jump target=head
        end:
          return
    """
    check(text, lo=(0, I32 - 1), hi=(-1, I32 - 1), lo1=(1, I32 - 1), hi1=(0, I32 - 2))
