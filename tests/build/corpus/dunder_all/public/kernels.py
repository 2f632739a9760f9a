# SPDX-License-Identifier: Apache-2.0
# expect: k: N = 1; M = 2; P = 3; _Q = 4; TABLE = (5, 6, )
import cudabuild as cb

from .numbers import *
from .tables import *


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + M + P + _Q + TABLE[0]
