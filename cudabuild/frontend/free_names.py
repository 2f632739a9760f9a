# SPDX-License-Identifier: Apache-2.0
"""The names that a function takes from outside, and what the objects that they stand for are in a kernel."""

from __future__ import annotations

import builtins
import enum
from collections.abc import Collection
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from cudabuild.fingerprint.values import find_device_memory
from cudabuild.frontend import objects
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl import constants, threads, times
from cudabuild.frontend.impl.captured import device_array
from cudabuild.frontend.operands import NoneOperand, Operand, Static, TupleOperand
from cudabuild.lang.name import KernelName, Namespace
from cudabuild.types import Scalar, none, scalar_by_name, uint64
from cudabuild.types.named import NamedTuple

__all__ = ["FreeNames", "operand_of_object"]

_INT64 = range(-(1 << 63), 1 << 63)

#: Types of objects that exist at compile time only, whatever their attributes.
_OBJECTS = frozenset({ModuleType, FunctionType, BuiltinFunctionType, Namespace, str})

#: Names that are written without parentheses.
_SPECIAL_REGISTERS = frozenset({"laneid"})


class FreeNames:
    """The names that a function takes from outside, by Python's rule: closure, then globals, then builtins."""

    def __init__(self, function: FunctionType, local_names: Collection[str]) -> None:
        self.function = function
        self.namespace = function.__globals__
        self.locals = local_names
        self.cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))

    def lookup(self, identifier: str) -> Any:
        """The object; raises Refusal where the name is not defined."""
        if identifier in self.cells:
            try:
                return self.cells[identifier].cell_contents
            except ValueError:
                if identifier == self.function.__name__:  # its decorator compiles it before the name is bound
                    return self.function
                raise Refusal(
                    f"name {identifier!r} has no value yet",
                    found=identifier,
                    expected="a captured variable that is assigned before the kernel is compiled",
                    do="assign it before the first launch",
                ) from None
        if identifier in self.namespace:
            return self.namespace[identifier]
        if hasattr(builtins, identifier):
            return getattr(builtins, identifier)
        if identifier == self.function.__name__:
            return self.function
        raise KeyError(identifier)


def operand_of_object(context: Context, value: Any) -> Operand:
    """The operand that a Python object stands for: numbers and tuples of them are constants of the kernel."""
    if value is None:
        return NoneOperand()
    kind_of_value = type(value)
    if kind_of_value in _OBJECTS:
        return Static(value)
    if kind_of_value is KernelName and value.name not in _SPECIAL_REGISTERS:
        return Static(value)
    if kind_of_value is float:
        return context.weak(value)
    if type(value).__name__ in ("datetime64", "timedelta64") and type(value).__module__ == "numpy":
        return times.constant_time(context, value)
    kind = _numpy_scalar_type(value)
    if kind is not None:  # before Python's numbers: np.float64 is a float too, but typed
        return context.const(value.item(), kind)
    if isinstance(value, enum.Enum) and objects.is_plain_member(value):
        return objects.member(context, value)
    if isinstance(value, bool):
        return context.weak(value)
    if isinstance(value, complex):
        return context.weak(complex.__pos__(value))
    if isinstance(value, float):
        return context.weak(float.__pos__(value))  # a plain float, and no code of a derived class
    if isinstance(value, int):
        number = int.__pos__(value)
        if number in _INT64:
            return context.weak(number)
        if 0 <= number < 1 << 64:
            return context.const(number, uint64)
        raise Refusal(
            "an integer of more than 64 bits",
            found=str(number),
            expected="at most 64 bits",
            do="use a float, or split it",
        )
    if isinstance(value, (tuple, list)):
        fields = getattr(type(value), "_fields", None)
        elements = tuple(operand_of_object(context, element) for element in value)
        named = NamedTuple(type(value).__name__, fields, [none] * len(fields)) if isinstance(fields, tuple) else None
        return TupleOperand(elements, named)
    if isinstance(value, KernelName) and value.name in _SPECIAL_REGISTERS:
        return threads.special_register(context, value.name)
    if constants.is_array(value):
        return constants.constant_array(context, value)
    memory = find_device_memory(value)
    return Static(value) if memory is None else device_array(context, value, memory)


def _numpy_scalar_type(value: Any) -> Scalar | None:
    """The type of a NumPy scalar (they have a dtype and no dimensions, and ``item``)."""
    if isinstance(value, type) or getattr(type(value), "__module__", "") not in ("numpy", "ml_dtypes"):
        return None
    dtype = getattr(value, "dtype", None)
    if dtype is None or getattr(value, "shape", None) != () or type(value).__name__ == "ndarray":
        return None
    return scalar_by_name(dtype.name)
