# SPDX-License-Identifier: Apache-2.0
"""What compiling the sample costs, by kernel and stage, against the time inside LLVM and nvJitLink alone.

    python3 tests/benchmarks/bench_compile.py [--targets sm_75,...] [--repeats 5] [--out rows.json]
                                              [--numba-python PYTHON] [--wild-root FOLDER]

One process, one thread. Each kernel is compiled for all targets of the sample in both index widths; the median of the
repeats is shown, in milliseconds per kernel, and per image in the last columns. "LLVM" and "nvJitLink" are measured at
the doors (``backend/llvm.py``, ``cuda.bindings.nvjitlink``): what remains is ours. The process's first compilation,
which also starts LLVM, reads libdevice and loads nvJitLink, is shown by itself; "ir" holds source and HIR too. Behind
it, the instructions handed to LLVM (``ir_counts.py``): of the sample, and with ``--wild-root`` (where the project of
``WILD`` is unpacked, as ``tests/wild/run.py --scratch`` does) of the largest kernel there; beside numba-cuda's with
``--numba-python``. Times are processor time, but for the stages: other programs on the machine count less. Needs the
``build`` extra, no GPU.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "sample_project" / "src")]

__all__ = ["Doors", "compile_once", "main", "watch_doors"]

TARGETS = "sm_75,sm_80,sm_86,sm_89,sm_90,sm_100,sm_120,compute_75"
STAGES = ("fingerprint", "ir", "llvm", "optimised", "ptx", "cubin")
LLVM = ("parse_module", "optimise_module", "emit_assembly", "read_bitcode", "nvptx_machine")
NVJITLINK = ("create", "add_data", "complete", "get_linked_cubin_size", "get_linked_cubin", "get_info_log", "destroy")

#: The largest kernel of ``tests/wild``: project, file, name.
WILD = ("fbpic", "fbpic/particles/deposition/cuda_methods.py", "deposit_J_gpu_cubic")


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
            start = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                self.depth -= 1
                if self.depth == 0:
                    self.seconds[door] += time.process_time() - start

        return timed


def watch_doors(doors: Doors) -> Doors:
    """``doors`` around LLVM and nvJitLink."""
    from cuda.bindings import nvjitlink

    from cudabuild.backend import llvm

    doors.watch("LLVM", llvm, LLVM)
    doors.watch("nvJitLink", nvjitlink, NVJITLINK)
    return doors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", default=TARGETS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--numba-python", help="an interpreter with numba-cuda")
    parser.add_argument("--wild-root", type=Path, help=f"where {WILD[0]} is unpacked")
    options = parser.parse_args()
    start = time.perf_counter()
    import cudabuild_sample

    from cudabuild.target import parse_target

    doors = watch_doors(Doors())
    targets = [parse_target(name) for name in options.targets.split(",")]
    definitions = {name: getattr(cudabuild_sample, name).definition for name in cudabuild_sample.__all__}
    kernels = {name: (definition, definition.signatures[0]) for name, definition in definitions.items()}
    imported = time.perf_counter() - start
    first = compile_once(*kernels["black_scholes"], targets[:1], doors)
    print(f"imports {imported * 1e3:.0f} ms; first compilation of the process, one image: {format_cost(first)}")
    titles = "".join(f"{stage:>12}" for stage in STAGES)
    print(f"{'ms per kernel':14}{titles}{'total':>9}{'LLVM':>8}{'nvJitL':>8}{'x both':>8}{'images':>8}{'each':>7}")
    rows = []
    for name, kernel in kernels.items():
        runs = [compile_once(*kernel, targets, doors) for _ in range(options.repeats)]
        cost = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
        print_row(name, cost)
        rows.append({"kernel": name, **cost})
    print_row("sum", {key: sum(row[key] for row in rows) for key in rows[0] if key != "kernel"})
    counts = count_all(options.numba_python, options.wild_root)
    if options.out:
        options.out.write_text(json.dumps({"stages": rows, "instructions": counts}, indent=1))
    return 0


def count_all(numba: str | None, wild: Path | None) -> dict[str, Any]:
    """Prints the instructions handed to LLVM by kernel and compiler, each counted in a process of its own."""
    compilers = {"cudabuild": sys.executable, **({"numba": numba} if numba else {})}
    whats = [["sample"], *([[*WILD, str(wild)]] if wild else [])]
    found: dict[str, Any] = {}
    for compiler, python in compilers.items():
        found[compiler] = {}
        for what in whats:
            command = [python, str(Path(__file__).with_name("ir_counts.py")), compiler, *what]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{compiler} failed:\n{done.stderr[-3000:]}")
            found[compiler].update(json.loads(done.stdout.splitlines()[-1]))
    print(f"\n{'instructions to LLVM':24}{'ours':>8}{'numba-cuda':>12}{'ours/its':>10}{'ms, sm_80':>12}{'x both':>8}")
    for name, ours in found["cudabuild"].items():
        other = found.get("numba", {}).get(name)
        beside = f"{other:12}{ours['instructions'] / other:10.2f}" if other else f"{'-':>12}{'-':>10}"
        ratio = ours["total"] / (ours["LLVM"] + ours["nvJitLink"])
        print(f"{name:24}{ours['instructions']:8}{beside}{ours['total']:12.1f}{ratio:8.2f}")
    return found


def compile_once(definition: Any, signature: Any, targets: list[Any], doors: Doors) -> dict[str, float]:
    """Milliseconds by stage of one overload for all targets, in both widths if there are several, and behind the
    doors."""
    from cudabuild.compiler import compile_images

    stages: dict[str, float] = defaultdict(float)

    def watch(stage: str, seconds: float) -> None:
        stages[stage] += seconds * 1e3

    doors.seconds.clear()
    start = time.process_time()
    widths = (32, 64) if len(targets) > 1 else (32,)
    images = compile_images(definition, signature, targets, widths, watch=watch)
    total = (time.process_time() - start) * 1e3
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
