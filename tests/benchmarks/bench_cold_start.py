# SPDX-License-Identifier: Apache-2.0
"""Fresh process to first finished launch: the installed sample against the raw script and numba-cuda with a warm cache.

    python3 tests/benchmarks/bench_cold_start.py [--python INTERPRETER] [--numba-python INTERPRETER] [--rounds 15]

Processes run in turn, one of each kind per round, the order alternating. Each times itself from its first line (the
scripts beside this file: ``cold_raw.py``, ``cold_cudabuild.py``, ``cold_numba.py``); the whole process, interpreter
included, is timed from outside as well. ``--python`` must have the sample installed. Goal: <= 1.25 x the raw script.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
GOAL = 1.25


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", default=sys.executable, help="has cuda-bindings and the installed sample")
    parser.add_argument("--numba-python", default=sys.executable, help="has numba-cuda; skipped where it has not")
    parser.add_argument("--numba-path", default="", help="PYTHONPATH for numba-cuda, such as a NumPy that it can use")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--out", type=Path, help="write the medians to this JSON file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        cubin = extract_cubin(options.python, Path(folder))
        commands = {
            "raw": [options.python, str(HERE / "cold_raw.py"), *cubin],
            "cudabuild": [options.python, str(HERE / "cold_cudabuild.py")],
        }
        numba = ["env", f"PYTHONPATH={options.numba_path}", options.numba_python]
        probe = [*numba, "-c", "import numba_cuda"]
        if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
            commands["numba-cuda"] = [*numba, str(HERE / "cold_numba.py")]
        environment = {**os.environ, "NUMBA_CACHE_DIR": str(Path(folder) / "numba")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages have their bytecode
        inside, outside, notes = measure(commands, options.rounds, environment)
    print(f"{'fresh process to first finished launch':40} {'s':>7} {'x raw':>7}   {'process s':>9} {'x raw':>7}")
    rows = []
    for name in commands:
        own = [a / b for a, b in zip(inside[name], inside["raw"], strict=False)]
        whole = [a / b for a, b in zip(outside[name], outside["raw"], strict=False)]
        row = [statistics.median(part) for part in (inside[name], own, outside[name], whole)]
        goal = f"   goal {GOAL}: {'met' if row[1] <= GOAL else 'MISSED'}" if name == "cudabuild" else ""
        print(f"{name:40} {row[0]:7.3f} {row[1]:7.2f}   {row[2]:9.3f} {row[3]:7.2f}{goal}")
        rows.append({"way": name, "seconds": row[0], "ratio": row[1], "process": row[2], "process_ratio": row[3]})
    print(f"cudabuild image: {notes[0]}; of the heavy modules it had imported: {notes[1] or 'none'}")
    if options.out:
        options.out.write_text(json.dumps(rows, indent=1))
    return 0


EXTRACT = """
import sys
from pathlib import Path
import cudabuild_sample, numpy
from cudabuild.image.archive import Archive
signature = "float32, float32[::1], float32[::1]"
x, y = numpy.zeros((2, 256), "f4")
cudabuild_sample.saxpy[4, 64](2.0, x, y)
target = cudabuild_sample.saxpy.image_source(signature).split()[-1]
archive = Archive(str(Path(cudabuild_sample.__file__).parent / "_cudabuild" / f"{target}.cuar"))
records = archive.find_named("cudabuild_sample.vectors", "saxpy", signature)
record = next(record for record in records if record.index_width == 32)
Path(sys.argv[1]).write_bytes(bytes(record.load_image("shipped").data))
print(record.symbol)
"""


def extract_cubin(python: str, folder: Path) -> list[str]:
    """saxpy's cubin for this device out of the installed sample, and its symbol: the raw script loads the same code."""
    path = folder / "saxpy.cubin"
    done = subprocess.run([python, "-c", EXTRACT, str(path)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"no shipped cubin to compare with:\n{done.stderr[-3000:]}")
    return [str(path), done.stdout.split()[-1]]


def measure(
    commands: dict[str, list[str]], rounds: int, environment: dict[str, str]
) -> tuple[dict[str, list[float]], dict[str, list[float]], list[str]]:
    """Seconds by each process's own clock and from outside; the last lines that the cudabuild script printed."""
    inside: dict[str, list[float]] = {name: [] for name in commands}
    outside: dict[str, list[float]] = {name: [] for name in commands}
    notes: list[str] = []
    for number in range(rounds + 2):
        for name in list(commands) if number % 2 else list(reversed(commands)):
            if name == "numba-cuda" and number > 6:
                continue  # a second and more each: five are enough
            start = time.perf_counter()
            done = subprocess.run(commands[name], env=environment, capture_output=True, text=True, check=False)
            elapsed = time.perf_counter() - start
            if done.returncode:
                raise SystemExit(f"{name} failed:\n{done.stderr[-3000:]}")
            lines = done.stdout.splitlines()
            if name == "cudabuild":
                notes = [*lines[1:3], "", ""][:2]
            if number >= 2:  # the first rounds fill file caches and numba's own cache
                inside[name].append(float(lines[0]))
                outside[name].append(elapsed)
    return inside, outside, notes


if __name__ == "__main__":
    sys.exit(main())
