# SPDX-License-Identifier: Apache-2.0
"""The counted loop behind every ``for``.

``range(a, b)`` steps its own variable: ``i = a; while i < b: …; i += 1``. With any other step the trip count comes
first and a counter runs from 0, so that no step can overflow: ``count = (stop − 1 − start) // step + 1`` for a
positive step. A step of 0, which Python refuses at run time, makes no iterations. Arrays and tuples are iterated by
index, and so is what enumerate, zip and reversed make of them. A tuple whose elements have no common scalar type has
its loop unrolled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays
from cudabuild.frontend.impl.operators import binary, compare_numbers, unary
from cudabuild.frontend.impl.registry import kernel_name, python_function
from cudabuild.frontend.operands import (
    IteratorOperand,
    NoneOperand,
    Operand,
    SliceOperand,
    TupleOperand,
    const_of,
    describe,
    is_const,
    type_of,
)
from cudabuild.ir.hir import HirInstr, LoopKey
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, Scalar, weak_int

__all__ = ["ITERATION", "Unrolling", "count_steps", "get_step", "iterate"]

#: The longest tuple of different things that a loop is written out for.
_MOST_TURNS = 256


class Unrolling(Exception):
    """Asks for the HIR with a loop written out.

    Attributes:
        loop: which.
        turns: how many times its body comes; None for a loop after all.
    """

    def __init__(self, loop: LoopKey, turns: int | None) -> None:
        super().__init__()
        self.loop = loop
        self.turns = turns


def iterate(context: Context, what: Operand) -> IteratorOperand:
    """What ``for`` makes of ``what``."""
    if isinstance(what, IteratorOperand):
        return what
    if isinstance(what, Value) and isinstance(what.type, Array) and what.type.ndim > 0:
        return IteratorOperand("array", (what,))
    if context.elements(what) is not None:
        return IteratorOperand("tuple", (what,))
    raise Refusal(
        "this cannot be iterated over",
        found=describe(what),
        expected="range(…), an array, a tuple, or enumerate, zip or reversed of these",
        do="write: for i in range(n)",
        operand=0,
    )


def _iterate(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    iterator = iterate(context, operands[0])
    written = instr.attrs.get("turns")
    turns = None
    if written is not None or _differs(context, iterator):
        steps = count_steps(context, iterator)
        turns = int(const_of(steps)) if is_const(steps) else None
        if turns is not None and turns > _MOST_TURNS:
            raise Refusal(
                "a loop over a long tuple of different things",
                found=f"{turns} elements",
                expected=f"at most {_MOST_TURNS}: such a loop is written out",
                do="use an array",
                operand=0,
            )
    if turns != written:
        raise Unrolling(instr.attrs["loop"], turns)
    return iterator


def _differs(context: Context, iterator: IteratorOperand) -> bool:
    """Whether the items have no type in common that can be chosen from at run time."""
    if iterator.kind == "unrolled":
        return True
    if iterator.kind == "tuple":
        elements = context.elements(iterator.parts[0]) or ()
        kinds = {type_of(element) for element in elements}
        return len(kinds) > 1 or not all(isinstance(kind, Scalar) for kind in kinds)
    inner = [part for part in iterator.parts if isinstance(part, IteratorOperand)]
    return any(_differs(context, part) for part in inner)


def _unit(iterator: IteratorOperand) -> bool:
    if iterator.kind != "range":
        return False
    step = iterator.parts[-1]
    return is_const(step) and bool(const_of(step) == 1)


def _steps(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    return iterator.parts[1] if _unit(iterator) else count_steps(context, iterator)


def count_steps(context: Context, iterator: IteratorOperand) -> Value:
    """How many items there are."""
    if iterator.kind == "array":
        return arrays.dim(context, _value(iterator.parts[0]), 0)
    if iterator.kind == "tuple":
        elements = context.elements(iterator.parts[0])
        assert elements is not None
        return context.weak(len(elements))
    if iterator.kind != "range":
        counts = [count_steps(context, part) for part in iterator.parts if isinstance(part, IteratorOperand)]
        known = [int(const_of(count)) for count in counts if is_const(count)]
        least: Value | None = context.weak(min(known, default=0)) if known or not counts else None
        for count in counts:
            if not is_const(count):
                least = count if least is None else context.emit("min", weak_int, least, count)
        assert least is not None
        return least
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


def _first(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    return iterator.parts[0] if _unit(iterator) else context.weak(0)


def _more(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    _, position, steps = operands
    return compare_numbers(context, "<", position, steps)


def _advance(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    return binary(context, "+", operands[1], context.weak(1))


def _step(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    iterator: IteratorOperand = operands[0]
    position = _value(operands[1])
    if _unit(iterator):
        return context.cast(_number(context, iterator, position), iterator.item)
    return get_step(context, iterator, position)


def _item_at(context: Context, instr: HirInstr, operands: list[Any]) -> Operand:
    return get_step(context, operands[0], context.weak(instr.attrs["position"]))


def get_step(context: Context, iterator: IteratorOperand, position: Value) -> Operand:
    """The item at ``position``, from 0."""
    kind, parts = iterator.kind, iterator.parts
    if kind == "range":
        if _unit(iterator):
            position = _value(binary(context, "+", parts[0], position))
        return context.cast(_number(context, iterator, position), iterator.item)
    if kind in ("array", "tuple"):
        return arrays.get_item(context, parts[0], position)
    inner = [part for part in parts if isinstance(part, IteratorOperand)]
    if kind == "reversed":
        last = _value(binary(context, "-", count_steps(context, inner[0]), context.weak(1)))
        position = _value(binary(context, "-", last, position))
    items = tuple(get_step(context, part, position) for part in inner)
    if kind == "enumerate":
        return TupleOperand((binary(context, "+", parts[1], position), *items))
    return TupleOperand(items) if kind == "zip" else items[0]


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


@python_function(enumerate)
def enumerate_(context: Context, iterable: Operand, start: Operand | None = None) -> Operand:
    """Rule."""
    first = context.weak(0) if start is None else context.integer(start, "the start of enumerate", 2)
    return IteratorOperand("enumerate", (iterate(context, iterable), first))


@python_function(zip)
def zip_(context: Context, *iterables: Operand, strict: Operand | None = None) -> Operand:
    """Rule; ``strict`` changes nothing: the shortest ends the loop."""
    return IteratorOperand("zip", tuple(iterate(context, iterable) for iterable in iterables))


@python_function(reversed)
def reversed_(context: Context, sequence: Operand) -> Operand:
    """Rule."""
    return IteratorOperand("reversed", (iterate(context, sequence),))


@python_function(slice)
def slice_(context: Context, *bounds: Operand) -> Operand:
    """Rule."""
    if not 1 <= len(bounds) <= 3:
        raise Refusal(
            "wrong arguments for slice",
            found=f"{len(bounds)} arguments",
            expected="slice(stop), slice(start, stop) or slice(start, stop, step)",
            do="give one to three integers, or None",
        )
    parts = [None if isinstance(bound, NoneOperand) else bound for bound in bounds]
    start, stop, step = [None, *parts, None] if len(parts) == 1 else [*parts, None][:3]
    return SliceOperand(start, stop, step)


@kernel_name("literal_unroll")
def literal_unroll(context: Context, sequence: Operand) -> Operand:
    """Rule."""
    return IteratorOperand("unrolled", (iterate(context, sequence),))


@kernel_name("literally")
def literally(context: Context, x: Operand) -> Operand:
    """Rule."""
    if isinstance(x, Value) and not is_const(x):
        raise Refusal(
            "cuda.literally of something that is not a constant",
            found=describe(x),
            expected="a value that is known before the kernel runs",
            do="pass a number, or a global that holds one",
            operand=1,
        )
    return x


@python_function(tuple)
def tuple_(context: Context, iterable: Operand | None = None) -> Operand:
    """Rule: of what has a number of items that is known before the kernel runs."""
    if iterable is None:
        return TupleOperand(())
    elements = context.elements(iterable)
    if elements is not None:
        return TupleOperand(elements)
    iterator = iterate(context, iterable)
    steps = count_steps(context, iterator)
    if not is_const(steps):
        raise Refusal(
            "a tuple of a number of elements that is not a constant",
            found=describe(iterable),
            expected="a tuple, a range of constants, or enumerate, zip or reversed of these",
            do="index the elements: (x[0], x[1])",
            operand=1,
        )
    items = (get_step(context, iterator, context.weak(position)) for position in range(int(const_of(steps))))
    return TupleOperand(tuple(items))


def _value(operand: Operand) -> Value:
    assert isinstance(operand, Value)
    return operand


ITERATION: dict[str, Callable[[Context, HirInstr, list[Any]], Operand]] = {
    "iterate": _iterate,
    "steps": _steps,
    "first": _first,
    "more": _more,
    "advance": _advance,
    "step": _step,
    "item_at": _item_at,
}
