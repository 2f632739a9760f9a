# SPDX-License-Identifier: Apache-2.0
"""The kernels of ``big_arrays.py``."""

from cudabuild import cuda, kernel

__all__ = ["extents", "increment", "increment_ends", "increment_strided"]


@kernel("uint8[::1]")
def increment(x):
    """x += 1, everywhere."""
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        x[i] += 1


@kernel("uint8[::1]")
def increment_ends(x):
    """The first element, the middle one and the last five."""
    i = cuda.grid(1)
    if i == 0:
        x[0] += 1
        x[x.size // 2] += 1
    elif i <= 5:
        x[-i] += 1


@kernel("uint8[:]")
def increment_strided(x):
    """x += 1 for any stride."""
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


@kernel("float32[:, ::1], int64[::1]")
def extents(x, seen):
    """What a kernel sees of an array's shape."""
    seen[0] = x.shape[0]
    seen[1] = x.shape[1]
    seen[2] = x.size
