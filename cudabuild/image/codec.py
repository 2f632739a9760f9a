# SPDX-License-Identifier: Apache-2.0
"""Small values as bytes, and back: what an archive says about an image beside its fixed fields.

One tag byte, then the value; lengths and counts are unsigned 32-bit, little endian. Reading is bounded by the bytes at
hand and by a depth, makes nothing but plain values, and raises ImageFormatError for anything that writing would not
have written. ``json`` is not used: the launch path would pay 3 ms for importing it.
"""

from __future__ import annotations

import struct

from cudabuild.errors import ImageFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["pack", "unpack"]

_DEEPEST = 8
_U32 = struct.Struct("<I")
_I64 = struct.Struct("<q")
_F64 = struct.Struct("<d")


def pack(value: Any) -> bytes:
    """``value`` as bytes: None, bool, int of 64 bits, float, str, bytes, tuples, and dicts with str keys (kept sorted).

    Raises:
        TypeError: another type; OverflowError or struct.error: an integer or a length that does not fit.
    """
    pieces: list[bytes] = []
    _pack(value, pieces, 0)
    return b"".join(pieces)


def _pack(value: Any, pieces: list[bytes], depth: int) -> None:
    if depth > _DEEPEST:
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


def unpack(data: bytes) -> Any:
    """The value that ``data`` stands for; tuples for sequences.

    Raises:
        ImageFormatError: ``data`` is not what :func:`pack` writes.
    """
    try:
        value, end = _unpack(data, 0, 0)
    except (struct.error, IndexError, UnicodeDecodeError) as error:
        raise ImageFormatError(f"a damaged description: {error}") from None
    if end != len(data):
        raise ImageFormatError("a damaged description: bytes are left over")
    return value


def _unpack(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    tag = data[at]
    at += 1
    if tag == 0x73 or tag == 0x62:  # s, b
        (length,) = _U32.unpack_from(data, at)
        at += 4
        piece = data[at : at + length]
        if len(piece) != length:
            raise ImageFormatError("a damaged description: a length beyond its end")
        return (piece.decode() if tag == 0x73 else piece), at + length
    if tag == 0x28 or tag == 0x7B:  # ( {
        (count,) = _U32.unpack_from(data, at)
        at += 4
        if depth >= _DEEPEST or count > len(data) - at:  # every item takes a byte at least
            raise ImageFormatError("a damaged description: a count beyond its end")
        if tag == 0x28:
            return _unpack_tuple(data, at, depth, count)
        return _unpack_dict(data, at, depth, count)
    if tag == 0x69:  # i
        return _I64.unpack_from(data, at)[0], at + 8
    if tag == 0x64:  # d
        return _F64.unpack_from(data, at)[0], at + 8
    if tag in _CONSTANTS:
        return _CONSTANTS[tag], at
    raise ImageFormatError(f"a damaged description: unknown tag {tag}")


_CONSTANTS = {0x6E: None, 0x74: True, 0x66: False}


def _unpack_tuple(data: bytes, at: int, depth: int, count: int) -> tuple[Any, int]:
    items = []
    for _ in range(count):
        item, at = _unpack(data, at, depth + 1)
        items.append(item)
    return tuple(items), at


def _unpack_dict(data: bytes, at: int, depth: int, count: int) -> tuple[Any, int]:
    items = {}
    for _ in range(count):
        key, at = _unpack(data, at, depth + 1)
        if not isinstance(key, str):
            raise ImageFormatError("a damaged description: a key that is no text")
        items[key], at = _unpack(data, at, depth + 1)
    return items, at
