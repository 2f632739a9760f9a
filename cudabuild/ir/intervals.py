# SPDX-License-Identifier: Apache-2.0
"""Arithmetic on intervals of integers, with the wrap-around of the kernel language.

An interval is a pair ``(lo, hi)`` of Python ints, both included. ``true_interval`` gives the mathematical result of an
operation, which may leave the type; ``fit`` says what is left of an interval after it wrapped into a type; ``evaluate``
is both::

    evaluate("add", int8, [(100, 120), (0, 7)])  ->  (100, 127)
    evaluate("add", int8, [(100, 120), (0, 8)])  ->  (-128, 127)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from cudabuild.types import Integer

__all__ = ["EXACT", "Interval", "compare", "evaluate", "fit", "join", "limits", "meet", "true_interval"]

Interval = tuple[int, int]

#: Operations whose result may leave the type before it wraps: those that ``true_interval`` knows.
EXACT = frozenset(("add", "sub", "mul", "neg", "shl", "abs", "floordiv", "wrap"))


def limits(kind: Integer) -> Interval:
    """The smallest and the largest value of an integer type."""
    if kind.signed:
        return -(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1
    return 0, (1 << kind.bits) - 1


def join(a: Interval, b: Interval) -> Interval:
    """The smallest interval that holds both."""
    return (a[0] if a[0] < b[0] else b[0], a[1] if a[1] > b[1] else b[1])


def meet(a: Interval, b: Interval) -> Interval | None:
    """What the two have in common, or None."""
    lo = a[0] if a[0] > b[0] else b[0]
    hi = a[1] if a[1] < b[1] else b[1]
    return (lo, hi) if lo <= hi else None


def fit(interval: Interval, kind: Integer) -> Interval:
    """The values of ``interval`` after they wrapped into ``kind``."""
    low, high = limits(kind)
    lo, hi = interval
    if low <= lo and hi <= high:
        return interval
    size = 1 << kind.bits
    if hi - lo < size:
        lo = (lo - low) % size + low
        hi = (hi - low) % size + low
        if lo <= hi:
            return lo, hi
    return low, high


def compare(predicate: str, a: Interval, b: Interval) -> bool | None:
    """What a comparison of two integers gives, where the intervals settle it; else None."""
    if predicate == "lt":
        return True if a[1] < b[0] else False if a[0] >= b[1] else None
    if predicate == "le":
        return True if a[1] <= b[0] else False if a[0] > b[1] else None
    if predicate == "gt":
        return compare("lt", b, a)
    if predicate == "ge":
        return compare("le", b, a)
    if a[0] == a[1] == b[0] == b[1]:
        return predicate == "eq"
    if a[1] < b[0] or b[1] < a[0]:
        return predicate == "ne"
    return None


def true_interval(op: str, kind: Integer, operands: Sequence[Interval]) -> Interval | None:
    """The mathematical results of ``op`` before any wrap, or None where the operation has no such meaning.

    A shift by more than the type's width has none. ``kind`` is the type of the result.
    """
    if op not in EXACT:
        return None
    a = operands[0]
    if op == "neg":
        return -a[1], -a[0]
    if op == "abs":
        return (0 if a[0] <= 0 <= a[1] else min(abs(a[0]), abs(a[1]))), max(abs(a[0]), abs(a[1]))
    b = operands[1]
    if op == "add":
        return a[0] + b[0], a[1] + b[1]
    if op == "sub":
        return a[0] - b[1], a[1] - b[0]
    if op == "mul":
        corners = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
        return min(corners), max(corners)
    if op == "shl":
        if b[0] < 0 or b[1] >= kind.bits:
            return None
        return min(a[0] << b[0], a[0] << b[1]), max(a[1] << b[0], a[1] << b[1])
    if op == "floordiv":
        return _floordiv(a, b)
    return _wrap(a, b)


def evaluate(op: str, kind: Integer, operands: Sequence[Interval]) -> Interval:
    """The results of ``op`` in the type ``kind``, given the intervals of its integer operands."""
    true = true_interval(op, kind, operands)
    if true is not None:
        return fit(true, kind)
    rule = _RULES.get(op)
    return rule(kind, *operands) if rule is not None else limits(kind)


def _floordiv(a: Interval, b: Interval) -> Interval:
    found = [0] if b[0] <= 0 <= b[1] else []  # x // 0 is 0
    divisors = [d for d in (b[0], b[1], 1, -1) if d != 0 and b[0] <= d <= b[1]]
    found += [n // d for n in a for d in divisors]
    return min(found), max(found)


def _wrap(index: Interval, extent: Interval) -> Interval:
    if index[0] >= 0:
        return index
    moved = index[0] + extent[0], min(index[1], -1) + extent[1]
    return moved if index[1] < 0 else join(moved, (0, index[1]))


def _mod(kind: Integer, a: Interval, b: Interval) -> Interval:
    if b[0] > 0 and a[0] >= 0 and a[1] < b[0]:
        return a
    lo = hi = 0  # x % 0 is 0, and 0 is always possible below
    if b[1] > 0:
        hi = b[1] - 1 if a[0] < 0 else min(b[1] - 1, a[1])
    if b[0] < 0:
        lo = b[0] + 1 if a[1] > 0 else max(b[0] + 1, a[0])
    return lo, hi


def _power_above(*values: int) -> int:
    """The smallest power of two p with -p <= v < p for every value."""
    return 1 << max((v if v >= 0 else ~v).bit_length() for v in values)


def _and(kind: Integer, a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return 0, min(a[1], b[1])
    if a[0] >= 0:
        return 0, a[1]
    if b[0] >= 0:
        return 0, b[1]
    return -_power_above(a[0], b[0]), max(a[1], b[1])


def _or(kind: Integer, a: Interval, b: Interval) -> Interval:
    lo = max(a[0], b[0]) if a[0] >= 0 and b[0] >= 0 else min(a[0], b[0])
    hi = -1 if a[1] < 0 or b[1] < 0 else _power_above(a[1], b[1]) - 1
    return lo, hi


def _xor(kind: Integer, a: Interval, b: Interval) -> Interval:
    if a[0] >= 0 and b[0] >= 0:
        return 0, _power_above(a[1], b[1]) - 1
    power = _power_above(*a, *b)
    return -power, power - 1


def _shl(kind: Integer, a: Interval, count: Interval) -> Interval:
    """Reached only where the count may be too large or negative (result 0 there)."""
    inside = meet(count, (0, kind.bits - 1))
    if inside is None:
        return 0, 0
    return join((0, 0), evaluate("shl", kind, (a, inside)))


def _shr(kind: Integer, a: Interval, count: Interval) -> Interval:
    last = kind.bits  # any count beyond, and any negative one, leaves the sign alone, as a shift by the width does
    inside = meet(count, (0, last))
    counts = list(inside) if inside is not None else []
    if count[0] < 0 or count[1] > last:
        counts.append(last)
    found = [v >> c for v in a for c in counts]
    return min(found), max(found)


def _inv(kind: Integer, a: Interval) -> Interval:
    high = limits(kind)[1]
    return (~a[1], ~a[0]) if kind.signed else (high - a[1], high - a[0])


_RULES: dict[str, Callable[..., Interval]] = {
    "min": lambda kind, a, b: (min(a[0], b[0]), min(a[1], b[1])),
    "max": lambda kind, a, b: (max(a[0], b[0]), max(a[1], b[1])),
    "mod": _mod,
    "and": _and,
    "or": _or,
    "xor": _xor,
    "shl": _shl,
    "shr": _shr,
    "inv": _inv,
}
