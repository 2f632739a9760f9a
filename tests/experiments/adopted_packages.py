#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packages that others wrote for numba-cuda, without a changed line: found, adopted, recorded, shipped, launched.

    python tests/experiments/adopted_packages.py                 downloads, records, precompiles; needs a package index
    python tests/experiments/adopted_packages.py --pack DIR      the same, and keeps what --gpu takes elsewhere
    python tests/experiments/adopted_packages.py --gpu --packed DIR [--numba-python P]    on a GPU, against numba-cuda
    python tests/experiments/adopted_packages.py --quick            a package written here in place of theirs; offline

Every kernel at module level or in a class of nine public packages is found from their text, compared with a count that
shares nothing with the product's. Three of them are adopted: the examples of their documentation run on the CPU device
and are recorded, and ``cudabuild warm`` makes archives of the records. On a GPU every recorded launch is made again
with ``CUDABUILD_JIT=never`` and, in another process, with numba-cuda; results and times of first launches are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import textwrap
import venv
import zipfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / "wild"), str(TESTS / "experiments")]

from adopted_count import count_kernels  # noqa: E402
from reporting import CHECKOUT, Report, clean_environment, run  # noqa: E402

__all__ = ["main"]

HERE = Path(__file__).resolve().parent
#: Those of ``tests/wild`` whose kernels are written with numba's own decorator at module level or in classes.
COUNTED = (
    "abtem", "datashader", "gquant", "hepaccelerate", "pylops", "sgkit", "skopi", "stumpy",
    "xarray-spatial",
)  # fmt: skip
#: Adopted package -> what pip installs for it; skopi names MPI, of which nothing here is used.
ADOPTED = {
    "sgkit": ("sgkit==0.10.0",),
    "skopi": ("h5py", "matplotlib", "requests", "scipy", "six", "tqdm", "gdown"),
    "stumpy": ("stumpy==1.14.1",),
}
NEEDED = ("numba==0.68.1", "filelock", "platformdirs", "cuda-bindings", "nvidia-nvvm", "nvidia-nvjitlink")
WITHOUT_DEPENDENCIES = ("skopi==0.6.0",)
TARGETS = ("sm_80", "sm_90")
#: The largest difference from numba-cuda's results, relative to the largest element, by the width of the floats.
TOLERANCES = {4: 2e-5, 8: 1e-11}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="offline, in seconds")
    parser.add_argument("--python", type=Path, help="an interpreter that has the packages; made by default")
    parser.add_argument("--scratch", type=Path, help="where distributions and environments are kept")
    parser.add_argument("--pack", type=Path, metavar="DIR", help="keep what --gpu takes")
    parser.add_argument("--gpu", action="store_true", help="launch on this machine's GPU what --packed holds")
    parser.add_argument("--packed", type=Path, metavar="DIR", help="what --pack wrote")
    parser.add_argument("--numba-python", default=sys.executable, help="the interpreter that has numba-cuda")
    parser.add_argument("--numba-path", default="", help="what goes before its own modules: a NumPy that numba takes")
    parser.add_argument("--out", type=Path, help="write the figures here, as JSON")
    options = parser.parse_args()
    if options.gpu:
        return on_gpu(options)
    report = Report("numba packages, unchanged")
    with tempfile.TemporaryDirectory(prefix="adopted-") as folder:
        if options.quick:
            quick(report, Path(folder))
        else:
            full(report, options, Path(folder))
    return report.status()


# Discovery, recording, precompiling


def full(report: Report, options: argparse.Namespace, folder: Path) -> None:
    from projects import fetch, load_projects, unpack

    scratch = (options.scratch or default_scratch()).absolute()
    projects = {("gquant" if "gquant" in name else name): one for name, one in load_projects().items()}
    for name in COUNTED:
        root = unpack(projects[name], fetch(projects[name], scratch / "downloads"), scratch)
        check_discovery(report, f"{name} {projects[name].version}", root)
    python = options.python or make_environment(scratch / "adopted-environment")
    pack = (options.pack or folder / "pack").absolute()
    pack.mkdir(parents=True, exist_ok=True)
    site = Path(ask(python, "import sysconfig; print(sysconfig.get_path('purelib'))"))
    for name in ADOPTED:
        adopt(report, name, python, site, pack, folder)
    size = sum(path.stat().st_size for path in pack.rglob("*") if path.is_file())
    report.check("the pack is at most 20 MiB", size <= 20 << 20, f"{size / 2**20:.2f} MiB")


