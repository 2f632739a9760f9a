# SPDX-License-Identifier: Apache-2.0
"""The order in which the blocks of a launch begin: by their numbers, or shuffled to expose kernels that count on it.

The n-th block to begin is number ``(n * factor + offset) % blocks``: every block once, and nothing to remember.
"""

from __future__ import annotations

from itertools import count
from math import gcd
from random import Random

from cudabuild import config

__all__ = ["choose_order"]

_launches = count()


def choose_order(blocks: int) -> tuple[int, int]:
    """Factor and offset for a launch of ``blocks`` blocks; a factor of 0 leaves them in order.

    The setting ``cpu_order`` is the seed; every launch draws anew, so a program that is run again draws the same.
    """
    seed = config.get("cpu_order")
    if seed is None or blocks < 2:
        return 0, 0
    draw = Random(f"{seed}.{next(_launches)}")
    offset = draw.randrange(blocks)
    if blocks >= 1 << 31:  # the product must stay below 2**63
        return 1, offset
    while True:
        factor = draw.randrange(1, blocks)
        if gcd(factor, blocks) == 1:
            return factor, offset
