# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays of the module that a kernel reads: their values belong to the kernel."""

from __future__ import annotations

from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand, Static, describe
from cudabuild.ir.ir import Instr
from cudabuild.types import Array, scalar_by_name

__all__ = ["constant_array"]


def constant_array(context: Context, value: Any) -> Operand:
    """The NumPy array ``value`` as an array in constant memory; a compile-time object if its type has no IR."""
    kind = scalar_by_name(value.dtype.name) if value.dtype.names is None else None
    if kind is None or not value.dtype.isnative:
        return Static(value)
    data = value.tobytes(order="C").hex()
    array = Array(kind, value.ndim, "C", readonly=True, space="const")
    return context.emit("constant", array, shape=tuple(map(int, value.shape)), data=data)


@kernel_name("const.array_like")
def array_like(context: Context, array: Operand) -> Operand:
    if isinstance(array, Instr) and array.op == "constant":
        return array
    raise Refusal(
        "cuda.const.array_like of something that is not a constant array",
        found=describe(array),
        expected="a NumPy array of the module or an enclosing function, with elements of a scalar type",
        do="use an array that the kernel is given as it is: x[i]",
        operand=1,
    )
