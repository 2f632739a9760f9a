# SPDX-License-Identifier: Apache-2.0
"""The devices, and which of them is current."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from functools import wraps

from cudabuild import config
from cudabuild.host_api import choice
from cudabuild.host_api.queues import event, stream, synchronize
from cudabuild.runtime.driver import find_driver
from cudabuild.runtime.streams import Event, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

__all__ = [
    "Context",
    "DeviceDescriptor",
    "close",
    "cuda_error",
    "current_context",
    "detect",
    "get_current_device",
    "gpus",
    "is_available",
    "is_bfloat16_supported",
    "is_float16_supported",
    "is_supported_version",
    "list_devices",
    "profile_start",
    "profile_stop",
    "profiling",
    "require_context",
    "select_device",
]


class DeviceDescriptor:
    """One device of the list ``cuda.gpus``; in a ``with`` block it is the current one of the thread.

    Attributes:
        id: its number.
    """

    #: What the CPU device keeps to: the limits of compute capability 9.0 (CUDA C++ Programming Guide).
    _CPU = {
        "WARP_SIZE": 32, "MAX_THREADS_PER_BLOCK": 1024, "MAX_BLOCK_DIM_X": 1024, "MAX_BLOCK_DIM_Y": 1024,
        "MAX_BLOCK_DIM_Z": 64, "MAX_GRID_DIM_X": (1 << 31) - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535,
        "MAX_SHARED_MEMORY_PER_BLOCK": 48 * 1024, "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 227 * 1024,
        "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "UNIFIED_ADDRESSING": 1, "COOPERATIVE_LAUNCH": 1,
    }  # fmt: skip

    def __init__(self, id: int) -> None:
        self.id = id
        self._before: list[int] = []

    @property
    def _driver(self) -> Any:
        device: Any = choice.current_device()
        return device.driver if device.kind == "gpu" else None

    @property
    def name(self) -> str:
        driver = self._driver
        return str(choice.current_device().name if driver is None else driver.device_info(self.id).name)

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor); for the CPU device, the one whose limits it keeps to."""
        driver = self._driver
        return (9, 0) if driver is None else tuple(driver.device_info(self.id).cc)

    @property
    def supports_float16(self) -> bool:
        """Whether it has instructions for float16: from compute capability 5.3 on."""
        return self.compute_capability >= (5, 3)

    @property
    def supports_bfloat16(self) -> bool:
        """Whether it has instructions for bfloat16: from compute capability 8.0 on."""
        return self.compute_capability >= (8, 0)

    def __getattr__(self, name: str) -> int:
        if not name.isupper():
            raise AttributeError(name)
        driver = self._driver
        if driver is not None:
            return int(driver.device_attribute(self.id, name))
        if name == "MULTIPROCESSOR_COUNT":
            from os import cpu_count

            return cpu_count() or 1
        if name not in self._CPU:
            raise AttributeError(f"the CPU device has no attribute {name}")
        return self._CPU[name]

    def __repr__(self) -> str:
        return f"<CUDA device {self.id} '{self.name}'>"

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, DeviceDescriptor) and other.id == self.id

    def __hash__(self) -> int:
        return hash(("cuda device", self.id))

    def __enter__(self) -> DeviceDescriptor:
        driver = self._driver
        if driver is not None:
            self._before.append(driver.current_device())
            driver.select_device(self.id)
        return self

    def __exit__(self, *exception: Any) -> None:
        driver = self._driver
        if driver is not None:
            driver.select_device(self._before.pop())


class _DeviceList:
    """``cuda.gpus``: the devices, by number."""

    def _all(self) -> list[DeviceDescriptor]:
        device: Any = choice.current_device()
        count = device.driver.device_count() if device.kind == "gpu" else 1
        return [DeviceDescriptor(number) for number in range(count)]

    def __len__(self) -> int:
        return len(self._all())

    def __getitem__(self, number: int) -> DeviceDescriptor:
        return self._all()[number]

    def __iter__(self) -> Iterator[DeviceDescriptor]:
        return iter(self._all())

    @property
    def current(self) -> DeviceDescriptor:
        """The calling thread's device."""
        return get_current_device()

    def __repr__(self) -> str:
        return ", ".join(map(repr, self._all()))


gpus = _DeviceList()


class MemoryInfo(tuple[int, int]):
    """Bytes of memory, as the pair (``free``, ``total``)."""

    __slots__ = ()

    @property
    def free(self) -> int:
        """Bytes that are free."""
        return self[0]

    @property
    def total(self) -> int:
        """Bytes that there are."""
        return self[1]


