# SPDX-License-Identifier: Apache-2.0
"""What the CPU device costs: ns per thread and barrier, per lane and shuffle, against NumPy, and to compile.

    python3 tests/benchmarks/bench_cpu_device.py [--rounds 15] [--cores 1] [--out rows.json]

Every round warms and times each kernel, in turn; reported are medians over the rounds, the launch in Python included:
time on the clock, and processor time of all of this process's threads, which a busy machine does not lengthen. "ns" is
the processor time divided by threads × barriers, all work between the barriers included (for the tiled product sixteen
multiply-adds). ``--cores 0`` uses every core. Goal: at most 20 ns per thread and barrier.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild import cuda
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.types import float32, parse_signature

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

GOAL = 20.0  # ns per thread and barrier
COUNT = 1 << 19


def tree_reduction(x, out):
    values = cuda.shared.array(1024, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    values[t] = x[i] if i < x.size else float32(0)
    step = cuda.blockDim.x // 2
    while step > 0:
        cuda.syncthreads()
        if t < step:
            values[t] += values[t + step]
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, values[0])


def shuffle_reduction(x, out):
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    delta = 16
    while delta > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, delta)
        delta //= 2
    if cuda.laneid == 0:
        cuda.atomic.add(out, 0, value)


def block_reduction(x, out):
    partial = cuda.shared.array(32, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    value = x[i] if i < x.size else float32(0)
    delta = 16
    while delta > 0:
        value += cuda.shfl_down_sync(0xFFFFFFFF, value, delta)
        delta //= 2
    if cuda.laneid == 0:
        partial[t // 32] = value
    cuda.syncthreads()
    if t < 32:
        value = partial[t] if t < cuda.blockDim.x // 32 else float32(0)
        delta = 16
        while delta > 0:
            value += cuda.shfl_down_sync(0xFFFFFFFF, value, delta)
            delta //= 2
        if t == 0:
            cuda.atomic.add(out, 0, value)


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


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


class Case:
    """One row: a launch, how many (thread, step) pairs it makes, and a check of its result.

    ``step`` is what it is divided by: a barrier, a shuffle, or nothing but the thread itself. ``warm`` launches go
    before each timed one: where memory is all that matters, it takes several until the arrays are in the caches again.
    """

    def __init__(
        self, name: str, step: str, pairs: int, launch: Callable[[], None], check: Callable[[], None], warm: int = 1
    ) -> None:
        self.name = name
        self.warm = warm
        self.step = step
        self.pairs = pairs
        self.launch = launch
        self.check = check
        self.wall: list[float] = []
        self.processor: list[float] = []

    @property
    def nanoseconds(self) -> float:
        return statistics.median(self.processor) * 1e9 / self.pairs


def bind(device: CpuDevice, function: Callable[..., Any], signature: str, compile_ms: dict[str, float]) -> Any:
    start = time.perf_counter()
    launcher = device.bind(KernelDefinition(function, signature), parse_signature(signature))
    compile_ms[function.__name__] = (time.perf_counter() - start) * 1e3
    return launcher


def make_cases(compile_ms: dict[str, float]) -> list[Case]:
    device = CpuDevice()
    rng = np.random.default_rng(1)
    x = rng.integers(0, 4, COUNT).astype(np.float32)  # sums stay exact in float32
    out = np.zeros(1, np.float32)
    cases: list[Case] = []

    def reduction(function: Callable[..., Any], step: str, steps: Callable[[int], float]) -> None:
        launcher = bind(device, function, "float32[::1], float32[::1]", compile_ms)
        for block in (256, 1024):

            def launch(block: int = block) -> None:
                out[0] = 0
                launcher((COUNT // block, 1, 1), (block, 1, 1), 0, 0, (x, out))

            def check() -> None:
                assert out[0] == x.sum(dtype=np.float64)

            pairs = int(COUNT * steps(block))
            cases.append(Case(f"{function.__name__}, {block} threads", step, pairs, launch, check))

    reduction(tree_reduction, "barrier", lambda block: block.bit_length() - 1)
    reduction(shuffle_reduction, "shuffle", lambda block: 5)
    reduction(block_reduction, "shuffle or barrier", lambda block: 5 + 1 + 5 * 32 / block)
    cases.append(product_case(device, rng, compile_ms))
    cases += saxpy_cases(device, rng, compile_ms)
    return cases


def product_case(device: CpuDevice, rng: np.random.Generator, compile_ms: dict[str, float]) -> Case:
    size = 256
    a, b = rng.random((2, size, size), dtype=np.float32)
    c = np.zeros_like(a)
    launcher = bind(device, tiled_product, "float32[:, ::1], float32[:, ::1], float32[:, ::1]", compile_ms)
    grid = (size // 16, size // 16, 1)
    return Case(
        "tiled_product, 16 × 16 threads",
        "barrier",
        size * size * 2 * (size // 16),
        lambda: launcher(grid, (16, 16, 1), 0, 0, (a, b, c)),
        lambda: np.testing.assert_allclose(c, a @ b, rtol=1e-4),
    )


def saxpy_cases(device: CpuDevice, rng: np.random.Generator, compile_ms: dict[str, float]) -> list[Case]:
    count = 1 << 20
    x = rng.random(count, dtype=np.float32)
    y = np.zeros(count, np.float32)
    launcher = bind(device, saxpy, "float32, float32[::1], float32[::1]", compile_ms)
    result: list[np.ndarray] = []

    def by_numpy() -> None:
        result[:] = [np.float32(2) * x + y]

    def check() -> None:
        y[:] = 0
        by_kernel()
        np.testing.assert_array_equal(y, 2 * x)

    def by_kernel() -> None:
        launcher((count // 256, 1, 1), (256, 1, 1), 0, 0, (2.0, x, y))

    return [
        Case("saxpy, 256 threads", "", count, by_kernel, check, warm=10),
        Case("saxpy by NumPy", "", count, by_numpy, lambda: None, warm=10),
    ]


def measure(cases: list[Case], rounds: int) -> None:
    for case in cases:
        case.launch()
        case.check()
    for number in range(rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            for _ in range(case.warm):  # so that no case pays for what the one before left in the caches
                case.launch()
            start, used = time.perf_counter(), time.process_time()
            case.launch()
            case.wall.append(time.perf_counter() - start)
            case.processor.append(time.process_time() - used)


def report(cases: list[Case], compile_ms: dict[str, float], cores: int) -> int:
    print(f"{cores} {'core' if cores == 1 else 'cores'}, medians of {len(cases[0].wall)} rounds")
    print(f"{'kernel':36} {'clock ms':>9} {'processor ms':>13} {'ns':>6}  per thread and")
    for case in cases:
        wall, used = (statistics.median(values) * 1e3 for values in (case.wall, case.processor))
        print(f"{case.name:36} {wall:9.2f} {used:13.2f} {case.nanoseconds:6.2f}  {case.step}")
    ours, numpy_ = cases[-2:]
    print(f"\nsaxpy: {ours.nanoseconds / numpy_.nanoseconds:.2f} × NumPy's time")
    print("\nfirst binding, ms (front end, LLVM and loading; the first one of a process starts LLVM):")
    print("  " + ", ".join(f"{name} {value:.0f}" for name, value in compile_ms.items()))
    barriers = [case for case in cases if case.step == "barrier"]
    worst = max(barriers, key=lambda case: case.nanoseconds)
    met = worst.nanoseconds <= GOAL
    print(f"\ngoal ≤ {GOAL:g} ns: {'met' if met else 'MISSED'} ({worst.name}: {worst.nanoseconds:.2f})")
    return 0 if met else 1


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--cores", type=int, default=1, help="0 for all")
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")
    options = parser.parse_args(arguments)
    if options.cores and hasattr(os, "sched_setaffinity"):  # before the device starts its workers
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    compile_ms: dict[str, float] = {}
    cases = make_cases(compile_ms)
    measure(cases, options.rounds)
    if options.out:
        rows = [{"kernel": case.name, "per": case.step, "ns": case.nanoseconds} for case in cases]
        options.out.write_text(json.dumps({"rows": rows, "compile_ms": compile_ms}, indent=1) + "\n")
    from cudabuild.cpu.workers import core_count

    return report(cases, compile_ms, core_count())


if __name__ == "__main__":
    sys.exit(main())
