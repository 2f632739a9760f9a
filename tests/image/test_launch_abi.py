# SPDX-License-Identifier: Apache-2.0
"""Archives of every launch ABI that was ever released bind, and launch as they did when they were made.

``launch_abi/<number>/`` holds kernels of every shape of parameter block, the archives that were made of them, and what
their launches handed to the driver. Nothing there is ever changed; ``launch_abi/freeze.py`` makes a new number's.
"""

from __future__ import annotations

import importlib
import json
import py_compile
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.digest import digest_parts
from cudabuild.image.archive import Archive, write_archive
from cudabuild.image.image import KNOWN_LAUNCH_ABIS, LAUNCH_ABI, KernelImage
from cudabuild.image.index import read_index

FROZEN = Path(__file__).resolve().parent / "launch_abi"

#: Number -> digest of what is frozen.
DIGESTS = {2: "086f1fb7dc7f2c8fea56aa69e622041d9bd125c4f2e3238ed73f4670ae5f0446"}


def frozen_files(number: int) -> list[Path]:
    folder = FROZEN / str(number)
    return sorted(path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def install(number: int, folder: Path) -> Path:
    """The package with its archives, as an installer leaves it."""
    source = FROZEN / str(number)
    shutil.copytree(source / "frozen_kernels", folder / "frozen_kernels", ignore=shutil.ignore_patterns("__pycache__"))
    archives = folder / "frozen_kernels" / "_cudabuild"
    archives.mkdir()
    for path in source.glob("*.golden"):
        shutil.copyfile(path, archives / path.stem)
    return folder


def launch_all(number: int, folder: Path, cc: int, driver: int = 13000, **environment: str) -> list[dict[str, Any]]:
    """What reaches a driver for a device of this compute capability; nothing may be compiled."""
    command = [sys.executable, str(FROZEN / "launch.py"), str(folder), str(FROZEN / str(number) / "formats.json")]
    done = subprocess.run(
        [*command, str(cc), str(driver)],
        env={"PATH": "", "CUDABUILD_JIT": "never", "CUDABUILD_CACHE_DIR": str(folder / "cache"), **environment},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def frozen_launches(number: int) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FROZEN / str(number) / "launches.jsonl").read_text("utf-8").splitlines()]


def test_every_number_that_is_served_is_kept() -> None:
    kept = {int(path.name) for path in FROZEN.iterdir() if path.name.isdigit()}
    assert kept == KNOWN_LAUNCH_ABIS == set(DIGESTS)
    assert max(KNOWN_LAUNCH_ABIS) == LAUNCH_ABI


@pytest.mark.parametrize("number", sorted(DIGESTS))
def test_what_is_frozen_stays(number: int) -> None:
    """A change of it would be a change of what the archives of users hold."""
    parts = [part for path in frozen_files(number) for part in (path.name.encode(), path.read_bytes())]
    assert digest_parts(*parts).hex() == DIGESTS[number]


@pytest.mark.parametrize("number", sorted(DIGESTS))
@pytest.mark.parametrize(
    ("cc", "driver", "source"),
    [
        (90, 13000, "shipped cubin sm_90"),
        (90, 12090, "shipped cubin sm_90"),
        (80, 12020, "shipped ptx compute_75"),
        (121, 13010, "shipped ptx compute_75"),
    ],
)
def test_frozen_archives_launch_as_they_did(number: int, cc: int, driver: int, source: str, tmp_path: Path) -> None:
    launched = launch_all(number, install(number, tmp_path), cc, driver)
    assert launched == [{**launch, "source": source} for launch in frozen_launches(number)]


@pytest.mark.parametrize("number", sorted(DIGESTS))
def test_frozen_archives_bind_without_source_and_compiler(number: int, tmp_path: Path) -> None:
    package = install(number, tmp_path) / "frozen_kernels"
    py_compile.compile(str(package / "__init__.py"), cfile=str(package / "__init__.pyc"), doraise=True)
    (package / "__init__.py").unlink()
    (tmp_path / "llvmlite.py").write_text("raise ImportError('there is none')")
    launched = launch_all(number, tmp_path, 90, PYTHONPATH=str(tmp_path))
    assert launched == frozen_launches(number)


@pytest.mark.parametrize("number", sorted(DIGESTS))
def test_frozen_archives_are_read_in_full(number: int, tmp_path: Path) -> None:
    """By this version's reader; what its writer makes of them reads the same, and is the same written again."""
    folder = install(number, tmp_path) / "frozen_kernels" / "_cudabuild"
    index = read_index(folder / "index.json")
    assert index["launch_abi"] == number
    for target in ("sm_90", "compute_75"):
        archive = Archive(str(folder / f"{target}.cuar"), target=target)
        images = [record.load_image("shipped", with_checks=True) for record in archive.records()]
        assert {image.launch_abi for image in images} == {number}
        assert all(image.checks and image.parts and image.toolchain and image.key for image in images)
        write_archive(tmp_path / "again.cuar", images, target)
        again = [record.load_image("shipped", True) for record in Archive(str(tmp_path / "again.cuar")).records()]
        assert [told(image) for image in again] == [told(image) for image in images]
        write_archive(tmp_path / "third.cuar", again, target)
        assert (tmp_path / "third.cuar").read_bytes() == (tmp_path / "again.cuar").read_bytes()


