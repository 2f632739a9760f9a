# SPDX-License-Identifier: Apache-2.0
"""A project of 1,000 kernels × 5 targets × both index widths: what a build costs beyond LLVM and nvJitLink.

    python3 tests/experiments/big_build.py [--quick] [--kernels N] [--jobs N]

Built from nothing, again with nothing changed, with one kernel edited, as a wheel, and through a Dask cluster of two
workers (60 kernels; needs the package distributed). The time inside the tools is what the calls of LLVM and nvJitLink
take in the workers, by their threads' processor time; a build is compared to it by the processor time of all its
processes and by the clock on as many processors as it has jobs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from big_build_kernels import make_project
from reporting import CHECKOUT, Report, build_wheel, clean_environment

__all__ = ["main"]

ARCHS = ["75", "80", "90", "100", "120"]
IMAGES = 2 * len(ARCHS)  #: of a kernel

#: Loaded by every Python process of a build: measures the tools in it, and its memory.
METER = """
import atexit, json, os, resource, sys, time

def wrap(module, names):
    for name in names:
        setattr(module, name, measured(getattr(module, name)))

def measured(function):
    def call(*args, **keywords):
        start = time.thread_time()
        try:
            return function(*args, **keywords)
        finally:
            spent[0] += time.thread_time() - start
    return call

spent = [0.0]

def write():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    with open(os.path.join(os.environ["BIG_BUILD_METER"], str(os.getpid())), "w") as stream:
        json.dump({"tools": spent[0], "peak": usage.ru_maxrss, "cpu": usage.ru_utime + usage.ru_stime}, stream)

if "BIG_BUILD_METER" in os.environ:
    atexit.register(write)
    if "-c" in sys.orig_argv and "cudabuild.build.worker" in sys.orig_argv[sys.orig_argv.index("-c") + 1]:
        from cudabuild.backend import cubin, ptx
        wrap(ptx, ["optimise_llvm", "link_libdevice"])
        wrap(ptx.llvm, ["emit_assembly"])
        wrap(cubin, ["link_cubin"])
"""


@dataclass
class Run:
    """One build: by the clock, processor time of all processes, of the parent and of the tools, peak memory in MB."""

    wall: float
    cpu: float
    parent: float
    tools: float
    peak: float
    output: str


class Bench:
    """A scratch folder with a copy of the package, so that nobody's edits count as a change of the tools."""

    def __init__(self, folder: Path, jobs: int) -> None:
        self.folder = folder
        self.jobs = jobs
        site = folder / "site"
        skip = shutil.ignore_patterns("__pycache__")
        shutil.copytree(CHECKOUT / "cudabuild", site / "cudabuild", ignore=skip)
        (site / "sitecustomize.py").write_text(METER, encoding="utf-8")
        self.site = site

    def environment(self, cache: str, **more: str) -> dict[str, str]:
        return clean_environment(PYTHONPATH=str(self.site), CUDABUILD_CACHE_DIR=str(self.folder / cache), **more)

    def build(self, project: Path, cache: str, *arguments: str) -> Run:
        meter = Path(tempfile.mkdtemp(dir=self.folder))
        command = [sys.executable, "-m", "cudabuild", "build", *arguments]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        environment = self.environment(cache, BIG_BUILD_METER=str(meter), CUDABUILD_JOBS=str(self.jobs))
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        wall = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode:
            raise SystemExit(f"{' '.join(command)}\n{done.stdout[-3000:]}{done.stderr[-6000:]}")
        parts = [json.loads(path.read_text(encoding="utf-8")) for path in meter.iterdir()]
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        tools, peak = (sum(part[name] for part in parts) for name in ("tools", "peak"))
        parent = sum(part["cpu"] for part in parts if not part["tools"])
        return Run(wall, cpu, parent, tools, peak / 1024, done.stdout)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="12 kernels, and no bound that a busy machine could miss")
    parser.add_argument("--kernels", type=int, default=1000, help="how many kernels (default: 1000)")
    parser.add_argument("--jobs", type=int, default=len(os.sched_getaffinity(0)), help="how many processes compile")
    options = parser.parse_args()
    kernels = 12 if options.quick else options.kernels
    report = Report(f"a build of {kernels} kernels x {len(ARCHS)} targets x 2 index widths, {options.jobs} jobs")
    with tempfile.TemporaryDirectory(prefix="big-build-") as scratch:
        bench = Bench(Path(scratch), options.jobs)
        project = make_project(Path(scratch, "project"), kernels, ARCHS)
        build_from_nothing(report, bench, project, kernels, options.quick)
        build_again(report, bench, project, options.quick)
        build_edited(report, bench, project, kernels)
        build_into_wheel(report, bench, project, kernels)
        build_on_cluster(report, bench, min(kernels, 60))
    return report.status()


