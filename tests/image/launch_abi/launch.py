# SPDX-License-Identifier: Apache-2.0
"""Launches the frozen kernels of a folder once each, and tells what reached the driver.

    python3 launch.py FOLDER FORMATS CC DRIVER

FOLDER holds the package, FORMATS is a JSON file: symbol -> the ``struct`` characters of the parameter block. Prints a
line of JSON per launch, or the error.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

CHECKOUT = Path(__file__).resolve().parent.parent.parent.parent
sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests" / "runtime")]

from fake_driver import FakeDriver  # noqa: E402

__all__ = ["main"]

#: A block and a grid for every launch; the grid of the last is too large for 32-bit indices.
GRID, BLOCK = (2,), (32,)
WIDE = (1 << 26,)


class Array:
    """Device memory at a made-up address: nothing reads it."""

    def __init__(self, address: int, typestr: str, shape: tuple[int, ...], strides: Any = None, **more: Any) -> None:
        self.__cuda_array_interface__ = {
            "shape": shape, "typestr": typestr, "data": (address, False), "strides": strides, "version": 3, **more,
        }  # fmt: skip


def calls(level: Any) -> dict[str, tuple[Any, ...]]:
    """Kernel -> arguments; ``level`` is a member of the package's enum."""
    import numpy as np

    out = Array(0x10000, "<f8", (8,))
    numbers = Array(0x20000, "<i4", (64,))
    record = [("x", "<f4"), ("", "|V4"), ("n", "<i8")]
    return {
        "scalars": (-1, -2, -3, -4, 5, 6, 7, 2**64 - 1, 0.5, 1.5, 2.5, 1e300, True, out),
        "weak": (-7, 2.5, 1 + 2j, 3 - 4j, out),
        "arrays": (
            Array(0x30000, "<f4", (40,)), Array(0x40000, "<f4", (41, 3)), Array(0x50000, "<f4", (42, 5), (4, 168)),
            Array(0x60000, "<f8", (43, 7), (-112, 16)),
        ),
        "tuples": ((3, Array(0x30000, "<f4", (40,)), (True, 0.25)), out),
        "pointers": (0x70000, 40, Array(0x30000, "<f4", (40,))),
        "records": (Array(0x80000, "|V16", (9,), descr=record), out),
        "named": (level, None, np.datetime64("2001-02-03", "s"), np.timedelta64(-5, "ms"), out),
        "checked": (numbers, numbers),
        "together": (numbers,),
        "shared": (numbers,),
    }  # fmt: skip


class Watching(FakeDriver):
    """Notes which launches wait for all blocks."""

    def __init__(self, cc: tuple[int, int], version: int) -> None:
        super().__init__((cc,), version)
        self.cooperative = False

    def cuLaunchCooperativeKernel(self, *args: Any) -> tuple[Any, ...]:
        self.cooperative = True
        return self.cuLaunchKernel(*args, 0)


def main() -> int:
    folder, formats, cc, version = sys.argv[1:]
    fake = Watching((int(cc) // 10, int(cc) % 10), int(version))
    from cudabuild.errors import CudabuildError
    from cudabuild.image.archive import Archive
    from cudabuild.runtime.driver import use_driver

    known = json.loads(Path(formats).read_text("utf-8"))
    for path in sorted(Path(folder).glob("frozen_kernels/_cudabuild/*.cuar")):
        for record in Archive(str(path)).records():
            data = bytes(record.load_image("shipped").data)
            fake.add_code(data, record.symbol, known[record.symbol], lambda *values: None)
    use_driver(fake)
    sys.path.insert(0, folder)
    import frozen_kernels  # type: ignore[import-not-found]

    for name, arguments in calls(frozen_kernels.Level.HIGH).items():
        kernel = getattr(frozen_kernels, name)
        for grid in (GRID, WIDE):
            fake.cooperative = False
            try:
                kernel[grid, BLOCK, 0, 256 if name == "shared" else 0](*arguments)
            except CudabuildError as error:
                print(json.dumps({"kernel": name, "error": str(error).replace(folder, "")}))
                continue
            launch = fake.launches[-1]
            values = list(launch.parameters)
            if name == "checked":
                values[-1] = "fault record"
            told = {
                "kernel": name, "symbol": launch.symbol, "source": kernel.image_source(), "grid": launch.grid,
                "block": launch.block, "shared": launch.shared, "cooperative": fake.cooperative,
                "formats": known[launch.symbol], "parameters": values,
            }  # fmt: skip
            print(json.dumps(told))
    return 0


if __name__ == "__main__":
    sys.exit(main())
