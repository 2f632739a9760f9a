# SPDX-License-Identifier: Apache-2.0
"""Named tuples: typed ones, plain ones, defaults, ``_replace``, used whole and by field."""
# expect: k: DX = 0.5; NY = 12; PLAIN = 4; FIRST = 3
from collections import namedtuple
from typing import NamedTuple

import cudabuild as cb


class Grid(NamedTuple):
    nx: int
    ny: int = 4
    dx: float = 1.0

    @property
    def cells(self):
        return self.nx * self.ny


Point = namedtuple("Point", "x y", defaults=(4,))
grid = Grid(3)
grid = grid._replace(dx=grid.dx / 2)
DX = grid.dx
NY = grid.cells
PLAIN = Point(1).y
FIRST, *_ = grid


@cb.kernel("float32[::1]")
def k(x):
    x[0] = DX + NY + PLAIN + FIRST
