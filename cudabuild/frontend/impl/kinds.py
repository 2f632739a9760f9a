# SPDX-License-Identifier: Apache-2.0
"""``isinstance``: known before the kernel runs, so that what the other branch would do with the value never counts."""

from __future__ import annotations

import builtins
import enum
from typing import Any

import numpy

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.casts import find_scalar_type
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import (
    NoneOperand,
    Operand,
    OptionalOperand,
    Static,
    TupleOperand,
    const_of,
    describe,
    type_of,
)
from cudabuild.types import Array, Boolean, Complex, Float, Integer, Scalar, Tuple, Type, bool_
from cudabuild.types.named import EnumMember

__all__: list[str] = []

#: Python's classes, and NumPy's that stand for several types -> the types of the kernel language.
_CLASSES: dict[Any, tuple[type, ...]] = {
    int: (Integer, Boolean),
    float: (Float,),
    bool: (Boolean,),
    complex: (Complex,),
    tuple: (Tuple,),
    numpy.ndarray: (Array,),
    numpy.generic: (Scalar,),
    numpy.number: (Integer, Float, Complex),
    numpy.integer: (Integer,),
    numpy.floating: (Float,),
    numpy.complexfloating: (Complex,),
}


@python_function(builtins.isinstance, whole=True)
def isinstance_(context: Context, value: Operand, classes: Operand) -> Operand:
    """Rule; an array's elements are Python numbers as much as NumPy's are, whatever their width."""
    listed = context.elements(classes)
    if isinstance(value, OptionalOperand):
        fits = isinstance_(context, value.value, classes)
        without = isinstance_(context, NoneOperand(), classes)
        if const_of(fits) == const_of(without):
            return fits
        return value.present if const_of(fits) else context.emit("inv", bool_, value.present)
    found = [_fits(value, one) for one in ((classes,) if listed is None else listed)]
    return context.const(any(found), bool_)


def _fits(value: Operand, operand: Operand) -> bool:
    cls = operand.value if isinstance(operand, Static) else None
    if isinstance(operand, NoneOperand) or cls is type(None):
        return isinstance(value, NoneOperand)
    kind = type_of(value)
    if cls is str:
        return isinstance(value, Static) and isinstance(value.value, str)
    if isinstance(cls, enum.EnumMeta):
        return isinstance(kind, EnumMember) and kind.find_class() is cls
    fields = getattr(cls, "_fields", None)
    if isinstance(fields, tuple):
        return isinstance(value, TupleOperand) and value.kind is not None and value.kind.field_names == fields
    if isinstance(cls, type) and cls in _CLASSES:
        if isinstance(value, TupleOperand):
            return cls is tuple
        return isinstance(kind, _CLASSES[cls]) and not (isinstance(kind, EnumMember) and not kind.is_integer)
    if isinstance(cls, type) and issubclass(cls, Type):
        return isinstance(kind, cls)
    scalar = find_scalar_type(cls)
    if scalar is None:
        raise Refusal(
            "isinstance of a class that no value of a kernel has",
            found=describe(operand),
            expected="int, float, bool, complex, tuple, str, a NumPy or cudabuild type, an Enum or a named tuple",
            do="compare something that the kernel knows, such as len(x) or x.ndim",
            operand=2,
        )
    return kind == scalar
