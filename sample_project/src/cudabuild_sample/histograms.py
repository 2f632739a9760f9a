# SPDX-License-Identifier: Apache-2.0
"""Counting bytes."""

from cudabuild import cuda, kernel, uint32

__all__ = ["BINS", "histogram"]

BINS = 256


@kernel("uint32[::1], uint8[::1]")
def histogram(counts, data):
    """counts[v] += how often v occurs in ``data``: counted per block in shared memory, then added up."""
    block_counts = cuda.shared.array(BINS, uint32)
    for value in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        block_counts[value] = 0
    cuda.syncthreads()
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        cuda.atomic.add(block_counts, data[i], 1)
    cuda.syncthreads()
    for value in range(cuda.threadIdx.x, BINS, cuda.blockDim.x):
        cuda.atomic.add(counts, value, block_counts[value])
