# SPDX-License-Identifier: Apache-2.0
"""Where the extent of an array's axis comes from, through the operations that make arrays of arrays.

Before ``dim (field %a) axis=0``, after ``dim %a axis=0``; ``dim (field %a shape=(3, 2)) axis=1`` of a 1-d ``%a`` is 3.
"""

from __future__ import annotations

from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Array

__all__ = ["extent_origin", "is_of_row"]


def extent_origin(array: Value, axis: int, *, rows: bool = True) -> tuple[Value, int] | int | Value:
    """The array and axis that the extent of ``axis`` is that of; a number, or the value that it was given as.

    The array is ``array`` itself where nothing more is known.

    Args:
        array, axis: whose extent.
        rows: whether to look through views that index an axis. Where indices are checked, such a view is empty if one
            is out of range, whatever its base's extents are.
    """
    while isinstance(array, Instr):
        if array.op in ("shared", "local", "constant"):
            return int(array.attrs["shape"][axis])
        if array.op == "array_at" or (array.op == "reshape" and (rows or not is_of_row(array))):
            return array.operands[1 + axis]
        if array.op == "field":
            base = array.operands[0].type
            assert isinstance(base, Array)
            if axis >= base.ndim:
                return int(array.attrs["shape"][axis - base.ndim])
        elif array.op == "transpose":
            axis = array.attrs["order"][axis]
            if axis < 0:
                return 1
        elif array.op == "view" and (rows or not is_of_row(array)):
            found = _of_view(array, axis)
            if not isinstance(found, int):
                return found
            axis = found
        else:
            break
        array = array.operands[0]
    return array, axis


def is_of_row(array: Value) -> bool:
    """Whether the array is made of a view that indexes an axis: it may be of a row that is not there."""
    while isinstance(array, Instr) and array.op in ("view", "field", "transpose", "reshape"):
        if array.op == "view" and "i" in array.attrs["axes"]:
            return True
        array = array.operands[0]
    return False


def _of_view(view: Instr, axis: int) -> int | Value:
    """The axis of the base that a view keeps as its own ``axis``, or the length that was cut out of it."""
    at, kept = 1, 0
    for position, letter in enumerate(view.attrs["axes"]):
        if letter != "i":
            if kept == axis:
                return position if letter == "-" else view.operands[at + 2]
            kept += 1
        at += {"i": 1, "s": 3, "-": 0}[letter]
    raise AssertionError(f"axis {axis} of {view}")