def build_from_nothing(report: Report, bench: Bench, project: Path, kernels: int, quick: bool) -> None:
    made = bench.build(project, "cache", "--inplace")
    images = kernels * IMAGES
    report.check("every image is made", f"{images} images compiled, 0 from the cache" in made.output, f"{images}")
    ideal = made.tools / bench.jobs
    report.note(
        f"in LLVM and nvJitLink {made.tools:.1f} s; all processes {made.cpu:.1f} s, the parent of the others "
        f"{made.parent:.1f} s; by the clock {made.wall:.1f} s"
    )
    figures = (
        f"processor time {made.cpu / made.tools:.2f} x, clock {made.wall / ideal:.2f} x on {bench.jobs} processors"
    )
    if quick:  # starting the processes is most of it
        report.note(figures)
    else:
        report.check("at most 1.3 x the time inside LLVM and nvJitLink", made.wall <= 1.3 * ideal, figures)
    report.note(f"peak memory of all processes together at most {made.peak:.0f} MB")
    for line in made.output.splitlines()[-12:]:
        report.note(line)


def build_again(report: Report, bench: Bench, project: Path, quick: bool) -> None:
    runs = [bench.build(project, "cache", "--inplace") for _ in range(3 if quick else 9)]
    best = min(runs, key=lambda run: run.wall)
    report.check("nothing changed: nothing is done", all("nothing has changed" in run.output for run in runs))
    figures = f"{best.wall:.3f} s by the clock, {min(run.cpu for run in runs):.3f} s of processor time"
    report.check("in 0.5 s", min(run.cpu for run in runs) <= 0.5 and (quick or best.wall <= 0.5), figures)


def build_edited(report: Report, bench: Bench, project: Path, kernels: int) -> None:
    path = project / "src" / "big" / "part_000.py"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("float32(1.5)", "float32(1.25)"), encoding="utf-8")
    made = bench.build(project, "cache", "--inplace")
    expected = f"{IMAGES} images compiled, {kernels * IMAGES - IMAGES} from the cache"
    figures = f"{made.wall:.1f} s by the clock, {made.cpu:.1f} s of processor time"
    report.check("one kernel edited: one kernel compiled", expected in made.output, figures)
    path.write_text(text, encoding="utf-8")


def build_into_wheel(report: Report, bench: Bench, project: Path, kernels: int) -> None:
    copy = Path(shutil.copytree(project, bench.folder / "copy", ignore=shutil.ignore_patterns("_cudabuild")))
    wheel = build_wheel(copy, bench.folder / "wheels", bench.environment("cache"))
    installed = sum(path.stat().st_size for path in project.rglob("*.cuar"))
    size = wheel.stat().st_size
    report.check(
        "the wheel",
        re.fullmatch(r"big-1-py3-none-any\.whl", wheel.name) is not None,
        f"{size / 1e6:.1f} MB, {size / kernels / IMAGES:.0f} bytes an image; archives {installed / 1e6:.1f} MB",
    )


CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


def build_on_cluster(report: Report, bench: Bench, kernels: int) -> None:
    """The same archives from here and from a cluster, each with an empty cache."""
    found = subprocess.run([sys.executable, "-c", "import distributed"], capture_output=True, check=False)
    if found.returncode:
        report.note("not shown here: a build through Dask (the package distributed is not installed)")
        return
    project = make_project(bench.folder / "small", kernels, ARCHS)
    script = bench.folder / "cluster.py"
    script.write_text(CLUSTER, encoding="utf-8")
    cluster = subprocess.Popen(
        [sys.executable, str(script)],
        env=bench.environment("cluster-cache"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        there = bench.build(project, "there-cache", "--out", "there", "--executor", f"dask:{address}")
    finally:
        cluster.communicate("")
    here = bench.build(project, "here-cache", "--out", "here")
    count = f"{kernels * IMAGES} images compiled, 0 from the cache"
    report.check("all of it compiled twice", count in there.output and count in here.output, f"{kernels} kernels")
    one, other = digests(project / "here"), digests(project / "there")
    report.check("a Dask cluster's archives are the same bytes", bool(one) and one == other, f"{len(one)} files")


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


if __name__ == "__main__":
    sys.exit(main())
