# SPDX-License-Identifier: Apache-2.0
"""Enumerations: automatic and computed values, flags, aliases, members taken by name and by value."""
import enum

import cudabuild as cb
# expect: k: Colour.GREEN = int enum Colour.GREEN=2; BOTH = 3; COUNT = 3; TOP = 7


class Colour(enum.IntEnum):
    RED = enum.auto()
    GREEN = enum.auto()
    BLUE = RED + GREEN + 4

    @property
    def twice(self):
        return self.value * 2


class Mode(enum.IntFlag):
    FAST = 1
    EXACT = 2
    BOTH = FAST | EXACT


BOTH = int(Mode.BOTH)
COUNT = len(Colour)
TOP = max(Colour).value
Dynamic = enum.IntEnum("Dynamic", {name: index for index, name in enumerate("ABC")})


@cb.kernel("int32[::1]")
def k(x):
    x[0] = Colour.GREEN + BOTH + COUNT + TOP
