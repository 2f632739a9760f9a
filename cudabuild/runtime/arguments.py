# SPDX-License-Identifier: Apache-2.0
"""Reads a launch's arguments, completely: the careful twin of the launchers that ``marshal.py`` generates.

``read_argument(value)`` finds the reader for the value's Python type and returns an :class:`Argument`: its type in the
kernel language and, for an array, pointer, shape, byte strides. Every launch that the generated code does not
recognise passes here, so this is where all messages about arguments come from.
"""

from __future__ import annotations

import sys

from cudabuild.errors import LaunchError
from cudabuild.types import (
    Array,
    CharSeq,
    DateTime,
    Record,
    Scalar,
    TimeDelta,
    Tuple,
    TypeArgument,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    find_dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    none,
    scalar_by_name,
    shared_array,
    uint8,
    uint16,
    uint32,
    uint64,
    weak_complex,
    weak_float,
    weak_int,
)
from cudabuild.types.layout import check_extents
from cudabuild.types.named import NamedTuple, enum_type, member_number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from cudabuild.types import Type

__all__ = ["Argument", "dtype_of_fields", "find_reader", "is_contiguous", "read_argument", "typestr_of"]


class Argument:
    """One argument as read.

    Attributes:
        type: its natural type: what a kernel without signatures is compiled for.
        reader: ``scalar``, ``tuple``, ``none``, ``enum``, ``device``, ``interface``, ``torch``, ``cupy`` or ``host``.
        value: the scalar, the tuple of element Arguments, or the array object.
        pointer, shape, strides: of an array; strides in bytes, always given; the pointer of a host array is its own.
        c, f: whether the elements lie in C and in Fortran order.
        readonly: an array that must not be written.
        stream: the stream that an array's producer named (``__cuda_array_interface__``), or None.
    """

    __slots__ = ("c", "f", "pointer", "reader", "readonly", "shape", "stream", "strides", "type", "value")

    def __init__(self, reader: str, value: Any, type: Type) -> None:
        self.reader = reader
        self.value = value
        self.type = type
        self.pointer = 0
        self.shape: tuple[int, ...] = ()
        self.strides: tuple[int, ...] = ()
        self.c = self.f = True
        self.readonly = False
        self.stream: int | None = None


def typestr_of(scalar: Scalar) -> str:
    """The array interfaces' spelling of an element type: ``<f4``; of a bfloat16 the one that ml_dtypes gives."""
    if scalar == bfloat16:
        return "<V2"
    if isinstance(scalar, (Record, CharSeq, DateTime, TimeDelta)):
        return str(as_dtype(scalar).str)
    return f"{'|' if scalar.size == 1 else '<'}{scalar.name[0]}{scalar.size}"


_ELEMENTS = (
    bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64,
    complex64, complex128,
)  # fmt: skip
#: typestr -> element type; a byte order on a single byte says nothing.
_TYPESTRS: dict[str, Scalar] = {typestr_of(scalar): scalar for scalar in _ELEMENTS}
_TYPESTRS.update({f"<{text[1:]}": scalar for text, scalar in _TYPESTRS.items() if text[0] == "|"})


def is_contiguous(extents: Iterable[tuple[int, int]], itemsize: int) -> bool:
    """Whether (extent, byte stride) pairs, innermost axis first, leave no gap; an empty array has none."""
    pairs = list(extents)
    if any(extent == 0 for extent, _ in pairs):
        return True
    expected = itemsize
    for extent, stride in pairs:
        if extent != 1:
            if stride != expected:
                return False
            expected *= extent
    return True


def read_argument(value: Any) -> Argument:
    """Reads one argument.

    Raises:
        LaunchError: nothing that a kernel can take; says what was found and what to pass instead.
    """
    return _READERS[find_reader(value)](value)