def default_scratch() -> Path:
    from platformdirs import user_cache_path

    return user_cache_path("cudabuild") / "wild"


def make_environment(folder: Path) -> Path:
    """An interpreter with the adopted packages, and numba."""
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        venv.create(folder, with_pip=True)
    wanted = [*NEEDED, *(name for names in ADOPTED.values() for name in names)]
    for names in (wanted, ["--no-deps", *WITHOUT_DEPENDENCIES]):
        done = run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *names])
        if done.returncode:
            raise SystemExit(f"pip cannot install {' '.join(names)}: {done.stderr[-600:]}")
    return python


def check_discovery(report: Report, name: str, root: Path) -> None:
    """Every kernel that the other count finds is found by the build's own, from the text alone."""
    from cudabuild.build.candidates import find_candidates
    from cudabuild.build.slice import Slicer
    from cudabuild.cli.warm import find_modules

    counted = count_kernels(root)
    project = find_modules(root)
    candidates, _ = find_candidates(Slicer(project))
    found = {(one.module, one.path) for one in candidates if not one.made_at_run_time}
    missing = sorted(".".join((module, *path)) for module, path in counted - found)
    more = sorted(".".join((module, *path)) for module, path in found - counted)
    text = f"{len(counted & found)} of {len(counted)}" + (f", not found: {', '.join(missing)}" if missing else "")
    report.check(f"{name}: every kernel at module level or in a class is found without importing", not missing, text)
    if more:
        report.note(f"{len(more)} more, by decorators of its own: {', '.join(more[:6])}{' …' if len(more) > 6 else ''}")


def adopt(report: Report, name: str, python: Path, site: Path, pack: Path, folder: Path) -> None:
    """Records a package's examples, precompiles the records, and checks that every one binds."""
    signatures, launches = pack / f"{name}.toml", pack / f"{name}.pickle"
    signatures.unlink(missing_ok=True)
    environment = clean_environment(
        CUDABUILD_DEVICE="cpu",
        CUDABUILD_ADOPT=name,
        CUDABUILD_CACHE_DIR=str(folder / "cache"),
        PYTHONPATH=os.pathsep.join([str(CHECKOUT), str(site)]),
    )
    driver = [python, HERE / "adopted_drivers.py", name, launches]
    done = run([python, "-m", "cudabuild", "record", "--out", signatures, "--", *driver], environment)
    if not report.check(f"{name}: its examples run adopted, on the CPU device", done.returncode == 0, last(done)):
        report.note(done.stderr[-2000:])
        return
    archs = " ".join(target.removeprefix("sm_") for target in TARGETS)
    warm = ["warm", name, "--signatures", signatures, "--archs", archs, "--ptx", "none", "--out", pack / "archives"]
    done = run([python, "-m", "cudabuild", *warm], environment)
    if not report.check(f"{name}: what was recorded is precompiled", done.returncode == 0, last(done)):
        report.note((done.stdout + done.stderr)[-2000:])
        return
    pack_sources(site / name, pack / f"{name}.zip")
    for target in TARGETS:
        check_binding(report, name, pack, folder, target)
    check_binding(report, name, pack, folder, TARGETS[-1], python, str(site))


def last(done: subprocess.CompletedProcess[str]) -> str:
    """What a command said in the end."""
    lines = (done.stdout if "compiled" in done.stdout else done.stderr).strip().splitlines()
    told = [line for line in lines if "CUDABUILD_ARCHIVES" not in line]
    return told[-1].removeprefix("cudabuild: ") if told else ""


