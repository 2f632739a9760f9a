# SPDX-License-Identifier: Apache-2.0
"""The first kernel of every GPU course."""

from cudabuild import cuda, float32, float64, kernel

__all__ = ["saxpy"]


@kernel("T, T[::1], T[::1]", T=(float32, float64))
def saxpy(a, x, y):
    """y += a * x, for single and for double precision."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] = a * x[i] + y[i]
