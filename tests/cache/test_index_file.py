# SPDX-License-Identifier: Apache-2.0
"""The cache's index file: round trip, looking up, damage."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.cache.index import Entry, Index, format_index, parse_index
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
    assert index.find_name(bytes(32)) == index.find_fingerprint(bytes(32)) == index.entries() == []
