# SPDX-License-Identifier: Apache-2.0
"""Where a thread stands; barriers and warp exchanges."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, TupleOperand, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Float, Integer, Scalar, int32, none, uint32, weak_int

__all__ = ["special_register"]

_REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}


def special_register(context: Context, name: str) -> Value:
    """The value of ``threadIdx.x`` … ``gridDim.z`` or ``laneid``."""
    base, _, axis = name.partition(".")
    register = f"{_REGISTERS[base]}.{axis}" if axis else base
    return context.cast(context.emit("sreg", int32, register=register), weak_int)


def _axes(context: Context, op: str, ndim: Operand) -> Operand:
    if not (is_const(ndim) and const_of(ndim) in (1, 2, 3)):
        raise Refusal(
            f"cuda.{op} of a number of dimensions that is not a constant",
            found=describe(ndim),
            expected="1, 2 or 3",
            do=f"write cuda.{op}(1), or x, y = cuda.{op}(2)",
            operand=1,
        )
    values = tuple(context.emit(op, weak_int, axis=axis) for axis in range(const_of(ndim)))
    return values[0] if len(values) == 1 else TupleOperand(values)


@kernel_name("grid")
def grid(context: Context, ndim: Operand) -> Operand:
    return _axes(context, "grid", ndim)


@kernel_name("gridsize")
def gridsize(context: Context, ndim: Operand) -> Operand:
    return _axes(context, "gridsize", ndim)


@kernel_name("syncthreads")
def syncthreads(context: Context) -> Operand:
    context.emit("barrier", none)
    return NoneOperand()


@kernel_name("shfl_down_sync")
def shfl_down_sync(context: Context, mask: Operand, value: Operand, delta: Operand) -> Operand:
    lanes = _integer(context, mask, "the mask", 1)
    data = context.scalar(value, "the value", 2)
    distance = _integer(context, delta, "the distance", 3)
    kind = data.type
    assert isinstance(kind, Scalar)
    if isinstance(kind, Boolean) or (isinstance(kind, (Integer, Float)) and kind.bits < 32):
        raise Refusal(
            "a warp shuffle moves 32 or 64 bits",
            found=describe(value),
            expected="int32, uint32, int64, uint64, float32 or float64",
            do="convert it: int32(x)",
            operand=2,
        )
    width = context.const(32, int32)
    return context.emit(
        "shfl", kind, context.cast(lanes, uint32), data, context.cast(distance, int32), width, mode="down"
    )


def _integer(context: Context, operand: Operand, what: str, position: int) -> Value:
    value = context.scalar(operand, what, position)
    if isinstance(value.type, Integer):
        return value
    raise Refusal(
        f"{what} is not an integer",
        found=describe(operand),
        expected="an integer",
        do="convert it: int(x)",
        operand=position,
    )
