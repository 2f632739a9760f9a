# SPDX-License-Identifier: Apache-2.0
"""What Python and the compiled code of the CPU device must agree on: two structures and the ways a launch can fail.

``LAUNCH`` is one launch, written by Python and shared by all workers. ``BLOCK`` is what one worker knows of the block
it runs; the compiled code makes it on its own stack, and every thread of a coroutine kernel holds a pointer to it.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

__all__ = [
    "BLOCK",
    "BLOCK_SIZE",
    "CHECKS",
    "COUNTER_SIZE",
    "LAUNCH",
    "LAUNCH_SIZE",
    "ROW_THREADS",
    "STATUS_NO_MEMORY",
    "STATUS_OK",
    "STATUS_STUCK_GRID",
    "STATUS_STUCK_WARP",
    "TEXT_CONSTANTS",
    "WARP",
    "WARP_LANES",
    "Slot",
    "Wait",
    "pack_launch",
]


class Slot(NamedTuple):
    """One field: its LLVM type and its offset in bytes."""

    type: str
    offset: int


WARP = 32  #: lanes of a warp

#: The most threads along x of blocks that run as one: long enough that a row's beginning and end cost nothing, short
#: enough to look at the stop flag often. At least the 1,024 of one block.
ROW_THREADS = 4096

#: What of the setting ``check`` makes a kernel watched (``checked.py``).
CHECKS = frozenset(("races", "barriers", "uninit"))

#: Behind it are the counters of its parts, then the parameter block.
LAUNCH: dict[str, Slot] = {
    "params": Slot("ptr", 0),  # the parameter block (types/layout.py, index width 64)
    "ntid.x": Slot("i32", 8),
    "ntid.y": Slot("i32", 12),
    "ntid.z": Slot("i32", 16),
    "nctaid.x": Slot("i32", 20),
    "nctaid.y": Slot("i32", 24),
    "nctaid.z": Slot("i32", 28),
    "blocks": Slot("i64", 32),  # blocks of the whole grid
    "chunk": Slot("i64", 40),  # blocks that a worker takes at a time
    "dynamic": Slot("i64", 48),  # bytes of dynamic shared memory
    "stop": Slot("i32", 56),  # not 0: no worker starts another block
    "status": Slot("i32", 60),  # STATUS_…; the first failure stays
    "block": Slot("i64", 64),  # where it failed: the block's number in the grid …
    "thread": Slot("i64", 72),  # … and the thread's in the block
    "order.factor": Slot("i64", 80),  # the n-th block taken is number (n * factor + offset) % blocks; 0: n itself
    "order.offset": Slot("i64", 88),
    "resident": Slot("i64", 96),  # the most blocks that a worker has begun and not ended, where blocks take turns
    "slot": Slot("i32", 104),  # where the pool keeps the launch (handover.py), from 1; 0: nowhere
    "check": Slot("ptr", 112),  # what a checked kernel tells it to (shadow.py)
    "parts": Slot("i64", 128),  # of the grid; each worker begins with one
    # Grid sync: blocks that still run (24 bits), of those the ones that have arrived (24), syncs so far (16).
    "grid": Slot("i64", 136),
    "fault": Slot("i32", 144),  # the first fault (faults.py): its site, 0 for none …
    "fault.thread": Slot("i32", 148),  # … the thread's number in the block …
    "fault.block": Slot("i64", 152),  # … the block's in the grid …
    "fault.index": Slot("i64", 160),
    "fault.extent": Slot("i64", 168),
    "part": Slot("i64", 176),  # blocks of a part
}
LAUNCH_SIZE = 192

#: Bytes of a part's counter: how many of its blocks have been taken. All workers count it up, so it has a cache line.
COUNTER_SIZE = 64

_LAUNCH = struct.Struct("=Q6i3q2i5q24xqq32xq")

STATUS_OK = 0
STATUS_NO_MEMORY = 1  #: no memory for the coroutine frames or the shared arrays of a block
STATUS_STUCK_WARP = 2  #: lanes wait at a warp operation for lanes that wait somewhere else
STATUS_STUCK_GRID = 3  #: threads wait at a grid sync while others of their block wait at a barrier


class Wait:
    """What a suspended lane waits for, in its ``kind`` slot. From ``SHFL`` on it meets the lanes of its mask."""

    BARRIER = 0  #: also a lane that has returned
    TURN = 1  #: others to run: it will look again
    GRID = 2
    SHFL = 3  #: the value of lane ``source``
    VOTE = 4  #: which lanes have an ``in`` that is not 0 (low half of ``out``), of which lanes (high half)
    MATCH = 5  #: which lanes have the same ``in`` (low half), of which lanes (high half)
    SYNC = 6
    ACTIVE = 7  #: whoever comes to this operation, ``mask`` being its number; answers like ``VOTE``


BLOCK: dict[str, Slot] = {
    "launch": Slot("ptr", 0),
    "params": Slot("ptr", 8),
    "memory": Slot("ptr", 16),  # the worker's own allocation: shared arrays, then handles
    "shared": Slot("ptr", 24),
    "handles": Slot("ptr", 32),  # one coroutine handle per thread
    "frames": Slot("ptr", 40),  # memory for the coroutine frames of a block; null until the first one asks
    "top": Slot("ptr", 48),  # the part of it that is free
    "threads": Slot("i64", 56),  # threads of a block
    "number": Slot("i64", 64),  # the block's number in the grid
    "first": Slot("i64", 72),  # the rest of the worker's chunk: first block …
    "last": Slot("i64", 80),  # … and the one after the last
    "ntid.x": Slot("i32", 88),
    "ntid.y": Slot("i32", 92),
    "ntid.z": Slot("i32", 96),
    "nctaid.x": Slot("i32", 100),
    "nctaid.y": Slot("i32", 104),
    "nctaid.z": Slot("i32", 108),
    "ctaid.x": Slot("i32", 112),
    "ctaid.y": Slot("i32", 116),
    "ctaid.z": Slot("i32", 120),
    "dynamic": Slot("i32", 124),  # bytes of dynamic shared memory
    "stop": Slot("ptr", 128),  # the launch's stop flag
    "warps": Slot("ptr", 136),  # one WARP_LANES per warp, where there are warp operations or threads take turns
    "warp": Slot("ptr", 144),  # the one of the warp that is running
    "generation": Slot("i64", 152),  # of the grid sync that the block waits for; -1: none
    "arrived": Slot("i32", 160),  # threads that have come to a barrier with a condition …
    "true": Slot("i32", 164),  # … and those whose condition is true
    "reduced": Slot("i64", 168),  # both, of the barrier that all have passed
    "wide": Slot("i32", 176),  # blocks that run as one, along x; see ``Plan.joined``
    "part": Slot("i32", 180),  # the part of the grid that it takes blocks from
    "check": Slot("ptr", 184),  # of a checked kernel: what is known of the block (shadow.py); null at first
}
BLOCK_SIZE = 192

#: The lanes of one warp: sets of them as bits, then one slot per lane.
WARP_LANES: dict[str, Slot] = {
    "live": Slot("i32", 0),
    "ready": Slot("i32", 4),
    "barrier": Slot("i32", 8),
    "grid": Slot("i32", 12),
    "waiting": Slot("i32", 16),  # in a warp operation
    "kind": Slot("i32", 64),  # ``Wait``
    "mask": Slot("i32", 64 + 4 * WARP),  # whom it waits for
    "source": Slot("i32", 64 + 8 * WARP),  # whose value it wants
    "in": Slot("i64", 64 + 12 * WARP),  # its value
    "out": Slot("i64", 64 + 20 * WARP),  # the value it gets
}
WARP_LANES_SIZE = 64 + 28 * WARP

#: What the LLVM text of ``library.py`` and ``schedule_text.py`` calls these things: ``$launch_ntid_x``, ``$block_top``.
TEXT_CONSTANTS: dict[str, int] = {
    **{f"launch_{name.replace('.', '_')}": slot.offset for name, slot in LAUNCH.items()},
    **{f"block_{name.replace('.', '_')}": slot.offset for name, slot in BLOCK.items()},
    **{f"warp_{name}": slot.offset for name, slot in WARP_LANES.items()},
    "row_threads": ROW_THREADS,
    "row_threads_end": ROW_THREADS + 1,
    "block_size": BLOCK_SIZE,
    "counters": LAUNCH_SIZE,
    "counter_size": COUNTER_SIZE,
    "warp_size": WARP_LANES_SIZE,
    "no_memory": STATUS_NO_MEMORY,
    "stuck_warp": STATUS_STUCK_WARP,
    "stuck_grid": STATUS_STUCK_GRID,
}


def pack_launch(
    params: int,
    block: tuple[int, int, int],
    grid: tuple[int, int, int],
    chunk: int,
    dynamic: int,
    *,
    order: tuple[int, int] = (0, 0),
    resident: int = 1,
    together: bool = False,
    parts: int = 1,
) -> bytes:
    """The bytes of a ``LAUNCH`` that is about to start.

    Args:
        params: the address of the parameter block.
        block, grid: threads of a block and blocks of the grid along x, y, z.
        chunk: blocks that a worker takes at a time.
        dynamic: bytes of dynamic shared memory.
        order: factor and offset of the order of blocks.
        resident: the most blocks that a worker has begun and not ended, where blocks take turns.
        together: whether the kernel synchronises the grid.
        parts: of the grid; whole rows of it, where there are many.
    """
    rows = grid[1] * grid[2]
    blocks = grid[0] * rows
    part = -(-rows // parts) * grid[0] if rows >= 8 * parts else -(-blocks // parts)
    fixed = (params, *block, *grid, blocks, chunk, dynamic, 0, STATUS_OK, 0, 0, *order, resident)
    return _LAUNCH.pack(*fixed, parts, blocks if together else 0, part).ljust(LAUNCH_SIZE, b"\0")
