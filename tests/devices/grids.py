# SPDX-License-Identifier: Apache-2.0
"""Inputs for sweeps: the values of a scalar type at which results turn, and random ones."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["FLOATS", "INTEGERS", "SCALARS", "edges", "pairs", "values"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
SCALARS = ("bool", *INTEGERS, *FLOATS)

#: Random values, or pairs, beside the edges.
COUNT = 2000


def edges(name: str) -> Any:
    """Zeros, ones, the largest and smallest values and their neighbours; of floats also NaN, infinities, subnormals."""
    if name == "bool":
        return np.array([False, True])
    if name.startswith("float"):
        info = np.finfo(name)
        whole = float(2 ** (info.nmant + 1))
        positive = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.25, 255.5, whole - 1, whole, float(info.max)]
        positive += [float(info.tiny), float(info.smallest_subnormal), float(info.tiny) * 0.75, 1 + float(info.eps)]
        positive += [2.0**n for n in (7, 8, 15, 16, 31, 32, 63, 64)] + [np.inf]
        with np.errstate(over="ignore"):
            return np.array([*positive, *(-value for value in positive), np.nan], name)
    limits = np.iinfo(name)
    wanted = {0, 1, 2, 3, 7, limits.bits - 1, limits.bits, limits.bits + 1, 100, limits.max, limits.max - 1}
    wanted |= {limits.max // 2, limits.min, limits.min + 1, -1, -2, -3, -7, -limits.bits, -100}
    wanted |= {1 << 24, (1 << 24) + 1, (1 << 53) + 1, (1 << 53) - 1, 2047, 2049, 65504, 65519, 65520}
    return np.array(sorted(value for value in wanted if limits.min <= value <= limits.max), name)


def random(name: str, count: int, rng: np.random.Generator) -> Any:
    """Random bits: floats of every magnitude, subnormals and NaNs among them; and half of them of everyday size."""
    if name == "bool":
        return rng.integers(0, 2, count).astype(bool)
    dtype = np.dtype(name)
    unsigned = np.dtype(f"u{dtype.itemsize}")
    bits = rng.integers(0, np.iinfo(unsigned).max, count, dtype=unsigned, endpoint=True).view(dtype)
    small = rng.normal(0, 10, count).astype(np.int64 if dtype.kind in "iu" else np.float64).astype(dtype)
    return np.where(rng.random(count) < 0.5, bits, small)


def values(name: str, seed: int = 0) -> Any:
    """The edges and ``COUNT`` random values."""
    rng = np.random.default_rng((seed, SCALARS.index(name)))
    return np.concatenate([edges(name), random(name, COUNT, rng)])


def pairs(left: str, right: str, seed: int = 0) -> tuple[Any, Any]:
    """Every pair of edges, and ``COUNT`` random pairs, some of them equal where both have one type."""
    rng = np.random.default_rng((seed, SCALARS.index(left), SCALARS.index(right)))
    a, b = (grid.ravel() for grid in np.meshgrid(edges(left), edges(right), indexing="ij"))
    x, y = random(left, COUNT, rng), random(right, COUNT, rng)
    if left == right:
        y[:50] = x[:50]
    return np.concatenate([a, x]), np.concatenate([b, y])
