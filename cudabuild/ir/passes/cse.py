# SPDX-License-Identifier: Apache-2.0
"""Uses a value again instead of computing it again (common subexpressions).

LLVM would do it too, but only after the index arithmetic is written: what a test says about ``t * 16 + tx`` is known of
the index ``t * 16 + tx`` only if the two are one value.

Before::

    entry:                                      after:
      %0: int = dim %x axis=0                     %0: int = dim %x axis=0
      %1: bool = cmp %i, %0 predicate=lt          %1: bool = cmp %i, %0 predicate=lt
      branch %1 then=b1 else=b2                   branch %1 then=b1 else=b2
    b1:                                         b1:
      %2: int = dim %x axis=0                     %2: int = wrap %i, %0
      %3: int = wrap %i, %2

Nothing moves: a value is used again only where it is computed on every path.
"""

from __future__ import annotations

from typing import Any

from cudabuild.ir.cfg import Dominators, reverse_postorder
from cudabuild.ir.ir import Block, Function, Instr, Value, replace_uses
from cudabuild.ir.ops import Effect

__all__ = ["merge_common_subexpressions"]

#: Pure operations that stay as they are: phis belong to their block, and arrays made in a kernel are told apart by key.
_SINGULAR = frozenset(("phi", "undef", "shared", "local", "dynamic_shared"))


def merge_common_subexpressions(function: Function) -> bool:
    """Replaces pure instructions by equal ones that dominate them, in place; True if there were any."""
    dominators = Dominators(reverse_postorder(function))
    changes: dict[Value, Value] = {}
    stack: list[tuple[Block, dict[Any, Instr]]] = [(dominators.order[0], {})]
    while stack:
        block, known = stack.pop()
        for instr in block.instructions:
            if instr.effect != Effect.PURE or instr.op in _SINGULAR:
                continue
            key = _key(instr, changes)
            first = known.setdefault(key, instr)
            if first is not instr:
                changes[instr] = first
        stack += [(child, dict(known)) for child in dominators.children[block]]
    if changes:
        replace_uses(function, changes)
        for block in function.blocks:
            block.instructions = [instr for instr in block.instructions if instr not in changes]
    return bool(changes)


def _key(instr: Instr, changes: dict[Value, Value]) -> Any:
    """Equal for instructions that compute the same. The repr of attributes tells 0.0 from -0.0, and True from 1."""
    operands = tuple(changes.get(operand, operand) for operand in instr.operands)
    return instr.op, instr.type, operands, repr(sorted(instr.attrs.items()))
