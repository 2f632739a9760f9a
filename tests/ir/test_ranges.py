# SPDX-License-Identifier: Apache-2.0
"""What is known of integers, idiom by idiom, and the traps in which too much would be claimed."""

from __future__ import annotations

import pytest
from interpreter import run
from ir_text import parse

from cudabuild.ir.ir import Function, Value
from cudabuild.ir.ranges import Ranges, compute_ranges
from cudabuild.types.layout import LARGEST_EXTENT

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


GUARD = """
kernel saxpy(n: int, x: float32[::1]) -> none
entry:
  %i: int = grid axis=0
  %one: int = const value=1
  %size: int = dim %x axis=0
  %in: bool = cmp %i, %size predicate=lt
  branch %in then=inside else=end
inside:
  %again: int = dim %x axis=0
  %next: int = add %i, %one
  %last: int = sub %again, %one
  %mirror: int = sub %last, %i
  %j: int = wrap %i, %again
  jump target=end
end:
  %after: int = add %i, %one
  return
"""


def test_guarded_index_32() -> None:
    ranges = check(
        GUARD,
        i=(0, I32 - 1),
        size=(0, I32),
        next=(1, I32),
        last=(0, I32 - 1),
        mirror=(0, I32 - 1),
        j=(0, I32 - 1),
        n=INT32,
    )
    _, values, function = ranges_of(GUARD)
    assert ranges.of(function.params[0]) == INT64, "a value of another function is not known here"
    ranges, values, function = ranges_of(GUARD)
    inside, end = function.blocks[1:]
    assert ranges.at(values["size"], inside) == (1, I32)
    assert ranges.at(values["size"], end) == (0, I32)
    assert ranges.nonnegative(values["mirror"])
    assert not ranges.nonnegative(values["n"])
    assert ranges.fits32(values["next"])
    assert ranges.decide(values["in"], inside) is True
    assert ranges.decide(values["in"]) is None


def test_guarded_index_64() -> None:
    top = I32 * 1024 - 1
    ranges = check(
        GUARD,
        64,
        i=(0, top),
        size=(0, LARGEST_EXTENT),
        next=(1, top + 1),
        mirror=(0, LARGEST_EXTENT - 1),
        j=(0, top),
        n=INT64,
    )
    assert not ranges.fits32(ranges_of(GUARD)[1]["i"])


def test_early_return_guards_too() -> None:
    text = """
        kernel stencil(h: int, x: float32[:, ::1]) -> none
        entry:
          %i: int = grid axis=1
          %zero: int = const value=0
          %one: int = const value=1
          %rows: int = dim %x axis=0
          %top: bool = cmp %i, %one predicate=lt
          branch %top then=out else=more
        more:
          %inner: int = sub %rows, %one
          %bottom: bool = cmp %i, %inner predicate=ge
          branch %bottom then=out else=inside
        inside:
          %up: int = sub %i, %one
          %down: int = add %i, %one
          %room: int = sub %inner, %i
          jump target=out
        out:
          return
    """
    rows = 65535 * 1024
    check(text, up=(0, rows - 2), down=(2, rows), inner=(-1, I32 - 1), room=(1, I32 - 2))


def test_all_conditions_of_an_and_hold() -> None:
    text = """
        kernel f(h: int32, x: float32[::1]) -> none
        entry:
          %i: int = grid axis=0
          %h64: int = cast %h
          %zero: int = const value=0
          %one: int = const value=1
          %inner: int = sub %h64, %one
          %a: bool = cmp %i, %one predicate=ge
          %b: bool = cmp %i, %inner predicate=lt
          %c: bool = and %a, %b
          %d: bool = inv %c
          branch %d then=end else=inside
        inside:
          %up: int = sub %i, %one
          %down: int = add %i, %one
          jump target=end
        end:
          return
    """
    check(text, 64, up=(0, I32 - 3), down=(2, I32 - 1))


@pytest.mark.parametrize(
    ("test", "i", "n"),
    [
        ("mul %i, %three|ge", (4, I32), (4, I32)),
        ("mul %i, %three|le", (-(2**31), 3), (-(2**31), 3)),
        ("mul %three, %i|gt", (4, I32), (4, I32)),
        ("add %i, %three|lt", (-(2**31), 6), (-(2**31), 6)),
        ("sub %i, %three|gt", (14, I32), (14, I32)),
        ("sub %three, %i|ge", (-(2**31), -7), (-(2**31), -7)),
        ("neg %i|le", (-10, I32), (-10, I32)),
        ("cast %i|eq", (10, 10), (10, 10)),
    ],
)
def test_a_test_of_a_result_says_something_of_its_operand(test: str, i: tuple[int, int], n: tuple[int, int]) -> None:
    operation, predicate = test.split("|")
    kind, bound = ("int64", "%ten") if operation == "cast %i" else ("int", "%weak")
    text = f"""
        kernel f(n: int32) -> none
        entry:
          %i: int = cast %n
          %three: int = const value=3
          %ten: int64 = const value=10
          %weak: int = const value=10
          %v: {kind} = {operation}
          %c: bool = cmp %v, {bound} predicate={predicate}
          branch %c then=inside else=end
        inside:
          return
        end:
          return
    """
    ranges, values, function = ranges_of(text)
    inside = function.blocks[1]
    assert ranges.at(values["i"], inside) == i
    assert ranges.at(values["n"], inside) == n


# loops

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


