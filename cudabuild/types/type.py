# SPDX-License-Identifier: Apache-2.0
"""The types of the kernel language, as values that compare by their canonical text.

A type's ``name`` is its spelling in signatures, archives and mangled symbols: ``float32``, ``int`` (weak),
``float32[:, ::1]``, ``Tuple(int32, float64)``. Two types are equal exactly when their names are equal, so a type read
back from an archive equals the one that wrote it.

The launch path imports this module: it uses neither dataclasses nor typing nor NumPy.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

__all__ = [
    "Array",
    "Boolean",
    "BrainFloat",
    "Complex",
    "Float",
    "FunctionSignature",
    "Integer",
    "NoneType",
    "Prototype",
    "Scalar",
    "Tuple",
    "Type",
    "TypeArgument",
    "WeakComplex",
    "WeakFloat",
    "WeakInteger",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "none",
    "scalar_by_name",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "weak_complex",
    "weak_float",
    "weak_int",
]


class Type:
    """A type of the kernel language; equal to another exactly when ``name`` is equal."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Type) and self.name == other.name)

    def __hash__(self) -> int:
        return hash(self.name)

    def __call__(self, *args: Any) -> Any:
        """``int32(int32, float32)``: the signature of a function that returns this type."""
        if all(isinstance(arg, Type) for arg in args):
            return Prototype(args, self)
        raise TypeError(f"{self.name}(…): expected the types of a function's arguments, found {args!r}")


class Prototype:
    """What ``int32(int32, float32)`` makes: a signature as it is written. It is no tuple, as in numba: code tells apart
    by that a signature and the types of its arguments.

    Attributes:
        args: the argument types.
        return_type: ``none`` for a kernel.
    """

    __slots__ = ("args", "return_type")

    def __init__(self, args: Iterable[Type], return_type: Type) -> None:
        self.args = tuple(args)
        self.return_type = return_type

    def plain(self) -> FunctionSignature:
        """The argument types as a tuple, with the result."""
        return FunctionSignature(self.args, self.return_type)

    def __iter__(self) -> Iterator[Type]:
        return iter(self.args)

    def __len__(self) -> int:
        return len(self.args)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Prototype):
            return self.args == other.args and self.return_type == other.return_type
        return isinstance(other, tuple) and self.args == other

    def __hash__(self) -> int:
        return hash(self.args)

    def __repr__(self) -> str:
        return repr(self.plain())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Prototype, (self.args, self.return_type))


class FunctionSignature(tuple["Type", ...]):
    """The argument types of a function, as a tuple, and what it returns: ``int32(int32, float32)``.

    Attributes:
        return_type: ``none`` for a kernel.
    """

    return_type: Type

    def __new__(cls, args: Iterable[Type], return_type: Type) -> FunctionSignature:
        made = super().__new__(cls, args)
        made.return_type = return_type
        return made

    @property
    def args(self) -> tuple[Type, ...]:
        """The argument types alone."""
        return tuple(self)

    def __repr__(self) -> str:
        return f"({', '.join(kind.name for kind in self)}) -> {self.return_type.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (FunctionSignature, (tuple(self), self.return_type))


class Scalar(Type):
    """A number or truth value; ``size`` is in bytes, as stored in memory and in a parameter block."""

    __slots__ = ("size",)

    def __init__(self, name: str, size: int) -> None:
        super().__init__(name)
        self.size = size

    @property
    def alignment(self) -> int:
        """The bytes that addresses of such values in memory are a multiple of."""
        return self.size

    @property
    def bitwidth(self) -> int:
        """The bits of a value in memory, by numba's name."""
        return 8 * self.size

    def __getitem__(self, dims: Any) -> Array:
        """``float32[:, ::1]``: the array type with these elements; ``::1`` marks the contiguous axis."""
        return Array.from_subscript(self, dims)

    def __call__(self, *args: Any) -> Any:
        """``float32(x)`` as a cast on the host: a NumPy scalar. ``float32(int32, …)``, with types: a signature.

        A Python integer that does not fit wraps, as in a kernel; NumPy's own types refuse it.
        """
        if all(isinstance(arg, Type) for arg in args):
            return super().__call__(*args)
        import numpy

        if isinstance(self, Integer) and self.name != "int" and len(args) == 1 and type(args[0]) is int:
            bits = args[0] & ((1 << self.bits) - 1)
            args = (bits - (1 << self.bits) if self.signed and bits >> (self.bits - 1) else bits,)
        scalar: Any = {"bool": numpy.bool_, "int": int, "float": float, "complex": complex}.get(self.name)
        return (scalar or getattr(numpy, self.name))(*args)


class Boolean(Scalar):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("bool", 1)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Boolean, ())


