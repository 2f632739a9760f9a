# SPDX-License-Identifier: Apache-2.0
"""What simplification removes, and what it must leave alone."""

from __future__ import annotations

import pytest
from ir_text import parse

from cudabuild.ir.ir import Block, Builder, Function
from cudabuild.ir.passes import simplify
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function
from cudabuild.types import bool_, none


def simplified(text: str) -> str:
    """The body after simplification, without the header and without indentation."""
    function, _ = parse(text)
    simplify(function)
    verify_function(function)
    return "\n".join(line.strip() for line in format_function(function).splitlines()[1:])


def kept(value: str, params: str = "p: int, q: int, r: int32, x: float32[::1]", kind: str = "int") -> str:
    """What remains of ``%v = …``, a few lines that end in it, where a device function returns it."""
    lines = "\n".join(f"  {line.strip()}" for line in value.strip().splitlines())
    text = simplified(f"device f({params}) -> {kind}\nentry:\n{lines}\n  return %v")
    return text.removeprefix("entry:\n")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("%a: int = const value=2\n%v: int = mul %a, %a", "%0: int = const value=4\nreturn %0"),
        ("%a: int = const value=0\n%v: int = add %p, %a", "return %p"),
        ("%a: int = const value=0\n%v: int = add %a, %p", "return %p"),
        ("%a: int = const value=0\n%v: int = sub %p, %a", "return %p"),
        ("%a: int = const value=1\n%v: int = mul %p, %a", "return %p"),
        ("%a: int = const value=1\n%v: int = floordiv %p, %a", "return %p"),
        ("%a: int = const value=0\n%v: int = shr %p, %a", "return %p"),
        ("%v: int = and %p, %p", "return %p"),
        ("%a: bool = const value=True\n%v: int = select %a, %p, %q", "return %p"),
        ("%a: bool = const value=False\n%v: int = select %a, %p, %q", "return %q"),
        ("%c: bool = cmp %p, %p predicate=lt\n%v: int = select %c, %p, %p", "return %p"),
        ("%t: Tuple(int, int32) = tuple %p, %r\n%v: int = item %t index=0", "return %p"),
        ("%a: int8[::1]@local = local shape=(7,) key=a\n%v: int = dim %a axis=0", "%0: int = const value=7\nreturn %0"),
        ("%a: int = inv %p\n%v: int = inv %a", "return %p"),
        ("%a: int32 = cast %p\n%v: int = cast %a", "%0: int32 = cast %p\n%1: int = cast %0\nreturn %1"),
        ("%a: int64 = cast %p\n%v: int = cast %a", "return %p"),
        ("%a: float = cast %p\n%v: int = cast %a", "%0: float = cast %p\n%1: int = cast %0\nreturn %1"),
        ("%a: int = const value=0\n%v: int = sub %a, %p", "%0: int = const value=0\n%1: int = sub %0, %p\nreturn %1"),
        ("%v: int = sub %p, %p", "%0: int = sub %p, %p\nreturn %0"),
    ],
)  # fmt: skip
def test_values(value: str, expected: str) -> None:
    assert kept(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("%a: int = cast %r\n%v: int32 = cast %a", "return %r"),
        ("%a: uint32 = cast %r\n%v: int32 = cast %a", "%0: uint32 = cast %r\n%1: int32 = cast %0\nreturn %1"),
    ],
)
def test_casts_there_and_back(value: str, expected: str) -> None:
    assert kept(value, kind="int32") == expected


def test_a_widening_in_between_goes() -> None:
    assert kept("%a: int = cast %r\n%v: int16 = cast %a", kind="int16") == "%0: int16 = cast %r\nreturn %0"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("%a: float32 = const value=1.0\n%v: float32 = mul %f, %a", "return %f"),
        ("%a: float32 = const value=1.0\n%v: float32 = div %f, %a", "return %f"),
        ("%a: float32 = const value=0.0\n%v: float32 = add %f, %a", None),  # -0.0 + 0.0 is 0.0
        ("%a: float = cast %f\n%v: float32 = cast %a", "return %f"),
        ("%a: float16 = cast %f\n%v: float32 = cast %a", None),
        ("%a: float32 = const value=0.0\n%v: float32 = mul %f, %a", None),  # NaN
    ],
)
def test_floats(value: str, expected: str | None) -> None:
    found = kept(value, "f: float32", "float32")
    assert found == expected if expected is not None else found.count("=") >= 2


