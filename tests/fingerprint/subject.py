# SPDX-License-Identifier: Apache-2.0
"""Kernels whose fingerprints the tests take, here and in other processes. Without NumPy, which not every Python has."""

from __future__ import annotations

import enum
import math
from collections import namedtuple

from cudabuild import cuda
from cudabuild.types import float32, int32

__all__ = ["DEFINITIONS"]


class Colour(enum.IntEnum):
    RED = 1
    BLUE = 2


class Parts(enum.Flag):
    ONE = 1
    TWO = 2
    BOTH = 3
    FOUR = 4


class Bits(enum.IntFlag):
    ONE = 1
    TWO = 2


class Config:
    SCALE = 0.5

    class Inner:
        SHIFT = 3


Point = namedtuple("Point", "x y")

N = 4
NAMES = {"a": 1, "b": 2, "c": 3}
SETS = frozenset({"x", "y", "z", "longer"})
NESTED = (1, (2.0, "é", b"\x00"), None, True, 1e300, -0.0, 2 + 3j, ...)
ORIGIN = Point(1, 2)
HUGE = 10**5000
FLAGS = (Parts.ONE | Parts.FOUR, Parts.BOTH, Parts(0), Bits.ONE | Bits.TWO, Bits(0), Bits(64), Bits(65))


def fibonacci(n: int) -> int:
    return n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2)


def is_even(n: int) -> bool:
    return is_odd(n - 1) if n else True


def is_odd(n: int) -> bool:
    return is_even(n - 1) if n else False


TABLE = (is_even, fibonacci)


def everything(a: float32, x: float32[::1], y=N, *, z=Point(3, 4)):  # type: ignore # noqa: B008
    """A docstring."""
    i: int32 = cuda.grid(1)
    tile = cuda.shared.array(32, float32)
    if i < len(x) and cuda.threadIdx.x > 0:
        for j in range(3):  # noqa: B007
            x[i] += a * math.sin(y) + fibonacci(N) + TABLE[0](3) + Config.Inner.SHIFT * Config.SCALE
        total = [q + N for q in range(3) if (w := q)]
        match y:
            case 1 | 2:
                x[i] = Colour.RED + w
            case [first, *rest]:  # noqa: F841
                x[i] = first + NESTED[0]
        try:
            x[j] = NAMES["a"] + len(SETS) + ORIGIN.x + (HUGE & 1) + total[0] + tile[0] + FLAGS[0].value
        except ValueError as error:
            raise error
    inner = lambda q, *, r=N: q + r + Colour.BLUE  # noqa: E731
    x[0] = inner(1) + z.x + (f"{a!r:>{y}}text" != "")


def add(x):
    x[0] += N


def recursive(x):
    recursive(x)


def captured(value):
    def kernel(x):
        x[0] = value

    return kernel


DEFINITIONS = {
    "everything": everything,
    "add": add,
    "recursive": recursive,
    "captured 1": captured(1),
    "captured 2": captured(2),
}

if __name__ == "__main__":
    import sys

    from cudabuild.definition import KernelDefinition
    from cudabuild.fingerprint import compute_fingerprint

    for name, function in DEFINITIONS.items():
        print(compute_fingerprint(KernelDefinition(function), (float32, float32[::1])).digest.hex(), name)
    assert "numpy" not in sys.modules
