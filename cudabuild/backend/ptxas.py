# SPDX-License-Identifier: Apache-2.0
"""PTX that ptxas would miscompile, written so that it does not.

Found by random programs that a GPU computed otherwise than the language defines, and read in the machine code that
nvJitLink and ptxas 12.9 and 13.0 write. The driver's own compiler is the same program, so PTX that is shipped is
written this way too.
"""

from __future__ import annotations

import re

__all__ = ["avoid_faults"]

#: 16-bit negation and magnitude as LLVM writes them: operation, result, operand.
_SIGN_OF_16_BITS = re.compile(r"\b(?:(neg|abs)\.s16|sub\.s16(?=\s+%\w+, 0,))(\s+)(%\w+), (?:0, )?(%\w+);")

_NEGATION = re.compile(r"\b(?:neg\.s32|sub\.s32(?=\s+%\w+, 0,))(\s+)(%\w+), (?:0, )?(%\w+);")


def avoid_faults(ptx: str) -> str:
    """``ptx`` with the same meaning, without what is known to be miscompiled.

    - 16-bit ``neg`` and ``abs``, on all targets: they are computed in 32 bits and taken for a result of 16. Where the
      next instruction extends the sign, -(-32768) is 32768. A multiplication is not taken so.
    - ``min(min(a, -b), c)`` of 32-bit integers, and the same of ``max``, on sm_90 and sm_100: the instruction for
      three operands loses the sign of its second one. Complement and 1 are not taken for a negation.
    """
    if ".s16" in ptx:
        ptx = _SIGN_OF_16_BITS.sub(_multiply, ptx)
    if ptx.count("min.s32") > 1 or ptx.count("max.s32") > 1:
        ptx = _NEGATION.sub(r"{ .reg .b32 %n; not.b32\1%n, \3; add.s32\1\2, %n, 1; }", ptx)
    return ptx


def _multiply(found: re.Match[str]) -> str:
    operation, gap, result, operand = found.groups()
    if operation == "abs":  # the result may be the operand's register
        return f"{{ .reg .b16 %n; mul.lo.s16{gap}%n, {operand}, -1; max.s16{gap}{result}, {operand}, %n; }}"
    return f"mul.lo.s16{gap}{result}, {operand}, -1;"
