# SPDX-License-Identifier: Apache-2.0
"""Records, texts and times: their spelling, their layout, NumPy's dtypes and back."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from cudabuild.errors import SignatureError
from cudabuild.types import Array, Record, as_dtype, from_dtype, parse_signature, parse_signatures
from cudabuild.types.record import natural_alignment

INNER = np.dtype([("i", "i4"), ("j", "f4", (3, 3))])
DTYPES = [
    np.dtype([("a", "f8"), ("b", "i4"), ("c", "c8"), ("d", "u1", 5)], align=True),
    np.dtype([("a", "f8"), ("b", "i4"), ("c", "c8"), ("d", "u1", 5)]),
    np.dtype([("x", "i4"), ("y", INNER), ("z", INNER, (2,))]),
    np.dtype([("flag", "?"), ("when", "M8[D]"), ("span", "m8[25s]"), ("name", "S3"), ("text", "U4")]),
    np.dtype([("two words", "f2"), ("ä,;:'\\ @=", "u8"), ("", "i1")][:2]),
    np.dtype({"names": ["lo", "all"], "formats": ["u2", "u4"], "offsets": [0, 0], "itemsize": 8}),
    np.dtype("M8"), np.dtype("m8[ns]"), np.dtype("S1"), np.dtype("U12"), np.dtype("f2"), np.dtype("?"),
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtypes_and_texts_round_trip(dtype: np.dtype) -> None:
    kind = from_dtype(dtype)
    assert as_dtype(kind) == dtype
    assert kind.size == dtype.itemsize
    for array in (kind[:], Array(kind, 2, "C", readonly=True), Array(kind, 0, "C")):
        assert parse_signature(array.name) == (array,)
        assert parse_signature(f"float32, {array.name}, int") == (
            *parse_signature("f4"),
            array,
            *parse_signature("int"),
        )
    assert pickle.loads(pickle.dumps(kind)) == kind


@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype.names], ids=str)
def test_alignment_is_a_c_structures_where_numpy_lays_it_out_so(dtype: np.dtype) -> None:
    kind = from_dtype(dtype)
    assert isinstance(kind, Record)
    like_c = np.dtype([(m.name, as_dtype(m.dtype), m.shape) for m in kind.members], align=True)
    if like_c == dtype:
        assert kind.alignment == like_c.alignment
    assert kind.size % kind.alignment == 0
    for member in kind.members:
        assert member.offset % kind.alignment_of(member) == 0
        assert natural_alignment(member.dtype) == 1 or kind.alignment_of(member) <= kind.alignment


def test_packed_members_know_what_their_addresses_divide_by() -> None:
    kind = from_dtype(np.dtype([("a", "i4"), ("b", "f8"), ("c", "i2"), ("d", "i2")]))
    assert isinstance(kind, Record)
    assert kind.alignment == 8  # 16 bytes, so an aligned array of them keeps aligned
    assert [kind.alignment_of(member) for member in kind.members] == [8, 4, 4, 2]


def test_a_record_alone_is_an_array_without_axes() -> None:
    kind = from_dtype([("x", "f4")])
    assert parse_signatures((kind,)) == [(Array(kind, 0, "C"),)]
    assert parse_signature("Record(x: float32 at 0; 4)") == (Array(kind, 0, "C"),)
    assert parse_signature("void(S3, Record(x: f4 at 0; 4)[:])") == (Array(from_dtype("S3"), 0, "C"), kind[:])


def test_aliases_and_units() -> None:
    assert parse_signature("M8[D][:], m8[ms]") == (from_dtype("M8[D]")[:], from_dtype("m8[ms]"))
    assert parse_signature("datetime64[:]") == (from_dtype("M8")[:],)


@pytest.mark.parametrize("dtype", ["O", ">f4", "V8", [("a", "O")], "g"])
def test_other_dtypes_are_refused(dtype: object) -> None:
    with pytest.raises(TypeError, match="no type of a kernel"):
        from_dtype(dtype)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Record(x: float32; 4)", "offset"),
        ("Record(x: float32[:] at 0; 4)", "a number"),
        ("Record(x: spam at 0; 4)", "the type of a number"),
        ("Record('x: float32 at 0; 4)", "quote"),
        ("packed4 float64", "packed4 float32"),
    ],
)
def test_mistakes_in_a_spelling_are_told(text: str, message: str) -> None:
    with pytest.raises(SignatureError, match=message):
        parse_signature(text)
