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

__all__ = ["MappedArray", "make_host_array"]


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
    element = numpy.dtype(dtype)
    if element.hasobject:
        raise TypeError("Python objects cannot live in page-locked memory")
    full = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    size = element.itemsize
    for extent in full:
        size *= int(extent)
    owner = memory.allocate_host(size)
    layout: Any = order
    array: numpy.ndarray[Any, Any] = numpy.ndarray(full, element, buffer=_buffer(owner, size), order=layout)
    if not mapped or memory.kind != "gpu":
        return array
    view = array.view(MappedArray)
    view._span = owner.pointer, owner.pointer + (size or 1)
    return view


def _buffer(owner: Allocation, size: int) -> Any:
    """The memory as a buffer that keeps its owner alive."""
    buffer = (ctypes.c_char * (size or 1)).from_address(owner.pointer)
    buffer.owner = owner  # type: ignore[attr-defined]
    return buffer
