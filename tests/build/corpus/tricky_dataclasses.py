# SPDX-License-Identifier: Apache-2.0
"""Dataclasses: defaults, factories, ``replace``, ``__post_init__``, a field changed later."""
# expect: k: WIDTH = 30; HALO = 2; TAPS = (1, 2, 3, ); DEPTH = 9
from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

import cudabuild as cb


@dataclass
class Tile:
    width: int = 8
    halo: int = 1
    taps: list[int] = field(default_factory=lambda: [1, 2])

    def __post_init__(self) -> None:
        self.width = self.width * 3


@dataclass(frozen=True)
class Fixed:
    depth: int

    @classmethod
    def deep(cls) -> Fixed:
        return cls(9)


tile = Tile(10)
tile.halo += 1
tile.taps.append(3)
WIDTH, HALO = tile.width, tile.halo
TAPS = tuple(dataclasses.replace(tile).taps)
DEPTH = dataclasses.asdict(Fixed.deep())["depth"]


@cb.kernel("float32[::1]")
def k(x):
    x[0] = WIDTH + HALO + TAPS[0] + DEPTH
