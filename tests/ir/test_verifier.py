# SPDX-License-Identifier: Apache-2.0
"""Every fault of the IR is found, and said in so many words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from ir_text import parse

from cudabuild.ir.ir import Block, Builder, Function, Instr, Param
from cudabuild.ir.ops import OPS
from cudabuild.ir.parser import parse_function
from cudabuild.ir.verifier import verify_function
from cudabuild.types import bool_, int32, none, weak_int

HEAD = "kernel f(n: int, r: int32, a: float32, c: bool, x: float32[::1], m: uint32, z: complex64) -> none\nentry:\n  "


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("%v: int = add %n, %r", "add at None: operands [int, int32] for a result of int"),
        ("%v: int = add %n", "add at None: 1 operands, expected 2"),
        ("%v: int = const", "const at None: missing attributes ['value']"),
        ("%v: int32 = const value=2147483648", "const at None: 2147483648 of int32"),
        ("%v: uint8 = const value=-1", "const at None: -1 of uint8"),
        ("%v: bool = const value=1", "const at None: 1 of bool"),
        ("%v: int = const value=1.0", "const at None: 1.0 of int"),
        ("%v: float32 = const value=1", "const at None: 1 of float32"),
        ("%v: int = div %n, %n", "div at None: on int"),
        ("%v: float32 = xor %a, %a", "xor at None: on float32"),
        ("%v: float32 = shl %a, %n", "shl at None: operands [float32, int] for a result of float32"),
        ("%v: int = neg %r", "neg at None: operands [int32] for a result of int"),
        ("%v: bool = cmp %n, %r predicate=lt", "cmp at None: compares [int, int32] to bool"),
        ("%v: bool = cmp %n, %n predicate=below", "cmp at None: predicate below"),
        ("%v: int = select %n, %n, %n", "select at None: operands [int, int, int] for a result of int"),
        ("%v: int = cast %x", "cast at None: from float32[::1] to int"),
        ("%v: complex64 = const value=1.0", "const at None: 1.0 of complex64"),
        ("%v: complex64 = complex %a, %n", "complex at None: of [float32, int] to complex64"),
        ("%v: float64 = part %z index=0", "part at None: 0 of complex64 to float64"),
        ("%v: float32 = part %z index=2", "part at None: 2 of complex64 to float32"),
        ("%v: complex64 = add %z, %z", "add at None: operands [complex64, complex64] for a result of complex64"),
        ("%v: bool = cmp %z, %z predicate=eq", "cmp at None: compares [complex64, complex64] to bool"),
        ("%v: float32 = cast %z", "cast at None: from complex64 to float32"),
        ("%v: float32[:] = field %x offset=4", "field at None: at 4 of float32[::1] to float32[:]"),
        ("%v: float32 = math %a, %a function=exp", "math at None: exp of [float32, float32] to float32"),
        ("%v: bool = isnan %n", "isnan at None: of int to bool"),
        ("%v: Tuple(int, int) = tuple %n, %r", "tuple at None: of [int, int32] to Tuple(int, int)"),
        ("%v: int = item %n index=0", "item at None: 0 of int to int"),
        ("%v: int = dim %x axis=1", "dim at None: 1 of float32[::1] to int"),
        ("%v: int32 = stride %x axis=0", "stride at None: 0 of float32[::1] to int32"),
        ("%v: int = wrap %r, %n", "wrap at None: of [int32, int] to int"),
        ("%v: float32 = load %n", "load at None: on [int]"),
        ("%v: float32 = load %x", "load at None: [] as indices of float32[::1]"),
        ("%v: float64 = load %x, %n", "load at None: float64 from float32[::1]"),
        ("store %x, %n, %n", "store at None: [int] into float32[::1]"),
        ("store %x, %a, %a", "store at None: [float32] as indices of float32[::1]"),
        ("%v: float32 = atomic %x, %n, %a function=xor", "atomic at None: xor on float32[::1]"),
        ("%v: float32[:] = view %x axes=s", "view at None: s with [] of float32[::1] to float32[:]"),
        ("%v: float32[:] = view %x axes=q", "view at None: q of float32[::1] to float32[:]"),
        ("%v: float32[::1] = shared shape=(3,) key=k", "shared at None: of shape (3,) to float32[::1]"),
        ("%v: float32[::1]@local = local shape=(3,4) key=k", "local at None: of shape (3, 4) to float32[::1]@local"),
        ("%v: int32[::1] = constant shape=(1,) data=00000000", "constant at None: of int32[::1]"),
        ("%v: float64[:] = field %x offset=0", "field at None: at 0 of float32[::1] to float64[:]"),
        ("%v: float32[::1] = field %x offset=0", "field at None: at 0 of float32[::1] to float32[::1]"),
        ("%v: int32[:] = field %x offset=4", "field at None: at 4 of float32[::1] to int32[:]"),
        ("%v: int8[::1] = reshape %x", "reshape at None: of [float32[::1]] to int8[::1]"),
        ("%v: float32[:, :] = transpose %x order=(0,0)", "transpose at None: (0, 0) of float32[::1] to float32[:, :]"),
        ("%v: float32[::1] = transpose %x order=(-1,)", "transpose at None: (-1,) of float32[::1] to float32[::1]"),
        ("%v: int = address %n", "address at None: of [int] to int"),
        ("%v: datetime64[D] = retype %a", "retype at None: of float32 to datetime64[D]"),
        ("%v: int32 = vote %m, %c mode=all", "vote at None: all to int32"),
        ("%v: bool = vote %n, %c mode=all", "vote at None: all of [int, bool]"),
        ("%v: int = popc %n", "popc at None: of int to int"),
        ("%v: int64 = clock source=sun", "clock at None: sun to int64"),
        ("fence scope=street", "fence at None: of street"),
        ("syncwarp %n", "syncwarp at None: of int"),
        ("%v: int = activemask", "activemask at None: to int"),
        ("branch %n then=entry else=entry\n  return", "an end before the end of the block"),
    ],
)
def test_a_faulty_instruction(line: str, reason: str) -> None:
    with pytest.raises(AssertionError) as caught:
        verify_function(parse_function(f"{HEAD}{line}\n  return"))
    assert str(caught.value).removeprefix("IR of f: ").endswith(reason)


def faulty_graph(change: Callable[[Function], None]) -> str:
    function, _ = parse("""
        kernel f(n: int, c: bool) -> none
        entry:
          %one: int = const value=1
          branch %c then=left else=right
        left:
          %two: int = add %n, %one
          jump target=end
        right:
          jump target=end
        end:
          %v: int = phi %two, %one
          %w: int = add %v, %v
          return
    """)
    change(function)
    with pytest.raises(AssertionError) as caught:
        verify_function(function)
    return str(caught.value).removeprefix("IR of f: ")


def test_a_value_that_is_not_defined_on_every_path() -> None:
    def change(function: Function) -> None:
        _, left, _, end = function.blocks
        end.instructions[1].operands[0] = left.instructions[0]

    assert faulty_graph(change) == "add at None: operand add is not defined on every path to it"


def test_a_value_that_is_used_before_it_is_made() -> None:
    def change(function: Function) -> None:
        function.blocks[3].instructions[1].operands[0] = function.blocks[3].instructions[1]

    assert faulty_graph(change) == "add at None: operand add is not defined on every path to it"


def test_a_phi_of_a_value_from_another_edge() -> None:
    def change(function: Function) -> None:
        function.blocks[3].instructions[0].operands.reverse()

    assert faulty_graph(change) == "phi at None: operand add is not defined at the end of right"


def test_a_phi_with_too_few_operands() -> None:
    def change(function: Function) -> None:
        function.blocks[3].instructions[0].operands.pop()

    assert faulty_graph(change) == "phi at None: 1 operands, 2 predecessors"


def test_a_phi_of_another_type() -> None:
    def change(function: Function) -> None:
        function.blocks[3].instructions[0].type = int32

    assert faulty_graph(change) == "phi at None: operands [int, int] for a result of int32"


def test_a_phi_after_other_instructions() -> None:
    def change(function: Function) -> None:
        end = function.blocks[3]
        one = Instr(weak_int, None, "const", [], {"value": 1}, end)
        end.instructions.insert(0, one)

    assert faulty_graph(change) == "phi at None: a phi after another instruction"


def test_a_block_without_an_end() -> None:
    assert faulty_graph(lambda f: f.blocks[2].instructions.clear()) == "function: block right has no end"


def test_an_edge_that_is_listed_on_one_side_only() -> None:
    def forget(function: Function) -> None:
        function.blocks[1].predecessors.clear()

    assert faulty_graph(forget) == "branch at None: left does not list entry as a predecessor"

    def invent(function: Function) -> None:
        function.blocks[1].predecessors.append(function.blocks[2])

    assert faulty_graph(invent) == "function: left lists right as a predecessor, which does not go there"


def test_a_block_of_another_function() -> None:
    def change(function: Function) -> None:
        function.blocks.pop(2)

    assert faulty_graph(change) == "branch at None: goes to right, which is not in the function"


def test_an_entry_with_predecessors() -> None:
    def change(function: Function) -> None:
        right, entry = function.blocks[2], function.blocks[0]
        right.instructions.clear()
        function.blocks[3].predecessors.pop()
        function.blocks[3].instructions[0].operands.pop()
        Builder(right).jump(entry)

    assert faulty_graph(change) == "function: entry, the entry, has predecessors"


def test_two_blocks_of_one_name() -> None:
    def change(function: Function) -> None:
        function.blocks[2].name = "left"

    assert faulty_graph(change) == "function: two blocks have one name"


def test_an_instruction_that_stands_elsewhere() -> None:
    def change(function: Function) -> None:
        function.blocks[1].instructions[0].block = function.blocks[2]

    assert faulty_graph(change) == "add at None: in left, but says right"


def test_a_parameter_of_another_function() -> None:
    def change(function: Function) -> None:
        function.blocks[3].instructions[1].operands[0] = Param(weak_int, None, "other", 0)

    assert faulty_graph(change) == "add at None: parameter other of another function"


def test_an_unknown_operation() -> None:
    block = Block("entry", [Instr(none, None, "frobnicate", [], {}, None)])
    block.instructions[0].block = block
    assert "frobnicate" not in OPS
    function = Function("f", [], none, [block], True)
    with pytest.raises(AssertionError, match=r"frobnicate.*not in the operation table"):
        verify_function(function)


def test_a_call_with_other_types() -> None:
    callee, _ = parse("device g(n: int32) -> int\nentry:\n  %0: int = cast %n\n  return %0")
    block = Block("entry")
    condition = Param(bool_, None, "c", 0)
    Builder(block).emit("call", weak_int, condition, callee=callee)
    Builder(block).ret()
    with pytest.raises(AssertionError, match=r"call at None: g with \[bool\] to int"):
        verify_function(Function("f", [condition], none, [block], True))


def test_a_result_of_a_kernel() -> None:
    function = parse_function("kernel f(n: int) -> none\nentry:\n  return %n")
    with pytest.raises(AssertionError, match=r"return at None: returns \[int\], expected \[\]"):
        verify_function(function)


def test_what_is_never_reached_may_use_anything() -> None:
    function, values = parse("kernel f(n: int) -> none\nentry:\n  %v: int = neg %n\n  return\nlost:\n  return")
    lost = function.blocks[1]
    lost.instructions.insert(0, Instr(weak_int, None, "neg", [values["v"]], {}, lost))
    verify_function(function)
