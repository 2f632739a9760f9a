# SPDX-License-Identifier: Apache-2.0
"""Constant folding with the kernel language's own results, so that a folded value equals the computed one."""

from __future__ import annotations

import ast
import math
import operator
from typing import Any

from cudabuild.ir.fold import round_float
from cudabuild.types import Boolean, Float, Integer, Scalar

__all__ = ["fold_binary", "fold_cast", "fold_compare", "literal_number", "wrap_integer"]


def wrap_integer(value: int, kind: Integer) -> int:
    """``value`` modulo 2**bits, as a value of ``kind``."""
    value &= (1 << kind.bits) - 1
    if kind.signed and value >> (kind.bits - 1):
        value -= 1 << kind.bits
    return value


def fold_cast(value: Any, source: Scalar, target: Scalar) -> Any:
    """The constant ``value`` of type ``source`` as ``target``: integers wrap, floats saturate, NaN becomes 0."""
    if isinstance(target, Boolean):
        return bool(value)
    if isinstance(target, Integer):
        if isinstance(source, Float):
            if math.isnan(value):
                return 0
            low = -(1 << (target.bits - 1)) if target.signed else 0
            high = (1 << (target.bits - target.signed)) - 1
            if math.isinf(value):
                return high if value > 0 else low
            return max(low, min(high, int(value)))
        return wrap_integer(int(value), target)
    if isinstance(target, Float):
        if isinstance(value, int) and not isinstance(value, bool) and target.bits < 64 and abs(value) > 1 << 24:
            return None  # rounding twice, through float64, could differ by one unit
        return round_float(float(value), target)
    return None


def fold_binary(operator: str, left: Any, right: Any, kind: Scalar) -> Any:
    """``left operator right`` of two constants of type ``kind``; None where it is better left to run time."""
    if isinstance(kind, Integer):
        return _fold_integers(operator, int(left), int(right), kind)
    if isinstance(kind, Float) and kind.bits == 64:
        return _fold_floats(operator, float(left), float(right))
    return None


def _fold_integers(operator: str, left: int, right: int, kind: Integer) -> int | None:
    if operator in ("//", "%") and right == 0:
        return None  # 0, but under debug an error of the thread that comes to it
    if operator in ("<<", ">>") and not 0 <= right < kind.bits:
        return -1 if operator == ">>" and kind.signed and left < 0 else 0
    operations = {
        "+": lambda: left + right, "-": lambda: left - right, "*": lambda: left * right,
        "//": lambda: left // right, "%": lambda: left % right,
        "&": lambda: left & right, "|": lambda: left | right, "^": lambda: left ^ right,
        "<<": lambda: left << right, ">>": lambda: left >> right,
    }  # fmt: skip
    operation = operations.get(operator)
    return None if operation is None else wrap_integer(operation(), kind)


def _fold_floats(operator: str, left: float, right: float) -> float | None:
    if operator == "/":
        if right == 0.0:
            if left == 0.0 or math.isnan(left):
                return math.nan
            return math.copysign(math.inf, left) * math.copysign(1.0, right)
        return left / right
    try:
        if operator == "+":
            return left + right
        if operator == "-":
            return left - right
        if operator == "*":
            return left * right
    except OverflowError:
        return None
    return None


def fold_compare(operator: str, left: Any, right: Any) -> bool:
    """The comparison of two constants."""
    return bool(
        {
            "==": left == right, "!=": left != right, "<": left < right,
            "<=": left <= right, ">": left > right, ">=": left >= right,
        }[operator]
    )  # fmt: skip


_LITERAL_OPERATORS: dict[type[ast.AST], Any] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor,
    ast.UAdd: operator.pos, ast.USub: operator.neg, ast.Invert: operator.invert,
}  # fmt: skip

#: Python's compiler folds no larger exponents and shifts either.
_LARGEST_EXPONENT = 128


def literal_number(node: ast.AST) -> int | float | None:
    """What Python makes of operators on numbers written out, such as ``2**63``, before any type has a say; else None.

    A division by zero stays as it is written.
    """
    if isinstance(node, ast.Constant):
        number: Any = node.value
        return number if type(number) in (int, float) else None
    if isinstance(node, ast.UnaryOp) and type(node.op) in _LITERAL_OPERATORS:
        parts = [literal_number(node.operand)]
    elif isinstance(node, ast.BinOp) and type(node.op) in _LITERAL_OPERATORS:
        parts = [literal_number(node.left), literal_number(node.right)]
        if isinstance(node.op, (ast.Pow, ast.LShift)) and (parts[1] is None or abs(parts[1]) > _LARGEST_EXPONENT):
            return None
    else:
        return None
    if any(part is None for part in parts):
        return None
    try:
        value = _LITERAL_OPERATORS[type(node.op)](*parts)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value if type(value) in (int, float) else None
