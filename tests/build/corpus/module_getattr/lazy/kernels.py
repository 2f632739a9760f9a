# SPDX-License-Identifier: Apache-2.0
# left: k: imports 'missing_thing'
# expect: plain: SCALE = 2
import cudabuild as cb

from . import values

SIZE = values.SIZE
SCALE = 2


@cb.kernel("float32[::1]")
def k(x):
    x[0] = SIZE


@cb.kernel("float32[::1]")
def plain(x):
    x[0] = SCALE
