# SPDX-License-Identifier: Apache-2.0
"""What compiling the sample costs, by kernel and stage, against the time inside LLVM and nvJitLink alone.

    python3 tests/benchmarks/bench_compile.py [--targets sm_75,...] [--repeats 5] [--out rows.json]

One process, one thread. Each kernel is compiled for all targets of the sample in both index widths; the median of the
repeats is shown, in milliseconds per kernel, and per image in the last columns. "LLVM" and "nvJitLink" are measured at
the doors (``backend/llvm.py``, ``cuda.bindings.nvjitlink``): what remains is ours. The process's first compilation,
which also starts LLVM, reads libdevice and loads nvJitLink, is shown by itself; "ir" holds source and HIR too. Needs
the ``build`` extra, no GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "sample_project" / "src")]

__all__ = ["main"]

TARGETS = "sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120,compute_75"
STAGES = ("fingerprint", "ir", "llvm", "optimised", "ptx", "cubin")
LLVM = ("parse_module", "optimise_module", "emit_assembly", "read_bitcode", "nvptx_machine")
NVJITLINK = ("create", "add_data", "complete", "get_linked_cubin_size", "get_linked_cubin", "get_info_log", "destroy")


class Doors:
    """Adds up the time spent behind the calls that leave our code; calls within calls count once."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.depth = 0

    def watch(self, door: str, module: Any, names: tuple[str, ...]) -> None:
        for name in names:
            setattr(module, name, self.wrap(door, getattr(module, name)))

    def wrap(self, door: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*arguments: Any, **named: Any) -> Any:
            self.depth += 1
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds[door] += time.perf_counter() - start

        return timed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    options = parser.parse_args()
    start = time.perf_counter()
    import cudabuild_sample
    from cuda.bindings import nvjitlink

    from cudabuild.backend import llvm
    from cudabuild.target import parse_target

    doors = Doors()
    doors.watch("LLVM", llvm, LLVM)
    doors.watch("nvJitLink", nvjitlink, NVJITLINK)
    targets = [parse_target(name) for name in options.targets.split(",")]
    kernels = {name: getattr(cudabuild_sample, name) for name in cudabuild_sample.__all__}
    imported = time.perf_counter() - start
    first = compile_once(kernels["black_scholes"], targets[:1], doors)
    print(f"imports {imported * 1e3:.0f} ms; first compilation of the process, one image: {format_cost(first)}")
    titles = "".join(f"{stage:>12}" for stage in STAGES)
    print(f"{'ms per kernel':14}{titles}{'total':>9}{'LLVM':>8}{'nvJitL':>8}{'x both':>8}{'images':>8}{'each':>7}")
    rows = []
    for name, kernel in kernels.items():
        runs = [compile_once(kernel, targets, doors) for _ in range(options.repeats)]
        cost = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print_row(name, cost)
        rows.append({"kernel": name, **cost})
    print_row("sum", {key: sum(row[key] for row in rows) for key in rows[0] if key != "kernel"})
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    return 0


def compile_once(kernel: Any, targets: list[Any], doors: Doors) -> dict[str, float]:
    """Milliseconds by stage of a kernel's first signature for all targets and both widths, and behind the doors."""
    from cudabuild.compiler import compile_images

    stages: dict[str, float] = defaultdict(float)

    def watch(stage: str, seconds: float) -> None:
        stages[stage] += seconds * 1e3

    doors.seconds.clear()
    start = time.perf_counter()
    widths = (32, 64) if len(targets) > 1 else (32,)
    definition = kernel.definition
    images = compile_images(definition, definition.signatures[0], targets, widths, watch=watch)
    total = (time.perf_counter() - start) * 1e3
    cost = {stage: stages.get(stage, 0.0) for stage in STAGES}
    cost |= {"total": total, "images": len(images)}
    return cost | {door: doors.seconds[door] * 1e3 for door in ("LLVM", "nvJitLink")}


def format_cost(cost: dict[str, float]) -> str:
    parts = [f"{stage} {cost[stage]:.1f}" for stage in (*STAGES, "total", "LLVM", "nvJitLink")]
    return ", ".join(parts) + " ms"


def print_row(name: str, cost: dict[str, float]) -> None:
    outside = cost["LLVM"] + cost["nvJitLink"]
    stages = "".join(f"{cost[stage]:12.2f}" for stage in STAGES)
    totals = f"{cost['total']:9.1f}{cost['LLVM']:8.1f}{cost['nvJitLink']:8.1f}{cost['total'] / outside:8.2f}"
    print(f"{name:14}{stages}{totals}{cost['images']:8.0f}{cost['total'] / cost['images']:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
