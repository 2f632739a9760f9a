# SPDX-License-Identifier: Apache-2.0
"""The driver through cuda.bindings and nothing else: what benchmarks compare with, and how they hold device memory."""

from __future__ import annotations

import ctypes
from typing import Any

from cuda.bindings import driver

__all__ = ["DeviceArray", "RawLaunch", "call", "load_function", "start", "synchronize", "time_launches"]


def call(name: str, *arguments: Any) -> Any:
    """One driver call; raises RuntimeError unless it succeeds."""
    status, *values = getattr(driver, name)(*arguments)
    if status != driver.CUresult.CUDA_SUCCESS:
        raise RuntimeError(f"{name}: {status.name}")
    return values[0] if len(values) == 1 else tuple(values)


def start() -> str:
    """Makes device 0's primary context current; the device's name."""
    call("cuInit", 0)
    device = call("cuDeviceGet", 0)
    call("cuCtxSetCurrent", call("cuDevicePrimaryCtxRetain", device))
    return str(call("cuDeviceGetName", 100, device).split(b"\0")[0].decode())


def synchronize() -> None:
    call("cuCtxSynchronize")


def load_function(image: bytes, symbol: str) -> Any:
    """A CUfunction of a cubin or PTX image."""
    module = call("cuModuleLoadData", image)
    return call("cuModuleGetFunction", module, symbol.encode())


class DeviceArray:
    """Device memory as a C-ordered array that speaks ``__cuda_array_interface__`` and nothing more."""

    def __init__(self, shape: tuple[int, ...], typestr: str, size: int) -> None:
        self.nbytes = size
        for extent in shape:
            self.nbytes *= extent
        self.pointer = int(call("cuMemAlloc", max(1, self.nbytes)))
        self.__cuda_array_interface__ = {
            "shape": shape,
            "typestr": typestr,
            "data": (self.pointer, False),
            "strides": None,
            "version": 3,
        }

    @classmethod
    def of(cls, array: Any) -> DeviceArray:
        """A copy of a C-contiguous NumPy array on the device."""
        made = cls(array.shape, array.dtype.str, array.itemsize)
        made.upload(array)
        return made

    def upload(self, array: Any) -> None:
        call("cuMemcpyHtoD", self.pointer, array.ctypes.data, array.nbytes)

    def download(self, array: Any) -> Any:
        call("cuMemcpyDtoH", array.ctypes.data, self.pointer, array.nbytes)
        return array

    def free(self) -> None:
        call("cuMemFree", self.pointer)


class RawLaunch:
    """A launch with its parameters laid out once, handed to the driver as the address of a ready array.

    ``values`` are (struct format character, value) pairs in the kernel's own order.
    """

    _TYPES = {
        "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16, "i": ctypes.c_int32,
        "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64, "P": ctypes.c_uint64, "f": ctypes.c_float,
        "d": ctypes.c_double, "?": ctypes.c_bool,
    }  # fmt: skip

    def __init__(self, function: Any, grid: Any, block: Any, values: list[tuple[str, Any]]) -> None:
        self.function = function
        self.grid = three(grid)
        self.block = three(block)
        self.storage = [self._TYPES[kind](value) for kind, value in values]
        self.pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(part) for part in self.storage))
        self.address = ctypes.addressof(self.pointers)

    def __call__(self) -> None:
        (status,) = driver.cuLaunchKernel(self.function, *self.grid, *self.block, 0, 0, self.address, 0)
        if status != driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"cuLaunchKernel: {status.name}")


def three(sizes: Any) -> tuple[int, int, int]:
    parts = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    return (*parts, 1, 1, 1)[:3]


def time_launches(launches: dict[str, Any], repeats: int) -> dict[str, list[float]]:
    """Microseconds on the GPU of each launch, interleaved, the order alternating from round to round."""
    begin, end = (call("cuEventCreate", 0) for _ in range(2))
    times: dict[str, list[float]] = {name: [] for name in launches}
    for number in range(repeats + 3):
        order = list(launches) if number % 2 else list(reversed(launches))
        for name in order:
            call("cuEventRecord", begin, 0)
            launches[name]()
            call("cuEventRecord", end, 0)
            call("cuEventSynchronize", end)
            if number >= 3:  # the first rounds warm the clocks and the caches
                times[name].append(call("cuEventElapsedTime", begin, end) * 1e3)
    return times
