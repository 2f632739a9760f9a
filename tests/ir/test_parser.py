# SPDX-License-Identifier: Apache-2.0
"""IR text reads back as what was printed."""

from __future__ import annotations

import math
import re

import pytest
from cudabuild_sample import cases
from hypothesis import HealthCheck, given, settings
from programs import programs

from cudabuild.errors import Location
from cudabuild.frontend import build_ir
from cudabuild.ir.ir import Block, Builder, Function, Param
from cudabuild.ir.parser import parse_function, parse_functions
from cudabuild.ir.passes import run_passes
from cudabuild.ir.printer import format_function
from cudabuild.ir.verifier import verify_function
from cudabuild.types import float32, float64, int32, none, weak_int

KERNELS = {case.kernel.__name__: case.kernel.definition for case in cases.make_cases()}


def round_trip(function: Function) -> None:
    text = format_function(function)
    read = parse_function(text)
    verify_function(read)
    assert format_function(read) == text


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_random_programs(function: Function) -> None:
    round_trip(function)


@pytest.mark.parametrize("name", KERNELS)
def test_sample_kernels(name: str) -> None:
    definition = KERNELS[name]
    function = build_ir(definition, definition.signatures[0])
    round_trip(function)
    run_passes(function, target_kind="nvptx")
    round_trip(function)


def test_attributes_of_every_kind() -> None:
    block = Block("entry")
    params = [Param(float32[:, ::1], None, "x", 0)]
    function = Function("f", params, none, [block], True)
    build = Builder(block, Location("f.py", 7, 0, 7, 3))
    for value in (0.1, -0.0, 1e300, math.inf, -math.inf):
        build.const(value, float64)
    build.const(-3, weak_int)
    build.emit("shared", int32[:, ::1].with_(space="shared"), shape=(16, 17), key=("f.tile", 3))
    build.emit("constant", int32[::1].with_(readonly=True), shape=(2,), data="0000000001000000")
    build.emit("view", float32[:, :], params[0], axes="--")
    build.emit("sreg", int32, register="tid.x")
    named = build.emit("grid", weak_int, axis=0)
    named.hint = "i"
    build.emit("raise", none, exception="builtins:ValueError", message="not 'ok', i.e.  ; x=\"1\", y=2")
    build.ret()
    text = format_function(function)
    read = parse_function(text)
    assert format_function(read) == text
    for ours, theirs in zip(function.instructions(), read.instructions(), strict=True):
        assert (ours.op, ours.type, ours.attrs, ours.hint) == (theirs.op, theirs.type, theirs.attrs, theirs.hint)
    assert "  ; i  ; line 7" in format_function(function, locations=True)
    assert format_function(parse_function(format_function(function, locations=True))) == text


def test_not_a_number_is_read_too() -> None:
    function = parse_function("kernel f() -> none\nentry:\n  %0: float = const value=nan\n  return")
    assert math.isnan(function.blocks[0].instructions[0].attrs["value"])


@pytest.mark.parametrize("value", ["(1.5-2j)", "1j", "(-0-0j)", "(inf+nanj)"])
def test_complex_numbers_keep_their_zeros(value: str) -> None:
    text = f"kernel f() -> none\nentry:\n  %0: complex64 = const value={value}\n  return\n"
    assert format_function(parse_function(text)) == text


def test_tuples_may_have_spaces() -> None:
    function = parse_function(
        "kernel f() -> none\nentry:\n  %0: int8[:, ::1]@shared = shared shape=(2, 3) key=a\n  return"
    )
    assert function.blocks[0].instructions[0].attrs == {"shape": (2, 3), "key": "a"}


def test_predecessors_keep_their_order() -> None:
    text = """kernel f(c: bool) -> none
entry:
  branch %c then=a else=b
a:  ; from entry
  jump target=end
b:  ; from entry
  jump target=end
end:  ; from b, a
  return
"""
    assert format_function(parse_function(text)) == text


def test_functions_of_one_text() -> None:
    text = """device one() -> int
entry:
  %0: int = const value=1
  return %0

kernel main() -> none
entry:
  %0: int = call callee=one
  return
"""
    functions = parse_functions(text)
    assert list(functions) == ["one", "main"]
    assert functions["main"].callees == [functions["one"]]
    assert format_function(functions["main"]) == text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("kernel f(", "expected a function, found 'kernel f('"),
        ("kernel f() -> none\n  return", "expected a block, found 'return'"),
        ("kernel f() -> none\nentry:\n  frobnicate", "expected an operation, found 'frobnicate'"),
        ("kernel f() -> none\nentry:\n  %0: int = add %1, %1", "no value %1 in '%0: int = add %1, %1'"),
        ("kernel f() -> none\nentry:\n  %0: int = call callee=g", "no function g before '%0: int = call callee=g'"),
        ("kernel f() -> none\nentry:\n  jump target=b", "no block b in 'jump target=b'"),
    ],
)
def test_what_cannot_be_read(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_function(text)
