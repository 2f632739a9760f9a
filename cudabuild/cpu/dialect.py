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

import dataclasses
from typing import TYPE_CHECKING

from cudabuild.backend import llvm
from cudabuild.backend.dialects import Dialect
from cudabuild.backend.text import Operand, constant_global
from cudabuild.cpu import brain, warp_ops
from cudabuild.cpu.abi import BLOCK, WARP, Slot, Wait
from cudabuild.cpu.faults import Condition, make_condition
from cudabuild.cpu.guards import find_guard
from cudabuild.cpu.joining import can_join
from cudabuild.cpu.loops import LIMIT, Polls, calls_itself, find_polls
from cudabuild.cpu.math import emit_math
from cudabuild.cpu.printing import emit_print
from cudabuild.cpu.schedule import THREAD, UNIFORM, Plan, load_field, load_uniform
from cudabuild.cpu.strips import begin_strip, leave_strip
from cudabuild.faults import FaultTable
from cudabuild.types import Array

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Block, Function
    from cudabuild.ir.linear import Linear
    from cudabuild.types.layout import Field

__all__ = ["HostDialect", "shared_layout"]

_SHARED_ALIGN = 16

#: Operations at which a thread waits for others than at a plain barrier.
_TURN_OPS = frozenset(("shfl", "vote", "match", "activemask", "syncwarp", "grid_sync"))

