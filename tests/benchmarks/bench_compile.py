# SPDX-License-Identifier: Apache-2.0
"""What compiling the sample costs, by kernel and stage, against the time inside LLVM and nvJitLink alone.

    python3 tests/benchmarks/bench_compile.py [--quick] [--targets sm_80,...] [--repeats 15] [--out rows.json]
                                              [--numba-python PYTHON] [--wild-root FOLDER]

Three things, all in processor time, since other programs on the machine count less there:

* the first compilation of a fresh process, from its first line on: a child process for each, the quickest counts;
* each kernel for one target and one index width, as at a JIT miss, in a warm process and of a fresh definition;
* each kernel for all targets in both index widths, as in a build.

"LLVM" and "nvJitLink" are measured at the doors (``backend/llvm.py``, ``cuda.bindings.nvjitlink``): what remains is
ours, and "x both" is the whole over these two. The quickest of the repeats counts; "mean" shows what the garbage
collector adds. With ``--wild-root`` (where the project of ``WILD`` is unpacked, as ``tests/wild/run.py --scratch``
does) the largest kernel there is in the tables, too. Behind them, the instructions handed to LLVM (``ir_counts.py``),
beside numba-cuda's with ``--numba-python``. ``--quick``: three repeats, three targets, nothing of numba. Needs the
``build`` extra, no GPU.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import subprocess
import sys
import time
import types
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "sample_project" / "src")]

__all__ = ["Doors", "compile_once", "main", "watch_doors"]

TARGETS = "sm_80,sm_75,sm_86,sm_89,sm_90,sm_100,sm_120,compute_75"
QUICK_TARGETS = "sm_80,sm_90,compute_75"
STAGES = ("fingerprint", "ir", "llvm", "optimised", "ptx", "cubin", "image")
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
    """``doors`` around LLVM and nvJitLink; and stages are timed by the processor from now on, too."""
    from cuda.bindings import nvjitlink

    from cudabuild import compiler
    from cudabuild.backend import llvm

    compiler.time = types.SimpleNamespace(perf_counter=time.process_time)
    doors.watch("LLVM", llvm, LLVM)
    doors.watch("nvJitLink", nvjitlink, NVJITLINK)
    return doors


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a few seconds' worth of it")
    parser.add_argument("--targets", help="the first one is that of the single images")
    parser.add_argument("--repeats", type=int)
    parser.add_argument("--out", type=Path, help="write the rows to this JSON file")
    parser.add_argument("--numba-python", help="an interpreter with numba-cuda")
    parser.add_argument("--wild-root", type=Path, help=f"where {WILD[0]} is unpacked")
    parser.add_argument("--first", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.first:
        print(json.dumps(compile_first()))
        return 0
    repeats = options.repeats or (3 if options.quick else 15)
    names = options.targets or (QUICK_TARGETS if options.quick else TARGETS)
    found: dict[str, Any] = {"first": show_first(2 if options.quick else 7)}

    from cudabuild.target import parse_target

    kernels = find_kernels(options.wild_root)
    doors = watch_doors(Doors())
    targets = [parse_target(name) for name in names.split(",")]
    compile_once(*kernels["saxpy"], targets, doors)  # starts LLVM, loads nvJitLink, reads libdevice
    found["one image"] = show_kernels(kernels, targets[:1], doors, repeats)
    found["all images"] = show_kernels(kernels, targets, doors, max(3, repeats // 5))
    if not options.quick:
        found["instructions"] = count_all(options.numba_python, options.wild_root)
    if options.out:
        options.out.write_text(json.dumps(found, indent=1))
    return 0


def find_kernels(wild_root: Path | None) -> dict[str, tuple[Any, Any]]:
    """Name -> definition and signature: of the sample, and of ``WILD`` where it is there."""
    import cudabuild_sample

    definitions = {name: getattr(cudabuild_sample, name).definition for name in cudabuild_sample.__all__}
    kernels = {name: (definition, definition.signatures[0]) for name, definition in definitions.items()}
    if wild_root is not None:
        import ir_counts

        kernels |= ir_counts.our_kernels([*WILD, str(wild_root)])
    return kernels


# the first compilation of a process


def show_first(processes: int) -> dict[str, float]:
    """Prints and returns the milliseconds of the quickest of so many fresh processes."""
    command = [sys.executable, str(Path(__file__)), "--first"]
    runs = []
    for _ in range(processes):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"the first compilation failed:\n{done.stderr[-3000:]}")
        runs.append(json.loads(done.stdout.splitlines()[-1]))
    best = min(runs, key=lambda run: run["total"])
    parts = ", ".join(f"{name} {spent:.0f}" for name, spent in best.items())
    print(f"first compilation of a fresh process (saxpy, sm_80), ms: {parts}\n")
    return {name: float(spent) for name, spent in best.items()}


def compile_first() -> dict[str, float]:
    """Milliseconds from the first line of this process to its first cubin, by what was done."""
    spent: dict[str, float] = {}
    last = time.process_time()
    start = last

    def note(what: str) -> None:
        nonlocal last
        now = time.process_time()
        spent[what] = (now - last) * 1e3
        last = now

    import numpy as numpy

    note("numpy")
    import cudabuild_sample

    note("the sample")
    from cudabuild.compiler import Compilation, Request
    from cudabuild.target import parse_target

    note("the compiler")
    definition = cudabuild_sample.saxpy.definition
    work = Compilation(definition, definition.signatures[0])
    for stage in STAGES:
        work.get(stage, Request(parse_target("sm_80"), 32))
        note(stage)
    return spent | {"total": (last - start) * 1e3}


# a warm process


def show_kernels(
    kernels: dict[str, tuple[Any, Any]], targets: list[Any], doors: Doors, repeats: int
) -> list[dict[str, Any]]:
    """Prints and returns a row for each kernel."""
    titles = "".join(f"{stage:>11}" for stage in STAGES)
    names = " ".join(target.name for target in targets)
    print(f"{'ms, ' + names if len(targets) == 1 else 'ms, all images':20}{titles}", end="")
    print(f"{'total':>9}{'mean':>8}{'LLVM':>8}{'nvJitL':>8}{'x both':>8}{'images':>8}{'each':>7}")
    rows = []
    for name, (definition, signature) in kernels.items():
        runs = [compile_once(copy.copy(definition), signature, targets, doors) for _ in range(repeats)]
        best = min(runs, key=lambda run: run["total"])
        cost = {**best, "mean": statistics.fmean(run["total"] for run in runs)}
        print_row(name, cost)
        rows.append({"kernel": name, **cost})
    print_row("sum", {key: sum(row[key] for row in rows) for key in rows[0] if key != "kernel"})
    worst = max(rows, key=lambda row: row["total"] / (row["LLVM"] + row["nvJitLink"]))
    ratio = worst["total"] / (worst["LLVM"] + worst["nvJitLink"])
    print(f"the largest ratio: {worst['kernel']} {ratio:.2f}\n", flush=True)
    return rows


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
    print(f"{'instructions to LLVM':24}{'ours':>8}{'numba-cuda':>12}{'ours/its':>10}")
    for name, ours in found["cudabuild"].items():
        other = found.get("numba", {}).get(name)
        beside = f"{other:12}{ours / other:10.2f}" if other else f"{'-':>12}{'-':>10}"
        print(f"{name:24}{ours:8}{beside}")
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


def print_row(name: str, cost: dict[str, float]) -> None:
    outside = cost["LLVM"] + cost["nvJitLink"]
    stages = "".join(f"{cost[stage]:11.2f}" for stage in STAGES)
    totals = f"{cost['total']:9.1f}{cost['mean']:8.1f}{cost['LLVM']:8.1f}{cost['nvJitLink']:8.1f}"
    each = cost["total"] / cost["images"]
    print(f"{name:20}{stages}{totals}{cost['total'] / outside:8.2f}{cost['images']:8.0f}{each:7.2f}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
