# SPDX-License-Identifier: Apache-2.0
"""The part of a schedule that is alike for all kernels: LLVM text, compiled once per process when first needed.

Kept apart from the kernels because LLVM would need longer for it than for a small kernel. ``$launch_x`` and
``$block_x`` are field offsets of ``abi.py``.
"""

from __future__ import annotations

from functools import cache
from string import Template

from cudabuild.backend import llvm
from cudabuild.cpu.abi import TEXT_CONSTANTS

__all__ = ["library_symbols"]

#: A worker's start and end, its next block, a failure, memory for coroutine frames; and the rounds of a kernel with
#: barriers only: the threads that are left stay in order at the front of the handles.
LIBRARY = """
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.coro.resume(ptr)
declare i1 @llvm.coro.done(ptr)

define void @schedule.fail(ptr %block, i32 %status, i64 %thread) cold noinline {
entry:
  %launch.at = getelementptr inbounds i8, ptr %block, i64 $block_launch
  %launch = load ptr, ptr %launch.at
  %status.at = getelementptr inbounds i8, ptr %launch, i64 $launch_status
  %pair = cmpxchg ptr %status.at, i32 0, i32 %status monotonic monotonic
  %first = extractvalue { i32, i1 } %pair, 1
  br i1 %first, label %record, label %stop
record:
  %number.at = getelementptr inbounds i8, ptr %block, i64 $block_number
  %number = load i64, ptr %number.at
  %where.at = getelementptr inbounds i8, ptr %launch, i64 $launch_block
  store i64 %number, ptr %where.at
  %thread.at = getelementptr inbounds i8, ptr %launch, i64 $launch_thread
  store i64 %thread, ptr %thread.at
  br label %stop
stop:
  %stop.at = getelementptr inbounds i8, ptr %launch, i64 $launch_stop
  store atomic i32 1, ptr %stop.at monotonic, align 4
  ret void
}

define i1 @schedule.open(ptr %launch, ptr %block, i1 %memory, i64 %static) {
entry:
  call void @llvm.memset.p0.i64(ptr align 64 %block, i8 0, i64 128, i1 false)
  %launch.to = getelementptr inbounds i8, ptr %block, i64 $block_launch
  store ptr %launch, ptr %launch.to
  %params.at = getelementptr inbounds i8, ptr %launch, i64 $launch_params
  %params = load ptr, ptr %params.at
  %params.to = getelementptr inbounds i8, ptr %block, i64 $block_params
  store ptr %params, ptr %params.to
  %sizes.at = getelementptr inbounds i8, ptr %launch, i64 $launch_ntid_x
  %sizes.to = getelementptr inbounds i8, ptr %block, i64 $block_ntid_x
  call void @llvm.memcpy.p0.p0.i64(ptr align 4 %sizes.to, ptr align 4 %sizes.at, i64 24, i1 false)
  %dynamic.at = getelementptr inbounds i8, ptr %launch, i64 $launch_dynamic
  %dynamic = load i64, ptr %dynamic.at
  %dynamic.32 = trunc i64 %dynamic to i32
  %dynamic.to = getelementptr inbounds i8, ptr %block, i64 $block_dynamic
  store i32 %dynamic.32, ptr %dynamic.to
  %x.at = getelementptr inbounds i8, ptr %launch, i64 $launch_ntid_x
  %x = load i32, ptr %x.at
  %y.at = getelementptr inbounds i8, ptr %launch, i64 $launch_ntid_y
  %y = load i32, ptr %y.at
  %z.at = getelementptr inbounds i8, ptr %launch, i64 $launch_ntid_z
  %z = load i32, ptr %z.at
  %xy = mul nuw nsw i32 %x, %y
  %xyz = mul nuw nsw i32 %xy, %z
  %threads = zext nneg i32 %xyz to i64
  %threads.to = getelementptr inbounds i8, ptr %block, i64 $block_threads
  store i64 %threads, ptr %threads.to
  br i1 %memory, label %allocate, label %ready
allocate:
  %dynamic.up = add i64 %dynamic, 63
  %dynamic.size = and i64 %dynamic.up, -64
  %shared.size = add i64 %dynamic.size, %static
  %handles.size = shl i64 %threads, 3
  %both = add i64 %shared.size, %handles.size
  %size = add i64 %both, 64
  %memory.new = call ptr @malloc(i64 %size)
  %none = icmp eq ptr %memory.new, null
  br i1 %none, label %failed, label %divide
divide:
  %memory.to = getelementptr inbounds i8, ptr %block, i64 $block_memory
  store ptr %memory.new, ptr %memory.to
  %memory.end = getelementptr inbounds i8, ptr %memory.new, i64 63
  %shared = call ptr @llvm.ptrmask.p0.i64(ptr %memory.end, i64 -64)
  %shared.to = getelementptr inbounds i8, ptr %block, i64 $block_shared
  store ptr %shared, ptr %shared.to
  %handles = getelementptr inbounds i8, ptr %shared, i64 %shared.size
  %handles.to = getelementptr inbounds i8, ptr %block, i64 $block_handles
  store ptr %handles, ptr %handles.to
  br label %ready
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  br label %ready
ready:
  %ok = phi i1 [ true, %entry ], [ true, %divide ], [ false, %failed ]
  ret i1 %ok
}

define void @schedule.close(ptr %block) {
entry:
  %memory.at = getelementptr inbounds i8, ptr %block, i64 $block_memory
  %memory = load ptr, ptr %memory.at
  call void @free(ptr %memory)
  %frames.at = getelementptr inbounds i8, ptr %block, i64 $block_frames
  %frames = load ptr, ptr %frames.at
  call void @free(ptr %frames)
  ret void
}

define i1 @schedule.next(ptr %launch, ptr %block) {
entry:
  %stop.at = getelementptr inbounds i8, ptr %launch, i64 $launch_stop
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %go = icmp eq i32 %stop, 0
  br i1 %go, label %look, label %none
look:
  %first.at = getelementptr inbounds i8, ptr %block, i64 $block_first
  %first.old = load i64, ptr %first.at
  %last.at = getelementptr inbounds i8, ptr %block, i64 $block_last
  %last.old = load i64, ptr %last.at
  %left = icmp ult i64 %first.old, %last.old
  br i1 %left, label %take, label %grab
grab:
  %chunk.at = getelementptr inbounds i8, ptr %launch, i64 $launch_chunk
  %chunk = load i64, ptr %chunk.at
  %blocks.at = getelementptr inbounds i8, ptr %launch, i64 $launch_blocks
  %blocks = load i64, ptr %blocks.at
  %next.at = getelementptr inbounds i8, ptr %launch, i64 $launch_next
  %first.new = atomicrmw add ptr %next.at, i64 %chunk monotonic
  %end = add i64 %first.new, %chunk
  %last.new = call i64 @llvm.umin.i64(i64 %end, i64 %blocks)
  store i64 %last.new, ptr %last.at
  %any = icmp ult i64 %first.new, %blocks
  br i1 %any, label %take, label %none
take:
  %number = phi i64 [ %first.old, %look ], [ %first.new, %grab ]
  %number.to = getelementptr inbounds i8, ptr %block, i64 $block_number
  store i64 %number, ptr %number.to
  %number.next = add i64 %number, 1
  store i64 %number.next, ptr %first.at
  %frames.at = getelementptr inbounds i8, ptr %block, i64 $block_frames
  %frames = load ptr, ptr %frames.at
  %top.at = getelementptr inbounds i8, ptr %block, i64 $block_top
  store ptr %frames, ptr %top.at
  %nx.at = getelementptr inbounds i8, ptr %launch, i64 $launch_nctaid_x
  %nx.32 = load i32, ptr %nx.at
  %nx = zext nneg i32 %nx.32 to i64
  %ny.at = getelementptr inbounds i8, ptr %launch, i64 $launch_nctaid_y
  %ny.32 = load i32, ptr %ny.at
  %ny = zext nneg i32 %ny.32 to i64
  %yz = udiv i64 %number, %nx
  %x = urem i64 %number, %nx
  %z = udiv i64 %yz, %ny
  %y = urem i64 %yz, %ny
  %x.32 = trunc i64 %x to i32
  %y.32 = trunc i64 %y to i32
  %z.32 = trunc i64 %z to i32
  %x.to = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_x
  store i32 %x.32, ptr %x.to
  %y.to = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_y
  store i32 %y.32, ptr %y.to
  %z.to = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_z
  store i32 %z.32, ptr %z.to
  ret i1 true
none:
  ret i1 false
}

define ptr @schedule.frames(ptr %block, i64 %step) cold noinline {
entry:
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %size = mul i64 %threads, %step
  %frames = call ptr @malloc(i64 %size)
  %frames.to = getelementptr inbounds i8, ptr %block, i64 $block_frames
  store ptr %frames, ptr %frames.to
  %none = icmp eq ptr %frames, null
  br i1 %none, label %failed, label %done
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  br label %done
done:
  ret ptr %frames
}

define void @schedule.rounds(ptr %block) {
entry:
  %handles.at = getelementptr inbounds i8, ptr %block, i64 $block_handles
  %handles = load ptr, ptr %handles.at
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  br label %round
round:
  %live = phi i64 [ %threads, %entry ], [ %left.next, %round.end ]
  br label %thread
thread:
  %number = phi i64 [ 0, %round ], [ %number.next, %thread ]
  %left = phi i64 [ 0, %round ], [ %left.next, %thread ]
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %number
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %returned = call i1 @llvm.coro.done(ptr %handle)
  %handle.to = getelementptr inbounds ptr, ptr %handles, i64 %left
  store ptr %handle, ptr %handle.to
  %stays = xor i1 %returned, true
  %one = zext i1 %stays to i64
  %left.next = add nuw nsw i64 %left, %one
  %number.next = add nuw nsw i64 %number, 1
  %round.last = icmp eq i64 %number.next, %live
  br i1 %round.last, label %round.end, label %thread
round.end:
  %empty = icmp eq i64 %left.next, 0
  br i1 %empty, label %end, label %round
end:
  ret void
}
"""

