# SPDX-License-Identifier: Apache-2.0
"""Variables that are read where they may have no value: told as warnings, where a program asks for them."""

from __future__ import annotations

import warnings

from cudabuild.cuda.errors import NumbaWarning
from cudabuild.frontend.infer import FunctionInference
from cudabuild.frontend.operands import Undefined

__all__ = ["warn_of_missing_values"]


def warn_of_missing_values(root: FunctionInference) -> None:
    """Warns of each variable of a function, and of the functions that it calls, that some path leaves without a
    value."""
    pending, seen = [root], {root}
    while pending:
        inference = pending.pop(0)
        for variable in _missing(inference):
            name = inference.callee.qualname
            warnings.warn(f"Detected uninitialized variable {variable} in {name}", NumbaWarning, stacklevel=2)
        callees = [specialisation.inference for specialisation in inference.called]
        pending += [one for one in callees if one not in seen]
        seen.update(callees)


def _missing(inference: FunctionInference) -> list[str]:
    found: dict[str, None] = {}
    reached = {inference.hir.blocks[0]} | {target for _, target in inference.edges}
    for block in inference.hir.blocks:
        for instr in block.instructions if block in reached else ():
            if instr.op in ("function", "refresh"):
                continue
            for operand in instr.operands:
                state = None if operand is None else inference.states.get(operand)
                if isinstance(state, Undefined) and state.variable[0] != "<":
                    found[state.variable] = None
    return list(found)
