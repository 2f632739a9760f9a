# SPDX-License-Identifier: Apache-2.0
"""The schedule of kernels whose threads wait for one another otherwise than at plain barriers, as LLVM text.

Three levels, each a loop around the next. All hold only what can go on, and give way to what must come first::

    turns   a worker's blocks: one after the other, and one more whenever those that have begun wait for others
    turn    a block: its warps one after the other; then the barrier or grid sync opens if all live threads are there
    warp    a warp: its lanes until each waits for something outside, releasing the groups that are complete

A lane that is suspended leaves in its ``kind`` slot what it waits for (``abi.Wait``). Lanes that wait with the same
mask in the same kind of operation are a group, complete when every live lane of the mask is in it. ``ACTIVE`` groups
are complete when nothing else of the warp can go on.

``schedule.turn`` and ``schedule.warp`` answer with bits: 1, something has moved; 2, threads are left; 4, some of them
wait for another warp or block.
"""

from __future__ import annotations

__all__ = ["EXPORTS", "TURNS"]

EXPORTS = ["schedule.turns"]

TURNS = """
declare void @schedule.fail(ptr, i32, i64)
declare i1 @schedule.open(ptr, ptr, i32, i1, i64)
declare i1 @schedule.next(ptr, ptr)
declare void @schedule.close(ptr)
declare i32 @schedule.yield()
declare ptr @malloc(i64)
declare void @free(ptr)
declare void @llvm.coro.resume(ptr)
declare i1 @llvm.coro.done(ptr)

define void @schedule.turns(ptr %launch, ptr %start, i64 %static) {
entry:
  %stop.at = getelementptr inbounds i8, ptr %launch, i64 $launch_stop
  %resident.at = getelementptr inbounds i8, ptr %launch, i64 $launch_resident
  %resident = load i64, ptr %resident.at
  %slots.size = shl i64 %resident, 3
  %slots = call ptr @malloc(i64 %slots.size)
  %slots.none = icmp eq ptr %slots, null
  br i1 %slots.none, label %end, label %pass
pass:
  %live = phi i64 [ 0, %entry ], [ %live.now, %idle ], [ %live.now, %give ], [ %live.more, %begun ]
  %opened = phi i64 [ 0, %entry ], [ %opened.kept, %idle ], [ %opened.kept, %give ], [ %opened.now, %begun ]
  br label %block
block:
  %index = phi i64 [ 0, %pass ], [ %index.next, %block.end ]
  %live.now = phi i64 [ %live, %pass ], [ %live.left, %block.end ]
  %seen = phi i32 [ 0, %pass ], [ %seen.next, %block.end ]
  %more = icmp ult i64 %index, %live.now
  br i1 %more, label %run, label %passed
run:
  %slot = getelementptr inbounds ptr, ptr %slots, i64 %index
  %this = load ptr, ptr %slot
  %result = call i32 @schedule.turn(ptr %launch, ptr %this)
  %seen.run = or i32 %seen, %result
  %left.bit = and i32 %result, 2
  %finished = icmp eq i32 %left.bit, 0
  br i1 %finished, label %finish, label %block.end
finish:
  call void @schedule.leave(ptr %launch)
  %live.less = sub i64 %live.now, 1
  %slot.last = getelementptr inbounds ptr, ptr %slots, i64 %live.less
  %last = load ptr, ptr %slot.last
  store ptr %this, ptr %slot.last
  store ptr %last, ptr %slot
  br label %block.end
block.end:
  %live.left = phi i64 [ %live.now, %run ], [ %live.less, %finish ]
  %seen.next = phi i32 [ %seen.run, %run ], [ %seen.run, %finish ]
  %step = phi i64 [ 1, %run ], [ 0, %finish ]
  %index.next = add i64 %index, %step
  br label %block
passed:
  %stop = load atomic i32, ptr %stop.at monotonic, align 4
  %stopped = icmp ne i32 %stop, 0
  br i1 %stopped, label %close, label %choose
choose:
  %nobody = icmp eq i64 %live.now, 0
  %others.bit = and i32 %seen, 4
  %others = icmp ne i32 %others.bit, 0
  %wanted = or i1 %nobody, %others
  %room = icmp ult i64 %live.now, %resident
  %grow = and i1 %wanted, %room
  br i1 %grow, label %find, label %idle
find:
  %slot.new = getelementptr inbounds ptr, ptr %slots, i64 %live.now
  %fresh = icmp eq i64 %live.now, %opened
  br i1 %fresh, label %open, label %take
open:
  %block.new = call ptr @schedule.make(ptr %launch, i64 %static)
  %block.none = icmp eq ptr %block.new, null
  br i1 %block.none, label %close, label %keep
keep:
  store ptr %block.new, ptr %slot.new
  %opened.more = add i64 %opened, 1
  br label %take
take:
  %opened.now = phi i64 [ %opened, %find ], [ %opened.more, %keep ]
  %next = load ptr, ptr %slot.new
  %any = call i1 @schedule.next(ptr %launch, ptr %next)
  br i1 %any, label %begin, label %exhausted
begin:
  call void @schedule.fill(ptr %next)
  %started = call i1 %start(ptr %next)
  br i1 %started, label %begun, label %close
begun:
  %live.more = add i64 %live.now, 1
  br label %pass
exhausted:
  br i1 %nobody, label %close, label %idle
idle:
  %opened.kept = phi i64 [ %opened, %choose ], [ %opened.now, %exhausted ]
  %moved.bit = and i32 %seen, 1
  %moved = icmp ne i32 %moved.bit, 0
  br i1 %moved, label %pass, label %give
give:
  %ignored = call i32 @schedule.yield()
  br label %pass
close:
  %opened.all = phi i64 [ %opened, %passed ], [ %opened, %open ], [ %opened.now, %begin ], [ %opened.now, %exhausted ]
  br label %free
free:
  %free.index = phi i64 [ 0, %close ], [ %free.next, %release ]
  %free.more = icmp ult i64 %free.index, %opened.all
  br i1 %free.more, label %release, label %freed
release:
  %free.slot = getelementptr inbounds ptr, ptr %slots, i64 %free.index
  %free.block = load ptr, ptr %free.slot
  call void @schedule.close(ptr %free.block)
  call void @free(ptr %free.block)
  %free.next = add i64 %free.index, 1
  br label %free
freed:
  call void @free(ptr %slots)
  br label %end
end:
  ret void
}

define internal ptr @schedule.make(ptr %launch, i64 %static) cold noinline {
entry:
  %block = call ptr @malloc(i64 $block_size)
  %none = icmp eq ptr %block, null
  br i1 %none, label %failed, label %open
open:
  %opened = call i1 @schedule.open(ptr %launch, ptr %block, i32 0, i1 true, i64 %static)
  br i1 %opened, label %warps, label %failed
warps:
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %threads.up = add nuw nsw i64 %threads, 31
  %count = lshr i64 %threads.up, 5
  %size = mul nuw nsw i64 %count, $warp_size
  %memory = call ptr @malloc(i64 %size)
  %warps.to = getelementptr inbounds i8, ptr %block, i64 $block_warps
  store ptr %memory, ptr %warps.to
  %memory.none = icmp eq ptr %memory, null
  br i1 %memory.none, label %missing, label %made
made:
  ret ptr %block
missing:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  call void @schedule.close(ptr %block)
  br label %failed
failed:
  call void @free(ptr %block)
  ret ptr null
}

define internal void @schedule.fill(ptr %block) {
entry:
  %generation.to = getelementptr inbounds i8, ptr %block, i64 $block_generation
  store i64 -1, ptr %generation.to
  %arrived.to = getelementptr inbounds i8, ptr %block, i64 $block_arrived
  store i64 0, ptr %arrived.to
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %warps.at = getelementptr inbounds i8, ptr %block, i64 $block_warps
  %warps = load ptr, ptr %warps.at
  br label %warp
warp:
  %at = phi ptr [ %warps, %entry ], [ %at.next, %warp ]
  %rest = phi i64 [ %threads, %entry ], [ %rest.next, %warp ]
  %full = icmp ugt i64 %rest, 31
  %count = trunc i64 %rest to i32
  %part.up = shl i32 1, %count
  %part = sub i32 %part.up, 1
  %mask = select i1 %full, i32 -1, i32 %part
  call void @llvm.memset.p0.i64(ptr align 4 %at, i8 0, i64 $warp_mask, i1 false)
  %live.to = getelementptr inbounds i8, ptr %at, i64 $warp_live
  store i32 %mask, ptr %live.to
  %ready.to = getelementptr inbounds i8, ptr %at, i64 $warp_ready
  store i32 %mask, ptr %ready.to
  %at.next = getelementptr inbounds i8, ptr %at, i64 $warp_size
  %rest.next = sub i64 %rest, 32
  %again = icmp sgt i64 %rest.next, 0
  br i1 %again, label %warp, label %end
end:
  ret void
}

define internal i32 @schedule.turn(ptr %launch, ptr %block) {
entry:
  %handles.at = getelementptr inbounds i8, ptr %block, i64 $block_handles
  %handles = load ptr, ptr %handles.at
  %warps.at = getelementptr inbounds i8, ptr %block, i64 $block_warps
  %warps = load ptr, ptr %warps.at
  %warp.to = getelementptr inbounds i8, ptr %block, i64 $block_warp
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  br label %warp
warp:
  %at = phi ptr [ %warps, %entry ], [ %at.next, %warp.end ]
  %first = phi i64 [ 0, %entry ], [ %first.next, %warp.end ]
  %moved = phi i32 [ 0, %entry ], [ %moved.next, %warp.end ]
  %lives = phi i32 [ 0, %entry ], [ %lives.next, %warp.end ]
  %readies = phi i32 [ 0, %entry ], [ %readies.next, %warp.end ]
  %elsewhere = phi i32 [ 0, %entry ], [ %elsewhere.next, %warp.end ]
  %ungrid = phi i32 [ 0, %entry ], [ %ungrid.next, %warp.end ]
  %ready.at = getelementptr inbounds i8, ptr %at, i64 $warp_ready
  %ready = load i32, ptr %ready.at
  %rests = icmp eq i32 %ready, 0
  br i1 %rests, label %warp.end, label %run
run:
  store ptr %at, ptr %warp.to
  %warp.handles = getelementptr inbounds ptr, ptr %handles, i64 %first
  %ran = call i32 @schedule.warp(ptr %at, ptr %warp.handles)
  br label %warp.end
warp.end:
  %moved.warp = phi i32 [ 0, %warp ], [ %ran, %run ]
  %moved.next = or i32 %moved, %moved.warp
  %live.at = getelementptr inbounds i8, ptr %at, i64 $warp_live
  %live = load i32, ptr %live.at
  %ready.now = load i32, ptr %ready.at
  %barrier.at = getelementptr inbounds i8, ptr %at, i64 $warp_barrier
  %barrier = load i32, ptr %barrier.at
  %grid.at = getelementptr inbounds i8, ptr %at, i64 $warp_grid
  %grid = load i32, ptr %grid.at
  %barrier.other = xor i32 %barrier, %live
  %grid.other = xor i32 %grid, %live
  %lives.next = or i32 %lives, %live
  %readies.next = or i32 %readies, %ready.now
  %elsewhere.next = or i32 %elsewhere, %barrier.other
  %ungrid.next = or i32 %ungrid, %grid.other
  %at.next = getelementptr inbounds i8, ptr %at, i64 $warp_size
  %first.next = add i64 %first, 32
  %again = icmp ult i64 %first.next, %threads
  br i1 %again, label %warp, label %look
look:
  %nobody = icmp eq i32 %lives.next, 0
  br i1 %nobody, label %gone, label %look.barrier
gone:
  ret i32 1
look.barrier:
  %all.barrier = icmp eq i32 %elsewhere.next, 0
  br i1 %all.barrier, label %pass.barrier, label %look.grid
pass.barrier:
  %sum.at = getelementptr inbounds i8, ptr %block, i64 $block_arrived
  %sum = load i64, ptr %sum.at
  %sum.to = getelementptr inbounds i8, ptr %block, i64 $block_reduced
  store i64 %sum, ptr %sum.to
  store i64 0, ptr %sum.at
  call void @schedule.release(ptr %block, i64 $warp_barrier)
  ret i32 3
look.grid:
  %all.grid = icmp eq i32 %ungrid.next, 0
  br i1 %all.grid, label %arrive, label %look.ready
arrive:
  %open = call i1 @schedule.arrive(ptr %launch, ptr %block)
  br i1 %open, label %pass.grid, label %wait.grid
pass.grid:
  call void @schedule.release(ptr %block, i64 $warp_grid)
  ret i32 3
wait.grid:
  %grid.answer = or i32 %moved.next, 6
  ret i32 %grid.answer
look.ready:
  %none.ready = icmp eq i32 %readies.next, 0
  br i1 %none.ready, label %stuck, label %others
others:
  %others.answer = or i32 %moved.next, 6
  ret i32 %others.answer
stuck:
  call void @schedule.stuck(ptr %block)
  ret i32 3
}

define internal void @schedule.release(ptr %block, i64 %which) {
entry:
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %warps.at = getelementptr inbounds i8, ptr %block, i64 $block_warps
  %warps = load ptr, ptr %warps.at
  br label %warp
warp:
  %at = phi ptr [ %warps, %entry ], [ %at.next, %warp ]
  %first = phi i64 [ 0, %entry ], [ %first.next, %warp ]
  %from = getelementptr inbounds i8, ptr %at, i64 %which
  %lanes = load i32, ptr %from
  store i32 0, ptr %from
  %ready.to = getelementptr inbounds i8, ptr %at, i64 $warp_ready
  store i32 %lanes, ptr %ready.to
  %at.next = getelementptr inbounds i8, ptr %at, i64 $warp_size
  %first.next = add i64 %first, 32
  %again = icmp ult i64 %first.next, %threads
  br i1 %again, label %warp, label %end
end:
  ret void
}

define internal void @schedule.stuck(ptr %block) cold noinline {
entry:
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %warps.at = getelementptr inbounds i8, ptr %block, i64 $block_warps
  %warps = load ptr, ptr %warps.at
  br label %warp
warp:
  %at = phi ptr [ %warps, %entry ], [ %at.next, %warp.end ]
  %first = phi i64 [ 0, %entry ], [ %first.next, %warp.end ]
  %grid.thread = phi i64 [ 0, %entry ], [ %grid.found, %warp.end ]
  %waiting.at = getelementptr inbounds i8, ptr %at, i64 $warp_waiting
  %waiting = load i32, ptr %waiting.at
  %fine = icmp eq i32 %waiting, 0
  br i1 %fine, label %warp.end, label %found
found:
  %lane = call i32 @llvm.cttz.i32(i32 %waiting, i1 true)
  %lane.64 = zext nneg i32 %lane to i64
  %offender = add i64 %first, %lane.64
  call void @schedule.fail(ptr %block, i32 $stuck_warp, i64 %offender)
  ret void
warp.end:
  %grid.at = getelementptr inbounds i8, ptr %at, i64 $warp_grid
  %grid = load i32, ptr %grid.at
  %grid.lane = call i32 @llvm.cttz.i32(i32 %grid, i1 false)
  %grid.64 = zext nneg i32 %grid.lane to i64
  %grid.number = add i64 %first, %grid.64
  %grid.none = icmp eq i32 %grid, 0
  %grid.found = select i1 %grid.none, i64 %grid.thread, i64 %grid.number
  %at.next = getelementptr inbounds i8, ptr %at, i64 $warp_size
  %first.next = add i64 %first, 32
  %again = icmp ult i64 %first.next, %threads
  br i1 %again, label %warp, label %mixed
mixed:
  call void @schedule.fail(ptr %block, i32 $stuck_grid, i64 %grid.found)
  ret void
}

define internal i1 @schedule.arrive(ptr %launch, ptr %block) {
entry:
  %grid.at = getelementptr inbounds i8, ptr %launch, i64 $launch_grid
  %own.at = getelementptr inbounds i8, ptr %block, i64 $block_generation
  %own = load i64, ptr %own.at
  %new = icmp eq i64 %own, -1
  br i1 %new, label %come, label %check
come:
  %before = call i64 @schedule.count(ptr %grid.at, i64 16777216)
  %own.new = lshr i64 %before, 48
  store i64 %own.new, ptr %own.at
  br label %check
check:
  %generation = phi i64 [ %own, %entry ], [ %own.new, %come ]
  %now = load atomic i64, ptr %grid.at acquire, align 8
  %now.generation = lshr i64 %now, 48
  %open = icmp ne i64 %now.generation, %generation
  br i1 %open, label %pass, label %wait
pass:
  store i64 -1, ptr %own.at
  ret i1 true
wait:
  ret i1 false
}

define internal void @schedule.leave(ptr %launch) {
entry:
  %grid.at = getelementptr inbounds i8, ptr %launch, i64 $launch_grid
  %grid = load atomic i64, ptr %grid.at monotonic, align 8
  %used = icmp ne i64 %grid, 0
  br i1 %used, label %count, label %end
count:
  %ignored = call i64 @schedule.count(ptr %grid.at, i64 -1)
  br label %end
end:
  ret void
}

define internal i64 @schedule.count(ptr %grid.at, i64 %change) {
entry:
  %first = load atomic i64, ptr %grid.at monotonic, align 8
  br label %try
try:
  %old = phi i64 [ %first, %entry ], [ %found, %try ]
  %changed = add i64 %old, %change
  %blocks = and i64 %changed, 16777215
  %arrived.up = lshr i64 %changed, 24
  %arrived = and i64 %arrived.up, 16777215
  %equal = icmp eq i64 %blocks, %arrived
  %some = icmp ne i64 %blocks, 0
  %open = and i1 %equal, %some
  %generation = lshr i64 %changed, 48
  %generation.next = add i64 %generation, 1
  %generation.bits = shl i64 %generation.next, 48
  %opened = or i64 %generation.bits, %blocks
  %new = select i1 %open, i64 %opened, i64 %changed
  %pair = cmpxchg ptr %grid.at, i64 %old, i64 %new acq_rel monotonic
  %found = extractvalue { i64, i1 } %pair, 0
  %done = extractvalue { i64, i1 } %pair, 1
  br i1 %done, label %end, label %try
end:
  ret i64 %old
}

define internal i32 @schedule.warp(ptr %at, ptr %handles) {
entry:
  %live.at = getelementptr inbounds i8, ptr %at, i64 $warp_live
  %ready.at = getelementptr inbounds i8, ptr %at, i64 $warp_ready
  %barrier.at = getelementptr inbounds i8, ptr %at, i64 $warp_barrier
  %grid.at = getelementptr inbounds i8, ptr %at, i64 $warp_grid
  %waiting.at = getelementptr inbounds i8, ptr %at, i64 $warp_waiting
  %kinds = getelementptr inbounds i8, ptr %at, i64 $warp_kind
  %masks = getelementptr inbounds i8, ptr %at, i64 $warp_mask
  %sources = getelementptr inbounds i8, ptr %at, i64 $warp_source
  %ins = getelementptr inbounds i8, ptr %at, i64 $warp_in
  %outs = getelementptr inbounds i8, ptr %at, i64 $warp_out
  %start.live = load i32, ptr %live.at
  %start.ready = load i32, ptr %ready.at
  %start.barrier = load i32, ptr %barrier.at
  %start.grid = load i32, ptr %grid.at
  %start.waiting = load i32, ptr %waiting.at
  br label %run
run:
  %run.ready = phi i32 [ %start.ready, %entry ], [ %released.next, %groups.end ]
  %run.live = phi i32 [ %start.live, %entry ], [ %live.next, %groups.end ]
  %run.waiting = phi i32 [ %start.waiting, %entry ], [ %still, %groups.end ]
  %run.barrier = phi i32 [ %start.barrier, %entry ], [ %barrier, %groups.end ]
  %run.grid = phi i32 [ %start.grid, %entry ], [ %grid, %groups.end ]
  %run.turn = phi i32 [ 0, %entry ], [ %turn, %groups.end ]
  %run.moved = phi i32 [ 0, %entry ], [ %moved, %groups.end ]
  %kinds.old = load <32 x i32>, ptr %kinds, align 4
  %ready.lanes = bitcast i32 %run.ready to <32 x i1>
  %kinds.new = select <32 x i1> %ready.lanes, <32 x i32> zeroinitializer, <32 x i32> %kinds.old
  store <32 x i32> %kinds.new, ptr %kinds, align 4
  br label %lane
lane:
  %ready = phi i32 [ %run.ready, %run ], [ %ready.next, %lane ]
  %live = phi i32 [ %run.live, %run ], [ %live.next, %lane ]
  %number = call i32 @llvm.cttz.i32(i32 %ready, i1 true)
  %number.64 = zext nneg i32 %number to i64
  %handle.at = getelementptr inbounds ptr, ptr %handles, i64 %number.64
  %handle = load ptr, ptr %handle.at
  call void @llvm.coro.resume(ptr %handle)
  %returned = call i1 @llvm.coro.done(ptr %handle)
  %bit = shl nuw i32 1, %number
  %gone = select i1 %returned, i32 %bit, i32 0
  %live.next = xor i32 %live, %gone
  %ready.less = add i32 %ready, -1
  %ready.next = and i32 %ready, %ready.less
  %run.last = icmp eq i32 %ready.next, 0
  br i1 %run.last, label %lanes.end, label %lane
lanes.end:
  %ran = and i32 %run.ready, %live.next
  %all.kinds = load <32 x i32>, ptr %kinds, align 4
  %waits = icmp ugt <32 x i32> %all.kinds, splat (i32 2)
  %waits.bits = bitcast <32 x i1> %waits to i32
  %waits.new = and i32 %waits.bits, %ran
  %waiting = or i32 %run.waiting, %waits.new
  %turns = icmp eq <32 x i32> %all.kinds, splat (i32 1)
  %turns.bits = bitcast <32 x i1> %turns to i32
  %turns.new = and i32 %turns.bits, %ran
  %turn = or i32 %run.turn, %turns.new
  %grids = icmp eq <32 x i32> %all.kinds, splat (i32 2)
  %grids.bits = bitcast <32 x i1> %grids to i32
  %grids.new = and i32 %grids.bits, %ran
  %grid = or i32 %run.grid, %grids.new
  %barriers = icmp eq <32 x i32> %all.kinds, zeroinitializer
  %barriers.bits = bitcast <32 x i1> %barriers to i32
  %barriers.new = and i32 %barriers.bits, %ran
  %barrier = or i32 %run.barrier, %barriers.new
  %idle = icmp eq i32 %run.ready, %turns.new
  %moved.new = select i1 %idle, i32 0, i32 1
  %moved = or i32 %run.moved, %moved.new
  %nobody = icmp eq i32 %waiting, 0
  br i1 %nobody, label %end, label %groups
groups:
  %force = phi i1 [ false, %lanes.end ], [ true, %again ]
  br label %group
group:
  %left = phi i32 [ %waiting, %groups ], [ %left.next, %group.end ]
  %released = phi i32 [ 0, %groups ], [ %released.next, %group.end ]
  %leader = call i32 @llvm.cttz.i32(i32 %left, i1 true)
  %leader.64 = zext nneg i32 %leader to i64
  %leader.mask.at = getelementptr inbounds i32, ptr %masks, i64 %leader.64
  %leader.mask = load i32, ptr %leader.mask.at
  %leader.kind.at = getelementptr inbounds i32, ptr %kinds, i64 %leader.64
  %leader.kind = load i32, ptr %leader.kind.at
  %all.masks = load <32 x i32>, ptr %masks, align 4
  %mask.one = insertelement <32 x i32> poison, i32 %leader.mask, i64 0
  %mask.all = shufflevector <32 x i32> %mask.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %kind.one = insertelement <32 x i32> poison, i32 %leader.kind, i64 0
  %kind.all = shufflevector <32 x i32> %kind.one, <32 x i32> poison, <32 x i32> zeroinitializer
  %same.mask = icmp eq <32 x i32> %all.masks, %mask.all
  %same.kind = icmp eq <32 x i32> %all.kinds, %kind.all
  %same = and <32 x i1> %same.mask, %same.kind
  %same.bits = bitcast <32 x i1> %same to i32
  %members = and i32 %same.bits, %left
  %left.others = xor i32 %members, -1
  %left.next = and i32 %left, %left.others
  %active = icmp eq i32 %leader.kind, 7
  %named = select i1 %active, i32 -1, i32 %leader.mask
  %needed = and i32 %named, %live.next
  %missing = and i32 %needed, %left.others
  %none.missing = icmp eq i32 %missing, 0
  %forced = and i1 %force, %active
  %complete = or i1 %none.missing, %forced
  br i1 %complete, label %meet, label %group.end
meet:
  %members.64 = zext i32 %members to i64
  %members.high = shl nuw i64 %members.64, 32
  switch i32 %leader.kind, label %group.end [ i32 3, label %exchange i32 4, label %vote i32 5, label %match
                                              i32 7, label %vote ]
exchange:
  %todo = phi i32 [ %members, %meet ], [ %todo.next, %exchange ]
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
vote:
  %votes = load <32 x i64>, ptr %ins, align 8
  %votes.set = icmp ne <32 x i64> %votes, zeroinitializer
  %votes.bits = bitcast <32 x i1> %votes.set to i32
  %ballot = and i32 %votes.bits, %members
  %ballot.64 = zext i32 %ballot to i64
  %vote.answer = or disjoint i64 %members.high, %ballot.64
  br label %tell
tell:
  %tell.todo = phi i32 [ %members, %vote ], [ %tell.next, %tell ]
  %tell.to = call i32 @llvm.cttz.i32(i32 %tell.todo, i1 true)
  %tell.64 = zext nneg i32 %tell.to to i64
  %tell.at = getelementptr inbounds i64, ptr %outs, i64 %tell.64
  store i64 %vote.answer, ptr %tell.at
  %tell.less = add i32 %tell.todo, -1
  %tell.next = and i32 %tell.todo, %tell.less
  %told = icmp eq i32 %tell.next, 0
  br i1 %told, label %group.end, label %tell
match:
  %values = load <32 x i64>, ptr %ins, align 8
  br label %compare
compare:
  %match.todo = phi i32 [ %members, %match ], [ %match.next, %compare ]
  %match.to = call i32 @llvm.cttz.i32(i32 %match.todo, i1 true)
  %match.64 = zext nneg i32 %match.to to i64
  %value.at = getelementptr inbounds i64, ptr %ins, i64 %match.64
  %value = load i64, ptr %value.at
  %value.one = insertelement <32 x i64> poison, i64 %value, i64 0
  %value.all = shufflevector <32 x i64> %value.one, <32 x i64> poison, <32 x i32> zeroinitializer
  %equal = icmp eq <32 x i64> %values, %value.all
  %equal.bits = bitcast <32 x i1> %equal to i32
  %alike = and i32 %equal.bits, %members
  %alike.64 = zext i32 %alike to i64
  %match.answer = or disjoint i64 %members.high, %alike.64
  %match.at = getelementptr inbounds i64, ptr %outs, i64 %match.64
  store i64 %match.answer, ptr %match.at
  %match.less = add i32 %match.todo, -1
  %match.next = and i32 %match.todo, %match.less
  %matched = icmp eq i32 %match.next, 0
  br i1 %matched, label %group.end, label %compare
group.end:
  %released.new = phi i32 [ 0, %group ], [ %members, %meet ], [ %members, %exchange ], [ %members, %tell ],
                          [ %members, %compare ]
  %released.next = or i32 %released, %released.new
  %groups.last = icmp eq i32 %left.next, 0
  br i1 %groups.last, label %groups.end, label %group
groups.end:
  %released.inverse = xor i32 %released.next, -1
  %still = and i32 %waiting, %released.inverse
  %nothing = icmp eq i32 %released.next, 0
  br i1 %nothing, label %again, label %run
again:
  %actives = icmp eq <32 x i32> %all.kinds, splat (i32 7)
  %actives.bits = bitcast <32 x i1> %actives to i32
  %actives.waiting = and i32 %actives.bits, %waiting
  %hopeless = icmp eq i32 %actives.waiting, 0
  br i1 %hopeless, label %end, label %groups
end:
  store i32 %live.next, ptr %live.at
  store i32 %turn, ptr %ready.at
  store i32 %barrier, ptr %barrier.at
  store i32 %grid, ptr %grid.at
  store i32 %waiting, ptr %waiting.at
  ret i32 %moved
}
"""
