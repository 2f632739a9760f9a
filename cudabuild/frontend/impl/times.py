# SPDX-License-Identifier: Apache-2.0
"""``datetime64`` and ``timedelta64``: arithmetic, comparison, units, NaT, by NumPy's rules.

A time is the int64 that NumPy stores; rules compute on that. Two units meet in the coarsest that divides both. Years
and months count days by the calendar where a *date* changes its unit; a span of months has no number of days.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd
from typing import Any

import numpy

from cudabuild.frontend import library_times
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import NoneOperand, Operand, Static, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, DateTime, Float, Integer, Scalar, TimeDelta, bool_, find_dtype, float64, int64

__all__ = [
    "absolute",
    "binary",
    "cast",
    "compare",
    "constant_time",
    "convert",
    "converts",
    "extreme",
    "is_time",
    "unary",
]

_NAT = -(1 << 63)
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}

#: Units of a fixed length -> attoseconds.
_LENGTHS = {
    "as": 1, "fs": 10**3, "ps": 10**6, "ns": 10**9, "us": 10**12, "ms": 10**15, "s": 10**18,
    "m": 60 * 10**18, "h": 3600 * 10**18, "D": 86400 * 10**18, "W": 7 * 86400 * 10**18,
}  # fmt: skip
#: Units of the calendar -> months.
_MONTHS = {"M": 1, "Y": 12}


def is_time(kind: Any) -> bool:
    """Whether a type is that of a date or of a span of time."""
    return isinstance(kind, (DateTime, TimeDelta))


def _split(unit: str) -> tuple[int, bool]:
    """A unit's length, and whether it is one of the calendar: ``25s`` is 25 · 10¹⁸ attoseconds, ``Y`` 12 months."""
    letters = unit.lstrip("0123456789")
    count = int(unit[: len(unit) - len(letters)] or 1)
    letters = "us" if letters == "μs" else letters
    calendar = letters in _MONTHS
    return count * (_MONTHS if calendar else _LENGTHS)[letters], calendar


def _named(length: int, calendar: bool) -> str:
    """The unit of a length, spelled with the longest unit that divides it."""
    table = _MONTHS if calendar else _LENGTHS
    letters = max((name for name in table if length % table[name] == 0), key=lambda name: table[name])
    count = length // table[letters]
    return letters if count == 1 else f"{count}{letters}"


def _common(left: str, right: str, dates: bool) -> str | None:
    """The unit that two meet in; None where months meet days, of which a span of time knows no number."""
    if left == right or not right:
        return left
    if not left:
        return right
    (first, a), (second, b) = _split(left), _split(right)
    if a != b:  # as in NumPy: the unit of a fixed length, even of weeks
        return (right if a else left) if dates else None
    both = gcd(first, second)
    return left if first == both else right if second == both else _named(both, a)


def converts(source: Scalar, target: Scalar) -> bool:
    """Whether a value of ``source`` can be stored where ``target`` is."""
    if isinstance(source, DateTime) and isinstance(target, DateTime):
        return bool(target.unit) or not source.unit
    if isinstance(source, TimeDelta) and isinstance(target, TimeDelta):
        return not source.unit or (bool(target.unit) and _common(source.unit, target.unit, dates=False) is not None)
    return isinstance(target, TimeDelta) and isinstance(source, Integer) and not isinstance(source, Boolean)


def _bits(context: Context, value: Value) -> Value:
    if is_time(value.type):
        return context.emit("retype", int64, value)
    return context.cast(value, int64)


def _as(context: Context, bits: Value, kind: Scalar) -> Value:
    return context.emit("retype", kind, bits)


def _call(context: Context, function: Any, *operands: Operand) -> Value:
    result = context.calls.call(context, function, list(operands), {})
    return context.cast(result, int64) if isinstance(result, Value) else context.emit("undef", int64)


def _in_unit(context: Context, bits: Value, source: str, target: str, date: bool) -> Value:
    """A number of units ``source`` as one of units ``target``."""
    if source == target or not source or not target:
        return bits
    (first, a), (second, b) = _split(source), _split(target)
    if a != b:
        assert date
        day = _LENGTHS["D"]
        if a:
            bits = _call(context, library_times.days_of_months, _scaled(context, bits, Fraction(first)))
            return _scaled(context, bits, Fraction(day, second))
        bits = _call(context, library_times.months_of_days, _scaled(context, bits, Fraction(first, day)))
        return _scaled(context, bits, Fraction(1, second))
    return _scaled(context, bits, Fraction(first, second))


