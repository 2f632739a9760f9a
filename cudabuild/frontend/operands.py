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
from cudabuild.ir.hir import InnerFunction
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, Scalar, Tuple, Type, bool_, none, weak_int
from cudabuild.types.named import EnumMember

__all__ = [
    "ClosureOperand",
    "Conflict",
    "IteratorOperand",
    "MethodOperand",
    "NoneOperand",
    "Operand",
    "OptionalOperand",
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
    "leaves_of",
    "map_leaves",
    "type_of",
]


@dataclass(frozen=True, eq=False)
class Static:
    """A Python object known at compile time: a function, module, type, string …"""

    value: Any


@dataclass(frozen=True, eq=False)
class TupleOperand:
    """A tuple whose elements are operands: constants and compile-time objects stay what they are.

    ``kind`` is the tuple type with names that it has, its elements' types aside; None for a plain tuple.
    """

    elements: tuple[Operand, ...]
    kind: Tuple | None = None


@dataclass(frozen=True, eq=False)
class SliceOperand:
    """``start:stop:step`` as an index."""

    start: Operand | None
    stop: Operand | None
    step: Operand | None


@dataclass(frozen=True, eq=False)
class IteratorOperand:
    """What a ``for`` iterates over. ``kind`` is ``range`` (parts: start, stop, step), ``array`` or ``tuple`` (parts:
    it), ``enumerate`` (parts: an iterator, the first number), ``zip`` (parts: iterators), ``reversed`` or ``unrolled``
    (parts: an iterator). ``item`` is the type that a range's numbers are given out in."""

    kind: str
    parts: tuple[Operand, ...]
    item: Scalar = weak_int


@dataclass(frozen=True, eq=False)
class OptionalOperand:
    """None or a value, which of the two is known at run time only: ``present`` is false for None."""

    present: Value
    value: Operand


@dataclass(frozen=True, eq=False)
class ClosureOperand:
    """A function or lambda written inside a function that is compiled.

    Attributes:
        inner: how it was written.
        frame: the inference of the function that made it.
        captured: what its captured variables stand for, by name; nothing while it rests in the frame whose variables
            they are: they are filled in where it is called, passed on or returned.
        origins: the frame and the name of each captured variable.
        defaults: of the parameters that have one, by name.
    """

    inner: InnerFunction
    frame: Any
    captured: dict[str, Operand]
    origins: dict[str, tuple[Any, str]]
    defaults: dict[str, Operand]

    def with_parts(self, captured: dict[str, Operand], defaults: dict[str, Operand]) -> ClosureOperand:
        """This function with other captured values and defaults."""
        return ClosureOperand(self.inner, self.frame, captured, self.origins, defaults)


@dataclass(frozen=True, eq=False)
class MethodOperand:
    """A method of a value: ``a.fill``, to be called."""

    base: Operand
    name: str


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
    | OptionalOperand
    | ClosureOperand
    | MethodOperand
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
        by_value = isinstance(operand.value, (Type, str, bytes))
        return ("static", type(operand.value), operand.value if by_value else id(operand.value))
    if isinstance(operand, TupleOperand):
        return ("tuple", operand.kind and operand.kind.label, *map(key_of, operand.elements))
    if isinstance(operand, SliceOperand):
        return ("slice", key_of(operand.start), key_of(operand.stop), key_of(operand.step))
    if isinstance(operand, IteratorOperand):
        return ("iterator", operand.kind, operand.item.name, *map(key_of, operand.parts))
    if isinstance(operand, OptionalOperand):
        return ("optional", key_of(operand.present), key_of(operand.value))
    if isinstance(operand, ClosureOperand):
        parts = [*operand.captured.items(), *operand.defaults.items()]
        return ("closure", id(operand.inner), id(operand.frame), *((name, key_of(part)) for name, part in parts))
    if isinstance(operand, MethodOperand):
        return ("method", operand.name, key_of(operand.base))
    return (type(operand).__name__,)


def map_leaves(operand: Operand, change: Callable[[Value], Operand]) -> Operand:
    """The operand with each run-time value and constant in it, in a fixed order, replaced by ``change`` of it."""

    def inside(part: Operand) -> Operand:
        return map_leaves(part, change)

    if isinstance(operand, Value):
        return change(operand)
    if isinstance(operand, TupleOperand):
        return TupleOperand(tuple(map(inside, operand.elements)), operand.kind)
    if isinstance(operand, SliceOperand):
        parts = (operand.start, operand.stop, operand.step)
        return SliceOperand(*(None if part is None else inside(part) for part in parts))
    if isinstance(operand, IteratorOperand):
        return IteratorOperand(operand.kind, tuple(map(inside, operand.parts)), operand.item)
    if isinstance(operand, OptionalOperand):
        present = change(operand.present)
        assert isinstance(present, Value)
        return OptionalOperand(present, inside(operand.value))
    if isinstance(operand, ClosureOperand):
        captured = {name: inside(part) for name, part in operand.captured.items()}
        defaults = {name: inside(part) for name, part in operand.defaults.items()}
        return operand.with_parts(captured, defaults)
    if isinstance(operand, MethodOperand):
        return MethodOperand(inside(operand.base), operand.name)
    return operand