def find_reader(value: Any) -> str:
    """Which reader takes ``value``; ``unknown`` if none does."""
    kind = type(value)
    if kind is float or kind is int or kind is bool or kind is complex:
        return "scalar"
    if value is None:
        return "none"
    if isinstance(value, Scalar):
        return "type"
    loaded = sys.modules.get
    enum = loaded("enum")
    if enum is not None and isinstance(value, enum.Enum):
        return "enum"
    own = loaded("cudabuild.runtime.device_array")
    if own is not None and isinstance(value, own.GpuArray):
        return "device"
    torch = loaded("torch")
    if torch is not None and isinstance(value, getattr(torch, "Tensor", ())):
        return "torch"
    cupy = loaded("cupy")
    if cupy is not None and isinstance(value, getattr(cupy, "ndarray", ())):
        return "cupy"
    numpy = loaded("numpy")
    if numpy is not None and (
        isinstance(value, numpy.dtype) or (isinstance(value, type) and issubclass(value, numpy.generic))
    ):
        return "type"
    if numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)):
        if isinstance(value, numpy.generic):
            return "record" if isinstance(value, numpy.void) else "scalar"
        # Page-locked memory that the GPU reads in place (runtime/mapped.py).
        return "interface" if kind is not numpy.ndarray and hasattr(value, "__cuda_array_interface__") else "host"
    if isinstance(value, (float, int, complex)):
        return "scalar"
    if isinstance(value, tuple):
        return "tuple"
    if hasattr(value, "__cuda_array_interface__"):
        return "interface"
    return "array" if hasattr(value, "__array_interface__") else "unknown"


def _read_scalar(value: Any) -> Argument:
    dtype = getattr(value, "dtype", None)
    if dtype is not None:
        scalar = _TYPESTRS.get(dtype.str) or find_dtype(dtype)
        if scalar is None or isinstance(scalar, CharSeq):
            raise LaunchError(_bad_dtype("a scalar", str(dtype)))
        return Argument("scalar", value, scalar)
    if isinstance(value, bool):
        return Argument("scalar", value, bool_)
    if isinstance(value, complex):
        return Argument("scalar", value, weak_complex)
    return Argument("scalar", value, weak_float if isinstance(value, float) else weak_int)


def _read_tuple(value: Any) -> Argument:
    elements = tuple(read_argument(element) for element in value)
    fields = getattr(type(value), "_fields", None)
    kinds = [element.type for element in elements]
    if isinstance(fields, tuple):
        return Argument("tuple", elements, NamedTuple(type(value).__name__, fields, kinds))
    return Argument("tuple", elements, Tuple(kinds))


def _read_record(value: Any) -> Argument:
    """A ``numpy.void``: an array without axes over the memory of the array that it is from.

    One that was unpickled has memory of its own, which nothing can write, not even NumPy.
    """
    import numpy

    return _read_host(numpy.asarray(value))


def _read_none(value: Any) -> Argument:
    return Argument("none", value, none)


def _read_type(value: Any) -> Argument:
    """A type of elements: NumPy's or one of this package."""
    if isinstance(value, Scalar):
        return Argument("type", value, TypeArgument(value))
    import numpy

    dtype = numpy.dtype(value)
    scalar = _TYPESTRS.get(dtype.str) or find_dtype(dtype)
    if scalar is None:
        raise LaunchError(_bad_dtype("a type", str(dtype)))
    return Argument("type", value, TypeArgument(scalar))


def _read_enum(value: Any) -> Argument:
    """A member as its integer, or as its position in the class; what is no member of the list is its number."""
    cls = type(value)
    if value.name not in cls.__members__:
        return Argument("scalar", int(value), weak_int)
    return Argument("enum", member_number(value), enum_type(cls))


def _array(
    reader: str,
    value: Any,
    typestr: str,
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...] | None,
    readonly: bool,
    dtype: Any = None,
) -> Argument:
    scalar = _TYPESTRS.get(typestr) or _find_element(typestr, dtype)
    if scalar is None:
        raise LaunchError(_bad_dtype("an array", typestr if dtype is None else str(dtype)))
    check_extents(shape)
    itemsize = scalar.size
    if strides is None:
        strides = ()
        step = itemsize
        for extent in reversed(shape):
            strides = (step, *strides)
            step *= extent
    pairs = list(zip(shape, strides, strict=True))
    c = is_contiguous(reversed(pairs), itemsize)
    f = is_contiguous(pairs, itemsize)
    layout = "C" if c else "F" if f else "A"
    argument = Argument(reader, value, Array(scalar, len(shape), layout, readonly))
    argument.pointer, argument.shape, argument.strides = pointer, shape, strides
    argument.c, argument.f, argument.readonly = c, f, readonly
    return argument


def _find_element(typestr: str, dtype: Any) -> Scalar | None:
    """The type of elements that are no numbers; ``dtype`` is what an array says itself, if it says anything."""
    if dtype is None:
        import numpy

        try:
            dtype = numpy.dtype(typestr)
        except TypeError:
            return None
    return find_dtype(dtype)


def dtype_of_fields(interface: Any) -> Any:
    """The dtype that an interface spells field by field, or None."""
    descr = interface.get("descr")
    if not descr or not interface["typestr"].lstrip("|<>").startswith("V"):
        return None
    from numpy.lib.format import descr_to_dtype

    return descr_to_dtype(descr)


