# SPDX-License-Identifier: Apache-2.0
"""The CPU device against NumPy and numba, with the default checks and without; and what a large launch needs.

    python3 tests/benchmarks/bench_cpu_speed.py [--rounds 9] [--cores 0] [--numba-python INTERPRETER] [--out rows.json]

Rounds are interleaved; reported are medians of the time on the clock and of the processor time of all threads, which a
busy machine does not lengthen. ``bench_cpu_device.py`` holds the reductions and shuffles; they are run here too, with
either set of checks, on one core's worth of time. Goals: saxpy ≤ 1.3 × NumPy's time; Mandelbrot and heat at least 0.7 ×
the speed of ``numba.njit(parallel=True)`` without checks; ≤ 6 ns per thread and barrier; ≤ 10 ns per lane and shuffle;
≤ 1 KiB for each live thread; a launch ≤ 15 µs beyond its work (the rows of empty blocks, on an idle machine).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild import cuda
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.types import float32, parse_signature

sys.path.insert(0, str(Path(__file__).resolve().parent))
from bench_cpu_device import COUNT, saxpy, shuffle_reduction, tree_reduction

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
SIZE, STEPS, LIMIT = 1024, 10, 200  # as in cpu_numba.py
SPINNING = 0.02  # seconds; numba's threads go on looking for work for 5 ms
LAUNCHES = 1000  # milliseconds for so many are microseconds for one
CHECKS = {"default": "", "none": "none"}


def mandelbrot(out, left, top, step, limit):
    x, y = cuda.grid(2)
    if x < out.shape[1] and y < out.shape[0]:
        real, imaginary = left + x * step, top + y * step
        a = b = 0.0
        n = 0
        while n < limit and a * a + b * b <= 4.0:
            a, b = a * a - b * b + real, 2.0 * a * b + imaginary
            n += 1
        out[y, x] = n


def heat(old, new, k):
    x, y = cuda.grid(2)
    if 0 < x < old.shape[1] - 1 and 0 < y < old.shape[0] - 1:
        around = old[y - 1, x] + old[y + 1, x] + old[y, x - 1] + old[y, x + 1]
        new[y, x] = old[y, x] + k * (around - 4 * old[y, x])


def empty(out):
    pass


def large_blocks(out, rounds):
    shared = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    for _ in range(rounds):
        shared[25 * t] = t
        cuda.syncthreads()
        value = shared[25 * (1023 - t)]
        cuda.syncthreads()
    if t == 0:
        cuda.atomic.add(out, 0, value)


class Case:
    """One row: what is run, and by what number of pairs its time is divided (0: not)."""

    def __init__(self, name: str, run: Callable[[], tuple[float, float] | None], pairs: int = 0, warm: int = 1) -> None:
        self.name = name
        self.run = run
        self.pairs = pairs
        self.warm = warm
        self.clock: list[float] = []
        self.processor: list[float] = []

    def measure(self) -> None:
        for _ in range(self.warm):
            self.run()
        start, used = time.perf_counter(), time.process_time()
        told = self.run()
        clock, processor = told or (time.perf_counter() - start, time.process_time() - used)
        self.clock.append(clock)
        self.processor.append(processor)
        time.sleep(SPINNING)  # or threads that look for more work would take a core from the case that comes next

    def row(self) -> dict[str, Any]:
        clock, processor = statistics.median(self.clock), statistics.median(self.processor)
        return {
            "name": self.name,
            "clock_ms": clock * 1e3,
            "processor_ms": processor * 1e3,
            "ns": processor * 1e9 / self.pairs if self.pairs else None,
        }


class Numba:
    """numba in a process of its own."""

    def __init__(self, python: str, path: str, cores: int) -> None:
        environment = {**os.environ, "NUMBA_NUM_THREADS": str(cores), "PYTHONPATH": path}
        command = [python, str(HERE / "cpu_numba.py")]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        simulated = {**environment, "NUMBA_ENABLE_CUDASIM": "1"}
        told = subprocess.run(command, env=simulated, capture_output=True, text=True, check=False)
        self.simulator = float(told.stdout) if told.returncode == 0 else None
        if told.returncode:
            print("numba's simulator fails:", *told.stderr.splitlines()[-1:])

    def run(self, name: str) -> tuple[float, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        clock, processor = self._process.stdout.readline().split()
        return float(clock), float(processor)


def bind(function: Callable[..., Any], signature: str, checks: str) -> Any:
    os.environ["CUDABUILD_CHECK"] = checks
    return CpuDevice().bind(KernelDefinition(function, signature), parse_signature(signature))


def make_cases(checks: str, value: str) -> list[Case]:
    rng = np.random.default_rng(1)
    sums = rng.integers(0, 4, COUNT).astype(np.float32)
    out = np.zeros(1, np.float32)
    cases = []
    for function, steps in ((tree_reduction, lambda n: n.bit_length() - 1), (shuffle_reduction, lambda n: 5)):
        launcher = bind(function, "float32[::1], float32[::1]", value)
        for block in (256, 1024):

            def reduce(launcher: Any = launcher, block: int = block) -> None:
                launcher((COUNT // block, 1, 1), (block, 1, 1), 0, 0, (sums, out))

            cases.append(Case(f"{function.__name__} {block}, checks {checks}", reduce, COUNT * steps(block)))
    x, y = rng.random((2, 1 << 20), dtype=np.float32)
    axpy = bind(saxpy, "float32, float32[::1], float32[::1]", value)
    cases.append(Case(
        f"saxpy, checks {checks}", lambda: axpy((4096, 1, 1), (256, 1, 1), 0, 0, (2.0, x, y)), 1 << 20, warm=10
    ))  # fmt: skip
    counts = np.zeros((SIZE, SIZE), np.int32)
    fractal = bind(mandelbrot, "int32[:, ::1], float, float, float, int", value)
    tiles = (SIZE // 32, SIZE // 8, 1), (32, 8, 1)
    cases.append(Case(
        f"mandelbrot, checks {checks}", lambda: fractal(*tiles, 0, 0, (counts, -2.0, -1.25, 2.5 / SIZE, LIMIT))
    ))  # fmt: skip
    old = rng.random((SIZE, SIZE), dtype=np.float32)
    new = old.copy()
    step = bind(heat, "float32[:, ::1], float32[:, ::1], float32", value)
    wide = (SIZE // 256, SIZE, 1), (256, 1, 1)

    def steps_of_heat() -> None:
        for _ in range(STEPS // 2):
            step(*wide, 0, 0, (old, new, 0.1))
            step(*wide, 0, 0, (new, old, 0.1))

    cases.append(Case(f"heat, checks {checks}", steps_of_heat, warm=10))
    nothing = bind(empty, "float32[::1]", value)
    for blocks in (2, 4096):

        def launches(blocks: int = blocks) -> None:
            for _ in range(LAUNCHES):
                nothing((blocks, 1, 1), (256, 1, 1), 0, 0, (out,))

        cases.append(Case(f"{LAUNCHES} × {blocks} empty blocks, checks {checks}", launches))
    return cases


def make_references(numba: Numba | None) -> list[Case]:
    x, y = np.random.default_rng(2).random((2, 1 << 20), dtype=np.float32)

    def by_numpy() -> None:
        np.float32(2) * x + y

    cases = [Case("saxpy by NumPy", by_numpy, 1 << 20, warm=10)]
    if numba is not None:
        for name in ("mandelbrot", "heat"):
            cases.append(Case(f"{name} by numba", lambda name=name: numba.run(name), warm=10 if name == "heat" else 1))
    return cases


LARGE = """
import json, time
import numpy as np
from bench_cpu_speed import bind, find_memory, large_blocks
from cudabuild.cpu.workers import core_count

