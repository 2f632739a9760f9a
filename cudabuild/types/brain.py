# SPDX-License-Identifier: Apache-2.0
"""bfloat16 on the host, where NumPy has no such type: its nearest value and its bits.

The launch path imports this module.
"""

from __future__ import annotations

__all__ = ["brain_bits", "round_brain"]


def round_brain(value: float) -> float:
    """The bfloat16 nearest to ``value``, ties to even; what is too large becomes infinite."""
    import math

    if not math.isfinite(value) or value == 0.0:
        return value
    exponent = math.frexp(value)[1] - 1
    unit = math.ldexp(1.0, max(exponent, -126) - 7)  # the distance of bfloat16s there
    rounded = round(value / unit) * unit  # exact: a power of two, and whole numbers of at most 9 bits
    return math.copysign(math.inf if abs(rounded) >= 2.0**128 else rounded, value)


def brain_bits(value: float) -> int:
    """The 16 bits of the bfloat16 nearest to ``value``."""
    import struct

    return int.from_bytes(struct.pack(">f", round_brain(float(value)))[:2], "big")
