# SPDX-License-Identifier: Apache-2.0
"""Indexing of arrays and tuples, views, and array attributes."""

from __future__ import annotations

from collections.abc import Sequence

from cudabuild.errors import nearest_name
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.assignment import assign_array, check_writable, store_element, store_member
from cudabuild.frontend.impl.constants import is_array, unreadable_array
from cudabuild.frontend.impl.elements import find_member, load_element, read_member
from cudabuild.frontend.impl.operators import binary, compare_numbers
from cudabuild.frontend.impl.pointers import element_at, is_pointer
from cudabuild.frontend.impl.registry import find_method
from cudabuild.frontend.operands import (
    MethodOperand,
    NoneOperand,
    Operand,
    SliceOperand,
    Static,
    TupleOperand,
    const_of,
    describe,
    is_const,
    type_of,
)
from cudabuild.frontend.promotion import join_types
from cudabuild.frontend.python_integers import check_joined
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, Boolean, Complex, Integer, Member, Record, Scalar, bool_, none, weak_int
from cudabuild.types.named import NamedTuple

__all__ = [
    "array_attribute",
    "dim",
    "element_index",
    "get_item",
    "set_attribute",
    "set_item",
    "transposed",
]

_TUPLE_INDEX = "tuple index out of range"
_ATTRIBUTES = (
    "shape", "size", "ndim", "strides", "itemsize", "nbytes", "dtype", "ctypes", "T", "flat", "real", "imag",
)  # fmt: skip


def array_attribute(context: Context, array: Value, name: str) -> Operand:
    """``array.shape``, ``.size``, ``.ndim`` and what else an array has; a field of a record, or of each of an array."""
    kind = array.type
    assert isinstance(kind, Array)
    if isinstance(kind.dtype, Record) and kind.ndim == 0 and kind.dtype.member(name) is not None:
        return read_member(context, array, find_member(array, name))
    if find_method("array", name) is not None:
        return MethodOperand(array, name)
    if name == "flat":
        ravel = find_method("array", "ravel")
        assert ravel is not None
        return ravel(context, array)
    if name == "T":
        return transposed(context, array, tuple(reversed(range(kind.ndim))))
    if name == "nbytes":
        return binary(context, "*", array_attribute(context, array, "size"), context.weak(kind.dtype.size))
    if name == "shape":
        return TupleOperand(tuple(dim(context, array, axis) for axis in range(kind.ndim)))
    if name == "strides":
        return TupleOperand(tuple(context.emit("stride", weak_int, array, axis=axis) for axis in range(kind.ndim)))
    if name == "size":
        size: Operand = context.weak(1) if kind.ndim == 0 else dim(context, array, 0)
        for axis in range(1, kind.ndim):
            size = binary(context, "*", size, dim(context, array, axis))
        return size
    if name == "ndim":
        return context.weak(kind.ndim)
    if name == "itemsize":
        return context.weak(kind.dtype.size)
    if name == "dtype":
        return Static(kind.dtype)
    if name == "ctypes":  # x.ctypes.data is the address
        address = context.emit("address", weak_int, array)
        return TupleOperand((address,), NamedTuple("ctypes", ("data",), (weak_int,)))
    if isinstance(kind.dtype, Record):
        return read_member(context, array, find_member(array, name))
    if name in ("real", "imag") and isinstance(kind.dtype, Complex):
        part = kind.dtype.part
        parts = Array(part, kind.ndim, "A", kind.readonly, kind.space)
        return context.emit("field", parts, array, offset=part.size if name == "imag" else 0)
    if name == "real":
        return array
    near = nearest_name(name, [known for known in _ATTRIBUTES if known != name])
    raise Refusal(
        f"an array has no attribute {name!r} in a kernel",
        found=f"{kind.name}.{name}",
        expected=", ".join(f".{attribute}" for attribute in _ATTRIBUTES),
        do=f"did you mean .{near}?" if near else "compute it on the host and pass it as an argument",
    )


