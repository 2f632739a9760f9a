# SPDX-License-Identifier: Apache-2.0
"""What an HIR value stands for while types are inferred and IR is made.

An operand is either run-time data, an ``ir.Value`` (a ``const`` instruction while its value is known), or something
that exists at compile time only. Both inference and lowering work on operands with the same rules; inference merely
throws the instructions away and keeps each operand's ``key``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from cudabuild.frontend.tables import WEAK, Table
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, Scalar, Tuple, Type, none, weak_int

__all__ = [
    "Conflict",
    "IteratorOperand",
    "NoneOperand",
    "Operand",
    "Poison",
    "SliceOperand",
    "Static",
    "TupleOperand",
    "Undefined",
    "Unknown",
    "const_of",
    "describe",
    "is_const",
    "join",
    "key_of",
    "type_of",
]


@dataclass(frozen=True, eq=False)
class Static:
    """A Python object known at compile time: a function, module, type, string …"""

    value: Any


@dataclass(frozen=True, eq=False)
class TupleOperand:
    """A tuple whose elements are operands: constants and compile-time objects stay what they are."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, eq=False)
class SliceOperand:
    """``start:stop:step`` as an index."""

    start: Operand | None
    stop: Operand | None
    step: Operand | None


@dataclass(frozen=True, eq=False)
class IteratorOperand:
    """What a ``for`` iterates over. ``kind`` is ``range`` (parts: start, stop, step) or ``array`` (parts: the
    array). ``item`` is the type that a range's numbers are given out in."""

    kind: str
    parts: tuple[Operand, ...]
    item: Scalar = weak_int


@dataclass(frozen=True, eq=False)
class NoneOperand:
    """``None``, and the result of a call that returns nothing."""


@dataclass(frozen=True, eq=False)
class Undefined:
    """A variable that has no value on any path to here."""

    variable: str


@dataclass(frozen=True, eq=False)
class Poison:
    """The result of something already refused; whatever uses it keeps silent."""


@dataclass(frozen=True, eq=False)
class Unknown:
    """The result of a recursive call that is not known yet; inference comes round to it again."""


@dataclass(frozen=True, eq=False)
class Conflict:
    """A variable whose values on two paths have no common type; refused where it is used."""

    variable: str
    first: str
    second: str


Operand: TypeAlias = (
    Value
    | Static
    | TupleOperand
    | SliceOperand
    | IteratorOperand
    | NoneOperand
    | Undefined
    | Poison
    | Unknown
    | Conflict
)


def is_const(operand: Operand) -> bool:
    """Whether the operand is a constant of the kernel's own."""
    return isinstance(operand, Instr) and operand.op == "const"


def const_of(operand: Operand) -> Any:
    """The Python value of a constant operand; KeyError for anything else."""
    if not isinstance(operand, Instr) or operand.op != "const":
        raise KeyError("not a constant")
    return operand.attrs["value"]


def key_of(operand: Operand | None) -> Any:
    """A hashable summary: inference has converged when no key changes."""
    if isinstance(operand, Instr) and operand.op == "const":
        value = operand.attrs["value"]
        return ("const", operand.type.name, repr(value))
    if isinstance(operand, Value):
        return ("value", operand.type.name)
    if isinstance(operand, Static):
        return ("static", id(operand.value))
    if isinstance(operand, TupleOperand):
        return ("tuple", *map(key_of, operand.elements))
    if isinstance(operand, SliceOperand):
        return ("slice", key_of(operand.start), key_of(operand.stop), key_of(operand.step))
    if isinstance(operand, IteratorOperand):
        return ("iterator", operand.kind, operand.item.name, *map(key_of, operand.parts))
    return (type(operand).__name__,)


def type_of(operand: Operand) -> Type | None:
    """The type that the operand has as run-time data, or None where it has none."""
    if isinstance(operand, Value):
        return operand.type
    if isinstance(operand, NoneOperand):
        return none
    if isinstance(operand, TupleOperand):
        elements = [type_of(element) for element in operand.elements]
        known = [element for element in elements if element is not None]
        return Tuple(known) if len(known) == len(elements) else None
    return None


def describe(operand: Operand) -> str:
    """For messages: ``float32``, ``int 3``, ``function 'f'``, ``module 'math'`` …"""
    if isinstance(operand, Instr) and operand.op == "const":
        name = operand.type.name
        return f"{'bool' if name == 'bool' else name} {operand.attrs['value']!r}"
    kind = type_of(operand)
    if kind is not None:
        return "None" if kind == none else kind.name
    if isinstance(operand, Static):
        return _describe_object(operand.value)
    if isinstance(operand, TupleOperand):
        return f"tuple ({', '.join(map(describe, operand.elements))})"
    if isinstance(operand, SliceOperand):
        return "a slice"
    if isinstance(operand, IteratorOperand):
        return f"a {operand.kind}"
    if isinstance(operand, Undefined):
        return f"variable {operand.variable!r}, which has no value here"
    return "an unusable value"


def _describe_object(value: Any) -> str:
    import types

    if isinstance(value, types.ModuleType):
        return f"module {value.__name__!r}"
    if isinstance(value, type):
        return f"class {value.__name__!r}"
    if isinstance(value, Type):
        return f"type {value.name}"
    if isinstance(value, str):
        return f"string {value!r}"
    name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
    if callable(value) and name:
        return f"function {name!r}"
    text = repr(value)
    return f"{type(value).__name__} {text if len(text) <= 40 else text[:37] + '...'}"


def join(
    variable: str, old: Operand | None, new: Operand, make: Callable[[Type], Value], table: Table = WEAK
) -> Operand:
    """The operand of a phi: what both ``old`` (None: nothing yet) and ``new`` can become.

    Args:
        variable: the user's name, for a conflict.
        make: makes a run-time value of a type.
        table: how types meet.
    """
    if old is None or isinstance(old, (Undefined, Unknown)):
        return new
    if isinstance(new, (Undefined, Unknown)) or key_of(old) == key_of(new):
        return old
    if isinstance(old, (Poison, Conflict)):
        return old
    if isinstance(new, (Poison, Conflict)):
        return new
    if isinstance(old, TupleOperand) and isinstance(new, TupleOperand) and len(old.elements) == len(new.elements):
        elements = [join(variable, a, b, make, table) for a, b in zip(old.elements, new.elements, strict=True)]
        if not any(isinstance(element, Conflict) for element in elements):
            return TupleOperand(tuple(elements))
    first, second = type_of(old), type_of(new)
    if first is not None and second is not None:
        common = table.join(first, second)
        if common is not None:
            return make(common)
    return Conflict(variable, describe(_plain(old, make)), describe(_plain(new, make)))


def _plain(operand: Operand, make: Callable[[Type], Value]) -> Operand:
    """Without a constant's value, which would distract in a message about types."""
    if is_const(operand) and isinstance(operand, Value) and isinstance(operand.type, (Scalar, Array)):
        return make(operand.type)
    return operand
