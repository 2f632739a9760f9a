# SPDX-License-Identifier: Apache-2.0
"""The parameter block is laid out as C lays out a struct of the same fields."""

from __future__ import annotations

import ctypes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.types import Array, Tuple, Type, float32, none, parse_signature
from cudabuild.types.layout import block_size, parameter_fields
from cudabuild.types.type import bool_, float64, int8, int16, int32, int64, uint8, uint64, weak_float, weak_int

scalars = st.sampled_from([bool_, int8, int16, int32, int64, uint8, uint64, float32, float64, weak_int, weak_float])
arrays = st.builds(Array, scalars, st.integers(0, 4), st.sampled_from("CFA"))
signatures = st.lists(scalars | arrays | st.builds(Tuple, st.lists(scalars, max_size=3)), max_size=8).map(tuple)

C_TYPES = {
    "?": ctypes.c_bool, "b": ctypes.c_int8, "B": ctypes.c_uint8, "h": ctypes.c_int16, "H": ctypes.c_uint16,
    "i": ctypes.c_int32, "I": ctypes.c_uint32, "q": ctypes.c_int64, "Q": ctypes.c_uint64,
    "f": ctypes.c_float, "d": ctypes.c_double, "P": ctypes.c_void_p,
}  # fmt: skip


@given(signatures, st.sampled_from([32, 64]))
def test_offsets_are_those_of_a_c_struct(signature: tuple[Type, ...], width: int) -> None:
    fields = parameter_fields(signature, width)
    members = [(f"f{index}", C_TYPES[field.format]) for index, field in enumerate(fields)]
    struct = type("struct", (ctypes.Structure,), {"_fields_": members})
    assert [field.offset for field in fields] == [getattr(struct, name).offset for name, _ in members]
    if fields:
        assert block_size(fields) <= ctypes.sizeof(struct) < block_size(fields) + 8
    else:
        assert block_size(fields) == 0


def test_fields_of_an_array() -> None:
    fields = parameter_fields(parse_signature("float32, float32[:, :], float32[:, ::1]"), 32)
    assert [(f.argument, f.part, f.axis, f.format, f.offset) for f in fields] == [
        (0, "value", 0, "f", 0),
        (1, "data", 0, "P", 8),
        (1, "shape", 0, "i", 16),
        (1, "shape", 1, "i", 20),
        (1, "stride", 0, "i", 24),
        (1, "stride", 1, "i", 28),
        (2, "data", 0, "P", 32),
        (2, "shape", 0, "i", 40),
        (2, "shape", 1, "i", 44),
    ]


def test_weak_numbers() -> None:
    signature = parse_signature("int, float")
    assert [f.format for f in parameter_fields(signature, 32)] == ["i", "d"]
    assert [f.format for f in parameter_fields(signature, 64)] == ["q", "d"]


def test_complex_numbers_are_two_floats_and_a_bfloat16_its_bits() -> None:
    fields = parameter_fields(parse_signature("bool, complex64, Tuple(complex), bfloat16"), 64)
    assert [(f.part, f.path, f.format, f.offset) for f in fields] == [
        ("value", (), "?", 0),
        ("real", (), "f", 4),
        ("imag", (), "f", 8),
        ("real", (0,), "d", 16),
        ("imag", (0,), "d", 24),
        ("value", (), "H", 32),
    ]


def test_what_is_no_argument() -> None:
    with pytest.raises(TypeError, match="thing cannot be a kernel argument"):
        parameter_fields((Type("thing"),), 64)


def test_none_takes_no_place() -> None:
    fields = parameter_fields((none, int32, Tuple([none, int8])), 64)
    assert [(field.argument, field.path, field.offset) for field in fields] == [(1, (), 0), (2, (1,), 4)]
