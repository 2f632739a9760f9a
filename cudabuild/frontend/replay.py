# SPDX-License-Identifier: Apache-2.0
"""What inference has written for an operation, written again with the values of the function being made.

Inference calls an operation's rule to learn the result's type, and throws the instructions away; lowering needs the
same instructions on other operands. Copying them is several times quicker than calling the rule once more::

    inference   %i: int, %x: float32[::1]       item  ->  wrap %i, (dim %x); load %x, …
    lowering    %7: int, param x                      ->  the same, with %7 for %i and the parameter for %x

A rule sees of its operands what inference saw: type, constant, the operation that made a value. Where lowering has
anything else (an operand that is two values now, a value from further back) nothing is copied, and the rule is called.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import repeat
from typing import Any, NamedTuple

from cudabuild.frontend.context import Context
from cudabuild.frontend.objects import is_dotted_name
from cudabuild.frontend.operands import NoneOperand, Operand, Static, TupleOperand, leaves_of
from cudabuild.ir.hir import HirInstr
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Boolean, BrainFloat, Float, Integer, WeakFloat, WeakInteger

__all__ = ["Record", "pattern_of", "replay"]


class Record(NamedTuple):
    """One operation as inference has seen it: its operands, what was written, the result, and what was called."""

    operands: list[Operand | None]
    written: list[Instr]
    made: Operand
    called: tuple[Any, ...]

    @property
    def is_static(self) -> bool:
        """Whether it is an object that exists at compile time only, whatever else its operands are."""
        return not self.written and type(self.made) is Static

    @property
    def is_anywhere(self) -> bool:
        """Whether the same would be written in another place, for other operands that are alike.

        Arrays made in a kernel are told apart by their place; and of ``x * x`` nothing can be said for ``x * y``.
        """
        operands = [operand for operand in self.operands if operand is not None]
        values = [id(value) for operand in operands for value in leaves_of(operand)]
        return len(set(values)) == len(values) and not any("key" in instr.attrs for instr in self.written)

    def made_alike(self) -> Operand | None:
        """The result of an operation that is alike; None where it must be written out to be known."""
        made = self.made
        if isinstance(made, Value):
            if type(made.type) not in _PLAIN:
                return None
            return made if type(made) is Instr and made.op == "const" else Value(made.type)
        return made if type(made) in (Static, NoneOperand) else None


#: Operations that are written alike wherever their operands are alike, with the attributes that count.
_ALIKE: dict[str, tuple[str, ...]] = {
    "attribute": ("name",), "binary": ("operator",), "unary": ("operator",),
    "compare": ("operator",), "call": ("keywords", "starred"),
}  # fmt: skip

#: Scalars of which no rule of these operations asks how they were made.
_PLAIN = frozenset({Boolean, BrainFloat, Float, Integer, WeakFloat, WeakInteger})


#: Values of which a rule may ask what they are made of: these are alike only where that is alike.
_TAKEN_APART = frozenset({"complex", "field", "view"})


def pattern_of(instr: HirInstr, operands: Sequence[Operand | None], local_names: Collection[str]) -> Any:
    """Equal for two operations of a function of which a rule sees the same; None for one that is like no other.

    Args:
        instr: the operation.
        operands: its operands.
        local_names: the names that the function binds.
    """
    op, attrs = instr.op, instr.attrs
    if op == "name":
        return attrs["identifier"]
    if op == "const":
        return op, type(attrs["value"]), repr(attrs["value"])
    counting = _ALIKE.get(op)
    if counting is None:
        return None
    pattern: list[Any] = [op, *map(attrs.get, counting)]
    if op == "attribute":
        pattern.append(is_dotted_name(instr.nodes[0], local_names))
    for operand in operands:
        key = id(operand.value) if type(operand) is Static else _pattern_of(operand)  # alive as long as the record
        if key is None:
            return None
        pattern.append(key)
    return tuple(pattern)


def _pattern_of(operand: Operand | None) -> Any:
    kind = type(operand)
    if kind is Static:
        return id(operand.value)  # type: ignore[union-attr]
    if isinstance(operand, Value):
        if kind is Instr:
            if operand.op == "const":  # type: ignore[attr-defined]
                return operand.type.name, repr(operand.attrs["value"])  # type: ignore[attr-defined]
            if operand.op in _TAKEN_APART:  # type: ignore[attr-defined]
                keys = tuple(map(_pattern_of, operand.operands))  # type: ignore[attr-defined]
                written = operand.op, repr(operand.attrs), keys  # type: ignore[attr-defined]
                return None if None in keys else written
            if type(operand.type) not in _PLAIN:
                return None
        return operand.type.name
    if isinstance(operand, TupleOperand) and operand.kind is None:
        keys = tuple(map(_pattern_of, operand.elements))
        return None if None in keys else keys
    return "None" if kind is NoneOperand else None


def replay(context: Context, record: Record, operands: Sequence[Operand | None]) -> Operand | None:
    """The result of the recorded operation on other operands, with its instructions appended; None where its rule must
    be called.

    Args:
        context: the function being made.
        record: of the operation.
        operands: in place of the recorded ones.
    """
    values: dict[Value, Value] = {}
    for old, new in zip(record.operands, operands, strict=True):
        kind = type(old)
        if old is new and kind is Static:
            continue
        if kind is Value and isinstance(new, Value):  # of most operands only the type counts
            assert isinstance(old, Value)
            if (old.type is not new.type and old.type != new.type) or values.setdefault(old, new) is not new:
                return None
        elif not _match(old, new, values):
            return None
    for specialisation in record.called:
        if specialisation is None or not specialisation.inference.settled:
            return None
    block, location = context.builder.block, context.location
    copies: list[Instr] = []
    try:
        for instr in record.written:
            own = [values[operand] for operand in instr.operands]
            values[instr] = copy = Instr(instr.type, location, instr.op, own, {**instr.attrs}, block)
            copies.append(copy)
        made = values[record.made] if isinstance(record.made, Value) else _moved(record.made, values)
    except KeyError:  # a value from further back than the operands
        return None
    if made is None:
        return None
    if record.called:
        calls = [copy for copy in copies if copy.op == "call"]
        if len(calls) != len(record.called):
            return None
        for call, specialisation in zip(calls, record.called, strict=True):
            call.attrs["callee"] = context.calls.lowered(context, specialisation)
    block.instructions += copies
    return made


def _match(old: Operand | None, new: Operand | None, values: dict[Value, Value]) -> bool:
    """Whether a rule sees the same of both operands; notes which value stands for which."""
    if isinstance(old, Value):
        if not isinstance(new, Value) or old.type != new.type:
            return False
        if type(old) is Instr and (old.op == "const" or type(old.type) not in _PLAIN):
            if type(new) is not Instr or old.op != new.op:
                return False
            if old.op == "const":  # one of several may stand for all
                values[old] = new
                return True
            if old.op in _TAKEN_APART and not all(map(_match, old.operands, new.operands, repeat(values))):
                return False
        return values.setdefault(old, new) is new
    if isinstance(old, TupleOperand):
        if not isinstance(new, TupleOperand) or len(old.elements) != len(new.elements) or old.kind is not new.kind:
            return False
        return all(_match(a, b, values) for a, b in zip(old.elements, new.elements, strict=True))
    if old is None or isinstance(old, NoneOperand):
        return type(new) is type(old)
    return isinstance(old, Static) and isinstance(new, Static) and old.value is new.value


def _moved(made: Operand, values: dict[Value, Value]) -> Operand | None:
    """The result with the values of the function being made; None for what has other parts.

    Raises:
        KeyError: it holds a value from further back.
    """
    if isinstance(made, Value):
        return values[made]
    if isinstance(made, (Static, NoneOperand)):
        return made
    if not isinstance(made, TupleOperand):
        return None
    elements = [_moved(element, values) for element in made.elements]
    known = [element for element in elements if element is not None]
    return TupleOperand(tuple(known), made.kind) if len(known) == len(elements) else None
