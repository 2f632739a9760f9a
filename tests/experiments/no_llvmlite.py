# SPDX-License-Identifier: Apache-2.0
"""The installed sample with and without a compiler, with and without its archives.

    python3 tests/experiments/no_llvmlite.py [--quick] [--wheels DIR]

In environments without pip, made of unpacked wheels:

1. no llvmlite: every kernel runs from its shipped cubin;
2. no archives, llvmlite: every kernel is compiled, and comes from the user's cache in the next process;
3. neither: one clear error that lists what ships, what the device is and the ways out.

``--wheels DIR`` holds wheels, or folders of unpacked ones (cudabuild's and the sample's among them). Without it both
are built here, and what they need is taken from this interpreter's installation; ``--quick`` builds for one target.
Where there is no GPU the same three run on the CPU device: 1 and 3 say what to install, 2 runs.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import shutil
import sys
import tempfile
from pathlib import Path

from reporting import (
    CHECKOUT,
    Report,
    build_wheel,
    clean_environment,
    copy_sample,
    make_environment,
    run,
    site_packages,
    unpack,
)

__all__ = ["main"]

BASE = ("cuda_bindings", "cuda_pathfinder", "numpy", "filelock", "platformdirs")
COMPILER = ("llvmlite", "nvidia_nvvm")
#: Of these only some files are wanted: libdevice is 0.5 MB of nvidia-nvvm's 180.
WANTED = {"nvidia_nvvm": "libdevice"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="build the sample for one target only")
    parser.add_argument("--wheels", metavar="DIR", type=Path, help="take everything from there")
    options = parser.parse_args()
    report = Report("without llvmlite, without archives")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = options.wheels or build_wheels(folder, options.quick)
        shipped = make_environment(folder / "shipped", *own_wheels(wheels))
        install(BASE, wheels, site_packages(folder / "shipped"))
        gpu = probe(report, shipped)
        try_shipped(report, shipped, folder, gpu)
        compiler = make_environment(folder / "compiler", *own_wheels(wheels))
        install((*BASE, *COMPILER), wheels, site_packages(folder / "compiler"))
        remove_archives(folder / "compiler")
        try_compiled(report, compiler, folder, gpu)
        remove_archives(folder / "shipped")
        try_neither(report, shipped, folder, gpu)
    return report.status()


def build_wheels(folder: Path, quick: bool) -> Path:
    """cudabuild's wheel and the sample's, built from this checkout."""
    archs = {"CUDABUILD_ARCHS": "90"} if quick else {}
    environment = clean_environment(CUDABUILD_CACHE_DIR=str(folder / "cache"), **archs)
    tree = folder / "cudabuild"
    shutil.copytree(CHECKOUT / "cudabuild", tree / "cudabuild", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copyfile(CHECKOUT / name, tree / name)
    build_wheel(tree, folder / "wheels", environment)
    build_wheel(copy_sample(folder / "sample"), folder / "wheels", environment)
    return folder / "wheels"


def own_wheels(wheels: Path) -> list[Path]:
    return [max(wheels.glob(f"{name}-[0-9]*")) for name in ("cudabuild", "cudabuild_sample")]


def install(names: tuple[str, ...], wheels: Path, target: Path) -> None:
    """Each distribution from ``wheels`` where it lies there, else from this interpreter's own installation."""
    for name in names:
        found = sorted(wheels.glob(f"{name}-[0-9]*"))
        if found:
            unpack(found[-1], target)
            continue
        try:
            files = importlib.metadata.files(name.replace("_", "-")) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # such as cuda-bindings on macOS, or nvidia-nvvm where a toolkit brings libdevice
        for file in files:
            source = Path(str(file.locate()))
            if file.parts[0] == ".." or "__pycache__" in file.parts or WANTED.get(name, "") not in str(file):
                continue
            link = target.joinpath(*file.parts)
            link.parent.mkdir(parents=True, exist_ok=True)
            if not link.exists():
                link.symlink_to(source)


def remove_archives(environment: Path) -> None:
    for folder in site_packages(environment).rglob("_cudabuild"):
        shutil.rmtree(folder)


def probe(report: Report, python: Path) -> bool:
    """Whether a GPU is there; checks that the environment is what it should be."""
    code = (
        "import importlib.util as u, cudabuild; "
        "print([n for n in ('llvmlite', 'numba', 'pip', 'setuptools') if u.find_spec(n)], "
        "cudabuild.current_device().kind if u.find_spec('cuda') else 'cpu')"
    )
    done = run([python, "-c", code], cwd=python.parent)
    report.check("no llvmlite in the first environment", done.stdout.startswith("[]"), done.stdout.strip())
    if done.returncode:
        report.note(done.stderr.strip()[-1000:])
    return done.stdout.split()[-1:] == ["gpu"]


def sample(python: Path, cache: Path) -> tuple[int, str, str, list[str]]:
    """Exit status, output, error output, and the table's image sources of one run of the sample."""
    # From a folder without sources: the one where a module is run from comes first on its path.
    done = run([python, "-m", "cudabuild_sample"], clean_environment(CUDABUILD_CACHE_DIR=str(cache)), cwd=python.parent)
    lines = done.stdout.splitlines()
    sources = []
    if lines:
        start = lines[0].find("image source")
        end = lines[0].find("time", start)
        sources = [line[start:end].strip() for line in lines[1:-1]]
    return done.returncode, done.stdout, done.stderr, sources


def show(report: Report, text: str) -> None:
    for line in text.strip().splitlines()[-24:]:
        report.note(line)


def try_shipped(report: Report, python: Path, folder: Path, gpu: bool) -> None:
    status, output, errors, sources = sample(python, folder / "cache1")
    if gpu:
        right = status == 0 and all(source.startswith("shipped cubin") for source in sources)
        report.check("no llvmlite: all correct, all shipped cubins", right, sorted(set(sources)))
        show(report, output + (errors if status else ""))
    else:
        report.check("no llvmlite, no GPU: says what to install", status != 0 and "pip install" in errors)
        show(report, errors)


def try_compiled(report: Report, python: Path, folder: Path, gpu: bool) -> None:
    for number, origin in ((1, "compiled"), (2, "cached")):
        status, output, errors, sources = sample(python, folder / "cache2")
        wanted = origin if gpu else "cpu"
        right = status == 0 and bool(sources) and all(wanted in source for source in sources)
        report.check(f"no archives, process {number}: all correct, {origin}", right, sorted(set(sources)))
        show(report, output + (errors if status else ""))


def try_neither(report: Report, python: Path, folder: Path, gpu: bool) -> None:
    status, _, errors, _ = sample(python, folder / "cache3")
    report.check("neither: an error", status != 0)
    words = ["pip install", "compute capability", "ships"] if gpu else ["pip install", "llvmlite"]
    report.check("neither: it lists what ships, the device and the ways out", all(word in errors for word in words))
    show(report, errors)


if __name__ == "__main__":
    sys.exit(main())
