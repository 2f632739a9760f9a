# SPDX-License-Identifier: Apache-2.0
"""The parameter block of a kernel: the one function that code generation and launching both lay it out by.

Every argument becomes one or more fields, in order, each at its natural alignment (as ``cuLaunchKernel`` copies them):

* a complex number: its real and its imaginary part;
* any other scalar: itself; ``bool`` is one byte; a bfloat16 is passed as its bits; a weak ``int`` is an int32 in the
  32-bit variant (the launch uses that variant only when the value fits) and an int64 in the 64-bit one; a weak
  ``float`` is a float64;
* an array: its data pointer, one extent per axis and, for layout A only, one *byte* stride per axis; extents and
strides
  are int32 in the 32-bit variant, int64 in the 64-bit one. A stride of an axis of extent 0 or 1 is passed as 0;
* a tuple: the fields of its elements; None: nothing; a member of an enum: an int64.

A kernel compiled with ``debug=True`` takes one more field after its arguments, the address of a fault record
(``faults.py``): ``argument`` −1, ``part`` ``"fault"``.

The 32-bit variant serves a launch when for every array each extent, the element count and, for layout A, the byte
span Σ(extent − 1)·|stride| are below 2³¹, every weak int fits an int32, and grid × block is below 2³¹ on every axis.
"""

from __future__ import annotations

from cudabuild.errors import LaunchError
from cudabuild.types.named import EnumMember
from cudabuild.types.pointer import Pointer
from cudabuild.types.record import DateTime, TimeDelta
from cudabuild.types.type import Array, Boolean, BrainFloat, Complex, Float, NoneType, Scalar, Tuple, Type, WeakInteger

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from cudabuild.types.signature import Signature

__all__ = ["LARGEST_EXTENT", "Field", "block_size", "check_extents", "parameter_fields"]

#: The largest extent of an array argument, in elements; a launch refuses more. No memory holds an array that long (an
#: empty one can have such a shape), and the compiler may rely on sums of an extent and a thread index not to overflow.
LARGEST_EXTENT = (1 << 56) - 1


class Field:
    """One field of the parameter block.

    Attributes:
        argument: index of the argument it belongs to; -1 for the fault record.
        path: element indices inside nested tuples, outermost first; ``()`` outside tuples.
        part: ``value``, ``real``, ``imag``, ``data``, ``shape``, ``stride`` or ``fault``.
        axis: for shape and stride; else 0.
        format: ``struct`` format character: ``?bBhHiIqQefd``, ``P`` for a pointer.
        size, offset: in bytes.
    """

    __slots__ = ("argument", "axis", "format", "offset", "part", "path", "size")

    def __init__(self, argument: int, path: tuple[int, ...], part: str, axis: int, format: str, size: int) -> None:
        self.argument = argument
        self.path = path
        self.part = part
        self.axis = axis
        self.format = format
        self.size = size
        self.offset = 0

    def __repr__(self) -> str:
        where = f"{self.argument}{''.join(f'[{i}]' for i in self.path)}.{self.part}{self.axis or ''}"
        return f"<{where} {self.format}@{self.offset}>"


_INTEGER_FORMATS = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q",
    "uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q",
}  # fmt: skip
_FLOAT_FORMATS = {16: "e", 32: "f", 64: "d"}


def parameter_fields(signature: Signature, index_width: int, *, fault: bool = False) -> list[Field]:
    """The fields of the parameter block, with offsets.

    Args:
        signature: the argument types.
        index_width: 32 or 64.
        fault: whether the block ends with the address of a fault record.
    """
    fields: list[Field] = []
    for argument, kind in enumerate(signature):
        _append(fields, argument, (), kind, index_width)
    if fault:
        fields.append(Field(-1, (), "fault", 0, "P", 8))
    offset = 0
    for field in fields:
        offset = -(-offset // field.size) * field.size
        field.offset = offset
        offset += field.size
    return fields


def check_extents(shape: Iterable[int]) -> None:
    """Raises LaunchError for an extent above ``LARGEST_EXTENT``."""
    for axis, extent in enumerate(shape):
        if extent > LARGEST_EXTENT:
            raise LaunchError(
                f"an array with too large an extent\n  found:    {extent} elements along axis {axis}\n"
                f"  expected: at most {LARGEST_EXTENT}, more than any memory holds\n"
                "  do:       give empty arrays a sensible shape"
            )


def block_size(fields: list[Field]) -> int:
    """The size of the parameter block in bytes; 0 for none."""
    return fields[-1].offset + fields[-1].size if fields else 0


def _append(fields: list[Field], argument: int, path: tuple[int, ...], kind: Type, width: int) -> None:
    index_format, index_size = ("i", 4) if width == 32 else ("q", 8)
    if isinstance(kind, Array):
        fields.append(Field(argument, path, "data", 0, "P", 8))
        parts = ("shape", "stride") if kind.layout == "A" else ("shape",)
        for part in parts:
            fields.extend(Field(argument, path, part, axis, index_format, index_size) for axis in range(kind.ndim))
    elif isinstance(kind, Tuple):
        for index, element in enumerate(kind.elements):
            _append(fields, argument, (*path, index), element, width)
    elif isinstance(kind, NoneType):  # there is one None
        pass
    elif isinstance(kind, Pointer):
        fields.append(Field(argument, path, "value", 0, "Q", 8))
    elif isinstance(kind, EnumMember):
        fields.append(Field(argument, path, "value", 0, "q", 8))
    elif isinstance(kind, WeakInteger):
        fields.append(Field(argument, path, "value", 0, index_format, index_size))
    elif isinstance(kind, Boolean):
        fields.append(Field(argument, path, "value", 0, "?", 1))
    elif isinstance(kind, BrainFloat):
        fields.append(Field(argument, path, "value", 0, "H", kind.size))
    elif isinstance(kind, Float):
        fields.append(Field(argument, path, "value", 0, _FLOAT_FORMATS[kind.bits], kind.size))
    elif isinstance(kind, Complex):
        letter, size = _FLOAT_FORMATS[kind.part.bits], kind.part.size
        fields += [Field(argument, path, part, 0, letter, size) for part in ("real", "imag")]
    elif isinstance(kind, (DateTime, TimeDelta)):
        fields.append(Field(argument, path, "value", 0, "q", kind.size))
    elif isinstance(kind, Scalar):
        fields.append(Field(argument, path, "value", 0, _INTEGER_FORMATS[kind.name], kind.size))
    else:
        raise TypeError(f"{kind.name} cannot be a kernel argument")
