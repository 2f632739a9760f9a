# SPDX-License-Identifier: Apache-2.0
"""Typed IR as text, one instruction a line.

::

    kernel saxpy(a: float32, x: float32[::1]) -> none
    entry:
      %0: int = grid axis=0
      %1: int = dim %x axis=0
      %2: bool = cmp %0, %1 predicate=lt
      branch %2 then=b1 else=b2
"""

from __future__ import annotations

from cudabuild.ir.ir import Block, Function, Instr, Param, Value
from cudabuild.types import NoneType

__all__ = ["format_function"]


def format_function(function: Function, *, callees: bool = True, locations: bool = False) -> str:
    """The text of ``function``, and of the device functions it reaches, callees first."""
    functions = [*function.callees, function] if callees else [function]
    return "\n\n".join(_format_one(f, locations) for f in functions) + "\n"


def _format_one(function: Function, locations: bool) -> str:
    names: dict[Value, str] = {param: f"%{param.name}" for param in function.params}
    for instr in function.instructions():
        if not isinstance(instr.type, NoneType):
            names[instr] = f"%{len(names) - len(function.params)}"
    kind = "kernel" if function.is_kernel else "device"
    params = ", ".join(f"{p.name}: {p.type.name}" for p in function.params)
    lines = [f"{kind} {function.name}({params}) -> {function.result.name}"]
    for block in function.blocks:
        preds = f"  ; from {', '.join(p.name for p in block.predecessors)}" if block.predecessors else ""
        lines.append(f"{block.name}:{preds}")
        lines += [_format_instr(instr, names, locations) for instr in block.instructions]
    return "\n".join(lines)


def _format_instr(instr: Instr, names: dict[Value, str], locations: bool) -> str:
    operands = ", ".join(names.get(v, f"%?{v.name}" if isinstance(v, Param) else "%?") for v in instr.operands)
    attrs = " ".join(f"{key}={_format_attr(value)}" for key, value in instr.attrs.items())
    text = " ".join(part for part in (instr.op, operands, attrs) if part)
    if instr in names:
        text = f"{names[instr]}: {instr.type.name} = {text}"
    if instr.hint:
        text += f"  ; {instr.hint}"
    if locations and instr.location is not None:
        text += f"  ; line {instr.location.line}"
    return "  " + text


def _format_attr(value: object) -> str:
    """A block or function by name, a word as it is, anything else as Python writes it, without spaces."""
    if isinstance(value, (Block, Function)):
        return value.name
    if isinstance(value, str) and value.isidentifier() and value not in ("True", "False", "None", "inf", "nan"):
        return value
    if isinstance(value, str) and "." in value and all(part.isidentifier() for part in value.split(".")):
        return value
    return repr(value).replace(", ", ",") if isinstance(value, tuple) else repr(value)
