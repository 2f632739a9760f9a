# SPDX-License-Identifier: Apache-2.0
"""Kernels of launch ABI 2, one for each shape of parameter block. Frozen: see the folder's README."""

import enum

from cudabuild import cuda, device_function, float32, kernel

SCALE = 3


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 7


@device_function
def scaled(value):
    return value * SCALE


@kernel(
    "int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, bool, float64[::1]"
)
def scalars(a, b, c, d, e, f, g, h, i, j, k, l, m, out):
    out[0] = a + b + c + d + e + f + g + h
    out[1] = float32(i) + float32(j) + k
    out[2] = l
    out[3] = scaled(4) if m else scaled(5)


@kernel("int, float, complex64, complex128, float64[::1]")
def weak(number, factor, small, large, out):
    out[0] = number * factor
    out[1] = small.real
    out[2] = small.imag
    out[3] = large.real + large.imag


@kernel("const float32[::1], float32[:, ::1], float32[::1, :], float64[:, :]")
def arrays(x, rows, columns, steps):
    i = cuda.grid(1)
    if i < x.size and i < rows.shape[0] and i < columns.shape[0] and i < steps.shape[0]:
        rows[i, 1] = x[i] * SCALE
        columns[i, 1] = x[i] + SCALE
        steps[i, 1] = x[i] - SCALE


@kernel("Tuple(int32, float32[::1], Tuple(bool, float)), float64[::1]")
def tuples(pair, out):
    number, values, inner = pair
    out[0] = values[number]
    out[1] = inner[1] if inner[0] else 0.0
    out[2] = values.size


@kernel("CPointer(float32), int32, float32[::1]")
def pointers(pointer, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = pointer[i] * SCALE


@kernel("Record(x: float32 at 0, n: int64 at 8; 16)[::1], float64[::1]")
def records(table, out):
    i = cuda.grid(1)
    if i < table.size:
        out[i] = table[i].x + table[i].n


@kernel("IntEnum(frozen_kernels:Level), none, datetime64[s], timedelta64[ms], float64[::1]")
def named(level, nothing, moment, span, out):
    out[0] = 1.0 if level == Level.HIGH else 0.0
    out[1] = 2.0 if nothing is None else 0.0
    out[2] = 3.0 if moment == moment else 0.0
    out[3] = 4.0 if span == span else 0.0


@kernel("int32[::1], int32[::1]", debug=True)
def checked(places, out):
    i = cuda.grid(1)
    assert places[i] >= 0, "no place"
    out[places[i]] = 12 // (places[i] + 1)


@kernel("int32[::1]")
def together(out):
    i = cuda.grid(1)
    out[i] = i
    cuda.cg.this_grid().sync()
    if i == 0:
        out[0] = out[out.size - 1]


@kernel("int32[::1]", launch_bounds=64)
def shared(out):
    cells = cuda.shared.array(0, "int32")
    cells[cuda.threadIdx.x] = cuda.threadIdx.x
    cuda.syncthreads()
    out[cuda.grid(1)] = cells[cuda.blockDim.x - 1 - cuda.threadIdx.x]
