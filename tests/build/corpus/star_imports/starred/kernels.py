# SPDX-License-Identifier: Apache-2.0
"""Star imports: with ``__all__`` and without, through two modules, rebound after, shadowed by a later one."""
# expect: k: N = 3; SHAPE = (3, 11, ); W = 2; floor = 7; helper/_HIDDEN = 9; helper = function helper
# expect: outer: starred.N = 3
from math import *

import cudabuild as cb
import starred
from starred import *
from .sizes import *

W = 2
floor = floor(7.9)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + SHAPE[1] + W + floor + helper(1)


@cb.kernel("float32[::1]")
def outer(x):
    x[0] = starred.N