class Deallocations:
    """numba-cuda's list of memory to give back. It is always empty: memory goes when its last owner goes."""

    def clear(self) -> None:
        """Gives back what waits: nothing."""

    def __len__(self) -> int:
        return 0


class Context:
    """What ``cuda.current_context()`` gives: the current device, its memory, and waiting for it.

    Attributes:
        device: the device.
    """

    def __init__(self, device: DeviceDescriptor) -> None:
        self.device = device

    def synchronize(self) -> None:
        """Waits for everything that was queued on the device."""
        with self.device:
            synchronize()

    def get_memory_info(self) -> MemoryInfo:
        """Free and total bytes; of the host on the CPU device."""
        device: Any = choice.current_device()
        if device.kind == "gpu":
            with self.device:
                return MemoryInfo(device.driver.memory_info())
        from os import sysconf

        page = sysconf("SC_PAGE_SIZE")
        return MemoryInfo((sysconf("SC_AVPHYS_PAGES") * page, sysconf("SC_PHYS_PAGES") * page))

    @property
    def deallocations(self) -> Deallocations:
        """Memory that waits to be given back."""
        return Deallocations()

    def reset(self) -> None:
        """Waits for everything that was queued. Memory and kernels stay: they belong to their arrays and functions, and
        the device's context to the whole process."""
        self.synchronize()

    def create_stream(self) -> Stream:
        return stream()

    def create_event(self, timing: bool = True) -> Event:
        return event(timing)


def current_context(devnum: int | None = None) -> Context:
    """The context of the calling thread's device, or of another one."""
    return Context(get_current_device() if devnum is None else gpus[devnum])


def get_current_device() -> DeviceDescriptor:
    """The device that this thread's launches go to."""
    device: Any = choice.current_device()
    return DeviceDescriptor(device.driver.current_device() if device.kind == "gpu" else 0)


def list_devices() -> _DeviceList:
    """``gpus``."""
    return gpus


def select_device(device_id: int) -> Context:
    """Makes a device the current one of this thread.

    Raises:
        IndexError: there is no device of that number.
    """
    descriptor = gpus[device_id]
    device: Any = choice.current_device()
    if device.kind == "gpu":
        device.driver.select_device(descriptor.id)
    return Context(descriptor)


def is_available() -> bool:
    """Whether there is a GPU, or ``CUDABUILD_DEVICE`` asks for a device that needs none."""
    if config.get("device") in ("cpu", "python"):
        return True
    return find_driver()[0] is not None


def is_float16_supported() -> bool:
    """Whether kernels can use float16: always."""
    return True


def is_bfloat16_supported() -> bool:
    """Whether kernels can use bfloat16: always. Devices without its instructions compute in float32."""
    return True


def detect() -> bool:
    """Writes the devices to standard output, and says whether there are any."""
    if not is_available():
        sys.stdout.write(f"Found no CUDA device: {find_driver()[1]}\n")
        return False
    lines = [f"Found {len(gpus)} CUDA devices"]
    for device in gpus:
        major, minor = device.compute_capability
        lines.append(f"id {device.id}    {device.name}    compute capability {major}.{minor}")
    sys.stdout.write("\n".join(lines) + "\n")
    return True


def require_context(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes sure that the thread has a current device before each call of ``function``."""

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        current_context()
        return function(*args, **kwargs)

    return called


def close() -> None:
    """Waits for everything that was queued. The device's context stays: other libraries share it."""
    synchronize()


def is_supported_version() -> bool:
    """Whether this version of CUDA is one that kernels run on: the driver serves 12.0 or later, or there is none."""
    driver = find_driver()[0]
    return driver is None or driver.version() >= _OLDEST_VERSION


_OLDEST_VERSION = 12000


def cuda_error() -> Exception | None:
    """Why there is no GPU, or None if there is one or ``CUDABUILD_DEVICE`` asks for another device."""
    from cudabuild.errors import LaunchError

    return None if is_available() else LaunchError(find_driver()[1])


def profile_start() -> None:
    """Tells a profiler that began with the program to collect from here."""
    device = choice.current_device()
    if device.kind == "gpu":
        device.driver.set_profiling(True)


def profile_stop() -> None:
    """Tells a profiler to stop collecting."""
    device = choice.current_device()
    if device.kind == "gpu":
        device.driver.set_profiling(False)


@contextmanager
def profiling() -> Iterator[None]:
    """Collects for a profiler inside a ``with`` block."""
    profile_start()
    try:
        yield
    finally:
        profile_stop()
