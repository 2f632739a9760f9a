# SPDX-License-Identifier: Apache-2.0
"""Named tuples and enums under numba's names, and as arguments of ``cuda.jit`` kernels."""

from __future__ import annotations

import enum
from collections import namedtuple

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types.named import NamedTuple, enum_type

Point = namedtuple("Point", "x y")


class Level(enum.IntEnum):
    LOW = -3
    HIGH = 7


class Colour(enum.Enum):
    RED = "r"
    GREEN = 2.5


def test_names() -> None:
    assert cuda.types.NamedTuple([cuda.int64, cuda.float32], Point).name == "NamedTuple(Point, x: int64, y: float32)"
    assert cuda.types.NamedUniTuple(cuda.int64, 2, Point) == cuda.typeof(Point(1, 2))
    assert cuda.types.EnumMember(Colour, cuda.int64) == enum_type(Colour) == cuda.typeof(Colour.RED)
    assert cuda.types.IntEnumMember(Level, cuda.int64) == enum_type(Level) == cuda.typeof(Level.LOW)
    assert isinstance(cuda.typeof(Point(1, (2,))), NamedTuple)
    assert cuda.typeof(None) == cuda.types.none


@pytest.mark.filterwarnings("ignore:(Grid size|Host array)")
def test_signatures_and_launches() -> None:
    point = cuda.types.NamedTuple([cuda.int64, cuda.float64], Point)
    signature = cuda.void(cuda.float64[::1], point, cuda.types.IntEnumMember(Level, cuda.int64), enum_type(Colour))

    def work(o, p, level, colour):  # type: ignore[no-untyped-def]
        o[0] = p.x * p.y
        o[1] = level * 2
        o[2] = colour is Colour.GREEN

    for kernel in (cuda.jit(signature)(work), cuda.jit(work)):
        out = np.zeros(3)
        kernel[1, 1](out, Point(3, 2.5), Level.HIGH, Colour.GREEN)
        np.testing.assert_array_equal(out, [7.5, 14, 1])
        assert len(kernel.overloads) == 1
