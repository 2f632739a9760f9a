# SPDX-License-Identifier: Apache-2.0
"""Traps in which too much would be claimed."""

from __future__ import annotations

import pytest
from interpreter import run
from range_texts import COUNTER, I32, INT32, INT64, check, ranges_of, steps

from cudabuild.ir.ir import Value

SHORT = """
kernel f(n: int, x: int32[::1]) -> none
entry:
  %zero: int = const value=0
  %ten: int = const value=10
  %false: bool = const value=False
  %i: int = grid axis=0
  %a: bool = cmp %i, %n predicate=lt
  branch %a then=more else=met
more:
  %bound: int = const value=100
  %l: int32 = load %x, %zero
  %w: int = cast %l
  %lower: int = sub %i, %ten
  %b: bool = cmp %lower, %bound predicate=lt
  %c: bool = cmp %i, %w predicate=lt
  %d: bool = and %b, %c
  jump target=met
met:
  %both: bool = phi %false, %d
  branch %both then=inside else=end
inside:
  %j: int = add %i, %ten
  jump target=end
end:
  return
"""


def test_a_phi_of_bools_remembers_what_came_before_it() -> None:
    """``i < n and i - 10 < 100`` over blocks: both hold inside, and of the loaded bound nothing does."""
    check(SHORT, j=(10, 119))


def test_a_remembered_comparison_says_nothing_of_a_value_made_anew() -> None:
    """The loop goes on because the *last* element was small; the next may be anything."""
    text = """
        kernel f(x: int32[::1]) -> none
        entry:
          %zero: int = const value=0
          %ten: int32 = const value=10
          %one: int32 = const value=1
          %true: bool = const value=True
          %false: bool = const value=False
          jump target=head
        head:
          %go: bool = phi %true, %small
          branch %go then=body else=end
        body:
          %v: int32 = load %x, %zero
          %w: int32 = add %v, %one
          %small: bool = cmp %v, %ten predicate=lt
          jump target=head
        end:
          return
    """
    check(text, v=INT32, w=INT32)
    check(text.replace("value=True", "value=False"), v=INT32, w=INT32)


def test_what_a_loop_left_behind_says_nothing_of_its_counter() -> None:
    """The loop ends because the counter of the turn *before* was at least 5; by then it is smaller."""
    text = """
        kernel f(n: int32) -> none
        entry:
          %big: int32 = const value=12
          %five: int32 = const value=5
          %true: bool = const value=True
          jump target=head
        head:
          %k: int32 = phi %big, %k1
          %go: bool = phi %true, %low
          branch %go then=body else=end
        body:
          %low: bool = cmp %k, %five predicate=lt
          %k1: int32 = sub %k, %five
          %k2: int32 = sub %k1, %five
          jump target=head
        end:
          return
    """
    ranges, values, function = ranges_of(text)
    lo, hi = ranges.at(values["k"], function.blocks[3])
    assert lo <= 7 <= hi
    ranges, values, function = ranges_of(text.replace("phi %big, %k1", "phi %big, %k2"))
    lo, hi = ranges.at(values["k"], function.blocks[3])
    assert lo <= 2 <= hi


def test_a_count_carried_over_from_the_turn_before() -> None:
    """``k < count`` where ``count`` is 0 or was made of the size loaded in the turn before."""
    text = """
        kernel f(x: int32[::1]) -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          jump target=head
        head:
          %count: int = phi %zero, %count1
          %k: int = phi %zero, %k1
          %l: int32 = load %x, %k
          %n: int = cast %l
          %some: bool = cmp %k, %count predicate=lt
          branch %some then=inside else=next
        inside:
          %rest: int = sub %n, %k
          jump target=next
        next:
          %count1: int = add %n, %zero
          %k1: int = add %k, %one
          %again: bool = cmp %k1, %n predicate=lt
          branch %again then=head else=end
        end:
          return
    """
    ranges, values, _ = ranges_of(text)
    assert ranges.of(values["rest"])[0] < 0, "the size now has nothing to do with the count"


