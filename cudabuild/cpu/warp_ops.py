# SPDX-License-Identifier: Apache-2.0
"""Warp operations and barriers with a condition in the body of a kernel: leave a note, wait, read the answer.

The notes are slots of the running warp (``abi.WARP_LANES``), one per lane; ``turns.py`` reads them and answers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand
from cudabuild.cpu.abi import BLOCK, WARP, WARP_LANES, Slot, Wait

if TYPE_CHECKING:
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.cpu.dialect import HostDialect

__all__ = ["activemask", "barrier_reduce", "match", "meet", "shfl", "vote", "wait"]


def wait(emitter: FunctionEmitter, kind: int) -> None:
    """Notes what this lane is about to wait for."""
    _put(emitter, _warp(emitter), "kind", _lane(emitter), Operand("i32", str(kind)))


def meet(
    dialect: HostDialect,
    emitter: FunctionEmitter,
    kind: int,
    mask: Operand,
    value: Operand | None = None,
    source: Operand | None = None,
) -> Operand:
    """Waits for the lanes of ``mask`` that do the same; the answer is an i64."""
    text = emitter.text
    warp, own = _warp(emitter), _lane(emitter)
    if kind != Wait.ACTIVE:  # a lane that names nobody waits for itself alone
        alone = text.emit("i32", f"shl nuw i32 1, {own.text}")
        empty = text.emit("i1", f"icmp eq {mask.typed}, 0")
        mask = text.emit("i32", f"select {empty.typed}, {alone.typed}, {mask.typed}")
    _put(emitter, warp, "kind", own, Operand("i32", str(kind)))
    _put(emitter, warp, "mask", own, mask)
    if source is not None:
        _put(emitter, warp, "source", own, source)
    if value is not None:
        _put(emitter, warp, "in", own, value)
    dialect.suspend(emitter, text.name("resumed"))
    # The warp and the lane again: the frame should not hold them across the suspension.
    return text.emit("i64", f"load i64, {_slot(emitter, _warp(emitter), 'out', _lane(emitter)).typed}")


def shfl(
    dialect: HostDialect,
    emitter: FunctionEmitter,
    mode: str,
    mask: Operand,
    value: Operand,
    lane: Operand,
    width: Operand,
) -> Operand:
    """The value of the lane that ``mode``, ``lane`` and ``width`` lead to, or the own one where there is none."""
    source = _shuffle_source(emitter, mode, _lane(emitter), lane, width)
    found = meet(dialect, emitter, Wait.SHFL, mask, _to_bits(emitter, value), source)
    return _from_bits(emitter, found, value.type)


def vote(dialect: HostDialect, emitter: FunctionEmitter, mode: str, mask: Operand, flag: Operand) -> Operand:
    """``all``, ``any`` or ``eq`` of the flags of a mask's lanes (i1), or which are set (``ballot``, i32)."""
    text = emitter.text
    found = meet(dialect, emitter, Wait.VOTE, mask, text.emit("i64", f"zext {flag.typed} to i64"))
    ballot, members = _halves(emitter, found)
    if mode == "ballot":
        return ballot
    every = text.emit("i1", f"icmp eq {ballot.typed}, {members.text}")
    if mode == "all":
        return every
    some = text.emit("i1", f"icmp {'ne' if mode == 'any' else 'eq'} {ballot.typed}, 0")
    return some if mode == "any" else text.emit("i1", f"or {every.typed}, {some.text}")


def match(dialect: HostDialect, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand) -> Operand:
    """The lanes with the same value (``any``), or all of them or 0 (``all``); an i32."""
    text = emitter.text
    alike, members = _halves(emitter, meet(dialect, emitter, Wait.MATCH, mask, _to_bits(emitter, value)))
    if mode == "any":
        return alike
    every = text.emit("i1", f"icmp eq {alike.typed}, {members.text}")
    return text.emit("i32", f"select {every.typed}, {members.typed}, i32 0")


def activemask(dialect: HostDialect, emitter: FunctionEmitter) -> Operand:
    """The lanes that stop at this operation before any other of the warp goes on."""
    site = Operand("i32", emitter.text.name(""))  # a number that no other operation of the kernel has
    return _halves(emitter, meet(dialect, emitter, Wait.ACTIVE, site, Operand("i64", "1")))[0]


