# SPDX-License-Identifier: Apache-2.0
"""Elements of arrays: numbers are loaded, records and texts are places in memory that are read further.

A record ``a[i]`` is an array without axes, and so is a field of it; reading ``a[i].x`` goes back to the array ``a``::

    field x of (view of a at i)      becomes      load of (field x of a) at i

so that the access has the index, and its check, like that of any other array. What was not looked up is dead.
"""

from __future__ import annotations

from collections.abc import Sequence

from cudabuild.errors import nearest_name
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import Operand
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array, CharSeq, Member, Record, uint8, uint32
from cudabuild.types.record import natural_alignment

__all__ = [
    "check_alignment",
    "codes_of",
    "find_member",
    "is_place",
    "load_element",
    "member_array",
    "place_of",
    "read_member",
    "rebase",
]


def is_place(kind: object) -> bool:
    """Whether values of a type stay in memory: records and texts do."""
    return isinstance(kind, (Record, CharSeq))


def load_element(context: Context, array: Value, indices: Sequence[Value]) -> Operand:
    """The element of ``array`` at ``indices``, wrapped already: a number, or the place of a record or a text."""
    kind = array.type
    assert isinstance(kind, Array)
    if is_place(kind.dtype):
        return place_of(context, array, indices)
    base, outer = rebase(context, array)
    assert isinstance(base.type, Array)
    return context.emit("load", base.type.dtype, base, *outer, *indices)


def place_of(context: Context, array: Value, indices: Sequence[Value]) -> Value:
    """The array without axes that is one element of ``array``."""
    if not indices:
        return array
    assert isinstance(array.type, Array)
    place = array.type.with_(ndim=0, layout="C")
    return context.emit("view", place, array, *indices, axes="i" * len(indices))


def rebase(context: Context, array: Value) -> tuple[Value, list[Value]]:
    """An array with the same elements at ``(*indices, …)``, and the indices: see the module."""
    if not isinstance(array, Instr):
        return array, []
    if array.op == "view" and set(array.attrs["axes"]) == {"i"}:
        base, outer = rebase(context, array.operands[0])
        return base, [*outer, *array.operands[1:]]
    if array.op == "field":
        base, outer = rebase(context, array.operands[0])
        if outer:
            assert isinstance(array.type, Array)
            assert isinstance(base.type, Array)
            shape = array.attrs.get("shape", ())
            kind = array.type.with_(ndim=base.type.ndim + len(shape), layout="A")
            return context.emit("field", kind, base, **array.attrs), outer
    return array, []


def member_array(context: Context, base: Value, member: Member) -> Value:
    """The member of every record of an array: an array with the same axes, and those of a sub-array behind them."""
    kind = base.type
    assert isinstance(kind, Array)
    record = kind.dtype
    aligned = record.alignment_of(member) if isinstance(record, Record) else record.alignment
    if kind.packed:
        aligned = min(kind.packed, aligned)
    ndim = kind.ndim + len(member.shape)
    layout = "C" if kind.ndim == 0 else "A"
    result = Array(member.dtype, ndim, layout, kind.readonly, kind.space, aligned)
    shape = {"shape": member.shape} if member.shape else {}
    return context.emit("field", result, base, offset=member.offset, **shape)


def find_member(base: Value, name: str, position: int | None = None) -> Member:
    """The member of an array of records, or a Refusal; ``position`` is the operand to point at."""
    assert isinstance(base.type, Array)
    record = base.type.dtype
    assert isinstance(record, Record)
    member = record.member(name)
    if member is not None:
        return member
    names = [member.name for member in record.members]
    near = nearest_name(name, names)
    raise Refusal(
        f"a record has no field {name!r}",
        found=name,
        expected=f"one of {', '.join(names)}",
        do=f"did you mean {near!r}?" if near else "use a field of the record's type",
        operand=position,
    )


def read_member(context: Context, base: Value, member: Member) -> Operand:
    """The member of a record, or of every record of an array."""
    check_alignment(context, base, member)
    found = member_array(context, base, member)
    assert isinstance(found.type, Array)
    return load_element(context, found, []) if found.type.ndim == 0 else found


def check_alignment(context: Context, base: Value, member: Member) -> None:
    """Refuses a member that lies askew, where numba does."""
    if context.table.reads_packed or not member.offset % natural_alignment(member.dtype):
        return
    assert isinstance(base.type, Array)
    raise Refusal(
        f"field {member.name!r} of type {member.dtype.name} is not aligned",
        found=base.type.dtype.name,
        expected="fields at multiples of their size",
        do="make the type with numpy.dtype(…, align=True)",
        operand=0,
    )


def codes_of(context: Context, place: Value) -> Value:
    """The characters of a text as an array of numbers."""
    assert isinstance(place.type, Array)
    kind = place.type.dtype
    assert isinstance(kind, CharSeq)
    code = uint32 if kind.unicode else uint8
    return member_array(context, place, Member("", code, 0, (kind.length,)))
