# SPDX-License-Identifier: Apache-2.0
"""What CUDA and the launch check promise about the integers that a kernel starts from.

Sizes of a launch: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability". The 32-bit
variant is launched only after the checks of ``types/layout.py``; the 64-bit variant after none.
"""

from __future__ import annotations

from cudabuild.ir.intervals import Interval, limits
from cudabuild.ir.ir import Function, Instr, Param, Value
from cudabuild.types import Array, Integer, WeakInteger
from cudabuild.types.layout import LARGEST_EXTENT

__all__ = ["leaf_interval", "thread_product"]

_INT32 = (-(1 << 31), (1 << 31) - 1)
_BLOCK = {"x": 1024, "y": 1024, "z": 64}
_GRID = {"x": (1 << 31) - 1, "y": 65535, "z": 65535}


def leaf_interval(value: Value, function: Function, index_width: int, launch_bounds: int | None) -> Interval | None:
    """The interval of a parameter or of an instruction whose operands do not matter; None for any other."""
    kind = value.type
    if not isinstance(kind, Integer):
        return None
    checked = function.is_kernel and index_width == 32  # a device function may be given any number
    if isinstance(value, Param):
        return _INT32 if checked and isinstance(kind, WeakInteger) else limits(kind)
    assert isinstance(value, Instr)
    if value.op == "const":
        return value.attrs["value"], value.attrs["value"]
    if value.op in ("popc", "clz", "ctz"):
        operand = value.operands[0].type
        assert isinstance(operand, Integer)
        return 0, operand.bits
    if value.op == "barrier_reduce":
        return 0, 1024 if launch_bounds is None else min(1024, launch_bounds)
    if value.op == "clock":
        return 0, (1 << 63) - 1
    if value.op == "sreg":
        return _register(value.attrs["register"], launch_bounds)
    if value.op in ("grid", "gridsize"):
        top = _gridsize("xyz"[value.attrs["axis"]], index_width, launch_bounds)
        return (0, top - 1) if value.op == "grid" else (1, top)
    if value.op == "stride":
        array = value.operands[0]
        strided = isinstance(array, Param) and isinstance(array.type, Array) and array.type.layout == "A"
        return _INT32 if checked and strided else limits(kind)
    if value.op == "item" and _root(value):
        return _INT32 if checked and isinstance(kind, WeakInteger) else limits(kind)
    if value.op == "dim":
        return _extent(value, index_width)
    return None


def _root(value: Value) -> Param | None:
    """The parameter that ``value`` is an element of, if it is of one."""
    while isinstance(value, Instr) and value.op == "item":
        value = value.operands[0]
    return value if isinstance(value, Param) else None


def _extent(dim: Instr, index_width: int) -> Interval | None:
    array = dim.operands[0]
    if isinstance(array, Instr) and array.op in ("shared", "local", "constant"):
        extent = array.attrs["shape"][dim.attrs["axis"]]
        return extent, extent
    if isinstance(array, Instr) and array.op in ("view", "reshape", "transpose", "field", "array_at"):
        return None
    is_small = index_width == 32 or (isinstance(array, Instr) and array.op == "dynamic_shared")
    return 0, _INT32[1] if is_small else LARGEST_EXTENT


def _register(name: str, launch_bounds: int | None) -> Interval:
    if name in ("laneid", "lanemask_lt"):
        return 0, 31 if name == "laneid" else _INT32[1]
    register, _, axis = name.partition(".")
    block = _block(axis, launch_bounds)
    return {
        "tid": (0, block - 1),
        "ntid": (1, block),
        "ctaid": (0, _GRID[axis] - 1),
        "nctaid": (1, _GRID[axis]),
    }[register]


def _block(axis: str, launch_bounds: int | None) -> int:
    return _BLOCK[axis] if launch_bounds is None else min(_BLOCK[axis], launch_bounds)


def _gridsize(axis: str, index_width: int, launch_bounds: int | None) -> int:
    top = _GRID[axis] * _block(axis, launch_bounds)
    return min(top, _INT32[1]) if index_width == 32 else top


def thread_product(instr: Instr, index_width: int, launch_bounds: int | None) -> Interval | None:
    """The interval of ``ctaid * ntid``, ``ctaid * ntid + tid`` or ``nctaid * ntid`` written out along one axis.

    The launch bounds the product though not its factors: grid × block is below 2³¹ in the 32-bit variant.
    """
    names = _factors(instr)
    if names is not None:
        (first, axis), (second, other) = (name.split(".") for name in sorted(names))
        if axis != other or second != "ntid":
            return None
        top = _gridsize(axis, index_width, launch_bounds)
        return {"ctaid": (0, top - 1), "nctaid": (1, top)}.get(first)
    if instr.op != "add":
        return None
    for product, rest in (instr.operands, instr.operands[::-1]):
        names = _factors(product)
        tid = _register_name(rest)
        if names is not None and tid is not None and tid.startswith("tid."):
            axis = tid[-1]
            if sorted(names) == [f"ctaid.{axis}", f"ntid.{axis}"]:
                return 0, _gridsize(axis, index_width, launch_bounds) - 1
    return None


def _factors(value: Value) -> list[str] | None:
    """The two registers that ``value`` multiplies, or None."""
    if not isinstance(value, Instr) or value.op != "mul" or not _is_wide(value):
        return None
    names = [_register_name(operand) for operand in value.operands]
    return [name for name in names if name] if all(name and "." in name for name in names) else None


def _is_wide(value: Value) -> bool:
    return isinstance(value.type, Integer) and value.type.bits == 64


def _register_name(value: Value) -> str | None:
    """The register that ``value`` is, perhaps as a wider integer."""
    while isinstance(value, Instr) and value.op == "cast" and isinstance(value.operands[0].type, Integer):
        if not _is_wide(value):
            return None
        value = value.operands[0]
    if isinstance(value, Instr) and value.op == "sreg":
        name: str = value.attrs["register"]
        return name
    return None
