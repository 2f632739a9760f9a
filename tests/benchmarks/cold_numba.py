# SPDX-License-Identifier: Apache-2.0
"""Fresh process to first finished launch with numba-cuda and its warm disk cache."""

import time

start = time.perf_counter()

from numba import cuda  # noqa: E402


@cuda.jit("void(float32, float32[::1], float32[::1])", cache=True)
def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]


x = cuda.device_array(256, "f4")
y = cuda.device_array(256, "f4")
saxpy[4, 64](2.0, x, y)
cuda.synchronize()
print(time.perf_counter() - start)
