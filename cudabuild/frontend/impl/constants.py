# SPDX-License-Identifier: Apache-2.0
"""NumPy arrays of the module that a kernel reads: their values belong to the kernel."""

from __future__ import annotations

from typing import Any

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand, Static, describe
from cudabuild.ir.ir import Instr
from cudabuild.types import Array, find_dtype

__all__ = ["CONSTANT_MEMORY", "constant_array", "is_array", "unreadable_array"]

#: Bytes of constant memory on every device (CUDA C++ Programming Guide, "Compute Capabilities").
CONSTANT_MEMORY = 64 * 1024


def is_array(value: Any) -> bool:
    """Whether a Python object is a NumPy array, or one record of one."""
    kind = type(value)
    return kind.__module__.partition(".")[0] == "numpy" and kind.__name__ in ("ndarray", "recarray", "void", "record")


def constant_array(context: Context, value: Any) -> Operand:
    """The NumPy array ``value`` as an array in constant memory; a compile-time object, of which a kernel can use the
    shape and type only, if its elements have no IR or there are more than constant memory holds."""
    kind = find_dtype(value.dtype)
    if kind is None or value.nbytes > CONSTANT_MEMORY:
        return Static(value)
    data = value.tobytes(order="C").hex()
    array = Array(kind, value.ndim, "C", readonly=True, space="const")
    return context.emit("constant", array, shape=tuple(map(int, value.shape)), data=data)


def unreadable_array(value: Any) -> Refusal:
    """Why a kernel cannot read the elements of the captured array ``value``."""
    if value.nbytes > CONSTANT_MEMORY:
        return Refusal(
            "a captured array that is larger than constant memory",
            found=f"an array of {value.nbytes} bytes",
            expected=f"at most {CONSTANT_MEMORY} bytes of constant arrays",
            do="pass the array as an argument of the kernel",
            operand=0,
        )
    return Refusal(
        "an array whose elements a kernel cannot read",
        found=f"a NumPy array of {value.dtype}",
        expected="elements of a scalar type, in this machine's byte order",
        do="convert it outside the kernel: TABLE = TABLE.astype('float32')",
        operand=0,
    )


@kernel_name("const.array_like")
def array_like(context: Context, array: Operand) -> Operand:
    if isinstance(array, Instr) and array.op == "constant":
        return array
    if isinstance(array, Static) and is_array(array.value):
        refusal = unreadable_array(array.value)
        refusal.operand = 1
        raise refusal
    raise Refusal(
        "cuda.const.array_like of something that is not a constant array",
        found=describe(array),
        expected="a NumPy array of the module or an enclosing function, with elements of a scalar type",
        do="use an array that the kernel is given as it is: x[i]",
        operand=1,
    )
