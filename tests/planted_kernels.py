# SPDX-License-Identifier: Apache-2.0
"""Kernels with one planted fault each, and correct ones that look like them; for the checks of the CPU device.

The lines of a fault end in the comment ``# fault``. ``PLANTED``, ``FAULTY`` and ``CORRECT`` hold a launch of each.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cudabuild import cuda
from cudabuild.types import float32, int32

__all__ = ["CORRECT", "FAULTY", "PLANTED", "Fault", "Launch", "marked_lines"]


class Launch(NamedTuple):
    """A kernel and how to launch it; ``check`` is what finds its fault."""

    check: str
    kernel: Callable[..., None]
    signature: str
    grid: Any
    block: Any
    arguments: Callable[[], tuple[Any, ...]]
    shared: int = 0


def marked_lines(kernel: Callable[..., None]) -> set[int]:
    """The lines of the fault that was planted in ``kernel``."""
    lines, first = inspect.getsourcelines(kernel)
    return {first + offset for offset, line in enumerate(lines) if line.rstrip().endswith("# fault")}


# races


def tiled_product(a, b, c):
    """The barrier after the loads is there, the one before the next loads is not."""
    tile_a = cuda.shared.array((8, 8), float32)
    tile_b = cuda.shared.array((8, 8), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for step in range(a.shape[1] // 8):
        tile_a[ty, tx] = a[row, step * 8 + tx]  # fault
        tile_b[ty, tx] = b[step * 8 + ty, column]  # fault
        cuda.syncthreads()
        for k in range(8):
            left = tile_a[ty, k]  # fault
            total += left * tile_b[k, tx]  # fault
    c[row, column] = total


def reduction(x, out):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] += s[t + half]  # fault
        half //= 2
    if t == 0:
        out[cuda.blockIdx.x] = s[0]


def overlapping_threads(x):
    i = cuda.grid(1)
    x[i // 2] = i  # fault


def overlapping_blocks(x):
    """Each block writes one element of its neighbour's."""
    t = cuda.threadIdx.x
    x[cuda.blockIdx.x * 31 + t] = t  # fault


def stencil_in_place(x):
    i = cuda.grid(1)
    if 0 < i < x.size - 1:
        x[i] = (x[i - 1] + x[i + 1]) * float32(0.5)  # fault


