# SPDX-License-Identifier: Apache-2.0
"""What makes the arguments of kernels: the names that expressions in ``kernels/*.toml`` are written with."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Makers", "evaluate"]

_SHORT = {"f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "c8", "c16", "b1"}


class Makers:
    """Makes seeded arrays; one object for each launch."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def real(self, shape: Any, low: float = 0.0, high: float = 1.0, type: str = "f4", nan: float = 0.0) -> Any:
        """Uniform numbers, of which the share ``nan`` is NaN."""
        values = self.random.uniform(low, high, shape).astype(type)
        if nan:
            values[self.random.random(values.shape) < nan] = np.nan
        return values

    def ints(self, shape: Any, low: int, high: int, type: str = "i4") -> Any:
        """Integers from ``low`` up to ``high``, which is not one of them."""
        return self.random.integers(low, high, shape).astype(type)

    def bits(self, shape: Any, share: float = 0.5) -> Any:
        """Booleans."""
        return self.random.random(shape) < share

    def cplx(self, shape: Any, type: str = "c16") -> Any:
        """Complex numbers, both parts between -1 and 1."""
        return (self.random.uniform(-1, 1, shape) + 1j * self.random.uniform(-1, 1, shape)).astype(type)

    def fill(self, shape: Any, value: Any = 0, type: str = "f4") -> Any:
        """An array of one value."""
        return np.full(shape, value, type)

    def arr(self, values: Any, type: str = "f4") -> Any:
        """An array of these values."""
        return np.array(values, type)

    def pick(self, shape: Any, values: Any, type: str = "f4", p: Any = None) -> Any:
        """Elements chosen among ``values``."""
        return self.random.choice(np.array(values, type), shape, p=p)

    def offsets(self, count: int, low: int = 1, high: int = 7, type: str = "i8") -> Any:
        """Where each of ``count`` rows of random length begins, and the end of the last."""
        return np.concatenate([[0], np.cumsum(self.random.integers(low, high, count))]).astype(type)

    def land(self, shape: Any, type: str = "f4", nan: float = 0.0, steps: int = 0) -> Any:
        """Heights of a smooth surface with some noise, on ``steps`` levels if that is given."""
        y, x = np.mgrid[: shape[0], : shape[1]]
        heights = 50 + 20 * np.sin(x / 3.1) * np.cos(y / 2.3) + 3 * x + self.random.uniform(0, 4, shape)
        if steps:
            heights = np.floor(heights / heights.max() * steps)
        heights = heights.astype(type)
        if nan:
            heights[self.random.random(shape) < nan] = np.nan
        return heights

    def random_states(self, count: int) -> Any:
        """States of kernels' random numbers, in the layout of ``create_xoroshiro128p_states``."""
        states = np.zeros(count, np.dtype([("s0", "u8"), ("s1", "u8")], align=True))
        for name in ("s0", "s1"):
            states[name] = self.random.integers(1, 2**63, count)
        return states

    def deflate_tiles(self) -> tuple[Any, ...]:
        """What decodes zlib's format: tiles with blocks of all three kinds, and an empty one."""
        text = bytes(self.random.integers(65, 75, 700).astype("u1")) + bytes(range(256)) + b"tile" * 30
        skewed = bytes(self.random.choice(np.arange(256, dtype="u1"), 900, p=_steep(256)))
        tiles = []
        for level, strategy, data in ((9, 0, text), (0, 0, text), (9, zlib.Z_FIXED, text), (9, 2, skewed)):
            pressed = zlib.compressobj(level, zlib.DEFLATED, 15, 9, strategy)
            tiles.append(pressed.compress(data) + pressed.flush())
        return _as_arrays([*tiles, b""], 1076)

    def lzw_tiles(self) -> tuple[Any, ...]:
        """What decodes TIFF's LZW format: tiles of several lengths, and an empty one."""
        texts = [bytes(self.random.integers(65, high, size).astype("u1")) for high, size in ((67, 300), (95, 1500))]
        return _as_arrays([_lzw(text) for text in (*texts, b"a" * 90, b"ab")] + [b""], 1500)


def _steep(count: int) -> Any:
    weights = 0.97 ** np.arange(count)
    return weights / weights.sum()


def _as_arrays(tiles: list[bytes], room: int) -> tuple[Any, ...]:
    """Data, offsets and sizes of tiles; room for what they become, with its offsets, sizes, and lengths found."""
    sizes = np.array([len(tile) for tile in tiles], "i8")
    places = np.arange(len(tiles), dtype="i8") * room
    data = np.frombuffer(b"".join(tiles), "u1").copy()
    ends = np.full(len(tiles), room, "i8")
    return data, np.cumsum(sizes) - sizes, sizes, np.zeros(room * len(tiles), "u1"), places, ends, np.zeros_like(sizes)


def _lzw(text: bytes) -> bytes:
    """Codes of 9 bits and more, the most significant first; 256 clears the table, 257 ends."""
    table = {bytes([i]): i for i in range(256)}
    bits, width, following, held = [f"{256:09b}"], 9, 258, b""
    for byte in text:
        longer = held + bytes([byte])
        if longer in table:
            held = longer
            continue
        bits.append(f"{table[held]:0{width}b}")
        table[longer] = following
        following += 1
        if following > 2**width - 1:
            width += 1
        held = bytes([byte])
    bits += [f"{table[held]:0{width}b}", f"{257:0{width}b}"]
    joined = "".join(bits)
    return int(joined.ljust(-(-len(joined) // 8) * 8, "0"), 2).to_bytes(-(-len(joined) // 8), "big")


def evaluate(text: str, seed: str, names: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Arguments and launch configuration of ``arguments @ configuration``.

    Args:
        text: of the data file.
        seed: a text that the random numbers follow from.
        names: names of the kernel's own module.
    """
    makers = Makers(zlib.crc32(seed.encode()))
    known = {name: getattr(makers, name) for name in dir(makers) if not name.startswith("_")}
    known |= {name: np.dtype(name).type for name in _SHORT} | {"np": np, "module": names}
    arguments, _, configuration = text.rpartition(" @ ")
    return eval(f"({arguments},)", known), eval(f"({configuration},)", known) if configuration else ()
