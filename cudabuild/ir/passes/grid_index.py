# SPDX-License-Identifier: Apache-2.0
"""Recognises a thread's position in the grid where it is written out.

Before::                                             After::

    %4: int = mul %ctaid_x, %ntid_x                      %7: int = grid axis=0
    %7: int = add %4, %tid_x

Everything that is known of ``cuda.grid`` (its range, that it grows with ``threadIdx.x`` and nothing else, which check
of an index it makes needless) then holds for ``cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x`` too; likewise
``cuda.gridDim.x * cuda.blockDim.x`` and ``cuda.gridsize``. Only sums in 64 bits: a narrower one could wrap.
"""

from __future__ import annotations

from cudabuild.ir.ir import Function, Instr, Value
from cudabuild.types import Integer

__all__ = ["recognise_grid"]


def recognise_grid(function: Function) -> bool:
    """Turns the sums and products of ``function`` that mean ``grid`` or ``gridsize`` into these operations; True if
    there were any."""
    found = False
    for instr in function.instructions():
        if instr.op not in ("add", "mul") or not (isinstance(instr.type, Integer) and instr.type.bits == 64):
            continue
        if not instr.type.signed:
            continue
        op, axis = ("grid", _grid_axis(instr)) if instr.op == "add" else ("gridsize", _axis(instr, "nctaid", "ntid"))
        if axis is not None:
            instr.op, instr.operands, instr.attrs = op, [], {"axis": axis}
            found = True
    return found


def _grid_axis(add: Instr) -> int | None:
    for product, thread in (add.operands, reversed(add.operands)):
        register = _register(thread)
        if isinstance(product, Instr) and product.op == "mul" and register.startswith("tid."):
            axis = _axis(product, "ctaid", "ntid")
            return axis if axis == "xyz".index(register[-1]) else None
    return None


def _axis(product: Instr, *names: str) -> int | None:
    """The axis if the operands are the registers ``names`` of one axis, in either order."""
    registers = sorted(_register(operand) for operand in product.operands)
    for axis, letter in enumerate("xyz"):
        if registers == sorted(f"{name}.{letter}" for name in names):
            return axis
    return None


def _register(value: Value) -> str:
    """The register that ``value`` holds, widened or not; "" for none."""
    while isinstance(value, Instr) and value.op == "cast":
        if not (isinstance(value.type, Integer) and value.type.bits >= 32):
            return ""
        value = value.operands[0]
    return str(value.attrs["register"]) if isinstance(value, Instr) and value.op == "sreg" else ""
