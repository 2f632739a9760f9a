# SPDX-License-Identifier: Apache-2.0
"""Methods of arrays: those that make another view of the same memory, ``fill`` and ``copy``; ``astype`` of numbers."""

from __future__ import annotations

import inspect
from collections.abc import Sequence

import numpy

from cudabuild.errors import nearest_name
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import arrays
from cudabuild.frontend.impl.assignment import assign_array, store_element
from cudabuild.frontend.impl.casts import cast_to, scalar_type_of
from cudabuild.frontend.impl.elements import load_element
from cudabuild.frontend.impl.operators import binary
from cudabuild.frontend.impl.registry import find_method, method, python_function
from cudabuild.frontend.impl.times import is_time
from cudabuild.frontend.operands import MethodOperand, NoneOperand, Operand, const_of, describe, is_const
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, Scalar, bool_, none, weak_int

__all__ = ["call_method", "owner_of"]


def owner_of(operand: Operand) -> str:
    """Whose methods a value has, by the names of :func:`registry.method`."""
    kind = operand.type if isinstance(operand, Value) else None
    return "array" if isinstance(kind, Array) else "time" if is_time(kind) else "number"


def call_method(
    context: Context, callee: MethodOperand, operands: Sequence[Operand], keywords: dict[str, Operand]
) -> Operand:
    """The call of a value's method."""
    function = find_method(owner_of(callee.base), callee.name)
    assert function is not None
    signature = inspect.signature(function)
    try:
        signature.bind(context, callee.base, *operands, **keywords)
    except TypeError:
        names = list(signature.parameters)[2:]
        unknown = next((key for key in keywords if key not in names), None)
        near = nearest_name(unknown, names) if unknown else None
        raise Refusal(
            f"wrong arguments for the method {callee.name}",
            found=f"keyword {unknown!r}" if unknown else f"{len(operands) + len(keywords)} arguments",
            expected=f".{callee.name}({', '.join(names)})",
            do=f"did you mean {near!r}?" if near else "give the arguments that the method takes",
        ) from None
    return function(context, callee.base, *operands, **keywords)


def _kind(array: Value) -> Array:
    assert isinstance(array.type, Array)
    return array.type


@method("array", "fill")
def fill(context: Context, array: Value, value: Operand) -> Operand:
    if _kind(array).ndim == 0:
        store_element(context, array, [], value, 1)
    else:
        assign_array(context, array, value, 1)
    return NoneOperand()


@method("array", "copy")
def copy(context: Context, array: Value) -> Operand:
    kind = _kind(array)
    shape = array.attrs["shape"] if isinstance(array, Instr) and array.op in ("constant", "shared", "local") else None
    if kind.ndim == 0:
        shape = ()
    if shape is None:
        raise Refusal(
            "a copy of an array whose extents are not constants",
            found=kind.name,
            expected="an array made in the kernel, or a constant one",
            do="copy it into a cuda.local.array of a constant shape: own[:] = x[:n]",
            operand=0,
        )
    made = Array(kind.dtype, kind.ndim, "C", space="local")
    own = context.emit("local", made, shape=shape, key=context.allocation_key)
    if kind.ndim == 0:
        store_element(context, own, [], array, 0)
    else:
        assign_array(context, own, array, 0)
    return own


@method("array", "item")
def item(context: Context, array: Value) -> Operand:
    if _kind(array).ndim == 0:
        return load_element(context, array, [])
    raise Refusal(
        "item() of an array with axes",
        found=_kind(array).name,
        expected="an array without axes",
        do="index it: x[i]",
        operand=0,
    )


