# SPDX-License-Identifier: Apache-2.0
"""The counted loop behind every ``for``.

``range(a, b)`` steps its own variable: ``i = a; while i < b: …; i += 1``. With any other step the trip count comes
first and a counter runs from 0, so that no step can overflow: ``count = (stop − 1 − start) // step + 1`` for a
positive step. A step of 0, which Python refuses at run time, makes no iterations. Arrays and tuples are iterated by
index.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays
from cudabuild.frontend.impl.operators import binary, compare_numbers, unary
from cudabuild.frontend.operands import IteratorOperand, Operand, const_of, describe, is_const
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, weak_int

__all__ = ["ITERATION"]


def _iterate(context: Context, operands: list[Any]) -> Operand:
    what = operands[0]
    if isinstance(what, IteratorOperand):
        return what
    if isinstance(what, Value) and isinstance(what.type, Array) and what.type.ndim > 0:
        return IteratorOperand("array", (what,))
    if context.elements(what) is not None:
        return IteratorOperand("tuple", (what,))
    raise Refusal(
        "this cannot be iterated over",
        found=describe(what),
        expected="range(…), an array or a tuple",
        do="write: for i in range(n)",
        operand=0,
    )


def _unit(iterator: IteratorOperand) -> bool:
    step = iterator.parts[-1]
    return iterator.kind == "range" and is_const(step) and const_of(step) == 1


def _steps(context: Context, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    if iterator.kind == "array":
        array = iterator.parts[0]
        assert isinstance(array, Value)
        return arrays.dim(context, array, 0)
    if iterator.kind == "tuple":
        elements = context.elements(iterator.parts[0])
        assert elements is not None
        return context.weak(len(elements))
    if _unit(iterator):
        return iterator.parts[1]
    start, stop, step = (_value(part) for part in iterator.parts)
    sign = _sign(step)
    if sign > 0:
        return _count(context, start, stop, step)
    if sign < 0:
        return _count(context, stop, start, _value(unary(context, "-", step)))
    upwards = _count(context, start, stop, step)
    downwards = _count(context, stop, start, _value(unary(context, "-", step)))
    zero = context.weak(0)
    negative = context.emit("select", weak_int, compare_numbers(context, "<", step, zero), downwards, zero)
    return context.emit("select", weak_int, compare_numbers(context, ">", step, zero), upwards, negative)


def _count(context: Context, low: Value, high: Value, step: Value) -> Value:
    """How many steps of ``step`` > 0 lead from ``low`` to below ``high``."""
    last = _value(binary(context, "-", _value(binary(context, "-", high, context.weak(1))), low))
    steps = _value(binary(context, "+", _value(binary(context, "//", last, step)), context.weak(1)))
    some = compare_numbers(context, "<", low, high)
    if is_const(some):
        return steps if const_of(some) else context.weak(0)
    return context.emit("select", weak_int, some, steps, context.weak(0))


def _first(context: Context, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    return iterator.parts[0] if _unit(iterator) else context.weak(0)


def _more(context: Context, operands: list[Any]) -> Operand:
    _, position, steps = operands
    return compare_numbers(context, "<", position, steps)


def _advance(context: Context, operands: list[Any]) -> Operand:
    return binary(context, "+", operands[1], context.weak(1))


def _step(context: Context, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    position = _value(operands[1])
    if iterator.kind != "range":
        return arrays.get_item(context, iterator.parts[0], position)
    return context.cast(_number(context, iterator, position), iterator.item)


def _number(context: Context, iterator: IteratorOperand, position: Value) -> Value:
    """The number of a range at ``position``."""
    start, stop, step = (_value(part) for part in iterator.parts)
    if _unit(iterator):
        return position if is_const(position) else context.emit("within", weak_int, position, start, stop)
    item = _value(binary(context, "+", start, _value(binary(context, "*", position, step))))
    if is_const(item):
        return item
    sign = _sign(step)
    one = context.weak(1)
    if sign > 0:
        return context.emit("within", weak_int, item, start, stop)
    if sign < 0:
        low, high = _value(binary(context, "+", stop, one)), _value(binary(context, "+", start, one))
        return context.emit("within", weak_int, item, low, high)
    return item


def _sign(step: Value) -> int:
    """1 or -1 where the sign of a step is known, else 0. Sizes of blocks and grids are positive."""
    if is_const(step):
        value = int(const_of(step))
        return (value > 0) - (value < 0)
    if isinstance(step, Instr):
        if step.op == "gridsize":
            return 1
        if step.op == "sreg":
            return 1 if step.attrs["register"].split(".")[0] in ("ntid", "nctaid") else 0
        if step.op == "cast" or (step.op == "neg"):
            sign = _sign(step.operands[0])
            return -sign if step.op == "neg" else sign
        if step.op == "mul":
            return _sign(step.operands[0]) * _sign(step.operands[1])
    return 0


def _value(operand: Operand) -> Value:
    assert isinstance(operand, Value)
    return operand


ITERATION: dict[str, Callable[[Context, list[Any]], Operand]] = {
    "iterate": _iterate,
    "steps": _steps,
    "first": _first,
    "more": _more,
    "advance": _advance,
    "step": _step,
}