@pytest.mark.parametrize("step", ["const value=7", "gridsize axis=0"])
def test_a_loop_of_one_turn_more_than_the_range_has(step: str) -> None:
    text = steps("const value=0", step).replace("predicate=lt\n  branch %more", "predicate=le\n  branch %more")
    text = text.replace("select %some, %count1, %zero", "add %count1, %zero")
    ranges, values, _ = ranges_of(text)
    assert ranges.of(values["i"])[1] >= ((I32 - 1) // 7 + 1) * 7


def test_a_loop_of_at_least_one_turn() -> None:
    text = steps("grid axis=0", "const value=7").replace("%count1, %zero", "%count1, %one")
    ranges, values, _ = ranges_of(text.replace("dim %x axis=0", "const value=100"))
    assert ranges.of(values["i"])[1] >= I32 - 1


@pytest.mark.parametrize(("predicate", "top"), [("lt", 1022), ("le", I32 - 1 + 1023)])
def test_a_count_that_may_be_reached_may_be_that_of_an_empty_range(predicate: str, top: int) -> None:
    text = f"""
        kernel f() -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          %start: int = grid axis=0
          %t: int32 = sreg register=tid.x
          %stop: int = cast %t
          %size: int = sub %stop, %start
          %some: bool = cmp %start, %stop predicate=lt
          %count: int = select %some, %size, %zero
          jump target=head
        head:
          %k: int = phi %zero, %k1
          %more: bool = cmp %k, %count predicate={predicate}
          branch %more then=body else=end
        body:
          %i: int = add %start, %k
          %k1: int = add %k, %one
          jump target=head
        end:
          return
    """
    check(text, i=(0, top))


def test_a_quotient_by_a_step_of_unknown_sign() -> None:
    """``k <= room // step`` bounds ``k * step`` by ``room`` from above only if the step is positive."""
    text = """
        kernel f(x: int32[::1]) -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          %room: int = const value=-10
          %step: int = dim %x axis=0
          %down: int = sub %zero, %step
          %quotient: int = floordiv %room, %down
          %count: int = add %quotient, %one
          jump target=head
        head:
          %k: int = phi %zero, %k1
          %more: bool = cmp %k, %count predicate=lt
          branch %more then=body else=end
        body:
          %far: int = mul %k, %down
          %k1: int = add %k, %one
          jump target=head
        end:
          return
    """
    ranges, values, _ = ranges_of(text)
    lo, hi = ranges.of(values["far"])
    assert hi >= 0  # 0 * -3
    assert lo <= -9  # 3 * -3


def test_a_comparison_before_the_loop_says_nothing_of_the_loop_s_own_value() -> None:
    text = """
        kernel f(n: int32) -> none
        entry:
          %zero: int32 = const value=0
          %one: int32 = const value=1
          %ten: int32 = const value=10
          %true: bool = const value=True
          %false: bool = const value=False
          jump target=head
        head:
          %k: int32 = phi %zero, %k1
          %last: bool = phi %false, %low
          branch %last then=body else=other
        body:
          %j: int32 = sub %k, %ten
          jump target=next
        other:
          jump target=next
        next:
          %low: bool = cmp %k, %one predicate=lt
          %k1: int32 = add %k, %ten
          %more: bool = cmp %k, %n predicate=lt
          branch %more then=head else=end
        end:
          return
    """
    ranges, values, function = ranges_of(text)
    lo, hi = ranges.at(values["k"], function.blocks[2])
    assert lo <= 10 <= hi, "in the second turn, k is 10 though last remembers k < 1"


def test_a_sum_that_wraps_proves_nothing() -> None:
    text = """
        kernel f(a: int32, b: int32) -> none
        entry:
          %zero: int32 = const value=0
          %s: int32 = add %a, %b
          %ten: int32 = const value=10
          %c: bool = cmp %s, %ten predicate=lt
          branch %c then=inside else=end
        inside:
          %d: int32 = sub %s, %b
          jump target=end
        end:
          return
    """
    ranges = check(text, d=INT32)
    ranges, values, function = ranges_of(text)
    assert ranges.at(values["a"], function.blocks[1]) == INT32
    assert not ranges.exact(values["s"])


def test_a_cast_that_cuts_proves_nothing() -> None:
    text = """
        kernel f(a: int64) -> none
        entry:
          %low: int8 = cast %a
          %ten: int8 = const value=10
          %c: bool = cmp %low, %ten predicate=lt
          branch %c then=inside else=end
        inside:
          %b: int64 = add %a, %a
          jump target=end
        end:
          return
    """
    check(text, b=INT64)


def test_two_entries_into_one_cycle() -> None:
    """An irreducible graph: neither block of the cycle dominates the other."""
    text = """
        kernel f(n: int) -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          %c: bool = cmp %n, %zero predicate=lt
          branch %c then=left else=right
        left:
          %a: int = phi %zero, %b1
          %a1: int = add %a, %one
          jump target=right
        right:
          %b: int = phi %n, %a1
          %b1: int = add %b, %one
          %more: bool = cmp %b1, %n predicate=lt
          branch %more then=left else=end
        end:
          return
    """
    ranges, values, function = ranges_of(text)

    def observe(block: object, seen: dict[Value, int]) -> None:
        for name in ("a", "a1", "b", "b1"):
            if values[name] in seen:
                lo, hi = ranges.of(values[name])
                assert lo <= seen[values[name]] <= hi

    for n in (-(2**31), -3, 0, 5, 40, I32):
        run(function, [n], observe=observe, fuel=400)


def test_code_that_is_never_reached_has_its_types_limits() -> None:
    text = """
        kernel f(n: int) -> none
        entry:
          %i: int = grid axis=0
          %zero: int = const value=0
          %c: bool = cmp %i, %zero predicate=lt
          branch %c then=never else=end
        never:
          %j: int = add %i, %zero
          jump target=end
        end:
          %p: int = phi %zero, %j
          return
    """
    check(text, j=INT64, p=(0, 0))


def test_a_cycle_that_does_not_settle_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is claimed of its values; what comes before and after is known as ever."""
    monkeypatch.setattr("cudabuild.ir.ranges._STOP_AFTER", 0)
    text = COUNTER.replace("  %one:", "  %i: int = grid axis=0\n  %one:").replace(
        "end:\n", "end:\n  %j: int = add %i, %one\n"
    )
    ranges = check(text, it=INT64, it1=INT64, it32=INT32, i=(0, I32 - 1), j=(1, I32))
    ranges, values, _ = ranges_of(text)
    assert not ranges.exact(values["it1"])
