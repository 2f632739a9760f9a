# SPDX-License-Identifier: Apache-2.0
"""Folded constants equal computed ones, bit by bit."""

from __future__ import annotations

import math
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import apply
from programs import INTERESTING

from cudabuild.ir.fold import fold, round_float
from cudabuild.ir.ir import Block, Builder
from cudabuild.types import (
    Boolean,
    Float,
    Integer,
    Scalar,
    Type,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int32,
    int64,
    uint8,
    uint32,
    uint64,
    weak_float,
    weak_int,
)
from cudabuild.types.brain import brain_bits

INTEGERS: list[Scalar] = [int8, uint8, int32, uint32, int64, uint64, weak_int]
FLOATS: list[Scalar] = [float16, float32, float64, weak_float]
NUMBERS = [
    0.0,
    -0.0,
    1.0,
    0.1,
    -2.5,
    3.0,
    65504.0,
    65520.0,
    3.4e38,
    3.5e38,
    1e-45,
    1e300,
    math.inf,
    -math.inf,
    math.nan,
]


def bits(value: Any) -> Any:
    """The value, with floats as their bits and all NaNs alike."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else struct.pack("<d", value)
    return value, type(value)


def folded(op: str, kind: Type, values: list[Any], kinds: list[Scalar], **attrs: Any) -> Any:
    build = Builder(Block("entry"))
    instr = build.emit(op, kind, *(build.const(v, k) for v, k in zip(values, kinds, strict=True)), **attrs)
    return fold(instr, values)


def values_of(kind: Scalar) -> st.SearchStrategy[Any]:
    if isinstance(kind, Boolean):
        return st.booleans()
    if isinstance(kind, Float):
        return st.sampled_from(NUMBERS) | st.floats(width=32)
    assert isinstance(kind, Integer)
    low = -(1 << (kind.bits - 1)) if kind.signed else 0
    high = low + (1 << kind.bits) - 1
    return st.sampled_from([v for n in INTERESTING for v in (n, -n) if low <= v <= high]) | st.integers(low, high)


def check(op: str, kind: Type, values: list[Any], kinds: list[Scalar], **attrs: Any) -> bool:
    found = folded(op, kind, values, kinds, **attrs)
    rounded = [apply("const", k, [], [], {"value": v}) for v, k in zip(values, kinds, strict=True)]
    if found is None:
        return False
    assert bits(found) == bits(apply(op, kind, rounded, kinds, attrs)), (op, kind, values)
    return True


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_integers(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(INTEGERS))
    ops = ["add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "neg", "inv", "abs"]
    op = data.draw(st.sampled_from(ops))
    values = [data.draw(values_of(kind)) for _ in range(1 if op in ("neg", "inv", "abs") else 2)]
    if op in ("shl", "shr"):
        values[1] = data.draw(st.integers(-2, 70) if isinstance(kind, Integer) and kind.signed else st.integers(0, 70))
    by_zero = op in ("floordiv", "mod") and values[1] == 0
    assert check(op, kind, values, [kind] * len(values)) is not by_zero
    a, b = data.draw(values_of(kind)), data.draw(values_of(kind))
    assert check("cmp", bool_, [a, b], [kind, kind], predicate=data.draw(st.sampled_from(("lt", "le", "eq", "ne"))))


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_floats(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(FLOATS))
    op = data.draw(st.sampled_from(["add", "sub", "mul", "div", "neg", "abs"]))
    values = [data.draw(values_of(kind)) for _ in range(1 if op in ("neg", "abs") else 2)]
    assert check(op, kind, values, [kind] * len(values))
    a, b = data.draw(values_of(kind)), data.draw(values_of(kind))
    assert check("cmp", bool_, [a, b], [kind, kind], predicate=data.draw(st.sampled_from(("gt", "ge", "eq", "ne"))))
    assert check(data.draw(st.sampled_from(("isnan", "isinf", "isfinite"))), bool_, [a], [kind])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_casts(data: st.DataObject) -> None:
    source = data.draw(st.sampled_from([*INTEGERS, *FLOATS, bool_]))
    target = data.draw(st.sampled_from([*INTEGERS, *FLOATS, bool_]))
    value = data.draw(values_of(source))
    done = check("cast", target, [value], [source])
    assert done or (isinstance(value, int) and isinstance(target, Float) and target.bits < 64 and abs(value) > 2**53)


def test_parts_of_complex_numbers() -> None:
    assert folded("complex", complex64, [0.1, -0.0], [float32, float32]) == complex(round_float(0.1, float32), -0.0)
    assert folded("part", float64, [1.5 - 2j], [complex128], index=1) == -2.0
    assert folded("part", float32, [0.1 - 2j], [complex64], index=0) == round_float(0.1, float32)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (1.0, 1.0), (1.00390625, 1.0), (1.01171875, 1.015625), (1.0039063, 1.0078125), (-1e-45, -0.0),
        (3.38953139e38, 3.3895313892515355e38), (3.4e38, math.inf), (-math.inf, -math.inf),
        (9.2e-41, 9.183549615799121e-41), (4.6e-41, 9.183549615799121e-41), (4.5e-41, 0.0),
    ],
)  # fmt: skip
def test_bfloat16(value: float, wanted: float) -> None:
    """The upper half of a float32, ties to even."""
    assert bits(round_float(value, bfloat16)) == bits(wanted)
    assert brain_bits(value) == int.from_bytes(struct.pack(">f", wanted)[:2], "big")
    assert folded("add", bfloat16, [wanted, 0.0], [bfloat16, bfloat16]) == wanted


@pytest.mark.parametrize("values", [(a, b) for a in (False, True) for b in (False, True)])
def test_bools(values: tuple[bool, bool]) -> None:
    for op in ("and", "or", "xor"):
        assert check(op, bool_, list(values), [bool_, bool_])
    assert check("inv", bool_, [values[0]], [bool_])


@pytest.mark.parametrize(
    ("op", "values", "expected"),
    [
        ("floordiv", [-7, 2], -4),
        ("mod", [-7, 2], 1),
        ("mod", [7, -2], -1),
        ("floordiv", [-(2**31), -1], -(2**31)),
        ("shl", [1, 32], 0),
        ("shr", [-5, 40], -1),
        ("shr", [-5, -1], -1),
        ("abs", [-(2**31)], -(2**31)),
        ("add", [2**31 - 1, 1], -(2**31)),
    ],
)
def test_defined_results(op: str, values: list[int], expected: int) -> None:
    assert folded(op, int32, values, [int32] * len(values)) == expected


def test_what_is_left_to_run_time() -> None:
    assert folded("floordiv", int32, [7, 0], [int32, int32]) is None  # under debug an error of the thread that does it
    assert folded("mod", int32, [7, 0], [int32, int32]) is None
    assert folded("cast", float32, [2**60 + 1], [int64]) is None  # rounding to float64 first could change the result
    assert folded("mod", float64, [1.0, 0.5], [float64, float64]) is None
    assert folded("math", float64, [1.0], [float64], function="exp") is None
