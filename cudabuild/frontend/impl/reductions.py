# SPDX-License-Identifier: Apache-2.0
"""NumPy's reductions of whole arrays: ``np.sum(x)``, ``x.max()``; one thread goes over all elements.

Results have NumPy's types: sums of integers are 64 bits wide, means of integers float64, all else is of the elements'
type. 16-bit floats are added up in float32 and rounded once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from cudabuild.frontend import library_reductions as library
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays
from cudabuild.frontend.impl.registry import method, python_function
from cudabuild.frontend.operands import Operand, describe
from cudabuild.ir.ir import Value
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    Float,
    Integer,
    Scalar,
    float32,
    float64,
    int64,
    uint64,
    weak_int,
)

__all__: list[str] = []

Reduction = Callable[[Context, Value, Scalar], Operand]

#: Name -> the reduction; those of ``_METHODS`` are methods of arrays too.
_REDUCTIONS: dict[str, Reduction] = {}
_METHODS = frozenset(("sum", "prod", "mean", "var", "std", "min", "max", "any", "all", "argmin", "argmax"))


class _NoValueError(Exception):
    """A call has no value: it was refused, or its type is not known yet. What stands for it stands for all."""

    def __init__(self, operand: Operand) -> None:
        super().__init__()
        self.operand = operand


def _reduction(*names: str) -> Callable[[Reduction], Reduction]:
    def register(function: Reduction) -> Reduction:
        for name in names:
            _REDUCTIONS[name] = function
        return function

    return register


def _call(context: Context, function: Any, *operands: Operand) -> Value:
    result = context.calls.call(context, function, list(operands), {})
    if not isinstance(result, Value):
        raise _NoValueError(result)
    return result


def _zero(context: Context, kind: Scalar, number: int) -> Value:
    return context.cast(context.const(number, int64), kind)


def _accumulator(kind: Scalar) -> Scalar:
    """The type in which elements are added up."""
    if isinstance(kind, (Boolean, Integer)):
        return uint64 if isinstance(kind, Integer) and not kind.signed else int64
    return float32 if isinstance(kind, Float) and kind.bits == 16 else kind


def _rounded(context: Context, value: Value, kind: Scalar) -> Value:
    return context.cast(value, kind) if isinstance(kind, Float) and kind.bits == 16 else value


def _size(context: Context, array: Value) -> Value:
    return context.convert(arrays.array_attribute(context, array, "size"), weak_int)


def _sum(function: Any, first: int) -> Reduction:
    def reduce(context: Context, array: Value, kind: Scalar) -> Operand:
        start = _zero(context, _accumulator(kind), first)
        return _rounded(context, _call(context, function, array, start), kind)

    return reduce


_reduction("sum")(_sum(library.total, 0))
_reduction("prod")(_sum(library.product, 1))
_reduction("nansum")(_sum(library.nan_total, 0))
_reduction("nanprod")(_sum(library.nan_product, 1))


def _floating(kind: Scalar) -> Scalar:
    """The type of a mean."""
    return float64 if isinstance(kind, (Boolean, Integer)) else kind


def _mean_of(context: Context, array: Value, kind: Scalar, add: Any, number: Value) -> Value:
    work = _accumulator(_floating(kind))
    everything = _call(context, add, array, _zero(context, work, 0))
    return _divided(context, everything, number, work)


def _divided(context: Context, everything: Value, number: Value, work: Scalar) -> Value:
    """A sum over a number of elements, in the sum's own type."""
    return _call(
        context, library.mean, everything, context.cast(number, work.part if isinstance(work, Complex) else work)
    )


@_reduction("mean")
def _mean(context: Context, array: Value, kind: Scalar) -> Operand:
    return _rounded(context, _mean_of(context, array, kind, library.total, _size(context, array)), kind)


@_reduction("nanmean")
def _nanmean(context: Context, array: Value, kind: Scalar) -> Operand:
    number = _call(context, library.nan_count, array, context.weak(0))
    return _rounded(context, _mean_of(context, array, kind, library.nan_total, number), kind)