class Integer(Scalar):
    """A typed integer of ``bits`` bits; arithmetic on it wraps."""

    __slots__ = ("bits", "signed")

    def __init__(self, bits: int, signed: bool) -> None:
        super().__init__(f"{'' if signed else 'u'}int{bits}", bits // 8)
        self.bits = bits
        self.signed = signed

    @property
    def minval(self) -> int:
        """The least value, by numba's name."""
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def maxval(self) -> int:
        """The greatest value, by numba's name."""
        return (1 << (self.bits - self.signed)) - 1

    def __reduce__(self) -> tuple[Any, ...]:
        return (Integer, (self.bits, self.signed))


class Float(Scalar):
    __slots__ = ("bits",)

    def __init__(self, bits: int) -> None:
        super().__init__(f"float{bits}", bits // 8)
        self.bits = bits

    def __reduce__(self) -> tuple[Any, ...]:
        return (Float, (self.bits,))


class BrainFloat(Float):
    """A float32 cut to its upper 16 bits: 8 bits of exponent, 7 of fraction."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(16)
        self.name = "bfloat16"

    def __call__(self, *args: Any) -> Any:
        """``bfloat16(x)`` on the host: ml_dtypes' scalar, where that package is imported already or can be."""
        if all(isinstance(arg, Type) for arg in args):
            return super().__call__(*args)
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("NumPy has no bfloat16 of its own: install ml_dtypes, or use float32 on the host") from None
        return ml_dtypes.bfloat16(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return (BrainFloat, ())


class Complex(Scalar):
    """A complex number of ``bits`` bits: two floats of half as many, the real part first in memory."""

    __slots__ = ("bits", "part")

    def __init__(self, bits: int) -> None:
        super().__init__(f"complex{bits}", bits // 8)
        self.bits = bits
        self.part: Float = Float(bits // 2)

    @property
    def underlying_float(self) -> Float:
        """The type of the parts, by numba's name."""
        return self.part

    def __reduce__(self) -> tuple[Any, ...]:
        return (Complex, (self.bits,))


class WeakInteger(Integer):
    """A Python ``int``: takes the type of the typed number it meets; an int64 when it meets none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(64, True)
        self.name = "int"

    def __reduce__(self) -> tuple[Any, ...]:
        return (WeakInteger, ())


class WeakFloat(Float):
    """A Python ``float``: takes the floating type it meets; a float64 when it meets none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(64)
        self.name = "float"

    def __reduce__(self) -> tuple[Any, ...]:
        return (WeakFloat, ())


class WeakComplex(Complex):
    """A Python ``complex``: its parts take the floating type they meet; a complex128 when they meet none."""

    __slots__ = ()

    def __init__(self) -> None:
        super().__init__(128)
        self.name = "complex"
        self.part = WeakFloat()

    def __reduce__(self) -> tuple[Any, ...]:
        return (WeakComplex, ())


class NoneType(Type):
    __slots__ = ()

    def __init__(self) -> None:
        super().__init__("none")

    def __reduce__(self) -> tuple[Any, ...]:
        return (NoneType, ())


class TypeArgument(NoneType):
    """A type as an argument of a kernel, such as ``numpy.float32``: like None, it has no data."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: Scalar) -> None:
        super().__init__()
        self.dtype = dtype
        self.name = f"type({dtype.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (TypeArgument, (self.dtype,))


class Tuple(Type):
    """A tuple of fixed length; elements may differ in type."""

    __slots__ = ("elements",)

    def __init__(self, elements: Iterable[Type]) -> None:
        self.elements = tuple(elements)
        super().__init__(f"Tuple({', '.join(e.name for e in self.elements)})")

    def __len__(self) -> int:
        return len(self.elements)

    def __iter__(self) -> Iterator[Type]:
        return iter(self.elements)

    def __bool__(self) -> bool:
        return True  # the empty one too: a type is never "no type"

    @property
    def types(self) -> tuple[Type, ...]:
        """The elements, by numba's name."""
        return self.elements

    @property
    def count(self) -> int:
        """The number of elements, by numba's name."""
        return len(self.elements)

    @property
    def label(self) -> str:
        """What tells it from other tuple types, the elements' types aside; "" for a plain tuple."""
        return ""

    @property
    def field_names(self) -> tuple[str, ...]:
        """The elements' names; () where they have none."""
        return ()

    def with_elements(self, elements: Iterable[Type]) -> Tuple:
        """This type with other types of its elements."""
        return Tuple(elements)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Tuple, (self.elements,))


class Array(Type):
    """An n-dimensional array.

    ``layout`` is ``"C"`` (last axis contiguous, no strides passed), ``"F"`` (first axis contiguous) or ``"A"`` (byte
    strides at run time). A 0-d array has layout C. ``space`` is the CUDA address space of its memory: ``global``
    for arguments, ``shared`` or ``local`` for arrays made in a kernel, ``generic`` where paths join. ``packed`` is 0
    where elements are aligned as their type asks, else the bytes that their addresses are a multiple of: those of a
    field of a packed record, for one.
    """

    __slots__ = ("dtype", "layout", "ndim", "packed", "readonly", "space")

    def __init__(
        self,
        dtype: Scalar,
        ndim: int,
        layout: str,
        readonly: bool = False,
        space: str = "global",
        packed: int = 0,
    ) -> None:
        if layout not in ("C", "F", "A"):
            raise ValueError(f"array layout {layout!r}: expected 'C', 'F' or 'A'")
        if ndim == 0 or (ndim == 1 and layout == "F"):
            layout = "C"
        self.dtype = dtype
        self.ndim = ndim
        self.layout = layout
        self.readonly = readonly
        self.space = space
        self.packed = packed if packed < dtype.alignment else 0
        dims = [":"] * ndim
        if ndim and layout == "C":
            dims[-1] = "::1"
        elif ndim and layout == "F":
            dims[0] = "::1"
        prefix = ("const " if readonly else "") + (f"packed{self.packed} " if self.packed else "")
        suffix = "" if space == "global" else f"@{space}"
        super().__init__(f"{prefix}{dtype.name}[{', '.join(dims)}]{suffix}")

    @property
    def alignment(self) -> int:
        """The bytes that the addresses of its elements are a multiple of."""
        return self.packed or self.dtype.alignment

    @property
    def mutable(self) -> bool:
        """Whether a kernel may write to it, by numba's name."""
        return not self.readonly

    @property
    def aligned(self) -> bool:
        """Whether its elements are aligned as their type asks, by numba's name."""
        return not self.packed

    @property
    def is_contig(self) -> bool:
        """Whether its elements lie without gaps, by numba's name."""
        return self.layout != "A"

    @property
    def is_c_contig(self) -> bool:
        """Whether they lie so in C order, by numba's name."""
        return self.layout == "C"

    @property
    def is_f_contig(self) -> bool:
        """Whether they lie so in Fortran order, by numba's name; with one axis or none that is C order too."""
        return self.layout == "F" or (self.layout == "C" and self.ndim <= 1)

    @classmethod
    def from_subscript(cls, dtype: Scalar, dims: Any) -> Array:
        """The array type spelled ``dtype[dims]``; raises TypeError for anything but ``:`` and ``::1``."""
        parts = dims if isinstance(dims, tuple) else (dims,)
        marks = []
        for axis, part in enumerate(parts):
            if not isinstance(part, slice) or part.start is not None or part.stop is not None:
                raise TypeError(f"{dtype.name}[…]: expected ':' or '::1' for axis {axis}, found {part!r}")
            if part.step not in (None, 1):
                raise TypeError(f"{dtype.name}[…]: expected '::1' for axis {axis}, found a step of {part.step!r}")
            if part.step == 1:
                marks.append(axis)
        ndim = len(parts)
        if len(marks) > 1 or (marks and marks[0] not in (0, ndim - 1)):
            raise TypeError(f"{dtype.name}[…]: '::1' belongs on the last axis (C order) or the first (Fortran order)")
        layout = "A" if not marks else "C" if marks[0] == ndim - 1 else "F"
        return cls(dtype, ndim, layout)

    def with_(
        self,
        *,
        ndim: int | None = None,
        layout: str | None = None,
        readonly: bool | None = None,
        space: str | None = None,
        dtype: Scalar | None = None,
        packed: int | None = None,
    ) -> Array:
        """This type with some fields replaced."""
        return Array(
            self.dtype if dtype is None else dtype,
            self.ndim if ndim is None else ndim,
            self.layout if layout is None else layout,
            self.readonly if readonly is None else readonly,
            self.space if space is None else space,
            self.packed if packed is None else packed,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (Array, (self.dtype, self.ndim, self.layout, self.readonly, self.space, self.packed))


bool_ = Boolean()
int8, int16, int32, int64 = (Integer(bits, True) for bits in (8, 16, 32, 64))
uint8, uint16, uint32, uint64 = (Integer(bits, False) for bits in (8, 16, 32, 64))
float16, float32, float64 = (Float(bits) for bits in (16, 32, 64))
bfloat16 = BrainFloat()
complex64, complex128 = Complex(64), Complex(128)
weak_int = WeakInteger()
weak_float = WeakFloat()
weak_complex = WeakComplex()
none = NoneType()

#: Spellings accepted in signatures besides the canonical name: NumPy's type codes and numba's short names.
_ALIASES = {
    "boolean": "bool", "bool_": "bool", "b1": "bool",
    "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
    "u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
    "f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
    "byte": "uint8", "intc": "int32", "uintc": "uint32", "intp": "int64", "uintp": "uint64",
    "half": "float16", "single": "float32", "double": "float64",
}  # fmt: skip
_CANONICAL: dict[str, Scalar] = {
    scalar.name: scalar
    for scalar in (
        bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64,
        float16, bfloat16, float32, float64, complex64, complex128, weak_int, weak_float, weak_complex,
    )
}  # fmt: skip


def scalar_by_name(name: str) -> Scalar | None:
    """The scalar type spelled ``name`` in a signature (canonical, NumPy code or numba alias), or None."""
    return _CANONICAL.get(_ALIASES.get(name, name))


def scalar_names() -> list[str]:
    """Every canonical scalar name, for messages."""
    return list(_CANONICAL)
