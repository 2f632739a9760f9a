# SPDX-License-Identifier: Apache-2.0
"""Which computations are one, and which only look alike."""

from __future__ import annotations

from ir_text import parse

from cudabuild.ir.passes import merge_common_subexpressions
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function


def merged(body: str, params: str = "p: int, x: float32[::1]") -> str:
    function, _ = parse(f"kernel f({params}) -> none\n{body}")
    merge_common_subexpressions(function)
    verify_function(function)
    return format_function(function)


def test_equal_values_on_the_way_are_one() -> None:
    text = merged("""
        entry:
          %a: int = add %p, %p
          %c: bool = cmp %a, %p predicate=lt
          branch %c then=yes else=no
        yes:
          %b: int = add %p, %p
          %d: int = mul %b, %a
          %v: float32 = load %x, %d
          store %x, %b, %v
          jump target=no
        no:
          return
    """)
    assert text.count("add") == 1
    assert "mul %0, %0" in text


def test_values_of_other_branches_stay() -> None:
    text = merged("""
        entry:
          %c: bool = cmp %p, %p predicate=lt
          %v: float32 = const value=1.0
          branch %c then=yes else=no
        yes:
          %a: int = add %p, %p
          store %x, %a, %v
          jump target=end
        no:
          %b: int = add %p, %p
          store %x, %b, %v
          jump target=end
        end:
          return
    """)
    assert text.count("add") == 2


def test_types_attributes_and_the_sign_of_zero_tell_values_apart() -> None:
    text = merged("""
        entry:
          %a: float32 = const value=0.0
          %b: float32 = const value=-0.0
          %c: float64 = const value=0.0
          %d: int = const value=1
          %e: int = dim %x axis=0
          %g: int32 = sreg register=tid.x
          %h: int32 = sreg register=tid.y
          %i: int32 = sreg register=tid.x
          store %x, %d, %a
          store %x, %e, %b
          return
    """)
    assert text.count("const") == 4
    assert text.count("sreg") == 2


def test_reads_arrays_and_effects_stay() -> None:
    text = merged("""
        entry:
          %zero: int = const value=0
          %s: float32[::1]@local = local shape=(4,) key=s
          %t: float32[::1]@local = local shape=(4,) key=s
          %a: float32 = load %x, %zero
          store %x, %zero, %a
          %b: float32 = load %x, %zero
          store %s, %zero, %b
          store %t, %zero, %b
          return
    """)
    assert text.count("load") == 2
    assert text.count("local shape") == 2
