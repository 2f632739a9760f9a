# SPDX-License-Identifier: Apache-2.0
"""Freezes the launch ABI of now: archives of the kernels in a numbered folder, and what their launches must hand over.

    python3 tests/image/launch_abi/freeze.py

Once for each number, when it is released; it refuses to freeze a number again.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent.parent))

from cudabuild.compiler import Compilation, Request, toolchain  # noqa: E402
from cudabuild.fingerprint import compute_fingerprint, image_key  # noqa: E402
from cudabuild.image.archive import write_archive  # noqa: E402
from cudabuild.image.image import LAUNCH_ABI, KernelImage  # noqa: E402
from cudabuild.image.index import INDEX_NAME, build_index, write_index  # noqa: E402
from cudabuild.runtime.dispatcher import Dispatcher  # noqa: E402
from cudabuild.target import TARGETS  # noqa: E402
from cudabuild.types.layout import parameter_fields  # noqa: E402

__all__ = ["main"]


def compile_all(kernels: list[Dispatcher]) -> tuple[list[KernelImage], dict[str, str]]:
    """The images of some kernels; symbol -> the formats of its parameter block."""
    images: list[KernelImage] = []
    formats: dict[str, str] = {}
    for kernel in kernels:
        (signature,) = kernel.signatures
        definition = kernel.definition
        work = Compilation(definition, signature, definition.options)
        fingerprint = compute_fingerprint(definition, signature, definition.options)
        for name in ("sm_90", "compute_75"):
            for width in (32, 64):
                target = TARGETS[name]
                image = work.get("image", Request(target, width))
                image.key = image_key(fingerprint, target, width, definition.options, toolchain(target))
                images.append(image)
                fields = parameter_fields(signature, width, fault=bool(definition.options["debug"]))
                formats[image.symbol] = "".join(field.format for field in fields)
    return images, formats


def main() -> int:
    folder = HERE / str(LAUNCH_ABI)
    if list(folder.glob("*.golden")):
        raise SystemExit(f"launch ABI {LAUNCH_ABI} is frozen: a change of it needs another number (image/image.py)")
    sys.path.insert(0, str(folder))
    import frozen_kernels  # type: ignore[import-not-found]

    kernels = [value for value in vars(frozen_kernels).values() if isinstance(value, Dispatcher) and value.signatures]
    images, formats = compile_all([kernel for kernel in kernels if not kernel.definition.is_device])
    (folder / "formats.json").write_text(json.dumps(formats, indent=1, sort_keys=True) + "\n", "utf-8")
    with tempfile.TemporaryDirectory() as scratch:
        package = Path(scratch) / "frozen_kernels"
        shutil.copytree(folder / "frozen_kernels", package, ignore=shutil.ignore_patterns("__pycache__"))
        (package / "_cudabuild").mkdir()
        sizes = {}
        for target in ("sm_90", "compute_75"):
            path = package / "_cudabuild" / f"{target}.cuar"
            sizes[target] = write_archive(path, [image for image in images if image.target == target], target)
        write_index(package / "_cudabuild" / INDEX_NAME, build_index("frozen_kernels", images, sizes))
        for path in (package / "_cudabuild").iterdir():
            shutil.copyfile(path, folder / f"{path.name}.golden")
        command = [sys.executable, str(HERE / "launch.py"), scratch, str(folder / "formats.json"), "90", "13000"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    (folder / "launches.jsonl").write_text(done.stdout, "utf-8")
    print(done.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
