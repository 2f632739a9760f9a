# SPDX-License-Identifier: Apache-2.0
"""Whether the blocks of a row may run as one block with a longer row.

Between two blocks a worker begins anew: it takes the next one, finds the first and the last thread that pass the
guard, asks whether the arrays overlap, and does the rest of a row that fills no vector register. A stencil in blocks of
256 threads took 1.2 times as long for it, in blocks of 32 three times. A kernel whose threads know their place in the
grid only, and not that in a block, cannot tell one long row from several short ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cudabuild.ir.ir import Function, Instr

__all__ = ["can_join"]

#: Registers that tell blocks of a row apart, or the threads within one.
_TELLING = frozenset(("tid.x", "ctaid.x", "laneid", "lanemask_lt"))


def can_join(function: Function) -> bool:
    """True if no thread of the kernel can tell in which block of its row it is; it waits for no other thread."""
    return not any(_tells(instr) for one in [*function.callees, function] for instr in one.instructions())


def _tells(instr: Instr) -> bool:
    if instr.op == "sreg":
        return instr.attrs["register"] in _TELLING
    return instr.op in ("shared", "dynamic_shared")
