# SPDX-License-Identifier: Apache-2.0
"""Which products become part of a fused multiply-add, decided on the typed IR.

LLVM contracts within its own basic blocks, so what it contracts depends on every branch and call that stands between:
a kernel with checks would give other last bits than the one without. A dialect that ``fuses`` has it decided here,
by the kernel alone: a product that one addition or subtraction of its own block uses, and nothing else.

    %2: float32 = mul %0, %1
    %3: float32 = add %2, %c             ->      %v3 = call float @llvm.fma.f32(float %v0, float %v1, float %c)
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cudabuild.ir.ir import Instr
from cudabuild.types import Float

if TYPE_CHECKING:
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.backend.text import Operand
    from cudabuild.ir.ir import Function, Value

__all__ = ["emit_fused", "find_fused"]


def find_fused(function: Function) -> dict[Instr, int]:
    """The additions and subtractions to fuse -> which operand is the product: the first of two."""
    uses: Counter[Value] = Counter(operand for instr in function.instructions() for operand in instr.operands)
    found: dict[Instr, int] = {}
    for instr in function.instructions():
        # The sums of a narrower type are rounded twice on the way: they stay as they are.
        if instr.op not in ("add", "sub") or not isinstance(instr.type, Float) or instr.type.bits < 32:
            continue
        for place, operand in enumerate(instr.operands):
            product = isinstance(operand, Instr) and operand.op == "mul" and operand.block is instr.block
            if product and uses[operand] == 1:
                found[instr] = place
                break
    return found


def emit_fused(e: FunctionEmitter, instr: Instr, place: int) -> Operand:
    """The addition or subtraction ``instr``, and the product that is its operand number ``place``, rounded once."""
    product, other = instr.operands[place], e.scalar(instr.operands[1 - place])
    assert isinstance(product, Instr)
    x, y = (e.scalar(factor) for factor in product.operands)
    if instr.op == "sub" and place == 0:
        other = e.text.emit(other.type, f"fneg {other.typed}")
    elif instr.op == "sub":
        x = e.text.emit(x.type, f"fneg {x.typed}")
    return e.text.call(x.type, f"llvm.fma.{'f32' if x.type == 'float' else 'f64'}", x, y, other)
