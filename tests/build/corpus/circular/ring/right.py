# SPDX-License-Identifier: Apache-2.0
# expect: j: M = 3; EARLY = 1
import cudabuild as cb

from . import left
from .left import N as EARLY

left.table.append(5)
M = left.N + 2


@cb.kernel("float32[::1]")
def j(x):
    x[0] = M + EARLY
