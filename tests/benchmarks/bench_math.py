# SPDX-License-Identifier: Apache-2.0
"""Mathematical functions on the CPU device: libdevice's against the C library's.

    python3 tests/benchmarks/bench_math.py [--rounds 7] [--only exp,sin] [--out rows.json]

For every function and type: nanoseconds of processor time per element, and milliseconds to compile the kernel, with
libdevice and without. The second is what a computer has on which libdevice is not installed. Rounds are interleaved,
the least time counts.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from cudabuild_sample.pricing import black_scholes

from cudabuild import cuda
from cudabuild.backend import libdevice
from cudabuild.cpu import libdevice as hosted
from cudabuild.cpu.compile import compile_object
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.types import parse_signature

__all__ = ["main"]

COUNT, BLOCK = 1 << 18, 256
UNARY = ("exp", "exp2", "log", "log2", "sin", "tanh", "erf", "cbrt", "gamma", "lgamma", "sqrt")
BINARY = ("pow", "atan2", "fmod", "remainder")
PRICING = ", ".join(["float32[::1]"] * 5 + ["float32"] * 2)


def _kernel(name: str) -> Any:
    function = getattr(math, name, None) or getattr(np, name)

    def unary(x, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    def binary(x, y, out):  # type: ignore[no-untyped-def]
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i], y[i])

    return binary if name in BINARY else unary


def _cases(only: frozenset[str]) -> list[tuple[str, Any, str, tuple[Any, ...]]]:
    random = np.random.default_rng(1)
    found: list[tuple[str, Any, str, tuple[Any, ...]]] = []
    for name in (*UNARY, *BINARY):
        for type in ("float32", "float64"):
            arrays = [random.uniform(0.1, 20, COUNT).astype(type)]
            arrays += [random.uniform(1, 3, COUNT).astype(type)] if name in BINARY else []
            arrays.append(np.zeros(COUNT, type))
            found.append((f"{name} {type}", _kernel(name), ", ".join([f"{type}[::1]"] * len(arrays)), tuple(arrays)))
    bounds = ((0, 1), (0, 1), (5, 30), (1, 100), (0.25, 10))
    prices = tuple(random.uniform(*pair, COUNT).astype(np.float32) for pair in bounds)
    rates = np.float32(0.02), np.float32(0.3)
    found.append(("black_scholes float32", black_scholes.definition.function, PRICING, (*prices, *rates)))
    return [case for case in found if not only or case[0].split()[0] in only]


def _switch(present: bool, find: Any) -> None:
    """Lets the process find libdevice, or not."""
    libdevice._find_path = find if present else lambda: None
    for one in (libdevice._read_file, libdevice.find_libdevice, libdevice.find_digest, hosted._close):
        one.cache_clear()


def _measure(function: Any, signature: str, arrays: tuple[Any, ...], rounds: int, find: Any) -> dict[str, float]:
    types = parse_signature(signature)
    launches, compiling = {}, {}
    for present in (True, False):
        _switch(present, find)
        definition = KernelDefinition(function, signature)
        compile_object(definition, types, frozenset())
        start = time.process_time()
        compile_object(definition, types, frozenset())
        compiling[present] = time.process_time() - start
        launcher = CpuDevice().bind(definition, types)
        launches[present] = lambda one=launcher: one((COUNT // BLOCK, 1, 1), (BLOCK, 1, 1), 0, 0, arrays)
        launches[present]()
    best = dict.fromkeys(launches, math.inf)
    for _ in range(rounds):
        for present, launch in launches.items():
            start = time.process_time()
            launch()
            best[present] = min(best[present], time.process_time() - start)
    return {
        "ns": best[True] / COUNT * 1e9,
        "ns, C library": best[False] / COUNT * 1e9,
        "compile ms": compiling[True] * 1e3,
        "compile ms, C library": compiling[False] * 1e3,
    }


def main() -> None:
    """Prints one row for each function and type."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", default="", help="names, separated by commas")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    find, rows = libdevice._find_path, {}
    for label, function, signature, arrays in _cases(frozenset(filter(None, options.only.split(",")))):
        row = rows[label] = _measure(function, signature, arrays, options.rounds, find)
        print(f"{label:22}" + "".join(f"  {name} {value:7.2f}" for name, value in row.items()), flush=True)
    if options.out is not None:
        options.out.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
