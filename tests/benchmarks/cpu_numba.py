# SPDX-License-Identifier: Apache-2.0
"""The same work by numba, in a process of its own (``bench_cpu_speed.py`` starts it): NumPy-style loops, and a kernel.

Reads lines from standard input, each a name of ``WORK``, and answers each with its time on the clock and its processor
time, in seconds. Needs nothing but numba.
"""

from __future__ import annotations

import math
import os
import sys
import time

import numba
import numpy as np
from numba import cuda, njit, prange

__all__ = ["WORK", "main"]

SIZE = 1024
STEPS = 10
THREADS = 256


@njit(parallel=True, fastmath=False)
def mandelbrot(out, left, top, step, limit):
    for y in prange(out.shape[0]):
        for x in range(out.shape[1]):
            real, imaginary = left + x * step, top + y * step
            a = b = 0.0
            n = 0
            while n < limit and a * a + b * b <= 4.0:
                a, b = a * a - b * b + real, 2.0 * a * b + imaginary
                n += 1
            out[y, x] = n


@njit(parallel=True, fastmath=False)
def heat(old, new, k):
    for y in prange(1, old.shape[0] - 1):
        for x in range(1, old.shape[1] - 1):
            around = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]
            new[y, x] = old[y, x] + k * (around - np.float32(4) * old[y, x])


def run_mandelbrot() -> None:
    mandelbrot(COUNTS, -2.0, -1.25, 2.5 / SIZE, 200)


def run_heat() -> None:
    for _ in range(STEPS // 2):
        heat(FIELD, OTHER, np.float32(0.1))
        heat(OTHER, FIELD, np.float32(0.1))


COUNTS = np.zeros((SIZE, SIZE), np.int32)
FIELD = np.random.default_rng(1).random((SIZE, SIZE), dtype=np.float32)
OTHER = FIELD.copy()
WORK = {"mandelbrot": run_mandelbrot, "heat": run_heat}


def run_simulator() -> float:
    """Nanoseconds per thread and barrier of a tree reduction in numba's simulator (it wants ``cuda`` as a global)."""

    @cuda.jit
    def tree_reduction(x, out):
        values = cuda.shared.array(THREADS, numba.float32)
        t = cuda.threadIdx.x
        values[t] = x[cuda.grid(1)]
        step = cuda.blockDim.x // 2
        while step > 0:
            cuda.syncthreads()
            if t < step:
                values[t] += values[t + step]
            step //= 2
        if t == 0:
            out[0] = values[0]

    x, out = np.ones(THREADS, np.float32), np.zeros(1, np.float32)
    tree_reduction[1, THREADS](x, out)
    start = time.perf_counter()
    tree_reduction[1, THREADS](x, out)
    assert out[0] == THREADS
    return (time.perf_counter() - start) * 1e9 / (THREADS * math.log2(THREADS))


def main() -> None:
    if os.environ.get("NUMBA_ENABLE_CUDASIM") == "1":
        print(run_simulator(), flush=True)
        return
    for line in sys.stdin:
        start, used = time.perf_counter(), time.process_time()
        WORK[line.strip()]()
        print(time.perf_counter() - start, time.process_time() - used, flush=True)


if __name__ == "__main__":
    main()
