# SPDX-License-Identifier: Apache-2.0
"""NumPy's dtypes and the types of the kernel language, both ways.

``as_dtype(from_dtype(dtype)) == dtype`` for every dtype that has a type here.
"""

from __future__ import annotations

from cudabuild.types.record import CharSeq, DateTime, Member, Record, TimeDelta
from cudabuild.types.type import Scalar, scalar_by_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["as_dtype", "find_dtype", "from_dtype", "shared_array"]

#: Types found before, by dtype. NumPy's dtypes are equal where the layouts are, and so are types.
_known: dict[Any, Scalar | None] = {}
_LARGEST = 512  #: entries; a program makes few dtypes, but a test may make thousands


def find_dtype(dtype: Any) -> Scalar | None:
    """The element type for a ``numpy.dtype``, or None for one that kernels do not have.

    Those are Python objects, the other byte order, bytes without a meaning (``V8``), long doubles.
    """
    if dtype in _known:
        return _known[dtype]
    found = _find(dtype)
    if len(_known) >= _LARGEST:
        _known.clear()
    _known[dtype] = found
    return found


def _find(dtype: Any) -> Scalar | None:
    if dtype.names is not None:
        return _record(dtype)
    if dtype.subdtype is not None or not dtype.isnative:
        return None
    if dtype.kind in "SU":
        return CharSeq(dtype.itemsize // (4 if dtype.kind == "U" else 1), dtype.kind == "U") if dtype.itemsize else None
    if dtype.kind in "Mm":
        text: str = dtype.str
        unit = text[text.index("[") + 1 : -1] if "[" in text else ""
        return DateTime(unit) if dtype.kind == "M" else TimeDelta(unit)
    return scalar_by_name(dtype.name) if dtype.kind != "V" or dtype.name == "bfloat16" else None


def _record(dtype: Any) -> Record | None:
    members = []
    for name in dtype.names:
        inner, offset = dtype.fields[name][:2]  # a third entry would be a title
        shape: tuple[int, ...] = ()
        if inner.subdtype is not None:
            inner, shape = inner.subdtype
        kind = find_dtype(inner)
        if kind is None:
            return None
        members.append(Member(name, kind, offset, tuple(map(int, shape))))
    return Record(members, dtype.itemsize)


def from_dtype(dtype: Any) -> Scalar:
    """The element type for whatever NumPy takes as a dtype: ``from_dtype([("x", "f4"), ("y", "i4", 3)])``.

    Raises:
        TypeError: kernels have no such type.
    """
    import numpy

    wanted = numpy.dtype(dtype)
    found = find_dtype(wanted)
    if found is None:
        raise TypeError(
            f"{wanted} is no type of a kernel: expected numbers, records, S and U texts, datetime64 and timedelta64, "
            "in this machine's byte order"
        )
    return found


def as_dtype(kind: Scalar) -> Any:
    """The ``numpy.dtype`` of an element type.

    Raises:
        TypeError: NumPy has none (``bfloat16`` without the package ``ml_dtypes``).
    """
    import numpy

    if isinstance(kind, Record):
        formats = [(as_dtype(m.dtype), m.shape) if m.shape else as_dtype(m.dtype) for m in kind.members]
        return numpy.dtype(
            {
                "names": [m.name for m in kind.members],
                "formats": formats,
                "offsets": [m.offset for m in kind.members],
                "itemsize": kind.size,
            }
        )
    name = {"int": "int64", "float": "float64", "complex": "complex128"}.get(kind.name, kind.name)
    if name == "bfloat16":
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError("NumPy has no bfloat16 of its own: install ml_dtypes") from None
        return numpy.dtype(ml_dtypes.bfloat16)
    return numpy.dtype(name)


def shared_array(value: Any) -> Any:
    """The NumPy array that shares the memory of an object with an array interface, with the object's own dtype.

    An interface gives names to the gaps between fields, and none to bfloat16, which NumPy then takes for bytes.
    """
    import numpy

    array = numpy.asarray(value)
    dtype = getattr(value, "dtype", None)
    own = array.dtype.kind == "V" and isinstance(dtype, numpy.dtype) and dtype != array.dtype
    return array.view(dtype) if own else array