launcher = bind(large_blocks, "float32[::1], int", "none")
out = np.zeros(1, np.float32)
block, shared = (16, 8, 8), 100 * 1024
launcher((1, 1, 1), (1, 1, 1), 0, 0, (out, 0))
rows = []
for grid in ((10, 10, 10), (50, 40, 50)):
    before = find_memory("VmRSS", reset=True)
    start = time.perf_counter()
    launcher(grid, block, 0, shared, (out, 1))
    seconds = time.perf_counter() - start
    rows.append((grid, seconds, find_memory("VmHWM") - before))
print(json.dumps([rows, core_count()]))
"""


def find_memory(name: str, *, reset: bool = False) -> int:
    """Bytes of memory of this process by Linux's count: ``VmRSS`` now, ``VmHWM`` at the peak since the last reset."""
    if not Path("/proc/self/clear_refs").exists():
        return 0
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10


def report_large() -> dict[str, Any]:
    """1,024-thread blocks in 3-d grids with 100 KiB of dynamic shared memory: time, and memory at the peak."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])}
    told = subprocess.run([sys.executable, "-c", LARGE], env=environment, capture_output=True, text=True, check=True)
    rows, cores = json.loads(told.stdout)
    live = 1024 * cores
    print("\nblocks of 16 × 8 × 8 threads, 100 KiB of dynamic shared memory, 2 barriers:")
    found = []
    for grid, seconds, memory in rows:
        blocks = grid[0] * grid[1] * grid[2]
        each = max(0, memory - cores * 100 * 1024) / live
        found.append({"blocks": blocks, "seconds": seconds, "bytes": memory, "bytes_per_thread": each})
        print(f"  {blocks:7} blocks: {seconds:6.2f} s, {memory >> 10} KiB more at the peak than before the launch, "
              f"{each:.0f} bytes for each of {live} live threads beside the shared memory")  # fmt: skip
    return {"rows": found}


def choose_cores(count: int) -> list[int]:
    """So many of this process's cores, no two of them threads of one core as long as there are others."""
    apart: dict[str, int] = {}
    rest = []
    for core in sorted(os.sched_getaffinity(0)):
        siblings = Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list")
        key = siblings.read_text().strip() if siblings.exists() else str(core)
        if apart.setdefault(key, core) != core:
            rest.append(core)
    return [*apart.values(), *rest][:count]


