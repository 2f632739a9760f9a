# SPDX-License-Identifier: Apache-2.0
"""The ``print`` operation: its operands as 8-byte slots in memory, as the driver's ``vprintf`` takes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand
from cudabuild.ir.printing import PLACEHOLDERS, split_text
from cudabuild.types import Integer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Instr

__all__ = ["ROWS", "emit_vprintf", "store_slots", "text_global"]

#: CUDA C++ Programming Guide, "Formatted Output": what a call gets beyond is not printed.
_MOST_VALUES = 32


def _print(e: FunctionEmitter, instr: Instr) -> None:
    values = [e.integer(value, 64) if isinstance(value.type, Integer) else e.scalar(value) for value in instr.operands]
    assert all(value.type in ("i64", "double", "i1") for value in values)
    e.dialect.print(e, instr.attrs["text"], values)


ROWS = {"print": _print}


def text_global(emitter: FunctionEmitter, text: str, space: str = "") -> Operand:
    """A pointer to ``text`` and a NUL; equal texts share one global. ``space``: an address space and a blank."""
    module = emitter.module
    data = text.encode() + b"\0"
    body = "".join(f"\\{byte:02X}" for byte in data)
    line = f'internal unnamed_addr {space}constant [{len(data)} x i8] c"{body}", align 1'
    for name, known in module.text.globals.items():
        if known == f"@{name} = {line}":
            break
    else:
        name = f"{module.symbol}_text{len(module.text.globals)}"
        module.text.globals[name] = f"@{name} = {line}"
    if not space:
        return Operand("ptr", f"@{name}")
    return Operand("ptr", f"addrspacecast (ptr {space}@{name} to ptr)")


def store_slots(emitter: FunctionEmitter, values: Sequence[Operand]) -> Operand:
    """Stores values of 8 bytes one after the other, on the stack; null for none."""
    text = emitter.text
    if not values:
        return Operand("ptr", "null")
    slots = text.alloca(f"[{len(values)} x i64]", 8)
    for number, value in enumerate(values):
        at = text.emit("ptr", f"getelementptr inbounds i8, {slots.typed}, i64 {8 * number}")
        text.do(f"store {value.typed}, {at.typed}, align 8")
    return slots


def emit_vprintf(emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
    """Calls ``vprintf``: once, or where there are too many values for it once for every 32 of them."""
    rest = list(values)
    piece: list[str] = []
    taken: list[Operand] = []
    for part in split_text(text):
        if part in PLACEHOLDERS:
            if len(taken) == _MOST_VALUES:
                _call(emitter, "".join(piece), taken)
                piece, taken = [], []
            taken.append(_slot(emitter, rest.pop(0)))
        piece.append(part)
    if piece:
        _call(emitter, "".join(piece), taken)


def _slot(emitter: FunctionEmitter, value: Operand) -> Operand:
    if value.type != "i1":
        return value
    words = [text_global(emitter, word, _GLOBAL) for word in ("True", "False")]
    return emitter.text.emit("ptr", f"select {value.typed}, {words[0].typed}, {words[1].typed}")


_GLOBAL = "addrspace(1) "


def _call(emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
    slots = store_slots(emitter, values)
    emitter.text.call("i32", "vprintf", text_global(emitter, text, _GLOBAL), slots)
