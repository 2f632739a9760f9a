# SPDX-License-Identifier: Apache-2.0
"""Constant folding with the kernel language's own results, so that a folded value equals the computed one."""

from __future__ import annotations

import ast
import operator
from typing import Any

from cudabuild.ir import fold
from cudabuild.ir.fold import wrap_integer
from cudabuild.types import Boolean, Float, Integer, Scalar

__all__ = ["fold_binary", "fold_cast", "fold_compare", "literal_number", "wrap_integer"]


#: Operator -> the operation of the IR that computes it.
_OPERATIONS = {
    "+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod", "&": "and", "|": "or", "^": "xor",
    "<<": "shl", ">>": "shr",
}  # fmt: skip


def fold_cast(value: Any, source: Scalar, target: Scalar) -> Any:
    """The constant ``value`` of type ``source`` as ``target``; None where it is better left to run time."""
    simple = isinstance(target, (Boolean, Integer, Float))
    return fold.fold_cast(value, source, target) if simple else None


def fold_binary(operator: str, left: Any, right: Any, kind: Scalar) -> Any:
    """``left operator right`` of two constants of type ``kind``; None where it is better left to run time."""
    if isinstance(kind, Integer):
        left, right = int(left), int(right)
    elif not (isinstance(kind, Float) and kind.bits == 64):  # narrower ones may be weak, and widened yet
        return None
    return fold.fold_arithmetic(_OPERATIONS.get(operator, operator), (left, right), kind)


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
        left = literal_number(node.left)
        if left is None:
            return None
        parts = [left, literal_number(node.right)]
        if isinstance(node.op, (ast.Pow, ast.LShift)) and (parts[1] is None or abs(parts[1]) > _LARGEST_EXPONENT):
            return None
    else:
        return None
    if None in parts:
        return None
    try:
        value = _LITERAL_OPERATORS[type(node.op)](*parts)
    except (ArithmeticError, TypeError, ValueError):
        return None
    return value if type(value) in (int, float) else None
