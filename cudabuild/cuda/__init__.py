# SPDX-License-Identifier: Apache-2.0
"""The numba-cuda-shaped namespace: ``from cudabuild import cuda``."""

from cudabuild.lang.atomic import atomic
from cudabuild.lang.memory import local, shared
from cudabuild.lang.thread import blockDim, blockIdx, grid, gridDim, gridsize, laneid, threadIdx, warpsize
from cudabuild.lang.warp import shfl_down_sync, syncthreads

__all__ = [
    "atomic",
    "blockDim",
    "blockIdx",
    "grid",
    "gridDim",
    "gridsize",
    "laneid",
    "local",
    "shared",
    "shfl_down_sync",
    "syncthreads",
    "threadIdx",
    "warpsize",
]
