# SPDX-License-Identifier: Apache-2.0
"""Everything that needs a GPU, in one go: for a machine that is at hand for minutes and reaches no package index.

    python3 tests/gpu/run_all.py --out DIR [--bundle bundle.tar.xz] [--only PART ...]

Works from a checkout. The bundle (``tests/gpu/bundle.py``) brings cudabuild, the sample with its archives, and what
both need; numba-cuda, CuPy and nvcc are used where this machine has them. Parts run one after the other, each within
its own limit; a part that fails does not stop the next. DIR receives one log per part and the summary.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(CHECKOUT / "tests" / "experiments"))

import bundle  # noqa: E402
from no_llvmlite import BASE, COMPILER, install, own_wheels  # noqa: E402
from reporting import clean_environment, make_environment, run, site_packages  # noqa: E402

__all__ = ["main"]

TESTS = tuple(name.replace("-", "_") for name in bundle.TESTS)
LINKER = ("nvidia_nvjitlink",)  # where this machine has it; without it the driver links
EXPERIMENTS = CHECKOUT / "tests" / "experiments"
BENCHMARKS = CHECKOUT / "tests" / "benchmarks"
PYTEST = ("-q", "-m", "gpu", "--continue-on-collection-errors")
BUDGET = 530.0  # seconds for everything


class Machine:
    """The environments that the parts run in.

    ``suite``: numba-cuda's wheel, or None. ``lean``: the installed sample, no compiler. ``full``: the same, a compiler
    and pytest beside it. ``host``: this interpreter with what it has (numba-cuda, CuPy), the sample and the checkout
    put before it.
    """

    def __init__(self, folder: Path, packed: Path | None, suite: Path | None = None) -> None:
        self.suite = suite
        self.wheels = folder / "bundle"
        if packed is None:
            raise SystemExit("--bundle: make one with tests/gpu/bundle.py")
        with tarfile.open(packed) as tar:
            tar.extractall(folder)
        self.lean = make_environment(folder / "lean", *own_wheels(self.wheels))
        install(BASE, self.wheels, site_packages(folder / "lean"))
        self.full = make_environment(folder / "full", *own_wheels(self.wheels))
        install((*BASE, *COMPILER, *LINKER, *TESTS), self.wheels, site_packages(folder / "full"))
        more = [path for name in ("platformdirs", *TESTS, "numpy") for path in self.wheels.glob(f"{name}-[0-9]*")]
        own = [str(path) for path in (*own_wheels(self.wheels), *more)]
        self.host_path = os.pathsep.join(own)
        self.numpy_path = own[-1]
        self.cache = folder / "cache"

    def environment(self, **changes: str) -> dict[str, str]:
        return clean_environment(CUDABUILD_CACHE_DIR=str(self.cache), PYTHONUNBUFFERED="1", **changes)


def parts(machine: Machine, out: Path) -> dict[str, tuple[list[str | Path], dict[str, str], float]]:
    """name -> command, environment, limit in seconds; in the order of their worth."""
    plain, host = machine.environment(), machine.environment(PYTHONPATH=machine.host_path)
    checkout = machine.environment(PYTHONPATH=str(CHECKOUT))
    return {
        "machine": (
            ["nvidia-smi", "--query-gpu=name,driver_version,clocks.sm,clocks.max.sm", "--format=csv"],
            plain,
            20,
        ),
        "sample": ([machine.lean, "-m", "cudabuild_sample"], {**plain, "CUDABUILD_LOG": "info"}, 60),
        "no_llvmlite": ([sys.executable, EXPERIMENTS / "no_llvmlite.py", "--wheels", machine.wheels], plain, 120),
        "edited_copy": (
            [sys.executable, EXPERIMENTS / "edited_copy.py", "--wheels", machine.wheels],
            plain,
            120,
        ),
        "tests": ([machine.full, CHECKOUT / "tests" / "gpu" / "each_file.py"], checkout, 330),
        "host_tests": (
            [
                sys.executable,
                "-m",
                "pytest",
                *PYTEST,
                "-p",
                "no:cacheprovider",
                CHECKOUT / "tests" / "runtime" / "test_on_gpu.py",
            ],
            machine.environment(PYTHONPATH=os.pathsep.join([str(CHECKOUT), machine.host_path])),
            120,
        ),
        "agreement": (
            [
                machine.full,
                EXPERIMENTS / "device_agreement.py",
                "--gpu",
                "--jobs",
                "10",
                "--out",
                out / "agreement.json",
            ],
            checkout,
            300,
        ),
        **(
            {
                "conformance": (
                    [
                        *(
                            machine.full,
                            CHECKOUT / "tests" / "conformance" / "run.py",
                            "--device",
                            "gpu",
                            "--jobs",
                            "10",
                        ),
                        *("--wheel", machine.suite, "--scratch", machine.cache.parent / "suite", "--update-floor"),
                        *("--out", out / "conformance.tsv", "--ranking", out / "conformance.md"),
                    ],
                    checkout,
                    300,
                )
            }
            if machine.suite is not None
            else {}
        ),
        "random": (
            [
                machine.full,
                EXPERIMENTS / "random_programs.py",
                *("--devices", "gpu", "--count", "2000", "--jobs", "16", "--no-plants"),
            ],
            checkout,
            240,
        ),
        "language": (
            [
                machine.full,
                EXPERIMENTS / "language_table.py",
                *("--gpu", "--jobs", "16", "--out", out / "language.json"),
            ],
            checkout,
            300,
        ),
        "sanitizer": (
            [machine.full, EXPERIMENTS / "planted_faults.py", "--quick", "--sanitizer", "compute-sanitizer"],
            checkout,
            120,
        ),
        "big_arrays": ([machine.full, EXPERIMENTS / "big_arrays.py", "--device", "gpu"], plain, 90),
        "wild": (
            [
                machine.full,
                CHECKOUT / "tests" / "wild" / "run.py",
                *("--device", "gpu", "--against", "numba", "--targets", "", "--jobs", "8", "--limit", "240"),
                *("--wheels", machine.wheels / "wild", "--scratch", machine.cache / "wild", "--out", out / "wild.txt"),
                *("--numba-python", sys.executable, "--numba-path", machine.numpy_path),
            ],
            checkout,
            300,
        ),
        **(
            {
                "adopted": (
                    [
                        *(machine.full, EXPERIMENTS / "adopted_packages.py", "--gpu"),
                        *("--packed", machine.wheels / "adopted", "--out", out / "adopted.json"),
                        *("--numba-python", sys.executable, "--numba-path", machine.numpy_path),
                    ],
                    checkout,
                    120,
                )
            }
            if (machine.wheels / "adopted").is_dir()
            else {}
        ),
        "recorded": ([machine.full, EXPERIMENTS / "recorded_package.py", "--gpu"], checkout, 120),
        "binding": (
            [machine.full, EXPERIMENTS / "binding_cost.py", "--gpu", "--out", out / "binding.json"],
            plain,
            150,
        ),
        "launch": ([sys.executable, BENCHMARKS / "bench_launch.py", "--out", out / "launch.json"], host, 90),
        "cold_start": (
            [
                sys.executable,
                BENCHMARKS / "bench_cold_start.py",
                "--python",
                machine.lean,
                "--numba-path",
                machine.numpy_path,
                "--out",
                out / "cold.json",
            ],
            plain,
            120,
        ),
        **{
            f"cpu_speed_{cores}": (
                [
                    sys.executable,
                    BENCHMARKS / "bench_cpu_speed.py",
                    *("--cores", str(cores), "--numba-python", sys.executable, "--numba-path", machine.numpy_path),
                    *("--out", out / f"cpu_speed_{cores}.json"),
                ],
                host,
                120,
            )
            for cores in (1, 2)
        },
        "sass": ([machine.lean, BENCHMARKS / "bench_sass.py", "--out", out / "sass.json"], plain, 150),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--bundle", type=Path)
    parser.add_argument("--suite", type=Path, help="numba-cuda's wheel, whose tests are run (tests/conformance)")
    parser.add_argument("--only", nargs="*", help="names of parts")
    options = parser.parse_args()
    out = options.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    start = time.perf_counter()
    summary = []
    with tempfile.TemporaryDirectory() as scratch:
        machine = Machine(Path(scratch), options.bundle, options.suite and options.suite.resolve())
        print(f"environments made in {time.perf_counter() - start:.1f} s", flush=True)
        versions = run([sys.executable, "-c", VERSIONS], machine.environment())
        print(versions.stdout.strip() or versions.stderr.strip(), flush=True)
        for name, (command, environment, limit) in parts(machine, out).items():
            if options.only and name not in options.only:
                continue
            left = BUDGET - (time.perf_counter() - start)
            summary.append(run_part(name, command, environment, min(limit, left), out))
    text = "\n".join(summary)
    (out / "summary.txt").write_text(text + "\n")
    print(f"\n=== summary, {time.perf_counter() - start:.0f} s\n{text}")
    return 1 if any(" failed" in line or " over" in line for line in summary) else 0


VERSIONS = """
import importlib.metadata as m, sys
names = ("cuda-bindings", "numba-cuda", "numba", "llvmlite", "cupy-cuda13x", "torch", "nvidia-nvjitlink", "numpy")
found = []
for name in names:
    try:
        found.append(f"{name} {m.version(name)}")
    except m.PackageNotFoundError:
        found.append(f"{name} -")
print("host: Python", sys.version.split()[0], *found, sep="; ")
"""


def run_part(name: str, command: list[str | Path], environment: dict[str, str], limit: float, out: Path) -> str:
    """Runs one part, its output to the terminal and to a log; one line for the summary."""
    print(f"\n=== {name}", flush=True)
    if limit < 5:
        return f"{name:12} over the time for everything: not run"
    log = out / f"{name}.log"
    start = time.perf_counter()
    try:
        with log.open("w") as stream:
            done = subprocess.run(
                [str(part) for part in command],
                env=environment,
                cwd=CHECKOUT / "tests",  # not the checkout: what is installed must not be hidden by the sources there
                stdout=stream,
                stderr=subprocess.STDOUT,
                timeout=limit,
                check=False,
            )
        verdict = "ok" if done.returncode == 0 else f"failed with status {done.returncode}"
    except subprocess.TimeoutExpired:
        verdict = f"over its {limit:.0f} s"
    except OSError as error:
        verdict = f"failed to start: {error}"
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    print("\n".join(line[:200] for line in lines[-60:]), flush=True)
    return f"{name:12} {verdict} ({time.perf_counter() - start:.0f} s)"


if __name__ == "__main__":
    sys.exit(main())