#: The rounds of a kernel with warp operations. ``schedule.warp`` returns the lanes that stand at a barrier, and those
#: that wait for lanes which can never come.
WARP_LIBRARY = """
declare void @schedule.fail(ptr, i32, i64)
declare void @llvm.coro.resume(ptr)
declare i1 @llvm.coro.done(ptr)

define void @schedule.warps(ptr %block) {
entry:
  %live = alloca [32 x i32], align 64
  %handles.at = getelementptr inbounds i8, ptr %block, i64 $block_handles
  %handles = load ptr, ptr %handles.at
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %threads.up = add nuw nsw i64 %threads, 31
  %warps = lshr i64 %threads.up, 5
  br label %fill
fill:
  %fill.number = phi i64 [ 0, %entry ], [ %fill.next, %fill ]
  %fill.first = shl nuw nsw i64 %fill.number, 5
  %fill.rest = sub nsw i64 %threads, %fill.first
  %fill.full = icmp ugt i64 %fill.rest, 31
  %fill.count = trunc i64 %fill.rest to i32
  %fill.part.up = shl i32 1, %fill.count
  %fill.part = sub i32 %fill.part.up, 1
  %fill.mask = select i1 %fill.full, i32 -1, i32 %fill.part
  %fill.to = getelementptr inbounds i32, ptr %live, i64 %fill.number
  store i32 %fill.mask, ptr %fill.to
  %fill.next = add nuw nsw i64 %fill.number, 1
  %fill.last = icmp eq i64 %fill.next, %warps
  br i1 %fill.last, label %round, label %fill
round:
  br label %warp
warp:
  %number = phi i64 [ 0, %round ], [ %number.next, %warp.end ]
  %any = phi i32 [ 0, %round ], [ %any.next, %warp.end ]
  %mask.at = getelementptr inbounds i32, ptr %live, i64 %number
  %mask = load i32, ptr %mask.at
  %empty = icmp eq i32 %mask, 0
  br i1 %empty, label %warp.end, label %warp.run
warp.run:
  %first = shl nuw nsw i64 %number, 5
  %warp.handles = getelementptr inbounds ptr, ptr %handles, i64 %first
  %result = call { i32, i32 } @schedule.warp(ptr %block, ptr %warp.handles, i32 %mask)
  %mask.new = extractvalue { i32, i32 } %result, 0
  store i32 %mask.new, ptr %mask.at
  %stuck = extractvalue { i32, i32 } %result, 1
  %fine = icmp eq i32 %stuck, 0
  br i1 %fine, label %warp.end, label %failed
warp.end:
  %mask.left = phi i32 [ 0, %warp ], [ %mask.new, %warp.run ]
  %any.next = or i32 %any, %mask.left
  %number.next = add nuw nsw i64 %number, 1
  %warp.last = icmp eq i64 %number.next, %warps
  br i1 %warp.last, label %round.end, label %warp
round.end:
  %none = icmp eq i32 %any.next, 0
  br i1 %none, label %end, label %round
failed:
  %lane = call i32 @llvm.cttz.i32(i32 %stuck, i1 true)
  %lane.64 = zext nneg i32 %lane to i64
  %offender = add i64 %first, %lane.64
  call void @schedule.fail(ptr %block, i32 $stuck_warp, i64 %offender)
  br label %end
end:
  ret void
}

define internal { i32, i32 } @schedule.warp(ptr %block, ptr %handles, i32 %start) {
entry:
  %masks = getelementptr inbounds i8, ptr %block, i64 $block_xchg_mask
  %sources = getelementptr inbounds i8, ptr %block, i64 $block_xchg_source
  %ins = getelementptr inbounds i8, ptr %block, i64 $block_xchg_in
  %outs = getelementptr inbounds i8, ptr %block, i64 $block_xchg_out
  br label %run
run:
  %run.ready = phi i32 [ %start, %entry ], [ %released.next, %groups.end ]
  %run.live = phi i32 [ %start, %entry ], [ %live.next, %groups.end ]
  %run.waiting = phi i32 [ 0, %entry ], [ %still, %groups.end ]
  br label %lane
lane:
  %ready = phi i32 [ %run.ready, %run ], [ %ready.next, %lane ]
  %live = phi i32 [ %run.live, %run ], [ %live.next, %lane ]
  %waiting = phi i32 [ %run.waiting, %run ], [ %waiting.next, %lane ]
  %number = call i32 @llvm.cttz.i32(i32 %ready, i1 true)
  %number.64 = zext nneg i32 %number to i64
  %bit = shl nuw i32 1, %number
  %mask.at = getelementptr inbounds i32, ptr %masks, i64 %number.64
  store i32 0, ptr %mask.at
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %number.64
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %returned = call i1 @llvm.coro.done(ptr %handle)
  %mask = load i32, ptr %mask.at
  %waits = icmp ne i32 %mask, 0
  %gone = select i1 %returned, i32 %bit, i32 0
  %live.next = xor i32 %live, %gone
  %wait.bit = select i1 %waits, i32 %bit, i32 0
  %waiting.next = or i32 %waiting, %wait.bit
  %ready.less = add i32 %ready, -1
  %ready.next = and i32 %ready, %ready.less
  %run.last = icmp eq i32 %ready.next, 0
  br i1 %run.last, label %lanes.end, label %lane
lanes.end:
  %nobody = icmp eq i32 %waiting.next, 0
  br i1 %nobody, label %end, label %group
group:
  %left = phi i32 [ %waiting.next, %lanes.end ], [ %left.next, %group.end ]
  %released = phi i32 [ 0, %lanes.end ], [ %released.next, %group.end ]
  %leader = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %leader.64 = zext nneg i32 %leader to i64
  %leader.mask.at = getelementptr inbounds i32, ptr %masks, i64 %leader.64
  %leader.mask = load i32, ptr %leader.mask.at
  %all.masks = load <32 x i32>, ptr %masks, align 64
  %leader.one = insertelement <32 x i32> poison, i32 %leader.mask, i64 0
  %leader.all = shufflevector <32 x i32> %leader.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %same = icmp eq <32 x i32> %all.masks, %leader.all
  %same.bits = bitcast <32 x i1> %same to i32
  %members = and i32 %same.bits, %left
  %left.others = xor i32 %members, -1
  %left.next = and i32 %left, %left.others
  %needed = and i32 %leader.mask, %live.next
  %missing.inverse = xor i32 %members, -1
  %missing = and i32 %needed, %missing.inverse
  %complete = icmp eq i32 %missing, 0
  br i1 %complete, label %exchange, label %group.end
exchange:
  %todo = phi i32 [ %members, %group ], [ %todo.next, %exchange ]
  %to = call i32 @llvm.cttz.i32(i32 %todo, i1 true)
  %to.64 = zext nneg i32 %to to i64
  %source.at = getelementptr inbounds i32, ptr %sources, i64 %to.64
  %source.asked = load i32, ptr %source.at
  %source.bit = lshr i32 %members, %source.asked
  %source.here = trunc i32 %source.bit to i1
  %source = select i1 %source.here, i32 %source.asked, i32 %to
  %source.64 = zext nneg i32 %source to i64
  %in.at = getelementptr inbounds i64, ptr %ins, i64 %source.64
  %in = load i64, ptr %in.at
  %out.to = getelementptr inbounds i64, ptr %outs, i64 %to.64
  store i64 %in, ptr %out.to
  %todo.less = add i32 %todo, -1
  %todo.next = and i32 %todo, %todo.less
  %exchanged = icmp eq i32 %todo.next, 0
  br i1 %exchanged, label %group.end, label %exchange
group.end:
  %released.new = phi i32 [ 0, %group ], [ %members, %exchange ]
  %released.next = or i32 %released, %released.new
  %groups.last = icmp eq i32 %left.next, 0
  br i1 %groups.last, label %groups.end, label %group
groups.end:
  %released.inverse = xor i32 %released.next, -1
  %still = and i32 %waiting.next, %released.inverse
  %stuck = icmp eq i32 %released.next, 0
  br i1 %stuck, label %end, label %run
end:
  %answer = insertvalue { i32, i32 } poison, i32 %live.next, 0
  %full = insertvalue { i32, i32 } %answer, i32 %waiting.next, 1
  ret { i32, i32 } %full
}
"""