# single operations


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("%v: int = wrap %w, %n", INT32),
        ("%v: int = min %i, %w", (-(2**31), I32 - 1)),
        ("%v: int = max %w, %zero", (0, I32)),
        ("%v: int = mod %w, %seven", (0, 6)),
        ("%v: int = and %w, %seven", (0, 7)),
        ("%v: int = abs %w", (0, 2**31)),
        ("%v: int = shr %n, %seven", (0, I32 >> 7)),
        ("%v: int = shl %one, %seven", (128, 128)),
        ("%v: int = floordiv %w, %seven", (-(2**31) // 7, I32 // 7)),
        ("%v: int = neg %n", (-I32, 0)),
        ("%v: int = inv %n", (-(2**31), -1)),
        ("%v: int = select %c, %n, %seven", (1, I32)),
        ("%v: int = select %neg, %zero, %w", (0, I32)),
        ("%v: uint32 = cast %n", (0, I32)),
        ("%v: uint32 = cast %w", (0, 2**32 - 1)),
        ("%v: int8 = cast %seven", (7, 7)),
        ("%v: int = cast %c", (0, 1)),
        ("%v: int32 = cast %f", INT32),
        ("%v: int32 = load %x, %zero", INT32),
        ("%v: int32 = atomic %x, %zero, %l function=add", INT32),
        ("%v: int = stride %x axis=0", INT32),
        ("%v: int32 = sreg register=laneid", (0, 31)),
        ("%v: int32 = sreg register=tid.z", (0, 63)),
        ("%v: int32 = sreg register=nctaid.y", (1, 65535)),
        ("%v: int = gridsize axis=2", (1, 65535 * 64)),
        ("%v: int = undef", INT64),
        ("%s: int32[::1]@shared = shared shape=(48,) key=s\n  %v: int = dim %s axis=0", (48, 48)),
        ("%s: int32[:] = view %x, %zero, %one, %seven axes=s\n  %v: int = dim %s axis=0", (7, 7)),
        ("%s: int32[:] = view %y, %zero axes=i-\n  %v: int = dim %s axis=0", (0, I32)),
    ],
)
def test_operations(line: str, expected: tuple[int, int]) -> None:
    text = f"""
        kernel f(w: int, f: float, l: int32, x: int32[:], y: int32[:, ::1]) -> none
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          %seven: int = const value=7
          %i: int = grid axis=0
          %n: int = dim %x axis=0
          %c: bool = cmp %i, %n predicate=lt
          %neg: bool = cmp %w, %zero predicate=lt
          {line}
          store %x, %zero, %l
          return
    """
    check(text, v=expected)


def test_blocks_times_threads() -> None:
    """The launch bounds the product of the 32-bit variant, not its factors."""
    text = """
        kernel f() -> none
        entry:
          %a: int32 = sreg register=ctaid.x
          %b: int32 = sreg register=ntid.x
          %c: int32 = sreg register=tid.x
          %d: int32 = sreg register=nctaid.x
          %a64: int = cast %a
          %b64: int = cast %b
          %c64: int = cast %c
          %d64: int = cast %d
          %first: int = mul %b64, %a64
          %i: int = add %c64, %first
          %all: int = mul %d64, %b64
          %narrow: int32 = mul %a, %b
          %y: int32 = sreg register=ntid.y
          %y64: int = cast %y
          %mixed: int = mul %a64, %y64
          return
    """
    check(text, 32, first=(0, I32 - 1), i=(0, I32 - 1), all=(1, I32), narrow=INT32, mixed=(0, (I32 - 1) * 1024))
    check(text, 64, first=(0, (I32 - 1) * 1024), i=(0, I32 * 1024 - 1), all=(1, I32 * 1024), narrow=INT32)
    ranges, values, _ = ranges_of(text, 64, launch_bounds=128)
    assert ranges.of(values["c"]) == (0, 127)
    assert ranges.of(values["i"]) == (0, I32 * 128 - 1)


def test_numbers_in_tuples_are_checked_by_a_launch_too() -> None:
    text = """
        {kind} f(t: Tuple(int, Tuple(int, uint8))) -> none
        entry:
          %a: int = item %t index=0
          %t1: Tuple(int, uint8) = item %t index=1
          %b: int = item %t1 index=0
          %c: uint8 = item %t1 index=1
          return
    """
    check(text.format(kind="kernel"), 32, a=INT32, b=INT32, c=(0, 255))
    check(text.format(kind="kernel"), 64, a=INT64, b=INT64, c=(0, 255))
    check(text.format(kind="device"), 32, a=INT64, b=INT64, c=(0, 255))


def test_the_arguments_of_a_device_function_are_not_checked_by_a_launch() -> None:
    text = """
        device f(n: int, x: int32[:]) -> int
        entry:
          %s: int = stride %x axis=0
          %v: int = add %n, %s
          return %v
    """
    check(text, 32, n=INT64, s=INT64, v=INT64)


# traps


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


def test_what_cannot_be_asked() -> None:
    function, values = parse("kernel f(a: float32, c: bool) -> none\nentry:\n  return")
    ranges = compute_ranges(function, index_width=32)
    with pytest.raises(TypeError, match="a range is asked of a value of type float32"):
        ranges.of(values["a"])
    assert ranges.of(values["c"]) == (0, 1)
    with pytest.raises(ValueError, match="index width 16: expected 32 or 64"):
        compute_ranges(function, index_width=16)
