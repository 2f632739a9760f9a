# SPDX-License-Identifier: Apache-2.0
"""What one launch costs on the host: saxpy, a scalar and two device arrays, in one process, against the raw call.

    python3 tests/benchmarks/bench_launch.py [--rounds 25] [--launches 1000] [--out rows.json]

Each round times every way once, in an order that alternates, and divides by the raw call of the same round; reported
are medians over the rounds after warm-up. Raw is ``cuda.bindings.driver.cuLaunchKernel`` with its parameters as the
address of a ready array. The sample must be importable with its archives (installed, or a wheel on PYTHONPATH).
numba-cuda and CuPy are measured where they are installed. Goals: kept configuration <= 1.2 x raw,
``kernel[grid, block](...)`` <= 1.3 x.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import raw_cuda

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
GRID, BLOCK, SIZE = 4, 64, 256  # small: the GPU keeps up, so only the host's work is seen
RAW = "raw, address of a ready array"
RAW_SYMBOL = "saxpy"
GOALS = {"cudabuild, kept configuration": 1.2, "cudabuild, k[g, b](...)": 1.3}

#: The raw loop's kernel where no cubin is at hand: the same work, any device.
PTX = b"""
.version 6.3
.target sm_75
.address_size 64
.visible .entry saxpy(.param .f32 a, .param .u64 x, .param .u32 nx, .param .u64 y, .param .u32 ny)
{
    .reg .pred %p; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %d<6>;
    mov.u32 %r1, %ntid.x; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %tid.x;
    mad.lo.s32 %r4, %r1, %r2, %r3;
    ld.param.u32 %r5, [ny];
    setp.ge.s32 %p, %r4, %r5;
    @%p ret;
    ld.param.f32 %f1, [a]; ld.param.u64 %d1, [x]; ld.param.u64 %d2, [y];
    cvta.to.global.u64 %d1, %d1; cvta.to.global.u64 %d2, %d2;
    mul.wide.s32 %d3, %r4, 4;
    add.s64 %d4, %d1, %d3; add.s64 %d5, %d2, %d3;
    ld.global.f32 %f2, [%d4]; ld.global.f32 %f3, [%d5];
    fma.rn.f32 %f3, %f1, %f2, %f3;
    st.global.f32 [%d5], %f3;
    ret;
}
\0"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--launches", type=int, default=1000, help="launches per round and way")
    parser.add_argument("--out", type=Path, help="write the medians to this JSON file")
    options = parser.parse_args()
    print(f"device: {raw_cuda.start()}; Python {sys.version.split()[0]}")
    ways: dict[str, Callable[[], object]] = {RAW: raw_launch()}
    for make in (cudabuild_ways, cupy_ways, numba_ways):
        try:
            ways.update(make())
        except Exception as error:  # one library that fails to start must not hide the others
            print(f"{make.__name__}: {type(error).__name__}: {str(error).strip().splitlines()[0][:200]}")
    micros = measure(ways, options.rounds, options.launches)
    ratios = {name: [t / r for t, r in zip(micros[name], micros[RAW], strict=True)] for name in ways}
    print(f"{'launch':52} {'us':>7} {'x raw':>7}  quartiles of the ratio")
    rows = []
    for name in ways:
        low, middle, high = statistics.quantiles(ratios[name], n=4)
        goal = f"  goal {GOALS[name]}: {'met' if middle <= GOALS[name] else 'MISSED'}" if name in GOALS else ""
        print(f"{name:52} {statistics.median(micros[name]):7.2f} {middle:7.2f}  {low:.2f} .. {high:.2f}{goal}")
        rows.append({"launch": name, "us": statistics.median(micros[name]), "ratio": middle, "quartiles": [low, high]})
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    return 0 if any(name in ways for name in GOALS) else 1


