# SPDX-License-Identifier: Apache-2.0
"""Device functions that synchronise become part of their callers; the others stay."""

from __future__ import annotations

import pytest
from interpreter import run
from ir_text import parse

from cudabuild.ir.ir import Function
from cudabuild.ir.passes import inline_synchronising, run_passes
from cudabuild.ir.passes.clone import clone_function
from cudabuild.ir.passes.inline import inline_call
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function

SYNCHRONISING = """
device half(v: int32) -> int32
entry:
  %two: int32 = const value=2
  %h: int32 = floordiv %v, %two
  return %h

device quiet(v: int32) -> int32
entry:
  %w: int32 = call %v callee=half
  return %w

device wait(v: int32) -> int32
entry:
  %zero: int32 = const value=0
  %c: bool = cmp %v, %zero predicate=lt
  branch %c then=early else=late
early:
  return %zero
late:
  barrier
  return %v

device outer(v: int32) -> int32
entry:
  %a: int32 = call %v callee=wait
  %b: int32 = call %a callee=quiet
  return %b

kernel main(x: int32[::1]) -> none
entry:
  %i: int = grid axis=0
  %v: int32 = load %x, %i
  %a: int32 = call %v callee=outer
  %b: int32 = call %a callee=outer
  store %x, %i, %b
  return
"""


def calls(function: Function) -> list[str]:
    return [instr.attrs["callee"].name for instr in function.instructions() if instr.op == "call"]


def test_only_what_synchronises_is_inlined() -> None:
    function, _ = parse(SYNCHRONISING)
    inline_synchronising(function)
    verify_function(function)
    assert calls(function) == ["quiet", "quiet"]
    assert [instr.op for instr in function.instructions()].count("barrier") == 2
    names = [block.name for block in function.blocks]
    assert len(set(names)) == len(names)
    assert "outer.entry" in names
    assert "outer.2.wait.late" in names


def test_the_text_after_all_passes() -> None:
    function, _ = parse(SYNCHRONISING.replace("call %a callee=outer", "call %a callee=quiet"))
    run_passes(function, target_kind="host")
    verify_function(function)
    assert format_function(function, callees=False) == (
        """kernel main(x: int32[::1]) -> none
entry:
  %0: int = grid axis=0
  %1: int32 = load %x, %0
  jump target=outer.entry
outer.entry:  ; from entry
  jump target=outer.wait.entry
outer.wait.entry:  ; from outer.entry
  %2: int32 = const value=0
  %3: bool = cmp %1, %2 predicate=lt
  branch %3 then=outer.wait.early else=outer.wait.late
outer.wait.early:  ; from outer.wait.entry
  jump target=outer.entry.after
outer.wait.late:  ; from outer.wait.entry
  barrier
  jump target=outer.entry.after
outer.entry.after:  ; from outer.wait.early, outer.wait.late
  %4: int32 = phi %2, %1
  %5: int32 = call %4 callee=quiet
  jump target=entry.after
entry.after:  ; from outer.entry.after
  %6: int32 = call %5 callee=quiet
  store %x, %0, %6
  return
"""
    )


LOOPING = """
device total(n: int32) -> int32
entry:
  %zero: int32 = const value=0
  %one: int32 = const value=1
  jump target=head
head:
  %k: int32 = phi %zero, %k1
  %s: int32 = phi %zero, %s1
  %c: bool = cmp %k, %n predicate=lt
  branch %c then=body else=done
body:
  %s1: int32 = add %s, %k
  %k1: int32 = add %k, %one
  jump target=head
done:
  return %s

device main(n: int32) -> int32
entry:
  %zero: int32 = const value=0
  %one: int32 = const value=1
  jump target=head
head:
  %k: int32 = phi %zero, %k1
  %s: int32 = phi %zero, %t
  %c: bool = cmp %k, %n predicate=lt
  branch %c then=body else=done
body:
  %k1: int32 = add %k, %one
  %a: int32 = call %k1 callee=total
  %b: int32 = call %a callee=total
  %t: int32 = add %s, %b
  jump target=head
done:
  return %s
"""


@pytest.mark.parametrize("n", [0, 1, 2, 4])
def test_calls_in_loops_give_what_they_gave(n: int) -> None:
    function, _ = parse(LOOPING)
    expected = run(function, [n], fuel=100_000)
    for instr in function.instructions():
        if instr.op == "call":
            inline_call(function, instr)
            verify_function(function)
    assert calls(function) == []
    assert run(function, [n], fuel=100_000) == expected


def test_a_callee_that_never_returns() -> None:
    function, _ = parse("""
device stuck() -> int32
entry:
  jump target=again
again:
  barrier
  jump target=again

kernel main(x: int32[::1]) -> none
entry:
  %v: int32 = call callee=stuck
  %zero: int = const value=0
  store %x, %zero, %v
  return
""")
    run_passes(function, target_kind="nvptx")
    verify_function(function)
    assert "store" not in format_function(function)


def test_a_clone_shares_nothing() -> None:
    function, _ = parse(SYNCHRONISING)
    copy = clone_function(function)
    verify_function(copy)
    assert format_function(copy) == format_function(function)
    ours = {id(v) for f in [function, *function.callees] for v in (f, *f.params, *f.blocks, *f.instructions())}
    theirs = {id(v) for f in [copy, *copy.callees] for v in (f, *f.params, *f.blocks, *f.instructions())}
    assert not ours & theirs


def test_an_unknown_kind_of_target() -> None:
    function, _ = parse("kernel f() -> none\nentry:\n  return")
    with pytest.raises(ValueError, match="target kind 'gpu': expected 'nvptx' or 'host'"):
        run_passes(function, target_kind="gpu")
