# SPDX-License-Identifier: Apache-2.0
"""Interval arithmetic against every value of small types."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from interpreter import apply, true_result

from cudabuild.ir.intervals import EXACT, Interval, compare, evaluate, fit, limits, meet, true_interval
from cudabuild.types import Integer, int8, int64, uint8

BINARY = [
    "add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr", "wrap",
]  # fmt: skip
UNARY = ["neg", "inv", "abs"]
KINDS = [Integer(3, True), Integer(3, False)]


def intervals(kind: Integer) -> Iterator[Interval]:
    low, high = limits(kind)
    return ((lo, hi) for lo in range(low, high + 1) for hi in range(lo, high + 1))


def hull(values: list[int]) -> Interval:
    return min(values), max(values)


@pytest.mark.parametrize("kind", KINDS, ids=str)
@pytest.mark.parametrize("op", [*BINARY, *UNARY])
def test_every_result_lies_in_the_interval(op: str, kind: Integer) -> None:
    low, high = limits(kind)
    domain = range(low, high + 1)
    arity = 2 if op in BINARY else 1
    results = {v: apply(op, kind, v, [kind] * arity, {}) for v in itertools.product(domain, repeat=arity)}
    truths = {v: true_result(op, v, kind) for v in results}
    for operands in itertools.product(list(intervals(kind)), repeat=arity):
        inside = list(itertools.product(*(range(lo, hi + 1) for lo, hi in operands)))
        lo, hi = evaluate(op, kind, operands)
        assert low <= lo <= hi <= high
        found = hull([results[v] for v in inside])
        assert lo <= found[0], operands
        assert found[1] <= hi, operands
        true = true_interval(op, kind, operands)
        if true is not None:
            wanted = hull([truths[v] for v in inside])  # type: ignore[misc]
            assert true[0] <= wanted[0], operands
            assert wanted[1] <= true[1], operands


@pytest.mark.parametrize("op", ["add", "sub", "mul", "neg", "floordiv", "min", "max"])
def test_the_interval_is_the_smallest_where_nothing_wraps(op: str) -> None:
    kind = Integer(12, True)
    arity = 1 if op == "neg" else 2
    samples = [(-7, -7), (-5, 3), (0, 0), (0, 6), (2, 9), (-1, 1)]
    for operands in itertools.product(samples, repeat=arity):
        inside = itertools.product(*(range(lo, hi + 1) for lo, hi in operands))
        assert evaluate(op, kind, operands) == hull([apply(op, kind, v, [kind] * 2, {}) for v in inside]), operands


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_fit_holds_every_wrapped_value(kind: Integer) -> None:
    for lo in range(-20, 20):
        for hi in range(lo, 20):
            low, high = fit((lo, hi), kind)
            wrapped = [apply("cast", kind, [v], [int64], {}) for v in range(lo, hi + 1)]
            assert low <= min(wrapped)
            assert max(wrapped) <= high


@pytest.mark.parametrize("predicate", ["lt", "le", "gt", "ge", "eq", "ne"])
def test_compare_settles_what_the_values_settle(predicate: str) -> None:
    kind = Integer(3, True)
    for a, b in itertools.product(intervals(kind), repeat=2):
        pairs = itertools.product(range(a[0], a[1] + 1), range(b[0], b[1] + 1))
        results = {apply("cmp", kind, pair, [kind, kind], {"predicate": predicate}) for pair in pairs}
        assert compare(predicate, a, b) == (results.pop() if len(results) == 1 else None), (a, b)


def test_examples() -> None:
    assert evaluate("add", int8, [(100, 120), (0, 7)]) == (100, 127)
    assert evaluate("add", int8, [(100, 120), (0, 8)]) == (-128, 127)
    assert evaluate("sub", uint8, [(0, 3), (1, 1)]) == (0, 255)
    assert evaluate("mod", int64, [(-1000, 1000), (16, 16)]) == (0, 15)
    assert evaluate("and", int64, [(-1000, 1000), (255, 255)]) == (0, 255)
    assert meet((0, 5), (6, 7)) is None
    assert set(UNARY) | set(BINARY) >= EXACT
