# SPDX-License-Identifier: Apache-2.0
"""Where threads wait for one another: barriers of a block, a warp and the grid; shuffles, votes and matches.

A set of lanes is a uint32. A count is a Python number.
"""

from __future__ import annotations

from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.registry import kernel_name
from cudabuild.frontend.operands import NoneOperand, Operand, Static, TupleOperand, describe
from cudabuild.ir.ir import Value
from cudabuild.lang.cooperative import grid_group
from cudabuild.types import Boolean, Float, Integer, bool_, int32, none, uint32

__all__: list[str] = []


@kernel_name("syncthreads")
def syncthreads(context: Context) -> Operand:
    context.emit("barrier", none)
    return NoneOperand()


def _register_reduction(name: str, mode: str) -> None:
    @kernel_name(name)
    def rule(context: Context, predicate: Operand) -> Operand:
        kind = int32 if mode == "count" else bool_
        found = context.emit("barrier_reduce", kind, context.truth(predicate), mode=mode)
        return context.cast(found, context.table.thread_position)


for _mode in ("count", "and", "or"):
    _register_reduction(f"syncthreads_{_mode}", _mode)


@kernel_name("syncwarp")
def syncwarp(context: Context, mask: Operand | None = None) -> Operand:
    context.emit("syncwarp", none, context.const(0xFFFFFFFF, uint32) if mask is None else _mask(context, mask))
    return NoneOperand()


@kernel_name("cg.this_grid")
def this_grid(context: Context) -> Operand:
    return Static(grid_group)


@kernel_name("cg.grid_group.sync")
def grid_sync(context: Context) -> Operand:
    context.emit("grid_sync", none)
    return NoneOperand()


def _mask(context: Context, mask: Operand) -> Value:
    value = context.scalar(mask, "the mask", 1)
    if not isinstance(value.type, Integer):
        raise Refusal(
            "the mask is not an integer",
            found=describe(mask),
            expected="an integer, with one bit for each lane",
            do="write 0xFFFFFFFF for all lanes",
            operand=1,
        )
    return context.cast(value, uint32)


def _word(context: Context, value: Operand, what: str) -> Value:
    """A value that a warp operation can move or compare: 32 or 64 bits."""
    data = context.scalar(value, "the value", 2)
    kind = data.type
    if isinstance(kind, Boolean) or not isinstance(kind, (Integer, Float)) or kind.bits < 32:
        raise Refusal(
            f"a warp {what} 32 or 64 bits",
            found=describe(value),
            expected="int32, uint32, int64, uint64, float32 or float64",
            do="convert it: int32(x)",
            operand=2,
        )
    return data


def _shuffle(context: Context, mode: str, mask: Operand, value: Operand, lane: Operand, what: str) -> Operand:
    lanes = _mask(context, mask)
    data = _word(context, value, "shuffle moves")
    other = context.cast(context.integer(lane, what, 3), int32)
    return context.emit("shfl", data.type, lanes, data, other, context.const(32, int32), mode=mode)


@kernel_name("shfl_sync")
def shfl_sync(context: Context, mask: Operand, value: Operand, src_lane: Operand) -> Operand:
    return _shuffle(context, "idx", mask, value, src_lane, "the lane")


@kernel_name("shfl_up_sync")
def shfl_up_sync(context: Context, mask: Operand, value: Operand, delta: Operand) -> Operand:
    return _shuffle(context, "up", mask, value, delta, "the distance")


@kernel_name("shfl_down_sync")
def shfl_down_sync(context: Context, mask: Operand, value: Operand, delta: Operand) -> Operand:
    return _shuffle(context, "down", mask, value, delta, "the distance")


@kernel_name("shfl_xor_sync")
def shfl_xor_sync(context: Context, mask: Operand, value: Operand, lane_mask: Operand) -> Operand:
    return _shuffle(context, "bfly", mask, value, lane_mask, "the lane mask")


def _predicate(context: Context, predicate: Operand) -> Value:
    """What a lane votes: of a float whether it is 0, as in Python; CUDA C++ cuts it to an integer."""
    value = context.truth(predicate)
    plain = isinstance(predicate, Value) and isinstance(predicate.type, (Integer, Boolean))
    if not (plain or context.table.floats_vote):
        raise Refusal(
            "a vote of something else than true or false",
            found=describe(predicate),
            expected="an integer or a bool",
            do="compare it: x[i] != 0",
            operand=2,
        )
    return value


def _register_vote(mode: str) -> None:
    @kernel_name(f"{mode}_sync")
    def rule(context: Context, mask: Operand, predicate: Operand) -> Operand:
        kind = uint32 if mode == "ballot" else bool_
        found = context.emit("vote", kind, _mask(context, mask), _predicate(context, predicate), mode=mode)
        return context.cast(found, context.table.lanes) if mode == "ballot" else found


for _mode in ("all", "any", "eq", "ballot"):
    _register_vote(_mode)


@kernel_name("match_any_sync")
def match_any_sync(context: Context, mask: Operand, value: Operand) -> Operand:
    found = context.emit("match", uint32, _mask(context, mask), _word(context, value, "match compares"), mode="any")
    return context.cast(found, context.table.lanes)


@kernel_name("match_all_sync")
def match_all_sync(context: Context, mask: Operand, value: Operand) -> Operand:
    found = context.emit("match", uint32, _mask(context, mask), _word(context, value, "match compares"), mode="all")
    return TupleOperand((context.cast(found, context.table.lanes), context.cast(found, bool_)))


@kernel_name("activemask")
def activemask(context: Context) -> Operand:
    return context.emit("activemask", uint32)


@kernel_name("lanemask_lt")
def lanemask_lt(context: Context) -> Operand:
    return context.cast(context.emit("sreg", int32, register="lanemask_lt"), uint32)
