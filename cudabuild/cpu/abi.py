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
    "LAUNCH",
    "LAUNCH_SIZE",
    "STATUS_NO_MEMORY",
    "STATUS_OK",
    "STATUS_STUCK_WARP",
    "TEXT_CONSTANTS",
    "WARP",
    "Slot",
    "pack_launch",
]


class Slot(NamedTuple):
    """One field: its LLVM type and its offset in bytes."""

    type: str
    offset: int


WARP = 32  #: lanes of a warp

#: ``next`` is counted up by all workers, so it has a cache line of its own.
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
    "next": Slot("i64", 128),  # the first block that no worker has taken
}
LAUNCH_SIZE = 192

_LAUNCH = struct.Struct("=Q6i3q2i2q")

STATUS_OK = 0
STATUS_NO_MEMORY = 1  #: no memory for the coroutine frames or the shared arrays of a block
STATUS_STUCK_WARP = 2  #: lanes wait at a warp operation for lanes that wait somewhere else

#: The ``xchg`` slots serve the warp that is running: no lane waits in a warp operation while another warp runs.
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
    "xchg.mask": Slot("i32", 128),  # per lane: whom it waits for; 0 for a lane that does not wait
    "xchg.source": Slot("i32", 128 + 4 * WARP),  # per lane: whose value it wants
    "xchg.in": Slot("i64", 128 + 8 * WARP),  # per lane: its value
    "xchg.out": Slot("i64", 128 + 16 * WARP),  # per lane: the value it gets
}
BLOCK_SIZE = 128 + 24 * WARP

#: What the LLVM text of ``library.py`` and ``schedule_text.py`` calls these things: ``$launch_ntid_x``, ``$block_top``.
TEXT_CONSTANTS: dict[str, int] = {
    **{f"launch_{name.replace('.', '_')}": slot.offset for name, slot in LAUNCH.items()},
    **{f"block_{name.replace('.', '_')}": slot.offset for name, slot in BLOCK.items()},
    "block_size": BLOCK_SIZE,
    "no_memory": STATUS_NO_MEMORY,
    "stuck_warp": STATUS_STUCK_WARP,
}


def pack_launch(
    params: int,
    block: tuple[int, int, int],
    grid: tuple[int, int, int],
    chunk: int,
    dynamic: int,
) -> bytes:
    """The bytes of a ``LAUNCH`` that is about to start.

    Args:
        params: the address of the parameter block.
        block, grid: threads of a block and blocks of the grid along x, y, z.
        chunk: blocks that a worker takes at a time.
        dynamic: bytes of dynamic shared memory.
    """
    head = _LAUNCH.pack(params, *block, *grid, grid[0] * grid[1] * grid[2], chunk, dynamic, 0, STATUS_OK, 0, 0)
    return head.ljust(LAUNCH_SIZE, b"\0")
