# SPDX-License-Identifier: Apache-2.0
"""Arguments to the parameter block of a launch on the CPU device.

Arrays are handed over in place: the kernel reads and writes the caller's own memory. The one exception is an array
whose elements are not aligned, which travels as a copy and is written back. Everything is checked here, because a wrong
pointer would not fail but corrupt this process.
"""

from __future__ import annotations

import ctypes
import enum
import math
import struct
from typing import TYPE_CHECKING, Any

from cudabuild.cpu.store import INDEX_WIDTH
from cudabuild.errors import LaunchError
from cudabuild.types import (
    Array,
    Boolean,
    BrainFloat,
    Complex,
    DateTime,
    Float,
    Integer,
    NoneType,
    Record,
    Scalar,
    TimeDelta,
    Tuple,
    TypeArgument,
    as_dtype,
    from_dtype,
    shared_array,
)
from cudabuild.types.brain import brain_bits
from cudabuild.types.layout import block_size, check_extents, parameter_fields
from cudabuild.types.named import EnumMember, enum_type, member_number

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.types import Signature, Type

__all__ = ["Packed", "Packer"]


class Packed:
    """The parameter block of one launch, and what must outlive the launch.

    Attributes:
        data: the block's bytes.
        arrays: the arrays that the block points into.
        copies: (the caller's array, the copy that the kernel works on), to be written back.
    """

    __slots__ = ("arrays", "copies", "data")

    def __init__(self) -> None:
        self.data = b""
        self.arrays: list[Any] = []
        self.copies: list[tuple[Any, Any]] = []

    def write_back(self) -> None:
        """Called after the launch."""
        for original, copy in self.copies:
            original[...] = copy


class Packer:
    """Packs the arguments of one overload.

    Args:
        name: the kernel's name, for messages.
        names: its parameters' names.
        signature: their types.
        written: indices of the parameters through whose arrays the kernel may write.
    """

    def __init__(self, name: str, names: Sequence[str], signature: Signature, written: frozenset[int]) -> None:
        fields = parameter_fields(signature, INDEX_WIDTH)
        layout, end = "=", 0
        for field in fields:
            layout += f"{field.offset - end}x{field.format.replace('P', 'Q')}"
            end = field.offset + field.size
        assert end == block_size(fields)
        self._struct = struct.Struct(layout)
        self._name = name
        self._readers = [
            _reader(kind, f"argument {n!r} of {name}", index in written)
            for index, (kind, n) in enumerate(zip(signature, names, strict=True))
        ]

    def pack(self, args: Sequence[Any]) -> Packed:
        """The parameter block for ``args``.

        Raises:
            LaunchError: an argument does not fit its type; says which, what was found and what was expected.
        """
        if len(args) != len(self._readers):
            raise LaunchError(f"{self._name} takes {len(self._readers)} arguments\n  found:    {len(args)}")
        packed = Packed()
        values: list[Any] = []
        for read, arg in zip(self._readers, args, strict=True):
            read(arg, values, packed)
        packed.data = self._struct.pack(*values)
        return packed


def _reader(kind: Type, where: str, written: bool) -> Callable[[Any, list[Any], Packed], None]:
    """What appends the values of one argument's fields."""
    if isinstance(kind, Array):
        return _array_reader(kind, where, written)
    if isinstance(kind, Tuple):
        return _tuple_reader(kind, where, written)
    if isinstance(kind, TypeArgument):
        return _type_reader(kind, where)
    if isinstance(kind, NoneType):
        return _none_reader(where)
    assert isinstance(kind, Scalar)
    return _scalar_reader(kind, where)


def _tuple_reader(kind: Tuple, where: str, written: bool) -> Callable[[Any, list[Any], Packed], None]:
    readers = [_reader(element, f"element {index} of {where}", written) for index, element in enumerate(kind.elements)]

    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        if not isinstance(arg, (tuple, list)) or len(arg) != len(readers):
            raise _mismatch(where, _describe(arg), f"a tuple of {len(readers)} elements")
        for element, item in zip(readers, arg, strict=True):
            element(item, values, packed)

    return read


def _none_reader(where: str) -> Callable[[Any, list[Any], Packed], None]:
    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        if arg is not None:
            raise _mismatch(where, _describe(arg), "None")

    return read


def _type_reader(kind: TypeArgument, where: str) -> Callable[[Any, list[Any], Packed], None]:
    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        if (arg if isinstance(arg, Scalar) else from_dtype(arg)) != kind.dtype:
            raise _mismatch(where, repr(arg), kind.dtype.name)

    return read


def _member(kind: EnumMember) -> Callable[[Any], int]:
    def convert(arg: Any) -> int:
        if not isinstance(arg, enum.Enum) or enum_type(type(arg)) != kind:
            raise TypeError
        return member_number(arg)

    return convert


def _scalar_reader(kind: Scalar, where: str) -> Callable[[Any, list[Any], Packed], None]:
    if isinstance(kind, Complex):
        return _complex_reader(kind, where)
    if isinstance(kind, Boolean):
        convert: Callable[[Any], Any] = _truth
    elif isinstance(kind, (DateTime, TimeDelta)):
        convert = _time(kind)
    elif isinstance(kind, EnumMember):
        convert = _member(kind)
    else:
        convert = _integer(kind) if isinstance(kind, Integer) else _floating(kind)

    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        try:
            values.append(convert(arg))
        except (TypeError, ValueError):
            raise _mismatch(where, _describe(arg), kind.name) from None

    return read