def histogram(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        counts[values[i]] += 1  # fault


# barriers


def barrier_under_if(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t < 32:
        cuda.syncthreads()  # fault
    s[t] += 1
    cuda.syncthreads()  # fault
    x[t] = s[t]


def two_barriers(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    if t % 2 == 0:
        s[t] += 1
        cuda.syncthreads()  # fault
    else:
        s[t] -= 1
        cuda.syncthreads()  # fault
    x[t] = s[63 - t]


def barrier_in_loop(x):
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    for _ in range(t // 16):
        s[t] += 1
        cuda.syncthreads()  # fault
    s[t] *= 2
    cuda.syncthreads()  # fault
    x[t] = s[t]


# reads of memory that nobody has written


def unwritten_shared(x):
    """Half of the tile is loaded, all of it is read."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    if t < 32:
        s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[t]  # fault


def unwritten_local(x):
    a = cuda.local.array(4, float32)
    i = cuda.grid(1)
    for k in range(3):
        a[k] = x[i]
    total = float32(0)
    for k in range(4):
        total += a[k]  # fault
    x[i] = total


def unwritten_dynamic(x):
    """The halo of the last block is never loaded."""
    s = cuda.shared.array(0, int32)
    t = cuda.threadIdx.x
    s[t] = x[t]
    cuda.syncthreads()
    x[t] = s[t] + s[t + 1]  # fault


# correct ones


def early_exit(x, out):
    """Threads beyond the end return before the barriers."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i >= x.size:
        return
    s[t] = x[i]
    cuda.syncthreads()
    other = t ^ 1
    if cuda.blockIdx.x * 64 + other < x.size:
        out[i] = s[other]


def guarded(x, out):
    """All of the kernel stands under the guard; some leave in the middle."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    if i < x.size:
        s[t] = x[i]
        cuda.syncthreads()
        if t % 3 == 0:
            out[i] = s[t]
            return
        value = s[t - 1]
        cuda.syncthreads()
        s[t] = value
        cuda.syncthreads()
        out[i] = s[t]


def tree_reduction(x, out):
    s = cuda.shared.array(128, float32)
    t = cuda.threadIdx.x
    s[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    half = 64
    while half > 0:
        if t < half:
            s[t] += s[t + half]
        cuda.syncthreads()
        half //= 2
    if t == 0:
        cuda.atomic.add(out, 0, s[0])


def atomic_histogram(values, counts):
    s = cuda.shared.array(16, int32)
    t = cuda.threadIdx.x
    if t < 16:
        s[t] = 0
    cuda.syncthreads()
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(s, values[i], 1)
    cuda.syncthreads()
    if t < 16:
        cuda.atomic.add(counts, t, s[t])


def bytes_side_by_side(x, out):
    """Neighbours write neighbouring bytes, and read them as written."""
    s = cuda.shared.array(64, int32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    out[i] = x[i]
    s[t] = out[i]
    cuda.syncthreads()
    out[i] = s[t ^ 1]


# indices out of range and a division by zero, each by one thread


def read_past_the_end(x, out):
    """The last element has no neighbour."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i + 1] - x[i]  # fault


def before_the_beginning(x, out):
    """Negative indices count from the end, and end there."""
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i - 1 - x.size]  # fault


def row_overflow(a, out):
    """Beyond the end of a row that is not the last lies the next one: memory is not left."""
    column, row = cuda.grid(2)
    shift = 1 if row == 2 else 0
    if row < out.shape[0] and column < out.shape[1]:
        out[row, column] = a[row, column + shift]  # fault


def shared_past_the_end(x):
    """A halo of one, and no room for it."""
    s = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    s[t + 1] = x[t]  # fault
    cuda.syncthreads()
    if t > 0:
        x[t] = s[t]


def local_past_the_end(counts, out):
    a = cuda.local.array(4, int32)
    i = cuda.grid(1)
    for k in range(4):
        a[k] = 0
    for k in range(counts[i]):
        a[k] += i  # fault
    out[i] = a[0] + a[3]


def atomic_past_the_end(values, counts):
    i = cuda.grid(1)
    if i < values.size:
        cuda.atomic.add(counts, values[i], 1)  # fault


def division_by_zero(x, y, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] // y[i]  # fault


def _floats(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


PLANTED = (
    Launch("races", tiled_product, "float32[:, ::1], float32[:, ::1], float32[:, ::1]", (2, 2), (8, 8),
           lambda: (_floats(16, 16), _floats(16, 16), _floats(16, 16))),
    Launch("races", reduction, "float32[::1], float32[::1]", 2, 128, lambda: (_floats(256), _floats(2))),
    Launch("races", overlapping_threads, "int32[::1]", 2, 64, lambda: (np.zeros(64, np.int32),)),
    Launch("races", overlapping_blocks, "int32[::1]", 3, 32, lambda: (np.zeros(96, np.int32),)),
    Launch("races", stencil_in_place, "float32[::1]", 4, 64, lambda: (_floats(250),)),
    Launch("races", histogram, "int32[::1], int32[::1]", 2, 64,
           lambda: (np.arange(128, dtype=np.int32) % 16, np.zeros(16, np.int32))),
    Launch("barriers", barrier_under_if, "float32[::1]", 1, 64, lambda: (_floats(64),)),
    Launch("barriers", two_barriers, "float32[::1]", 1, 64, lambda: (_floats(64),)),
    Launch("barriers", barrier_in_loop, "float32[::1]", 1, 64, lambda: (_floats(64),)),
    Launch("uninit", unwritten_shared, "float32[::1]", 1, 64, lambda: (_floats(64),)),
    Launch("uninit", unwritten_local, "float32[::1]", 2, 32, lambda: (_floats(64),)),
    Launch("uninit", unwritten_dynamic, "int32[::1]", 1, 32, lambda: (np.zeros(32, np.int32),), 4 * 33),
)  # fmt: skip

CORRECT = (
    Launch("", early_exit, "float32[::1], float32[::1]", 3, 64, lambda: (_floats(150), _floats(150))),
    Launch("", guarded, "float32[::1], float32[::1]", 3, 64, lambda: (_floats(150), _floats(150))),
    Launch("", tree_reduction, "float32[::1], float32[::1]", 4, 128, lambda: (_floats(512), _floats(1))),
    Launch("", atomic_histogram, "int32[::1], int32[::1]", 4, 64,
           lambda: (np.arange(250, dtype=np.int32) % 16, np.zeros(16, np.int32))),
    Launch("", bytes_side_by_side, "uint8[::1], uint8[::1]", 4, 64,
           lambda: (np.arange(256).astype(np.uint8), np.zeros(256, np.uint8))),
)  # fmt: skip


class Fault(NamedTuple):
    """A kernel one of whose threads fails; ``check`` is what finds it: ``bounds``, or ``division`` under debug.

    Attributes:
        thread, place: who fails: its place in its block, and the block's in the grid.
        says: what the error says.
    """

    check: str
    kernel: Callable[..., None]
    signature: str
    grid: Any
    block: Any
    arguments: Callable[[], tuple[Any, ...]]
    thread: tuple[int, int, int]
    place: tuple[int, int, int]
    says: str
    shared: int = 0


def _with(array: np.ndarray, index: int, value: int) -> np.ndarray:
    array[index] = value
    return array


FAULTY = (
    Fault("bounds", read_past_the_end, "float32[::1], float32[::1]", 4, 64, lambda: (_floats(250), _floats(250)),
          (57, 0, 0), (3, 0, 0), "index 250 is out of range for axis 0 with 250 elements"),
    Fault("bounds", before_the_beginning, "float32[::1], float32[::1]", 4, 64, lambda: (_floats(250), _floats(250)),
          (0, 0, 0), (0, 0, 0), "index -251 is out of range for axis 0 with 250 elements"),
    Fault("bounds", row_overflow, "float32[:, ::1], float32[:, ::1]", (3, 2), (8, 4),
          lambda: (_floats(7, 20), _floats(7, 20)),
          (3, 2, 0), (2, 0, 0), "index 20 is out of range for axis 1 with 20 elements"),
    Fault("bounds", shared_past_the_end, "float32[::1]", 1, 64, lambda: (_floats(64),),
          (63, 0, 0), (0, 0, 0), "index 64 is out of range for axis 0 with 64 elements"),
    Fault("bounds", local_past_the_end, "int32[::1], int32[::1]", 2, 64,
          lambda: (_with(np.full(128, 4, np.int32), 70, 5), np.zeros(128, np.int32)),
          (6, 0, 0), (1, 0, 0), "index 4 is out of range for axis 0 with 4 elements"),
    Fault("bounds", atomic_past_the_end, "int32[::1], int32[::1]", 2, 64,
          lambda: (_with(np.arange(128, dtype=np.int32) % 16, 99, 16), np.zeros(16, np.int32)),
          (35, 0, 0), (1, 0, 0), "index 16 is out of range for axis 0 with 16 elements"),
    Fault("division", division_by_zero, "int32[::1], int32[::1], int32[::1]", 2, 64,
          lambda: (np.arange(128, dtype=np.int32), _with(np.full(128, 3, np.int32), 77, 0), np.zeros(128, np.int32)),
          (13, 0, 0), (1, 0, 0), "integer division or modulo by zero"),
)  # fmt: skip
