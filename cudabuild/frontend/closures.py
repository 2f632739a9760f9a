# SPDX-License-Identifier: Apache-2.0
"""Functions written inside a function that is compiled.

Python's closures share cells with the function around them: they see what a captured variable is when they are called.
Here a closure at rest in the frame whose variables it captures holds no values of them. Where it is called, passed on
or returned, the builder puts ``refresh``, which fills in what the variables are by now; what comes back to that frame
is emptied again. So a closure may capture others, and itself, without its type growing from turn to turn of a loop.
"""

from __future__ import annotations

from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.operands import ClosureOperand, Operand, TupleOperand, Undefined
from cudabuild.ir.hir import HirInstr, InnerFunction

__all__ = ["make", "refresh", "rest"]


def make(context: Context, instr: HirInstr, operands: list[Any], free: Any) -> Operand:
    """The operation ``function``: a closure of the frame that is being typed."""
    inner: InnerFunction = instr.attrs["inner"]
    frame = context.site[0]
    outer: ClosureOperand | None = frame.callee.closure
    inherited = outer.origins if outer is not None else {}
    captured: dict[str, Operand] = {}
    for name, operand in zip(inner.captured, operands, strict=False):
        captured[name] = operand if name in inherited else Undefined(name)
    origins = {name: inherited.get(name, (frame, name)) for name in inner.captured}
    defaults = dict(zip(instr.attrs["defaults"], operands[len(captured) :], strict=True))
    return ClosureOperand(inner, frame, captured, origins, defaults)


def refresh(context: Context, instr: HirInstr, operands: list[Any], free: Any) -> Operand:
    """The operation ``refresh``: the operand, with the variables that it captures of this frame as they are by now."""
    cells: dict[str, Operand] = dict(zip(instr.attrs["names"], operands[1:], strict=True))
    return _filled(operands[0], context.site[0], cells, ())


def _filled(operand: Operand, frame: Any, cells: dict[str, Operand], path: tuple[InnerFunction, ...]) -> Operand:
    if isinstance(operand, TupleOperand):
        return TupleOperand(tuple(_filled(one, frame, cells, path) for one in operand.elements), operand.kind)
    if not isinstance(operand, ClosureOperand) or operand.inner in path:
        return operand
    path = (*path, operand.inner)
    captured: dict[str, Operand] = {}
    for name, part in operand.captured.items():
        owner, variable = operand.origins[name]
        captured[name] = _filled(cells.get(variable, part) if owner is frame else part, frame, cells, path)
    defaults = {name: _filled(part, frame, cells, path) for name, part in operand.defaults.items()}
    return operand.with_parts(captured, defaults)


def rest(operand: Operand, frame: Any) -> Operand:
    """The operand as it rests in ``frame``: without values of that frame's variables."""
    if isinstance(operand, TupleOperand):
        return TupleOperand(tuple(rest(one, frame) for one in operand.elements), operand.kind)
    if not isinstance(operand, ClosureOperand):
        return operand
    captured: dict[str, Operand] = {}
    for name, part in operand.captured.items():
        captured[name] = Undefined(name) if operand.origins[name][0] is frame else rest(part, frame)
    return operand.with_parts(captured, {name: rest(part, frame) for name, part in operand.defaults.items()})
