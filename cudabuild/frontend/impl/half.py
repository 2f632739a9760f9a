# SPDX-License-Identifier: Apache-2.0
"""``cuda.fp16`` and ``cuda.bf16``: functions of 16-bit floats, by the table in ``lang/half.py``.

Arguments of other types are converted first, as CUDA's functions convert theirs.
"""

from __future__ import annotations

from collections.abc import Callable

from cudabuild.frontend.context import Context
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import Operand
from cudabuild.ir.ir import Value
from cudabuild.lang.half import COMPARISONS, FUNCTIONS, INTEGERS, MODES, SATURATED, UNORDERED
from cudabuild.types import Integer, Scalar, bfloat16, bool_, float16, float32, float64, int32, scalar_by_name

__all__: list[str] = []

Compute = Callable[..., Value]


def _argument(context: Context, operand: Operand, kind: Scalar, position: int = 1) -> Value:
    return context.cast(context.scalar(operand, "the argument", position), kind)


def _register(name: str, kind: Scalar, count: int, compute: Compute) -> None:
    """The rule of ``name``: ``compute`` of ``count`` arguments as ``kind``."""
    if count == 1:

        @kernel_name(name)
        def unary(context: Context, a: Operand) -> Operand:
            return compute(context, _argument(context, a, kind))

    elif count == 2:

        @kernel_name(name)
        def binary(context: Context, a: Operand, b: Operand) -> Operand:
            return compute(context, _argument(context, a, kind), _argument(context, b, kind, 2))

    else:

        @kernel_name(name)
        def ternary(context: Context, a: Operand, b: Operand, c: Operand) -> Operand:
            values = [_argument(context, part, kind, position) for position, part in enumerate((a, b, c), 1)]
            return compute(context, *values)


def _operation(op: str) -> Compute:
    return lambda context, *values: context.emit(op, values[0].type, *values)


def _function(function: str) -> Compute:
    return lambda context, *values: context.emit("math", values[0].type, *values, function=function)


def _reciprocal(context: Context, a: Value) -> Value:
    return context.emit("div", a.type, context.const(1.0, a.type), a)


def _extreme(predicate: str, *, keeps_nan: bool = False) -> Compute:
    """The greater or smaller: the number beside a NaN, or the NaN."""

    def compute(context: Context, a: Value, b: Value) -> Value:
        better = context.emit("cmp", bool_, b, a, predicate=predicate)
        chosen = context.emit("select", a.type, better, b, a)
        test, other = (b, b) if keeps_nan else (a, b)
        return context.emit("select", a.type, context.emit("isnan", bool_, test), other, chosen)

    return compute


def _comparison(predicate: str) -> Compute:
    def compute(context: Context, a: Value, b: Value) -> Value:
        if predicate != "ne":
            return context.emit("cmp", bool_, a, b, predicate=predicate)
        sides = (context.emit("cmp", bool_, a, b, predicate=side) for side in ("lt", "gt"))
        return context.emit("or", bool_, *sides)

    return compute


def _not(compute: Compute) -> Compute:
    return lambda context, *values: context.emit("inv", bool_, compute(context, *values))


_ARITHMETIC: dict[str, tuple[int, Compute]] = {
    "hadd": (2, _operation("add")),
    "hsub": (2, _operation("sub")),
    "hmul": (2, _operation("mul")),
    "hdiv": (2, _operation("div")),
    "hfma": (3, _function("fma")),
    "hneg": (1, _operation("neg")),
    "habs": (1, _operation("abs")),
    "hrcp": (1, _reciprocal),
    "hmax": (2, _extreme("gt")),
    "hmin": (2, _extreme("lt")),
}


def _register_common(space: str, kind: Scalar) -> None:
    for name, (count, compute) in _ARITHMETIC.items():
        _register(f"{space}.{name}", kind, count, compute)
    for name, function in FUNCTIONS.items():
        _register(f"{space}.{name}", kind, 1, _function(function))
    for name, predicate in COMPARISONS.items():
        _register(f"{space}.{name}", kind, 2, _comparison(predicate))


_register_common("fp16", float16)
_register_common("bf16", bfloat16)


# bfloat16 only


def _above(context: Context, value: Value, least: float) -> Value:
    """``value``, but ``least`` where it is not greater."""
    bound = context.const(least, value.type)
    return context.emit("select", value.type, context.emit("cmp", bool_, value, bound, predicate="gt"), value, bound)


def _saturated(compute: Compute) -> Compute:
    def limited(context: Context, *values: Value) -> Value:
        value = _above(context, compute(context, *values), 0.0)
        one = context.const(1.0, value.type)
        return context.emit("select", value.type, context.emit("cmp", bool_, value, one, predicate="lt"), value, one)

    return limited


def _relu(context: Context, a: Value, b: Value, c: Value) -> Value:
    value = context.emit("math", a.type, a, b, c, function="fma")
    limited = _above(context, value, 0.0)
    return context.emit("select", a.type, context.emit("isnan", bool_, value), value, limited)


