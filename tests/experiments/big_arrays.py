# SPDX-License-Identifier: Apache-2.0
"""Arrays that 32-bit indices cannot reach: the launch picks the 64-bit variant, and the results are right.

    python3 tests/experiments/big_arrays.py [--quick] [--device auto|cpu|gpu]

On a GPU: every element of 2**31 + 5 bytes is written and checked, a view of 3,000 elements spans 2,999,000,000 bytes,
and an array of shape (0, 2**40) is empty. On the CPU device, and with ``--quick``, the first touches the ends only. A
small array of each kind shows that the 32-bit variant is the rule. The chosen width is read from the log.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from reporting import CHECKOUT, Report, clean_environment, run

__all__ = ["main"]

#: name -> (kernel, expected width): each runs in a process of its own, so that the log line is its own.
CASES = {
    "1000 bytes": ("small", 32),
    "2**31 + 5 bytes": ("large", 64),
    "3,000 elements, 1,000 bytes apart": ("near", 32),
    "3,000 elements, 1,000,000 bytes apart": ("wide", 64),
    "shape (0, 4)": ("empty", 32),
    "shape (0, 2**40)": ("vast", 64),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="touch the ends of the large array only")
    parser.add_argument("--device", choices=("auto", "cpu", "gpu"), default="auto")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        return run_case(options.case, options.quick)
    report = Report("big arrays")
    with tempfile.TemporaryDirectory() as scratch:
        settings = {"CUDABUILD_DEVICE": options.device, "CUDABUILD_LOG": "info", "CUDABUILD_CACHE_DIR": scratch}
        environment = clean_environment(**settings, PYTHONPATH=os.pathsep.join([str(CHECKOUT), *sys.path]))
        for title, (case, width) in CASES.items():
            command = [sys.executable, Path(__file__), "--case", case, *(["--quick"] if options.quick else [])]
            done = run(command, environment)
            device = done.stdout.split()[-1] if done.stdout else "?"
            right = report.check(title, done.returncode == 0, done.stdout.strip() or done.stderr.strip()[-1500:])
            lines = [line for line in done.stderr.splitlines() if "indices" in line]
            if right and device == "gpu":
                chosen = any(f"{width}-bit indices" in line for line in lines)
                report.check(f"{title}: {width}-bit", chosen, lines or "no log")
    return report.status()


def run_case(case: str, quick: bool) -> int:
    """One launch; prints what was seen and the device's kind, and exits with 1 where it is wrong."""
    from big_arrays_kernels import extents, increment, increment_ends, increment_strided

    import cudabuild

    gpu = cudabuild.current_device().kind == "gpu"
    make = Memory if gpu else HostMemory
    if case in ("small", "large"):
        size = 1000 if case == "small" else 2**31 + 5
        array = make(size, (size,), None)
        whole = gpu and not quick
        kernel = increment if whole else increment_ends
        kernel[1024 if whole else 1, 256 if whole else 32](array.argument)
        wrong = array.count_wrong(whole)
        text = f"{size:,} elements, {wrong} wrong"
    elif case in ("near", "wide"):
        stride = 1_000 if case == "near" else 1_000_000
        array = make(2999 * stride + 1, (3000,), (stride,))
        increment_strided[12, 256](array.argument)
        wrong = sum(array.byte(k * stride) != 1 for k in range(3000)) + (array.byte(1) != 0)
        text = f"last element at byte {2999 * stride:,}, {wrong} wrong"
    else:
        columns = 4 if case == "empty" else 2**40
        seen, array = make(24, (3,), None, "<i8"), make(0, (0, columns), None, "<f4")
        extents[1, 1](array.argument, seen.argument)
        found = [int.from_bytes(bytes(seen.byte(8 * k + b) for b in range(8)), "little") for k in range(3)]
        wrong = found != [0, columns, 0]
        text = f"shape ({found[0]}, {found[1]:,}), size {found[2]}"
    print(f"{text}; {'gpu' if gpu else 'cpu'}")
    return 1 if wrong else 0


class HostMemory:
    """Zeroed NumPy memory; pages that nobody touches cost nothing."""

    def __init__(self, size: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, kind: str = "|u1") -> None:
        import numpy as np

        self.bytes = np.zeros(size, np.uint8)
        if 0 in shape:
            self.argument: Any = np.empty(shape, kind)
        else:
            self.argument = np.ndarray(shape, kind, self.bytes.data, strides=strides)

    def byte(self, at: int) -> int:
        return int(self.bytes[at])

    def count_wrong(self, whole: bool) -> int:
        ends = [0, len(self.bytes) // 2, *range(len(self.bytes) - 5, len(self.bytes))]
        return sum(self.byte(at) != 1 for at in ends) + (self.byte(1) != 0)


class Memory:
    """Zeroed device memory from the bare driver, seen through ``__cuda_array_interface__``."""

    def __init__(self, size: int, shape: tuple[int, ...], strides: tuple[int, ...] | None, kind: str = "|u1") -> None:
        sys.path.insert(0, str(CHECKOUT / "tests" / "benchmarks"))
        import raw_cuda

        self.cuda = raw_cuda
        raw_cuda.start()
        self.size = size
        self.pointer = int(raw_cuda.call("cuMemAlloc", max(1, size)))
        raw_cuda.call("cuMemsetD8", self.pointer, 0, max(1, size))
        interface = {"shape": shape, "typestr": kind, "data": (self.pointer, False), "strides": strides, "version": 3}
        self.argument = type("Argument", (), {"__cuda_array_interface__": interface})()

    def byte(self, at: int) -> int:
        value = ctypes.c_uint8()
        self.cuda.call("cuMemcpyDtoH", ctypes.addressof(value), self.pointer + at, 1)
        return value.value

    def count_wrong(self, whole: bool) -> int:
        if not whole:
            ends = [0, self.size // 2, *range(self.size - 5, self.size)]
            return sum(self.byte(at) != 1 for at in ends) + (self.byte(1) != 0)
        chunk = (ctypes.c_uint8 * 2**24)()
        wrong = 0
        for at in range(0, self.size, len(chunk)):
            count = min(len(chunk), self.size - at)
            self.cuda.call("cuMemcpyDtoH", ctypes.addressof(chunk), self.pointer + at, count)
            wrong += count - bytes(chunk)[:count].count(1)
        return wrong


if __name__ == "__main__":
    sys.exit(main())