@method("array", "transpose")
def transpose(context: Context, array: Value, *axes: Operand) -> Operand:
    ndim = _kind(array).ndim
    given = _flat(context, axes)
    if not given or isinstance(given[0], NoneOperand):
        return arrays.transposed(context, array, tuple(reversed(range(ndim))))
    order = [const_of(axis) if is_const(axis) else None for axis in given]
    known = [axis % ndim for axis in order if isinstance(axis, int) and -ndim <= axis < ndim]
    if len(known) == len(order) and sorted(known) == list(range(ndim)):
        return arrays.transposed(context, array, tuple(known))
    raise Refusal(
        "transpose with something else than the array's axes",
        found=", ".join(map(describe, given)),
        expected=f"the constants 0 to {ndim - 1}, each once" if ndim else "no axes",
        do="write the axes as numbers, or leave them out to reverse them",
        operand=1,
    )


def _flat(context: Context, operands: Sequence[Operand]) -> Sequence[Operand]:
    """The arguments of ``f(a, b)`` and of ``f((a, b))``."""
    if len(operands) == 1:
        elements = context.elements(operands[0])
        if elements is not None:
            return elements
    return operands


@method("array", "ravel")
def ravel(context: Context, array: Value) -> Operand:
    size = arrays.array_attribute(context, array, "size")
    return _reshaped(context, array, [context.convert(size, weak_int)], _kind(array).dtype)


@method("array", "reshape")
def reshape(context: Context, array: Value, *shape: Operand) -> Operand:
    extents = [context.integer(extent, "an extent", 1) for extent in _flat(context, shape)]
    unknown = [at for at, extent in enumerate(extents) if is_const(extent) and const_of(extent) == -1]
    if len(unknown) > 1:
        raise Refusal(
            "reshape with more than one -1",
            found=", ".join(map(describe, extents)),
            expected="at most one extent that follows from the others",
            do="write the other extents as numbers",
            operand=1,
        )
    size = arrays.array_attribute(context, array, "size")
    wide = _complete(context, size, [context.cast(extent, weak_int) for extent in extents])
    count: Operand = context.weak(1)
    for extent in wide:
        count = binary(context, "*", count, extent)
    bad = _check_size(context, size, count, wide)
    return _reshaped(context, array, _emptied(context, bad, wide), _kind(array).dtype)


def _complete(context: Context, size: Operand, extents: Sequence[Value]) -> list[Value]:
    """The extents, with what follows from the others in place of -1: known to be it, or only when the kernel runs."""
    known = [extent for extent in extents if is_const(extent) and const_of(extent) != -1]
    if len(known) == len(extents):
        return list(extents)
    product: Operand = context.weak(1)
    for extent in extents:
        if is_const(extent):
            factor: Operand = context.weak(1) if const_of(extent) == -1 else extent
        else:
            factor = context.emit("select", weak_int, _is_open(context, extent), context.weak(1), extent)
        product = binary(context, "*", product, factor)
    # At least 1: an empty array has nothing to divide, and the check under debug nothing to find.
    divisor = context.emit("max", weak_int, context.convert(product, weak_int), context.weak(1))
    rest = context.convert(binary(context, "//", size, divisor), weak_int)
    return [
        extent
        if extent in known
        else rest
        if is_const(extent)
        else context.emit("select", weak_int, _is_open(context, extent), rest, extent)
        for extent in extents
    ]


def _is_open(context: Context, extent: Value) -> Value:
    return context.emit("cmp", bool_, extent, context.weak(-1), predicate="eq")


def _check_size(context: Context, size: Operand, count: Operand, extents: Sequence[Value]) -> Value | None:
    """Refuses a shape that the elements do not fill, where that is known; under debug it is told.

    Returns:
        whether the shape is wrong, where only the kernel can know.
    """
    have, want = context.convert(size, weak_int), context.convert(count, weak_int)
    if is_const(have) and is_const(want):
        if const_of(have) != const_of(want) or any(is_const(extent) and const_of(extent) < 0 for extent in extents):
            raise Refusal(
                "a shape that the elements do not fill",
                found=f"{const_of(want)} elements for an array of {const_of(have)}",
                expected=f"a shape of {const_of(have)} elements",
                do="correct the extents, or write -1 for one of them",
                operand=1,
            )
        return None
    bad = context.emit("cmp", bool_, have, want, predicate="ne")
    for extent in extents:  # two negative ones would make a product that fits
        if not is_const(extent) or const_of(extent) < 0:
            below = context.emit("cmp", bool_, extent, context.weak(0), predicate="lt")
            bad = context.emit("or", bool_, bad, below)
    if context.calls.debug:
        message = "cannot reshape the array: the elements do not fill the shape"
        context.emit("raise", none, bad, exception="builtins:ValueError", message=message)
    return bad


