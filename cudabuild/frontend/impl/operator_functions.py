# SPDX-License-Identifier: Apache-2.0
"""The ``operator`` module, and NumPy's functions that are operators: one table each, by the operator that they are."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy

from cudabuild.frontend.context import Context
from cudabuild.frontend.impl import arrays, operators
from cudabuild.frontend.impl.builtins import abs_, int_
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import NoneOperand, Operand
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Scalar

__all__: list[str] = []

#: Operator -> the functions of two operands that are it. In place or not is the same for numbers.
_BINARY: dict[str, tuple[str, ...]] = {
    "+": ("operator.add", "operator.iadd"),
    "-": ("operator.sub", "operator.isub", "numpy.subtract"),
    "*": ("operator.mul", "operator.imul", "numpy.multiply"),
    "/": ("operator.truediv", "operator.itruediv", "numpy.divide"),
    "//": ("operator.floordiv", "operator.ifloordiv", "numpy.floor_divide"),
    "%": ("operator.mod", "operator.imod", "numpy.remainder"),
    "**": ("operator.pow", "operator.ipow", "numpy.power"),
    "&": ("operator.and_", "operator.iand"),
    "|": ("operator.or_", "operator.ior"),
    "^": ("operator.xor", "operator.ixor"),
    "<<": ("operator.lshift", "operator.ilshift"),
    ">>": ("operator.rshift", "operator.irshift"),
}

_COMPARISONS: dict[str, tuple[str, ...]] = {
    "==": ("operator.eq", "numpy.equal"),
    "!=": ("operator.ne", "numpy.not_equal"),
    "<": ("operator.lt", "numpy.less"),
    "<=": ("operator.le", "numpy.less_equal"),
    ">": ("operator.gt", "numpy.greater"),
    ">=": ("operator.ge", "numpy.greater_equal"),
    "is": ("operator.is_",),
    "is not": ("operator.is_not",),
}

_UNARY: dict[str, tuple[str, ...]] = {
    "-": ("operator.neg", "numpy.negative"),
    "+": ("operator.pos", "numpy.positive"),
    "~": ("operator.invert", "operator.inv"),
    "not": ("operator.not_", "numpy.logical_not"),
}


def _register(table: dict[str, tuple[str, ...]], make: Callable[[str], Callable[..., Operand]]) -> None:
    modules: dict[str, Any] = {"operator": operator, "numpy": numpy}
    for symbol, spellings in table.items():
        for spelling in spellings:
            module, _, name = spelling.partition(".")
            python_function(getattr(modules[module], name), name=spelling)(make(symbol))


def _binary(symbol: str) -> Callable[..., Operand]:
    def rule(context: Context, a: Operand, b: Operand) -> Operand:
        return operators.binary(context, symbol, a, b)

    return rule


def _element_bits(item: Any, spelling: str, symbol: str) -> None:
    """A bitwise function of NumPy, whose result may be narrower than the operator's."""

    def narrowed(context: Context, result: Operand, *operands: Operand) -> Operand:
        kinds = [part.type for part in operands if isinstance(part, Value) and isinstance(part.type, Scalar)]
        kind = context.table.element_bits(*kinds) if len(kinds) == len(operands) else None
        return result if kind is None else context.convert(result, kind)

    if symbol == "~":

        @python_function(item, name=spelling)
        def inverted(context: Context, x: Operand) -> Operand:
            return narrowed(context, operators.unary(context, symbol, x), x)
    else:

        @python_function(item, name=spelling)
        def combined(context: Context, x1: Operand, x2: Operand) -> Operand:
            return narrowed(context, operators.binary(context, symbol, x1, x2), x1, x2)


def _comparison(symbol: str) -> Callable[..., Operand]:
    def rule(context: Context, a: Operand, b: Operand) -> Operand:
        return operators.compare(context, symbol, a, b)

    return rule


def _unary(symbol: str) -> Callable[..., Operand]:
    def rule(context: Context, a: Operand) -> Operand:
        return operators.unary(context, symbol, a)

    return rule


_ELEMENT_BITS = {
    "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^", "left_shift": "<<", "right_shift": ">>", "invert": "~",
}  # fmt: skip

_register(_BINARY, _binary)
_register(_COMPARISONS, _comparison)
_register(_UNARY, _unary)
for _name, _symbol in _ELEMENT_BITS.items():
    _element_bits(getattr(numpy, _name), f"numpy.{_name}", _symbol)


@python_function(numpy.add)
def add(context: Context, x1: Operand, x2: Operand) -> Operand:
    """NumPy's sum of two bools is a bool, where Python's ``+`` counts them."""
    both = all(isinstance(part, Value) and isinstance(part.type, Boolean) for part in (x1, x2))
    return operators.binary(context, "|" if both else "+", x1, x2)


@python_function(operator.truth)
def truth(context: Context, a: Operand) -> Operand:
    return context.truth(a)


@python_function(operator.contains)
def contains(context: Context, a: Operand, b: Operand) -> Operand:
    return operators.compare(context, "in", b, a)


@python_function(operator.getitem)
def getitem(context: Context, a: Operand, b: Operand) -> Operand:
    return arrays.get_item(context, a, b)


@python_function(operator.setitem)
def setitem(context: Context, a: Operand, b: Operand, c: Operand) -> Operand:
    arrays.set_item(context, a, b, c)
    return NoneOperand()


@python_function(numpy.logical_and)
def logical_and(context: Context, x1: Operand, x2: Operand) -> Operand:
    return operators.logical(context, "and", context.truth(x1), context.truth(x2))


@python_function(numpy.logical_or)
def logical_or(context: Context, x1: Operand, x2: Operand) -> Operand:
    return operators.logical(context, "or", context.truth(x1), context.truth(x2))


@python_function(numpy.logical_xor)
def logical_xor(context: Context, x1: Operand, x2: Operand) -> Operand:
    return operators.compare(context, "!=", context.truth(x1), context.truth(x2))


python_function(operator.abs)(abs_)
python_function(operator.index)(int_)