def _variance(context: Context, array: Value, kind: Scalar, nan: bool) -> Value:
    if isinstance(kind, Complex):
        raise Refusal(
            "the variance of complex numbers is not supported in a kernel",
            found=array.type.name,
            expected="an array of real numbers",
            do="add the variances of x.real and x.imag",
            operand=1,
        )
    number = _call(context, library.nan_count, array, context.weak(0)) if nan else _size(context, array)
    middle = _mean_of(context, array, kind, library.nan_total if nan else library.total, number)
    function = library.nan_squares if nan else library.squares
    work = _accumulator(_floating(kind))
    distances = _call(context, function, array, middle, _zero(context, work, 0))
    return _divided(context, distances, number, work)


def _spread(nan: bool, root: bool) -> Reduction:
    def reduce(context: Context, array: Value, kind: Scalar) -> Operand:
        found = _variance(context, array, kind, nan)
        if root and isinstance(found.type, Float):
            found = context.emit("math", found.type, found, function="sqrt")
        return _rounded(context, found, kind)

    return reduce


_reduction("var")(_spread(nan=False, root=False))
_reduction("std")(_spread(nan=False, root=True))
_reduction("nanvar")(_spread(nan=True, root=False))
_reduction("nanstd")(_spread(nan=True, root=True))


def _extreme(function: Any) -> Reduction:
    def reduce(context: Context, array: Value, kind: Scalar) -> Operand:
        _check_order(array, kind)
        return _call(context, function, array, _call(context, library.first_of, array))

    return reduce


def _check_order(array: Value, kind: Scalar) -> None:
    if isinstance(kind, Complex):
        raise Refusal(
            "the least or greatest of complex numbers",
            found=array.type.name,
            expected="an array of real numbers",
            do="compare the real parts: x.real",
            operand=1,
        )


for _names, _function in (
    (("min", "amin"), library.least),
    (("max", "amax"), library.greatest),
    (("nanmin",), library.nan_least),
    (("nanmax",), library.nan_greatest),
):
    _reduction(*_names)(_extreme(_function))


def _place(wants_least: bool) -> Reduction:
    def reduce(context: Context, array: Value, kind: Scalar) -> Operand:
        _check_order(array, kind)
        first = _call(context, library.first_of, array)
        arguments = [array, context.weak(wants_least), first, context.weak(0), context.weak(0)]
        result = context.calls.call(context, library.best_place, arguments, {})
        found = context.elements(result)
        if found is None:
            raise _NoValueError(result)
        return found[1]

    return reduce


_reduction("argmin")(_place(wants_least=True))
_reduction("argmax")(_place(wants_least=False))


@_reduction("any")
def _any(context: Context, array: Value, kind: Scalar) -> Operand:
    return _call(context, library.some, array)


@_reduction("all")
def _all(context: Context, array: Value, kind: Scalar) -> Operand:
    return _call(context, library.every, array)


@_reduction("count_nonzero")
def _count(context: Context, array: Value, kind: Scalar) -> Operand:
    return _call(context, library.count, array, context.weak(0))


def _checked(name: str, context: Context, x: Operand) -> Operand:
    kind = x.type if isinstance(x, Value) else None
    if isinstance(kind, Array) and isinstance(kind.dtype, (Boolean, Integer, Float, Complex)):
        assert isinstance(x, Value)
        x = x if kind.ndim else arrays.transposed(context, x, (-1,))  # one axis, of one element
        try:
            return _REDUCTIONS[name](context, x, kind.dtype)
        except _NoValueError as missing:
            return missing.operand
    raise Refusal(
        f"numpy.{name} of something that is not an array of numbers",
        found=describe(x),
        expected="an array of numbers",
        do="pass an array",
        operand=1,
    )


def _register(name: str) -> None:
    @python_function(getattr(numpy, name), name=f"numpy.{name}")
    def rule(context: Context, x: Operand) -> Operand:
        return _checked(name, context, x)

    if name in _METHODS:

        @method("array", name)
        def call(context: Context, array: Operand) -> Operand:
            return _checked(name, context, array)


for _name in _REDUCTIONS:
    _register(_name)
