# SPDX-License-Identifier: Apache-2.0
"""``match``: captures, guards, classes, mappings and sequences that bind names."""
# expect: k: KIND = 2; HEAD = 1; REST = (2, 3, ); NAME = 5; X = 4; LEFT = 1
import cudabuild as cb


class Point:
    __match_args__ = ("x", "y")

    def __init__(self, x, y):
        self.x, self.y = x, y


match (1, 2, 3):
    case [HEAD, *rest] if HEAD > 0:
        KIND = 2
    case _:
        KIND = 1
REST = tuple(rest)

match {"name": 5, "more": 6}:
    case {"name": NAME, **left}:
        LEFT = len(left)

match Point(4, 0):
    case Point(x=0):
        X = 0
    case Point(X, 0 | 1):
        pass


@cb.kernel("float32[::1]")
def k(x):
    x[0] = KIND + HEAD + REST[0] + NAME + X + LEFT
