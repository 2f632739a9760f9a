# SPDX-License-Identifier: Apache-2.0
"""Comparisons of what is no plain number: None, None-or-a-value, tuples, members of enums; ``is`` and ``in``."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import operators
from cudabuild.frontend.objects import are_equal
from cudabuild.frontend.operands import NoneOperand, Operand, OptionalOperand, Static, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Scalar, bool_, weak_int
from cudabuild.types.named import EnumMember

__all__ = ["compare_objects"]

_ORDERINGS = ("<", "<=", ">", ">=")


def compare_objects(context: Context, operator: str, left: Operand, right: Operand) -> Operand | None:
    """The comparison, or None where it is one of two numbers or texts."""
    if operator in ("is", "is not"):
        return _negated(context, operator == "is not", _is(context, operator, left, right))
    if operator in ("in", "not in"):
        return _negated(context, operator == "not in", _is_in(context, operator, left, right))
    if operator in ("==", "!="):
        equal = _equals(context, left, right)
        return None if equal is None else _negated(context, operator == "!=", equal)
    first, second = context.elements(left), context.elements(right)
    if first is not None and second is not None:
        return _ordered(context, operator, first, second)
    if isinstance(left, OptionalOperand) or isinstance(right, OptionalOperand):
        sides = [side.value if isinstance(side, OptionalOperand) else side for side in (left, right)]
        return operators.compare(context, operator, *sides)
    members = [_as_number(context, side) for side in (left, right)]
    if members != [left, right]:
        return operators.compare(context, operator, *members)
    return None


def _negated(context: Context, negated: bool, value: Operand) -> Operand:
    return operators.unary(context, "not", value) if negated else value


def _member(operand: Operand) -> EnumMember | None:
    return operand.type if isinstance(operand, Value) and isinstance(operand.type, EnumMember) else None


def _as_number(context: Context, operand: Operand) -> Operand:
    kind = _member(operand)
    if kind is None or not kind.is_integer or not isinstance(operand, Value):
        return operand
    return context.cast(operand, weak_int)


def _equals(context: Context, left: Operand, right: Operand) -> Operand | None:
    """``==``; None for two numbers or texts."""
    if isinstance(left, Static) and isinstance(right, Static):
        return context.const(are_equal(left.value, right.value), bool_)
    first, second = context.elements(left), context.elements(right)
    if first is not None and second is not None:
        return _all_equal(context, first, second)
    if isinstance(left, OptionalOperand) or isinstance(right, OptionalOperand):
        return _equals_optional(context, left, right)
    if isinstance(left, NoneOperand) or isinstance(right, NoneOperand):
        return context.const(isinstance(left, NoneOperand) and isinstance(right, NoneOperand), bool_)
    kinds = [_member(left), _member(right)]
    if kinds == [None, None]:
        return None
    if not any(kind is not None and not kind.is_integer for kind in kinds):
        return operators.compare(context, "==", _as_number(context, left), _as_number(context, right))
    return _same_member(context, left, right)


def _same_member(context: Context, left: Operand, right: Operand) -> Operand:
    """Whether two operands are one member of one enum."""
    if not (isinstance(left, Value) and isinstance(right, Value) and left.type == right.type):
        return context.const(False, bool_)
    return operators.compare_numbers(context, "==", context.cast(left, weak_int), context.cast(right, weak_int))


def _equals_optional(context: Context, left: Operand, right: Operand) -> Operand:
    if isinstance(left, OptionalOperand) and isinstance(right, OptionalOperand):
        both = operators.logical(context, "and", left.present, right.present)
        values = operators.compare(context, "==", left.value, right.value)
        neither = context.emit("inv", bool_, context.emit("or", bool_, left.present, right.present))
        return operators.logical(context, "or", neither, operators.logical(context, "and", both, values))
    optional, other = (left, right) if isinstance(left, OptionalOperand) else (right, left)
    assert isinstance(optional, OptionalOperand)
    if isinstance(other, NoneOperand):
        return context.emit("inv", bool_, optional.present)
    equal = operators.compare(context, "==", optional.value, other)
    return operators.logical(context, "and", optional.present, equal)


def _all_equal(context: Context, first: tuple[Operand, ...], second: tuple[Operand, ...]) -> Operand:
    if len(first) != len(second):
        return context.const(False, bool_)
    result: Operand = context.const(True, bool_)
    for a, b in zip(first, second, strict=True):
        result = operators.logical(context, "and", result, operators.compare(context, "==", a, b))
    return result


def _ordered(context: Context, operator: str, first: tuple[Operand, ...], second: tuple[Operand, ...]) -> Operand:
    """The order of the first elements that differ; a tuple that the other begins with comes before it."""
    if not first or not second:
        shorter = {"<": len(first) < len(second), "<=": len(first) <= len(second)}
        longer = {">": len(first) > len(second), ">=": len(first) >= len(second)}
        return context.const({**shorter, **longer}[operator], bool_)
    before = operators.compare(context, operator[0], first[0], second[0])
    equal = operators.compare(context, "==", first[0], second[0])
    rest = _ordered(context, operator, first[1:], second[1:])
    return operators.logical(context, "or", before, operators.logical(context, "and", equal, rest))


def _is(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    for one, other in ((left, right), (right, left)):
        if isinstance(other, NoneOperand):
            if isinstance(one, OptionalOperand):
                return context.emit("inv", bool_, one.present)
            return context.const(isinstance(one, NoneOperand), bool_)
    if isinstance(left, Static) and isinstance(right, Static):
        return context.const(are_equal(left.value, right.value), bool_)
    kinds = [side.type if isinstance(side, Value) else None for side in (left, right)]
    if any(isinstance(kind, EnumMember) for kind in kinds):
        return _same_member(context, left, right)
    if any(isinstance(kind, Boolean) and is_const(side) for kind, side in zip(kinds, (left, right), strict=True)):
        if kinds[0] == kinds[1]:  # ``flag is True``: there is one True
            return operators.compare(context, "==", left, right)
        return context.const(False, bool_)
    equal = "==" if operator == "is" else "!="
    numbers = all(isinstance(kind, Scalar) for kind in kinds)
    raise Refusal(
        f"'{operator}' between numbers" if numbers else f"'{operator}' between things that are made anew",
        found=f"{describe(left)} {operator} {describe(right)}",
        expected=f"'{equal}', or '{operator} None'",
        do=f"write '{equal}'",
    )


def _is_in(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    elements = context.elements(right)
    if elements is None:
        raise Refusal(
            f"'{operator}' something that is not a tuple",
            found=f"{describe(left)} {operator} {describe(right)}",
            expected="a tuple on the right",
            do="write a loop over the elements",
            operand=1,
        )
    result: Operand = context.const(False, bool_)
    for element in elements:
        result = operators.logical(context, "or", result, operators.compare(context, "==", left, element))
    return result
