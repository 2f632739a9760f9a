# SPDX-License-Identifier: Apache-2.0
"""Python integers that are known when a kernel is compiled and meet a type that cannot hold them.

NumPy 2 raises ``OverflowError: Python integer 1000 out of bounds for int8``; so does the compiler under
``literals="weak"``, with the place. It is a *complaint*: the operation has a result all the same, for what is a
constant in one pass of inference may be a mere type in the next, and only the last pass counts.

===============================  ===================================================================================
``x // 1000``, ``x & -1``        refused, for each operator that computes in one type, and its functions
``x < 1000``, ``x in (1, 900)``  exact
``min(x, 1000)``, ``np.clip``    exact: the bound never counts, or always
``x << 1000``, ``x ** 1000``     the count is never converted
``a[i] = 300``, atomics          refused, by the type of the elements
``v = 300 if c else x``          refused, as in a loop and at ``return``, where the variable has the type of ``x``
``f(300)``                       refused by a declared type; without one the parameter stays the Python integer
``int8(300)``                    a conversion: wraps
===============================  ===================================================================================

A Python integer that is not known when the kernel is compiled wraps, as all integers of the kernel language do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import Operand, const_of, describe, is_const
from cudabuild.ir.fold import wrap_integer
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Integer, Scalar, Type, WeakInteger, int32, int64, uint32, uint64

if TYPE_CHECKING:
    from cudabuild.frontend.context import Context

__all__ = [
    "bounds_of",
    "check_argument",
    "check_joined",
    "check_operands",
    "check_stored",
    "is_out_of_bounds",
    "met_integers",
]

TITLE = "a Python integer that {} cannot hold"

#: Operators that are words.
_WORDS = ("and", "or")

#: Bitwise operators: what is meant by a number too large is a pattern of bits.
_BITWISE = ("&", "|", "^")


def bounds_of(kind: Integer) -> tuple[int, int]:
    """The least and the greatest value."""
    return (-(1 << (kind.bits - 1)) if kind.signed else 0), (1 << (kind.bits - kind.signed)) - 1


def is_out_of_bounds(operand: Operand, kind: Type | None) -> bool:
    """Whether ``operand`` is a known Python integer that the typed integer ``kind`` cannot hold."""
    if not isinstance(kind, Integer) or isinstance(kind, WeakInteger):
        return False
    if not (is_const(operand) and isinstance(operand, Value) and isinstance(operand.type, WeakInteger)):
        return False
    low, high = bounds_of(kind)
    return not low <= const_of(operand) <= high


def check_operands(
    context: Context,
    what: str,
    operands: Sequence[Operand],
    kind: Scalar,
    *,
    first: int = 0,
    converted: int | None = None,
) -> None:
    """Complains of those that meet the others in ``kind``.

    Args:
        context: where.
        what: the operator or the name of the function.
        operands: all of them.
        kind: the type that they meet in.
        first: the position of the first in the operation, for the caret.
        converted: how many are converted to ``kind``, from the first on; None for all.
    """
    for position, operand in enumerate(operands[:converted]):
        if not is_out_of_bounds(operand, kind):
            continue
        assert isinstance(kind, Integer)
        spelled = list(map(describe, operands))
        is_operator = len(operands) == 2 and (what in _WORDS or not what[0].isalpha())
        found = f" {what} ".join(spelled) if is_operator else f"{what}({', '.join(spelled)})"
        do = _remedy(what, position, const_of(operand), kind, is_operator)
        # the operands of a call stand behind what is called
        is_call = first == 0 and context.site is not None and context.site[1].op == "call"
        _complain(context, kind, found, _range_of(kind), do, first + position + is_call)


def _remedy(what: str, position: int, number: int, kind: Integer, is_operator: bool) -> str:
    wide = _wider(number, kind)
    bits = wrap_integer(number, Integer(kind.bits, False))
    if is_operator and what in _BITWISE:
        written = hex(bits) if bits > 9 else str(bits)
        if not kind.signed:
            return f"write the bits that are meant: {written}"
        if 0 <= number < 1 << kind.bits:
            return f"convert the other side first: uint{kind.bits}(x) {what} {written}"
    if wide is None:
        return f"write {kind.name}({number}), which is {wrap_integer(number, kind)}, if that is meant"
    if not is_operator:
        return f"convert the other one first: {wide.name}(x)"
    example = f"{wide.name}(x) {what} {number}" if position else f"{number} {what} {wide.name}(x)"
    return f"convert the other side first: {example}"


def _wider(number: int, kind: Integer) -> Integer | None:
    """The narrowest type of at least 32 bits that holds the number and most of ``kind``."""
    for wide in (int32, uint32, int64, uint64):
        low, high = bounds_of(wide)
        holds_kind = wide.signed >= kind.signed and wide.bits - wide.signed >= kind.bits - kind.signed
        if low <= number <= high and holds_kind:
            return wide
    return None


def _range_of(kind: Integer) -> str:
    low, high = bounds_of(kind)
    return f"a number from {low} to {high}"


def _complain(context: Context, kind: Integer, found: str, expected: str, do: str, operand: int | None) -> None:
    if context.table.holds_constants:
        context.complaints.append(
            Refusal(TITLE.format(kind.name), found=found, expected=expected, do=do, operand=operand)
        )


def met_integers(context: Context, name: str, operands: Sequence[Operand]) -> list[Operand]:
    """The arguments of the function ``name`` as integers of one type, where all are integers; else as they are, or as
    the table says of an integer and a float."""
    kinds = [operand.type for operand in operands if isinstance(operand, Value)]
    integers = [kind for kind in kinds if isinstance(kind, (Integer, Boolean))]
    scalars = [kind for kind in kinds if isinstance(kind, Scalar)]
    if len(operands) == len(scalars) == 2 and len(integers) == 1:
        met = context.table.element_extreme(*scalars)
        if met is not None:
            return [context.convert(operand, met) for operand in operands]
    if len(operands) < 2 or len(integers) < len(operands):
        return list(operands)
    kind: Scalar = integers[0]
    for other in integers[1:]:
        kind = context.table.extreme(kind, other)
    if not isinstance(kind, Integer):
        return list(operands)
    check_operands(context, name, operands, kind)
    return [context.cast(operand, kind) for operand in operands if isinstance(operand, Value)]


def check_stored(context: Context, operand: Operand, kind: Type, position: int) -> None:
    """Complains of what is stored in an element of type ``kind``."""
    if is_out_of_bounds(operand, kind):
        assert isinstance(kind, Integer)
        _complain(
            context,
            kind,
            describe(operand),
            f"{_range_of(kind)}, stored as {kind.name}",
            _keep(operand, kind),
            position,
        )


def check_argument(context: Context, operand: Operand, kind: Type, position: int | None) -> None:
    """Complains of an argument or a result that a declared type cannot hold."""
    if is_out_of_bounds(operand, kind):
        assert isinstance(kind, Integer)
        expected = f"{_range_of(kind)}, as the signature has {kind.name}"
        _complain(context, kind, describe(operand), expected, _keep(operand, kind), position)


def check_joined(context: Context, operand: Operand, kind: Type) -> None:
    """Complains of what becomes ``kind`` because that is what it is on another path."""
    if is_out_of_bounds(operand, kind):
        assert isinstance(kind, Integer)
        found = f"{describe(operand)} on one path, {kind.name} on another"
        wide = _wider(const_of(operand), kind)
        number = const_of(operand)
        do = _keep(operand, kind) if wide is None else f"give it a type that holds both: {wide.name}({number})"
        _complain(context, kind, found, _range_of(kind), do, None)


def _keep(operand: Operand, kind: Integer) -> str:
    number = const_of(operand)
    return f"write {kind.name}({number}), which is {wrap_integer(number, kind)}, if that is meant, or use a wider type"
