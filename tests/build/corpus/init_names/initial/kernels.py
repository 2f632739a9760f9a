# SPDX-License-Identifier: Apache-2.0
# expect: k: N = 6; sizes.LATE = 21
# left: needs_missing: imports 'missing_thing'
import cudabuild as cb

from . import N, sizes


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + sizes.LATE


import initial


@cb.kernel("float32[::1]")
def needs_missing(x):
    x[0] = initial.table[0]
