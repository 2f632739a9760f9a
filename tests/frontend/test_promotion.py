# SPDX-License-Identifier: Apache-2.0
"""The promotion table against NumPy 2 itself."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild.frontend.promotion import join_types, promote
from cudabuild.types import (
    Array,
    Tuple,
    bfloat16,
    bool_,
    float32,
    float64,
    int32,
    int64,
    none,
    scalar_by_name,
    weak_complex,
    weak_float,
    weak_int,
)

NAMES = [
    "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64",
    "complex64", "complex128",
]  # fmt: skip


@pytest.mark.parametrize("left", NAMES)
@pytest.mark.parametrize("right", NAMES)
def test_typed_numbers_promote_as_in_numpy(left: str, right: str) -> None:
    a, b = scalar_by_name(left), scalar_by_name(right)
    assert a is not None
    assert b is not None
    assert promote(a, b).name == np.result_type(left, right).name


@pytest.mark.parametrize("name", NAMES)
def test_weak_numbers_promote_as_in_numpy(name: str) -> None:
    kind = scalar_by_name(name)
    assert kind is not None
    scalar = np.dtype(name).type(1)
    assert promote(weak_int, kind).name == (scalar + 1).dtype.name
    assert promote(kind, weak_float).name == (scalar + 1.0).dtype.name
    assert promote(kind, weak_complex).name == (scalar + 1j).dtype.name


def test_weak_numbers_among_themselves_stay_weak() -> None:
    assert promote(weak_int, weak_int) == weak_int
    assert promote(weak_int, weak_float) == weak_float
    assert promote(weak_complex, weak_float) == promote(weak_int, weak_complex) == weak_complex
    assert promote(bool_, bool_) == weak_int
    assert promote(bool_, float32) == float32


def test_bfloat16_promotes_like_float16() -> None:
    for name, wanted in (
        ("bfloat16", "bfloat16"), ("float16", "float32"), ("float32", "float32"), ("float64", "float64"),
        ("int8", "bfloat16"), ("uint8", "bfloat16"), ("int16", "float32"), ("int32", "float64"), ("uint64", "float64"),
        ("bool", "bfloat16"), ("int", "bfloat16"), ("float", "bfloat16"), ("complex", "complex64"),
        ("complex64", "complex64"), ("complex128", "complex128"),
    ):  # fmt: skip
        other = scalar_by_name(name)
        assert other is not None
        assert promote(bfloat16, other).name == promote(other, bfloat16).name == wanted, name


def test_variables_join_by_promotion() -> None:
    assert join_types(weak_int, float32) == float32
    assert join_types(int32, int64) == int64
    assert join_types(Tuple([weak_int, float32]), Tuple([weak_float, weak_int])) == Tuple([weak_float, float32])
    assert join_types(float32, none) is None
    c, f = Array(float32, 2, "C"), Array(float32, 2, "F")
    assert join_types(c, f) == Array(float32, 2, "A")
    assert join_types(c, Array(float64, 2, "C")) is None
    assert join_types(c, c.with_(space="shared")) == c.with_(space="generic")
