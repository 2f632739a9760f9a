# SPDX-License-Identifier: Apache-2.0
"""Lambdas: with effects, late binding, in tables, as keys, as device functions."""
# expect: k: N = 4; M = 6; ORDER = (3, 2, 1, ); LATE = (2, 2, 2, ); double = function double; EFFECT = 3
import cudabuild as cb

table = {"a": lambda value: value * 2, "b": lambda: counter.append(1)}
counter = []
N = table["a"](2)
table["b"]()
table["b"]()
table["b"]()
EFFECT = len(counter)
late = [lambda: i for i in range(3)]
LATE = tuple(f() for f in late)
ORDER = tuple(sorted([1, 2, 3], key=lambda value: -value))
default = lambda value, scale=N: value + scale - 0
M = default(2)
double = lambda value: value + value


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + M + ORDER[0] + LATE[0] + double(1) + EFFECT
