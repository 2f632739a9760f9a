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
from cudabuild.ir.ops import OPS, Effect

__all__ = ["merge_common_subexpressions"]

#: Pure operations that stay as they are: phis belong to their block, and arrays made in a kernel are told apart by key.
_SINGULAR = frozenset(("phi", "undef", "shared", "local", "dynamic_shared"))
_MERGED = frozenset(name for name, spec in OPS.items() if spec.effect == Effect.PURE) - _SINGULAR


def merge_common_subexpressions(function: Function) -> bool:
    """Replaces pure instructions by equal ones that dominate them, in place; True if there were any."""
    dominators = Dominators(reverse_postorder(function))
    changes: dict[Value, Value] = {}
    known: dict[Any, Instr] = {}  # what is computed in the blocks that dominate the one at hand
    stack: list[tuple[Block, list[Any] | None]] = [(dominators.order[0], None)]
    while stack:
        block, added = stack.pop()
        if added is not None:  # the blocks below have been seen
            for key in added:
                del known[key]
            continue
        added = []
        for instr in block.instructions:
            if instr.op not in _MERGED:
                continue
            key = _key(instr, changes)
            first = known.get(key)
            if first is None:
                known[key] = instr
                added.append(key)
            else:
                changes[instr] = first
        stack.append((block, added))
        stack += [(child, None) for child in dominators.children[block]]
    if changes:
        replace_uses(function, changes)
        for block in function.blocks:
            block.instructions = [instr for instr in block.instructions if instr not in changes]
    return bool(changes)


def _key(instr: Instr, changes: dict[Value, Value]) -> Any:
    """Equal for instructions that compute the same. The repr of attributes tells 0.0 from -0.0, and True from 1."""
    attrs = instr.attrs
    text = "" if not attrs else repr(attrs) if len(attrs) == 1 else repr(sorted(attrs.items()))
    return instr.op, instr.type.name, text, *[changes.get(operand, operand) for operand in instr.operands]