def leaves_of(operand: Operand) -> list[Value]:
    """The run-time values in an operand, constants left out, in the order of :func:`map_leaves`."""
    found: list[Value] = []

    def note(value: Value) -> Value:
        if not is_const(value):
            found.append(value)
        return value

    map_leaves(operand, note)
    return found


def type_of(operand: Operand) -> Type | None:
    """The type that the operand has as run-time data, or None where it has none."""
    if isinstance(operand, Value):
        return operand.type
    if isinstance(operand, NoneOperand):
        return none
    if isinstance(operand, TupleOperand):
        elements = [type_of(element) for element in operand.elements]
        known = [element for element in elements if element is not None]
        if len(known) != len(elements):
            return None
        return Tuple(known) if operand.kind is None else operand.kind.with_elements(known)
    return None


def describe(operand: Operand) -> str:
    """For messages: ``float32``, ``int 3``, ``function 'f'``, ``module 'math'`` …"""
    if isinstance(operand, Value) and isinstance(operand.type, EnumMember):
        return operand.type.describe(const_of(operand) if is_const(operand) else None)
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
    if isinstance(operand, OptionalOperand):
        return f"None or {describe(operand.value)}"
    if isinstance(operand, ClosureOperand):
        return f"function {operand.inner.name!r}"
    if isinstance(operand, MethodOperand):
        return f"method {operand.name!r} of {describe(operand.base)}"
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
    parted = _join_parts(variable, old, new, make, table)
    if parted is not None:
        return parted
    first, second = type_of(old), type_of(new)
    if first != second:
        first, second = _plain_number(first), _plain_number(second)
    if first is not None and second is not None:
        common = table.join(first, second)
        if common is not None:
            return make(common)
    return Conflict(variable, describe(_plain(old, make)), describe(_plain(new, make)))


def _plain_number(kind: Type | None) -> Type | None:
    """What a member of an enum is beside something else: an IntEnum's a number, any other nothing."""
    if isinstance(kind, EnumMember):
        return weak_int if kind.is_integer else None
    return kind


def _join_parts(
    variable: str, old: Operand, new: Operand, make: Callable[[Type], Value], table: Table
) -> Operand | None:
    """The join of two operands of one structure, part by part; None where they are not alike, or a part is not."""

    def both(first: Operand, second: Operand) -> Operand:
        return join(variable, first, second, make, table)

    if isinstance(old, (NoneOperand, OptionalOperand)) or isinstance(new, (NoneOperand, OptionalOperand)):
        sides = [side.value if isinstance(side, OptionalOperand) else side for side in (old, new)]
        values = [side for side in sides if not isinstance(side, NoneOperand)]
        value = values[0] if len(values) == 1 else both(*values)
        return None if isinstance(value, Conflict) else OptionalOperand(make(bool_), value)
    joined: list[Operand] = []
    if isinstance(old, TupleOperand) and isinstance(new, TupleOperand):
        if len(old.elements) != len(new.elements):
            return None
        joined = [both(a, b) for a, b in zip(old.elements, new.elements, strict=True)]
        same = (old.kind and old.kind.label) == (new.kind and new.kind.label)
        result: Operand = TupleOperand(tuple(joined), old.kind if same else None)
    elif isinstance(old, IteratorOperand) and isinstance(new, IteratorOperand):
        if old.kind != new.kind or len(old.parts) != len(new.parts):
            return None
        joined = [both(a, b) for a, b in zip(old.parts, new.parts, strict=True)]
        result = IteratorOperand(old.kind, tuple(joined), old.item)
    elif isinstance(old, ClosureOperand) and isinstance(new, ClosureOperand):
        if old.inner is not new.inner or old.frame is not new.frame:
            return None
        captured = {name: both(part, new.captured[name]) for name, part in old.captured.items()}
        defaults = {name: both(part, new.defaults[name]) for name, part in old.defaults.items()}
        result = old.with_parts(captured, defaults)
    elif isinstance(old, SliceOperand) and isinstance(new, SliceOperand):
        pairs = [(old.start, new.start), (old.stop, new.stop), (old.step, new.step)]
        if any((a is None) != (b is None) for a, b in pairs):
            return None
        parts = [None if a is None or b is None else both(a, b) for a, b in pairs]
        joined = [part for part in parts if part is not None]
        result = SliceOperand(*parts)
    else:
        return None
    return None if any(isinstance(part, Conflict) for part in joined) else result


def _plain(operand: Operand, make: Callable[[Type], Value]) -> Operand:
    """Without a constant's value, which would distract in a message about types."""
    if is_const(operand) and isinstance(operand, Value) and isinstance(operand.type, (Scalar, Array)):
        return make(operand.type)
    return operand