def pack_sources(package: Path, target: Path) -> None:
    """The package's Python files without its tests."""
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path in sorted(package.rglob("*.py")):
            inside = path.relative_to(package.parent)
            if "tests" not in inside.parts:
                archive.write(path, inside)


def check_binding(
    report: Report, name: str, pack: Path, folder: Path, target: str, python: Path | None = None, path: str = ""
) -> None:
    """Every recorded launch finds its image, on a GPU that is not there and computes nothing.

    With the files of the pack alone, as on another machine; or in the interpreter that has everything, numba too.
    """
    who = "installed" if python else "fake"
    results = replay(name, pack, folder, python or sys.executable, who, target.removeprefix("sm_"), path)
    if isinstance(results, str):
        report.check(f"{name}: every recorded kernel loads from its archive for {target}", False, results)
        return
    sources = {entry["source"] for entry in results}
    kernels = {entry["kernel"] for entry in results}
    text = f"{len(results)} launches of {len(kernels)} kernels: {', '.join(sorted(sources))}"
    where = ", installed with all it needs" if python else ""
    claim = f"{name}{where}: every recorded kernel loads from its archive for {target}"
    report.check(claim, sources == {f"shipped cubin {target}"}, text)


# Replaying


def replay(name: str, pack: Path, folder: Path, python: str | Path, who: str, cc: str = "", path: str = "") -> Any:
    """What the recorded launches gave, made again in a process of its own; a text where that failed."""
    root = folder / f"{name}-files"
    if not root.exists():
        with zipfile.ZipFile(pack / f"{name}.zip") as archive:
            archive.extractall(root)
    results = folder / f"{name}-{who}.pickle"
    changes = {"PYTHONPATH": path}
    if who != "numba":
        changes = {
            "PYTHONPATH": os.pathsep.join(filter(None, (str(CHECKOUT), path, os.environ.get("PYTHONPATH")))),
            "CUDABUILD_ADOPT": name,
            "CUDABUILD_JIT": "never",
            "CUDABUILD_ARCHIVES": str(pack / "archives"),
            "CUDABUILD_CACHE_DIR": str(folder / "empty-cache"),
        }
    command = [python, HERE / "adopted_replay.py", who, root, pack / f"{name}.pickle", results, *([cc] if cc else [])]
    done = run(command, clean_environment(**changes))
    if done.returncode:
        return f"status {done.returncode}: {done.stderr.strip()[-1500:]}"
    return pickle.loads(results.read_bytes())


def on_gpu(options: argparse.Namespace) -> int:
    """Replays everything in the pack with cudabuild and with numba-cuda."""
    report = Report("numba packages, unchanged, on a GPU against numba-cuda")
    figures: dict[str, Any] = {}
    pack = options.packed.absolute()
    with tempfile.TemporaryDirectory(prefix="adopted-") as scratch:
        for path in sorted(pack.glob("*.pickle")):
            folder = Path(scratch)
            ours = replay(path.stem, pack, folder, sys.executable, "cudabuild")
            numbas = replay(path.stem, pack, folder, options.numba_python, "numba", path=options.numba_path)
            figures[path.stem] = compare(report, path.stem, ours, numbas, pickle.loads(path.read_bytes()))
    if options.out:
        options.out.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    return report.status()


