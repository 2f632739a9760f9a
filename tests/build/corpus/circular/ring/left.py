# SPDX-License-Identifier: Apache-2.0
"""Two modules that import each other; each changes the other's table while both are half made."""
# expect: k: N = 2; TABLE = (1, 5, ); right.M = 3
import cudabuild as cb

N = 1
table = [1]
from . import right

N += 1
TABLE = tuple(table)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + TABLE[1] + right.M
