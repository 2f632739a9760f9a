# SPDX-License-Identifier: Apache-2.0
"""What assignment does: to an element, to a field of a record, to a slice, to a whole array.

Arrays are assigned element by element (``library_arrays.py``), with NumPy's broadcasting. Where both lie in the same
memory and the steps between elements are the same (``a[1:] = a[:-1]``), the order is such that no element is read
after it was overwritten; arrays that overlap in another way (``a[:] = a[::-1]``) have no defined order.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudabuild.frontend import library_arrays
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import times
from cudabuild.frontend.impl.elements import check_alignment, load_element, member_array, place_of, rebase
from cudabuild.frontend.impl.texts import store_text
from cudabuild.frontend.operands import Operand, Static, TupleOperand, describe
from cudabuild.frontend.python_integers import check_stored
from cudabuild.ir.ir import Value
from cudabuild.types import Array, CharSeq, Member, Record, Scalar, bool_, none, uint8, weak_int

__all__ = ["assign_array", "check_writable", "store_element", "store_member"]

_MISMATCH = "could not broadcast an array into the shape of what it is assigned to"


def check_writable(array: Value) -> None:
    """Refuses an assignment to a read-only array."""
    kind = array.type
    assert isinstance(kind, Array)
    if not kind.readonly:
        return
    raise Refusal(
        "assignment to a read-only array",
        found=kind.name,
        expected="a writable array",
        do="write to an array that the kernel is given, or that it makes"
        if kind.space == "const"
        else "drop 'const' from its type in the signature, or write to another array",
        operand=0,
    )


def store_element(context: Context, array: Value, indices: Sequence[Value], value: Operand, position: int = 2) -> None:
    """``array[indices] = value`` of one element.

    Args:
        context: where.
        array: a writable array.
        indices: one for each axis, wrapped already.
        value: what is stored.
        position: which operand ``value`` is, for a refusal.
    """
    kind = array.type
    assert isinstance(kind, Array)
    if isinstance(kind.dtype, Record):
        _store_record(context, place_of(context, array, indices), value, position)
    elif isinstance(kind.dtype, CharSeq):
        store_text(context, place_of(context, array, indices), value, position)
    else:
        base, outer = rebase(context, array)
        number = _number(context, kind.dtype, value, position)
        context.emit("store", none, base, *outer, *indices, number)


def _number(context: Context, dtype: Scalar, value: Operand, position: int) -> Value:
    if isinstance(value, Value) and isinstance(value.type, Array) and value.type.ndim == 0:
        value = load_element(context, value, [])  # an array without axes is a number where one is wanted
    if isinstance(value, Value) and (times.is_time(dtype) or times.is_time(value.type)):
        return times.convert(context, value, dtype, position)
    if isinstance(value, Value) and isinstance(value.type, Scalar):
        check_stored(context, value, dtype, position)
        try:
            return context.cast(value, dtype)
        except Refusal as refusal:
            refusal.operand = position  # the caret under the value, not under where it goes
            raise
    raise Refusal(
        f"cannot store this in an array of {dtype.name}",
        found=describe(value),
        expected=f"a number, stored as {dtype.name}",
        do="store one number in one element",
        operand=position,
    )


def store_member(context: Context, base: Value, member: Member, value: Operand, position: int = 1) -> None:
    """``record.member = value``, of a record or of every record of an array."""
    check_writable(base)
    check_alignment(context, base, member)
    target = member_array(context, base, member)
    assert isinstance(target.type, Array)
    if target.type.ndim == 0:
        store_element(context, target, [], value, position)
    else:
        assign_array(context, target, value, position)


def _store_record(context: Context, place: Value, value: Operand, position: int) -> None:
    """Member by member, in the order of the types, as NumPy does; bytes between them stay as they are."""
    assert isinstance(place.type, Array)
    record = place.type.dtype
    assert isinstance(record, Record)
    elements = context.elements(value)
    if elements is not None and len(elements) == len(record.members):
        for member, element in zip(record.members, elements, strict=True):
            _copy_member(context, place, member, element, position)
        return
    source = value.type if isinstance(value, Value) else None
    if isinstance(source, Array) and source.ndim == 0 and isinstance(source.dtype, Record):
        assert isinstance(value, Value)
        if source.dtype == record and _overlaps_itself(record):
            whole = Member("", uint8, 0, (record.size,))
            assign_array(context, member_array(context, place, whole), member_array(context, value, whole), position)
            return
        if len(source.dtype.members) == len(record.members):
            for member, other in zip(record.members, source.dtype.members, strict=True):
                found = member_array(context, value, other)
                assert isinstance(found.type, Array)
                element = load_element(context, found, []) if found.type.ndim == 0 else found
                _copy_member(context, place, member, element, position)
            return
    raise Refusal(
        "cannot store this in a record",
        found=describe(value),
        expected=f"a record with {len(record.members)} fields, or a tuple of {len(record.members)} values",
        do="assign the fields one by one: r.x = …",
        operand=position,
    )


def _copy_member(context: Context, place: Value, member: Member, value: Operand, position: int) -> None:
    target = member_array(context, place, member)
    assert isinstance(target.type, Array)
    if target.type.ndim == 0:
        store_element(context, target, [], value, position)
    else:
        assign_array(context, target, value, position)


def _overlaps_itself(record: Record) -> bool:
    end = 0
    for member in sorted(record.members, key=lambda member: member.offset):
        if member.offset < end:
            return True
        count = 1
        for extent in member.shape:
            count *= extent
        end = member.offset + count * member.dtype.size
    return False


def assign_array(context: Context, target: Value, value: Operand, position: int = 2) -> None:
    """Every element of ``target``, an array with axes, becomes ``value`` or the element of it in the same place."""
    check_writable(target)
    kind = target.type
    assert isinstance(kind, Array)
    source = value.type if isinstance(value, Value) else None
    if isinstance(source, Array) and source.ndim > 0:
        assert isinstance(value, Value)
        _assign_from(context, target, value, position)
        return
    elements = context.elements(value)
    if elements is not None and not (isinstance(kind.dtype, Record) and len(elements) == len(kind.dtype.members)):
        _assign_elements(context, target, elements, position)
        return
    if not isinstance(kind.dtype, (Record, CharSeq)):
        value = _number(context, kind.dtype, value, position)
    elif elements is None:
        text = isinstance(value, Static) and isinstance(value.value, (str, bytes))
        found = source.dtype if isinstance(source, Array) else None if text else bool_
        _check_kinds(kind.dtype, found, value, position)
    context.calls.call(context, library_arrays.fill, [target, value], {})


def _check_kinds(dtype: Scalar, source: Scalar | None, value: Operand, position: int) -> None:
    """Refuses here, and not inside the library, elements that cannot be stored; a ``source`` of None is a text."""
    if isinstance(dtype, Record):
        fits = isinstance(source, Record) and len(source.members) == len(dtype.members)
    elif isinstance(dtype, CharSeq):
        fits = source is None or (isinstance(source, CharSeq) and (dtype.unicode or not source.unicode))
    elif times.is_time(dtype) or times.is_time(source):
        fits = source is not None and times.converts(source, dtype)
    else:
        fits = not isinstance(source, (Record, CharSeq))
    if fits:
        return
    raise Refusal(
        f"cannot store this in an array of {dtype.name}",
        found=describe(value),
        expected=f"elements of {dtype.name}, or of a type that converts to it",
        do="write a loop over the elements, and convert each",
        operand=position,
    )


def _assign_from(context: Context, target: Value, source: Value, position: int) -> None:
    assert isinstance(target.type, Array)
    assert isinstance(source.type, Array)
    extra = source.type.ndim - target.type.ndim
    if extra > 0:
        most = "1 axis" if target.type.ndim == 1 else f"{target.type.ndim} axes"
        raise Refusal(
            "an array with more axes than it is assigned to",
            found=f"{source.type.name} for {target.type.name}",
            expected=f"an array of at most {most}, or a number",
            do="index it: x[0]",
            operand=position,
        )
    _check_kinds(target.type.dtype, source.type.dtype, source, position)
    if context.calls.debug:
        _check_shapes(context, target, source)
    if extra < 0:
        context.calls.call(context, library_arrays.assign_each, [target, source], {})
        return
    context.calls.call(context, library_arrays.assign, [target, source, _backwards(context, target, source)], {})


def _backwards(context: Context, target: Value, source: Value) -> Operand:
    """Whether the last element comes first: where the target lies behind the source in the direction of its axis."""
    first, second = target.type, source.type
    assert isinstance(first, Array)
    assert isinstance(second, Array)
    apart = {first.space, second.space}
    if "const" in apart or first.dtype != second.dtype or (len(apart) > 1 and "generic" not in apart):
        return context.const(False, bool_)
    behind = context.emit(
        "cmp", bool_, *(context.emit("address", weak_int, a) for a in (target, source)), predicate="gt"
    )
    if first.layout != "A":
        return behind
    step = context.emit("stride", weak_int, target, axis=0)
    return context.emit("xor", bool_, behind, context.emit("cmp", bool_, step, context.weak(0), predicate="lt"))


def _check_shapes(context: Context, target: Value, source: Value) -> None:
    """Raises ValueError where an extent of the source is neither 1 nor the target's."""
    assert isinstance(target.type, Array)
    assert isinstance(source.type, Array)
    shift = target.type.ndim - source.type.ndim
    bad: Value | None = None
    for axis in range(source.type.ndim):
        have = context.emit("dim", weak_int, source, axis=axis)
        want = context.emit("dim", weak_int, target, axis=axis + shift)
        differs = context.emit("cmp", bool_, have, want, predicate="ne")
        several = context.emit("cmp", bool_, have, context.weak(1), predicate="ne")
        wrong = context.emit("and", bool_, differs, several)
        bad = wrong if bad is None else context.emit("or", bool_, bad, wrong)
    assert bad is not None
    context.emit("raise", none, bad, exception="builtins:ValueError", message=_MISMATCH)


def _assign_elements(context: Context, target: Value, elements: Sequence[Operand], position: int) -> None:
    """``target[:] = (1, 2, 3)``."""
    assert isinstance(target.type, Array)
    if context.calls.debug:
        have = context.emit("dim", weak_int, target, axis=0)
        bad = context.emit("cmp", bool_, have, context.weak(len(elements)), predicate="ne")
        context.emit("raise", none, bad, exception="builtins:ValueError", message=_MISMATCH)
    for index, element in enumerate(elements):
        at = context.weak(index)
        if target.type.ndim == 1:
            store_element(context, target, [at], element, position)
        else:
            axes = "i" + "-" * (target.type.ndim - 1)
            layout = "C" if target.type.layout == "C" else "A"
            row = context.emit(
                "view", target.type.with_(ndim=target.type.ndim - 1, layout=layout), target, at, axes=axes
            )
            element = TupleOperand(found) if (found := context.elements(element)) is not None else element
            assign_array(context, row, element, position)
