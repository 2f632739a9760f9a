# SPDX-License-Identifier: Apache-2.0
"""Where paths meet: Python integers that the type of a variable, or of a result, cannot hold are complained of."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.frontend.context import Context
from cudabuild.frontend.operands import Operand, const_of, is_const, map_leaves
from cudabuild.frontend.shapes import pour
from cudabuild.ir.hir import HirInstr
from cudabuild.ir.ir import Block, Value
from cudabuild.types import WeakInteger

if TYPE_CHECKING:
    from cudabuild.frontend.infer import FunctionInference

__all__ = ["check_joins"]

#: What every type of integers holds.
_SMALL = range(128)


def check_joins(inference: FunctionInference) -> None:
    """Looks at the constants that come to each phi and each ``return``, once types are settled."""
    if not inference.table.holds_constants or inference.refused:
        return
    reached = {inference.hir.blocks[0]} | {target for _, target in inference.edges}
    for block in inference.hir.blocks:
        for instr in block.instructions if block in reached else ():
            if instr.op == "phi":
                shape = inference.states.get(instr)
                for operand, predecessor in zip(instr.operands, block.predecessors, strict=True):
                    if (predecessor, block) in inference.edges:
                        _check(inference, shape, operand)
            elif instr.op == "return" and instr.operands and not inference.is_kernel:
                _check(inference, inference.result, instr.operands[0])


def _check(inference: FunctionInference, shape: Operand | None, operand: HirInstr | None) -> None:
    given = None if operand is None else inference.states.get(operand)
    if shape is None or given is None or operand is None or not _holds_large(given):
        return
    context = Context(Block("scratch"), inference.session, inferring=True, table=inference.table)
    pour(context, shape, given)
    for complaint in context.complaints:
        inference.typing.add(complaint, operand.location, complaint=True)


def _holds_large(operand: Operand) -> bool:
    """Whether there is a known Python integer in it that some type of integers cannot hold."""
    found = False

    def look(value: Value) -> Value:
        nonlocal found
        if isinstance(value.type, WeakInteger) and is_const(value) and const_of(value) not in _SMALL:
            found = True
        return value

    map_leaves(operand, look)
    return found
