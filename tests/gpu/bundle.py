# SPDX-License-Identifier: Apache-2.0
"""Packs what ``run_all.py`` needs on a GPU machine that reaches no package index: one file of unpacked wheels.

    python3 tests/gpu/bundle.py --out bundle.tar.xz [--python-version 3.12] [--with-compiler] [--with-wild]
                                [--adopted DIR]

cudabuild's and the sample's wheels are built from this checkout (the sample for all its targets); the rest is
downloaded for the other machine's Python on Linux x86-64. ``--with-compiler`` adds llvmlite and libdevice, so that
kernels can be compiled there too; ``--with-wild`` the Python files of the projects of ``tests/wild``; ``--adopted``
what ``tests/experiments/adopted_packages.py --pack DIR`` wrote. Wheels are unpacked before they are packed again: xz
then halves them.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(CHECKOUT / "tests" / "experiments"))

from no_llvmlite import WANTED, build_wheels  # noqa: E402
from reporting import unpack  # noqa: E402

__all__ = ["main"]

BASE = ("cuda-bindings", "cuda-pathfinder", "numpy<2.5", "filelock", "platformdirs")  # numba-cuda needs such a NumPy
TESTS = ("pytest", "pytest-timeout", "pytest-randomly", "iniconfig", "pluggy", "pygments", "packaging", "hypothesis",
         "sortedcontainers", "filecheck", "ml_dtypes", "cffi", "pycparser", "build", "pyproject_hooks", "setuptools",
         "wheel", "jsonschema", "attrs", "referencing", "jsonschema_specifications", "rpds_py",
         "typing_extensions")  # fmt: skip
COMPILER = ("llvmlite", "nvidia-nvvm")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--python-version", default="3.12")
    parser.add_argument("--with-compiler", action="store_true")
    parser.add_argument("--with-wild", action="store_true", help="the projects of tests/wild too")
    parser.add_argument("--adopted", type=Path, metavar="DIR", help="the pack of adopted_packages.py too")
    options = parser.parse_args()
    names = [*BASE, *TESTS, *(COMPILER if options.with_compiler else ())]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        wheels = build_wheels(folder, quick=False)
        download(names, wheels, options.python_version)
        tree = folder / "bundle"
        for wheel in sorted(wheels.glob("*.whl")):
            unpack_wanted(wheel, tree / "-".join(wheel.name.split("-")[:2]))
        if options.with_wild:
            command = [sys.executable, str(CHECKOUT / "tests" / "wild" / "run.py"), "--pack", str(tree / "wild")]
            subprocess.run(command, check=True)
        if options.adopted:
            shutil.copytree(options.adopted, tree / "adopted")
        pack(tree, options.out)
    print(f"{options.out}: {options.out.stat().st_size / 2**20:.1f} MiB")
    return 0


def pack(tree: Path, output: Path) -> None:
    """An .tar.xz of the tree; by the xz program, on all cores, where there is one."""
    if shutil.which("xz") is None:
        with tarfile.open(output, "w:xz", preset=6) as tar:
            tar.add(tree, "bundle")
        return
    with output.open("wb") as stream, subprocess.Popen(["xz", "-6", "-T0"], stdin=subprocess.PIPE, stdout=stream) as xz:
        assert xz.stdin is not None
        with xz.stdin, tarfile.open(mode="w|", fileobj=xz.stdin) as tar:
            tar.add(tree, "bundle")
    if xz.returncode:
        raise SystemExit(f"xz failed with status {xz.returncode}")


def download(names: list[str], folder: Path, version: str) -> None:
    platforms = [part for n in range(39, 16, -1) for part in ("--platform", f"manylinux_2_{n}_x86_64")]
    platforms += ["--platform", "manylinux2014_x86_64", "--platform", "manylinux1_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d", str(folder)]
    subprocess.run([*command, "--python-version", version, "--implementation", "cp", *platforms, *names], check=True)


def unpack_wanted(wheel: Path, target: Path) -> None:
    """The wheel's files; of some wheels only those that are wanted, with their metadata."""
    unpack(wheel, target)
    wanted = next((part for name, part in WANTED.items() if wheel.name.startswith(name)), None)
    for path in sorted(target.rglob("*")) if wanted else []:
        if path.is_file() and wanted not in str(path) and ".dist-info" not in str(path):
            path.unlink()
    for cache in target.rglob("__pycache__"):
        shutil.rmtree(cache)


if __name__ == "__main__":
    sys.exit(main())
