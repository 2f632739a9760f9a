# SPDX-License-Identifier: Apache-2.0
# expect: k: base.N = 2; TABLE = (1, 2, )
import cudabuild as cb

from . import base

TABLE = tuple(base.table)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = base.N + TABLE[1]