def compare(report: Report, name: str, ours: Any, numbas: Any, recorded: list[dict[str, Any]]) -> dict[str, Any]:
    """Checks one package's launches; the seconds that first launches took."""
    for who, made in (("cudabuild", ours), ("numba-cuda", numbas)):
        if isinstance(made, str):
            report.check(f"{name}: every recorded launch runs with {who}", False, made)
            return {}
    sources = sorted({entry["source"] for entry in ours})
    kernels = sorted({entry["kernel"] for entry in ours})
    shipped = all(source.startswith("shipped cubin sm_") for source in sources)
    report.check(f"{name}: all {len(kernels)} recorded kernels load from their archives", shipped, ", ".join(sources))
    worst, over = furthest(ours, numbas)
    text = f"{len(ours)} launches, largest difference {worst:.1e}"
    report.check(f"{name}: results equal numba-cuda's", not over, text + (f"; {', '.join(over)}" if over else ""))
    worst_cpu, _ = furthest(ours, recorded)
    report.note(f"largest difference from the CPU device, where they were recorded: {worst_cpu:.1e}")
    seconds = {}
    for kernel in kernels:
        first = {
            who: next(entry for entry in made if entry["kernel"] == kernel)
            for who, made in (("cudabuild", ours), ("numba-cuda", numbas))
        }
        seconds[kernel] = {who: {key: entry[key] for key in ("imported", "seconds")} for who, entry in first.items()}
        texts = [
            f"{who} {(entry['imported'] + entry['seconds']) * 1e3:.1f} ms (launch {entry['seconds'] * 1e3:.2f})"
            for who, entry in first.items()
        ]
        report.note(f"import and first launch of {kernel}: {', '.join(texts)}")
    return {"kernels": kernels, "launches": len(ours), "sources": sources, "difference": worst, "first_launch": seconds}


def furthest(ours: list[dict[str, Any]], others: list[dict[str, Any]]) -> tuple[float, list[str]]:
    """The largest difference of any result, and the kernels where it is more than rounding."""
    import numpy as np
    from judge import difference

    worst, over = 0.0, []
    for one, other in zip(ours, others, strict=True):
        floats = [a.itemsize for a in one["after"] if isinstance(a, np.ndarray) and a.dtype.kind == "f"]
        limit = TOLERANCES.get(min(floats, default=0), 0.0)
        for a, b in zip(one["after"], other["after"], strict=True):
            found = difference(a, b) if isinstance(a, np.ndarray) else 0.0
            worst = max(worst, found)
            if found > limit and one["kernel"] not in over:
                over.append(one["kernel"])
    return worst, over


# The quick form

OLD_PACKAGE = {
    "oldpkg/__init__.py": "from oldpkg.kernels import run\n",
    "oldpkg/helpers.py": """
        import numba
        from numba import njit, float64

        @njit(fastmath=True)
        def weight(x, k):
            return numba.float64(k) / (float64(1.0) + x * x)
        """,
    "oldpkg/kernels.py": """
        import math
        import numba.cuda
        from numba import cuda, types, prange
        from oldpkg import helpers

        SCALE = 3
        TABLE = (1.0, 0.5, 0.25)

        @cuda.jit("(f8[:], f8[:], i8)")
        def declared(x, out, n):
            i = cuda.grid(1)
            if i < n:
                out[i] = SCALE * helpers.weight(x[i], n)

        class Filters:
            @staticmethod
            @numba.cuda.jit(fastmath=True)
            def smooth(x, out):
                i = cuda.grid(1)
                if 0 < i < x.size - 1:
                    out[i] = TABLE[0] * x[i] + TABLE[1] * (x[i - 1] + x[i + 1]) + types.float64(TABLE[2])

        def make(power):
            @cuda.jit
            def raised(x):
                i = cuda.grid(1)
                if i < x.size:
                    x[i] = math.sqrt(abs(x[i])) ** power
            return raised

        squared = make(2)

        def run(random):
            x = cuda.to_device(random.random(64))
            out = cuda.device_array(64)
            declared[2, 32](x, out, 64)
            Filters.smooth[2, 32](x, out)
            y = cuda.to_device(random.random(64).astype("f4"))
            Filters.smooth[2, 32](y, cuda.device_array_like(y))
            squared[1, 64](x)
        """,
}


def quick(report: Report, folder: Path) -> None:
    """All steps but the comparison with numba-cuda, on a package of a few lines."""
    site, pack = folder / "site", folder / "pack"
    pack.mkdir()
    for name, text in OLD_PACKAGE.items():
        path = site / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    check_discovery(report, "oldpkg", site)
    adopt(report, "oldpkg", Path(sys.executable), site, pack, folder)


def ask(python: Path, code: str) -> str:
    return run([python, "-c", code]).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
