# SPDX-License-Identifier: Apache-2.0
"""The ``type`` statement, generic functions and classes of Python 3.12."""
# python: 3.12
# expect: k: N = 4; Stack.DEPTH = 3; FIRST = 1
import cudabuild as cb

type Pair[T] = tuple[T, T]
type Lazy = Missing[int]


def first[T](pair: Pair[T]) -> T:
    return pair[0]


class Stack[T: int]:
    DEPTH = 2

    def push(self, value: T) -> Lazy:
        return value


Stack.DEPTH += 1
N: Pair[int] = 4
FIRST = first((1, 2))


@cb.kernel("float32[::1]")
def k(x):
    x[0] = N + Stack.DEPTH + FIRST
