# SPDX-License-Identifier: Apache-2.0
"""The digest's own tools: looking one up in a sorted table."""

from __future__ import annotations

from bisect import bisect_left

from hypothesis import given
from hypothesis import strategies as st

from cudabuild.digest import digest, find_place


@given(st.lists(st.binary(min_size=32, max_size=32)), st.binary(min_size=32, max_size=32), st.booleans())
def test_the_place_is_that_of_the_first_key_not_below(keys: list[bytes], key: bytes, known: bool) -> None:
    table = sorted(keys)
    wanted = keys[0] if keys and known else key
    assert find_place(wanted, len(table), table.__getitem__) == bisect_left(table, wanted)


def looks(table: list[bytes], key: bytes) -> int:
    """At how many keys a search looks; each may be the first look at a page of a file."""
    seen = []
    find_place(key, len(table), lambda place: seen.append(place) or table[place])
    return len(seen)


def test_among_many_digests_few_are_looked_at() -> None:
    table = sorted(digest(str(number // 2).encode()) for number in range(20000))  # both widths of every kernel
    counts = [looks(table, table[place]) for place in range(0, len(table), 37)]
    assert sum(counts) / len(counts) < 7
    assert max(counts) <= 12 + 15


def test_among_keys_that_are_no_digests_the_table_is_halved() -> None:
    """A file may hold anything."""
    for table in (
        [number.to_bytes(32, "big") for number in range(20000)],
        [bytes(8) + number.to_bytes(24, "big") for number in range(20000)],
        [bytes(32)] * 10000 + [b"\xff" * 32] * 10000,
        sorted((1 << number % 256).to_bytes(32, "big") for number in range(20000)),
    ):
        for key in (table[0], table[777], table[-1], bytes(32), b"\x80" * 32, b"\xff" * 32):
            assert find_place(key, len(table), table.__getitem__) == bisect_left(table, key)
            assert looks(table, key) <= 12 + 15