def report(rows: dict[str, dict[str, Any]], simulator: float | None) -> None:
    print(f"{'':42} {'clock ms':>9} {'processor ms':>13} {'ns':>7}")
    for row in rows.values():
        ns = f"{row['ns']:7.2f}" if row["ns"] else ""
        print(f"{row['name']:42} {row['clock_ms']:9.2f} {row['processor_ms']:13.2f} {ns}")
    if simulator is not None:
        print(f"{'tree_reduction 256 by the simulator':42} {'':9} {'':13} {simulator:7.0f}")
    print()
    for name, reference in (("saxpy", "NumPy"), ("mandelbrot", "numba"), ("heat", "numba")):
        other = rows.get(f"{name} by {reference}")
        if other is None:
            continue
        for checks in CHECKS:
            ours = rows[f"{name}, checks {checks}"]
            clock, used = (other[key] / ours[key] for key in ("clock_ms", "processor_ms"))
            print(f"{name}, checks {checks}: {clock:.2f} × {reference}'s speed, by processor time {used:.2f} ×")
    for name in ("saxpy", "mandelbrot", "heat"):
        factor = rows[f"{name}, checks default"]["processor_ms"] / rows[f"{name}, checks none"]["processor_ms"]
        print(f"{name}: the default checks cost {factor:.2f} ×")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--cores", type=int, default=0, help="0 for all")
    parser.add_argument("--numba-python", default="", help="an interpreter that has numba")
    parser.add_argument("--numba-path", default="", help="where that interpreter finds a NumPy that its numba takes")
    parser.add_argument("--out", type=Path, help="also write the rows as JSON")
    options = parser.parse_args(arguments)
    if options.cores and hasattr(os, "sched_setaffinity"):  # before the device starts its workers
        os.sched_setaffinity(0, choose_cores(options.cores))
    from cudabuild.cpu.workers import core_count

    numba = Numba(options.numba_python, options.numba_path, core_count()) if options.numba_python else None
    cases = [case for checks, value in CHECKS.items() for case in make_cases(checks, value)]
    cases += make_references(numba)
    for case in cases:
        case.run()
    for number in range(options.rounds):
        for case in cases if number % 2 == 0 else reversed(cases):
            case.measure()
    rows = {case.name: case.row() for case in cases}
    print(f"{core_count()} cores, medians of {options.rounds} rounds")
    report(rows, numba.simulator if numba is not None else None)
    large = report_large()
    if options.out:
        options.out.write_text(json.dumps({"rows": list(rows.values()), "large": large}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
