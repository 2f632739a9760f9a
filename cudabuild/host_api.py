# SPDX-License-Identifier: Apache-2.0
"""The host-side names of ``cudabuild.cuda``: memory, streams, events and devices of whatever device kernels run on.

``cuda`` imports this module when one of the names is first used. A program that uses them runs unchanged on the CPU
device, where device memory is host memory and everything has happened when a call returns.
"""

from __future__ import annotations

import sys

from cudabuild import config
from cudabuild.decorators import current_device
from cudabuild.errors import LaunchError
from cudabuild.runtime.arguments import read_argument
from cudabuild.runtime.device_array import DeviceArray, GpuArray, make_array
from cudabuild.runtime.driver import find_driver
from cudabuild.runtime.memory import GpuMemory, HostMemory
from cudabuild.runtime.streams import Event, Stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = [
    "Context",
    "DeviceArray",
    "DeviceDescriptor",
    "Event",
    "Stream",
    "as_cuda_array",
    "current_context",
    "default_stream",
    "detect",
    "device_array",
    "device_array_like",
    "event",
    "event_elapsed_time",
    "external_stream",
    "get_current_device",
    "gpus",
    "is_available",
    "is_bfloat16_supported",
    "is_cuda_array",
    "is_float16_supported",
    "list_devices",
    "mapped_array",
    "mapped_array_like",
    "per_thread_default_stream",
    "pinned_array",
    "pinned_array_like",
    "select_device",
    "stream",
    "synchronize",
    "to_device",
]

_PER_THREAD = 2  # CU_STREAM_PER_THREAD

#: Device -> its memory, made once per device object.
_memories: dict[int, tuple[Any, GpuMemory | HostMemory]] = {}


def _memory() -> GpuMemory | HostMemory:
    device: Any = current_device()
    known = _memories.get(id(device))
    if known is None or known[0] is not device:
        made = GpuMemory(device.driver) if device.kind == "gpu" else HostMemory()
        known = _memories[id(device)] = (device, made)
    return known[1]


# arrays


def to_device(obj: Any, stream: Any = 0, copy: bool = True, to: DeviceArray | None = None) -> DeviceArray:
    """Copies an array to the device.

    Args:
        obj: a NumPy array, or what ``numpy.asarray`` makes one of; a device array is returned as it is.
        stream: where the copy is queued.
        copy: False leaves the new memory unwritten.
        to: an existing device array to fill, of the same shape and type.
    """
    if isinstance(obj, DeviceArray) and to is None:
        return obj
    import numpy

    host = obj if isinstance(obj, DeviceArray) else numpy.asarray(obj)
    made = device_array_like(host, stream) if to is None else to
    if copy:
        made.copy_to_device(host, stream)
    return made


