# SPDX-License-Identifier: Apache-2.0
"""Calls of device functions that declare signatures: arguments convert to the best one's types, results to its result.

Best is what loses least: first the fewest arguments that may lose something, then the fewest that change their kind,
then the fewest that grow; the first declared among equals.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudabuild.definition import KernelDefinition
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import NoneOperand, Operand, Poison, Unknown, describe, type_of
from cudabuild.frontend.python_integers import check_argument
from cudabuild.frontend.tables import strong
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    Float,
    FunctionSignature,
    Integer,
    Scalar,
    Signature,
    Tuple,
    Type,
    format_signature,
    none,
)

__all__ = ["call_declared"]

#: What converting an argument costs, by how much it may lose.
_EXACT, _GROWS, _CHANGES_KIND, _MAY_LOSE = range(4)


def call_declared(
    context: Context, definition: KernelDefinition, arguments: list[Operand], keywords: dict[str, Operand]
) -> Operand:
    """The result of calling a decorated function, by its signatures if it has any.

    Raises:
        Refusal: none of them takes the arguments.
    """
    function, options = definition.function, definition.options
    signatures = definition.signatures if definition.spec is not None else []
    names = function.__code__.co_varnames[len(arguments) : function.__code__.co_argcount]
    if set(keywords) == set(names):
        arguments, keywords = [*arguments, *(keywords[name] for name in names)], {}
    if not signatures or keywords or any(isinstance(one, (Poison, Unknown)) for one in arguments):
        return context.calls.call(context, function, arguments, keywords, options)
    signature = _choose(definition, signatures, arguments)
    for position, (argument, kind) in enumerate(zip(arguments, signature, strict=True), 1):
        check_argument(context, argument, kind, position)
    converted: list[Operand] = [
        argument if type_of(argument) == kind == none else context.convert(argument, kind)
        for argument, kind in zip(arguments, signature, strict=True)
    ]
    result = context.calls.call(context, function, converted, {}, options)
    wanted = signature.return_type if isinstance(signature, FunctionSignature) else none
    if wanted == none or isinstance(result, (NoneOperand, Poison, Unknown)):
        return result
    check_argument(context, result, wanted, None)
    return context.convert(result, wanted)


def _choose(definition: KernelDefinition, signatures: Sequence[Signature], arguments: Sequence[Operand]) -> Signature:
    best: tuple[tuple[int, ...], Signature] | None = None
    for signature in signatures:
        rank = _rank(signature, arguments)
        if rank is not None and (best is None or rank < best[0]):
            best = (rank, signature)
    if best is not None:
        return best[1]
    found = ", ".join(_describe(argument) for argument in arguments)
    raise Refusal(
        f"no signature of {definition.qualname!r} takes these arguments",
        found=f"Invalid use of types: a call with parameters ({found})",
        expected=" or ".join(f"({format_signature(signature)})" for signature in signatures),
        do="convert the arguments, or declare a signature for them",
        operand=0,
    )


def _describe(argument: Operand) -> str:
    kind = type_of(argument)
    return strong(kind).name if isinstance(kind, Scalar) else describe(argument)


def _rank(signature: Signature, arguments: Sequence[Operand]) -> tuple[int, ...] | None:
    """How many arguments convert in each way, the worst first; None where one does not convert."""
    if len(signature) != len(arguments):
        return None
    costs = [_cost(type_of(argument), kind) for argument, kind in zip(arguments, signature, strict=True)]
    known = [cost for cost in costs if cost is not None]
    if len(known) != len(costs):
        return None
    return tuple(known.count(cost) for cost in (_MAY_LOSE, _CHANGES_KIND, _GROWS))


def _cost(source: Type | None, target: Type) -> int | None:
    if isinstance(source, Scalar) and isinstance(target, Scalar):
        return _scalar_cost(strong(source), target)
    if isinstance(source, Array) and isinstance(target, Array):
        if (source.dtype, source.ndim) != (target.dtype, target.ndim) or (source.readonly and not target.readonly):
            return None
        return _EXACT if source.layout == target.layout else _CHANGES_KIND if target.layout == "A" else None
    if isinstance(source, Tuple) and isinstance(target, Tuple) and len(source.elements) == len(target.elements):
        costs = [_cost(a, b) for a, b in zip(source.elements, target.elements, strict=True)]
        return None if None in costs else max((cost for cost in costs if cost is not None), default=_EXACT)
    return _EXACT if source == target else None


def _scalar_cost(source: Scalar, target: Scalar) -> int | None:
    if source == target:
        return _EXACT
    if isinstance(source, Complex):
        return _grows(source.bits, target.bits) if isinstance(target, Complex) else None
    if isinstance(target, Complex):
        return _CHANGES_KIND
    if isinstance(source, Float):
        return _grows(source.bits, target.bits) if isinstance(target, Float) else _MAY_LOSE
    if isinstance(target, Float):
        return _CHANGES_KIND if target.bits == 64 or source.size < target.size else _MAY_LOSE
    if isinstance(source, Boolean):
        return _CHANGES_KIND if isinstance(target, Integer) else None
    if isinstance(source, Integer) and isinstance(target, Integer):
        if source.signed == target.signed:
            return _grows(source.bits, target.bits)
        return _CHANGES_KIND if target.signed and target.bits > source.bits else _MAY_LOSE
    return _MAY_LOSE if isinstance(target, Boolean) and isinstance(source, Integer) else None


def _grows(source: int, target: int) -> int:
    return _GROWS if target > source else _MAY_LOSE
