# SPDX-License-Identifier: Apache-2.0
"""NumPy's element functions that are neither an operator nor a function of ``math``, on scalars; and Python's sums."""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy

from cudabuild.frontend import library
from cudabuild.frontend.context import Context
from cudabuild.frontend.impl.math_functions import as_float
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import Operand, TupleOperand
from cudabuild.frontend.python_integers import met_integers
from cudabuild.types import Boolean, Float, Integer, Scalar, bool_

__all__: list[str] = []

#: Functions that are written in the kernel language -> what they do.
_WRITTEN: dict[Any, Any] = {
    numpy.lcm: library.least_common_multiple,
    numpy.gcd: library.greatest_common_divisor,
    numpy.maximum: library.maximum,
    numpy.minimum: library.minimum,
    numpy.fmax: library.maximum_of_numbers,
    numpy.fmin: library.minimum_of_numbers,
    numpy.square: library.square,
    numpy.logaddexp: library.logaddexp,
    numpy.logaddexp2: library.logaddexp2,
    builtins.sum: library.sum_of,
    builtins.any: library.any_of,
    builtins.all: library.all_of,
}


def _register(item: Any, function: Any) -> None:
    import inspect

    def rule(context: Context, *operands: Operand) -> Operand:
        return context.calls.call(context, function, met_integers(context, name, operands), {})

    parameters = inspect.signature(function).parameters.values()
    own = [inspect.Parameter("context", inspect.Parameter.POSITIONAL_ONLY)]
    given = [parameter.replace(kind=inspect.Parameter.POSITIONAL_ONLY) for parameter in parameters]
    rule.__signature__ = inspect.Signature([*own, *given])  # type: ignore[attr-defined]
    module = getattr(item, "__module__", "numpy") or "numpy"
    name = item.__name__ if module == "builtins" else f"{module}.{item.__name__}"
    python_function(item, name=name)(rule)


for _item, _function in _WRITTEN.items():
    _register(_item, _function)


@python_function(math.frexp, numpy.frexp)
def frexp(context: Context, x: Operand) -> Operand:
    value = as_float(context, x, "the argument of frexp", 1, "frexp")
    result = context.calls.call(context, library.mantissa_and_exponent, [value], {})
    both = context.elements(result)
    if both is None:  # not known yet, or refused inside
        return result
    mantissa, exponent = both
    return TupleOperand((mantissa, context.convert(exponent, context.table.exponent)))


@python_function(numpy.sign)
def sign(context: Context, x: Operand) -> Operand:
    value = context.scalar(x, "the argument of numpy.sign", 1)
    kind = value.type
    assert isinstance(kind, Scalar)
    if isinstance(kind, Boolean):
        return value
    zero, one = (0.0, 1.0) if isinstance(kind, Float) else (0, 1)
    nothing = context.const(zero, kind)
    above = context.emit("cmp", bool_, value, nothing, predicate="gt")
    rest = context.emit("select", kind, context.emit("cmp", bool_, value, value, predicate="eq"), nothing, value)
    if not (isinstance(kind, Integer) and not kind.signed):
        below = context.emit("cmp", bool_, value, nothing, predicate="lt")
        rest = context.emit("select", kind, below, context.const(-one, kind), rest)
    return context.emit("select", kind, above, context.const(one, kind), rest)


@python_function(numpy.signbit)
def signbit(context: Context, x: Operand) -> Operand:
    """True for -0.0 and a NaN whose sign bit is set too: the sign goes to a number that can be compared."""
    value = context.scalar(x, "the argument of numpy.signbit", 1)
    kind = value.type
    if not isinstance(kind, Float):
        return context.emit("cmp", bool_, context.cast(value, kind), context.const(0, kind), predicate="lt")
    one = context.emit("math", kind, context.const(1.0, kind), value, function="copysign")
    return context.emit("cmp", bool_, one, context.const(0.0, kind), predicate="lt")
