# SPDX-License-Identifier: Apache-2.0
"""Where a thread stands: its index, its block, the sizes of both."""

from __future__ import annotations

from cudabuild.lang.name import Dim3, KernelName, Register

__all__ = ["blockDim", "blockIdx", "grid", "gridDim", "gridsize", "laneid", "threadIdx", "warpsize"]

grid = KernelName(
    "grid",
    "grid(ndim): the absolute position of this thread in the grid; a Python int for ndim 1, else a tuple (x, y[, z]).",
)
gridsize = KernelName("gridsize", "gridsize(ndim): the number of threads of the whole grid along each axis.")
threadIdx = Dim3("threadIdx", "The thread's index in its block, from 0.")
blockIdx = Dim3("blockIdx", "The block's index in the grid, from 0.")
blockDim = Dim3("blockDim", "The number of threads of a block along each axis.")
gridDim = Dim3("gridDim", "The number of blocks of the grid along each axis.")
laneid = Register("laneid", "laneid: the thread's index in its warp, 0 to 31.")
#: Threads of a warp, on every NVIDIA GPU so far (CUDA C++ Programming Guide, "SIMT Architecture").
warpsize = 32
