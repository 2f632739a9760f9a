# SPDX-License-Identifier: Apache-2.0
"""Functions that bind module names by ``global``, several calls deep, and closures that count with ``nonlocal``."""
# expect: k: N = 42; M = 7; COUNT = 3; G = 10
import cudabuild as cb

N = 1
M = 0
G = 1


def outer():
    def inner():
        global N
        N = 42

    inner()
    second()


def second():
    global M
    for M in range(8):
        pass


def make_counter():
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    return step


class Sets:
    def __init__(self, value):
        global G
        G = value


outer()
counter = make_counter()
counter()
counter()
COUNT = counter()
Sets(10)


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + M + COUNT + G
