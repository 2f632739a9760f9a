# SPDX-License-Identifier: Apache-2.0
"""Small values as bytes, and back: what an archive says about an image beside its fixed fields.

One tag byte, then the value; lengths and counts are unsigned 32-bit, little endian. Reading makes nothing but plain
values, takes no more memory than it is allowed, goes no deeper than writing does, and raises ImageFormatError for
anything that writing would not have written: a value has one spelling. ``json`` is not used: the launch path would pay
3 ms for importing it.
"""

from __future__ import annotations

import struct

from cudabuild.errors import ImageFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["ALLOWANCE", "pack", "unpack"]

#: What a value may take in memory beyond the length of its bytes, unless a caller says otherwise.
ALLOWANCE = 1 << 19

_DEEPEST = 8
_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")

#: At most what an object takes beside its contents, on a 64-bit CPython, in bytes; a place in a tuple, and in the list
#: that it is made from; a dict, and an item of it (its table grows in leaps).
_OBJECT = 64
_PLACE = 8
_LISTED = 10
_DICT = 112
_ITEM = 160

#: A longer text is charged twice: its bytes are there while it is decoded.
_SHORT = 1 << 12


def pack(value: Any) -> bytes:
    """``value`` as bytes: None, bool, int of 64 bits, float, str, bytes, tuples, and dicts with str keys (kept sorted).

    Raises:
        TypeError: another type; OverflowError or struct.error: an integer or a length that does not fit.
    """
    pieces: list[bytes] = []
    _pack(value, pieces, 0)
    return b"".join(pieces)


def _pack(value: Any, pieces: list[bytes], depth: int) -> None:
    if depth >= _DEEPEST and isinstance(value, (tuple, list, dict)):
        raise TypeError("nested too deeply for an archive")
    if value is None:
        pieces.append(b"n")
    elif isinstance(value, bool):
        pieces.append(b"t" if value else b"f")
    elif isinstance(value, int):
        pieces.append(b"i" + _I64.pack(value))
    elif isinstance(value, float):
        pieces.append(b"d" + _F64.pack(value))
    elif isinstance(value, str):
        data = value.encode()
        pieces.append(b"s" + _U32.pack(len(data)) + data)
    elif isinstance(value, bytes):
        pieces.append(b"b" + _U32.pack(len(value)) + value)
    elif isinstance(value, (tuple, list)):
        pieces.append(b"(" + _U32.pack(len(value)))
        for item in value:
            _pack(item, pieces, depth + 1)
    elif isinstance(value, dict):
        pieces.append(b"{" + _U32.pack(len(value)))
        for key in sorted(value):
            _pack(str(key), pieces, depth + 1)
            _pack(value[key], pieces, depth + 1)
    else:
        raise TypeError(f"{type(value).__name__} cannot be kept in an archive")


def unpack(data: bytes | memoryview, allowance: int = ALLOWANCE) -> Any:
    """The value that ``data`` stands for; tuples for sequences.

    Args:
        data: what :func:`pack` returned.
        allowance: the most memory that the value may take beyond the length of ``data``, in bytes: a few bytes can
            spell thousands of empty dicts.

    Raises:
        ImageFormatError: ``data`` is not what :func:`pack` writes, or stands for something too large.
    """
    left = [len(data) + allowance]
    try:
        value, end = _unpack(data, 0, 0, left)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ImageFormatError(f"a damaged description: {error}") from None
    if end != len(data):
        raise ImageFormatError("a damaged description: bytes are left over")
    return value


def _unpack(data: bytes | memoryview, at: int, depth: int, left: list[int]) -> tuple[Any, int]:
    """The value at a place, and the place behind it; takes from ``left`` before it takes memory."""
    tag = data[at]
    at += 1
    if tag == 0x73 or tag == 0x62:  # s, b
        (length,) = _U32.unpack_from(data, at)
        at += 4
        end = at + length
        if end > len(data):
            raise ImageFormatError("a damaged description: a length beyond its end")
        _take(left, _OBJECT + length if length <= _SHORT else _OBJECT + 2 * length)
        piece = bytes(data[at:end])
        if tag == 0x62:
            return piece, end
        if not piece.isascii():  # one wide character makes all of them wide; or the error holds a copy
            _take(left, 4 * length)
        return piece.decode(), end
    if tag == 0x28 or tag == 0x7B:  # ( {
        (count,) = _U32.unpack_from(data, at)
        at += 4
        if depth >= _DEEPEST or count > len(data) - at:  # every item takes a byte at least
            raise ImageFormatError("a damaged description: a count beyond its end")
        if tag == 0x28:
            _take(left, _OBJECT + (_PLACE + _LISTED) * count)
            value, at = _unpack_tuple(data, at, depth, count, left)
            left[0] += _LISTED * count
            return value, at
        _take(left, _DICT + _ITEM * count)
        return _unpack_dict(data, at, depth, count, left)
    if tag == 0x69:  # i
        _take(left, _OBJECT)
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == 0x64:  # d
        _take(left, _OBJECT)
        return _F64.unpack_from(data, at)[0], at + 8
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    raise ImageFormatError(f"a damaged description: unknown tag {tag}")


_CONSTANTS = {0x6E: None, 0x74: True, 0x66: False}


def _take(left: list[int], size: int) -> None:
    left[0] -= size
    if left[0] < 0:
        raise ImageFormatError("a damaged description: it stands for more than its length allows")


def _unpack_tuple(data: bytes | memoryview, at: int, depth: int, count: int, left: list[int]) -> tuple[Any, int]:
    items = []
    for _ in range(count):
        item, at = _unpack(data, at, depth + 1, left)
        items.append(item)
    return tuple(items), at


def _unpack_dict(data: bytes | memoryview, at: int, depth: int, count: int, left: list[int]) -> tuple[Any, int]:
    items: dict[str, Any] = {}
    last: str | None = None
    for _ in range(count):
        key, at = _unpack(data, at, depth + 1, left)
        if not isinstance(key, str):
            raise ImageFormatError("a damaged description: a key that is no text")
        if last is not None and key <= last:
            raise ImageFormatError("a damaged description: keys out of order")
        items[key], at = _unpack(data, at, depth + 1, left)
        last = key
    return items, at
