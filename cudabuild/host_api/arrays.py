# SPDX-License-Identifier: Apache-2.0
"""Arrays in device memory, page-locked memory and managed memory; and those that other libraries share."""

from __future__ import annotations

from contextlib import contextmanager

from cudabuild.errors import LaunchError
from cudabuild.host_api import choice
from cudabuild.runtime.arguments import dtype_of_fields, read_argument
from cudabuild.runtime.device_array import CpuArray, DeviceArray, GpuArray, make_array
from cudabuild.runtime.memory import frees_deferred

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager
    from typing import Any

__all__ = [
    "DeviceArray",
    "as_cuda_array",
    "defer_cleanup",
    "device_array",
    "device_array_like",
    "from_cuda_array_interface",
    "is_cuda_array",
    "managed_array",
    "mapped",
    "mapped_array",
    "mapped_array_like",
    "pinned",
    "pinned_array",
    "pinned_array_like",
    "to_device",
]


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
    return make_array(choice.current_memory(), shape, dtype, strides, order, stream)


def device_array_like(ary: Any, stream: Any = 0) -> DeviceArray:
    """A new array on the device of the same shape, type and order as ``ary``."""
    fortran = _is_fortran(ary)
    return make_array(choice.current_memory(), tuple(ary.shape), ary.dtype, None, "F" if fortran else "C", stream)


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


def _refuse_strides(strides: Any) -> None:
    if strides is not None:
        raise ValueError("page-locked arrays have no gaps: leave strides out, and take a slice of a larger array")


def _host_array(shape: Any, dtype: Any, strides: Any, order: str, mapped: bool) -> Any:
    _refuse_strides(strides)
    from cudabuild.runtime.mapped import make_host_array

    return make_host_array(choice.current_memory(), shape, dtype, order, mapped=mapped)


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

    memory = choice.current_memory()
    if memory.kind != "gpu":
        raise LaunchError("an array in GPU memory cannot be used on the CPU device")
    interface = obj.__cuda_array_interface__
    read = read_argument(obj)
    producer = interface.get("stream")
    if sync and producer is not None:
        memory.synchronize_stream(int(producer))
    fields = dtype_of_fields(interface)
    dtype = numpy.dtype(interface["typestr"]) if fields is None else fields
    return GpuArray(
        memory, obj, read.pointer, read.shape, read.strides, dtype, readonly=read.readonly, stream=producer or 0
    )


def managed_array(
    shape: Any, dtype: Any = "float64", strides: Any = None, order: str = "C", stream: Any = 0,
    attach_global: bool = True,
) -> Any:  # fmt: skip
    """A NumPy array in memory that moves between host and device as either uses it.

    Args:
        shape, dtype, order: as for ``numpy.empty``.
        strides: None.
        stream: taken for numba-cuda's sake: the memory belongs to no stream.
        attach_global: whether streams of every device may use it at once.
    """
    _refuse_strides(strides)
    from cudabuild.runtime.mapped import make_managed_array

    return make_managed_array(choice.current_memory(), shape, dtype, order, attach_global=attach_global)


@contextmanager
def pinned(*arylist: Any) -> Iterator[None]:
    """Page-locks NumPy arrays inside a ``with`` block, so that copies of them run beside other work."""
    memory = choice.current_memory()
    owners = [memory.lock_host(*_bytes_of(array)) for array in arylist]
    try:
        yield
    finally:
        owners.clear()


@contextmanager
def mapped(*arylist: Any, **kws: Any) -> Iterator[Any]:
    """Lets kernels use NumPy arrays in place inside a ``with`` block.

    Args:
        arylist: the arrays.
        kws: ``stream``, ``portable``, ``wc``: taken for numba-cuda's sake.

    Yields:
        One device array, or a list of them for several.
    """
    memory = choice.current_memory()
    owners = [memory.lock_host(*_bytes_of(array)) for array in arylist]
    try:
        made = [_mapped_view(memory, array) for array in arylist]
        yield made[0] if len(made) == 1 else made
    finally:
        owners.clear()  # the arrays of the block are of no use behind it


def _mapped_view(memory: Any, array: Any) -> DeviceArray:
    address, size = _bytes_of(array)
    pointer = (memory.device_address(address) if size else address) + (array.__array_interface__["data"][0] - address)
    kind = GpuArray if memory.kind == "gpu" else CpuArray
    return kind(memory, array, pointer, array.shape, array.strides, array.dtype)


def _bytes_of(array: Any) -> tuple[int, int]:
    """The host memory that an array's elements lie in: where it begins, and how many bytes."""
    low = high = array.__array_interface__["data"][0]
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if extent == 0:
            return low, 0
        low, high = low + min(0, (extent - 1) * stride), high + max(0, (extent - 1) * stride)
    return low, high + array.itemsize - low


def from_cuda_array_interface(desc: Any, owner: Any = None, sync: bool = True) -> DeviceArray:
    """A device array of a ``__cuda_array_interface__`` dictionary.

    Args:
        desc: the dictionary.
        owner: an object that keeps the memory alive.
        sync: wait for the stream that it names, before returning.
    """
    return as_cuda_array(_Described(desc, owner), sync)


class _Described:
    """A dictionary of the array interface as the object that has it."""

    def __init__(self, interface: Any, owner: Any) -> None:
        self.__cuda_array_interface__ = interface
        self.owner = owner


def defer_cleanup() -> AbstractContextManager[None]:
    """Inside, memory whose last owner goes is kept; it is given back when the ``with`` block ends."""
    return frees_deferred()
