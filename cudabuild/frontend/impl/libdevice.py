# SPDX-License-Identifier: Apache-2.0
"""``cuda.libdevice.*``: one rule for all of them, by the table of ``lang/libdevice.py``."""

from __future__ import annotations

import inspect

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand, TupleOperand, describe
from cudabuild.ir.ir import Value
from cudabuild.lang.libdevice import FUNCTIONS, LibdeviceSignature
from cudabuild.types import Array, Scalar, Tuple, Type, scalar_by_name

__all__: list[str] = []


def _type(name: str) -> Scalar:
    found = scalar_by_name(name)
    assert found is not None
    return found


def _argument(context: Context, function: str, wanted: str, operand: Operand, position: int) -> Value:
    element, is_vector, _ = wanted.partition("[")
    if not is_vector:
        value = context.scalar(operand, f"argument {position} of cuda.libdevice.{function}", position)
        return context.cast(value, _type(element))
    kind = operand.type if isinstance(operand, Value) else None
    if not (isinstance(kind, Array) and kind.ndim == 1 and kind.layout == "C" and kind.dtype == _type(element)):
        raise Refusal(
            f"argument {position} of cuda.libdevice.{function} is no vector",
            found=describe(operand),
            expected=f"{wanted}, contiguous",
            do=f"copy the elements into a cuda.local.array of {element}",
            operand=position,
        )
    assert isinstance(operand, Value)
    return operand


def _result(context: Context, found: Operand) -> Operand:
    if not (isinstance(found, Value) and isinstance(found.type, Scalar)):
        return found
    return context.cast(found, context.table.libdevice_result(found.type))


def _register(function: str, signature: LibdeviceSignature) -> None:
    arguments = signature.arguments
    results = tuple(_type(name) for name in signature.results)
    kind: Type = results[0] if len(results) == 1 else Tuple(results)

    def rule(context: Context, *operands: Operand) -> Operand:
        values = [
            _argument(context, function, wanted, operand, position)
            for position, (wanted, operand) in enumerate(zip(arguments, operands, strict=True), 1)
        ]
        found = context.emit("libdevice", kind, *values, function=function)
        elements = context.elements(found)
        if elements is None:
            return _result(context, found)
        return TupleOperand(tuple(_result(context, element) for element in elements))

    names = ["context", *(f"x{n}" for n, _ in enumerate(arguments, 1))]
    parameters = [inspect.Parameter(name, inspect.Parameter.POSITIONAL_ONLY) for name in names]
    rule.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    kernel_name(f"libdevice.{function}")(rule)


for _name, _signature in FUNCTIONS.items():
    _register(_name, _signature)