def _scaled(context: Context, bits: Value, ratio: Fraction) -> Value:
    if ratio == 1:
        return bits
    factors = [context.const(part, int64) for part in (ratio.numerator, ratio.denominator)]
    return _call(context, library_times.rescale, bits, *factors)


def convert(context: Context, value: Value, kind: Scalar, position: int | None = None) -> Value:
    """``value`` as a time of type ``kind``: in its unit, rounded down; an integer counts a span's units."""
    if value.type == kind:
        return value
    source = value.type
    if not isinstance(source, Scalar) or not converts(source, kind):
        raise Refusal(
            f"cannot convert this to {kind.name}",
            found=describe(value),
            expected=_expected(kind),
            do="give both the same unit" if is_time(source) and is_time(kind) else "use times on both sides",
            operand=position,
        )
    if not isinstance(source, (DateTime, TimeDelta)):
        return _as(context, _bits(context, value), kind)
    assert isinstance(kind, (DateTime, TimeDelta))
    return _as(context, _rescaled(context, value, kind.unit), kind)


def cast(context: Context, value: Value, kind: Scalar) -> Value:
    """``kind(value)``, where one of them is a time: the count of its units as an integer, too."""
    if is_time(value.type) and isinstance(kind, Integer) and not isinstance(kind, Boolean):
        return context.cast(_bits(context, value), kind)
    return convert(context, value, kind, 1)


def _expected(kind: Scalar) -> str:
    if isinstance(kind, DateTime):
        return "a datetime64 in a unit"
    return "a timedelta64 in a unit that has a fixed ratio to it, or an integer" if is_time(kind) else "a number"


def _rescaled(context: Context, value: Value, unit: str) -> Value:
    kind = value.type
    assert isinstance(kind, (DateTime, TimeDelta))
    return _in_unit(context, _bits(context, value), kind.unit, unit, isinstance(kind, DateTime))


def _is_nat(context: Context, bits: Value) -> Value:
    return context.emit("cmp", bool_, bits, context.const(_NAT, int64), predicate="eq")


def _nat_if(context: Context, bits: Value, *sources: Value) -> Value:
    """``bits``, but NaT where one of the operands is."""
    nat = _is_nat(context, sources[0])
    for source in sources[1:]:
        nat = context.emit("or", bool_, nat, _is_nat(context, source))
    return context.emit("select", int64, nat, context.const(_NAT, int64), bits)


def unary(context: Context, operator: str, value: Value) -> Operand:
    """``-x`` and ``+x`` of a span of time."""
    if not isinstance(value.type, TimeDelta) or operator not in ("-", "+"):
        raise Refusal(
            f"operator '{operator}' on {value.type.name}",
            found=describe(value),
            expected="a timedelta64 after '-' or '+'",
            do="subtract two dates to get a span of time",
            operand=0,
        )
    if operator == "+":
        return value
    return _as(context, context.emit("neg", int64, _bits(context, value)), value.type)  # -NaT is NaT


def binary(context: Context, operator: str, left: Value, right: Value) -> Operand:
    """``left operator right`` where at least one of them is a time."""
    a, b = left.type, right.type
    if operator in ("+", "-"):
        found = _sum(context, operator, left, right)
    elif isinstance(a, TimeDelta) and isinstance(b, TimeDelta):
        found = _ratio(context, operator, left, right)
    elif isinstance(a, TimeDelta) and operator in ("*", "/", "//") and isinstance(b, (Integer, Float)):
        found = _scale(context, operator, left, right)
    elif isinstance(b, TimeDelta) and operator == "*" and isinstance(a, (Integer, Float)):
        found = _scale(context, operator, right, left)
    else:
        found = None
    return _refuse(operator, left, right) if found is None else found


def _refuse(operator: str, left: Value, right: Value) -> Operand:
    dates = isinstance(left.type, DateTime) and isinstance(right.type, DateTime)
    raise Refusal(
        f"operator '{operator}' on these types",
        found=f"{describe(left)} {operator} {describe(right)}",
        expected="dates that differ by a span of time, spans of time, or a span and a number",
        do="add a span, such as np.timedelta64(1, 'D'), or subtract the dates"
        if dates
        else "use times in units that have a fixed ratio",
    )