_RARELY = '!{!"branch_weights", i32 1048576, i32 1}'


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
            # The arrays' memory begins at a multiple of a cache line: more alignment than that has no use here.
            align = min(instr.attrs.get("align", _SHARED_ALIGN), 64)
            end = -(-end // align) * align
            offsets[key] = end
            end = -(-(end + size) // _SHARED_ALIGN) * _SHARED_ALIGN
    return (offsets, end) if used else None


class HostDialect(Dialect):
    """Lowers one kernel: it holds that kernel's shared-memory layout and way to run.

    Args:
        function: the kernel's typed IR; no device function that it calls reaches a barrier or warp operation.
        triple, datalayout: the host's.
        guards: what is checked without leaving the loop over threads: ``bounds``, ``division``.

    Attributes:
        plan: what the schedule must know of the kernel; set once it is being lowered.
    """

    name = "host"
    #: Whether threads that a guard at the kernel's beginning sends away need not begin (``guards.py``).
    splits_guards = True
    #: Whether neighbouring blocks may run as one where no thread can tell (``joining.py``).
    joins_blocks = True
    #: Checks put branches and calls between a product and a sum, and must change no result.
    decides_contraction = True
    #: How many instructions may pass between two looks at the stop flag.
    poll_limit = LIMIT
    #: LLVM text that the module needs besides the schedule.
    definitions = ""
    plan: Plan
    device_parameters = tuple(f"{BLOCK[n].type} %{n}" for n in UNIFORM) + tuple(f"i32 %{n}" for n in THREAD)

    def __init__(self, function: Function, triple: str, datalayout: str, guards: frozenset[str] = frozenset()) -> None:
        self.checks = guards
        self.fuses = llvm.host_has_fma()
        self.faults = FaultTable()
        self._conditions: dict[Condition, None] = {}
        if guards:
            self.device_parameters = tuple(dict.fromkeys(("ptr %block", *self.device_parameters)))
        self.triple = triple
        self.datalayout = datalayout
        self.coroutine = function.synchronises
        self.takes_turns = any(instr.op in _TURN_OPS for instr in function.instructions())
        self._polls: dict[Function, Polls] = {}
        self._ends: dict[Block, Operand] = {}  # of the strips of loops, by header
        self._layout = shared_layout(function)

    # -- the kernel as a whole

    def open_kernel(self, emitter: FunctionEmitter, symbol: str, fields: Sequence[Field]) -> list[Operand]:
        arguments = [(f"arg{n}", emitter.field_type(field), field.offset) for n, field in enumerate(fields)]
        static = None if self._layout is None else self._layout[1]
        self.takes_turns = self.takes_turns or "turn" in self._polls_of(emitter).latches.values()
        self.coroutine = self.coroutine or self.takes_turns
        body, guarded = f"{symbol}.body", bool(self.checks)
        plan = Plan(symbol, body, tuple(arguments), self.coroutine, self.takes_turns, static, guarded)
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
        self.suspend(emitter, "start")
        lines = load_uniform() + load_field("block", "params", BLOCK["params"])
        lines += "".join(load_field("params", name, Slot(type, at)) for name, type, at in plan.arguments)
        text.current.lines += lines.splitlines()

    def suspend(self, emitter: FunctionEmitter, label: str, final: bool = False) -> None:
        """Returns to the schedule; the thread goes on in a new block."""
        text = emitter.text
        state = text.emit("i8", f"call i8 @llvm.coro.suspend(token none, i1 {'true' if final else 'false'})")
        text.end(f"switch {state.typed}, label %suspend [i8 0, label %{label} i8 1, label %suspend]")
        text.start(label)

    def kernel_return(self, emitter: FunctionEmitter) -> None:
        emitter.text.end("br label %final" if self.coroutine else "ret void")

    def close_kernel(self, emitter: FunctionEmitter) -> None:
        self.plan = dataclasses.replace(self.plan, conditions=tuple(self._conditions))
        if not self.coroutine:
            self._emit_guard(emitter)
            joined = self.joins_blocks and can_join(emitter.function)
            self.plan = dataclasses.replace(self.plan, joined=joined)
            return
        text = emitter.text
        text.start("final")
        self.suspend(emitter, "after", final=True)
        text.end("unreachable")
        text.start("suspend")
        text.do("call void @llvm.coro.end(ptr %coro.handle, i1 false, token none)")
        text.end("ret ptr %coro.handle")

    def _emit_guard(self, emitter: FunctionEmitter) -> None:
        guard = find_guard(emitter.function, emitter.ranges) if self.splits_guards else None
        if guard is not None and "division" not in self.checks:  # what the guard computes would be checked twice
            name = f"{self.plan.symbol}.guard"
            emitter.module.device_names[guard] = name
            type(emitter)(emitter.module, guard).run_device()
            search = emitter.module.text.loop_node('!{!"llvm.loop.vectorize.enable", i1 false}')
            self.plan = dataclasses.replace(self.plan, guard=name, search=search)

    def _polls_of(self, emitter: FunctionEmitter) -> Polls:
        function = emitter.function
        if function not in self._polls:
            self._polls[function] = find_polls(function, emitter.ranges, self.poll_limit)
        return self._polls[function]

    def enter_block(self, emitter: FunctionEmitter) -> None:
        strip = self._polls_of(emitter).strips.get(emitter.block)
        if strip is not None:
            self._ends[emitter.block] = begin_strip(emitter, strip)

    def leave_block(self, emitter: FunctionEmitter) -> bool:
        """Looks up from the work in a long loop (``loops.py``)."""
        polls = self._polls_of(emitter)
        how = polls.latches.get(emitter.block)
        if how == "turn" and emitter.function.is_kernel:
            warp_ops.wait(emitter, Wait.TURN)
            self.suspend(emitter, emitter.text.name("turn"))
        if how is not None:
            self._look(emitter)
        strip = polls.strips.get(emitter.block)
        if strip is not None:
            leave_strip(emitter, strip, self._ends[emitter.block], lambda: self._look(emitter))
        return strip is not None

    def called(self, emitter: FunctionEmitter, callee: Function) -> None:
        """Looks whether the function, or one that it has called, has returned because the launch is stopped."""
        functions = [callee, *callee.callees]
        if any(calls_itself(one) or self._polls.get(one) for one in functions):
            self._look(emitter)

    def _look(self, emitter: FunctionEmitter) -> None:
        """Reads the stop flag, and goes on only where it is not set."""
        text = emitter.text
        flag = text.emit("i32", "load atomic i32, ptr %stop monotonic, align 4")
        running, stopped, going = text.emit("i1", f"icmp eq {flag.typed}, 0"), text.name("stop"), text.name("go")
        text.end(f"br i1 {running.text}, label %{going}, label %{stopped}, !prof {_RARELY}")
        text.start(stopped)
        if emitter.function.is_kernel:
            self.kernel_return(emitter)
        else:
            result = emitter.result_type()
            text.end("ret void" if result == "void" else f"ret {result} zeroinitializer")
        text.start(going)

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
        self.suspend(emitter, emitter.text.name("resumed"))

    def barrier_reduce(self, emitter: FunctionEmitter, mode: str, flag: Operand) -> Operand:
        return warp_ops.barrier_reduce(self, emitter, mode, flag)

    def grid_sync(self, emitter: FunctionEmitter) -> None:
        warp_ops.wait(emitter, Wait.GRID)
        self.suspend(emitter, emitter.text.name("resumed"))

    def syncwarp(self, emitter: FunctionEmitter, mask: Operand) -> None:
        warp_ops.meet(self, emitter, Wait.SYNC, mask)

    def vote(self, emitter: FunctionEmitter, mode: str, mask: Operand, flag: Operand) -> Operand:
        return warp_ops.vote(self, emitter, mode, mask, flag)

    def match(self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand) -> Operand:
        return warp_ops.match(self, emitter, mode, mask, value)

    def activemask(self, emitter: FunctionEmitter) -> Operand:
        return warp_ops.activemask(self, emitter)

    def shfl(
        self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand, lane: Operand, width: Operand
    ) -> Operand:
        return warp_ops.shfl(self, emitter, mode, mask, value, lane, width)

    def fence(self, emitter: FunctionEmitter, scope: str) -> None:
        # The threads of a block run on one core: only the compiler could reorder what they see.
        emitter.text.do('fence syncscope("singlethread") seq_cst' if scope == "block" else "fence seq_cst")

    def nanosleep(self, emitter: FunctionEmitter, duration: Operand) -> None:
        """Nothing of its own: a loop that waits lets others run where it goes back (``loops.py``)."""

    def clock(self, emitter: FunctionEmitter, source: str) -> Operand:
        if source == "cycle":
            return emitter.text.call("i64", "llvm.readcyclecounter")
        return emitter.text.call("i64", "schedule.nanoseconds")

    def print(self, emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
        emit_print(emitter, text, values)

    # -- memory

    def constant(self, emitter: FunctionEmitter, data: bytes) -> Operand:
        return constant_global(emitter.module.text, emitter.module.symbol, data, "ptr")

    def shared(self, emitter: FunctionEmitter, key: str, memory_type: str, count: int, align: int = 16) -> Operand:
        assert self._layout is not None
        return emitter.text.emit("ptr", f"getelementptr inbounds i8, ptr %shared, i64 {self._layout[0][key]}")

    def local(self, emitter: FunctionEmitter, memory_type: str, count: int, size: int, align: int = 16) -> Operand:
        return super().local(
            emitter, memory_type, count, size, min(align, 16)
        )  # what a coroutine's frame is aligned to

    def dynamic_shared(self, emitter: FunctionEmitter, align: int = 16) -> tuple[Operand, Operand]:
        assert self._layout is not None
        base = emitter.text.emit("ptr", f"getelementptr inbounds i8, ptr %shared, i64 {self._layout[1]}")
        return base, Operand("i32", "%dynamic", nneg=True)

    # -- faults

    def fault(self, emitter: FunctionEmitter, site: Operand, index: Operand, extent: Operand) -> None:
        arguments = f"ptr %block, i32 %thread, {site.typed}, {index.typed}, {extent.typed}"
        emitter.text.do(f"call void @schedule.fault({arguments})")

    def trusted(self, emitter: FunctionEmitter, conditions: Sequence[Linear] | None) -> Operand | None:
        if conditions is None:
            return None
        made = [make_condition(emitter, condition) for condition in conditions]
        known = [condition for condition in made if condition is not None]
        if len(known) < len(made):
            return None
        self._conditions.update(dict.fromkeys(known))
        return Operand("i1", "%trusted" if known else "true")

    # -- arithmetic

    def widen_brain(self, emitter: FunctionEmitter, word: Operand) -> Operand:
        return brain.widen_brain(emitter, word)

    def round_brain(self, emitter: FunctionEmitter, value: Operand) -> Operand:
        return brain.round_brain(emitter, value)

    def brain_fma(self, emitter: FunctionEmitter, words: Sequence[Operand]) -> Operand:
        return brain.brain_fma(emitter, words)

    def math(self, emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
        return emit_math(emitter, function, operands)
