# SPDX-License-Identifier: Apache-2.0
"""Installed packages for ``bench_bind.py``: any number of kernels, and the archive that a build would have made.

All kernels are saxpy under different names. Their images are one code with different bytes behind it: the driver reads
a cubin as far as its own header says, so each loads, and no two are the same to an archive or a cache.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from cudabuild.digest import digest, digest_parts
from cudabuild.fingerprint import Check, compute_fingerprint
from cudabuild.image.archive import write_archive
from cudabuild.image.image import KernelImage
from cudabuild.types import format_signature

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["KERNELS_PER_MODULE", "SIGNATURE", "Code", "image_name", "kernels_text", "make_images", "make_package"]

KERNELS_PER_MODULE = 10
SIGNATURE = "float32, float32[::1], float32[::1]"

_HEAD = """\
from cudabuild import cuda, device_function, float32, kernel

SCALE = {number}.5


@device_function
def scaled(value):
    return value * SCALE
"""

_KERNEL = """

@kernel("float32, float32[::1], float32[::1]")
def saxpy_{number}(a, x, y):
    i = cuda.grid(1)
    if i < y.size:
        y[i] = scaled(a) * x[i] + y[i] + float32({number})
"""


class Code:
    """What every image holds.

    Attributes:
        data: a cubin with saxpy in it, or some bytes for a driver that takes any.
        symbol: the entry point.
        target: what it is for.
    """

    def __init__(self, data: bytes, symbol: str, target: str) -> None:
        self.data = data
        self.symbol = symbol
        self.target = target


def make_package(root: Path, kernels: int, code: Code, per_module: int = KERNELS_PER_MODULE) -> tuple[str, list[str]]:
    """Writes the package ``bound_<kernels>`` with its archive.

    Args:
        root: where.
        kernels: how many.
        code: what their images hold.
        per_module: kernels in a source file, which is read and compared at a bind.

    Returns:
        The module in its middle, whose kernels can be launched, and their names. The images of all others are never
        looked at; they carry made-up fingerprints.
    """
    name = f"bound_{kernels}"
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text("", "utf-8")
    modules = {}
    for first in range(0, kernels, per_module):
        numbers = range(first, min(first + per_module, kernels))
        text = kernels_text(numbers)
        (folder / f"part_{first}.py").write_text(text, "utf-8")
        modules[f"{name}.part_{first}"] = (text, numbers)
    middle = list(modules)[len(modules) // 2]
    real = list(_real_images(root, middle, [image_name(number) for number in modules[middle][1]], code))
    images = [*real]
    for module, (text, numbers) in modules.items():
        if module != middle:
            images += _other_images(module, text, numbers, real[0].checks, code)
    (folder / "_cudabuild").mkdir()
    write_archive(str(folder / "_cudabuild" / f"{code.target}.cuar"), images, code.target)
    return middle, [image_name(number) for number in modules[middle][1]]


def kernels_text(numbers: range) -> str:
    """A module with kernels."""
    return _HEAD.format(number=numbers[0]) + "".join(_KERNEL.format(number=number) for number in numbers)


def image_name(number: int) -> str:
    """The name of a kernel."""
    return f"saxpy_{number}"


def _real_images(root: Path, module: str, names: list[str], code: Code) -> Iterator[KernelImage]:
    sys.path.insert(0, str(root))
    try:
        found = vars(importlib.import_module(module))
    finally:
        sys.path.remove(str(root))
    for name in names:
        kernel = found[name]
        (signature,) = kernel.signatures
        assert format_signature(signature) == SIGNATURE
        fingerprint = compute_fingerprint(kernel.definition, signature)
        for width in (32, 64):
            yield _image(module, name, fingerprint.digest, width, code).stamp(fingerprint)


def _other_images(
    module: str, text: str, numbers: range, checks: tuple[Check, ...], code: Code
) -> Iterator[KernelImage]:
    source = digest(text.encode())
    checks = tuple(Check(check.label, source, check.values) for check in checks)
    for number in numbers:
        for width in (32, 64):
            image = _image(module, image_name(number), digest_parts(module.encode(), str(number).encode()), width, code)
            image.checks = checks
            yield image


def _image(module: str, qualname: str, fingerprint: bytes, width: int, code: Code) -> KernelImage:
    tail = digest_parts(module.encode(), qualname.encode(), bytes([width]))
    return KernelImage(
        module=module,
        qualname=qualname,
        signature=SIGNATURE,
        fingerprint=fingerprint,
        options={},
        kind="cubin",
        target=code.target,
        index_width=width,
        symbol=code.symbol,
        data=code.data + tail,
        attributes={"registers": 16, "shared_bytes": 0, "decorated": ()},
        toolchain={"llvm": "22.1", "nvjitlink": "12.9"},
        key=tail,
    )


def make_images(count: int, code: Code) -> list[KernelImage]:
    """Images of kernels that nobody launches, to fill a cache with."""
    checks = (Check("", bytes(32), (("SCALE", "0.5"),)),)
    return list(_other_images("others", "", range(-(-count // 2)), checks, code))[:count]
