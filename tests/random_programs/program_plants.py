# SPDX-License-Identifier: Apache-2.0
"""Wrong lowerings to be found by random programs; each replaces something of the compiler in this process."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Sequence
from typing import Any

__all__ = ["ACCIDENTS", "PLANTS", "plant"]


def _truncated(emit: Any, types: Sequence[Any]) -> None:
    """``//`` of these types rounds towards zero, as the machine's instruction does."""
    from cudabuild.backend import arithmetic

    right = emit._ROWS["floordiv"]

    def wrong(e: Any, instr: Any) -> Any:
        if instr.type not in types:
            return right(e, instr)
        bits = instr.type.bits
        a, b = (e.integer(value, bits) for value in instr.operands)
        zero = e.text.emit("i1", f"icmp eq {b.typed}, 0")
        minus = e.text.emit("i1", f"icmp eq {b.typed}, -1")
        unsafe = e.text.emit("i1", f"or {zero.typed}, {minus.text}")
        whole = e.text.emit(a.type, f"sdiv {a.typed}, {arithmetic._safe_divisor(e, b, unsafe).text}")
        negated = e.text.emit(a.type, f"sub {a.type} 0, {a.text}")
        some = e.text.emit(a.type, f"select {minus.typed}, {negated.typed}, {whole.typed}")
        return e.integer_result(instr, arithmetic._zero_if(e, zero, some))

    emit._ROWS["floordiv"] = wrong


def _negation(emit: Any) -> None:
    """``-x`` of an integer is one too low."""
    from cudabuild.types import Integer

    right, inverted = emit._ROWS["neg"], emit._ROWS["inv"]
    emit._ROWS["neg"] = lambda e, instr: (inverted if isinstance(instr.type, Integer) else right)(e, instr)


def _floor_division(emit: Any) -> None:
    from cudabuild.types import int16

    _truncated(emit, (int16,))


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


def _lost_swap(emit: Any) -> None:
    """Variables that take one another's value in a loop are copied one after the other, so that one is lost."""
    from cudabuild.cpu import compile as host

    lower = host._lower

    def wrong(definition: Any, signature: Any) -> Any:
        function = lower(definition, signature)
        for block in function.blocks:
            phis = block.phis
            for first, second in itertools.permutations(phis, 2):
                for place, value in enumerate(second.operands):
                    if value is first and first.operands[place] is second:
                        second.operands[place] = second
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

#: The first is found by many programs, the others are rarer.
PLANTS = {
    "-x is one too low": _negation,
    "int16 // int16 rounds towards zero": _floor_division,
    "uint32 >> n is arithmetic": _unsigned_shift,
    "a swap in a loop loses a value": _lost_swap,
}


def plant(name: str) -> None:
    """Makes the compiler wrong in this process."""
    from cudabuild.backend import emit

    (PLANTS.get(name) or ACCIDENTS[name])(emit)
