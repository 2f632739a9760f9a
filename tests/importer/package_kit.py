# SPDX-License-Identifier: Apache-2.0
"""Small packages with archives, and fresh processes that import them on a fake GPU."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterable
from pathlib import Path

__all__ = ["KERNEL", "START", "build_archives", "run", "write_files"]

CHECKOUT = Path(__file__).resolve().parent.parent.parent

#: A module with one kernel.
KERNEL = """
from cudabuild import cuda, kernel

SCALE = 3

@kernel("int32, float32[::1]")
def scale(n, x):
    i = cuda.grid(1)
    if i < n:
        x[i] = x[i] * SCALE
"""

#: What every process starts with.
START = f"""
import sys
sys.path.insert(0, {str(CHECKOUT / "tests" / "runtime")!r})
import fake_driver

class Array:
    __cuda_array_interface__ = {{"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}}

def use_gpu():
    from cudabuild.runtime.driver import use_driver
    fake = fake_driver.FakeDriver()
    fake.takes_any_code = True
    use_driver(fake)

def source(kernel):
    use_gpu()
    from cudabuild.errors import NoImageError
    try:
        kernel[1, 32](4, Array())
    except NoImageError as error:
        return [line.strip() for line in str(error).splitlines() if line.startswith(("  shipped", "  ptx"))]
    return kernel.image_source()
"""

#: Imports modules and writes archives for their kernels: code of one byte, everything else as a build records it.
_BUILD = """
import importlib, os, sys
folder, archs, *names = sys.argv[1:]
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.archive import write_archive
from cudabuild.image.image import KernelImage
from cudabuild.image.index import INDEX_NAME, build_index, write_index
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.types import format_signature

images = {}
for name in names:
    for kernel in vars(importlib.import_module(name)).values():
        if not isinstance(kernel, Dispatcher) or kernel.__module__ != name:
            continue
        for signature in kernel.signatures:
            fingerprint = compute_fingerprint(kernel.definition, signature)
            for target in archs.split():
                for width in (32, 64):
                    image = KernelImage(
                        module=name, qualname=kernel.__qualname__, signature=format_signature(signature),
                        fingerprint=fingerprint.digest, options={}, kind="ptx" if "compute" in target else "cubin",
                        target=target, index_width=width, symbol=kernel.__name__, data=b"code",
                    )
                    images.setdefault(target, []).append(image.stamp(fingerprint))
os.makedirs(folder, exist_ok=True)
for target, group in images.items():
    write_archive(os.path.join(folder, target + ".cuar"), group, target)
every = [image for group in images.values() for image in group]
write_index(os.path.join(folder, INDEX_NAME), build_index(names[0], every, {}))
"""


def write_files(root: Path, files: dict[str, str]) -> Path:
    """Writes text files below ``root``, which is returned."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return root


def build_archives(
    root: Path, folder: str, *modules: str, archs: str = "sm_90 compute_75", paths: Iterable[Path] = ()
) -> None:
    """Archives of the kernels of ``modules``, importable from ``root``, in the folder ``folder`` below it.

    What they import may be in ``paths``.
    """
    _run([sys.executable, "-c", _BUILD, str(root / folder), archs, *modules], root, *paths)


def run(code: str, *paths: Path, start: list[str] | None = None, **environment: str) -> str:
    """What a fresh process prints; a kernel without an image is an error there.

    Args:
        code: Python code; ``source(kernel)`` launches a kernel on the fake GPU and says where its image came from.
        paths: on ``sys.path``.
        start: the command line in place of ``-c code``.
        environment: variables.
    """
    command = start or ["-c", START + textwrap.dedent(code)]
    return _run([sys.executable, *command], *paths, CUDABUILD_JIT="never", **environment)


def _run(command: list[str], *paths: Path, **environment: str) -> str:
    search = os.pathsep.join(map(str, [*paths, CHECKOUT]))
    variables = {**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()