def set_attribute(context: Context, base: Operand, name: str, value: Operand) -> None:
    """``record.name = value``, of a record or of every record of an array."""
    kind = base.type if isinstance(base, Value) else None
    if isinstance(kind, Array) and isinstance(kind.dtype, Record):
        assert isinstance(base, Value)
        store_member(context, base, find_member(base, name), value)
        return
    raise Refusal(
        "attribute assignment",
        found=f"attribute {name!r} of {describe(base)}",
        expected="a variable, an array element or a record's field on the left of '='",
        do="pass an array and assign to one of its elements",
        operand=0,
    )


def transposed(context: Context, array: Value, order: tuple[int, ...]) -> Value:
    """The array with other axes: of each, the axis that it is of ``array``, or -1 for a new one of extent 1."""
    kind = array.type
    assert isinstance(kind, Array)
    kept = [axis for axis in order if axis >= 0]
    if kept == sorted(kept):
        layout = kind.layout
    elif kept == sorted(kept, reverse=True):
        layout = {"C": "F", "F": "C"}.get(kind.layout, "A")
    else:
        layout = "A"
    if list(order) == list(range(kind.ndim)):
        return array
    if kind.ndim == 0:
        layout = "C"
    return context.emit("transpose", kind.with_(ndim=len(order), layout=layout), array, order=order)


def dim(context: Context, array: Value, axis: int) -> Value:
    """The extent of an array along an axis."""
    if isinstance(array, Instr) and array.op == "constant":
        return context.weak(array.attrs["shape"][axis])
    return context.emit("dim", weak_int, array, axis=axis)


def get_item(context: Context, base: Operand, index: Operand) -> Operand:
    """``base[index]``: an element of an array or a tuple, a view, or a field of a record."""
    elements = context.elements(base)
    if elements is not None:
        return _tuple_item(context, base, elements, index)
    if is_pointer(base):
        return load_element(context, *element_at(context, base, index))
    array = _array(context, base)
    member = _member_index(array, index)
    if member is not None:
        return read_member(context, array, member)
    index, added = _without_new_axes(context, index)
    axes = _axes(context, array, index)
    if not added and all(isinstance(axis, Value) for axis in axes):
        return load_element(context, array, _wrapped_all(context, array, axes))
    view = _view(context, array, axes)
    return transposed(context, view, _with_new_axes(view, axes, added)) if added else view


def _member_index(array: Value, index: Operand) -> Member | None:
    """The field that a constant text names, or a constant number in a record."""
    assert isinstance(array.type, Array)
    record = array.type.dtype
    if isinstance(index, Static) and isinstance(index.value, str):
        if isinstance(record, Record):
            return find_member(array, index.value, 1)
        raise Refusal(
            "a text as an index of an array without fields",
            found=describe(index),
            expected=f"{array.type.ndim} integer {'index' if array.type.ndim == 1 else 'indices'}",
            do="index with integers",
            operand=1,
        )
    if array.type.ndim == 0 and isinstance(record, Record) and is_const(index):
        position = const_of(index)
        if isinstance(position, int) and -len(record.members) <= position < len(record.members):
            return record.members[position]
    return None


def _without_new_axes(context: Context, index: Operand) -> tuple[Operand, list[int]]:
    """The index without ``None``, and how many parts of it stand before each."""
    given = _index_elements(context, index)
    if not any(isinstance(part, NoneOperand) for part in given):
        return index, []
    kept: list[Operand] = []
    added = []
    for part in given:
        if isinstance(part, NoneOperand):
            added.append(len(kept))
        else:
            kept.append(part)
    if any(isinstance(part, Static) and part.value is ... for part in kept):
        raise Refusal(
            "a new axis beside '...'",
            found="None and ... in one index",
            expected="one of them",
            do="write the ':' that '...' stands for",
            operand=1,
        )
    return TupleOperand(tuple(kept)), added


