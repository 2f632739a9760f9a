# SPDX-License-Identifier: Apache-2.0
"""Types called as casts: ``float32(x)``, ``np.int64(x)``."""

from __future__ import annotations

from typing import Any

import numpy

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import times
from cudabuild.frontend.impl.registry import python_function
from cudabuild.frontend.operands import Operand, Static, describe
from cudabuild.ir.ir import Value
from cudabuild.types import Scalar, find_dtype, scalar_by_name
from cudabuild.types.type import scalar_names

__all__ = ["cast_to", "find_scalar_type", "scalar_type_of"]

_NUMPY_SCALARS = {
    numpy.bool_: "bool",
    **{getattr(numpy, name): name for name in scalar_names() if name[-1].isdigit() and hasattr(numpy, name)},
}
_PYTHON_SCALARS = {int: "int64", float: "float64", bool: "bool", complex: "complex128"}


def cast_to(context: Context, kind: Scalar, operands: Any) -> Operand:
    """``kind(x)``."""
    if len(operands) != 1:
        raise Refusal(
            f"wrong arguments for {kind.name}",
            found=f"{len(operands)} arguments",
            expected=f"{kind.name}(x)",
            do="convert one number",
        )
    (operand,) = operands
    if isinstance(operand, Value) and (times.is_time(kind) or times.is_time(operand.type)):
        return times.cast(context, operand, kind)
    return context.cast(context.scalar(operand, f"the argument of {kind.name}", 1), kind)


def _register(kind: Scalar, numpy_class: type) -> None:
    @python_function(numpy_class, name=f"numpy.{kind.name}")
    def rule(context: Context, x: Operand) -> Operand:
        return cast_to(context, kind, [x])


for _class, _name in _NUMPY_SCALARS.items():
    _kind = scalar_by_name(_name)
    assert _kind is not None
    _register(_kind, _class)


def find_scalar_type(value: Any) -> Scalar | None:
    """The type that ``float32``, ``np.float32``, ``np.dtype("f4")``, ``"float32"`` or ``float`` names, or None; a
    dtype of records, texts or times too, and ``"datetime64[D]"`` or ``"S8"``."""
    if isinstance(value, Scalar):
        return value
    name = None
    if isinstance(value, str):
        name = value
    elif isinstance(value, type):
        name = _PYTHON_SCALARS.get(value) or _NUMPY_SCALARS.get(value)
    elif isinstance(value, numpy.dtype):
        return find_dtype(value)
    kind = scalar_by_name(name) if name else None
    if kind is None and name:
        try:
            return find_dtype(numpy.dtype(name))
        except TypeError:
            return None
    return kind


@python_function(numpy.dtype)
def _dtype(context: Context, dtype: Operand) -> Operand:
    return Static(scalar_type_of(dtype))


def scalar_type_of(operand: Operand) -> Scalar:
    """The element type that an argument such as ``float32``, ``np.float32`` or ``"float32"`` names."""
    kind = find_scalar_type(operand.value) if isinstance(operand, Static) else None
    if kind is not None:
        return kind
    text = operand.value if isinstance(operand, Static) and isinstance(operand.value, str) else None
    raise Refusal(
        "not an element type",
        found=describe(operand) if text is None else f"Invalid NumPy dtype specified: {text!r}",
        expected="a scalar type: " + ", ".join(n for n in scalar_names() if n not in ("int", "float", "complex")),
        do="pass a type, such as float32 from cudabuild",
        operand=2,
    )
