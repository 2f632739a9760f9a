# SPDX-License-Identifier: Apache-2.0
"""Folded constants are what the device would have computed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cudabuild.definition import KernelDefinition
from cudabuild.frontend import build_ir
from cudabuild.frontend.folding import fold_binary, fold_cast, wrap_integer
from cudabuild.ir.printer import format_function
from cudabuild.types import Integer, float32, float64, int8, int32, int64, uint8, uint32, uint64, weak_int

INTEGERS = [int8, uint8, int32, uint32, int64, uint64]
integer_types = st.sampled_from(INTEGERS)
int64s = st.integers(-(2**63), 2**63 - 1)


@given(integer_types, int64s, int64s, st.sampled_from(["+", "-", "*", "&", "|", "^"]))
def test_integers_wrap_as_in_numpy(kind: Integer, a: int, b: int, operator: str) -> None:
    left, right = wrap_integer(a, kind), wrap_integer(b, kind)
    with np.errstate(over="ignore"):
        x, y = np.array([left], kind.name), np.array([right], kind.name)
        expected = {"+": x + y, "-": x - y, "*": x * y, "&": x & y, "|": x | y, "^": x ^ y}[operator][0]
    assert fold_binary(operator, left, right, kind) == int(expected)


@given(integer_types, int64s, int64s.filter(bool))
def test_floor_division_and_modulo_are_pythons(kind: Integer, a: int, b: int) -> None:
    left, right = wrap_integer(a, kind), wrap_integer(b, kind)
    if right == 0:
        assert fold_binary("//", left, right, kind) is None
        assert fold_binary("%", left, right, kind) is None
    else:
        assert fold_binary("//", left, right, kind) == wrap_integer(left // right, kind)
        assert fold_binary("%", left, right, kind) == left % right


@pytest.mark.parametrize(
    ("operator", "left", "count", "kind", "expected"),
    [
        ("<<", 1, 64, int64, 0),
        ("<<", 1, -1, int64, 0),
        (">>", -8, 64, int64, -1),
        (">>", -8, -1, int64, -1),
        (">>", 8, 99, int64, 0),
        ("<<", 1, 31, int32, -(2**31)),
        (">>", 255, 8, uint8, 0),
    ],
)
def test_shifts_are_defined(operator: str, left: int, count: int, kind: Integer, expected: int) -> None:
    assert fold_binary(operator, left, count, kind) == expected


@given(st.floats(allow_nan=True, allow_infinity=True), integer_types)
def test_floats_saturate(value: float, kind: Integer) -> None:
    low = -(1 << (kind.bits - 1)) if kind.signed else 0
    high = (1 << (kind.bits - kind.signed)) - 1
    if math.isnan(value):
        expected = 0
    elif math.isinf(value):
        expected = high if value > 0 else low
    else:
        expected = max(low, min(high, math.trunc(value)))
    assert fold_cast(value, float64, kind) == expected


def floor_of_a_constant(x):  # type: ignore[no-untyped-def]
    x[0] = math.floor(1e300)
    x[1] = math.ceil(-1e300)
    x[2] = math.trunc(-2.5)


def test_whole_parts_of_constants_saturate() -> None:
    text = format_function(build_ir(KernelDefinition(floor_of_a_constant), (int64[::1],)))  # type: ignore[arg-type]
    for value in (2**63 - 1, -(2**63), -2):
        assert f"value={value}\n" in text


@given(st.floats(allow_nan=False, width=64))
def test_float32_rounds_to_nearest(value: float) -> None:
    with np.errstate(over="ignore"):
        expected = float(np.float32(value))
    assert fold_cast(value, float64, float32) == expected


def test_large_integers_are_left_to_the_device() -> None:
    assert fold_cast(2**60 + 1, weak_int, float32) is None
    assert fold_cast(3, weak_int, float32) == 3.0
