# SPDX-License-Identifier: Apache-2.0
"""The types of signatures, under the names that numba-cuda programs import them by.

``cuda.types.Array(cuda.float32, 2, "C")`` is ``float32[:, ::1]``. The scalar types and ``void`` are names of ``cuda``
itself too: ``cuda.jit(cuda.void(cuda.float32[:]))``.
"""

from __future__ import annotations

from cudabuild.types import (
    Array,
    Boolean,
    CharSeq,
    Complex,
    Float,
    Integer,
    NoneType,
    Prototype,
    Record,
    Scalar,
    Tuple,
    Type,
    as_dtype,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    from_dtype,
    int8,
    int16,
    int32,
    int64,
    named,
    none,
    uint8,
    uint16,
    uint32,
    uint64,
)
from cudabuild.types.pointer import Pointer
from cudabuild.types.record import DateTime, TimeDelta

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [
    "Array",
    "Boolean",
    "CPointer",
    "CharSeq",
    "Complex",
    "DateTime",
    "EnumMember",
    "Float",
    "IntEnumMember",
    "Integer",
    "NPDatetime",
    "NPTimedelta",
    "NamedTuple",
    "NamedUniTuple",
    "NoneType",
    "Prototype",
    "Record",
    "Scalar",
    "TimeDelta",
    "Tuple",
    "Type",
    "UniTuple",
    "UnicodeCharSeq",
    "as_dtype",
    "b1",
    "bfloat16",
    "bool",
    "bool_",
    "boolean",
    "byte",
    "c8",
    "c16",
    "char",
    "complex64",
    "complex128",
    "complex_domain",
    "double",
    "f2",
    "f4",
    "f8",
    "float16",
    "float32",
    "float64",
    "from_dtype",
    "i1",
    "i2",
    "i4",
    "i8",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "intc",
    "integer_domain",
    "intp",
    "long_",
    "longlong",
    "none",
    "number_domain",
    "real_domain",
    "short",
    "signature",
    "signed_domain",
    "size_t",
    "ssize_t",
    "typeof",
    "u1",
    "u2",
    "u4",
    "u8",
    "uchar",
    "uint",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "uintc",
    "uintp",
    "ulong",
    "ulonglong",
    "unsigned_domain",
    "ushort",
    "void",
    "voidptr",
]  # fmt: skip

void = none
boolean = bool = b1 = bool_
byte = uchar = u1 = uint8
char = i1 = int8
short = i2 = int16
ushort = u2 = uint16
i4 = intc = int32
u4 = uintc = uint32
i8 = intp = int_ = long_ = longlong = ssize_t = int64
u8 = uintp = uint = ulong = ulonglong = size_t = uint64
f2 = float16
f4 = float32
f8 = double = float64
c8 = complex64
c16 = complex128
voidptr = uint64

signed_domain = frozenset((int8, int16, int32, int64))
unsigned_domain = frozenset((uint8, uint16, uint32, uint64))
integer_domain = signed_domain | unsigned_domain
real_domain = frozenset((float32, float64))
complex_domain = frozenset((complex64, complex128))
number_domain = integer_domain | real_domain | complex_domain

NPDatetime = DateTime
NPTimedelta = TimeDelta


CPointer = Pointer


class UniTuple(Tuple):
    """A tuple of ``count`` elements of one type; equal to the ``Tuple`` of the same elements."""

    __slots__ = ()

    def __init__(self, dtype: Type, count: int) -> None:
        super().__init__([dtype] * count)


def NamedTuple(types: Any, cls: Any) -> named.NamedTuple:
    """The type of a named tuple of class ``cls``, with fields of these types."""
    return named.NamedTuple(cls.__name__, cls._fields, types)


def NamedUniTuple(dtype: Type, count: int, cls: Any) -> named.NamedTuple:
    """The type of a named tuple of class ``cls``, with ``count`` fields of one type."""
    return NamedTuple([dtype] * count, cls)


def EnumMember(cls: Any, dtype: Any = None) -> named.EnumMember:
    """The type of the members of an ``enum.Enum`` class; what they stand for follows from the class."""
    return named.enum_type(cls)


IntEnumMember = EnumMember


def UnicodeCharSeq(count: int) -> CharSeq:
    """NumPy's ``U`` of ``count`` characters."""
    return CharSeq(count, True)


def signature(return_type: Type, *args: Type) -> Prototype:
    """``signature(int32, float32)`` is ``int32(float32)``."""
    return Prototype(args, return_type)


def typeof(value: Any, purpose: Any = None) -> Type:
    """The type that ``value`` has as an argument of a ``cuda.jit`` kernel.

    Raises:
        ValueError: a kernel takes no such argument.
    """
    jit = __import__("cudabuild.runtime.jit_dispatcher", fromlist=("",))  # by name: this package stands below it
    return jit.type_of_argument(value)  # type: ignore[no-any-return]
