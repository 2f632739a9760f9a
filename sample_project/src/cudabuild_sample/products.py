# SPDX-License-Identifier: Apache-2.0
"""Matrix products through shared memory."""

from cudabuild import cuda, float32, kernel

__all__ = ["TILE", "matmul"]

#: Side of a tile; blocks have TILE * TILE threads.
TILE = 16


@kernel("float32[:, ::1], float32[:, ::1], float32[:, ::1]")
def matmul(c, a, b):
    """c = a @ b for any shapes, tile by tile."""
    column, row = cuda.grid(2)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    rows, inner = a.shape
    columns = b.shape[1]
    left = cuda.shared.array((TILE, TILE), float32)
    right = cuda.shared.array((TILE, TILE), float32)
    total = 0.0
    for start in range(0, inner, TILE):
        left[ty, tx] = a[row, start + tx] if row < rows and start + tx < inner else 0.0
        right[ty, tx] = b[start + ty, column] if start + ty < inner and column < columns else 0.0
        cuda.syncthreads()
        for k in range(TILE):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    if row < rows and column < columns:
        c[row, column] = total
