# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays in page-locked host memory: ``cuda.pinned_array``, and ``cuda.mapped_array``, which a GPU uses in place.

Imported only when one is made, and then with NumPy.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from cudabuild.runtime.memory import Allocation, GpuMemory, HostMemory

__all__ = ["MappedArray", "make_host_array", "make_managed_array"]


class MappedArray(numpy.ndarray[Any, Any]):
    """A NumPy array whose memory the GPU reads and writes at the same address, as do views of it.

    What NumPy computes from one has memory of its own, and then no ``__cuda_array_interface__``.
    """

    _span: tuple[int, int] = (0, 0)

    def __array_finalize__(self, parent: Any) -> None:
        self._span = getattr(parent, "_span", (0, 0))

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        interface = self.__array_interface__
        address = interface["data"][0]
        if not self._span[0] <= address < self._span[1]:
            raise AttributeError("not in memory that the GPU can use")
        return {
            "shape": interface["shape"],
            "strides": interface["strides"],
            "typestr": interface["typestr"],
            "data": interface["data"],
            "version": 3,
            "stream": None,
        }


def make_host_array(
    memory: GpuMemory | HostMemory, shape: Any, dtype: Any, order: str, *, mapped: bool
) -> numpy.ndarray[Any, Any]:
    """A NumPy array in page-locked memory; ordinary memory where there is no GPU.

    Args:
        memory: the device's.
        shape, dtype, order: as for ``numpy.empty``.
        mapped: whether kernels use it in place.
    """
    full, element, size = _measure(shape, dtype)
    return _over(memory.allocate_host(size), full, element, size, order, mapped and memory.kind == "gpu")


def _measure(shape: Any, dtype: Any) -> tuple[tuple[int, ...], numpy.dtype[Any], int]:
    """The shape as a tuple, the element type, and all bytes."""
    element = numpy.dtype(dtype)
    if element.hasobject:
        raise TypeError("Python objects cannot live in page-locked memory")
    full = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    size = element.itemsize
    for extent in full:
        size *= int(extent)
    return full, element, size


def make_managed_array(
    memory: GpuMemory | HostMemory, shape: Any, dtype: Any, order: str, *, attach_global: bool
) -> numpy.ndarray[Any, Any]:
    """A NumPy array in managed memory, which host and device use in place.

    Args:
        memory: the device's.
        shape, dtype, order: as for ``numpy.empty``.
        attach_global: whether every device may use it at any time.
    """
    full, element, size = _measure(shape, dtype)
    owner = memory.allocate_managed(size, attach_global)
    return _over(owner, full, element, size, order, memory.kind == "gpu")


def _over(
    owner: Allocation, shape: tuple[int, ...], element: numpy.dtype[Any], size: int, order: str, on_device: bool
) -> numpy.ndarray[Any, Any]:
    """An array over the memory of ``owner``; ``on_device`` says whether a GPU can use it there."""
    layout: Any = order
    array: numpy.ndarray[Any, Any] = numpy.ndarray(shape, element, buffer=_buffer(owner, size), order=layout)
    if not on_device:
        return array
    view = array.view(MappedArray)
    view._span = owner.pointer, owner.pointer + (size or 1)
    return view


def _buffer(owner: Allocation, size: int) -> Any:
    """The memory as a buffer that keeps its owner alive."""
    buffer = (ctypes.c_char * (size or 1)).from_address(owner.pointer)
    buffer.owner = owner  # type: ignore[attr-defined]
    return buffer
