# SPDX-License-Identifier: Apache-2.0
"""numba-cuda's test suite as data: where it comes from, its items, their classes, and the checked-in floor.

The wheel is downloaded without its dependencies and never installed; only its ``tests`` folder is unpacked.
``rules.tsv`` says which class and tag an item has; ``floor.tsv`` lists the items of the classes A, B and C that
numba-cuda 0.30.4 itself passes on an H200 (the denominators), and which of them cudabuild passes.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

__all__ = [
    "DEVICES", "OUT_OF_SCOPE", "DownloadError", "Item", "classify", "default_scratch", "get_wheel", "load_items",
    "unpack", "write_floor",
]  # fmt: skip

HERE = Path(__file__).resolve().parent
FLOOR = HERE / "floor.tsv"
RULES = HERE / "rules.tsv"
DEVICES = ("cpu", "gpu")

VERSION = "0.30.4"
WHEEL = f"numba_cuda-{VERSION}-cp311-cp311-manylinux_2_24_x86_64.manylinux_2_28_x86_64.whl"
SHA256 = "59b0e895a4884a26323b9581ac6966b7b063b6f0ce87ac23d1192c95158f4d1e"

#: Tags of class A that need what cudabuild has decided not to have, or not yet: linking foreign code, a heap in
#: kernels, the private binding modules, ufunc objects, the reduction object.
OUT_OF_SCOPE = frozenset(
    {"FFI/link", "shim:NRT-config", "shim:_internal.cuda_fp8", "shim:_internal.cuda_bf16", "vectorize", "reduce"}
)


class DownloadError(Exception):
    """The wheel could not be had; the text says what pip said."""


@dataclass(frozen=True)
class Item:
    """One test of the suite.

    Attributes:
        id: ``cudapy/test_x.py::TestX::test_y``.
        kind: its class, ``A`` to ``D``.
        tag: what it takes beyond the language.
        floor: device -> ``pass``, ``hook`` (passes with the source hook only) or ``-``.
    """

    id: str
    kind: str
    tag: str
    floor: dict[str, str]

    @property
    def file(self) -> str:
        return self.id.partition("::")[0]

    @property
    def in_scope(self) -> bool:
        return self.kind == "A" and self.tag not in OUT_OF_SCOPE

    @property
    def lacks_source(self) -> bool:
        return "no-source" in self.tag


# the wheel


def default_scratch() -> Path:
    """A folder of the user's cache, outside the checkout."""
    from platformdirs import user_cache_path

    return user_cache_path("cudabuild") / "conformance"


def get_wheel(scratch: Path) -> Path:
    """The wheel in ``scratch``, downloaded where it is missing: the same file for every interpreter and platform.

    Raises:
        DownloadError: pip could not download it, or it is not the file that is expected.
    """
    wheel = scratch / WHEEL
    if not wheel.is_file():
        scratch.mkdir(parents=True, exist_ok=True)
        platforms = ["--platform=manylinux_2_28_x86_64", "--platform=manylinux_2_24_x86_64", "--python-version=3.11"]
        command = [sys.executable, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps"]
        with tempfile.TemporaryDirectory(dir=scratch) as folder:
            command += ["--only-binary=:all:", *platforms, "-d", folder, f"numba-cuda=={VERSION}"]
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
            found = Path(folder) / WHEEL
            if not found.is_file():
                raise DownloadError(f"pip cannot download numba-cuda {VERSION}: {done.stderr.strip()[-300:]}")
            os.replace(found, wheel)
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != SHA256:
        raise DownloadError(f"{wheel} is not the file that numba-cuda {VERSION} published: delete it")
    return wheel


def unpack(wheel: Path, scratch: Path) -> Path:
    """The suite's ``tests`` folder, unpacked from the wheel once. Nothing else of the wheel is."""
    target = scratch / f"suite-{VERSION}"
    if not target.is_dir():
        scratch.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(dir=scratch))
        prefix = "numba_cuda/numba/cuda/tests/"
        with zipfile.ZipFile(wheel) as archive:
            for name in archive.namelist():
                if name.startswith(prefix) and not name.endswith("/"):
                    path = fresh / "tests" / name.removeprefix(prefix)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(archive.read(name))
        try:
            os.rename(fresh, target)
        except OSError:  # another run was faster
            shutil.rmtree(fresh, ignore_errors=True)
    return target / "tests"


# items and floor


@functools.cache
def _rules() -> dict[str, list[tuple[re.Pattern[str], str, str]]]:
    rules: dict[str, list[tuple[re.Pattern[str], str, str]]] = {}
    for file, pattern, kind, tag in _rows(RULES):
        rules.setdefault(file, []).append((re.compile(pattern), kind, tag))
    return rules


def _rows(path: Path) -> list[list[str]]:
    lines = path.read_text("utf-8").splitlines()
    return [line.split("\t") for line in lines if line and not line.startswith("#")]


def classify(test: str) -> tuple[str, str]:
    """Class and tag of an item by its id.

    Raises:
        KeyError: no rule speaks of it.
    """
    file, _, name = test.partition("::")
    dotted = name.replace("::", ".")
    for pattern, kind, tag in _rules().get(file, []):
        if pattern.search(dotted):
            return kind, tag
    raise KeyError(test)


def load_items() -> list[Item]:
    """Every item of the floor, in its order."""
    return [Item(test, *classify(test), dict(zip(DEVICES, values, strict=True))) for test, *values in _rows(FLOOR)]


def write_floor(items: list[Item]) -> None:
    """Writes the floor anew."""
    lines = ["# test\tCPU device\tGPU", *("\t".join((i.id, *(i.floor[d] for d in DEVICES))) for i in items)]
    FLOOR.write_text("\n".join(lines) + "\n", encoding="utf-8")
