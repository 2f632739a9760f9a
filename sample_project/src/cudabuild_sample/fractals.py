# SPDX-License-Identifier: Apache-2.0
"""The Mandelbrot set."""

from typing import Annotated

from cudabuild import Array, cuda, float32, int32, kernel

__all__ = ["mandelbrot"]


@kernel
def mandelbrot(
    counts: Annotated[Array, int32[:, ::1]],
    left: Annotated[float, float32],
    top: Annotated[float, float32],
    step: Annotated[float, float32],
    limit: Annotated[int, int32],
):
    """For each pixel, how many steps z = z * z + c stays within |z| < 2, at most ``limit``."""
    column, row = cuda.grid(2)
    height, width = counts.shape
    if row < height and column < width:
        real = left + column * step
        imaginary = top + row * step
        x = 0.0
        y = 0.0
        count = 0
        while count < limit and x * x + y * y < 4:
            x, y = x * x - y * y + real, 2 * x * y + imaginary
            count += 1
        counts[row, column] = count