#: What LLVM calls for ``fptrunc double to half`` where the processor has no instruction for it, by the name that LLVM
#: gives it; few C libraries export it. The double is rounded to float with the last bit set if anything was lost, so
#: that the second rounding cannot be misled by the first.
HALF = """
define half @__truncdfhf2(double %value) {
entry:
  %near = fptrunc double %value to float
  %back = fpext float %near to double
  %inexact = fcmp one double %back, %value
  %bits = bitcast float %near to i32
  %last = and i32 %bits, 1
  %even = icmp eq i32 %last, 0
  %adjust = and i1 %inexact, %even
  %size = call double @llvm.fabs.f64(double %value)
  %back.size = call double @llvm.fabs.f64(double %back)
  %below = fcmp olt double %back.size, %size
  %step = select i1 %below, i32 1, i32 -1
  %moved = add i32 %bits, %step
  %odd = select i1 %adjust, i32 %moved, i32 %bits
  %float = bitcast i32 %odd to float
  %half = fptrunc float %float to half
  ret half %half
}
"""

_EXPORTS = [
    "schedule.fail", "schedule.open", "schedule.close", "schedule.next", "schedule.frames", "schedule.rounds",
    "__truncdfhf2",
]  # fmt: skip
_WARP_EXPORTS = ["schedule.warps"]


@cache
def _load(warps: bool) -> tuple[llvm.JitLibrary, dict[str, int]]:
    exports, imports = (_WARP_EXPORTS, library_symbols(False)) if warps else (_EXPORTS, {})
    text = WARP_LIBRARY if warps else LIBRARY + HALF
    module = llvm.parse_module(Template(text).substitute(TEXT_CONSTANTS))
    machine = llvm.host_machine(2)
    llvm.optimise_module(module, machine, 2)
    name = "cudabuild.schedule.warps" if warps else "cudabuild.schedule"
    loaded = llvm.load_object(name, llvm.emit_object(module, machine), exports, imports)
    return loaded, {symbol: loaded.address(symbol) for symbol in exports}


def library_symbols(warps: bool) -> dict[str, int]:
    """The functions that a kernel's schedule calls -> their addresses; ``warps``: those for warp operations too."""
    symbols = dict(_load(False)[1])
    if warps:
        symbols.update(_load(True)[1])
    return symbols
