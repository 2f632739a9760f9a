# SPDX-License-Identifier: Apache-2.0
"""Arrays in a device's memory, as programs hold them: created by ``cuda.to_device`` and ``cuda.device_array``.

Views share the memory of the array that they were taken from. What happens to elements happens in kernels; here they
are only brought in, brought back and filled.
"""

from __future__ import annotations

from cudabuild.runtime.arguments import is_contiguous
from cudabuild.runtime.configuration import stream_handle
from cudabuild.runtime.geometry import (
    can_broadcast,
    cannot_broadcast,
    gapless_strides,
    plan_moves,
    resolve_shape,
    take,
    transposed_axes,
)
from cudabuild.types import find_dtype

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from cudabuild.runtime.memory import GpuMemory, HostMemory

__all__ = ["CpuArray", "DeviceArray", "DevicePointer", "GpuArray", "make_array"]


class DevicePointer:
    """Memory of a device: what an array's ``gpu_data`` is.

    Attributes:
        device_pointer: the address.
        size: in bytes.
    """

    __slots__ = ("_owner", "device_pointer", "size")

    def __init__(self, device_pointer: int, size: int, owner: Any) -> None:
        self.device_pointer = device_pointer
        self.size = size
        self._owner = owner  # the memory lives as long as something points to it

    @property
    def device_pointer_value(self) -> int | None:
        """The address; None for 0."""
        return self.device_pointer or None

    @property
    def device_ctypes_pointer(self) -> Any:
        """The address as a ``ctypes.c_void_p``."""
        import ctypes

        return ctypes.c_void_p(self.device_pointer)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DevicePointer) and (self.device_pointer, self.size) == (
            other.device_pointer,
            other.size,
        )

    def __hash__(self) -> int:
        return hash((self.device_pointer, self.size))

    def __int__(self) -> int:
        return self.device_pointer


