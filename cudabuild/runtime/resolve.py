# SPDX-License-Identifier: Apache-2.0
"""Which declared signature a call's arguments take.

Every argument of a candidate gets a cost; the least *(worst argument, sum)* wins, the first declared among equals:

====  =================================================================================================
0     the argument's own type
1     a Python number for a typed parameter of its kind; an array for ``const``; one that lies in both orders for F
2     a Python int for a float parameter, a Python int or float for a complex one; an array without gaps for strides
3     a NumPy scalar of the same kind, wider parameter; ``bool`` for an integer
4     a NumPy scalar of the same kind, narrower parameter; an integer must fit
5     a NumPy integer or a ``bool`` for a float parameter, a real NumPy scalar or a ``bool`` for a complex one
====  =================================================================================================

An array's element type and number of axes never convert.
"""

from __future__ import annotations

from cudabuild.errors import LaunchError
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    Float,
    Integer,
    NoneType,
    Tuple,
    WeakComplex,
    WeakFloat,
    WeakInteger,
    format_signature,
    weak_int,
)
from cudabuild.types.named import EnumMember

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.runtime.arguments import Argument
    from cudabuild.types import Signature, Type

__all__ = ["cost_of", "find_best", "integer_limits", "natural_signature", "resolve"]


def resolve(
    signatures: Sequence[Signature], arguments: Sequence[Argument], names: Sequence[str]
) -> tuple[Signature, bool]:
    """The best signature, and whether the values of integers had a say in it (then only this call may use it).

    Args:
        signatures: the declared signatures, at least one, each with as many types as there are arguments.
        arguments: the arguments as read.
        names: the parameters' names, for the message.

    Raises:
        LaunchError: none takes the arguments; says for each why.
    """
    best: tuple[tuple[int, int], Signature] | None = None
    whatever: tuple[tuple[int, int], Signature] | None = None  # the best if every integer fitted
    for signature in signatures:
        rank = _rank(signature, arguments, check_values=False)
        if rank is None:
            continue
        if whatever is None or rank < whatever[0]:
            whatever = (rank, signature)
        if (best is None or rank < best[0]) and _rank(signature, arguments, check_values=True) is not None:
            best = (rank, signature)
    if best is None:
        raise LaunchError(_explain(signatures, arguments, names))
    assert whatever is not None
    return best[1], best[1] is not whatever[1]


def find_best(signatures: Sequence[Signature], arguments: Sequence[Argument]) -> list[Signature]:
    """Every signature that takes the arguments as well as the best one does."""
    ranked = [(_rank(signature, arguments, check_values=True), signature) for signature in signatures]
    found = [(rank, signature) for rank, signature in ranked if rank is not None]
    least = min((rank for rank, _ in found), default=None)
    return [signature for rank, signature in found if rank == least]


def natural_signature(arguments: Sequence[Argument], names: Sequence[str]) -> Signature:
    """The signature of a kernel that declares none: each argument's own type.

    Raises:
        LaunchError: a Python integer beyond 64 bits.
    """
    for argument, name in zip(arguments, names, strict=True):
        reason = cost_of(argument.type, argument)
        if isinstance(reason, str):
            raise LaunchError(f"argument {name!r}: {reason}")
    return tuple(argument.type for argument in arguments)


def _rank(signature: Signature, arguments: Sequence[Argument], check_values: bool) -> tuple[int, int] | None:
    worst = total = 0
    for parameter, argument in zip(signature, arguments, strict=True):
        cost = cost_of(parameter, argument, check_values)
        if isinstance(cost, str):
            return None
        worst = max(worst, cost)
        total += cost
    return worst, total


