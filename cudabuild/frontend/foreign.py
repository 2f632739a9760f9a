# SPDX-License-Identifier: Apache-2.0
"""Calls of declared functions, whose code is linked into the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import NoneOperand, Operand, describe
from cudabuild.frontend.python_integers import check_argument
from cudabuild.ir.ir import Value
from cudabuild.linking import DeclaredFunction
from cudabuild.types import Array, Boolean, Float, Integer, Scalar, Type, none
from cudabuild.types.pointer import Pointer

__all__ = ["call_foreign"]


def call_foreign(
    context: Context, function: DeclaredFunction, arguments: Sequence[Operand], keywords: Mapping[str, Operand]
) -> Operand:
    """The result of a call; arguments convert to the declared types.

    Raises:
        Refusal: the arguments do not fit, or the declaration has types that C functions do not take.
    """
    kinds = function.arguments
    if keywords or len(arguments) != len(kinds):
        raise Refusal(
            f"wrong arguments for {function.name!r}",
            found=f"{len(arguments) + len(keywords)} arguments",
            expected=f"{function.name}({', '.join(kind.name for kind in kinds)}), by position",
            do="give one argument for each declared parameter",
        )
    for kind in (*kinds, function.sig.return_type):
        _check_type(function, kind)
    operands = [
        _argument(context, function, argument, kind, position)
        for position, (argument, kind) in enumerate(zip(arguments, kinds, strict=True), 1)
    ]
    for link in function.link:
        context.calls.link(link)
    result = function.sig.return_type
    made = context.emit("foreign", result, *operands, symbol=function.name, abi=function.abi)
    return NoneOperand() if result == none else made


def _check_type(function: DeclaredFunction, kind: Type) -> None:
    if isinstance(kind, (Integer, Boolean)) or kind == none or (isinstance(kind, Float) and kind.bits >= 32):
        return
    raise Refusal(
        f"a declared function with a type that cannot be passed to C: {kind.name}",
        found=f"{function.name}: {function.sig!r}",
        expected="integers, bool, float32, float64 and pointers",
        do="declare a pointer, such as CPointer(float32), and pass from_buffer(array)"
        if isinstance(kind, Array)
        else "pass it in memory, by a pointer",
        operand=0,
    )


def _argument(context: Context, function: DeclaredFunction, operand: Operand, kind: Type, position: int) -> Value:
    fits = isinstance(operand, Value) and isinstance(operand.type, Scalar)
    if isinstance(kind, Pointer):
        fits = isinstance(operand, Value) and isinstance(operand.type, Integer)
        given = operand.type if isinstance(operand, Value) else None
        if isinstance(given, Pointer) and given.dtype != kind.dtype:
            fits = False
    if not fits:
        pointer = isinstance(kind, Pointer)
        raise Refusal(
            f"argument {position} of {function.name!r} does not fit its declaration",
            found=describe(operand),
            expected=kind.name,
            do="pass a pointer to its elements: cuda.from_buffer(array)" if pointer else "convert it first",
            operand=position,
        )
    assert isinstance(operand, Value)
    check_argument(context, operand, kind, position)
    return context.cast(operand, kind)