class DeviceArray:
    """An n-dimensional array in device memory.

    Attributes:
        shape, strides, dtype: as of a NumPy array; strides in bytes.
        pointer: the address of the first element.
        typestr: the element type as the array interfaces spell it; "" where elements are not aligned for it, as fields
            of a packed record may be, so that no launch takes them for others.
        c, f: whether it has no gaps, in C order and in Fortran order.
        readonly: whether it is another library's memory that must not be written.
        stream: the stream of its copies where they name none.
    """

    __slots__ = (
        "__weakref__", "_memory", "_owner", "c", "dtype", "f", "pointer", "readonly", "shape", "stream", "strides",
        "typestr",
    )  # fmt: skip
    #: NumPy's operators leave an expression with a device array to it, which has none, instead of reading elements.
    __array_ufunc__ = None

    def __init__(
        self,
        memory: GpuMemory | HostMemory,
        owner: Any,
        pointer: int,
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        dtype: Any,
        *,
        readonly: bool = False,
        stream: Any = 0,
    ) -> None:
        self._memory = memory
        self._owner = owner
        self.pointer = pointer
        self.shape = shape
        self.strides = strides
        self.dtype = dtype
        bits = pointer
        for extent, step in zip(shape, strides, strict=True):
            bits |= step if extent > 1 else 0
        record = find_dtype(dtype) if dtype.names else None
        alignment = dtype.alignment if record is None else record.alignment
        self.typestr: str = dtype.str if bits % alignment == 0 else ""
        self.readonly = readonly
        self.stream = stream
        pairs = list(zip(shape, strides, strict=True))
        self.c = is_contiguous(reversed(pairs), dtype.itemsize)
        self.f = is_contiguous(pairs, dtype.itemsize)

    # what it is

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        count = 1
        for extent in self.shape:
            count *= extent
        return count

    @property
    def itemsize(self) -> int:
        return int(self.dtype.itemsize)

    @property
    def nbytes(self) -> int:
        return self.size * self.itemsize

    @property
    def alloc_size(self) -> int:
        """The bytes from the first element to the end of the last."""
        if not self.size:
            return 0
        span = sum((extent - 1) * abs(step) for extent, step in zip(self.shape, self.strides, strict=True))
        return span + self.itemsize

    @property
    def gpu_data(self) -> DevicePointer:
        """Where the elements are, under numba-cuda's names."""
        return DevicePointer(self.pointer, self.alloc_size, self._owner)

    @property
    def device_ctypes_pointer(self) -> Any:
        """The address of the first element, as a ``ctypes.c_void_p``."""
        return self.gpu_data.device_ctypes_pointer

    @property
    def flags(self) -> dict[str, bool]:
        """Whether the elements lie in C order and in Fortran order, by NumPy's names of these flags."""
        return {"C_CONTIGUOUS": self.c, "F_CONTIGUOUS": self.f}

    @property
    def _numba_type_(self) -> Any:
        """Its type as an argument of a kernel."""
        from cudabuild.runtime.arguments import read_argument

        return read_argument(self).type

    def is_c_contiguous(self) -> bool:
        return self.c

    def is_f_contiguous(self) -> bool:
        return self.f

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __repr__(self) -> str:
        return f"<device array {self.shape} of {self.dtype}>"

    def _interface(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "shape": self.shape,
            "strides": None if self.c else self.strides,
            "data": (self.pointer if self.size else 0, self.readonly),
            "typestr": self.dtype.str,
            "version": 3,
        }
        if self.dtype.names:
            found["descr"] = self.dtype.descr
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if copy is False:
            raise ValueError("the elements are in device memory: an array of the host is a copy")
        host = self.copy_to_host()
        return host if dtype is None else host.astype(dtype)

    # views

    def _view(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: Any = None) -> DeviceArray:
        return type(self)(
            self._memory, self._owner, pointer, shape, strides, self.dtype if dtype is None else dtype,
            readonly=self.readonly, stream=self.stream,
        )  # fmt: skip

    def __getitem__(self, key: Any) -> Any:
        """A view; one element, as a NumPy scalar copied from the device, where every axis has an integer.

        One record stays on the device, as an array without axes; a text is the name of a field, as in NumPy.
        """
        return self.getitem(key)

    def getitem(self, key: Any, stream: Any = None) -> Any:
        """``array[key]``, with the stream of the copy of a single element."""
        if isinstance(key, str):
            field = self._field(key)
            return field if field.shape or field.dtype.names else field.copy_to_host(stream=stream)[()]
        offset, shape, strides = take(self.shape, self.strides, key)
        view = self._view(self.pointer + offset, shape, strides)
        if shape or self.dtype.names or (Ellipsis in key if isinstance(key, tuple) else key is Ellipsis):
            return view
        return view.copy_to_host(stream=stream)[()]

    def _field(self, name: str) -> DeviceArray:
        """The field of every record: a view with the same axes, and those of a sub-array behind them."""
        if not self.dtype.names or name not in self.dtype.names:
            raise ValueError(f"{self!r} has no field {name!r}")
        dtype, offset = self.dtype.fields[name][:2]
        shape: tuple[int, ...] = ()
        if dtype.subdtype is not None:
            dtype, shape = dtype.subdtype
        inner = gapless_strides(shape, dtype.itemsize, "C")
        return self._view(self.pointer + offset, (*self.shape, *shape), (*self.strides, *inner), dtype)

    def reshape(self, *shape: Any, order: str = "C") -> DeviceArray:
        """A view of another shape; only of an array without gaps in that order.

        Raises:
            ValueError: the elements do not fill the shape.
            NotImplementedError: the array has gaps or lies in the other order, so that a copy would be needed.
        """
        wanted = shape[0] if len(shape) == 1 and isinstance(shape[0], (tuple, list)) else shape
        full = resolve_shape([int(extent) for extent in wanted], self.size)
        if order == "A":  # as it lies
            order = "F" if self.f and not self.c else "C"
        if not (self.f if order == "F" else self.c):
            raise NotImplementedError(f"reshaping {self!r} with strides {self.strides} in order {order} needs a copy")
        return self._view(self.pointer, full, gapless_strides(full, self.itemsize, order))

    def ravel(self, order: str = "C") -> DeviceArray:
        """A view with one axis; see :meth:`reshape`."""
        return self.reshape(self.size, order=order)

    def transpose(self, axes: Sequence[int] | None = None) -> DeviceArray:
        """A view with its axes in another order; reversed by default."""
        order = transposed_axes(self.ndim, axes)
        return self._view(self.pointer, tuple(self.shape[a] for a in order), tuple(self.strides[a] for a in order))

    @property
    def T(self) -> DeviceArray:
        return self.transpose()

    def view(self, dtype: Any) -> DeviceArray:
        """The same bytes as another type; another size of element needs a last axis without gaps."""
        import numpy

        wanted = numpy.dtype(dtype)
        if wanted.itemsize == self.itemsize:
            return self._view(self.pointer, self.shape, self.strides, wanted)
        if not self.shape or (self.strides[-1] != self.itemsize and self.shape[-1] > 1):
            raise ValueError("To change to a dtype of a different size, the last axis must be contiguous")
        if (self.shape[-1] * self.itemsize if wanted.itemsize > self.itemsize else self.itemsize) % wanted.itemsize:
            size, what = "smaller", "the size of original dtype"
            if wanted.itemsize > self.itemsize:
                size, what = "larger", "the total size in bytes of the last axis of the array."
            raise ValueError(f"When changing to a {size} dtype, its size must be a divisor of {what}")
        extent = self.shape[-1] * self.itemsize // wanted.itemsize
        return self._view(self.pointer, (*self.shape[:-1], extent), (*self.strides[:-1], wanted.itemsize), wanted)

    def split(self, section: int, stream: Any = 0) -> Iterator[DeviceArray]:
        """Views of ``section`` elements each, the last of what is left; of an array with one axis.

        Raises:
            ValueError: the array has another number of axes.
        """
        if self.ndim != 1:
            raise ValueError(f"only an array with one axis is split into sections, not {self!r}")
        for begin in range(0, self.size, section):
            yield self[begin : begin + section]

    def bind(self, stream: Any = 0) -> DeviceArray:
        """The same array, with another stream for its copies."""
        view = self._view(self.pointer, self.shape, self.strides)
        view.stream = stream
        return view

    # elements

    def copy_to_host(self, ary: Any = None, stream: Any = None) -> Any:
        """The elements as a NumPy array.

        Args:
            ary: the array to fill, of the same shape and type; a new one by default.
            stream: where the copy is queued. With a stream other than the default one, and page-locked memory, the
                elements are there when the stream has been synchronised.
        """
        import numpy

        handle = self._stream(stream)
        if ary is None:
            host = numpy.empty(self.shape, self.dtype, order="F" if self.f and not self.c else "C")
        else:
            self._check(ary)
            if not ary.flags.writeable:
                raise ValueError("the array to fill is read-only")
            host = numpy.asarray(ary)  # of a numpy.void, an array over its memory
        self._move(True, _address(host), host.strides, False, self.pointer, self.strides, handle)
        if not handle:
            self._memory.synchronize_stream(handle)
        return host

    def copy_to_device(self, ary: Any, stream: Any = None) -> None:
        """Overwrites the elements with those of a NumPy or device array of the same shape and type."""
        self._check_writable()
        handle = self._stream(stream)
        if isinstance(ary, DeviceArray):
            self._check(ary)
            self._move(False, self.pointer, self.strides, False, ary.pointer, ary.strides, handle)
            return
        import numpy

        host = numpy.asarray(ary)
        self._check(host)
        self._move(False, self.pointer, self.strides, True, _address(host), host.strides, handle)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.setitem(key, value)

    def setitem(self, key: Any, value: Any, stream: Any = None) -> None:
        """``array[key] = value``: a number, or an array that broadcasts to the shape."""
        self._check_writable()
        if isinstance(key, str):
            self._field(key).setitem((), value, stream)
            return
        offset, shape, strides = take(self.shape, self.strides, key)
        view = self._view(self.pointer + offset, shape, strides)
        if isinstance(value, DeviceArray):
            if value.dtype != self.dtype:
                raise TypeError(f"elements of {value.dtype} cannot be put into {self!r}: convert them in a kernel")
            view.copy_to_device(value.broadcast_to(shape), stream)
            return
        import numpy

        given = numpy.asarray(value).astype(self.dtype, copy=False)
        if given.size == 1 and (view.c or view.f) and given.ndim <= len(shape) and view._fill(given, stream):
            return
        while given.ndim > len(shape) and given.shape[0] == 1:
            given = given[0]
        if not can_broadcast(given.shape, shape):
            raise ValueError(cannot_broadcast(given.shape, shape))
        view.copy_to_device(numpy.array(numpy.broadcast_to(given, shape), order="C"), stream)

    def _fill(self, value: Any, stream: Any) -> bool:
        """Fills by the device's own means where the element allows it."""
        data = value.tobytes()
        width = 1 if data.count(data[0]) == len(data) else len(data)
        if width not in (1, 2, 4):
            return False
        if self.nbytes:
            number = int.from_bytes(data[:width], "little")
            self._memory.fill(self.pointer, number, width, self.nbytes // width, self._stream(stream))
        return True

    def broadcast_to(self, shape: tuple[int, ...]) -> DeviceArray:
        """A view of a larger shape, by NumPy's rule: axes of one element repeat it.

        Raises:
            ValueError: the shapes do not go together.
        """
        added = len(shape) - self.ndim
        own = ((1,) * added + self.shape, (0,) * added + self.strides)
        if not can_broadcast(self.shape, shape):
            raise ValueError(cannot_broadcast(self.shape, shape))
        strides = tuple(0 if have != want else step for have, step, want in zip(*own, shape, strict=True))
        return self._view(self.pointer, shape, strides)

    def _move(
        self, to_host: bool, target: int, target_strides: Sequence[int], from_host: bool, source: int,
        source_strides: Sequence[int], stream: int,
    ) -> None:  # fmt: skip
        memory = self._memory
        for move in plan_moves(self.shape, target_strides, source_strides, self.itemsize):
            to = (to_host, target + move.target, move.target_step)
            out = (from_host, source + move.source, move.source_step)
            if move.rows == 1:
                memory.copy(to, out, move.width, stream)
            else:
                memory.copy_rows(to, out, move.width, move.rows, stream)

    def _stream(self, stream: Any) -> int:
        return stream_handle(self.stream if stream is None else stream)

    def _check(self, other: Any) -> None:
        if other.dtype != self.dtype:
            raise TypeError(f"incompatible dtype: {self.dtype} vs. {other.dtype}")
        if other.shape != self.shape:
            raise ValueError(f"incompatible shape: {self.shape} vs. {other.shape}")

    def _check_writable(self) -> None:
        if self.readonly:
            raise ValueError("assignment destination is read-only")


class GpuArray(DeviceArray):
    """A device array in GPU memory."""

    __slots__ = ()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        found = self._interface()
        handle = stream_handle(self.stream)
        found["stream"] = handle or None
        return found


class CpuArray(DeviceArray):
    """A device array of the CPU device: in host memory, which kernels use in place."""

    __slots__ = ()

    @property
    def __array_interface__(self) -> dict[str, Any]:
        return self._interface()  # of an empty array the address is 0: NumPy then takes memory of its own


def make_array(
    memory: GpuMemory | HostMemory, shape: Any, dtype: Any, strides: Any = None, order: str = "C", stream: Any = 0
) -> DeviceArray:
    """A new array in device memory; its elements are whatever was there.

    Args:
        memory: the device's.
        shape: an integer, or a tuple, list or array of them.
        dtype: whatever NumPy takes.
        strides: in bytes, 0 or more; by default without gaps in ``order``.
        order: ``C`` or ``F``.
        stream: see :class:`DeviceArray`.
    """
    from operator import index

    import numpy

    element = numpy.dtype(dtype)
    several = isinstance(shape, (tuple, list)) or getattr(shape, "ndim", 0) > 0
    full = tuple(map(index, shape if several else (shape,)))
    if any(extent < 0 for extent in full):
        raise ValueError(f"negative extents in the shape {full}")
    if element.hasobject:
        raise TypeError("Python objects cannot live in device memory")
    steps = gapless_strides(full, element.itemsize, order) if strides is None else tuple(map(int, strides))
    if len(steps) != len(full) or any(step < 0 for step in steps):
        raise ValueError(f"strides {steps} for the shape {full}: one for each axis is needed, 0 or more")
    span = element.itemsize + sum((extent - 1) * step for extent, step in zip(full, steps, strict=True))
    owner = memory.allocate(0 if 0 in full else span)
    kind = GpuArray if memory.kind == "gpu" else CpuArray
    return kind(memory, owner, owner.pointer, full, steps, element, stream=stream)


def _address(host: Any) -> int:
    return int(host.__array_interface__["data"][0])
