# SPDX-License-Identifier: Apache-2.0
"""Device functions that factories make: captured values, shared cells, defaults, counters."""
# expect: k: scale = function scale; scale/n = 6; TOTAL = 8; shift = function shift
import cudabuild as cb

AMOUNT = 2


def make(n):
    n += 1

    def inner(a):
        return a * n

    return inner


def accumulate():
    total = 0

    def add(value):
        nonlocal total
        total += value
        return total

    return add


def shifted(a, amount=AMOUNT + 1):
    return a + amount


scale = make(5)
add = accumulate()
add(3)
TOTAL = add(5)
shift = shifted


@cb.kernel("float32[::1]")
def k(x):
    x[0] = scale(x[0]) + TOTAL + shift(x[1])
