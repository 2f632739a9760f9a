# SPDX-License-Identifier: Apache-2.0
# expect: k: WEIGHT = 40; COEFFICIENT = 7; base.N = 9; base.M = 5
import cudabuild as cb

from . import base

WEIGHT = base.Scheme().weight()
COEFFICIENT = base.coefficient()


@cb.kernel("float32[::1]")
def k(x):
    x[0] = WEIGHT + COEFFICIENT + base.N + base.M