def barrier_reduce(dialect: HostDialect, emitter: FunctionEmitter, mode: str, flag: Operand) -> Operand:
    """A barrier, and the ``count`` (i32), ``and`` or ``or`` (i1) of the flags of the threads that came to it."""
    text = emitter.text
    for name, more in (("arrived", Operand("i32", "1")), ("true", text.emit("i32", f"zext {flag.typed} to i32"))):
        at = _field(emitter, BLOCK[name])
        before = text.emit("i32", f"load i32, {at.typed}")
        text.do(f"store {text.emit('i32', f'add {before.typed}, {more.text}').typed}, {at.typed}")
    dialect.barrier(emitter)
    arrived, true = _halves(emitter, text.emit("i64", f"load i64, {_field(emitter, BLOCK['reduced']).typed}"))
    if mode == "count":
        return true
    other = arrived.text if mode == "and" else "0"
    return text.emit("i1", f"icmp {'eq' if mode == 'and' else 'ne'} {true.typed}, {other}")


def _lane(emitter: FunctionEmitter) -> Operand:
    return emitter.text.emit("i32", f"and i32 %thread, {WARP - 1}", nneg=True)


def _field(emitter: FunctionEmitter, slot: Slot) -> Operand:
    return emitter.text.emit("ptr", f"getelementptr inbounds i8, ptr %block, i64 {slot.offset}")


def _warp(emitter: FunctionEmitter) -> Operand:
    return emitter.text.emit("ptr", f"load ptr, {_field(emitter, BLOCK['warp']).typed}")


def _slot(emitter: FunctionEmitter, warp: Operand, name: str, lane: Operand) -> Operand:
    text = emitter.text
    slot = WARP_LANES[name]
    index = text.emit("i64", f"zext nneg {lane.typed} to i64")
    base = text.emit("ptr", f"getelementptr inbounds i8, {warp.typed}, i64 {slot.offset}")
    return text.emit("ptr", f"getelementptr inbounds {slot.type}, {base.typed}, {index.typed}")


def _put(emitter: FunctionEmitter, warp: Operand, name: str, lane: Operand, value: Operand) -> None:
    emitter.text.do(f"store {value.typed}, {_slot(emitter, warp, name, lane).typed}")


def _halves(emitter: FunctionEmitter, both: Operand) -> tuple[Operand, Operand]:
    """The low and the high 32 bits. Two i32 fields read as one are in memory order on every host that LLVM's JIT
    serves: little endian."""
    text = emitter.text
    high = text.emit("i64", f"lshr {both.typed}, 32")
    return text.emit("i32", f"trunc {both.typed} to i32"), text.emit("i32", f"trunc {high.typed} to i32")


def _shuffle_source(emitter: FunctionEmitter, mode: str, own: Operand, lane: Operand, width: Operand) -> Operand:
    """The lane to read from, or the own lane where there is none (PTX ISA, "shfl.sync")."""
    text = emitter.text
    low_bits = text.emit("i32", f"add {width.typed}, -1")
    low_bits = text.emit("i32", f"and {low_bits.typed}, {WARP - 1}")
    segment = text.emit("i32", f"xor {low_bits.typed}, {WARP - 1}")
    first = text.emit("i32", f"and {own.typed}, {segment.text}")
    amount = text.emit("i32", f"and {lane.typed}, {WARP - 1}")
    if mode == "up":
        found = text.emit("i32", f"sub {own.typed}, {amount.text}")
        inside = text.emit("i1", f"icmp sge {found.typed}, {first.text}")
    else:
        last = text.emit("i32", f"or {first.typed}, {low_bits.text}")
        if mode == "idx":
            amount = text.emit("i32", f"and {amount.typed}, {low_bits.text}")
        start, how = (first, "or") if mode == "idx" else (own, "add" if mode == "down" else "xor")
        found = text.emit("i32", f"{how} {start.typed}, {amount.text}")
        inside = text.emit("i1", f"icmp sle {found.typed}, {last.text}")
    return text.emit("i32", f"select {inside.typed}, {found.typed}, {own.typed}")


def _to_bits(emitter: FunctionEmitter, value: Operand) -> Operand:
    text = emitter.text
    if not value.type.startswith("i"):
        bits = {"half": 16, "float": 32, "double": 64}[value.type]
        value = text.emit(f"i{bits}", f"bitcast {value.typed} to i{bits}")
    return value if value.bits == 64 else text.emit("i64", f"zext {value.typed} to i64")


def _from_bits(emitter: FunctionEmitter, bits: Operand, type: str) -> Operand:
    text = emitter.text
    width = {"half": 16, "float": 32, "double": 64}.get(type) or int(type[1:])
    if width < 64:
        bits = text.emit(f"i{width}", f"trunc {bits.typed} to i{width}")
    return bits if type.startswith("i") else text.emit(type, f"bitcast {bits.typed} to {type}")