def _with_new_axes(view: Value, axes: Sequence[Value | SliceOperand], added: list[int]) -> tuple[int, ...]:
    assert isinstance(view.type, Array)
    order: list[int] = []
    kept = 0
    for position in range(len(axes) + 1):
        order += [-1] * added.count(position)
        if position < len(axes) and isinstance(axes[position], SliceOperand):
            order.append(kept)
            kept += 1
    return tuple(order)


def set_item(context: Context, base: Operand, index: Operand, value: Operand) -> None:
    """``base[index] = value``: of an element, of a slice, of a field."""
    if context.elements(base) is not None:
        raise Refusal(
            "assignment to an element of a tuple",
            found=describe(base),
            expected="an array",
            do="use cuda.local.array(shape, dtype), or build a new tuple",
            operand=0,
        )
    if is_pointer(base):
        place, first = element_at(context, base, index)
        store_element(context, place, first, value)
        return
    array = _array(context, base)
    member = _member_index(array, index)
    if member is not None:
        store_member(context, array, member, value, 2)
        return
    check_writable(array)
    axes = _axes(context, array, index)
    if all(isinstance(axis, Value) for axis in axes):
        store_element(context, array, _wrapped_all(context, array, axes), value)
    else:
        assign_array(context, _view(context, array, axes), value)


def _wrapped_all(context: Context, array: Value, axes: Sequence[Value | SliceOperand]) -> list[Value]:
    return [_wrapped(context, array, position, axis) for position, axis in enumerate(axes)]


def element_index(context: Context, array: Value, index: Operand, what: str) -> list[Value]:
    """The wrapped indices of exactly one element; ``what`` names the use in the message."""
    axes = _axes(context, array, index)
    kind = array.type
    assert isinstance(kind, Array)
    given = _index_elements(context, index)
    if not all(isinstance(axis, Value) for axis in axes):
        short = len(given) < kind.ndim
        raise Refusal(
            f"{what} needs one element",
            found=f"{len(given)} {'index' if len(given) == 1 else 'indices'} for {kind.name}"
            if short
            else f"a slice of {kind.name}",
            expected=f"{kind.ndim} integer {'index' if kind.ndim == 1 else 'indices'}",
            do="write a loop over the elements",
            operand=1,
        )
    return _wrapped_all(context, array, axes)


def _array(context: Context, base: Operand) -> Value:
    if isinstance(base, Value) and isinstance(base.type, Array):
        return base
    kind = type_of(base)
    if isinstance(base, Static) and is_array(base.value):
        raise unreadable_array(base.value)
    if isinstance(kind, Scalar):
        do = "pass an array: give the parameter a type such as float32[::1]"
    else:
        do = "index an array or a tuple"
    raise Refusal(
        "only arrays and tuples can be indexed", found=describe(base), expected="an array or a tuple", do=do, operand=0
    )


def _index_elements(context: Context, index: Operand) -> tuple[Operand, ...]:
    elements = context.elements(index)
    return (index,) if elements is None else elements


