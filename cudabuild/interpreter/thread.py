# SPDX-License-Identifier: Apache-2.0
"""What the kernel-side names answer while a kernel's own Python runs as one CUDA thread."""

from __future__ import annotations

import sys
import time
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild.interpreter.half import find_half_function
from cudabuild.interpreter.libdevice import find_libdevice_function
from cudabuild.interpreter.reach import is_meeting
from cudabuild.interpreter.scalar import FUNCTIONS, update
from cudabuild.lang.cooperative import grid_group
from cudabuild.types import BrainFloat, CharSeq, Record, as_dtype

if TYPE_CHECKING:
    from collections.abc import Callable

    Dim = tuple[int, int, int]

__all__ = ["Block", "Thread", "element_type", "with_attributes"]

WARP = 32

#: What unwritten memory holds.
_GARBAGE = b"\xcd"


def element_type(dtype: Any) -> Any:
    """The NumPy type that a kernel names: ``float32`` of this package, ``numpy.float32``, ``bool`` …"""
    if isinstance(dtype, (Record, CharSeq, BrainFloat)):
        return as_dtype(dtype)
    name = getattr(dtype, "name", None)
    plain = (
        {"bool_": "bool", "int": "int64", "float": "float64", "complex": "complex128"}.get(name, name)
        if isinstance(name, str)
        else dtype
    )
    return np.dtype(plain)


def _make_array(shape: Any, dtype: Any) -> Any:
    kind = element_type(dtype)
    extents = tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)
    size = kind.itemsize
    for extent in extents:
        size *= int(extent)
    if kind == np.bool_:
        return np.ones(extents, kind)
    return with_attributes(np.frombuffer(bytearray(_GARBAGE * size), kind).reshape(extents))


def with_attributes(array: Any) -> Any:
    """An array of records as one whose fields are attributes, too; another array as it is."""
    return array.view(np.recarray) if array.dtype.names else array


class Block:
    """What the threads of a block have in common.

    Attributes:
        index: its index in the grid.
        dynamic: the dynamic shared memory.
    """

    def __init__(self, index: Dim, shape: Dim, grid: Dim, shared: int) -> None:
        self.index = index
        self.shape = shape
        self.grid = grid
        self.dynamic = bytearray(_GARBAGE * shared)
        self._arrays: dict[Any, Any] = {}

    def shared_array(self, frame: FrameType, shape: Any, dtype: Any) -> Any:
        """The array that one place of the code makes, the same for all threads.

        A function of two closures, or for two shapes or types, makes one for each. (Compiled, so does one that is
        called with two constants; here nothing tells a constant.)
        """
        kind = element_type(dtype)
        if shape in (0, (0,)):
            return with_attributes(np.frombuffer(self.dynamic, kind, len(self.dynamic) // kind.itemsize))
        code = frame.f_code
        closure = tuple(id(frame.f_locals.get(name)) for name in code.co_freevars)
        extents = tuple(shape) if isinstance(shape, (tuple, list)) else shape
        key = code, frame.f_lasti, closure, extents, kind
        if key not in self._arrays:
            self._arrays[key] = _make_array(shape, dtype)
        return self._arrays[key]


class Thread:
    """One CUDA thread.

    Attributes:
        index: its index in its block.
        number: the same as one number, x fastest.
        meet: called with an operation's name and arguments where threads wait or give way; gives the result.
    """

    def __init__(self, block: Block, index: Dim, meet: Callable[[Thread, str, tuple[Any, ...]], Any]) -> None:
        self.block = block
        self.index = index
        self.meet = meet
        width, height, _ = block.shape
        self.number = index[0] + width * (index[1] + height * index[2])
        self._dims = {"threadIdx": index, "blockIdx": block.index, "blockDim": block.shape, "gridDim": block.grid}

    @property
    def lane(self) -> int:
        return self.number % WARP

    @property
    def warp(self) -> int:
        return self.number // WARP

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base, _, rest = name.partition(".")
        if base in self._dims:
            return self._dims[base]["xyz".index(rest)]
        if is_meeting(name) and name != "cg.this_grid":
            if base == "atomic":  # others may come between two attempts, or a lock would never be given up
                self.meet(self, name, ())
            else:
                return self.meet(self, name, (*args, *kwargs.values()))
        if base == "atomic":
            return update(rest, *args, **kwargs)
        if name == "shared.array":
            return self.block.shared_array(sys._getframe(2), *_shape_and_type(*args, **kwargs))
        if name == "local.array":
            return _make_array(*_shape_and_type(*args, **kwargs))
        function = FUNCTIONS.get(name) or getattr(self, f"_{base}", None)
        function = function or find_half_function(name) or find_libdevice_function(name)
        if name == "const.array_like":
            function = _constant
        if function is None:
            raise NotImplementedError(f"cuda.{name} does not run on the Python device")
        return function(*args, **kwargs)

    # names that depend on where the thread stands

    def _grid(self, ndim: int) -> Any:
        return self._axes(ndim, lambda axis: self.block.index[axis] * self.block.shape[axis] + self.index[axis])

    def _gridsize(self, ndim: int) -> Any:
        return self._axes(ndim, lambda axis: self.block.grid[axis] * self.block.shape[axis])

    def _axes(self, ndim: int, of: Callable[[int], int]) -> Any:
        values = tuple(of(axis) for axis in range(ndim))
        return values[0] if ndim == 1 else values

    def _laneid(self) -> int:
        return self.lane

    def _lanemask_lt(self) -> Any:
        return np.uint32((1 << self.lane) - 1)

    def _activemask(self) -> Any:
        return np.uint32(1 << self.lane)

    def _cg(self) -> Any:
        return grid_group

    def _clock(self) -> int:
        return time.perf_counter_ns()

    def _globaltimer(self) -> int:
        return time.time_ns()


def _constant(array: Any) -> Any:
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def _shape_and_type(shape: Any, dtype: Any, alignment: Any = None) -> tuple[Any, Any]:
    return shape, dtype
