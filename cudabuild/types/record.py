# SPDX-License-Identifier: Apache-2.0
"""Element types that NumPy has besides numbers: records, character sequences, dates and times.

A record's canonical text is ``Record(a: float64 at 0, h: float32[2] at 8; 16)``: each member's type, the extents of a
sub-array, its offset; at last the size, all in bytes. Records with the same members at the same offsets are one type,
however NumPy came to the layout. A name that is no identifier is quoted, with escapes for what is neither a letter, a
digit nor a blank.
"""

from __future__ import annotations

from cudabuild.types.type import Complex, Scalar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

__all__ = ["CharSeq", "DateTime", "Member", "Record", "TimeDelta", "natural_alignment"]


class Member:
    """One member of a record.

    Attributes:
        name: as NumPy has it.
        dtype: the type of its value, or of the elements of the sub-array that it holds.
        offset: in bytes from the record's beginning.
        shape: the extents of the sub-array; ``()`` for none.
    """

    __slots__ = ("dtype", "name", "offset", "shape")

    def __init__(self, name: str, dtype: Scalar, offset: int, shape: tuple[int, ...] = ()) -> None:
        self.name = name
        self.dtype = dtype
        self.offset = offset
        self.shape = shape

    def __repr__(self) -> str:
        extents = f"[{', '.join(map(str, self.shape))}]" if self.shape else ""
        return f"{_quoted(self.name)}: {self.dtype.name}{extents} at {self.offset}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Member, (self.name, self.dtype, self.offset, self.shape))


class Record(Scalar):
    """A record: members at fixed offsets, as a C structure or a packed one.

    Attributes:
        members: in the order of the NumPy type.
    """

    __slots__ = ("_alignment", "_by_name", "members")

    def __init__(self, members: Iterable[Member], size: int) -> None:
        self.members = tuple(members)
        super().__init__(f"Record({', '.join(map(repr, self.members))}; {size})", size)
        self._by_name = {member.name: member for member in self.members}
        wanted = max((natural_alignment(member.dtype) for member in self.members), default=1)
        while size % wanted:
            wanted //= 2
        self._alignment = wanted

    @property
    def alignment(self) -> int:
        """What its widest member asks for, or less where the records of an array stand closer."""
        return self._alignment

    def member(self, name: str) -> Member | None:
        """The member of that name, or None."""
        return self._by_name.get(name)

    def alignment_of(self, member: Member) -> int:
        """The bytes that the member's addresses are a multiple of, in a record that is aligned itself."""
        low = member.offset & -member.offset
        return min(self._alignment, low) if low else self._alignment

    def __call__(self, *args: Any) -> Any:
        raise TypeError(f"{self.name} is no type of a number: make records on the host with NumPy")

    def __reduce__(self) -> tuple[Any, ...]:
        return (Record, (self.members, self.size))


class CharSeq(Scalar):
    """``length`` characters, the rest of a shorter text zeros: NumPy's ``S`` (bytes) and ``U`` (UTF-32)."""

    __slots__ = ("length", "unicode")

    def __init__(self, length: int, unicode: bool) -> None:
        super().__init__(f"{'U' if unicode else 'S'}{length}", length * (4 if unicode else 1))
        self.length = length
        self.unicode = unicode

    @property
    def alignment(self) -> int:
        """That of one character."""
        return 4 if self.unicode else 1

    def __reduce__(self) -> tuple[Any, ...]:
        return (CharSeq, (self.length, self.unicode))


class DateTime(Scalar):
    """A point in time: an int64 that counts ``unit`` (``D``, ``ms``, ``25s``; ``""`` for none) since 1970.

    The smallest int64 is NaT, which is no time.
    """

    __slots__ = ("unit",)

    def __init__(self, unit: str) -> None:
        super().__init__(f"datetime64[{unit}]" if unit else "datetime64", 8)
        self.unit = unit

    def __call__(self, *args: Any) -> Any:
        import numpy

        make: Any = numpy.datetime64
        return make(*args, self.unit) if self.unit else make(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return (DateTime, (self.unit,))


class TimeDelta(Scalar):
    """A span of time: an int64 that counts ``unit``; see :class:`DateTime`."""

    __slots__ = ("unit",)

    def __init__(self, unit: str) -> None:
        super().__init__(f"timedelta64[{unit}]" if unit else "timedelta64", 8)
        self.unit = unit

    def __call__(self, *args: Any) -> Any:
        import numpy

        make: Any = numpy.timedelta64
        return make(*args, self.unit) if self.unit else make(*args)

    def __reduce__(self) -> tuple[Any, ...]:
        return (TimeDelta, (self.unit,))


def natural_alignment(dtype: Scalar) -> int:
    """The alignment of a C structure's member of that type, in bytes."""
    return dtype.part.size if isinstance(dtype, Complex) else dtype.alignment


def _quoted(name: str) -> str:
    if name.isidentifier() and name.isascii():
        return name
    parts = (c if (c.isalnum() and c.isascii()) or c in " _" else _escape(c) for c in name)
    return f"'{''.join(parts)}'"


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 1 << 8 else f"\\u{code:04x}" if code < 1 << 16 else f"\\U{code:08x}"
