# SPDX-License-Identifier: Apache-2.0
"""Sums over whole arrays."""

from cudabuild import cuda, device_function, float32, kernel

__all__ = ["block_sum"]

ALL_LANES = 0xFFFFFFFF


@device_function
def warp_sum(value):
    """The sum of ``value`` over the warp, in its first lane."""
    offset = cuda.warpsize // 2
    while offset > 0:
        value += cuda.shfl_down_sync(ALL_LANES, value, offset)
        offset //= 2
    return value


@kernel("float32[::1], float32[::1]")
def block_sum(total, x):
    """total[0] += sum(x): strided partial sums, then each warp, then the block, then one atomic per block.

    Blocks have a multiple of 32 threads.
    """
    partial = cuda.shared.array(32, float32)
    lane = cuda.threadIdx.x % cuda.warpsize
    warp = cuda.threadIdx.x // cuda.warpsize
    value = 0.0
    for i in range(cuda.grid(1), x.size, cuda.gridsize(1)):
        value += x[i]
    value = warp_sum(value)
    if lane == 0:
        partial[warp] = value
    cuda.syncthreads()
    if warp == 0:
        value = warp_sum(partial[lane] if lane < cuda.blockDim.x // cuda.warpsize else 0.0)
        if lane == 0:
            cuda.atomic.add(total, 0, value)