def device_array(
    shape: Any, dtype: Any = "float64", strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceArray:
    """A new array on the device, its elements unwritten; the arguments are those of ``numpy.empty``, and strides."""
    return make_array(_memory(), shape, dtype, strides, order, stream)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceArray:
    """A new array on the device of the same shape, type and order as ``ary``."""
    fortran = _is_fortran(ary)
    return make_array(_memory(), tuple(ary.shape), ary.dtype, None, "F" if fortran else "C", stream)


def pinned_array(shape: Any, dtype: Any = "float64", strides: Any = None, order: str = "C") -> Any:
    """A NumPy array in page-locked memory, for copies that run beside other work."""
    return _host_array(shape, dtype, strides, order, mapped=False)


def pinned_array_like(ary: Any) -> Any:
    """:func:`pinned_array` of the same shape, type and order as ``ary``."""
    return pinned_array(ary.shape, ary.dtype, None, "F" if _is_fortran(ary) else "C")


def mapped_array(
    shape: Any, dtype: Any = "float64", strides: Any = None, order: str = "C", stream: Any = 0,
    portable: bool = False, wc: bool = False,
) -> Any:  # fmt: skip
    """A NumPy array that kernels use in place, across the bus.

    Args:
        shape, dtype, order: as for ``numpy.empty``.
        strides: None.
        stream, portable, wc: taken for numba-cuda's sake: the memory is portable, and not write-combined.
    """
    return _host_array(shape, dtype, strides, order, mapped=True)


def mapped_array_like(ary: Any, stream: Any = 0, portable: bool = False, wc: bool = False) -> Any:
    """:func:`mapped_array` of the same shape, type and order as ``ary``."""
    return mapped_array(ary.shape, ary.dtype, None, "F" if _is_fortran(ary) else "C")


def _host_array(shape: Any, dtype: Any, strides: Any, order: str, mapped: bool) -> Any:
    if strides is not None:
        raise ValueError("page-locked arrays have no gaps: leave strides out, and take a slice of a larger array")
    from cudabuild.runtime.mapped import make_host_array

    return make_host_array(_memory(), shape, dtype, order, mapped=mapped)


def _is_fortran(ary: Any) -> bool:
    if isinstance(ary, DeviceArray):
        return ary.f and not ary.c
    return bool(ary.flags.f_contiguous and not ary.flags.c_contiguous)


def is_cuda_array(obj: Any) -> bool:
    """Whether kernels take ``obj`` as an array in device memory."""
    return isinstance(obj, DeviceArray) or hasattr(obj, "__cuda_array_interface__")


def as_cuda_array(obj: Any, sync: bool = True) -> DeviceArray:
    """A device array over the memory of another library's, kept alive by it.

    Args:
        obj: an object with ``__cuda_array_interface__``.
        sync: wait for the stream that its interface names, before returning.

    Raises:
        TypeError: no such object.
    """
    if isinstance(obj, DeviceArray):
        return obj
    if not hasattr(obj, "__cuda_array_interface__"):
        raise TypeError("*ary* doesn't implement the cuda array interface.")
    import numpy

    memory = _memory()
    if memory.kind != "gpu":
        raise LaunchError("an array in GPU memory cannot be used on the CPU device")
    interface = obj.__cuda_array_interface__
    read = read_argument(obj)
    producer = interface.get("stream")
    if sync and producer is not None:
        memory.synchronize_stream(int(producer))
    dtype = numpy.dtype(interface["typestr"])
    return GpuArray(
        memory, obj, read.pointer, read.shape, read.strides, dtype, readonly=read.readonly, stream=producer or 0
    )


# streams and events


def stream() -> Stream:
    """A new stream."""
    memory = _memory()
    owner = memory.make_stream()
    return Stream(memory, owner.pointer, owner)


def default_stream() -> Stream:
    """The stream that everything is queued on which names none."""
    return Stream(_memory(), 0)


def per_thread_default_stream() -> Stream:
    """The default stream of the calling thread alone."""
    memory = _memory()
    return Stream(memory, _PER_THREAD if memory.kind == "gpu" else 0)


def external_stream(ptr: int) -> Stream:
    """A stream that another library made, by its handle; it must outlive the result."""
    memory = _memory()
    return Stream(memory, int(ptr) if memory.kind == "gpu" else 0)


def event(timing: bool = True) -> Event:
    """A new event; ``timing=False`` makes a cheaper one that only orders."""
    return Event(_memory(), timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two events that have been reached."""
    return evtstart.elapsed_time(evtend)


def synchronize() -> None:
    """Waits for everything that was queued on the current device."""
    _memory().synchronize()


# devices


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
        device: Any = current_device()
        return device.driver if device.kind == "gpu" else None

    @property
    def name(self) -> str:
        driver = self._driver
        return str(current_device().name if driver is None else driver.device_info(self.id).name)

    @property
    def compute_capability(self) -> tuple[int, int]:
        """(major, minor); for the CPU device, the one whose limits it keeps to."""
        driver = self._driver
        return (9, 0) if driver is None else tuple(driver.device_info(self.id).cc)

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
        device: Any = current_device()
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

    def get_memory_info(self) -> tuple[int, int]:
        """Free and total bytes; of the host on the CPU device."""
        device: Any = current_device()
        if device.kind == "gpu":
            with self.device:
                found: tuple[int, int] = device.driver.memory_info()
                return found
        from os import sysconf

        page = sysconf("SC_PAGE_SIZE")
        return sysconf("SC_AVPHYS_PAGES") * page, sysconf("SC_PHYS_PAGES") * page

    def create_stream(self) -> Stream:
        return stream()

    def create_event(self, timing: bool = True) -> Event:
        return event(timing)


def current_context(devnum: int | None = None) -> Context:
    """The context of the calling thread's device, or of another one."""
    return Context(get_current_device() if devnum is None else gpus[devnum])


def get_current_device() -> DeviceDescriptor:
    """The device that this thread's launches go to."""
    device: Any = current_device()
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
    device: Any = current_device()
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
