# SPDX-License-Identifier: Apache-2.0
"""Making vectors (``cuda.float32x4``): one rule for all types. Their fields are those of a named tuple."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand, TupleOperand, describe
from cudabuild.lang.vector import FIELDS, VECTORS, VectorType
from cudabuild.types import scalar_by_name
from cudabuild.types.named import NamedTuple

__all__: list[str] = []


def _register(vector: VectorType) -> None:
    element = scalar_by_name(vector.element)
    assert element is not None
    kind = NamedTuple(vector.name, FIELDS[: vector.count], [element] * vector.count)

    def rule(context: Context, *parts: Operand) -> Operand:
        numbers: list[Operand] = []
        for part in parts:
            numbers += context.elements(part) or (part,)
        if len(numbers) != vector.count:
            raise Refusal(
                f"cuda.{vector.name} is made of {vector.count} number{'s' if vector.count > 1 else ''}",
                found=f"{len(numbers)} in ({', '.join(map(describe, parts))})",
                expected=f"{vector.count}, in numbers and vectors",
                do=f"write cuda.{vector.name}({', '.join(kind.fields)})",
            )
        values = [
            context.cast(context.scalar(number, f"part {position} of cuda.{vector.name}", position), element)
            for position, number in enumerate(numbers, 1)
        ]
        return TupleOperand(tuple(values), kind)

    kernel_name(vector.name)(rule)


for _vector in VECTORS.values():
    _register(_vector)
