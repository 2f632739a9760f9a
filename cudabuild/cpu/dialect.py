# SPDX-License-Identifier: Apache-2.0
"""The host's answers to what ``backend/emit.py`` asks of a target: registers, barriers, warps, shared memory.

The kernel becomes a *body* that the schedule calls once per thread of a block (``schedule.py``). If a thread can stop,
the body is a coroutine::

    define internal ptr @k.body(ptr %block, i32 %tid.x, …) presplitcoroutine {
    entry:   make the frame; suspend                      ; the start-up loop makes all threads before any runs
    start:   load arguments and registers; user's code …
             barrier: suspend, go on in a new block
             return:  jump to final
    final:   suspend for good
    suspend: return the handle
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.dialects import Dialect
from cudabuild.backend.text import Operand, constant_global
from cudabuild.cpu.abi import BLOCK, WARP, Slot
from cudabuild.cpu.math import emit_math
from cudabuild.cpu.schedule import THREAD, UNIFORM, Plan, load_field, load_uniform
from cudabuild.types import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Function
    from cudabuild.types.layout import Field

__all__ = ["HostDialect", "shared_layout"]

_SHARED_ALIGN = 16


def shared_layout(function: Function) -> tuple[dict[str, int], int] | None:
    """Offsets of the static shared arrays of a kernel by key, and their total size; None if it has no shared memory."""
    offsets: dict[str, int] = {}
    end, used = 0, False
    for one in [*function.callees, function]:
        for instr in one.instructions():
            used = used or instr.op in ("shared", "dynamic_shared")
            key = str(instr.attrs.get("key"))
            if instr.op != "shared" or key in offsets:
                continue
            assert isinstance(instr.type, Array)
            size = instr.type.dtype.size
            for extent in instr.attrs["shape"]:
                size *= extent
            offsets[key] = end
            end = -(-(end + size) // _SHARED_ALIGN) * _SHARED_ALIGN
    return (offsets, end) if used else None


class HostDialect(Dialect):
    """Lowers one kernel: it holds that kernel's shared-memory layout and way to run.

    Args:
        function: the kernel's typed IR; no device function that it calls reaches a barrier or warp operation.
        triple, datalayout: the host's.

    Attributes:
        plan: what the schedule must know of the kernel; set once it is being lowered.
    """

    name = "host"
    plan: Plan
    device_parameters = tuple(f"{BLOCK[n].type} %{n}" for n in UNIFORM) + tuple(f"i32 %{n}" for n in THREAD)

    def __init__(self, function: Function, triple: str, datalayout: str) -> None:
        self.triple = triple
        self.datalayout = datalayout
        self.coroutine = function.synchronises
        self.warps = any(instr.op == "shfl" for instr in function.instructions())
        self._layout = shared_layout(function)

    # -- the kernel as a whole

    def open_kernel(self, emitter: FunctionEmitter, symbol: str, fields: Sequence[Field]) -> list[Operand]:
        arguments = [(f"arg{n}", emitter.field_type(field), field.offset) for n, field in enumerate(fields)]
        static = None if self._layout is None else self._layout[1]
        plan = Plan(symbol, f"{symbol}.body", tuple(arguments), self.coroutine, self.warps, static)
        self.plan = plan
        parameters = ", ".join(plan.body_parameters)
        if self.coroutine:
            header = f"define internal ptr @{plan.body}({parameters}) nounwind presplitcoroutine"
            emitter.text = emitter.module.text.function(plan.body, header)
            self._open_coroutine(emitter, plan)
        else:
            header = f"define internal void @{plan.body}({parameters}) nounwind alwaysinline"
            emitter.text = emitter.module.text.function(plan.body, header)
        return [Operand(type, f"%{name}") for name, type, _ in arguments]

    def _open_coroutine(self, emitter: FunctionEmitter, plan: Plan) -> None:
        text = emitter.text
        text.do("%coro.id = call token @llvm.coro.id(i32 16, ptr null, ptr null, ptr null)")
        text.do("%coro.size = call i64 @llvm.coro.size.i64()")
        text.do("%coro.frame = call ptr @schedule.frame(ptr %block, i64 %coro.size)")
        text.do("%coro.none = icmp eq ptr %coro.frame, null")
        text.end("br i1 %coro.none, label %failed, label %begin")
        text.start("failed")
        text.end("ret ptr null")
        text.start("begin")
        text.do("%coro.handle = call ptr @llvm.coro.begin(token %coro.id, ptr %coro.frame)")
        self._suspend(emitter, "start")
        lines = load_uniform() + load_field("block", "params", BLOCK["params"])
        lines += "".join(load_field("params", name, Slot(type, at)) for name, type, at in plan.arguments)
        text.current.lines += lines.splitlines()

    def _suspend(self, emitter: FunctionEmitter, label: str, final: bool = False) -> None:
        """Returns to the schedule; the thread goes on in a new block."""
        text = emitter.text
        state = text.emit("i8", f"call i8 @llvm.coro.suspend(token none, i1 {'true' if final else 'false'})")
        text.end(f"switch {state.typed}, label %suspend [i8 0, label %{label} i8 1, label %suspend]")
        text.start(label)

    def kernel_return(self, emitter: FunctionEmitter) -> None:
        emitter.text.end("br label %final" if self.coroutine else "ret void")

    def close_kernel(self, emitter: FunctionEmitter) -> None:
        if not self.coroutine:
            return
        text = emitter.text
        text.start("final")
        self._suspend(emitter, "after", final=True)
        text.end("unreachable")
        text.start("suspend")
        text.do("call void @llvm.coro.end(ptr %coro.handle, i1 false, token none)")
        text.end("ret ptr %coro.handle")

    # -- threads

    def sreg(self, emitter: FunctionEmitter, register: str) -> Operand:
        if register in ("laneid", "lanemask_lt"):
            lane = emitter.text.emit("i32", f"and i32 %thread, {WARP - 1}", nneg=True)
            if register == "laneid":
                return lane
            bit = emitter.text.emit("i32", f"shl nuw i32 1, {lane.text}")
            return emitter.text.emit("i32", f"add {bit.typed}, -1", nneg=True)
        return Operand("i32", f"%{register}", nneg=True)

    def barrier(self, emitter: FunctionEmitter) -> None:
        self._suspend(emitter, emitter.text.name("resumed"))

    def shfl(
        self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand, lane: Operand, width: Operand
    ) -> Operand:
        text = emitter.text
        own = self.sreg(emitter, "laneid")
        source = _shuffle_source(emitter, mode, own, lane, width)
        alone = text.emit("i32", f"shl nuw i32 1, {own.text}")
        empty = text.emit("i1", f"icmp eq {mask.typed}, 0")
        # 0 would say "does not wait": a lane that names nobody waits for itself alone.
        self._put(emitter, "xchg.mask", own, text.emit("i32", f"select {empty.typed}, {alone.typed}, {mask.typed}"))
        self._put(emitter, "xchg.source", own, source)
        self._put(emitter, "xchg.in", own, _to_bits(emitter, value))
        self._suspend(emitter, text.name("resumed"))
        # The lane's number again: the frame should not hold it across the suspension.
        at = self._slot(emitter, "xchg.out", self.sreg(emitter, "laneid"))
        return _from_bits(emitter, text.emit("i64", f"load i64, {at.typed}"), value.type)

    def _slot(self, emitter: FunctionEmitter, name: str, lane: Operand) -> Operand:
        text = emitter.text
        slot = BLOCK[name]
        index = text.emit("i64", f"zext nneg {lane.typed} to i64")
        base = text.emit("ptr", f"getelementptr inbounds i8, ptr %block, i64 {slot.offset}")
        return text.emit("ptr", f"getelementptr inbounds {slot.type}, {base.typed}, {index.typed}")

    def _put(self, emitter: FunctionEmitter, name: str, lane: Operand, value: Operand) -> None:
        emitter.text.do(f"store {value.typed}, {self._slot(emitter, name, lane).typed}")

    def fence(self, emitter: FunctionEmitter, scope: str) -> None:
        # The threads of a block run on one core: only the compiler could reorder what they see.
        emitter.text.do("fence syncscope(\"singlethread\") seq_cst" if scope == "block" else "fence seq_cst")

    def clock(self, emitter: FunctionEmitter, source: str) -> Operand:
        if source == "cycle":
            return emitter.text.call("i64", "llvm.readcyclecounter")
        return emitter.text.call("i64", "schedule.nanoseconds")

    # -- memory

    def constant(self, emitter: FunctionEmitter, data: bytes) -> Operand:
        return constant_global(emitter.module.text, emitter.module.symbol, data, "ptr")

    def shared(self, emitter: FunctionEmitter, key: str, memory_type: str, count: int) -> Operand:
        assert self._layout is not None
        return emitter.text.emit("ptr", f"getelementptr inbounds i8, ptr %shared, i64 {self._layout[0][key]}")

    def dynamic_shared(self, emitter: FunctionEmitter) -> tuple[Operand, Operand]:
        assert self._layout is not None
        base = emitter.text.emit("ptr", f"getelementptr inbounds i8, ptr %shared, i64 {self._layout[1]}")
        return base, Operand("i32", "%dynamic", nneg=True)

    # -- arithmetic

    def math(self, emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
        return emit_math(emitter, function, operands)


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
