# SPDX-License-Identifier: Apache-2.0
"""Where a thread stands, and what time it is."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, TupleOperand, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import int32, int64, none, uint32, weak_int

__all__ = ["special_register"]

_REGISTERS = {"threadIdx": "tid", "blockIdx": "ctaid", "blockDim": "ntid", "gridDim": "nctaid"}


def special_register(context: Context, name: str) -> Value:
    """The value of ``threadIdx.x`` … ``gridDim.z`` or ``laneid``."""
    base, _, axis = name.partition(".")
    register = f"{_REGISTERS[base]}.{axis}" if axis else base
    return context.cast(context.emit("sreg", int32, register=register), context.table.thread_position)


def _axes(context: Context, op: str, ndim: Operand) -> Operand:
    if not (is_const(ndim) and const_of(ndim) in (1, 2, 3)):
        raise Refusal(
            f"cuda.{op} of a number of dimensions that is not a constant",
            found=describe(ndim),
            expected="1, 2 or 3, as a literal or a name for one",
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


@kernel_name("nanosleep")
def nanosleep(context: Context, ns: Operand) -> Operand:
    context.emit("nanosleep", none, context.cast(context.integer(ns, "the duration", 1), uint32))
    return NoneOperand()


@kernel_name("clock")
def clock(context: Context) -> Operand:
    return context.cast(context.emit("clock", int64, source="cycle"), weak_int)


@kernel_name("globaltimer")
def globaltimer(context: Context) -> Operand:
    return context.cast(context.emit("clock", int64, source="ns"), weak_int)
