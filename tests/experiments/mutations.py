# SPDX-License-Identifier: Apache-2.0
"""Damage to archives and indexes: what happens to files by itself, and files made to lie with all digests right."""

from __future__ import annotations

import random
import struct
from collections.abc import Callable, Sequence

from image_making import repair_archive

from cudabuild.digest import digest_pieces

__all__ = ["damage", "forge_archive", "forge_index", "make_bomb"]

#: Numbers that lie best.
_EXTREMES = (
    0,
    1,
    2,
    63,
    64,
    255,
    2**15,
    2**16,
    2**31 - 1,
    2**31,
    2**32 - 1,
    2**32,
    2**62,
    2**63,
    2**64 - 192,
    2**64 - 1,
)


def _flip_bits(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _set_bytes(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 1, 4, 16))):
        data[rng.randrange(len(data))] = rng.choice((0, 0xFF, rng.randrange(256)))


def _truncate(data: bytearray, rng: random.Random) -> None:
    size = len(data)
    del data[rng.choice((0, 1, size // 2, size - 1, rng.randrange(size))) :]


def _grow(data: bytearray, rng: random.Random) -> None:
    data += rng.choice((b"\0", rng.randbytes(64), bytes(data[:192])))


def _swap_halves(data: bytearray, rng: random.Random) -> None:
    at = rng.choice((len(data) // 2, rng.randrange(1, len(data)))) if len(data) > 1 else 0
    data[:] = data[at:] + data[:at]


def _swap_blocks(data: bytearray, rng: random.Random) -> None:
    size = rng.choice((1, 4, 8, 32, 64, 192, 4096))
    if len(data) >= 2 * size:
        one, other = rng.randrange(len(data) - size + 1), rng.randrange(len(data) - size + 1)
        data[one : one + size], data[other : other + size] = data[other : other + size], data[one : one + size]


def _blank(data: bytearray, rng: random.Random) -> None:
    """A page that never reached the disk."""
    size = rng.choice((8, 64, 512, 4096))
    at = rng.randrange(len(data)) // size * size
    data[at : at + size] = bytes(len(data[at : at + size]))


def _lie(data: bytearray, rng: random.Random) -> None:
    """A length, offset or count that says something else."""
    form, size = rng.choice((("<I", 4), ("<Q", 8)))
    if len(data) >= size:
        at = rng.randrange(len(data) - size + 1) // 4 * 4
        lie_about(data, at, form, rng)


ACCIDENTS: tuple[Callable[[bytearray, random.Random], None], ...] = (
    _flip_bits, _set_bytes, _truncate, _grow, _swap_halves, _swap_blocks, _blank, _lie,
)  # fmt: skip


def lie_about(data: bytearray, at: int, form: str, rng: random.Random) -> None:
    """Replaces the number at a place by one near it, near the file's size, or at an end of its range."""
    (value,) = struct.unpack_from(form, data, at)
    near = [value + step for step in (-192, -64, -1, 1, 4, 64, 192)]
    lie = rng.choice([*near, len(data), len(data) - 1, len(data) + 1, *_EXTREMES, rng.getrandbits(64)])
    struct.pack_into(form, data, at, lie & (1 << 8 * struct.calcsize(form)) - 1)


def damage(data: bytes, others: Sequence[bytes], rng: random.Random) -> bytes:
    """``data`` after one accident or several; ``others`` are files whose parts may get into it."""
    damaged = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        if damaged and rng.random() < 0.9:
            rng.choice(ACCIDENTS)(damaged, rng)
        else:  # two generations of a file
            other = rng.choice(others)
            at = rng.randrange(min(len(damaged), len(other)) + 1)
            damaged[at:] = other[at:]
    return bytes(damaged)


# Archives whose digests are right

_RECORDS = 128
_RECORD = 192
_FIELDS = ((128, "<Q"), (136, "<Q"), (144, "<Q"), (152, "<I"), (156, "<I"), (160, "<Q"), (168, "<Q"), (176, "<I"),
           (180, "<I"), (184, "<I"), (188, "<H"), (190, "<B"), (191, "<B"))  # fmt: skip
_HEAD = ((8, "<I"), (12, "<I"), (16, "<I"), (20, "<I"), (24, "<Q"), (32, "<Q"), (40, "<Q"), (56, "<Q"), (88, "<Q"))


def forge_archive(data: bytes, rng: random.Random) -> bytes:
    """An archive that lies about something, with every digest that can be right made right."""
    forged = bytearray(data)
    count = struct.unpack_from("<I", data, 16)[0]
    for _ in range(rng.choice((1, 1, 2, 4))):
        record = _RECORDS + _RECORD * rng.randrange(count)
        what = rng.random()
        if what < 0.25:
            lie_about(forged, *rng.choice(_HEAD), rng)
        elif what < 0.6:
            at, form = rng.choice(_FIELDS)
            lie_about(forged, record + at, form, rng)
        elif what < 0.7:  # another record's fields
            at, form = rng.choice(_FIELDS)
            other = _RECORDS + _RECORD * rng.randrange(count) + at
            size = struct.calcsize(form)
            forged[record + at : record + at + size] = forged[other : other + size]
        elif what < 0.8:  # keys out of order, or all the same
            at = rng.choice((0, 32))
            forged[record + at : record + at + 32] = rng.choice(
                (bytes(32), b"\xff" * 32, bytes(forged[128 + at : 160 + at]))
            )
        elif what < 0.85:  # the name index
            lie_about(forged, _RECORDS + _RECORD * count + 4 * rng.randrange(count), "<I", rng)
        else:
            forge_description(forged, record, rng)
    return repair_archive(forged, names=rng.random() < 0.7)


_PIECES = ((144, "<Q", 152), (160, "<Q", 156), (168, "<Q", 176))


def forge_description(data: bytearray, record: int, rng: random.Random) -> None:
    """Changes what a record's description says: byte by byte, or by a bomb that unpacks to much."""
    at, form, length_at = rng.choice(_PIECES)
    (offset,) = struct.unpack_from(form, data, record + at)
    (length,) = struct.unpack_from("<I", data, record + length_at)
    if offset + length > len(data) or not length:
        return
    piece = bytearray(data[offset : offset + length])
    if rng.random() < 0.7:
        rng.choice((_flip_bits, _set_bytes, _lie))(piece, rng)
    else:
        bomb = make_bomb(length, rng)
        piece[: len(bomb)] = bomb
    data[offset : offset + length] = piece


def make_bomb(size: int, rng: random.Random) -> bytes:
    """A description of ``size`` bytes that stands for as much memory as it can."""
    size = max(size, 16)
    kind = rng.randrange(6)
    if kind == 0:
        return b"(" + struct.pack("<I", size - 5) + b"n" * (size - 5)
    if kind == 1:
        count = (size - 5) // 5
        return b"(" + struct.pack("<I", count) + b"{\0\0\0\0" * count
    if kind == 2:
        return b"(\1\0\0\0" * (size // 5)
    if kind == 3:
        text = "\U0001f600".encode()
        return b"s" + struct.pack("<I", size - 5) + text + b"a" * (size - 9)
    if kind == 4:
        count = (size - 5) // 9
        pairs = (b"s\3\0\0\0" + b"%03x" % (number % 4096) + b"n" for number in range(count))
        return b"{" + struct.pack("<I", count) + b"".join(pairs)
    return rng.choice((b"s", b"b", b"(", b"{")) + struct.pack("<I", rng.choice((size - 5, 2**31, 2**32 - 1)))


# Indexes of a cache whose digest is right


_ENTRY = 112


def forge_index(data: bytes, rng: random.Random) -> bytes:
    """A cache's index that lies about something, with the right digest."""
    forged = bytearray(data)
    segments, count = struct.unpack_from("<II", data, 12)
    entries = 56 + 8 * segments
    tables = entries + _ENTRY * count
    for _ in range(rng.choice((1, 1, 2, 4))):
        what = rng.random()
        if what < 0.2:
            lie_about(forged, rng.choice((8, 12, 16, 20)), "<I", rng)
        elif what < 0.6:
            at, form = rng.choice(((96, "<Q"), (104, "<I"), (108, "<I")))
            lie_about(forged, entries + _ENTRY * rng.randrange(count) + at, form, rng)
        elif what < 0.8:
            lie_about(forged, tables + 4 * rng.randrange(2 * count), "<I", rng)
        else:  # entries out of order, or all of one name
            at = entries + _ENTRY * rng.randrange(count) + rng.choice((0, 32, 64))
            forged[at : at + 32] = rng.choice((bytes(32), b"\xff" * 32, rng.randbytes(32)))
    return repair_index(forged)


def repair_index(forged: bytearray) -> bytes:
    """``forged`` with the right digest."""
    if len(forged) >= 56:
        forged[24:56] = digest_pieces(forged[:24], forged[56:])
    return bytes(forged)