def _axes(context: Context, array: Value, index: Operand) -> list[Value | SliceOperand]:
    """One entry per axis: an integer value or a slice; axes not mentioned are whole."""
    kind = array.type
    assert isinstance(kind, Array)
    whole = SliceOperand(None, None, None)
    given = list(_index_elements(context, index))
    ellipses = [position for position, part in enumerate(given) if isinstance(part, Static) and part.value is ...]
    if len(given) - len(ellipses) > kind.ndim:
        raise Refusal(
            "too many indices",
            found=f"{len(given) - len(ellipses)} indices for {kind.name}",
            expected=f"at most {kind.ndim}",
            do=f"index with {kind.ndim} {'number' if kind.ndim == 1 else 'numbers'}, or give the array more dimensions",
            operand=1,
        )
    if ellipses:
        at = ellipses[0]
        given[at : at + 1] = [whole] * (kind.ndim - len(given) + 1)
    given += [whole] * (kind.ndim - len(given))
    axes: list[Value | SliceOperand] = []
    for part in given:
        if isinstance(part, Value) and isinstance(part.type, Array) and part.type.ndim == 0:
            part = context.emit("load", part.type.dtype, part)  # an array without axes is its element
        if isinstance(part, SliceOperand) or (isinstance(part, Value) and isinstance(part.type, Integer)):
            axes.append(part)
        else:
            raise Refusal(
                "an index is not an integer",
                found=describe(part),
                expected="an integer or a slice for each axis",
                do="convert it: int(x)"
                if isinstance(part, Value) and isinstance(part.type, Scalar)
                else "use integers",
                operand=1,
            )
    return axes


def _wrapped(context: Context, array: Value, axis: int, index: Value | SliceOperand) -> Value:
    """The index counted from the start: a negative one counts from the end, once."""
    assert isinstance(index, Value)
    kind = index.type
    assert isinstance(kind, Integer)
    if is_const(index):
        value = const_of(index)
        if value >= 0:
            return context.weak(value)
        return context.emit("add", weak_int, dim(context, array, axis), context.weak(value))
    wide = context.cast(index, weak_int)
    if not kind.signed:
        return wide
    return context.emit("wrap", weak_int, wide, dim(context, array, axis))


def _view(context: Context, array: Value, axes: Sequence[Value | SliceOperand]) -> Value:
    kind = array.type
    assert isinstance(kind, Array)
    letters = ""
    operands: list[Value] = []
    for position, axis in enumerate(axes):
        if isinstance(axis, Value):
            letters += "i"
            operands.append(_wrapped(context, array, position, axis))
        elif axis.start is None and axis.stop is None and axis.step is None:
            letters += "-"
        else:
            first, step, length = slice_bounds(context, axis, dim(context, array, position))
            unit = is_const(step) and const_of(step) == 1
            letters += "s" if unit else "S"
            operands += [first, step, length]
    result = kind.with_(ndim=len(letters) - letters.count("i"), layout=_view_layout(kind, letters))
    return context.emit("view", result, array, *operands, axes=letters.replace("S", "s"))


def _view_layout(kind: Array, letters: str) -> str:
    """C order stays C order when leading axes are indexed and at most the first axis kept is cut; likewise F."""
    if "S" in letters or kind.layout == "A":
        return "A"
    kept = letters if kind.layout == "C" else letters[::-1]
    kept = kept.lstrip("i")
    return kind.layout if kept[:1] in ("", "s", "-") and set(kept[1:]) <= {"-"} else "A"


def slice_bounds(context: Context, part: SliceOperand, extent: Value) -> tuple[Value, Value, Value]:
    """First index, step and length, by the rule of ``slice.indices``; the step must be a constant."""
    step = 1
    if part.step is not None:
        if not (is_const(part.step) and isinstance(const_of(part.step), int) and const_of(part.step) != 0):
            raise Refusal(
                "the step of a slice is not a constant",
                found=describe(part.step),
                expected="an integer constant that is not 0",
                do="write a loop with range(start, stop, step)",
                operand=1,
            )
        step = const_of(part.step)
    low, high = (context.weak(0), extent) if step > 0 else (context.weak(-1), _less_one(context, extent))
    first = (low if step > 0 else high) if part.start is None else _clamped(context, part.start, extent, low, high)
    last = (high if step > 0 else low) if part.stop is None else _clamped(context, part.stop, extent, low, high)
    distance = _sub(context, last, first) if step > 0 else _sub(context, first, last)
    steps = binary(context, "//", binary(context, "+", distance, context.weak(abs(step) - 1)), context.weak(abs(step)))
    assert isinstance(steps, Value)
    if part.start is None and part.stop is None and abs(step) == 1:
        return first, context.weak(step), extent
    return first, context.weak(step), context.emit("max", weak_int, steps, context.weak(0))


