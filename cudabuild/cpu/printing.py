# SPDX-License-Identifier: Apache-2.0
"""``print`` of kernels on this computer: compiled code hands text and values to Python, which writes whole lines.

They go where Python's own ``print`` goes (``sys.stdout``), so that notebooks and test tools see them. One thread writes
at a time; in which order the threads of a kernel come is not promised.
"""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import TYPE_CHECKING

from cudabuild.backend.printing import store_slots, text_global
from cudabuild.cpu.workers import report_error
from cudabuild.ir.printing import PLACEHOLDERS, split_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.backend.text import Operand

__all__ = ["PRINT", "emit_print", "print_symbols"]

#: The symbol that compiled code calls: ``void (const char *text, const void *slots)``.
PRINT = "cudabuild.print"

_FORMATS = {"%lld": "q", "%llu": "Q", "%f": "d", "%+f": "d", "%s": "q"}


def emit_print(emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
    """Appends the call."""
    wide = [emitter.text.emit("i64", f"zext {v.typed} to i64") if v.type == "i1" else v for v in values]
    slots = store_slots(emitter, wide)
    emitter.text.call("void", PRINT, text_global(emitter, text), slots)


def print_symbols() -> dict[str, int]:
    """The address of what compiled code calls."""
    return {PRINT: ctypes.cast(_callback, ctypes.c_void_p).value or 0}


def _write(text: bytes, slots: int) -> None:
    try:
        sys.stdout.write(_format(text, slots))
    except BaseException as error:  # handed to the thread that waits, which raises it
        report_error(error)


def _format(text: bytes, slots: int) -> str:
    parts = split_text(text.decode())
    kinds = [part for part in parts if part in PLACEHOLDERS]
    data = ctypes.string_at(slots, 8 * len(kinds)) if kinds else b""
    values = iter(struct.unpack(f"={''.join(_FORMATS[kind] for kind in kinds)}", data))
    return "".join(_spell(part, next(values)) if part in PLACEHOLDERS else _plain(part) for part in parts)


def _plain(text: str) -> str:
    return text.replace("%%", "%")


def _spell(kind: str, value: float) -> str:
    if kind == "%s":
        return str(bool(value))
    return str(value) if kind in ("%lld", "%llu") else kind % value


_callback = ctypes.CFUNCTYPE(None, ctypes.c_char_p, ctypes.c_void_p)(_write)
