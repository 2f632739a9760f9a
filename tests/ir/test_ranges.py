# SPDX-License-Identifier: Apache-2.0
"""What is known of integers: guards and single operations."""

from __future__ import annotations

import pytest
from ir_text import parse
from range_texts import I32, INT32, INT64, check, ranges_of

from cudabuild.ir.ranges import compute_ranges
from cudabuild.types.layout import LARGEST_EXTENT

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


def test_what_cannot_be_asked() -> None:
    function, values = parse("kernel f(a: float32, c: bool) -> none\nentry:\n  return")
    ranges = compute_ranges(function, index_width=32)
    with pytest.raises(TypeError, match="a range is asked of a value of type float32"):
        ranges.of(values["a"])
    assert ranges.of(values["c"]) == (0, 1)
    with pytest.raises(ValueError, match="index width 16: expected 32 or 64"):
        compute_ranges(function, index_width=16)
