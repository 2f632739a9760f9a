# SPDX-License-Identifier: Apache-2.0
"""What the sample's wheel is and holds.

    python3 tests/experiments/wheel_contents.py [--quick] [--keep DIR]

The wheel is pure and for any platform; it holds every kernel for every target in both index widths, and one PTX per
kernel; ``nvdisasm`` takes every cubin; two builds are byte-identical; the sdist holds no archive; a module that imports
a package which does not exist is built all the same, and the package is never imported. ``--quick`` builds for one
target. Needs the ``build`` extra and ``build`` itself in this interpreter; no GPU, no driver.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import tarfile
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reporting import CHECKOUT, Report, build_wheel, clean_environment, copy_sample, run

sys.path.insert(0, str(CHECKOUT))

__all__ = ["main"]

CUBINS = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")
PTX = "compute_75"
#: kernel -> number of signatures
KERNELS = {
    "vectors:saxpy": 2,
    "pricing:black_scholes": 1,
    "fractals:mandelbrot": 1,
    "heat:heat_step": 1,
    "bodies:nbody_step": 1,
    "products:matmul": 1,
    "sums:block_sum": 1,
    "histograms:histogram": 1,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="build for sm_90 and its PTX only")
    parser.add_argument("--keep", metavar="DIR", type=Path, help="put a copy of the wheel there")
    options = parser.parse_args()
    report = Report("the sample's wheel")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        targets = {"sm_90", "compute_90"} if options.quick else {*CUBINS, PTX}
        environment = clean_environment(SOURCE_DATE_EPOCH="1700000000", CUDABUILD_CACHE_DIR=str(folder / "cache"))
        if options.quick:
            environment["CUDABUILD_ARCHS"] = "90"
        source = copy_sample(folder / "sample")
        spoil(source)
        wheel = build_wheel(source, folder / "first", environment)
        check_wheel(report, wheel, targets)
        check_images(report, wheel, folder / "unpacked", targets)
        check_reproducible(report, wheel, folder, environment)
        sdist = build_wheel(source, folder / "sdist", environment, kind="sdist")
        with tarfile.open(sdist) as tar:
            named = [name for name in tar.getnames() if "_cudabuild/" in name or name.endswith(".cuar")]
        report.check("the sdist holds no archive", not named, named or sdist.name)
        if options.keep:
            options.keep.mkdir(parents=True, exist_ok=True)
            (options.keep / wheel.name).write_bytes(wheel.read_bytes())
    return report.status()


def spoil(source: Path) -> None:
    """Makes the package impossible to import here: building must not need to."""
    module = source / "src" / "cudabuild_sample" / "vectors.py"
    text = module.read_text("utf-8")
    module.write_text(text.replace("\nfrom cudabuild", "\nimport no_such_package_anywhere\nfrom cudabuild", 1), "utf-8")
    package = source / "src" / "cudabuild_sample" / "__init__.py"
    package.write_text(package.read_text("utf-8") + "\nraise RuntimeError('the build imported the package')\n", "utf-8")


def check_wheel(report: Report, wheel: Path, targets: set[str]) -> None:
    report.check("file name", wheel.name.endswith("-py3-none-any.whl"), f"{wheel.name}, {wheel.stat().st_size:,} bytes")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        metadata = archive.read(next(name for name in names if name.endswith(".dist-info/WHEEL"))).decode()
        record = archive.read(next(name for name in names if name.endswith(".dist-info/RECORD"))).decode()
    report.check("purelib", "Root-Is-Purelib: true" in metadata, metadata.split("Root-Is-Purelib: ")[1].split()[0])
    archives = {Path(name).stem: name for name in names if name.endswith(".cuar")}
    report.check("one archive per target", set(archives) == targets, ", ".join(sorted(archives)))
    report.check("RECORD lists them", all(name in record for name in archives.values()))


def check_images(report: Report, wheel: Path, folder: Path, targets: set[str]) -> None:
    from cudabuild.image.archive import Archive

    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder)
    (index,) = folder.rglob("_cudabuild/index.json")
    report.check("the index is JSON", isinstance(json.loads(index.read_text("utf-8")), dict), index.name)
    found: dict[tuple[str, str, str, int], Any] = {}
    for path in sorted(folder.rglob("*.cuar")):
        for record in Archive(str(path)).records():
            name = f"{record.module.removeprefix('cudabuild_sample.')}:{record.qualname}"
            found[name, record.signature, path.stem, record.index_width] = record
    print(f"       {'kernel':24} {'signature':34} {'targets':>7} {'32':>4} {'64':>4} {'PTX':>4}   bytes")
    signatures = sorted({key[:2] for key in found})
    for name, signature in signatures:
        mine = {key[2:]: record for key, record in found.items() if key[:2] == (name, signature)}
        cubins = [key for key in mine if key[0].startswith("sm_")]
        counts = [sum(key[1] == width for key in cubins) for width in (32, 64)]
        row = [len({key[0] for key in cubins}), *counts, len(mine) - len(cubins)]
        size = sum(record.size for record in mine.values())
        shown = signature if len(signature) <= 34 else signature[:33] + "…"
        print(f"       {name:24} {shown:34} {row[0]:7} {row[1]:4} {row[2]:4} {row[3]:4}   {size:,}")
    expected = {(name, target, width) for name in KERNELS for target in targets for width in (32, 64)}
    missing = expected - {(key[0], *key[2:]) for key in found}
    report.check("every kernel x target x width, and its PTX", not missing, sorted(missing) or f"{len(found)} images")
    counted = {name: sum(key[0] == name for key in signatures) for name in KERNELS}
    report.check("every signature", counted == KERNELS, sum(counted.values()))
    check_cubins(report, {key: record for key, record in found.items() if key[2].startswith("sm_")}, folder)


def check_cubins(report: Report, cubins: dict[tuple[str, str, str, int], Any], folder: Path) -> None:
    """nvdisasm, NVIDIA's own disassembler, takes each of them."""
    from cuda.pathfinder import find_nvidia_binary_utility

    nvdisasm = find_nvidia_binary_utility("nvdisasm")
    if nvdisasm is None:
        report.check("nvdisasm accepts every cubin", False, "no nvdisasm: pip install nvidia-cuda-nvdisasm")
        return

    def disassemble(numbered: tuple[int, Any]) -> str:
        number, record = numbered
        path = folder / f"{number}.cubin"
        path.write_bytes(bytes(record.load_image("shipped").data))
        done = run([nvdisasm, "-c", path])
        return "" if done.returncode == 0 and "EXIT" in done.stdout else f"{record}: {done.stderr.strip()[:200]}"

    with ThreadPoolExecutor(2) as pool:
        refused = [message for message in pool.map(disassemble, enumerate(cubins.values())) if message]
    report.check("nvdisasm accepts every cubin", not refused, refused[:3] or f"{len(cubins)} cubins")


def check_reproducible(report: Report, wheel: Path, folder: Path, environment: dict[str, str]) -> None:
    """A second build, from another folder and into an empty cache."""
    source = copy_sample(folder / "elsewhere" / "sample")
    spoil(source)
    again = build_wheel(source, folder / "second", {**environment, "CUDABUILD_CACHE_DIR": str(folder / "cache2")})
    digests = [hashlib.sha256(path.read_bytes()).hexdigest()[:16] for path in (wheel, again)]
    report.check("two builds are byte-identical", digests[0] == digests[1], " ".join(digests))


if __name__ == "__main__":
    sys.exit(main())
