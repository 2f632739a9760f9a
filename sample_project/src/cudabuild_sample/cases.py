# SPDX-License-Identifier: Apache-2.0
"""One worked example per kernel: arguments, launch configuration, expected result, permitted error."""

from typing import Any, NamedTuple

import numpy as np

from cudabuild_sample import bodies, fractals, heat, histograms, pricing, products, reference, sums, vectors

__all__ = ["Case", "make_cases"]


class Case(NamedTuple):
    """A launch and what it should do.

    ``expected`` maps the index of an argument to what it should hold afterwards; ``tolerance`` bounds the largest
    difference, relative to the largest expected value, or, where ``share`` is set, the share of elements that differ.
    """

    kernel: Any
    signature: str
    grid: Any
    block: Any
    arguments: tuple[Any, ...]
    expected: dict[int, Any]
    tolerance: float
    share: bool = False

    def error(self, arguments: tuple[Any, ...]) -> float:
        """How far ``arguments``, after a launch, are from what is expected; infinite where a value is not finite."""
        worst = 0.0
        for index, expected in self.expected.items():
            found = np.asarray(arguments[index], dtype=np.float64)
            if self.share:
                error = float(np.mean(found != expected))
            else:
                error = float(np.max(np.abs(found - expected)) / max(1e-30, float(np.max(np.abs(expected)))))
            worst = max(worst, error if error == error else float("inf"))
        return worst


def make_cases(scale: int = 1) -> list[Case]:
    """Every kernel with inputs of a fixed seed; ``scale`` multiplies the amount of work, roughly."""
    random = np.random.default_rng(2026)
    makers = (_saxpy, _black_scholes, _mandelbrot, _heat_step, _nbody_step, _matmul, _block_sum, _histogram)
    return [case for make in makers for case in make(random, scale)]


def _ceildiv(a: int, b: int) -> int:
    return -(-a // b)


def _uniform(random: Any, shape: Any, low: float = 0.0, high: float = 1.0) -> Any:
    return random.uniform(low, high, shape).astype(np.float32)


def _saxpy(random: Any, scale: int) -> list[Case]:
    cases = []
    for dtype, tolerance in ((np.float32, 1e-6), (np.float64, 1e-14)):
        n = 100_003 * scale
        a = dtype(2.5)
        x, y = (random.uniform(-1, 1, n).astype(dtype) for _ in range(2))
        name = np.dtype(dtype).name
        expected = {2: reference.saxpy(a, x, y)}
        signature = f"{name}, {name}[::1], {name}[::1]"
        cases.append(Case(vectors.saxpy, signature, _ceildiv(n, 256), 256, (a, x, y), expected, tolerance))
    return cases


def _black_scholes(random: Any, scale: int) -> list[Case]:
    n = 20_011 * scale
    price, strike, years = (_uniform(random, n, *bounds) for bounds in ((5, 30), (1, 100), (0.25, 10)))
    rate, volatility = np.float32(0.02), np.float32(0.3)
    call, put = reference.black_scholes(price, strike, years, float(rate), float(volatility))
    arguments = (np.zeros_like(price), np.zeros_like(price), price, strike, years, rate, volatility)
    signature = ", ".join(["float32[::1]"] * 5 + ["float32"] * 2)
    return [Case(pricing.black_scholes, signature, _ceildiv(n, 128), 128, arguments, {0: call, 1: put}, 1e-5)]


def _mandelbrot(random: Any, scale: int) -> list[Case]:
    shape, limit = (150, 200 * scale), 100
    left, top, step = np.float32(-2.2), np.float32(-1.2), np.float32(0.016 / scale)
    counts = np.zeros(shape, np.int32)
    expected = reference.mandelbrot(shape, float(left), float(top), float(step), limit)
    grid = (_ceildiv(shape[1], 16), _ceildiv(shape[0], 16))
    arguments = (counts, left, top, step, np.int32(limit))
    signature = "int32[:, ::1], float32, float32, float32, int32"
    # Near the set's border the last bits of z decide: a few pixels may differ from double precision.
    return [Case(fractals.mandelbrot, signature, grid, (16, 16), arguments, {0: expected}, 0.02, share=True)]


def _heat_step(random: Any, scale: int) -> list[Case]:
    old = _uniform(random, (250, 303 * scale), 0, 100)
    alpha = np.float32(0.2)
    grid = (_ceildiv(old.shape[1], 32), _ceildiv(old.shape[0], 8))
    expected = {0: reference.heat_step(old, float(alpha))}
    signature = "float32[:, ::1], float32[:, ::1], float32"
    return [Case(heat.heat_step, signature, grid, (32, 8), (np.zeros_like(old), old, alpha), expected, 1e-6)]


def _nbody_step(random: Any, scale: int) -> list[Case]:
    n = 500 * scale
    places = _uniform(random, (n, 4))
    velocity = _uniform(random, (n, 3), -0.1, 0.1)
    dt = np.float32(1e-3)
    moved, faster = reference.nbody_step(places, velocity, float(dt), bodies.SOFTENING)
    arguments = (np.zeros_like(places), places, velocity, dt)
    signature = "float32[:, ::1], float32[:, ::1], float32[:, ::1], float32"
    return [Case(bodies.nbody_step, signature, _ceildiv(n, 128), 128, arguments, {0: moved, 2: faster}, 1e-5)]


def _matmul(random: Any, scale: int) -> list[Case]:
    a = _uniform(random, (130 * scale, 100), -1)
    b = _uniform(random, (100, 77), -1)
    c = np.zeros((a.shape[0], b.shape[1]), np.float32)
    grid = (_ceildiv(c.shape[1], products.TILE), _ceildiv(c.shape[0], products.TILE))
    signature = "float32[:, ::1], float32[:, ::1], float32[:, ::1]"
    expected = {0: reference.matmul(a, b)}
    return [Case(products.matmul, signature, grid, (products.TILE, products.TILE), (c, a, b), expected, 1e-5)]


def _block_sum(random: Any, scale: int) -> list[Case]:
    x = _uniform(random, 50_021 * scale)
    arguments = (np.zeros(1, np.float32), x)
    return [Case(sums.block_sum, "float32[::1], float32[::1]", 16, 256, arguments, {0: reference.block_sum(x)}, 1e-5)]


def _histogram(random: Any, scale: int) -> list[Case]:
    data = random.integers(0, 256, 50_000 * scale, dtype=np.uint8)
    arguments = (np.zeros(histograms.BINS, np.uint32), data)
    expected = {0: reference.histogram(data)}
    return [Case(histograms.histogram, "uint32[::1], uint8[::1]", 8, 256, arguments, expected, 0.0)]
