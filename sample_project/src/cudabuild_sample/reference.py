# SPDX-License-Identifier: Apache-2.0
"""What each kernel should compute, in NumPy and double precision. Functions return new arrays."""

import math

import numpy as np

__all__ = ["black_scholes", "block_sum", "heat_step", "histogram", "mandelbrot", "matmul", "nbody_step", "saxpy"]

_erf = np.vectorize(math.erf, otypes=[np.float64])


def saxpy(a, x, y):
    return np.float64(a) * x.astype(np.float64) + y


def black_scholes(price, strike, years, rate, volatility):
    price, strike, years = (a.astype(np.float64) for a in (price, strike, years))
    spread = volatility * np.sqrt(years)
    d1 = (np.log(price / strike) + (rate + 0.5 * volatility**2) * years) / spread
    d2 = d1 - spread
    discounted = strike * np.exp(-rate * years)
    call = price * _normal_cdf(d1) - discounted * _normal_cdf(d2)
    return call, call + discounted - price  # put-call parity


def _normal_cdf(x):
    return 0.5 * (1 + _erf(x / math.sqrt(2)))


def mandelbrot(shape, left, top, step, limit):
    c = (left + step * np.arange(shape[1])) + 1j * (top + step * np.arange(shape[0]))[:, None]
    z = np.zeros_like(c)
    counts = np.zeros(shape, np.int32)
    inside = np.ones(shape, bool)
    for _ in range(limit):
        inside &= z.real**2 + z.imag**2 < 4
        counts += inside
        z[inside] = z[inside] ** 2 + c[inside]
    return counts


def heat_step(old, alpha):
    old = old.astype(np.float64)
    new = old.copy()
    around = old[:-2, 1:-1] + old[2:, 1:-1] + old[1:-1, :-2] + old[1:-1, 2:]
    new[1:-1, 1:-1] += alpha * (around - 4 * old[1:-1, 1:-1])
    return new


def nbody_step(bodies, velocity, dt, softening):
    bodies = bodies.astype(np.float64)
    places, mass = bodies[:, :3], bodies[:, 3]
    distance = places[None, :, :] - places[:, None, :]
    pull = mass * ((distance**2).sum(axis=2) + softening) ** -1.5
    velocity = velocity + dt * (pull[:, :, None] * distance).sum(axis=1)
    return np.column_stack([places + dt * velocity, mass]), velocity


def matmul(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def block_sum(x):
    return x.sum(dtype=np.float64)


def histogram(data):
    return np.bincount(data, minlength=256)
