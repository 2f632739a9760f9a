# SPDX-License-Identifier: Apache-2.0
"""What the import hook costs 1,000 unrelated imports: empty modules with bytecode at hand, the cheapest there are.

    python3 tests/benchmarks/bench_import_hook.py [--rounds 30]

Processor time with the hook in front over the time without it, rounds interleaved, the order alternating. Goal: <=
1.01.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from cudabuild.importer.finder import Finder

__all__ = ["main"]

NAMES = [f"mod{i}" for i in range(500)]
NAMES += [name for i in range(100) for name in (f"pack{i}", *(f"pack{i}.part{j}" for j in range(4)))]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    options = parser.parse_args()
    others = [finder for finder in sys.meta_path if not isinstance(finder, Finder)]
    ratios, bares = [], []
    with tempfile.TemporaryDirectory() as folder:
        write_modules(Path(folder))
        sys.path.insert(0, folder)
        for number in range(options.rounds + 2):
            lines: list[list[Any]] = [[Finder(), *others], others]
            ours, bare = map(import_all, lines) if number % 2 else reversed([*map(import_all, reversed(lines))])
            if number >= 2:  # the first rounds warm the file system's caches
                ratios.append(ours / bare)
                bares.append(bare)
    low, middle, high = statistics.quantiles(ratios, n=4)
    print(
        f"1,000 imports: {statistics.median(bares) * 1e3:.1f} ms; with the hook x {middle:.4f}, {low:.4f} .. {high:.4f}"
    )
    return 0


def write_modules(folder: Path) -> None:
    for name in NAMES:
        path = folder.joinpath(*name.split("."))
        if name.startswith("pack") and "." not in name:
            path.mkdir()
            path /= "__init__"
        path.with_name(path.name + ".py").write_text("", "utf-8")
    compileall.compile_dir(folder, quiet=2)


def import_all(finders: list[Any]) -> float:
    """Seconds of processor time for importing every module anew."""
    for name in NAMES:
        sys.modules.pop(name, None)
    sys.meta_path[:] = finders
    gc.collect()
    gc.disable()
    start = time.process_time()
    for name in NAMES:
        __import__(name)
    spent = time.process_time() - start
    gc.enable()
    return spent


if __name__ == "__main__":
    sys.exit(main())
