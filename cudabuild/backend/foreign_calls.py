# SPDX-License-Identifier: Apache-2.0
"""Calls of functions of linked code, by the C ABI of device functions.

Under the ABI ``numba`` a function returns a status, which nobody looks at here, and takes a pointer to its result
before its own parameters; where it has no result that pointer is null.

Any call may wait for other threads, so LLVM must not move one into or out of a branch: they are ``convergent``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand, replace
from cudabuild.types import Boolean, Float, Integer, Type, none

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Instr, Value

__all__ = ["ROWS"]


def _type(kind: Type) -> str:
    if isinstance(kind, Boolean):
        return "i8"
    if isinstance(kind, Integer):
        return f"i{kind.bits}"
    assert isinstance(kind, Float), kind
    return "float" if kind.bits == 32 else "double"


def _extension(kind: Type) -> str:
    """What C says of integers that are narrower than a register."""
    if isinstance(kind, Boolean):
        return "zeroext "
    narrow = isinstance(kind, Integer) and kind.bits < 32
    return "" if not narrow else "signext " if isinstance(kind, Integer) and kind.signed else "zeroext "


def _argument(e: FunctionEmitter, value: Value) -> Operand:
    if isinstance(value.type, Boolean):
        return e.text.emit("i8", f"zext {e.scalar(value).typed} to i8")
    return e.integer(value, value.type.bits) if isinstance(value.type, Integer) else e.scalar(value)


def _foreign(e: FunctionEmitter, instr: Instr) -> Operand | Sequence[Operand]:
    symbol: str = instr.attrs["symbol"]
    result = instr.type
    extensions = [_extension(value.type) for value in instr.operands]
    arguments = [_argument(e, value) for value in instr.operands]
    kinds = [argument.type for argument in arguments]
    by_pointer = instr.attrs["abi"] == "numba"
    slot = Operand("ptr", "null")
    if by_pointer:
        if result != none:
            slot = e.text.alloca(_type(result), 8)
        arguments, kinds, extensions = [slot, *arguments], ["ptr", *kinds], ["", *extensions]
        returned = "i32"
    else:
        returned = "void" if result == none else _extension(result) + _type(result)
    module = e.text.module
    group = module.attribute_group("convergent nounwind")
    declared = ", ".join(f"{kind} {extension}".strip() for kind, extension in zip(kinds, extensions, strict=True))
    module.declares.setdefault(symbol, f"declare {returned} @{symbol}({declared}) {group}")
    given = ", ".join(
        f"{argument.type} {extension}{argument.typed.partition(' ')[2]}"
        for argument, extension in zip(arguments, extensions, strict=True)
    )
    call = f"call {returned} @{symbol}({given}) {group}"
    if returned == "void":
        e.text.do(call)
        return ()
    found = e.text.emit(returned.rpartition(" ")[2], call)
    if by_pointer and result == none:
        return ()
    if by_pointer:
        found = e.text.emit(_type(result), f"load {_type(result)}, {slot.typed}")
    if isinstance(result, Boolean):
        return e.text.emit("i1", f"icmp ne {found.typed}, 0")
    return replace(found, signed=not isinstance(result, Integer) or result.signed)


ROWS = {"foreign": _foreign}
