# SPDX-License-Identifier: Apache-2.0
"""Barriers of a block, exchanges and votes within a warp.

A mask is a set of lanes, bit n for lane n. Every live lane of a mask must come to the operation with that mask.
"""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = [
    "activemask",
    "all_sync",
    "any_sync",
    "ballot_sync",
    "eq_sync",
    "lanemask_lt",
    "match_all_sync",
    "match_any_sync",
    "shfl_down_sync",
    "shfl_sync",
    "shfl_up_sync",
    "shfl_xor_sync",
    "syncthreads",
    "syncthreads_and",
    "syncthreads_count",
    "syncthreads_or",
    "syncwarp",
]

_SHUFFLE = "Every lane of ``mask`` must come here with the same mask; what is read from a lane outside it is undefined."

syncthreads = KernelName(
    "syncthreads", "syncthreads(): waits until every live thread of the block has come here; orders memory among them."
)
syncthreads_count = KernelName(
    "syncthreads_count", "syncthreads_count(flag): syncthreads; the number of threads whose flag is true."
)
syncthreads_and = KernelName("syncthreads_and", "syncthreads_and(flag): syncthreads; 1 if all flags are true, else 0.")
syncthreads_or = KernelName("syncthreads_or", "syncthreads_or(flag): syncthreads; 1 if any flag is true, else 0.")
syncwarp = KernelName(
    "syncwarp", "syncwarp(mask=0xFFFFFFFF): waits until the lanes of the mask have come here; orders memory among them."
)
shfl_sync = KernelName("shfl_sync", "shfl_sync(mask, value, lane): the value of lane ``lane`` modulo 32. " + _SHUFFLE)
shfl_up_sync = KernelName(
    "shfl_up_sync",
    "shfl_up_sync(mask, value, delta): the value of the lane ``delta`` below; a lane with none below in its warp keeps "
    "its own. " + _SHUFFLE,
)
shfl_down_sync = KernelName(
    "shfl_down_sync",
    "shfl_down_sync(mask, value, delta): the value of the lane ``delta`` above; a lane with none above in its warp "
    "keeps its own. " + _SHUFFLE,
)
shfl_xor_sync = KernelName(
    "shfl_xor_sync",
    "shfl_xor_sync(mask, value, lane_mask): the value of the lane whose number is this one's xor ``lane_mask``. "
    + _SHUFFLE,
)
all_sync = KernelName("all_sync", "all_sync(mask, flag): whether the flag is true in all lanes of the mask.")
any_sync = KernelName("any_sync", "any_sync(mask, flag): whether the flag is true in any lane of the mask.")
eq_sync = KernelName("eq_sync", "eq_sync(mask, flag): whether the flag is alike in all lanes of the mask.")
ballot_sync = KernelName("ballot_sync", "ballot_sync(mask, flag): the lanes of the mask whose flag is true, a uint32.")
match_any_sync = KernelName(
    "match_any_sync", "match_any_sync(mask, value): the lanes of the mask with this lane's value (its bits), a uint32."
)
match_all_sync = KernelName(
    "match_all_sync",
    "match_all_sync(mask, value): (mask, True) if all lanes of the mask have the same value (its bits), else "
    "(0, False).",
)
activemask = KernelName(
    "activemask",
    "activemask(): the lanes that are here together, a uint32. Which are is up to the device; only that this lane is "
    "among them is certain.",
)
lanemask_lt = KernelName("lanemask_lt", "lanemask_lt(): the lanes with a lower number than this one, a uint32.")
