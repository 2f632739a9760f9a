# SPDX-License-Identifier: Apache-2.0
"""Moving operands between places that must agree on their structure: phis, parameters, results.

A *shape* is an operand of inference: it says which parts are run-time values (its leaves), which are constants and
compile-time objects. ``pour`` gives the run-time values of another operand for each leaf; ``rebuild`` puts such values
into the shape. A ``(int, None-or-float32)`` has three leaves: the int, whether there is a float, and the float.
"""

from __future__ import annotations

from collections.abc import Iterable

from cudabuild.frontend.context import Context
from cudabuild.frontend.operands import (
    ClosureOperand,
    IteratorOperand,
    NoneOperand,
    Operand,
    OptionalOperand,
    Poison,
    SliceOperand,
    Static,
    TupleOperand,
    Undefined,
    Unknown,
    const_of,
    is_const,
    leaves_of,
    map_leaves,
)
from cudabuild.frontend.python_integers import check_joined
from cudabuild.ir.ir import Value
from cudabuild.types import NoneType, Tuple, Type, TypeArgument, bool_, none

__all__ = ["as_parameter", "expand", "pack_type", "pour", "rebuild"]


def as_parameter(argument: Operand) -> Operand:
    """How a callee sees an argument: constants and compile-time objects as they are, the rest by type."""
    return map_leaves(argument, lambda value: value if is_const(value) else Value(value.type))


def expand(context: Context, operand: Operand) -> Operand:
    """Tuples in run-time values, and values of type none, taken apart."""

    def inside(value: Value) -> Operand:
        if isinstance(value.type, TypeArgument):
            return Static(value.type.dtype)
        if isinstance(value.type, NoneType):
            return NoneOperand()
        if not isinstance(value.type, Tuple):
            return value
        items = [context.emit("item", kind, value, index=index) for index, kind in enumerate(value.type.elements)]
        return TupleOperand(tuple(map(inside, items)), value.type if value.type.label else None)

    return map_leaves(operand, inside)


def pack_type(shape: Operand) -> Type:
    """The type of the run-time values of a shape as one IR value."""
    kinds = [leaf.type for leaf in leaves_of(shape)]
    return none if not kinds else kinds[0] if len(kinds) == 1 else Tuple(kinds)


def rebuild(context: Context, shape: Operand, values: Iterable[Value]) -> Operand:
    """The shape with ``values`` for its leaves."""
    following = iter(values)
    return map_leaves(
        shape, lambda leaf: context.const(const_of(leaf), leaf.type) if is_const(leaf) else next(following)
    )


def pour(context: Context, shape: Operand, source: Operand) -> list[Value]:
    """The run-time values of ``source`` for the leaves of ``shape``, of their types; undefined where it has none."""
    if isinstance(shape, Value):
        if is_const(shape):
            return []
        missing = isinstance(source, (Undefined, Unknown, Poison, NoneOperand))
        check_joined(context, source, shape.type)
        return [context.emit("undef", shape.type) if missing else context.convert(source, shape.type)]
    parts = _parts_of(context, shape, source)
    if parts is None:
        return [context.emit("undef", leaf.type) for leaf in leaves_of(shape)]
    return [value for part, given in parts for value in pour(context, part, given)]


def _parts_of(context: Context, shape: Operand, source: Operand) -> list[tuple[Operand, Operand]] | None:
    """The parts of a shape, each with its part of the source; None where the source has no such parts."""
    if isinstance(shape, OptionalOperand):
        if isinstance(source, OptionalOperand):
            return [(shape.present, source.present), (shape.value, source.value)]
        if isinstance(source, NoneOperand):
            return [(shape.present, context.const(False, bool_)), (shape.value, Undefined("None"))]
        missing = isinstance(source, (Undefined, Unknown, Poison))
        return None if missing else [(shape.present, context.const(True, bool_)), (shape.value, source)]
    if isinstance(shape, TupleOperand):
        elements = context.elements(source)
        return None if elements is None else list(zip(shape.elements, elements, strict=True))
    if isinstance(shape, IteratorOperand) and isinstance(source, IteratorOperand):
        return list(zip(shape.parts, source.parts, strict=True))
    if isinstance(shape, SliceOperand) and isinstance(source, SliceOperand):
        pairs = ((shape.start, source.start), (shape.stop, source.stop), (shape.step, source.step))
        return [(part, given) for part, given in pairs if part is not None and given is not None]
    if isinstance(shape, ClosureOperand) and isinstance(source, ClosureOperand):
        captured = [(part, source.captured[name]) for name, part in shape.captured.items()]
        return captured + [(part, source.defaults[name]) for name, part in shape.defaults.items()]
    return None