def cost_of(parameter: Type, argument: Argument, check_values: bool = True) -> int | str:
    """What giving ``argument`` to ``parameter`` costs, or why it cannot be given."""
    if isinstance(parameter, Array):
        return _cost_of_array(parameter, argument)
    if isinstance(parameter, Tuple):
        if argument.reader != "tuple" or len(argument.value) != len(parameter.elements):
            return f"{_describe(argument)} for {parameter}"
        if parameter.field_names and getattr(argument.type, "label", "") != parameter.label:
            return f"{_describe(argument)} for {parameter}"
        worst = 0
        for element, value in zip(parameter.elements, argument.value, strict=True):
            cost = cost_of(element, value, check_values)
            if isinstance(cost, str):
                return cost
            worst = max(worst, cost)
        return worst
    if isinstance(parameter, (EnumMember, NoneType)) and parameter == argument.type:
        return 0
    if isinstance(parameter, EnumMember) or argument.reader not in ("scalar", "enum"):
        return f"{_describe(argument)} for {parameter}"
    rank = _cost_of_scalar(parameter, argument.type)
    if rank is not None and check_values and isinstance(parameter, Integer):
        low, high = integer_limits(parameter)
        if not low <= int(argument.value) <= high:
            return f"{int(argument.value)} does not fit in {parameter}"
    return f"{_describe(argument)} for {parameter}" if rank is None else rank


def integer_limits(kind: Integer) -> tuple[int, int]:
    """The least and the greatest value, both included."""
    return (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.signed else (0, (1 << kind.bits) - 1)


def _cost_of_array(parameter: Array, argument: Argument) -> int | str:
    found = argument.type
    if not isinstance(found, Array):
        return f"{_describe(argument)} for {parameter}"
    if found.dtype != parameter.dtype:
        return f"an array of {found.dtype} for {parameter}"
    if found.ndim != parameter.ndim:
        return f"an array of {_count(found.ndim, 'axis', 'axes')} for {parameter}"
    if argument.readonly and not parameter.readonly:
        return f"a read-only array for {parameter}: declare const {parameter} if the kernel only reads it"
    cost = int(parameter.readonly and not argument.readonly)
    if parameter.layout == "A":
        return cost + 2 * (argument.c or argument.f)
    if parameter.layout == "C":
        return cost if argument.c else f"an array with gaps or in Fortran order for {parameter} (C order)"
    if not argument.f:
        return f"an array with gaps or in C order for {parameter} (Fortran order)"
    return cost + argument.c  # contiguous both ways: C comes first


def _cost_of_scalar(parameter: Type, found: Type) -> int | None:
    if parameter == found:
        return 0
    if isinstance(found, EnumMember):
        if not found.is_integer:
            return None
        found = weak_int
    if isinstance(parameter, Float):
        if isinstance(found, WeakFloat):
            return 1
        if isinstance(found, WeakInteger):
            return 2
        if isinstance(found, Float):
            return 3 if parameter.bits >= found.bits else 4
        return 5 if isinstance(found, (Integer, Boolean)) else None
    if isinstance(parameter, Complex):
        if isinstance(found, Complex):
            return 1 if isinstance(found, WeakComplex) else 3 if parameter.bits >= found.bits else 4
        if isinstance(found, (WeakFloat, WeakInteger)):
            return 2
        return 5 if isinstance(found, (Float, Integer, Boolean)) else None
    if isinstance(parameter, Integer):
        if isinstance(found, WeakInteger):
            return 1
        if isinstance(found, Integer):
            low, high = integer_limits(parameter)
            least, greatest = integer_limits(found)
            return 3 if low <= least and greatest <= high else 4
        return 3 if isinstance(found, Boolean) else None
    return None


def _describe(argument: Argument) -> str:
    found = argument.type
    if argument.reader == "scalar":
        kind = type(argument.value)
        plain = found.name in ("int", "float", "complex") or kind.__module__ == "builtins"
        return f"a Python {kind.__name__}" if plain else f"a NumPy {found}"
    return str(found)


def _count(number: int, one: str, many: str) -> str:
    return f"{number} {one if number == 1 else many}"


def _explain(signatures: Sequence[Signature], arguments: Sequence[Argument], names: Sequence[str]) -> str:
    found = ", ".join(f"{name}: {_describe(argument)}" for name, argument in zip(names, arguments, strict=True))
    lines = [
        "no signature takes these arguments",
        f"  found:    ({found})",
    ]
    for index, signature in enumerate(signatures):
        reasons = []
        for parameter, argument, name in zip(signature, arguments, names, strict=True):
            cost = cost_of(parameter, argument)
            if isinstance(cost, str):
                reasons.append(f"{name} is {cost}")
        lines.append(
            f"  {'expected:' if index == 0 else 'or:      '} ({format_signature(signature)}): {'; '.join(reasons)}"
        )
    return "\n".join(lines)
