# SPDX-License-Identifier: Apache-2.0
"""Device arrays of the module that a kernel names: their addresses belong to the kernel.

Such code is of one process only: nothing keeps it (``Fingerprint.in_process``). The arrays live as long as the kernel's
function, which holds them.
"""

from __future__ import annotations

from typing import Any

import numpy

from cudabuild.fingerprint.values import DeviceMemory
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.operands import Operand
from cudabuild.types import Array, bfloat16, find_dtype, weak_int
from cudabuild.types.record import natural_alignment

__all__ = ["device_array"]

_LARGEST = (1 << 31) - 1


def device_array(context: Context, value: Any, memory: DeviceMemory) -> Operand:
    """A device array, or any object that shows one, as an array at its address."""
    dtype = numpy.dtype(memory.dtype)
    own = getattr(value, "dtype", None)  # an interface has no word for bfloat16
    if dtype.kind == "V" and isinstance(own, numpy.dtype) and own.itemsize == dtype.itemsize:
        dtype = own
    kind = bfloat16 if memory.dtype == "<V2" else find_dtype(dtype)  # NumPy reads ml_dtypes' spelling as two bytes
    if kind is None:
        raise Refusal(
            "a device array whose elements a kernel cannot read",
            found=f"a device array of {dtype}",
            expected="elements of a scalar type, in this machine's byte order",
            do="copy it into an array of such a type",
            operand=0,
        )
    strides = memory.strides or _steps(memory.shape, dtype.itemsize)
    apart = [stride for extent, stride in zip(memory.shape, strides, strict=True) if extent > 1]
    alignment = natural_alignment(kind)
    if any(number % alignment for number in (memory.pointer, *apart)):
        raise Refusal(
            "a device array whose elements are not aligned for their type",
            found=f"a device array of {dtype} at {memory.pointer:#x}, strides {strides}",
            expected=f"multiples of {alignment}",
            do="make the record's type with numpy.dtype(…, align=True), or name the whole records",
            operand=0,
        )
    span = sum((extent - 1) * abs(stride) for extent, stride in zip(memory.shape, strides, strict=True))
    if span > _LARGEST or max(memory.shape, default=0) > _LARGEST:
        raise Refusal(
            "a captured device array of 2 GiB or more",
            found=f"a device array of shape {memory.shape}",
            expected="less than 2 GiB",
            do="pass the array as an argument of the kernel",
            operand=0,
        )
    layout = _layout(memory.shape, strides, dtype.itemsize)
    array = Array(kind, len(memory.shape), layout, memory.readonly)
    numbers = [memory.pointer, *memory.shape, *(strides if array.layout == "A" else ())]
    context.calls.hold(value)
    return context.emit("array_at", array, *(context.const(number, weak_int) for number in numbers), home=memory.home)


def _steps(shape: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    """The byte strides of C order."""
    strides: tuple[int, ...] = ()
    for extent in reversed(shape):
        strides = (itemsize, *strides)
        itemsize *= extent
    return strides


def _layout(shape: tuple[int, ...], strides: tuple[int, ...], itemsize: int) -> str:
    pairs = [pair for pair in zip(shape, strides, strict=True) if pair[0] != 1]
    for layout, ordered in (("C", pairs[::-1]), ("F", pairs)):
        step = itemsize
        for extent, stride in ordered:
            if stride != step and 0 not in shape:
                break
            step *= extent
        else:
            return layout
    return "A"
