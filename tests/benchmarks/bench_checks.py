# SPDX-License-Identifier: Apache-2.0
"""What the CPU device's default checks of indices cost, beside the same kernels without them.

    python3 tests/benchmarks/bench_checks.py [--rounds 25] [--cores 1] [--out rows.json]

Rounds alternate between checked and unchecked; reported are the medians of the launch, Python included. ``at launch``
counts the comparisons that are made once per worker instead of at each access, ``left`` the places that still look.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from cudabuild import cuda
from cudabuild.cpu.compile import compile_function, emit_host_text
from cudabuild.cpu.device import CpuLauncher
from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.ir.passes import run_passes
from cudabuild.types import float32, parse_signature

__all__ = ["main"]

COUNT = 1 << 20
CHECKED = frozenset(("bounds",))


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def scale(a, x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = a * x[i]


def without_guard(a, x, y):
    i = cuda.grid(1)
    y[i] = a * x[i] + y[i]


def heat(u, v, k):
    j, i = cuda.grid(2)
    if 0 < i < u.shape[0] - 1 and 0 < j < u.shape[1] - 1:
        v[i, j] = u[i, j] + k * (u[i - 1, j] + u[i + 1, j] + u[i, j - 1] + u[i, j + 1] - 4 * u[i, j])


def row_sums(a, y):
    i = cuda.grid(1)
    if i < a.shape[0]:
        total = 0.0
        for j in range(a.shape[1]):
            total += a[i, j]
        y[i] = total


def gather(order, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = x[order[i]]


def tiled_product(a, b, c):
    tile_a = cuda.shared.array((16, 16), float32)
    tile_b = cuda.shared.array((16, 16), float32)
    tx = cuda.threadIdx.x
    ty = cuda.threadIdx.y
    column, row = cuda.grid(2)
    total = float32(0)
    for step in range(a.shape[1] // 16):
        tile_a[ty, tx] = a[row, step * 16 + tx]
        tile_b[ty, tx] = b[step * 16 + ty, column]
        cuda.syncthreads()
        for k in range(16):
            total += tile_a[ty, k] * tile_b[k, tx]
        cuda.syncthreads()
    c[row, column] = total


def cases() -> list[tuple[Any, str, Any, Any, tuple[Any, ...]]]:
    x, y = np.ones((2, COUNT), np.float32)
    u, v = np.ones((2, 1024, 1024), np.float32)
    a, b, c = np.ones((3, 256, 256), np.float32)
    order = np.random.default_rng(0).permutation(COUNT).astype(np.int32)
    line, plane = (COUNT // 256, 1, 1), (4, 1024, 1)
    block = (256, 1, 1)
    vectors, matrices = "float32[::1], float32[::1]", "float32[:, ::1], float32[:, ::1]"
    return [
        (saxpy, f"float32, {vectors}", line, block, (2.0, x, y)),
        (scale, "float32, float32[::1]", line, block, (1.0, x)),
        (without_guard, f"float32, {vectors}", line, block, (2.0, x, y)),
        (heat, f"{matrices}, float32", plane, block, (u, v, 0.1)),
        (row_sums, "float32[:, ::1], float32[::1]", (4, 1, 1), block, (u, y)),
        (gather, f"int32[::1], {vectors}", line, block, (order, x, y)),
        (tiled_product, f"{matrices}, float32[:, ::1]", (16, 16, 1), (16, 16, 1), (a, b, c)),
    ]


def measure(rounds: int) -> list[dict[str, Any]]:
    rows = []
    for kernel, text, grid, block, args in cases():
        signature = parse_signature(text)
        function = run_passes(build_ir(KernelDefinition(kernel, signature), signature), target_kind="host")
        _, dialect = emit_host_text(function, checks=CHECKED)
        names = kernel.__code__.co_varnames[: kernel.__code__.co_argcount]
        times: dict[bool, list[float]] = {False: [], True: []}
        compiled = {
            checked: compile_function(function, checks=CHECKED if checked else frozenset()) for checked in times
        }
        launchers = {
            checked: CpuLauncher(host, kernel.__name__, names, signature) for checked, host in compiled.items()
        }
        for turn in range(rounds + 2):
            for checked, launch in launchers.items():
                start = time.perf_counter()
                launch(grid, block, 0, 0, args)
                if turn >= 2:
                    times[checked].append(time.perf_counter() - start)
        plain, checked_time = (statistics.median(times[checked]) * 1e6 for checked in (False, True))
        rows.append(
            {
                "kernel": kernel.__name__,
                "unchecked µs": round(plain),
                "checked µs": round(checked_time),
                "ratio": round(checked_time / plain, 2),
                "at launch": len(dialect.plan.conditions),
                "left": len(dialect.faults.sites),
            }
        )
    return rows


def main(arguments: list[str]) -> None:
    """Prints one line per kernel; with ``--out`` also writes them as JSON."""
    parser = argparse.ArgumentParser(description="cost of the CPU device's index checks")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(arguments)
    if options.cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    rows = measure(options.rounds)
    for row in rows:
        print("  ".join(f"{name} {value}" for name, value in row.items()))
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
