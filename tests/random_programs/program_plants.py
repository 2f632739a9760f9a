# SPDX-License-Identifier: Apache-2.0
"""Three wrong lowerings to be found by random programs; each replaces something of the compiler in this process."""

from __future__ import annotations

import os
import time
from typing import Any

__all__ = ["ACCIDENTS", "PLANTS", "plant"]


def _floor_division(emit: Any) -> None:
    """``//`` of int16 rounds towards zero, as the machine's instruction does."""
    from cudabuild.backend import arithmetic
    from cudabuild.types import int16

    right = emit._ROWS["floordiv"]

    def wrong(e: Any, instr: Any) -> Any:
        if instr.type != int16:
            return right(e, instr)
        a, b = (e.integer(value, 16) for value in instr.operands)
        zero = e.text.emit("i1", f"icmp eq {b.typed}, 0")
        minus = e.text.emit("i1", f"icmp eq {b.typed}, -1")
        unsafe = e.text.emit("i1", f"or {zero.typed}, {minus.text}")
        whole = e.text.emit(a.type, f"sdiv {a.typed}, {arithmetic._safe_divisor(e, b, unsafe).text}")
        negated = e.text.emit(a.type, f"sub i16 0, {a.text}")
        some = e.text.emit(a.type, f"select {minus.typed}, {negated.typed}, {whole.typed}")
        return e.integer_result(instr, arithmetic._zero_if(e, zero, some))

    emit._ROWS["floordiv"] = wrong


def _unsigned_shift(emit: Any) -> None:
    """``>>`` of uint32 keeps the upper bit."""
    from cudabuild.ir.ir import Instr
    from cudabuild.types import int32, uint32

    right = emit._ROWS["shr"]

    def wrong(e: Any, instr: Any) -> Any:
        if instr.type != uint32:
            return right(e, instr)
        signed = Instr(int32, instr.location, "shr", instr.operands, instr.attrs, instr.block)
        return right(e, signed)

    emit._ROWS["shr"] = wrong


def _swapped_phi(emit: Any) -> None:
    """Where a branch ends, the second of two variables takes the value of the other way."""
    from cudabuild.cpu import compile as host

    lower = host._lower

    def wrong(definition: Any, signature: Any) -> Any:
        function = lower(definition, signature)
        for block in function.blocks:
            phis = block.phis
            if len(phis) >= 2 and len(block.predecessors) == 2:
                phis[1].operands = phis[1].operands[::-1]
                break
        return function

    host._lower = wrong


def _dies(emit: Any) -> None:
    """The compiler takes the process with it."""
    emit._ROWS["add"] = lambda e, instr: os.abort()


def _hangs(emit: Any) -> None:
    """The compiler does not come to an end."""
    emit._ROWS["add"] = lambda e, instr: time.sleep(1000)


#: What is wrong with the process rather than with results.
ACCIDENTS = {"crash": _dies, "hang": _hangs}

PLANTS = {
    "int16 // int16 rounds towards zero": _floor_division,
    "uint32 >> n is arithmetic": _unsigned_shift,
    "a phi with its values swapped": _swapped_phi,
}


def plant(name: str) -> None:
    """Makes the compiler wrong in this process."""
    from cudabuild.backend import emit

    (PLANTS.get(name) or ACCIDENTS[name])(emit)