def _read_interface(value: Any) -> Argument:
    interface = value.__cuda_array_interface__
    where = f"the __cuda_array_interface__ of a {type(value).__name__}"
    if not isinstance(interface, dict):
        raise LaunchError(f"{where} is a {type(interface).__name__}\n  expected: a dict with shape, typestr and data")
    missing = [key for key in ("shape", "typestr", "data") if key not in interface]
    if missing:
        raise LaunchError(f"{where} lacks {', '.join(map(repr, missing))}")
    if interface.get("mask") is not None:
        raise LaunchError(f"{where} has a mask\n  do:       pass the data and the mask as two arrays")
    pointer, readonly = interface["data"]
    shape = tuple(map(int, interface["shape"]))
    strides = interface.get("strides")
    strides = None if strides is None else tuple(map(int, strides))
    argument = _array(
        "interface", value, interface["typestr"], int(pointer or 0), shape, strides, bool(readonly),
        dtype_of_fields(interface),
    )  # fmt: skip
    argument.stream = interface.get("stream")
    return argument


def _read_device(value: Any) -> Argument:
    if not value.typestr:
        raise LaunchError(
            f"a device array of {value.dtype} whose elements are not aligned\n  found:    address {value.pointer:#x}, "
            f"strides {value.strides}\n  expected: multiples of the alignment of its type\n"
            "  do:       make the record's type with numpy.dtype(…, align=True), or pass the whole records"
        )
    return _array(
        "device", value, value.typestr, value.pointer, value.shape, value.strides, value.readonly, value.dtype
    )


def _read_torch(value: Any) -> Argument:
    if not value.is_cuda:
        raise LaunchError(
            f"a torch tensor on {value.device} is not in GPU memory\n  do:       pass tensor.cuda(), or tensor.numpy() "
            "to have it copied to the GPU and back"
        )
    name = str(value.dtype).removeprefix("torch.")
    scalar = scalar_by_name(name)
    if scalar is None:
        raise LaunchError(_bad_dtype("a tensor", name))
    strides = tuple(step * scalar.size for step in value.stride())
    # A tensor that tracks gradients can be read by a kernel but not written behind autograd's back.
    readonly = bool(value.requires_grad)
    if value.is_neg():
        raise LaunchError("a lazily negated torch tensor\n  do:       pass tensor.resolve_neg()")
    return _array("torch", value, typestr_of(scalar), value.data_ptr(), tuple(value.shape), strides, readonly)


def _read_cupy(value: Any) -> Argument:
    argument = _array("cupy", value, value.dtype.str, value.data.ptr, value.shape, value.strides, False, value.dtype)
    argument.stream = value.__cuda_array_interface__.get("stream")
    return argument


def _read_host(value: Any) -> Argument:
    masked = sys.modules.get("numpy.ma")
    if masked is not None and isinstance(value, masked.MaskedArray):
        raise LaunchError("a masked array\n  do:       pass array.data and array.mask as two arrays")
    pointer = value.__array_interface__["data"][0]
    readonly = not value.flags.writeable
    return _array("host", value, value.dtype.str, pointer, value.shape, value.strides, readonly, value.dtype)


def _read_array(value: Any) -> Argument:
    """An array in host memory that is not NumPy's own: read through the NumPy array that shares its memory."""
    return _read_host(shared_array(value))


def _read_unknown(value: Any) -> Argument:
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    hint = "pass numpy.asarray(…) of it" if hasattr(value, "__array__") or isinstance(value, list) else ""
    lines = [
        f"a value of type {name}",
        "  expected: a number, a tuple, a NumPy, CuPy or torch array, or an object with __cuda_array_interface__",
    ]
    raise LaunchError("\n".join([*lines, f"  do:       {hint}"] if hint else lines))


def _bad_dtype(what: str, found: str) -> str:
    names = ", ".join(scalar.name for scalar in _ELEMENTS)
    return f"{what} of dtype {found}\n  expected: one of {names}, in the machine's byte order"


_READERS = {
    "scalar": _read_scalar,
    "none": _read_none,
    "type": _read_type,
    "enum": _read_enum,
    "tuple": _read_tuple,
    "record": _read_record,
    "device": _read_device,
    "interface": _read_interface,
    "torch": _read_torch,
    "cupy": _read_cupy,
    "host": _read_host,
    "array": _read_array,
    "unknown": _read_unknown,
}
