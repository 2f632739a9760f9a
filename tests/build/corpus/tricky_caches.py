# SPDX-License-Identifier: Apache-2.0
"""Tables made by cached functions, cached properties and partial functions."""
# expect: k: FIBS = (0, 1, 1, 2, 3, 5, ); CALLS = 6; AREA = 12; CUBE = 27; TOTAL = 10
import functools
import operator

import cudabuild as cb

calls = []


@functools.lru_cache(maxsize=None)
def fib(n):
    calls.append(n)
    return n if n < 2 else fib(n - 1) + fib(n - 2)


FIBS = tuple(fib(n) for n in range(6))
CALLS = len(calls)


class Shape:
    @functools.cached_property
    def area(self):
        return 3 * 4


AREA = Shape().area
cube = functools.partial(pow, exp=3)
CUBE = cube(3)
TOTAL = functools.reduce(operator.add, range(5))


@cb.kernel("float32[::1]")
def k(x):
    x[0] = FIBS[5] + CALLS + AREA + CUBE + TOTAL
