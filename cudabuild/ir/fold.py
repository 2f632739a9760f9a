# SPDX-License-Identifier: Apache-2.0
"""What an operation gives for constant operands, by the semantics of ``ops.py``: folded values equal computed ones."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

from cudabuild.ir.ir import Instr
from cudabuild.types import Boolean, BrainFloat, Complex, Float, Integer, Scalar
from cudabuild.types.brain import round_brain

__all__ = ["fold", "fold_arithmetic", "fold_cast", "round_float", "wrap_integer"]

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}
_INTEGER: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "min": min,
    "max": max,
    "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "wrap": lambda index, extent: index + extent if index < 0 else index,
    "neg": lambda a: -a,
    "inv": lambda a: ~a,
    "abs": abs,
}
_TESTS = {"isnan": math.isnan, "isinf": math.isinf, "isfinite": math.isfinite}


def fold(instr: Instr, values: Sequence[Any]) -> Any:
    """The result of ``instr`` for these operands; None where it is better left to run time."""
    kind = instr.type
    source = instr.operands[0].type if instr.operands else kind
    if instr.op == "complex":
        assert isinstance(kind, Complex)
        return complex(*(round_float(v, kind.part) for v in values))
    if instr.op == "part":
        assert isinstance(kind, Float)
        return round_float((values[0].real, values[0].imag)[instr.attrs["index"]], kind)
    if instr.op == "cmp":
        a, b = (_rounded(v, source) for v in values)
        return _COMPARE[instr.attrs["predicate"]](a, b)
    if instr.op == "cast":
        return fold_cast(values[0], source, kind) if isinstance(source, Scalar) and isinstance(kind, Scalar) else None
    if instr.op in _TESTS:
        return _TESTS[instr.op](_rounded(values[0], source))
    if isinstance(kind, Boolean):
        return _fold_bools(instr.op, [bool(v) for v in values])
    return fold_arithmetic(instr.op, values, kind)


def fold_arithmetic(op: str, values: Sequence[Any], kind: object) -> Any:
    """The result of an arithmetic operation on integers or floats of type ``kind``; None where it is better left to
    run time."""
    if isinstance(kind, Integer):
        if op in ("shl", "shr"):
            return _shift(op, values[0], values[1], kind)
        if op in ("floordiv", "mod") and values[1] == 0:
            return None  # 0, but under debug an error of the thread that comes to it
        operation = _INTEGER.get(op)
        return None if operation is None else wrap_integer(operation(*values), kind)
    if isinstance(kind, Float):
        return _fold_floats(op, [round_float(v, kind) for v in values], kind)
    return None


def wrap_integer(value: int, kind: Integer) -> int:
    """``value`` modulo 2**bits, as a value of ``kind``."""
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if kind.signed and value >> (kind.bits - 1) else value


def round_float(value: float, kind: Float) -> float:
    """``value`` rounded to nearest even in ``kind``; infinite where it is too large."""
    if kind.bits == 64:
        return float(value)
    if isinstance(kind, BrainFloat):
        return round_brain(float(value))
    code = "f" if kind.bits == 32 else "e"
    try:
        return float(struct.unpack(code, struct.pack(code, value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def fold_cast(value: Any, source: Scalar, target: Scalar) -> Any:
    """The constant ``value`` of type ``source`` as ``target``; None where rounding would happen twice."""
    value = _rounded(value, source)
    if isinstance(target, Boolean):
        return bool(value)
    if isinstance(target, Integer):
        if not isinstance(source, Float):
            return wrap_integer(int(value), target)
        low = -(1 << (target.bits - 1)) if target.signed else 0
        high = (1 << (target.bits - target.signed)) - 1
        if math.isnan(value):
            return 0
        if math.isinf(value):
            return high if value > 0 else low
        return max(low, min(high, int(value)))
    assert isinstance(target, Float)
    if isinstance(source, Integer) and target.bits < 64 and abs(value) > 1 << 53:
        return None
    return round_float(float(value), target)


def _rounded(value: Any, kind: object) -> Any:
    return round_float(value, kind) if isinstance(kind, Float) else value


def _shift(op: str, value: int, count: int, kind: Integer) -> int:
    if 0 <= count < kind.bits:
        return wrap_integer(value << count, kind) if op == "shl" else value >> count
    return -1 if op == "shr" and value < 0 else 0


def _fold_bools(op: str, values: list[bool]) -> bool | None:
    if op == "and":
        return values[0] and values[1]
    if op == "or":
        return values[0] or values[1]
    if op == "xor":
        return values[0] != values[1]
    return not values[0] if op == "inv" else None


def _fold_floats(op: str, values: list[float], kind: Float) -> float | None:
    """Sums, products and quotients: computed in float64 and rounded once more, they are right in any type."""
    a = values[0] if values else 0.0
    if op == "neg":
        return -a
    if op == "abs":
        return abs(a)
    if op not in ("add", "sub", "mul", "div"):
        return None
    b = values[1]
    if op == "div" and b == 0.0:
        if a == 0.0 or math.isnan(a):
            return math.nan
        return math.copysign(math.inf, a) * math.copysign(1.0, b)
    result = a + b if op == "add" else a - b if op == "sub" else a * b if op == "mul" else a / b
    return round_float(result, kind)