def _is_infinite(context: Context, a: Value) -> Value:
    above = context.emit("cmp", bool_, a, context.const(0.0, a.type), predicate="gt")
    sign = context.emit("select", int32, above, context.const(1, int32), context.const(-1, int32))
    return context.emit("select", int32, context.emit("isinf", bool_, a), sign, context.const(0, int32))


def _nearest(context: Context, a: Value) -> Value:
    return context.cast(a, bfloat16)


def _directed(mode: str) -> Compute:
    """A float32 or an integer to the bfloat16 in the direction of ``mode``: from the nearest, a step where needed."""

    def compute(context: Context, a: Value) -> Value:
        near = context.cast(a, bfloat16)
        if mode == "rn":
            return near
        above, below = _sides(context, near, a)
        down = context.emit("math", bfloat16, near, context.const(-_INFINITY, bfloat16), function="nextafter")
        up = context.emit("math", bfloat16, near, context.const(_INFINITY, bfloat16), function="nextafter")
        falls: Value
        rises: Value
        if mode == "rz":
            zero = context.const(0 if isinstance(a.type, Integer) else 0.0, a.type)
            negative = context.emit("cmp", bool_, a, zero, predicate="lt")
            falls = context.emit("and", bool_, above, context.emit("inv", bool_, negative))
            rises = context.emit("and", bool_, below, negative)
        else:
            never = context.const(False, bool_)
            falls, rises = (above, never) if mode == "rd" else (never, below)
        lower = context.emit("select", bfloat16, falls, down, near)
        return context.emit("select", bfloat16, rises, up, lower)

    return compute


_INFINITY = float("inf")


def _sides(context: Context, near: Value, exact: Value) -> tuple[Value, Value]:
    """Whether ``near`` is above ``exact``, and whether it is below."""
    kind = exact.type
    assert isinstance(kind, Scalar)
    wide = context.cast(near, kind)
    above = context.emit("cmp", bool_, wide, exact, predicate="gt")
    below = context.emit("cmp", bool_, wide, exact, predicate="lt")
    if isinstance(kind, Integer):  # ``near`` may be the number after the largest integer, which a cast cuts off
        limit = context.const(2.0 ** (kind.bits - kind.signed), float32)
        beyond = context.emit("cmp", bool_, context.cast(near, float32), limit, predicate="ge")
        above = context.emit("or", bool_, above, beyond)
    return above, below


_ROUNDING = {"rn": "rint", "rz": "trunc", "rd": "floor", "ru": "ceil"}


def _to_integer(kind: Scalar, mode: str) -> Compute:
    def compute(context: Context, a: Value) -> Value:
        whole = context.emit("math", float32, context.cast(a, float32), function=_ROUNDING[mode])
        return context.cast(whole, kind)

    return compute


def _bits(target: Scalar) -> Compute:
    return lambda context, a: context.emit("retype", target, a)


def _kind(name: str) -> Scalar:
    kind = scalar_by_name(name)
    assert kind is not None
    return kind


def _register_brain() -> None:
    for name, function in SATURATED.items():
        count, compute = _ARITHMETIC[function]
        _register(f"bf16.{name}", bfloat16, count, _saturated(compute))
    for name in ("hadd", "hsub", "hmul"):  # every result is rounded here, so nothing is contracted
        _register(f"bf16.{name}_rn", bfloat16, 2, _ARITHMETIC[name][1])
    for name, predicate in UNORDERED.items():
        _register(f"bf16.{name}", bfloat16, 2, _not(_comparison(predicate)))
    _register("bf16.hfma_relu", bfloat16, 3, _relu)
    _register("bf16.hmax_nan", bfloat16, 2, _extreme("gt", keeps_nan=True))
    _register("bf16.hmin_nan", bfloat16, 2, _extreme("lt", keeps_nan=True))
    _register("bf16.hisnan", bfloat16, 1, lambda context, a: context.emit("isnan", bool_, a))
    _register("bf16.hisinf", bfloat16, 1, _is_infinite)
    _register("bf16.float32_to_bfloat16", float32, 1, _nearest)
    _register("bf16.float64_to_bfloat16", float64, 1, _nearest)
    _register("bf16.bfloat16_to_float32", bfloat16, 1, lambda context, a: context.cast(a, float32))
    for name in ("int16", "uint16"):
        _register(f"bf16.bfloat16_as_{name}", bfloat16, 1, _bits(_kind(name)))
        _register(f"bf16.{name}_as_bfloat16", _kind(name), 1, _bits(bfloat16))
    for mode in MODES:
        _register(f"bf16.float32_to_bfloat16_{mode}", float32, 1, _directed(mode))
        for name in INTEGERS:
            _register(f"bf16.bfloat16_to_{name}_{mode}", bfloat16, 1, _to_integer(_kind(name), mode))
            _register(f"bf16.{name}_to_bfloat16_{mode}", _kind(name), 1, _directed(mode))
    for name in ("int8", "uint8"):
        _register(f"bf16.bfloat16_to_{name}_rz", bfloat16, 1, _to_integer(_kind(name), "rz"))


_register_brain()
