# SPDX-License-Identifier: Apache-2.0
"""Runs a hand-built kernel as one thread on this machine, through the emitter's own text: values can be compared."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence

from cudabuild.backend import llvm
from cudabuild.backend.dialects import Dialect
from cudabuild.backend.emit import FunctionEmitter, emit_module
from cudabuild.backend.text import Operand
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.ir.ir import Function
from cudabuild.ir.ranges import compute_ranges
from cudabuild.types.layout import Field, parameter_fields

__all__ = ["OneThread", "run_on_host"]

_names = itertools.count()
_CTYPES = {
    "?": ctypes.c_uint8, "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16,
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64,
    "f": ctypes.c_float, "d": ctypes.c_double, "P": ctypes.c_void_p,
}  # fmt: skip


class OneThread(Dialect):
    """The smallest host: one thread, no barriers, of the mathematical functions only ``fmod``."""

    name = "one thread"

    def __init__(self) -> None:
        self.triple = llvm.host_triple()

    def open_kernel(self, emitter: FunctionEmitter, symbol: str, fields: Sequence[Field]) -> list[Operand]:
        operands = [Operand(emitter.field_type(field), f"%p{n}") for n, field in enumerate(fields)]
        header = f"define void @{symbol}({', '.join(operand.typed for operand in operands)})"
        emitter.text = emitter.module.text.function(symbol, header)
        return operands

    def shared(self, emitter: FunctionEmitter, key: str, memory_type: str, count: int) -> Operand:
        return emitter.text.alloca(f"[{count} x {memory_type}]", 16)

    def math(self, emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
        assert function == "fmod", function
        a, b = operands
        return emitter.text.emit(a.type, f"frem {a.typed}, {b.text}")


def run_on_host(
    function: Function,
    width: int = 64,
    level: int = 3,
    options: Options = DEFAULT_OPTIONS,
    dialect: Dialect | None = None,
) -> Callable[..., None]:
    """A Python function that runs ``function`` with the fields of its parameter block as arguments."""
    symbol = f"hosted{next(_names)}"
    module = emit_module(
        function,
        dialect or OneThread(),
        symbol=symbol,
        index_width=width,
        ranges_of=lambda one: compute_ranges(one, index_width=width),
        options=options,
    )
    parsed = llvm.parse_module(module.format())
    machine = llvm.host_machine(level)
    llvm.optimise_module(parsed, machine, level)
    library = llvm.load_object(symbol, llvm.emit_object(parsed, machine), [symbol], {})
    fields = parameter_fields(tuple(param.type for param in function.params), width)
    call = ctypes.CFUNCTYPE(None, *(_CTYPES[field.format] for field in fields))(library.address(symbol))
    call.library = library  # type: ignore[attr-defined]
    return call