def _sum(context: Context, operator: str, left: Value, right: Value) -> Value | None:
    a, b = left.type, right.type
    if isinstance(a, DateTime) and isinstance(b, DateTime):
        kind: type[DateTime] | type[TimeDelta] | None = TimeDelta if operator == "-" else None
    elif isinstance(b, DateTime):
        kind = DateTime if operator == "+" and isinstance(a, (TimeDelta, Integer)) else None
    elif isinstance(a, DateTime):
        kind = DateTime if isinstance(b, (TimeDelta, Integer)) else None
    else:
        kind = TimeDelta if all(isinstance(t, (TimeDelta, Integer)) for t in (a, b)) else None
    if kind is None:
        return None
    units = [t.unit if isinstance(t, (DateTime, TimeDelta)) else "" for t in (a, b)]
    both_dates = isinstance(a, DateTime) and isinstance(b, DateTime)
    unit = _common(units[0], units[1], dates=both_dates or _is_calendar_date(a, b) or _is_calendar_date(b, a))
    if unit is None:
        return None
    values = [_rescaled(context, v, unit) if is_time(v.type) else _bits(context, v) for v in (left, right)]
    total = context.emit("add" if operator == "+" else "sub", int64, *values)
    return _as(context, _nat_if(context, total, *values), kind(unit))


def _is_calendar_date(date: Any, span: Any) -> bool:
    """A date in months beside a span in days: the date has days too. A span in months has none."""
    if not isinstance(date, DateTime) or not isinstance(span, TimeDelta) or not date.unit or not span.unit:
        return False
    return _split(date.unit)[1] and not _split(span.unit)[1]


def _ratio(context: Context, operator: str, left: Value, right: Value) -> Value | None:
    assert isinstance(left.type, TimeDelta)
    assert isinstance(right.type, TimeDelta)
    unit = _common(left.type.unit, right.type.unit, dates=False)
    if unit is None or operator not in ("/", "//", "%"):
        return None
    a, b = _rescaled(context, left, unit), _rescaled(context, right, unit)
    if operator == "/":
        nat = context.emit("or", bool_, _is_nat(context, a), _is_nat(context, b))
        quotient = context.emit("div", float64, context.cast(a, float64), context.cast(b, float64))
        return context.emit("select", float64, nat, context.const(float("nan"), float64), quotient)
    if operator == "//":  # an int64, which has no NaT: 0, as in NumPy
        nat = context.emit("or", bool_, _is_nat(context, a), _is_nat(context, b))
        return context.emit("select", int64, nat, context.const(0, int64), context.emit("floordiv", int64, a, b))
    rest = _nat_if(context, context.emit("mod", int64, a, b), a, b)
    zero = context.emit("cmp", bool_, b, context.const(0, int64), predicate="eq")
    return _as(context, context.emit("select", int64, zero, context.const(_NAT, int64), rest), TimeDelta(unit))


def _scale(context: Context, operator: str, span: Value, number: Value) -> Value | None:
    bits = _bits(context, span)
    assert isinstance(span.type, TimeDelta)
    if isinstance(number.type, Float):
        factor = context.cast(number, float64)
        if operator == "*":
            return _as(context, _call(context, library_times.scale_by, bits, factor), span.type)
        quotient = context.emit("div", float64, context.cast(bits, float64), factor)
        whole = _call(context, library_times.whole, bits, quotient)
        return _as(context, whole, span.type)
    count = context.cast(number, int64)
    if operator == "*":
        return _as(context, _nat_if(context, context.emit("mul", int64, bits, count), bits), span.type)
    # NumPy cuts ``span // number`` towards zero as it does ``span / number``: only span by span is rounded down.
    return _as(context, _call(context, library_times.quotient, bits, count), span.type)


def absolute(context: Context, value: Value) -> Operand:
    """``abs`` of a span of time."""
    if not isinstance(value.type, TimeDelta):
        unary(context, "-", value)  # which refuses a date
    magnitude = context.emit("abs", int64, _bits(context, value))  # |NaT| is NaT
    assert isinstance(value.type, Scalar)
    return _as(context, magnitude, value.type)


