# SPDX-License-Identifier: Apache-2.0
"""Calls of libdevice's functions by their own names (``cuda.libdevice``), on both devices.

What a function stores through a pointer goes to the stack and is loaded again; LLVM's optimiser removes both once the
function is inlined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand, replace
from cudabuild.lang.libdevice import FUNCTIONS
from cudabuild.types import Array, Integer

if TYPE_CHECKING:
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Instr, Value

__all__ = ["ROWS"]

_LLVM = {"float32": "float", "float64": "double", "void": "void"}


def _llvm(name: str) -> str:
    return _LLVM.get(name) or f"i{name.lstrip('uint')}"


def _libdevice(e: FunctionEmitter, instr: Instr) -> list[Operand]:
    function = instr.attrs["function"]
    signature = FUNCTIONS[function]
    text = e.text
    given = iter(instr.operands)
    stored: list[tuple[str, Operand]] = []
    arguments: list[Operand] = []
    for name in signature.parameters:
        if name[0] == "*":
            slot = text.alloca(_llvm(name[1:]), 8)
            stored.append((_llvm(name[1:]), slot))
            arguments.append(slot)
        else:
            arguments.append(_argument(e, next(given)))
    symbol = f"__nv_{function}"
    text.module.libdevice.add(symbol)
    results = [text.call(_llvm(signature.result), symbol, *arguments)]
    if signature.result == "void":
        results = []
    results += [text.emit(kind, f"load {kind}, {slot.typed}") for kind, slot in stored]
    return [replace(result, signed=name[0] != "u") for result, name in zip(results, signature.results, strict=True)]


def _argument(e: FunctionEmitter, value: Value) -> Operand:
    if isinstance(value.type, Integer):
        return e.integer(value, value.type.bits)
    if isinstance(value.type, Array):
        data = e.leaves[value][0]
        return data if data.type == "ptr" else e.text.emit("ptr", f"addrspacecast {data.typed} to ptr")
    return e.scalar(value)


ROWS = {"libdevice": _libdevice}
