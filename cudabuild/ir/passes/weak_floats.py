# SPDX-License-Identifier: Apache-2.0
"""Computes Python floats in the narrower type that everything made of them is wanted in.

A weak float is a float64 until it meets a typed number. Where all that is done with it ends in one narrower type, it
may as well be that type from the start: GPUs run float64 at 1/2 to 1/64 of float32's speed.

Before (``y[i] = n / 2 * x[i]``, float32 arrays)::

    %1: float = cast %n                         after:  %1: float32 = cast %n
    %2: float = const value=2.0                         %2: float32 = const value=2.0
    %3: float = div %1, %2                              %3: float32 = div %1, %2
    %4: float32 = cast %3
    %5: float32 = mul %4, %0                            %5: float32 = mul %3, %0

What demands a weak float: a cast to a float type demands that type; arithmetic, ``math``, ``select``, phis and negation
demand what is demanded of their result; everything else (comparisons, returns, arguments of calls, casts to integers)
demands a float64. A value of which one type is demanded becomes that type; of a value that stays a float64, a narrowed
user takes one cast.
"""

from __future__ import annotations

import math

from cudabuild.ir.fold import round_float
from cudabuild.ir.ir import Function, Instr, Value, replace_uses
from cudabuild.types import Float, WeakFloat, float64

__all__ = ["narrow_weak_floats"]

#: Operations that are done in another type just by retyping them and their weak operands.
_RETYPED = frozenset(
    ("add", "sub", "mul", "div", "fmod", "floordiv", "mod", "min", "max", "neg", "abs", "math", "select", "phi")
)
#: Operations that make a weak float in any type at once.
_REMADE = _RETYPED | {"const", "undef", "cast"}


def narrow_weak_floats(function: Function) -> bool:
    """Retypes the weak floats of ``function`` of which one narrower type is demanded, in place; True if there are
    any."""
    demands = _find_demands(function)
    narrowed = {value: kind for value, kind in demands.items() if kind.bits < 64}
    if not narrowed:
        return False
    _mark_remade(narrowed)
    casts: dict[tuple[Value, Float], Instr] = {}
    for value, kind in narrowed.items():
        if isinstance(value, Instr) and value.op in _RETYPED:
            value.operands = [
                _narrow_operand(function, operand, kind, narrowed, casts)
                if isinstance(operand.type, WeakFloat)
                else operand
                for operand in value.operands
            ]
    _drop_casts(function, narrowed, casts)
    for value, kind in narrowed.items():
        if isinstance(value, Instr) and value.op in _REMADE:
            value.type = kind
    return True


def _mark_remade(narrowed: dict[Value, Float]) -> None:
    """Parameters, loads and whatever else is a float64 by nature keep their type; users take a cast."""
    for value in list(narrowed):
        if not isinstance(value, Instr) or value.op not in _REMADE:
            del narrowed[value]


def _find_demands(function: Function) -> dict[Value, Float]:
    """What is demanded of each weak float that anything is demanded of: float64 where demands differ."""
    users: dict[Value, list[Instr]] = {}
    for instr in function.instructions():
        for operand in instr.operands:
            if isinstance(operand.type, WeakFloat):
                users.setdefault(operand, []).append(instr)
    demands: dict[Value, Float] = {}
    pending = list(users)
    while pending:
        value = pending.pop()
        demand = demands.get(value)
        for user in users.get(value, ()):
            wanted = _demand_of(user, demands)
            if wanted is not None:
                demand = wanted if demand is None or demand == wanted else float64
        if demand is not None and demand.bits < 64 and not _fits(value, demand):
            demand = float64
        if demand is not None and demand != demands.get(value):
            demands[value] = demand
            if isinstance(value, Instr) and value.op in _RETYPED:
                pending += [operand for operand in value.operands if isinstance(operand.type, WeakFloat)]
    return demands


def _demand_of(user: Instr, demands: dict[Value, Float]) -> Float | None:
    """What ``user`` demands of its weak operands; None for nothing yet."""
    if user.op == "cast" and isinstance(user.type, Float):
        return user.type
    if user.op in _RETYPED and isinstance(user.type, WeakFloat):
        return demands.get(user)
    return float64


def _fits(value: Value, kind: Float) -> bool:
    """False for a constant that would become infinite or zero in ``kind``, and for what is computed from one."""
    if not isinstance(value, Instr):
        return True
    if value.op in _RETYPED:
        return all(_fits(operand, kind) for operand in value.operands if _is_weak_const(operand))
    if not _is_weak_const(value):
        return True
    number = float(value.attrs["value"])
    rounded = round_float(number, kind)
    return math.isinf(number) or (not math.isinf(rounded) and (rounded != 0.0 or number == 0.0))


def _is_weak_const(value: Value) -> bool:
    return isinstance(value, Instr) and value.op == "const" and isinstance(value.type, WeakFloat)


def _narrow_operand(
    function: Function,
    operand: Value,
    kind: Float,
    narrowed: dict[Value, Float],
    casts: dict[tuple[Value, Float], Instr],
) -> Value:
    """``operand`` as ``kind``: itself if it is retyped too, else one cast right after where it is made."""
    if narrowed.get(operand) == kind:
        return operand
    key = (operand, kind)
    if key not in casts:
        made = operand if isinstance(operand, Instr) else None
        block = function.blocks[0] if made is None else made.block
        assert block is not None
        cast = Instr(kind, operand.location, "cast", [operand], {}, block)
        at = len(block.phis) if made is None or made.op == "phi" else block.instructions.index(made) + 1
        block.instructions.insert(at, cast)
        casts[key] = cast
    return casts[key]


def _drop_casts(function: Function, narrowed: dict[Value, Float], casts: dict[tuple[Value, Float], Instr]) -> None:
    """Casts of a narrowed value to its new type are the value itself."""
    changes: dict[Value, Value] = {}
    made = set(casts.values())
    for instr in function.instructions():
        if instr.op == "cast" and instr not in made and narrowed.get(instr.operands[0]) == instr.type:
            changes[instr] = instr.operands[0]
    replace_uses(function, changes)
    for block in function.blocks:
        block.instructions = [instr for instr in block.instructions if instr not in changes]
