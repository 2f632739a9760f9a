# SPDX-License-Identifier: Apache-2.0
"""The cache's index file: round trip, looking up, damage."""

from __future__ import annotations

import random
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.cache.index import Entry, Index, format_index, parse_index
from cudabuild.digest import digest
from cudabuild.errors import ImageFormatError

keys = st.binary(min_size=32, max_size=32)
few = st.integers(0, 3).map(lambda number: bytes([number]) * 32)  # names and fingerprints repeat
entries = st.lists(
    st.builds(Entry, keys, few, few, st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1), st.integers(0, 2**32 - 1)),
    max_size=12,
    unique_by=lambda entry: entry.key,
)


def facts(entry: Entry) -> tuple[object, ...]:
    return (entry.key, entry.name, entry.fingerprint, entry.sequence, entry.segment, entry.number)


@given(entries)
def test_entries_round_trip(written: list[Entry]) -> None:
    index = parse_index(format_index(written))
    assert sorted(map(facts, index.entries())) == sorted(map(facts, written))
    assert set(index.segments) == {entry.segment for entry in written}
    for entry in written:
        found = index.find_key(entry.key)
        assert found is not None
        assert facts(found) == facts(entry)
    for number in range(5):
        key = bytes([number]) * 32
        for found_all, field in ((index.find_name(key), 1), (index.find_fingerprint(key), 2)):
            expected = [facts(entry) for entry in written if facts(entry)[field] == key]
            assert sorted(map(facts, found_all)) == sorted(expected)
            sequences = [entry.sequence for entry in found_all]
            assert sequences == sorted(sequences, reverse=True), "the newest first"


def test_the_newest_of_one_key_stays() -> None:
    def at(sequence: int) -> Entry:
        return Entry(b"k" * 32, b"n" * 32, b"f" * 32, sequence, sequence * 10, 0)

    (entry,) = parse_index(format_index([at(2), at(3), at(1)])).entries()
    assert entry.segment == 30


@pytest.fixture(scope="module")
def whole() -> bytes:
    return format_index(
        Entry(bytes([n]) * 32, bytes([n % 3]) * 32, bytes([n % 2]) * 32, n, n % 4, n) for n in range(10)
    )


def test_any_damage_is_noticed(whole: bytes) -> None:
    rng = random.Random(1)
    for place in [*range(60), *(rng.randrange(len(whole)) for _ in range(300))]:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        with pytest.raises(ImageFormatError):
            parse_index(bytes(damaged))
    for length in (0, 1, 55, 56, 100, len(whole) // 2, len(whole) - 1):
        with pytest.raises(ImageFormatError):
            parse_index(whole[:length])
    with pytest.raises(ImageFormatError):
        parse_index(whole + b"\0")


def test_an_empty_index_finds_nothing() -> None:
    index: Index = parse_index(format_index([]))
    assert index.find_key(bytes(32)) is None
    assert [*index.find_name(bytes(32)), *index.find_fingerprint(bytes(32)), *index.entries()] == []


def test_the_layout_is_the_documented_one(whole: bytes) -> None:
    """Reads an index by the numbers in the room's README, without the reader."""
    assert whole[:8] == b"\x93CUIX\r\n\x1a"
    schema, segments, count, reserved = struct.unpack_from("<IIII", whole, 8)
    assert (schema, segments, count, reserved) == (1, 4, 10, 0)
    assert whole[24:56] == digest(whole[:24] + whole[56:])
    assert struct.unpack_from("<4Q", whole, 56) == (0, 1, 2, 3)
    entries = [whole[88 + 112 * n : 88 + 112 * (n + 1)] for n in range(10)]
    for number, entry in enumerate(entries):
        assert (entry[:32], entry[32:64], entry[64:96]) == (
            bytes([number]) * 32,
            bytes([number % 3]) * 32,
            bytes([number % 2]) * 32,
        )
        assert struct.unpack_from("<QII", entry, 96) == (number, number % 4, number)
    names, fingerprints = (struct.unpack_from("<10I", whole, 88 + 1120 + 40 * n) for n in range(2))
    assert names == tuple(sorted(range(10), key=lambda n: n % 3))
    assert fingerprints == tuple(sorted(range(10), key=lambda n: n % 2))
    assert len(whole) == 88 + 1120 + 80


def forge(whole: bytes, at: int, form: str, value: int) -> bytes:
    forged = bytearray(whole)
    struct.pack_into(form, forged, at, value)
    return bytes(forged[:24]) + digest(bytes(forged[:24] + forged[56:])) + bytes(forged[56:])


@pytest.mark.parametrize("value", [4, 10, 2**31, 2**32 - 1])
def test_numbers_that_lie_under_a_right_digest_are_bounded(whole: bytes, value: int) -> None:
    """A digest keeps no secret: whoever writes a file can write a right one."""
    with pytest.raises(ImageFormatError, match="a segment beyond its table"):
        parse_index(forge(whole, 88 + 104, "<I", value)).find_key(bytes(32))
    for table in (0, 1):
        lying = parse_index(forge(whole, 88 + 1120 + 40 * table + 20, "<I", max(value, 10)))
        with pytest.raises(ImageFormatError, match="an entry beyond its table"):
            list((lying.find_name, lying.find_fingerprint)[table](bytes([1]) * 32))
    for at in (8, 12, 16, 20):
        with pytest.raises(ImageFormatError):
            parse_index(forge(whole, at, "<I", 77))


def test_a_table_of_segments_without_entries_is_refused() -> None:
    many = struct.pack("<8sIIII32s", b"\x93CUIX\r\n\x1a", 1, 1000, 0, 0, bytes(32)) + bytes(8000)
    with pytest.raises(ImageFormatError, match="its length"):
        parse_index(forge(many, 20, "<I", 0))


def test_a_reader_of_a_large_index_finds_what_is_whole() -> None:
    """Comparing megabytes with a digest would take longer than all the rest of a hit."""
    keys = [digest(str(number).encode()) for number in range(2000)]
    data = bytearray(format_index(Entry(key, key, key, number, 7, number) for number, key in enumerate(keys)))
    data[64 + 112 * 1000 + 3] ^= 1  # a key in the middle
    with pytest.raises(ImageFormatError, match="damaged"):
        parse_index(bytes(data))
    index = parse_index(bytes(data), whole=False)
    found = [entry for entry in map(index.find_key, keys) if entry is not None]
    assert len(found) >= 1990
    assert all(keys[entry.number] == entry.key for entry in found)
    small = bytearray(format_index(Entry(key, key, key, 0, 7, 0) for key in keys[:100]))
    small[len(small) // 2] ^= 1
    with pytest.raises(ImageFormatError, match="damaged"):
        parse_index(bytes(small), whole=False)