def told(image: KernelImage) -> tuple[Any, ...]:
    names = (image.module, image.qualname, image.signature, image.symbol, image.kind, image.index_width)
    values = (image.options, image.attributes, image.checks, image.toolchain, image.parts)
    return (*names, *values, image.fingerprint, image.key, image.launch_abi, bytes(image.data))


@pytest.mark.parametrize("other", [1, 3, 99])
def test_another_number_is_a_miss_that_says_so(other: int, tmp_path: Path) -> None:
    folder = install(LAUNCH_ABI, tmp_path) / "frozen_kernels" / "_cudabuild"
    for target in ("sm_90", "compute_75"):
        path = folder / f"{target}.cuar"
        images = [record.load_image("shipped", with_checks=True) for record in Archive(str(path)).records()]
        for image in images:
            image.launch_abi = other
            image.data = bytes(image.data)
        write_archive(path, images, target)
    for launch in launch_all(LAUNCH_ABI, tmp_path, 90):
        served = ", ".join(map(str, sorted(KNOWN_LAUNCH_ABIS)))
        assert f"shipped: sm_90 has launch ABI {other}; this version serves {served}" in launch["error"]
        assert f"ptx: compute_75 has launch ABI {other}; this version serves {served}" in launch["error"]


@pytest.mark.gpu
@pytest.mark.parametrize("number", sorted(DIGESTS))
def test_frozen_archives_compute_what_their_source_says(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    monkeypatch.syspath_prepend(str(install(number, tmp_path)))
    sys.modules.pop("frozen_kernels", None)
    kernels = importlib.import_module("frozen_kernels")
    results = {name: launch(kernels) for name, launch in LAUNCHES.items()}
    for name, (found, expected) in results.items():
        np.testing.assert_array_equal(found, expected, err_msg=name)
        assert getattr(kernels, name).image_source().startswith("shipped "), name
    with pytest.raises(AssertionError, match="no place"):
        kernels.checked[2, 32](np.full(64, -1, np.int32), np.zeros(64, np.int32))
    del sys.modules["frozen_kernels"]


def launch_scalars(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(8)
    kernels.scalars[1, 1](-1, -2, -3, -4, 5, 6, 7, 8, 0.5, 1.5, 2.5, 1e300, True, out)
    return out[:4], [16, 4.5, 1e300, 12]


def launch_weak(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(8)
    kernels.weak[1, 1](-7, 2.5, 1 + 2j, 3 - 4j, out)
    return out[:4], [-17.5, 1, 2, -1]


def launch_arrays(kernels: Any) -> tuple[Any, Any]:
    x = np.arange(40, dtype=np.float32)
    rows, columns = np.zeros((41, 3), np.float32), np.zeros((42, 5), np.float32, order="F")
    steps = np.zeros((43, 14))[::-1, ::2]
    kernels.arrays[2, 32](x, rows, columns, steps)
    return np.stack([rows[:40, 1], columns[:40, 1], steps[:40, 1]]), np.stack([x * 3, x + 3, x - 3])


def launch_tuples(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(8)
    kernels.tuples[1, 1]((3, np.arange(40, dtype=np.float32) * 2, (True, 0.25)), out)
    return out[:3], [6, 0.25, 40]


def launch_pointers(kernels: Any) -> tuple[Any, Any]:
    memory, out = cuda.to_device(np.arange(40, dtype=np.float32)), np.zeros(40, np.float32)
    kernels.pointers[2, 32](memory.__cuda_array_interface__["data"][0], 40, out)
    return out, np.arange(40) * 3


def launch_records(kernels: Any) -> tuple[Any, Any]:
    dtype = np.dtype({"names": ["x", "n"], "formats": ["<f4", "<i8"], "offsets": [0, 8], "itemsize": 16})
    table, out = np.zeros(9, dtype), np.zeros(9)
    table["x"], table["n"] = 0.5, np.arange(9)
    kernels.records[1, 32](table, out)
    return out, np.arange(9) + 0.5


def launch_named(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(8)
    moment, span = np.datetime64("2001-02-03", "s"), np.timedelta64(-5, "ms")
    kernels.named[1, 1](kernels.Level.HIGH, None, moment, span, out)
    return out[:4], [1, 2, 3, 4]


def launch_checked(kernels: Any) -> tuple[Any, Any]:
    places, out = np.arange(64, dtype=np.int32)[::-1].copy(), np.zeros(64, np.int32)
    kernels.checked[2, 32](places, out)
    return out, 12 // np.arange(1, 65)


def launch_together(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(64, np.int32)
    kernels.together[2, 32](out)
    return out, [63, *range(1, 64)]


def launch_shared(kernels: Any) -> tuple[Any, Any]:
    out = np.zeros(64, np.int32)
    kernels.shared[2, 32, 0, 256](out)
    return out, [*range(31, -1, -1)] * 2


#: Kernel -> what it leaves, and what it should.
LAUNCHES = {
    "scalars": launch_scalars, "weak": launch_weak, "arrays": launch_arrays, "tuples": launch_tuples,
    "pointers": launch_pointers, "records": launch_records, "named": launch_named, "checked": launch_checked,
    "together": launch_together, "shared": launch_shared,
}  # fmt: skip