def _less_one(context: Context, value: Value) -> Value:
    return context.emit("sub", weak_int, value, context.weak(1))


def _sub(context: Context, a: Value, b: Value) -> Value:
    result = binary(context, "-", a, b)
    assert isinstance(result, Value)
    return result


def _clamped(context: Context, bound: Operand, extent: Value, low: Value, high: Value) -> Value:
    if not (isinstance(bound, Value) and isinstance(bound.type, Integer)):
        raise Refusal(
            "a bound of a slice is not an integer",
            found=describe(bound),
            expected="an integer",
            do="convert it: int(x)",
            operand=1,
        )
    value = context.cast(bound, weak_int)
    if is_const(value):
        if const_of(value) < 0:
            value = context.emit("add", weak_int, extent, value)
    elif bound.type.signed:
        value = context.emit("wrap", weak_int, value, extent)
    return context.emit("min", weak_int, context.emit("max", weak_int, value, low), high)


def _tuple_item(context: Context, base: Operand, elements: tuple[Operand, ...], index: Operand) -> Operand:
    if isinstance(index, SliceOperand):
        parts = [None if part is None else _constant_index(part) for part in (index.start, index.stop, index.step)]
        return TupleOperand(elements[slice(*parts)])
    if is_const(index) and isinstance(const_of(index), int):
        position = int(const_of(index))
        if not -len(elements) <= position < len(elements):
            raise Refusal(
                "tuple index out of range",
                found=f"index {position} of a tuple of {len(elements)}",
                expected=f"{-len(elements)} to {len(elements) - 1}" if elements else "a tuple with elements",
                do="use an index that exists",
                operand=1,
            )
        return elements[position]
    return _dynamic_tuple_item(context, base, elements, index)


def _constant_index(part: Operand) -> int:
    if is_const(part) and isinstance(const_of(part), int):
        return int(const_of(part))
    raise Refusal(
        "a slice of a tuple needs constant bounds",
        found=describe(part),
        expected="integer constants",
        do="index single elements",
        operand=1,
    )


def _dynamic_tuple_item(context: Context, base: Operand, elements: tuple[Operand, ...], index: Operand) -> Value:
    """An element chosen at run time: a chain of selects over elements of one type."""
    if not (isinstance(index, Value) and isinstance(index.type, Integer)) or isinstance(index.type, Boolean):
        raise Refusal(
            "a tuple index is not an integer",
            found=describe(index),
            expected="an integer",
            do="convert it: int(x)",
            operand=1,
        )
    kind = type_of(elements[0]) if elements else None
    for element in elements[1:]:
        other = type_of(element)
        kind = join_types(kind, other) if kind is not None and other is not None else None
    if not isinstance(kind, Scalar):
        raise Refusal(
            "an index that is not a constant, into a tuple of different things",
            found=describe(base),
            expected="a tuple of numbers, or a constant index",
            do="use a constant index, or a cuda.local.array",
            operand=1,
        )
    position = context.cast(index, weak_int)
    if index.type.signed:
        position = context.emit("wrap", weak_int, position, context.weak(len(elements)))
    if context.calls.debug:
        below = context.emit("cmp", bool_, position, context.weak(0), predicate="lt")
        above = context.emit("cmp", bool_, position, context.weak(len(elements)), predicate="ge")
        outside = context.emit("or", bool_, below, above)
        context.emit("raise", none, outside, exception="builtins:IndexError", message=_TUPLE_INDEX)
    for element in elements:
        check_joined(context, element, kind)
    result = context.convert(elements[-1], kind)
    for at in range(len(elements) - 2, -1, -1):
        here = compare_numbers(context, "==", position, context.weak(at))
        result = context.emit("select", kind, here, context.convert(elements[at], kind), result)
    return result
