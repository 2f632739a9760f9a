# SPDX-License-Identifier: Apache-2.0
"""A package whose kernels were recorded from its tests loads every one of them from its wheel, closures included.

    python3 tests/experiments/recorded_package.py [--quick] [--gpu] [--keep DIR]

Its tests run on the CPU device under ``cudabuild record -- pytest``; its wheel is built with what was recorded, with
``strict``: nothing is left to JIT; in a fresh environment without a compiler, with ``CUDABUILD_JIT=never``, each launch
takes a shipped cubin, and a closure with a value that was not recorded is refused with that value. ``--gpu`` launches
on the GPU and compares results; else a stand-in for the driver shows what is loaded. ``--quick`` builds for sm_90 and
32-bit indices only. Needs the ``build`` extra, ``build`` and pytest in this interpreter.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

from no_llvmlite import BASE, install
from recorded_sources import FILES, PROBE
from reporting import (
    CHECKOUT,
    Report,
    build_wheel,
    clean_environment,
    make_environment,
    run,
    site_packages,
)

sys.path.insert(0, str(CHECKOUT))

__all__ = ["main"]

SIGNATURES = "cudabuild-signatures.toml"
LAUNCHES = 12


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="build for sm_90, with 32-bit indices, only")
    parser.add_argument("--gpu", action="store_true", help="launch on the GPU")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="put a copy of the project and its wheel there")
    options = parser.parse_args()
    report = Report("a package recorded from its tests")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        project = folder / "project"
        for name, text in FILES.items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        record(report, project, folder)
        wheel = build(report, project, folder, options.quick)
        if wheel is not None:
            load(report, wheel, folder, options.gpu)
        if options.keep is not None:
            shutil.copytree(folder / "project", options.keep, dirs_exist_ok=True)
            if wheel is not None:
                shutil.copy(wheel, options.keep)
    return report.status()


def record(report: Report, project: Path, folder: Path) -> None:
    """Runs the tests and looks at what they left."""
    from cudabuild.recording import read_signatures

    environment = clean_environment(
        CUDABUILD_DEVICE="cpu",
        CUDABUILD_CACHE_DIR=str(folder / "cache"),
        PYTHONPATH=str(project / "src"),
        PYTHONDONTWRITEBYTECODE="1",
    )
    command = [
        sys.executable,
        "-m",
        "cudabuild",
        "record",
        "--",
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:xdist",
    ]
    done = run([*command, "tests"], environment, cwd=project)
    if not report.check("its tests pass on the CPU device while they are recorded", done.returncode == 0):
        report.note(f"{done.stdout[-2000:]}{done.stderr[-2000:]}")
    report.note(done.stderr.strip().splitlines()[-1] if done.stderr else "")
    kernels = read_signatures(project / SIGNATURES)
    local = [kernel for kernel in kernels if kernel.is_local]
    report.check(
        "kernels and closures are in the file", (len(kernels), len(local)) == (11, 8), (len(kernels), len(local))
    )
    arrays = sorted(path.name for path in project.glob("*.arrays/*.npy"))
    report.check("the large array is beside it", len(arrays) == 1, arrays)
    before = (project / SIGNATURES).read_bytes()
    run([*command, "tests"], environment, cwd=project)
    report.check("a second run changes nothing", (project / SIGNATURES).read_bytes() == before)


def build(report: Report, project: Path, folder: Path, quick: bool) -> Path | None:
    """Builds the wheel; strict, so it fails if anything is left to JIT."""
    archs = {"CUDABUILD_ARCHS": "90", "CUDABUILD_INDEX": "32"} if quick else {"CUDABUILD_ARCHS": "80 90 100"}
    environment = clean_environment(CUDABUILD_CACHE_DIR=str(folder / "cache"), **archs)
    try:
        wheel = build_wheel(project, folder / "wheels", environment)
    except RuntimeError as error:
        report.check("the wheel is built, and nothing is left to JIT", False, str(error))
        return None
    report.check("the wheel is built, and nothing is left to JIT", True, f"{wheel.name}, {wheel.stat().st_size} bytes")
    return wheel


def load(report: Report, wheel: Path, folder: Path, gpu: bool) -> None:
    """Launches everything in a fresh environment without a compiler."""
    python = make_environment(folder / "environment", wheel)
    target = site_packages(folder / "environment")
    shutil.copytree(CHECKOUT / "cudabuild", target / "cudabuild", ignore=shutil.ignore_patterns("__pycache__"))
    install(BASE, folder / "wheels", target)
    code = PROBE.format(fake=not gpu, runtime=str(CHECKOUT / "tests" / "runtime"))
    environment = clean_environment(
        CUDABUILD_JIT="never", CUDABUILD_CACHE_DIR=str(folder / "empty cache"), CUDABUILD_DEVICE="gpu"
    )
    environment["CUDABUILD_IMPLICIT_COPY_WARNINGS"] = environment["CUDABUILD_LOW_OCCUPANCY_WARNINGS"] = "0"
    done = run([python, "-c", code], environment, cwd=folder)
    if not report.check("the installed package runs without a compiler", done.returncode == 0):
        report.note(done.stderr[-3000:])
        return
    found: list[Any]
    found, missed, compiler = json.loads(done.stdout.splitlines()[-1])
    shipped = [name for name, sources, _ in found if all(one.startswith("shipped cubin") for one in sources)]
    report.check("every launch takes a shipped cubin", len(shipped) == len(found) == LAUNCHES, f"{len(shipped)}")
    for name, sources, difference in found:
        report.note(f"{name}: {', '.join(sources)}" + (f", off by {difference:.1e}" if gpu else ""))
    if gpu:
        wrong = [name for name, _, difference in found if difference >= (1e-2 if "large" in name else 1e-5)]
        report.check("every result is right on the GPU", not wrong, wrong)
    told = missed.startswith("NoImageError") and "taps was array <f4 (2,)" in missed and "array <f4 (3,)" in missed
    report.check("a closure with a value that was not recorded is refused, and told by it", told)
    report.note(next((line.strip() for line in missed.splitlines() if "taps was" in line), missed))
    report.check("neither compiler nor recorder was imported", not compiler, compiler)


if __name__ == "__main__":
    sys.exit(main())
