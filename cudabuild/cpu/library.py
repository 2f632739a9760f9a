# SPDX-License-Identifier: Apache-2.0
"""The part of a schedule that is alike for all kernels: LLVM text, compiled once per process when first needed.

Kept apart from the kernels because LLVM would need longer for it than for a small kernel. ``$launch_x`` and
``$block_x`` are field offsets of ``abi.py``.
"""

from __future__ import annotations

from functools import cache
from itertools import count
from string import Template
from typing import TYPE_CHECKING

from cudabuild.backend import llvm
from cudabuild.cpu import turns
from cudabuild.cpu.abi import TEXT_CONSTANTS
from cudabuild.cpu.clock import clock_text
from cudabuild.cpu.handover import EXPORTS as HANDOVER
from cudabuild.cpu.handover import handover_text, make_handover
from cudabuild.cpu.store import find_code
from cudabuild.cpu.yielding import find_yield

if TYPE_CHECKING:
    from cudabuild.cpu.handover import Handover
    from cudabuild.cpu.store import ImageStore

__all__ = ["find_handover", "library_symbols"]

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

define i1 @schedule.open(ptr %launch, ptr %block, i32 %core, i1 %memory, i64 %static) {
entry:
  call void @llvm.memset.p0.i64(ptr align 8 %block, i8 0, i64 $block_size, i1 false)
  %launch.to = getelementptr inbounds i8, ptr %block, i64 $block_launch
  store ptr %launch, ptr %launch.to
  %stop = getelementptr inbounds i8, ptr %launch, i64 $launch_stop
  %stop.to = getelementptr inbounds i8, ptr %block, i64 $block_stop
  store ptr %stop, ptr %stop.to
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
  %wide.to = getelementptr inbounds i8, ptr %block, i64 $block_wide
  store i32 1, ptr %wide.to
  %parts.at = getelementptr inbounds i8, ptr %launch, i64 $launch_parts
  %parts = load i64, ptr %parts.at
  %core.64 = zext i32 %core to i64
  %part = urem i64 %core.64, %parts
  %part.32 = trunc i64 %part to i32
  %part.to = getelementptr inbounds i8, ptr %block, i64 $block_part
  store i32 %part.32, ptr %part.to
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
  %warps.at = getelementptr inbounds i8, ptr %block, i64 $block_warps
  %warps = load ptr, ptr %warps.at
  call void @free(ptr %warps)
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
  br i1 %left, label %step, label %grab
step:
  %step.factor.at = getelementptr inbounds i8, ptr %launch, i64 $launch_order_factor
  %step.factor = load i64, ptr %step.factor.at
  %step.ordered = icmp eq i64 %step.factor, 0
  %step.x.at = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_x
  %step.x = load i32, ptr %step.x.at
  %step.wide.at = getelementptr inbounds i8, ptr %block, i64 $block_wide
  %step.wide = load i32, ptr %step.wide.at
  %step.x.next = add nuw nsw i32 %step.x, %step.wide
  %step.nx.at = getelementptr inbounds i8, ptr %launch, i64 $launch_nctaid_x
  %step.nx = load i32, ptr %step.nx.at
  %step.inside = icmp ult i32 %step.x.next, %step.nx
  br i1 %step.ordered, label %near, label %take
near:
  %near.x = select i1 %step.inside, i32 %step.x.next, i32 0
  store i32 %near.x, ptr %step.x.at
  br i1 %step.inside, label %beside, label %row
row:
  %row.y.at = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_y
  %row.y = load i32, ptr %row.y.at
  %row.ny.at = getelementptr inbounds i8, ptr %launch, i64 $launch_nctaid_y
  %row.ny = load i32, ptr %row.ny.at
  %row.y.next = add nuw nsw i32 %row.y, 1
  %row.inside = icmp ult i32 %row.y.next, %row.ny
  %row.y.new = select i1 %row.inside, i32 %row.y.next, i32 0
  store i32 %row.y.new, ptr %row.y.at
  br i1 %row.inside, label %beside, label %plane
plane:
  %plane.z.at = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_z
  %plane.z = load i32, ptr %plane.z.at
  %plane.z.next = add nuw nsw i32 %plane.z, 1
  store i32 %plane.z.next, ptr %plane.z.at
  br label %beside
beside:
  %near.number.to = getelementptr inbounds i8, ptr %block, i64 $block_number
  store i64 %first.old, ptr %near.number.to
  %near.next = add nuw i64 %first.old, 1
  store i64 %near.next, ptr %first.at
  %near.frames.at = getelementptr inbounds i8, ptr %block, i64 $block_frames
  %near.frames = load ptr, ptr %near.frames.at
  %near.top.at = getelementptr inbounds i8, ptr %block, i64 $block_top
  store ptr %near.frames, ptr %near.top.at
  ret i1 true
grab:
  %chunk.at = getelementptr inbounds i8, ptr %launch, i64 $launch_chunk
  %chunk = load i64, ptr %chunk.at
  %blocks.at = getelementptr inbounds i8, ptr %launch, i64 $launch_blocks
  %blocks = load i64, ptr %blocks.at
  %parts.at = getelementptr inbounds i8, ptr %launch, i64 $launch_parts
  %parts = load i64, ptr %parts.at
  %size.at = getelementptr inbounds i8, ptr %launch, i64 $launch_part
  %size = load i64, ptr %size.at
  %part.at = getelementptr inbounds i8, ptr %block, i64 $block_part
  %part.old = load i32, ptr %part.at
  %counters = getelementptr inbounds i8, ptr %launch, i64 $counters
  br label %part
part:
  %tried = phi i64 [ 0, %grab ], [ %tried.next, %further ]
  %part.32 = phi i32 [ %part.old, %grab ], [ %part.new, %further ]
  %part.number = zext nneg i32 %part.32 to i64
  %counter.offset = mul nuw nsw i64 %part.number, $counter_size
  %counter = getelementptr inbounds i8, ptr %counters, i64 %counter.offset
  %part.first = mul nuw i64 %part.number, %size
  %part.past = add nuw i64 %part.first, %size
  %part.last = call i64 @llvm.umin.i64(i64 %part.past, i64 %blocks)
  %taken.so.far = load atomic i64, ptr %counter monotonic, align 8
  %first.so.far = add i64 %part.first, %taken.so.far
  %some = icmp ult i64 %first.so.far, %part.last
  br i1 %some, label %more, label %further
more:
  %taken = atomicrmw add ptr %counter, i64 %chunk monotonic
  %first.new = add i64 %part.first, %taken
  %end = add i64 %first.new, %chunk
  %any = icmp ult i64 %first.new, %part.last
  br i1 %any, label %claim, label %further
further:
  %part.next = add nuw nsw i64 %part.number, 1
  %part.inside = icmp ult i64 %part.next, %parts
  %part.around = select i1 %part.inside, i64 %part.next, i64 0
  %part.new = trunc i64 %part.around to i32
  %tried.next = add nuw nsw i64 %tried, 1
  %tried.all = icmp uge i64 %tried.next, %parts
  br i1 %tried.all, label %none, label %part
claim:
  store i32 %part.32, ptr %part.at
  %last.new = call i64 @llvm.umin.i64(i64 %end, i64 %part.last)
  store i64 %last.new, ptr %last.at
  br label %take
take:
  %turn = phi i64 [ %first.old, %step ], [ %first.new, %claim ]
  %turn.next = add i64 %turn, 1
  store i64 %turn.next, ptr %first.at
  %factor.at = getelementptr inbounds i8, ptr %launch, i64 $launch_order_factor
  %factor = load i64, ptr %factor.at
  %ordered = icmp eq i64 %factor, 0
  br i1 %ordered, label %place, label %shuffle
shuffle:
  %scaled = mul i64 %turn, %factor
  %offset.at = getelementptr inbounds i8, ptr %launch, i64 $launch_order_offset
  %offset = load i64, ptr %offset.at
  %moved = add i64 %scaled, %offset
  %grid.at = getelementptr inbounds i8, ptr %launch, i64 $launch_blocks
  %grid = load i64, ptr %grid.at
  %shuffled = urem i64 %moved, %grid
  br label %place
place:
  %number = phi i64 [ %turn, %take ], [ %shuffled, %shuffle ]
  %number.to = getelementptr inbounds i8, ptr %block, i64 $block_number
  store i64 %number, ptr %number.to
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

define i32 @schedule.take(ptr %launch, ptr %block) {
entry:
  %more = call i1 @schedule.next(ptr %launch, ptr %block)
  br i1 %more, label %look, label %none
look:
  %factor.at = getelementptr inbounds i8, ptr %launch, i64 $launch_order_factor
  %factor = load i64, ptr %factor.at
  %ordered = icmp eq i64 %factor, 0
  br i1 %ordered, label %join, label %done
join:
  %nx.at = getelementptr inbounds i8, ptr %launch, i64 $launch_nctaid_x
  %nx = load i32, ptr %nx.at
  %x.at = getelementptr inbounds i8, ptr %block, i64 $block_ctaid_x
  %x = load i32, ptr %x.at
  %inside = sub nuw nsw i32 %nx, %x
  %first.at = getelementptr inbounds i8, ptr %block, i64 $block_first
  %first = load i64, ptr %first.at
  %last.at = getelementptr inbounds i8, ptr %block, i64 $block_last
  %last = load i64, ptr %last.at
  %left.64 = sub nuw nsw i64 %last, %first
  %left.less = call i64 @llvm.umin.i64(i64 %left.64, i64 $row_threads)
  %left = trunc nuw nsw i64 %left.less to i32
  %left.all = add nuw nsw i32 %left, 1
  %width.at = getelementptr inbounds i8, ptr %block, i64 $block_ntid_x
  %width = load i32, ptr %width.at
  %fit = udiv i32 $row_threads, %width
  %within = call i32 @llvm.umin.i32(i32 %inside, i32 %left.all)
  %count = call i32 @llvm.umin.i32(i32 %within, i32 %fit)
  %further = sub nuw nsw i32 %count, 1
  %further.64 = zext nneg i32 %further to i64
  %first.next = add nuw nsw i64 %first, %further.64
  store i64 %first.next, ptr %first.at
  %wide.at = getelementptr inbounds i8, ptr %block, i64 $block_wide
  store i32 %count, ptr %wide.at
  br label %done
done:
  %blocks = phi i32 [ 1, %look ], [ %count, %join ]
  ret i32 %blocks
none:
  ret i32 0
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
  %stop.at = getelementptr inbounds i8, ptr %block, i64 $block_stop
  %stop = load ptr, ptr %stop.at
  %sum.at = getelementptr inbounds i8, ptr %block, i64 $block_arrived
  %sum.to = getelementptr inbounds i8, ptr %block, i64 $block_reduced
  store i64 0, ptr %sum.at
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
  %sum = load i64, ptr %sum.at
  store i64 %sum, ptr %sum.to
  store i64 0, ptr %sum.at
  %flag = load atomic i32, ptr %stop monotonic, align 4
  %stopped = icmp ne i32 %flag, 0
  %empty = icmp eq i64 %left.next, 0
  %over = or i1 %empty, %stopped
  br i1 %over, label %end, label %round
end:
  ret void
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
    "schedule.fail", "schedule.open", "schedule.close", "schedule.next", "schedule.take", "schedule.frames",
    "schedule.rounds", "schedule.nanoseconds", "__truncdfhf2",
]  # fmt: skip


_serial = count()


@cache
def _load(takes_turns: bool, store: ImageStore | None) -> tuple[llvm.JitLibrary, dict[str, int]]:
    handover = handover_text()
    exports, imports = [*_EXPORTS, *(HANDOVER if handover else ())], {}
    if takes_turns:
        exports, imports = turns.EXPORTS, {**library_symbols(False, store), "schedule.yield": find_yield()}
    name = "turns" if takes_turns else "schedule"
    text = Template(turns.TURNS if takes_turns else LIBRARY + HALF + clock_text() + handover).substitute(TEXT_CONSTANTS)
    loaded = llvm.load_object(f"{next(_serial)}.{name}", find_code(name, text, store), exports, imports)
    return loaded, {symbol: loaded.address(symbol) for symbol in exports}


def library_symbols(takes_turns: bool, store: ImageStore | None = None) -> dict[str, int]:
    """The functions that a kernel's schedule calls -> their addresses.

    Args:
        takes_turns: those of ``turns.py`` too.
        store: where their code is kept between processes.
    """
    symbols = dict(_load(False, store)[1])
    if takes_turns:
        symbols.update(_load(True, store)[1])
    return symbols


@cache
def find_handover(store: ImageStore | None = None) -> Handover | None:
    """How launches get to workers in compiled code, where this computer has that; ``store`` as above."""
    return make_handover(library_symbols(False, store))
