# SPDX-License-Identifier: Apache-2.0
"""Random kernels with loops and branches: what LLVM makes of the emitted text does what an interpreter of the IR does.

This is the test of narrowing: every value kept in 32 bits, every ``nsw`` and ``zext nneg`` goes through LLVM's
optimiser.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import pytest
from host_run import OneThread, run_on_host
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from interpreter import run
from programs import programs
from test_ranges_random import launches

from cudabuild.backend.dialects import Access
from cudabuild.backend.emit import FunctionEmitter
from cudabuild.backend.text import Operand
from cudabuild.ir.printer import format_function

_LOAD = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int64)
_STORE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int32)
REGISTERS = ("tid.x", "ntid.x", "ctaid.x", "nctaid.x")


def element(_: Any, index: int) -> int:
    """Some int32 for an index; small ones often."""
    mixed = (index * 2654435761 + 12345) % 2**32
    return mixed % 16 if mixed & 64 else mixed


class Recorded(OneThread):
    """Loads and stores call Python, special registers are read from memory."""

    def __init__(self) -> None:
        super().__init__()
        self.stores: list[tuple[int, int]] = []
        self.registers = (ctypes.c_int32 * len(REGISTERS))()
        self._load = _LOAD(lambda index: ctypes.c_int32(element(None, index)).value)
        self._store = _STORE(lambda index, value: self.stores.append((index, value)))

    def sreg(self, emitter: FunctionEmitter, register: str) -> Operand:
        place = ctypes.addressof(self.registers) + 4 * REGISTERS.index(register)
        return emitter.text.emit("i32", f"load i32, ptr inttoptr (i64 {place} to ptr), align 4", nneg=True)

    def access(
        self, emitter: FunctionEmitter, access: Access, perform: Callable[[Operand], Operand | None]
    ) -> Operand | None:
        index = emitter.convert(access.indices[0], 64)
        if access.kind == "load":
            return emitter.text.emit("i32", f"call i32 {_pointer(self._load)}({index.typed})")
        assert access.kind == "store"
        assert access.value is not None
        emitter.text.do(f"call void {_pointer(self._store)}({index.typed}, {access.value.typed})")
        return None


def _pointer(callback: Callable[..., Any]) -> str:
    address = ctypes.cast(callback, ctypes.c_void_p).value  # type: ignore[arg-type]
    return f"inttoptr (i64 {address} to ptr)"


@pytest.mark.parametrize("width", [32, 64])
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
)
@given(data=st.data())
def test_compiled_programs_do_what_the_ir_says(width: int, data: st.DataObject) -> None:
    function = data.draw(programs())
    dialect = Recorded()
    compiled = None
    for _ in range(4):
        arguments, threads = data.draw(launches(width))
        _, expected, ended = run(function, arguments, threads=threads, load=element, fuel=600)
        if not ended:
            continue
        if compiled is None:
            compiled = run_on_host(function, width, dialect=dialect)
        dialect.stores.clear()
        dialect.registers[:] = [threads[name] for name in REGISTERS]
        p, q, r, x_shape, y_shape = arguments
        compiled(p, q, r, None, *x_shape, None, *y_shape)
        wanted = [(index, ctypes.c_int32(value).value) for _, index, value in expected]
        assert dialect.stores == wanted, f"{arguments} {threads}\n{format_function(function)}"
    assume(compiled is not None)