def _emptied(context: Context, bad: Value | None, extents: Sequence[Value]) -> list[Value]:
    """The extents, or zeros where a view went wrong: what was told already must not be done, and nothing is there."""
    if bad is None:
        return list(extents)
    return [context.emit("select", weak_int, bad, context.weak(0), extent) for extent in extents]


def _reshaped(context: Context, array: Value, extents: Sequence[Value], dtype: Scalar) -> Value:
    kind = _kind(array)
    if kind.layout != "C":
        raise Refusal(
            "reshaping an array with gaps, or in Fortran order",
            found=kind.name,
            expected=f"an array in C order, such as {kind.with_(layout='C').name}",
            do="declare the parameter in C order, or compute the indices",
            operand=0,
        )
    result = kind.with_(ndim=len(extents), layout="C", dtype=dtype, packed=kind.packed)
    return context.emit("reshape", result, array, *extents)


@method("array", "view")
def view(context: Context, array: Value, dtype: Operand) -> Operand:
    kind, wanted = _kind(array), scalar_type_of(dtype)
    if wanted == kind.dtype:
        return array
    askew: Value | None = None
    if context.calls.debug and wanted.alignment > kind.alignment:
        rest = binary(context, "%", context.emit("address", weak_int, array), context.weak(wanted.alignment))
        askew = context.emit("cmp", bool_, context.convert(rest, weak_int), context.weak(0), predicate="ne")
        message = f"a view as {wanted.name} of memory that is not aligned for it"
        context.emit("raise", none, askew, exception="builtins:ValueError", message=message)
    extents: list[Value] = [arrays.dim(context, array, axis) for axis in range(kind.ndim)]
    if wanted.size != kind.dtype.size:
        if not kind.ndim:
            raise Refusal(
                "a view of another size of an array without axes",
                found=f"{kind.name} as {wanted.name}",
                expected=f"a type of {kind.dtype.size} bytes",
                do="view an array with axes",
                operand=1,
            )
        size = binary(context, "*", extents[-1], context.weak(kind.dtype.size))
        extents[-1] = context.convert(binary(context, "//", size, context.weak(wanted.size)), weak_int)
    return _reshaped(context, array, _emptied(context, askew, extents), wanted)


@method("number", "astype")
@method("time", "astype")
def astype(context: Context, value: Value, dtype: Operand) -> Operand:
    return cast_to(context, scalar_type_of(dtype), [value])


@method("number", "item")
def number_item(context: Context, value: Value) -> Operand:
    return value


def _of_array(name: str) -> None:
    """``numpy.name(array, …)`` as ``array.name(…)``."""
    function = find_method("array", name)
    assert function is not None
    parameters = list(inspect.signature(function).parameters.values())[2:]

    @python_function(getattr(numpy, name))
    def rule(context: Context, array: Operand, *operands: Operand) -> Operand:
        if not (isinstance(array, Value) and isinstance(array.type, Array)):
            raise Refusal(
                f"numpy.{name} of something that is not an array",
                found=describe(array),
                expected=f"numpy.{name}({', '.join(['array', *(p.name for p in parameters)])})",
                do="pass an array",
                operand=1,
            )
        return call_method(context, MethodOperand(array, name), operands, {})


for _name in ("ravel", "reshape", "transpose"):
    _of_array(_name)
