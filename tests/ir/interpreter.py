# SPDX-License-Identifier: Apache-2.0
"""A plain interpreter of the typed IR for scalar code: the twin that folding, passes and ranges are checked against.

It shares no arithmetic with the package. One thread runs; barriers and warp operations are not supported.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from cudabuild.ir.ir import Block, Function, Instr, Value
from cudabuild.types import Boolean, Float, Integer, Type

__all__ = ["OutOfFuel", "apply", "run", "true_result"]


class OutOfFuel(Exception):
    """The program ran longer than it was allowed to."""


def _wrapped(value: int, kind: Integer) -> int:
    size = 2**kind.bits
    value = value % size
    return value - size if kind.signed and value >= size // 2 else value


def _rounded(value: float, kind: Float) -> float:
    if kind.bits == 64:
        return value
    code = {32: "<f", 16: "<e"}[kind.bits]
    try:
        (result,) = struct.unpack(code, struct.pack(code, value))
    except OverflowError:
        return math.copysign(math.inf, value)
    return result


def _as(value: Any, kind: Type) -> Any:
    if isinstance(kind, Boolean):
        return bool(value)
    if isinstance(kind, Integer):
        return _wrapped(value, kind)
    return _rounded(float(value), kind) if isinstance(kind, Float) else value


def _shift(left: bool, value: int, count: int, kind: Integer) -> int:
    if count < 0 or count >= kind.bits:
        return 0 if left or value >= 0 else -1
    return value * 2**count if left else math.floor(value / 2**count) if kind.bits <= 32 else value >> count


def _divide(a: float, b: float) -> float:
    if b:
        return a / b
    return math.nan if a != a or a == 0 else math.copysign(math.inf, a) * math.copysign(1, b)


def true_result(op: str, values: Sequence[int], kind: Integer) -> int | None:
    """The mathematical result of an integer operation that can leave its type; None for the other operations."""
    a, *rest = values
    b = rest[0] if rest else 0
    if op == "shl":
        return a * 2**b if 0 <= b < kind.bits else None
    simple: dict[str, Callable[[], int]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "neg": lambda: -a, "abs": lambda: abs(a),
        "floordiv": lambda: 0 if b == 0 else a // b, "wrap": lambda: a + b if a < 0 else a,
    }  # fmt: skip
    return simple[op]() if op in simple else None


def _convert(value: Any, source: Type, target: Type) -> Any:
    if isinstance(target, Integer) and isinstance(source, Float):
        low = -(2 ** (target.bits - 1)) if target.signed else 0
        high = 2 ** (target.bits - (1 if target.signed else 0)) - 1
        if value != value:
            return 0
        return low if value <= low else high if value >= high else math.trunc(value)
    return _as(value, target)


def apply(op: str, kind: Type, values: Sequence[Any], sources: Sequence[Type], attrs: Mapping[str, Any]) -> Any:
    """The result of a pure scalar operation."""
    if op == "const":
        return _as(attrs["value"], kind)
    if op == "cast":
        return _convert(values[0], sources[0], kind)
    if op == "select":
        return values[1] if values[0] else values[2]
    if op == "cmp":
        a, b = values
        return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[attrs["predicate"]]
    if op in ("isnan", "isinf", "isfinite"):
        return getattr(math, op)(values[0])
    if isinstance(kind, Integer):
        true = true_result(op, values, kind)
        if true is not None:
            return _wrapped(true, kind)
    return _as(_plain(op, kind, values), kind)


def _plain(op: str, kind: Type, values: Sequence[Any]) -> Any:
    a, *rest = values
    b = rest[0] if rest else None
    if op in ("shl", "shr"):
        assert isinstance(kind, Integer)
        return _shift(op == "shl", a, b, kind)
    if op == "inv":
        return not a if isinstance(kind, Boolean) else ~a
    table: dict[str, Callable[[], Any]] = {
        "add": lambda: a + b, "sub": lambda: a - b, "mul": lambda: a * b, "div": lambda: _divide(a, b),
        "min": lambda: min(a, b), "max": lambda: max(a, b), "neg": lambda: -a, "abs": lambda: abs(a),
        "mod": lambda: 0 if b == 0 else a % b, "and": lambda: a & b, "or": lambda: a | b, "xor": lambda: a ^ b,
    }  # fmt: skip
    return table[op]()


class _Run:
    def __init__(
        self, threads: Mapping[str, int], load: Callable[..., Any], observe: Callable[..., None] | None
    ) -> None:
        self.threads = threads
        self.load = load
        self.observe = observe
        self.stores: list[tuple[Any, ...]] = []
        self.fuel = 0

    def function(self, function: Function, arguments: Sequence[Any]) -> Any:
        values: dict[Value, Any] = dict(zip(function.params, arguments, strict=True))
        block = function.blocks[0]
        source: Block | None = None
        while True:
            phis = block.phis
            if phis:
                assert source is not None
                at = block.predecessors.index(source)
                values.update({phi: values[phi.operands[at]] for phi in phis})
            for instr in block.instructions[len(phis) :]:
                self.fuel -= 1
                if self.fuel < 0:
                    raise OutOfFuel
                if not instr.is_end:
                    values[instr] = self._value(instr, values)
            if self.observe is not None:
                self.observe(block, values)
            end = block.end
            assert end is not None
            if end.op == "return":
                return values[end.operands[0]] if end.operands else None
            source = block
            if end.op == "jump":
                block = end.attrs["target"]
            else:
                block = end.attrs["then" if values[end.operands[0]] else "else"]

    def _value(self, instr: Instr, values: dict[Value, Any]) -> Any:
        operands = [values[operand] for operand in instr.operands]
        op, attrs = instr.op, instr.attrs
        if op == "sreg":
            return self.threads[attrs["register"]]
        if op in ("grid", "gridsize"):
            axis = "xyz"[attrs["axis"]]
            size = self.threads[f"ntid.{axis}"]
            if op == "gridsize":
                return self.threads[f"nctaid.{axis}"] * size
            return self.threads[f"ctaid.{axis}"] * size + self.threads[f"tid.{axis}"]
        if op == "dim":
            return operands[0][attrs["axis"]]  # an array is its shape
        if op == "load":
            return _as(self.load(*operands), instr.type)
        if op == "store":
            self.stores.append(tuple(operands))
            return None
        if op == "undef":
            return None
        if op == "within":
            value, low, high = operands
            assert low <= value < high, "the program's own promise does not hold"
            return value
        if op == "tuple":
            return tuple(operands)
        if op == "item":
            return operands[0][attrs["index"]]
        if op == "call":
            return self.function(attrs["callee"], operands)
        return apply(op, instr.type, operands, [o.type for o in instr.operands], attrs)


def run(
    function: Function,
    arguments: Sequence[Any],
    *,
    threads: Mapping[str, int] | None = None,
    load: Callable[..., Any] = lambda *_: 0,
    observe: Callable[..., None] | None = None,
    fuel: int = 3000,
) -> tuple[Any, list[tuple[Any, ...]], bool]:
    """The result, the stores in order, and whether the run came to its end.

    Args:
        function: what to run.
        arguments: Python numbers; an array is the tuple of its extents.
        threads: special registers by name.
        load: gives elements, called with the shape and the indices.
        observe: called at the end of each block with the block and all values so far.
        fuel: how many instructions may run.
    """
    state = _Run(threads or {}, load, observe)
    state.fuel = fuel
    try:
        result = state.function(function, arguments)
    except OutOfFuel:
        return None, state.stores, False
    return result, state.stores, True