def extreme(context: Context, op: str, values: tuple[Operand, ...]) -> Operand:
    """``min`` and ``max`` by comparison, as in Python: NaT is neither less nor greater."""
    result = values[0]
    for other in values[1:]:
        operator = "<" if op == "min" else ">"
        if not isinstance(result, Value) or not isinstance(other, Value):
            raise Refusal(
                f"an argument of {op} is not a time",
                found=f"{describe(result)} and {describe(other)}",
                expected="dates, or spans of time",
                do="give times only",
                operand=1,
            )
        better = compare(context, operator, other, result)
        assert isinstance(better, Value)
        kind = result.type
        if other.type != kind and isinstance(kind, (DateTime, TimeDelta)) and isinstance(other.type, type(kind)):
            unit = _common(kind.unit, other.type.unit, dates=isinstance(kind, DateTime))
            assert unit is not None
            kind = type(kind)(unit)
        assert isinstance(kind, Scalar)
        first, second = convert(context, result, kind), convert(context, other, kind)
        result = context.emit("select", kind, better, second, first)
    return result


def compare(context: Context, operator: str, left: Value, right: Value) -> Operand:
    """A comparison; with NaT all but ``!=`` are false."""
    a, b = left.type, right.type
    dates = isinstance(a, DateTime) and isinstance(b, DateTime)
    spans = isinstance(a, (TimeDelta, Integer)) and isinstance(b, (TimeDelta, Integer))
    units = [t.unit if isinstance(t, (DateTime, TimeDelta)) else "" for t in (a, b)]
    unit = _common(units[0], units[1], dates=dates) if dates or spans else None
    if unit is None:
        return _refuse(operator, left, right)
    values = [_rescaled(context, v, unit) if is_time(v.type) else _bits(context, v) for v in (left, right)]
    result = context.emit("cmp", bool_, *values, predicate=_PREDICATES[operator])
    nat = context.emit("or", bool_, *(_is_nat(context, value) for value in values))
    if operator == "!=":
        return context.emit("or", bool_, nat, result)
    return context.emit("and", bool_, context.emit("inv", bool_, nat), result)


def constant_time(context: Context, value: Any) -> Value:
    """A ``numpy.datetime64`` or ``numpy.timedelta64`` as a constant of the kernel."""
    kind = find_dtype(value.dtype)
    assert kind is not None
    return _as(context, context.const(int(value.view("int64")), int64), kind)


def _of_constant(context: Context, make: Any, operands: tuple[Operand, ...]) -> Operand | None:
    """The time that constants give; None where they are not all constants, or give none."""
    values = []
    for operand in operands:
        if isinstance(operand, Static) and isinstance(operand.value, (str, bytes)):
            values.append(operand.value)
        elif is_const(operand):
            values.append(const_of(operand))
        else:
            return None
    try:
        return constant_time(context, make(*values))
    except (TypeError, ValueError):
        return None


def _made(
    context: Context, kind: type[DateTime] | type[TimeDelta], make: Any, operands: tuple[Operand, ...]
) -> Operand:
    name = f"numpy.{make.__name__}"
    found = _of_constant(context, make, operands)
    if found is not None:
        return found
    unit = operands[1] if len(operands) > 1 else None
    text = unit.value if isinstance(unit, Static) and isinstance(unit.value, str) else None
    value = operands[0]
    if isinstance(value, Value) and isinstance(value.type, kind):
        return value if text is None else convert(context, value, kind(text), 1)
    if isinstance(value, Value) and isinstance(value.type, Integer) and text is not None:
        return _as(context, context.cast(value, int64), kind(text))
    raise Refusal(
        f"{name} of this is not supported in a kernel",
        found=", ".join(map(describe, operands)),
        expected=f"constants, or {name}(number, 'D') with a constant unit",
        do="make it on the host, and pass it as an argument",
        operand=1,
    )


@python_function(numpy.datetime64)
def _datetime(context: Context, value: Operand, unit: Operand | None = None) -> Operand:
    return _made(context, DateTime, numpy.datetime64, (value,) if _no(unit) else (value, unit))  # type: ignore[arg-type]


@python_function(numpy.timedelta64)
def _timedelta(context: Context, value: Operand, unit: Operand | None = None) -> Operand:
    return _made(context, TimeDelta, numpy.timedelta64, (value,) if _no(unit) else (value, unit))  # type: ignore[arg-type]


def _no(unit: Operand | None) -> bool:
    return unit is None or isinstance(unit, NoneOperand)


@python_function(numpy.isnat)
def _isnat(context: Context, x: Operand) -> Operand:
    if isinstance(x, Value) and is_time(x.type):
        return _is_nat(context, _bits(context, x))
    raise Refusal(
        "numpy.isnat of something that is not a time",
        found=describe(x),
        expected="a datetime64 or a timedelta64",
        do="use math.isnan for floats",
        operand=1,
    )
