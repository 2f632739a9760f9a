# SPDX-License-Identifier: Apache-2.0
"""Packages that are not there, used beside the kernels in every way; some of it reaches a kernel."""
# expect: good: N = 3; T = (2, )
# left: value: imports 'missing_thing'
# left: based: imports 'missing_other'
# left: touched: imports 'missing_thing'
# left: decorated: imports 'missing_other'
import cudabuild as cb
import missing_thing  # blame: value, touched
import missing_thing.sub as sub
from missing_other import Base, decorate  # blame: based, decorated

N = 3
T = (2,)
touched_table = [1, 2]


@missing_thing.command
def main(argument: sub.Type = sub.DEFAULT):
    return missing_thing.run(N, T, argument)


class Plot(Base):
    colour = missing_thing.colour("red")


class Sized(Base):
    SIZE = 4


missing_thing.register(touched_table)
VALUE = missing_thing.VALUE
TOUCHED = tuple(touched_table)


@cb.kernel("float32[::1]")
def good(x):
    x[0] = N + T[0]


@cb.kernel("float32[::1]")
def value(x):
    x[0] = VALUE


@cb.kernel("float32[::1]")
def based(x):
    x[0] = Sized.SIZE


@cb.kernel("float32[::1]")
def touched(x):
    x[0] = TOUCHED[0]


@decorate
@cb.kernel("float32[::1]")
def decorated(x):
    x[0] = N