def test_the_extent_of_a_view_is_its_length_or_the_extent_of_the_base() -> None:
    text = """
        device f(x: int32[:, :], a: int, s: int, n: int) -> int
        entry:
          %w: int32[:, :] = view %x, %a, %s, %n axes=s-
          %row: int32[:] = view %w, %a axes=i-
          %0: int = dim %w axis=0
          %1: int = dim %row axis=0
          %2: int = add %0, %1
          return %2
    """
    body = "entry:\n%0: int = dim %x axis=1\n%1: int = add %n, %0\nreturn %1"
    assert simplified(text) == body


def test_a_constant_branch_takes_one_way() -> None:
    text = """
        device f(p: int) -> int
        entry:
          %two: int = const value=2
          %three: int = const value=3
          %c: bool = cmp %two, %three predicate=lt
          branch %c then=yes else=no
        yes:
          %a: int = add %p, %two
          jump target=end
        no:
          %b: int = add %p, %three
          jump target=end
        end:
          %v: int = phi %a, %b
          return %v
    """
    assert simplified(text) == (
        "entry:\n%0: int = const value=2\njump target=yes\nyes:  ; from entry\n%1: int = add %p, %0\njump target=end\n"
        "end:  ; from yes\nreturn %1"
    )


def test_a_loop_that_never_runs_goes_with_its_dead_phis() -> None:
    text = """
        device f(p: int) -> int
        entry:
          %zero: int = const value=0
          %one: int = const value=1
          jump target=head
        head:
          %k: int = phi %zero, %k1
          %s: int = phi %p, %p
          %unused: int = phi %zero, %unused1
          %c: bool = const value=False
          branch %c then=body else=end
        body:
          %k1: int = add %k, %one
          %unused1: int = add %unused, %k
          jump target=head
        end:
          return %s
    """
    assert (
        simplified(text)
        == "entry:\njump target=head\nhead:  ; from entry\njump target=end\nend:  ; from head\nreturn %p"
    )


def test_a_dead_cycle_of_phis_is_dropped() -> None:
    text = """
        kernel f(p: int) -> none
        entry:
          %one: int = const value=1
          jump target=head
        head:
          %k: int = phi %one, %k1
          %s: int = phi %p, %s1
          %c: bool = cmp %k, %p predicate=lt
          branch %c then=body else=end
        body:
          %k1: int = add %k, %one
          %s1: int = mul %s, %k
          jump target=head
        end:
          return
    """
    assert "mul" not in simplified(text)
    assert "add" in simplified(text)


def test_phis_of_equal_constants_but_not_of_both_zeros() -> None:
    text = """
        device f(c: bool) -> {kind}
        entry:
          branch %c then=yes else=no
        yes:
          %a: {kind} = const value={a}
          jump target=end
        no:
          %b: {kind} = const value={b}
          jump target=end
        end:
          %v: {kind} = phi %a, %b
          return %v
    """
    assert "phi" not in simplified(text.format(kind="int32", a=3, b=3))
    assert "phi" in simplified(text.format(kind="int32", a=3, b=4))
    assert "phi" in simplified(text.format(kind="float32", a=0.0, b=-0.0))


def test_two_edges_to_one_block() -> None:
    entry, end = Block("entry"), Block("end")
    function = Function("f", [], none, [entry, end], True)
    build = Builder(entry)
    condition = build.emit("cmp", bool_, build.const(True, bool_), build.const(False, bool_), predicate="eq")
    build.branch(condition, end, end)
    Builder(end).ret()
    verify_function(function)
    simplify(function)
    verify_function(function)
    assert end.predecessors == [entry]
    assert entry.instructions[-1].op == "jump"


def test_effects_stay() -> None:
    text = """
        kernel f(x: int32[::1]) -> none
        entry:
          %zero: int = const value=0
          %one: int32 = const value=1
          %old: int32 = atomic %x, %zero, %one function=add
          %v: int32 = load %x, %zero
          %m: uint32 = const value=4294967295
          %w: int32 = const value=32
          %s: int32 = shfl %m, %one, %one, %w mode=down
          barrier
          store %x, %zero, %one
          return
    """
    found = simplified(text)
    assert "load" not in found
    assert all(op in found for op in ("atomic", "shfl", "barrier", "store"))
