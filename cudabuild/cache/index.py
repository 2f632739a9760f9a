# SPDX-License-Identifier: Apache-2.0
"""The index of one target's folder: which segment holds which image. Laid out to the byte in ``README.md``.

The index is a value: it is read whole, a new one is made and put in its place. It is not believed either: every number
in it is bounded when it is used, and what it points to is compared with what was looked for.
"""

from __future__ import annotations

import struct

from cudabuild.digest import digest_pieces, find_place
from cudabuild.errors import ImageFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["Entry", "Index", "format_index", "keep_newest", "parse_index"]

_MAGIC = b"\x93CUIX\r\n\x1a"
_SCHEMA = 1

#: magic, schema, count of segments, count of entries, reserved; then the digest of the rest of the file.
_HEADER = struct.Struct("<8sIIII32s")
#: a segment's number: the newest is the highest
_U64 = struct.Struct("<Q")
#: image key, name key, fingerprint, when it was published, place in the table of segments, record number
_ENTRY = struct.Struct("<32s32s32sQII")
_U32 = struct.Struct("<I")

#: An index of up to so many bytes, some hundreds of images, is always compared with its digest: that takes 0.1 ms.
_SMALL = 1 << 16


class Entry:
    """One image: its keys, the segment and record that hold it, and when it was published (higher is newer)."""

    __slots__ = ("fingerprint", "key", "name", "number", "segment", "sequence")

    def __init__(self, key: bytes, name: bytes, fingerprint: bytes, sequence: int, segment: int, number: int) -> None:
        self.key = key
        self.name = name
        self.fingerprint = fingerprint
        self.sequence = sequence
        self.segment = segment
        self.number = number

    def __repr__(self) -> str:
        return f"<Entry {self.key.hex()[:8]} in {self.segment:016x} at {self.number}>"


class Index:
    """A parsed index. Looking up reads single entries: nothing else is unpacked."""

    __slots__ = ("_data", "_entries", "count", "segments")

    def __init__(self, data: bytes | memoryview, segments: tuple[int, ...], count: int, entries: int) -> None:
        self._data = data
        self.segments = segments
        self.count = count
        self._entries = entries

    def find_key(self, key: bytes) -> Entry | None:
        """The entry of an image key, or None.

        Raises:
            ImageFormatError: the index is damaged.
        """
        found = self._find(key, 0, lambda place: place)
        return self._entry(found[0]) if found else None

    def find_name(self, name: bytes) -> Iterator[Entry]:
        """The entries of a name key, the newest first; raises as ``find_key`` does."""
        return self._newest_first(self._find(name, 32, self._table(0)))

    def find_fingerprint(self, fingerprint: bytes) -> Iterator[Entry]:
        """The entries of a fingerprint, the newest first; raises as ``find_key`` does."""
        return self._newest_first(self._find(fingerprint, 64, self._table(1)))

    def entries(self) -> list[Entry]:
        """All entries, by image key; raises as ``find_key`` does."""
        return [self._entry(number) for number in range(self.count)]

    def _newest_first(self, numbers: list[int]) -> Iterator[Entry]:
        return map(self._entry, sorted(numbers, key=self._sequence, reverse=True))

    def _sequence(self, number: int) -> int:
        found: int = _U64.unpack_from(self._data, self._entries + number * _ENTRY.size + 96)[0]
        return found

    def _table(self, which: int) -> Callable[[int], int]:
        start = self._entries + self.count * (_ENTRY.size + 4 * which)

        def number_of(place: int) -> int:
            number: int = _U32.unpack_from(self._data, start + place * 4)[0]
            if number >= self.count:
                raise ImageFormatError("the number of an entry beyond its table")
            return number

        return number_of

    def _find(self, key: bytes, field: int, number_of: Callable[[int], int]) -> list[int]:
        """The numbers of the entries whose 32 bytes at ``field`` equal ``key``, in a table sorted by that."""
        low = find_place(key, self.count, lambda place: self._key_at(number_of(place), field))
        found = []
        while low < self.count and self._key_at(number_of(low), field) == key:
            found.append(number_of(low))
            low += 1
        return found

    def _key_at(self, number: int, field: int) -> bytes:
        at = self._entries + number * _ENTRY.size + field
        return bytes(self._data[at : at + 32])

    def _entry(self, number: int) -> Entry:
        at = self._entries + number * _ENTRY.size
        key, name, fingerprint, sequence, segment, record = _ENTRY.unpack_from(self._data, at)
        if segment >= len(self.segments):
            raise ImageFormatError("the number of a segment beyond its table")
        return Entry(key, name, fingerprint, sequence, self.segments[segment], record)


def parse_index(data: bytes | memoryview, *, whole: bool = True) -> Index:
    """The index that ``data`` holds.

    Args:
        data: the bytes of the file.
        whole: whether a large one is compared with its digest too, as whoever writes the next index from it must. For
            a reader that would take longer than all the rest of a hit. What it meets is bounded and compared with what
            it looks for, so damage can only hide an image: the one that is made then brings the writer.

    Raises:
        ImageFormatError: it is none, or damaged.
    """
    if len(data) < _HEADER.size:
        raise ImageFormatError("it was cut off")
    magic, schema, segment_count, count, reserved, check = _HEADER.unpack_from(data)
    if magic != _MAGIC or schema != _SCHEMA or reserved:
        raise ImageFormatError("it is no index of this version")
    entries = _HEADER.size + segment_count * _U64.size
    # Every segment has an entry; a table of segments alone would take five times its length in memory.
    if len(data) != entries + count * (_ENTRY.size + 8) or segment_count > count:
        raise ImageFormatError("its length is not what it says")
    if whole or len(data) <= _SMALL:
        view = memoryview(data)
        if digest_pieces(view[:24], view[_HEADER.size :]) != check:
            raise ImageFormatError("its bytes are damaged")
    places = range(_HEADER.size, entries, _U64.size)
    return Index(data, tuple(_U64.unpack_from(data, at)[0] for at in places), count, entries)


def keep_newest(entries: Iterable[Entry]) -> list[Entry]:
    """The entries by image key; of several with one key the newest."""
    newest: dict[bytes, Entry] = {}
    for entry in sorted(entries, key=lambda entry: (entry.sequence, entry.segment)):
        newest[entry.key] = entry
    return [newest[key] for key in sorted(newest)]


def format_index(entries: Iterable[Entry]) -> bytes:
    """The bytes of an index; of several entries with one image key the newest stays."""
    kept = keep_newest(entries)
    segments = sorted({entry.segment for entry in kept})
    place_of = {segment: place for place, segment in enumerate(segments)}
    numbers = range(len(kept))
    body = b"".join(
        [
            *(_U64.pack(segment) for segment in segments),
            *(
                _ENTRY.pack(
                    entry.key, entry.name, entry.fingerprint, entry.sequence, place_of[entry.segment], entry.number
                )
                for entry in kept
            ),
            *(_U32.pack(number) for number in sorted(numbers, key=lambda number: kept[number].name)),
            *(_U32.pack(number) for number in sorted(numbers, key=lambda number: kept[number].fingerprint)),
        ]
    )
    head = _HEADER.pack(_MAGIC, _SCHEMA, len(segments), len(kept), 0, bytes(32))[:24]
    return head + digest_pieces(head, body) + body