def measure(ways: dict[str, Callable[[], object]], rounds: int, launches: int) -> dict[str, list[float]]:
    """Microseconds per launch of each way and round; the first three rounds warm up."""
    micros: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 3):
        for name in list(ways) if number % 2 else list(reversed(ways)):
            launch = ways[name]
            count = max(20, launches // 10) if name.startswith("numba") else launches
            numbers = range(count)
            raw_cuda.synchronize()
            start = time.perf_counter()
            for _ in numbers:
                launch()
            elapsed = time.perf_counter() - start
            raw_cuda.synchronize()
            if number >= 3:
                micros[name].append(elapsed / count * 1e6)
    return micros


def raw_launch() -> Callable[[], object]:
    """The bare call, without even a function around it that looks at its result."""
    from cuda.bindings.driver import cuLaunchKernel

    x, y = (raw_cuda.DeviceArray((SIZE,), "<f4", 4) for _ in range(2))
    function = raw_cuda.load_function(PTX, RAW_SYMBOL)
    values = [("f", 2.0), ("P", x.pointer), ("i", SIZE), ("P", y.pointer), ("i", SIZE)]
    ready = raw_cuda.RawLaunch(function, GRID, BLOCK, values)
    address = ready.address

    def launch(ready: Any = ready, x: Any = x, y: Any = y) -> None:  # the defaults keep the memory alive
        cuLaunchKernel(function, GRID, 1, 1, BLOCK, 1, 1, 0, 0, address, 0)

    return launch


def cudabuild_ways() -> dict[str, Callable[[], object]]:
    from cudabuild_sample import saxpy

    x, y = (raw_cuda.DeviceArray((SIZE,), "<f4", 4) for _ in range(2))
    kept = saxpy[GRID, BLOCK]
    kept(2.0, x, y)
    raw_cuda.synchronize()
    print(f"cudabuild image: {image_source(saxpy)}; numpy imported by it: {'numpy' in sys.modules}")
    ways: dict[str, Callable[[], object]] = {
        "cudabuild, kept configuration": lambda: kept(2.0, x, y),
        "cudabuild, k[g, b](...)": lambda: saxpy[GRID, BLOCK](2.0, x, y),
        "cudabuild, k.forall(n)(...)": lambda: saxpy.forall(SIZE)(2.0, x, y),
    }
    if importlib.util.find_spec("cupy"):
        import cupy

        a, b = cupy.zeros(SIZE, "f4"), cupy.zeros(SIZE, "f4")
        ways["cudabuild, kept configuration, CuPy arrays"] = lambda: kept(2.0, a, b)
    if importlib.util.find_spec("torch"):
        import torch

        s, t = torch.zeros(SIZE, device="cuda"), torch.zeros(SIZE, device="cuda")
        ways["cudabuild, kept configuration, torch tensors"] = lambda: kept(2.0, s, t)
    return ways


def image_source(kernel: Any) -> str:
    return str(kernel.image_source("float32, float32[::1], float32[::1]"))


def cupy_ways() -> dict[str, Callable[[], object]]:
    if not importlib.util.find_spec("cupy"):
        return {}
    import cupy
    import numpy as np

    code = (HERE / "cuda" / "saxpy.cu").read_text()
    function = cupy.RawKernel(code, "saxpy")
    x, y = cupy.zeros(SIZE, "f4"), cupy.zeros(SIZE, "f4")
    scalar, size = np.float32(2), np.int32(SIZE)
    return {"CuPy RawKernel": lambda: function((GRID,), (BLOCK,), (scalar, x, size, y, size))}


def numba_ways() -> dict[str, Callable[[], object]]:
    if not importlib.util.find_spec("numba_cuda"):
        return {}
    from numba import cuda

    @cuda.jit("void(float32, float32[::1], float32[::1])")
    def saxpy(a, x, y):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < y.size:
            y[i] = a * x[i] + y[i]

    x, y = cuda.device_array(SIZE, "f4"), cuda.device_array(SIZE, "f4")
    kept = saxpy[GRID, BLOCK]
    return {
        "numba-cuda, kept configuration, device arrays": lambda: kept(2.0, x, y),
        "numba-cuda, k[g, b](...), device arrays": lambda: saxpy[GRID, BLOCK](2.0, x, y),
    }


if __name__ == "__main__":
    sys.exit(main())
