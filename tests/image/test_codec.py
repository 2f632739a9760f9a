# SPDX-License-Identifier: Apache-2.0
"""Small values as bytes: what is written is read back, and nothing else is read at all."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.errors import ImageFormatError
from cudabuild.image.codec import pack, unpack

plain = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
)
values = st.recursive(
    plain,
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
).filter(lambda value: _depth(value) <= 7)


def _depth(value: Any) -> int:
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
    return 1 + max(map(_depth, inside), default=0)


@given(values)
def test_values_round_trip_with_their_types(value: Any) -> None:
    assert repr(unpack(pack(value))) == repr(_sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return tuple(map(_sorted, value)) if isinstance(value, tuple) else value


@given(st.dictionaries(st.text(max_size=5), st.integers(0, 9), max_size=6))
def test_the_order_of_a_dict_does_not_count(value: dict[str, int]) -> None:
    assert pack(value) == pack(dict(reversed(list(value.items()))))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_a_value_or_an_error(data: bytes) -> None:
    try:
        value = unpack(data)
    except ImageFormatError:
        return
    assert unpack(pack(value)) == value or value != value


@given(values, st.data())
def test_damaged_bytes_are_a_value_or_an_error(value: Any, data: st.DataObject) -> None:
    packed = bytearray(pack(value))
    place = data.draw(st.integers(0, len(packed) - 1))
    packed[place] ^= 1 << data.draw(st.integers(0, 7))
    end = data.draw(st.integers(0, len(packed)))
    for damaged in (bytes(packed), bytes(packed[:end])):
        try:
            unpack(damaged)
        except ImageFormatError as error:
            assert "damaged description" in str(error)  # noqa: PT017


@pytest.mark.parametrize(
    "data",
    [b"", b"?", b"i\0", b"s\xff\xff\xff\xff", b"(\xff\xff\xff\xff", b"{\xff\xff\xff\xff", b"nn", b"s\1\0\0\0\xff",
     b"{\1\0\0\0nn", b"(\1\0\0\0" * 9 + b"n"],
)  # fmt: skip
def test_lying_lengths_are_refused_without_taking_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ImageFormatError):
            unpack(data)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("value", [object(), {1, 2}, [[[[[[[[[[1]]]]]]]]]], 2**70])
def test_what_cannot_be_kept(value: Any) -> None:
    with pytest.raises(Exception, match=r"cannot be kept|nested too deeply|format requires|out of range"):
        pack(value)


@given(st.binary(max_size=60) | values.map(pack), st.data())
def test_a_value_has_one_spelling(data: bytes, draw: st.DataObject) -> None:
    changed = bytearray(data)
    if changed and draw.draw(st.booleans()):
        changed[draw.draw(st.integers(0, len(changed) - 1))] ^= 1 << draw.draw(st.integers(0, 7))
    try:
        value = unpack(bytes(changed))
    except ImageFormatError:
        return
    assert pack(value) == bytes(changed)


@pytest.mark.parametrize("data", [b"{\2\0\0\0s\1\0\0\0bns\1\0\0\0an", b"{\2\0\0\0s\1\0\0\0ans\1\0\0\0an"])
def test_keys_out_of_order_are_refused(data: bytes) -> None:
    with pytest.raises(ImageFormatError, match="keys out of order"):
        unpack(data)


def test_what_is_nested_as_deeply_as_can_be_is_read_back() -> None:
    value: Any = ()
    for _ in range(7):
        value = (value,)
    assert unpack(pack(value)) == value
    with pytest.raises(TypeError, match="nested too deeply"):
        pack((value,))
    with pytest.raises(ImageFormatError):
        unpack(b"(\1\0\0\0" + pack(value))


def bombs(size: int) -> dict[str, bytes]:
    """Descriptions of ``size`` bytes that stand for as much memory as they can."""
    head = (size // 16).to_bytes(4, "little")
    return {
        "constants": b"(" + (size - 5).to_bytes(4, "little") + b"n" * (size - 5),
        "dicts": b"(" + (size // 5 - 1).to_bytes(4, "little") + b"{\0\0\0\0" * (size // 5 - 1),
        "wide": b"s" + (size - 5).to_bytes(4, "little") + b"a" * (size - 9) + "\U0001f600".encode(),
        "broken": b"s" + (size - 5).to_bytes(4, "little") + b"a" * (size - 6) + b"\xff",
        "keys": b"{" + head + b"".join(b"s\6\0\0\0%06xs\0\0\0\0" % number for number in range(size // 16)),
    }


@pytest.mark.parametrize("size", [1000, 100_000, 3_000_000])
@pytest.mark.parametrize("kind", list(bombs(100)))
def test_what_stands_for_much_memory_does_not_take_it(size: int, kind: str) -> None:
    data = bombs(size)[kind]
    tracemalloc.start()
    try:
        unpack(data)
    except ImageFormatError:
        told = False
    else:
        told = True
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= len(data) + (1 << 19) + (1 << 14)
    assert told or size > 1000 or kind == "broken"
    if told:
        assert pack(unpack(data)) == data
