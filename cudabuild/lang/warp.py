# SPDX-License-Identifier: Apache-2.0
"""Barriers of a block and exchanges within a warp."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["shfl_down_sync", "syncthreads"]

syncthreads = KernelName(
    "syncthreads", "syncthreads(): waits until every live thread of the block has come here; orders memory among them."
)
shfl_down_sync = KernelName(
    "shfl_down_sync",
    "shfl_down_sync(mask, value, delta): the value of the lane ``delta`` above; a lane with none above in its warp "
    "keeps its own. Every lane of ``mask`` must come here with the same mask; what is read from a lane outside it is "
    "undefined.",
)
