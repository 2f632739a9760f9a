# SPDX-License-Identifier: Apache-2.0
"""What watches the threads of checked kernels (``CUDABUILD_CHECK=races,barriers,uninit``): structures, functions.

A library of LLVM text (``shadow_state.py``, ``shadow_cells.py``, ``shadow_paths.py``), compiled once per process when
first needed. What it allocates belongs to one launch. Memory grows with what a kernel touches: 48 bytes for each
element it accesses, in whole pages of 4 KiB, in global and in shared memory; 80 bytes for each live thread.

Blocks run on several cores: a page has a lock, tables and faults are entered atomically.
"""

from __future__ import annotations

from functools import cache
from string import Template

from cudabuild.backend import llvm
from cudabuild.cpu.abi import TEXT_CONSTANTS, Slot
from cudabuild.cpu.library import library_symbols
from cudabuild.cpu.shadow_cells import CELLS
from cudabuild.cpu.shadow_paths import PATHS
from cudabuild.cpu.shadow_state import MEMORY, REPORT, SYNC

__all__ = [
    "ACCESS_KINDS",
    "BARRIER",
    "CHECK",
    "CHECK_SIZE",
    "DECLARATIONS",
    "FAULT_LIMIT",
    "FAULT_SIZE",
    "LOOK_FOR_RACES",
    "LOOK_FOR_UNINIT",
    "RACE",
    "STATE",
    "STATE_SIZE",
    "THREAD",
    "THREAD_SIZE",
    "TOLD_LIMIT",
    "TOLD_SIZE",
    "UNINIT",
    "check_symbols",
]

#: Kinds of faults.
RACE, BARRIER, UNINIT = 1, 2, 3

#: What ``check.access`` is told: the kind of access, and what to look for.
ACCESS_KINDS = {"load": 0, "store": 1, "atomic": 2, "atomic_cas": 2}
LOOK_FOR_RACES, LOOK_FOR_UNINIT = 4, 8

FAULT_LIMIT = 64  #: faults kept of one launch; beyond so many different ones nobody reads on
FAULT_SIZE = 40  #: kind, two sites, how often; two threads; two blocks

#: One checked launch; Python writes ``blocks``, and reads ``faults`` afterwards.
CHECK: dict[str, Slot] = {
    "lock": Slot("i32", 0),
    "count": Slot("i32", 4),  # faults kept
    # Read at every access: in a cache line that no fault is written to.
    "table": Slot("ptr", 64),
    "chunks": Slot("ptr", 72),  # all memory of the launch, a list
    "generation": Slot("i32", 80),  # grid syncs so far
    "fences": Slot("ptr", 88),  # per block, an i16: fences its threads have executed; null before the first
    "states": Slot("ptr", 96),  # the states, a list
    "blocks": Slot("i64", 104),
    "faults": Slot("ptr", 128),  # the first of ``FAULT_LIMIT``
}
CHECK_SIZE = 128 + FAULT_LIMIT * FAULT_SIZE

#: What is known of a running block; then its threads, the pages of its shared memory, and a byte for each byte of that:
#: whether it is written.
STATE: dict[str, Slot] = {
    "check": Slot("ptr", 0),
    "number": Slot("i64", 8),  # the block's number in the grid
    "shared": Slot("ptr", 16),
    "shared_size": Slot("i64", 24),
    "turns": Slot("i32", 32),  # two barriers in turn: number plus 1, site, and the thread that came first
    "next": Slot("ptr", 64),
    "written": Slot("ptr", 72),
    "pages": Slot("ptr", 80),  # those of shared memory; they outlive the block, and serve the next one
    "joined": Slot("i32", 88),  # whether a thread of the block has executed a ``syncwarp``
    "told": Slot("ptr", 224),  # races seen again: sites and how often, of ``TOLD_LIMIT`` pairs; they outlive the block
    "recent": Slot("i64", 96),  # the pages of global memory that were used last: number and address of each of 8
}
STATE_SIZE = 232
TOLD_LIMIT, TOLD_SIZE = 16, 16

THREAD: dict[str, Slot] = {
    "epoch": Slot("i32", 0),  # barriers passed
    "mask": Slot("i32", 4),  # of the syncwarp it waits at
    "where": Slot("i32", 8),  # the site where it waits, or waited last
    "grids": Slot("i32", 12),  # grid syncs passed
    "clocks": Slot("i16", 16),  # of the lanes of its warp, as far as it knows
}
THREAD_SIZE = 80

#: After the lock, which is odd while it is held and else tells whether it has been; the shift is one more, 0: no cells.
_PAGE = {"generation": 4, "shift": 8, "cells": 16}

#: For the text of a checked kernel.
DECLARATIONS = """
declare i1 @check.enter(ptr, i32, i64) nounwind
declare void @check.access(ptr, i32, ptr, i32, i32, i32) nounwind
declare void @check.watch(ptr, i32, ptr, i32, i32, i32) nounwind
declare void @check.local(ptr, i32, ptr, i32, i32, i32) nounwind
declare void @check.arrive(ptr, i32, i32, i1) nounwind
declare void @check.leave(ptr, i32, i1) nounwind
declare void @check.wait(ptr, i32, i32, i32) nounwind
declare void @check.joined(ptr, i32) nounwind
declare void @check.fence(ptr) nounwind
"""

_EXPORTS = ["check.enter", "check.access", "check.watch", "check.local", "check.arrive", "check.leave", "check.wait",
            "check.joined", "check.fence", "check.free"]  # fmt: skip

_CONSTANTS: dict[str, int] = {
    **TEXT_CONSTANTS,
    **{f"check_{name}": slot.offset for name, slot in CHECK.items()},
    **{f"state_{name}": slot.offset for name, slot in STATE.items()},
    **{f"thread_{name}": slot.offset for name, slot in THREAD.items()},
    **{f"page_{name}": offset for name, offset in _PAGE.items()},
    "state_size": STATE_SIZE,
    "told_size": TOLD_LIMIT * TOLD_SIZE,
    "told_mask": TOLD_LIMIT - 1,
    "thread_size": THREAD_SIZE,
    "fault_size": FAULT_SIZE,
    "fault_limit": FAULT_LIMIT,
    "race": RACE,
    "barrier": BARRIER,
    "uninit": UNINIT,
}


@cache
def _load() -> tuple[llvm.JitLibrary, dict[str, int]]:
    text = Template(MEMORY + REPORT + CELLS + PATHS + SYNC).substitute(_CONSTANTS)
    module = llvm.parse_module(text)
    machine = llvm.host_machine(2)
    llvm.optimise_module(module, machine, 2)
    loaded = llvm.load_object("cudabuild.check", llvm.emit_object(module, machine), _EXPORTS, library_symbols(False))
    return loaded, {symbol: loaded.address(symbol) for symbol in _EXPORTS}


def check_symbols() -> dict[str, int]:
    """The functions that a checked kernel calls -> their addresses; with ``check.free``, which frees the memory."""
    return _load()[1]
