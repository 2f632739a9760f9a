# SPDX-License-Identifier: Apache-2.0
"""Signature text and types are the same thing, both ways."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.errors import SignatureError
from cudabuild.types import (
    Array,
    Tuple,
    Type,
    float32,
    float64,
    format_signature,
    int8,
    int32,
    int64,
    none,
    parse_signature,
    parse_signatures,
    uint8,
    weak_float,
    weak_int,
)
from cudabuild.types.type import bool_, float16, int16, uint16, uint32, uint64

scalars = st.sampled_from(
    [bool_, int8, int16, int32, int64, uint8, uint16, uint32, uint64, float16, float32, float64, weak_int, weak_float]
)
arrays = st.builds(Array, scalars, st.integers(0, 4), st.sampled_from("CFA"), st.booleans())
types: st.SearchStrategy[Type] = st.recursive(
    scalars | arrays, lambda inner: st.builds(Tuple, st.lists(inner, max_size=3))
)


@given(st.lists(types, max_size=5).map(tuple))
def test_text_round_trips(signature: tuple[Type, ...]) -> None:
    assert parse_signature(format_signature(signature)) == signature
    assert parse_signature(f"void({format_signature(signature)})") == signature
    assert pickle.loads(pickle.dumps(signature)) == signature


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("void()", ()),
        ("", ()),
        ("f4, i8[:]", (float32, int64[:])),
        ("void(float32, float32[::1])", (float32, float32[::1])),
        ("float64[:, ::1], float64[::1, :], float64[:, :]", (float64[:, ::1], float64[::1, :], float64[:, :])),
        ("int, float, b1", (weak_int, weak_float, bool_)),
        ("UniTuple(int32, 2)", (Tuple([int32, int32]),)),
        ("const u1[::1]", (uint8[::1].with_(readonly=True),)),
    ],
)
def test_spellings(text: str, expected: tuple[Type, ...]) -> None:
    assert parse_signature(text) == expected


def test_arrays_without_axes() -> None:
    (kind,) = parse_signature("float32[]")
    assert kind == Array(float32, 0, "C") == float32[()] == Array(float32, 0, "A")
    assert isinstance(kind, Array)
    assert kind.layout == float32[()].layout == "C"


def test_templates_make_the_product_of_their_variables() -> None:
    found = parse_signatures("T, U[::1]", {"T": (float32, float64), "U": (int32, int64), "V": (int8,)})
    assert [format_signature(s) for s in found] == [
        "float32, int32[::1]",
        "float32, int64[::1]",
        "float64, int32[::1]",
        "float64, int64[::1]",
    ]


def test_lists_keep_their_order_and_drop_repeats() -> None:
    found = parse_signatures(["float32", (float64,), none(float32), "f8"])
    assert found == [(float32,), (float64,)]


def test_one_dimensional_fortran_order_is_c_order() -> None:
    assert Array(float32, 1, "F") == Array(float32, 1, "C")
    assert float32[::1].layout == "C"
    assert float32[:].layout == "A"


@pytest.mark.parametrize("dims", [slice(0, 3), slice(None, None, 2), 3, (slice(None, None, 1), slice(None, None, 1))])
def test_odd_dimensions_are_refused(dims: object) -> None:
    with pytest.raises(TypeError, match=r"axis|belongs"):
        float32[dims]


def test_a_list_of_something_else_is_refused() -> None:
    with pytest.raises(SignatureError, match="a tuple of cudabuild types"):
        parse_signatures([3])


def test_a_type_called_on_the_host_wraps_as_in_a_kernel() -> None:
    assert (int8(300), uint32(-1), int64(1 << 63)) == (44, 0xFFFFFFFF, -(1 << 63))
    assert int8(300).dtype == "int8"