def _time(kind: Scalar) -> Callable[[Any], int]:
    dtype = as_dtype(kind)

    def convert(arg: Any) -> int:
        if getattr(arg, "dtype", None) != dtype or arg.shape != ():
            raise TypeError
        return int(arg.view("int64"))

    return convert


def _complex_reader(kind: Complex, where: str) -> Callable[[Any, list[Any], Packed], None]:
    convert = _floating(kind.part)

    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        try:
            values += [convert(arg.real), convert(arg.imag)]
        except (AttributeError, TypeError, ValueError):
            raise _mismatch(where, _describe(arg), kind.name) from None

    return read


def _truth(arg: Any) -> bool:
    if getattr(arg, "shape", ()) != ():
        raise TypeError
    return bool(arg)


def _integer(kind: Integer) -> Callable[[Any], int]:
    low, high = (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.signed else (0, (1 << kind.bits) - 1)

    def convert(arg: Any) -> int:
        index = getattr(type(arg), "__index__", None)
        number = int(arg) if index is None and _is_numpy_bool(arg) else int(index(arg)) if index else None
        if number is None or not low <= number <= high:
            raise ValueError
        return number

    return convert


def _is_numpy_bool(arg: Any) -> bool:
    return getattr(getattr(arg, "dtype", None), "kind", "") == "b" and arg.shape == ()


def _floating(kind: Scalar) -> Callable[[Any], float]:
    assert isinstance(kind, Float)
    if isinstance(kind, BrainFloat):
        return _brain
    code = {16: "=e", 32: "=f", 64: "=d"}[kind.bits]

    def convert(arg: Any) -> float:
        if isinstance(arg, (str, bytes)) or getattr(arg, "shape", ()) != ():
            raise TypeError
        try:
            number = float(arg)
            struct.pack(code, number)
        except OverflowError:  # beyond the type's largest finite number, which a conversion rounds to infinity
            return math.inf if arg > 0 else -math.inf
        return number

    return convert


def _brain(arg: Any) -> int:
    if isinstance(arg, (str, bytes)) or getattr(arg, "shape", ()) != ():
        raise TypeError
    return brain_bits(arg)


def _array_reader(kind: Array, where: str, written: bool) -> Callable[[Any, list[Any], Packed], None]:
    import numpy

    addressof = ctypes.addressof
    first_byte: Callable[[Any], ctypes.c_char] = ctypes.c_char.from_buffer
    dtype = as_dtype(kind.dtype)
    ndim, layout = kind.ndim, kind.layout
    record = isinstance(kind.dtype, Record)
    shared = dtype.kind in "biufc"  # what the buffer protocol knows: four times as fast as the array interface

    def read(arg: Any, values: list[Any], packed: Packed) -> None:
        array = arg if type(arg) is numpy.ndarray else _as_array(numpy, arg, where, kind)
        flags = array.flags
        if array.dtype != dtype or array.ndim != ndim:
            raise _mismatch(where, _describe(array), kind.name)
        if layout != "A" and not (flags.c_contiguous if layout == "C" else flags.f_contiguous):
            order = "C" if layout == "C" else "Fortran"
            raise _mismatch(where, f"{_describe(array)} with strides {array.strides}", f"{kind.name}: {order} order")
        if written and not flags.writeable:
            raise _mismatch(where, f"{_describe(array)}, read-only", "an array that the kernel can write, as it does")
        if not flags.aligned or (record and not _is_aligned(array, kind.alignment)):
            array = _aligned_copy(array, written, packed)
        packed.arrays.append(array)
        shape = array.shape
        check_extents(shape)
        if shared and flags.c_contiguous and flags.writeable and array.size:
            values.append(addressof(first_byte(array)))
        else:
            values.append(array.__array_interface__["data"][0])
        values.extend(shape)
        if layout == "A":
            values.extend(step if size > 1 else 0 for size, step in zip(shape, array.strides, strict=True))

    return read


def _is_aligned(array: Any, alignment: int) -> bool:
    """Whether every element is: NumPy tells only of types made with ``align=True``."""
    bits: int = array.__array_interface__["data"][0]
    for size, step in zip(array.shape, array.strides, strict=True):
        bits |= step if size > 1 else 0
    return bits % alignment == 0


def _as_array(numpy: Any, arg: Any, where: str, kind: Array) -> Any:
    """The NumPy array that shares ``arg``'s memory."""
    if isinstance(arg, numpy.ndarray) or hasattr(arg, "__array_interface__"):
        return shared_array(arg)
    if hasattr(arg, "__dlpack__") and getattr(arg, "__dlpack_device__", lambda: (0, 0))()[0] == 1:  # kDLCPU
        return numpy.from_dlpack(arg)
    if hasattr(arg, "__cuda_array_interface__"):
        raise _mismatch(where, f"{_describe(arg)}, in GPU memory", f"{kind.name} in host memory, on the CPU device")
    raise _mismatch(where, _describe(arg), kind.name)


def _aligned_copy(array: Any, written: bool, packed: Packed) -> Any:
    copy = array.copy(order="K")
    if written:
        packed.copies.append((array, copy))
    return copy


def _mismatch(where: str, found: str, expected: str) -> LaunchError:
    return LaunchError(f"{where} does not fit\n  found:    {found}\n  expected: {expected}")


def _describe(arg: Any) -> str:
    dtype, ndim = getattr(arg, "dtype", None), getattr(arg, "ndim", 0)
    if dtype is not None:
        return f"a {ndim}-d array of {dtype}" if ndim else f"{dtype} {arg}"
    text = repr(arg)
    kind = f"{type(arg).__name__}"
    return f"{kind} {text}" if len(text) <= 40 else f"a value of type {kind}"
