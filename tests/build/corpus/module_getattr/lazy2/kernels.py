# SPDX-License-Identifier: Apache-2.0
# expect: k: SIZE = 16; values.DEPTH = 4
import cudabuild as cb

from . import values
from .values import SIZE


@cb.kernel("float32[::1]")
def k(x):
    x[0] = SIZE + values.DEPTH
