# SPDX-License-Identifier: Apache-2.0
"""Bits of integers, selection, and the float functions that only ``cuda`` names. Counts are Python numbers."""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.impl.math_functions import as_float
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand
from cudabuild.frontend.python_integers import check_operands
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Integer, Scalar, bool_, int32, weak_int

__all__ = ["choose_number"]


def _count(context: Context, op: str, x: Operand) -> Value:
    value = context.integer(x, "the argument", 1)
    return context.cast(context.emit(op, int32, value), weak_int)


def _bit_count(context: Context, op: str, x: Operand) -> Value:
    count = _count(context, op, x)
    assert isinstance(x, Value)
    assert isinstance(x.type, Integer)
    return context.cast(count, context.table.bit_count(x.type))


@kernel_name("popc")
def popc(context: Context, x: Operand) -> Operand:
    return _bit_count(context, "popc", x)


@kernel_name("clz")
def clz(context: Context, x: Operand) -> Operand:
    return _bit_count(context, "clz", x)


@kernel_name("ffs")
def ffs(context: Context, x: Operand) -> Operand:
    value = context.integer(x, "the argument", 1)
    place = context.emit("add", weak_int, _count(context, "ctz", value), context.weak(1))
    none_set = context.emit("cmp", bool_, value, context.const(0, value.type), predicate="eq")
    found = context.emit("select", weak_int, none_set, context.weak(0), place)
    return context.cast(found, context.table.bit_position)


@kernel_name("brev")
def brev(context: Context, x: Operand) -> Operand:
    value = context.integer(x, "the argument", 1)
    assert isinstance(value.type, Integer)
    value = context.cast(value, context.table.reversed_bits(value.type))
    return context.emit("brev", value.type, value)


@kernel_name("selp")
def selp(context: Context, condition: Operand, a: Operand, b: Operand) -> Operand:
    test = context.truth(condition)
    return choose_number(context, "selp", test, a, b)


def choose_number(context: Context, name: str, test: Value, a: Operand, b: Operand) -> Value:
    """One of two numbers, the second and third arguments of ``name``, in the type that both have room in."""
    x, y = context.scalar(a, "the second argument", 2), context.scalar(b, "the third argument", 3)
    if isinstance(x.type, Boolean) and isinstance(y.type, Boolean):
        return context.emit("select", bool_, test, x, y)
    assert isinstance(x.type, Scalar)
    assert isinstance(y.type, Scalar)
    kind = context.table.extreme(x.type, y.type)
    check_operands(context, name, (x, y), kind, first=2)
    return context.emit("select", kind, test, context.cast(x, kind), context.cast(y, kind))


@kernel_name("fma")
def fma(context: Context, a: Operand, b: Operand, c: Operand) -> Operand:
    values = [
        as_float(context, part, "an argument of fma", position, "fma") for position, part in enumerate((a, b, c), 1)
    ]
    kind = values[0].type
    for value in values[1:]:
        assert isinstance(kind, Scalar)
        assert isinstance(value.type, Scalar)
        kind = context.table.extreme(kind, value.type)
    return context.emit("math", kind, *(context.cast(value, kind) for value in values), function="fma")


def _register(name: str) -> None:
    @kernel_name(name)
    def rule(context: Context, x: Operand) -> Operand:
        value = as_float(context, x, f"the argument of {name}", 1, name)
        return context.emit("math", value.type, value, function=name)


for _name in ("cbrt", "rsqrt"):
    _register(_name)
