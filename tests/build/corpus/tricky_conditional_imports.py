# SPDX-License-Identifier: Apache-2.0
"""Imports that may fail: what depends on them is left to JIT, what has a way without them is not."""
# expect: good: SIZE = 8
# left: flag: imports 'missing_thing'
# left: through: imports 'missing_thing'
# left: deep: imports 'missing_thing'
import cudabuild as cb

try:
    import missing_thing  # blame: flag, through, deep

    HAVE = True
    FACTOR = missing_thing.FACTOR
except ImportError:
    HAVE = False
    FACTOR = 1

try:
    from math import tau
except ImportError:
    tau = 6.28

SIZE = 8 if tau > 6 else 4
BLOCK = 32 if HAVE else 64


def scaled(value):
    return value * FACTOR


@cb.kernel("float32[::1]")
def good(x):
    x[0] = SIZE


@cb.kernel("float32[::1]")
def flag(x):
    x[0] = BLOCK


@cb.kernel("float32[::1]")
def through(x):
    x[0] = scaled(1)


if HAVE:

    @cb.kernel("float32[::1]")
    def deep(x):
        x[0] = SIZE
