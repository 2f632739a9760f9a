# SPDX-License-Identifier: Apache-2.0
"""The memory of a checked launch, its faults, and what synchronisation means for its threads, as LLVM text."""

from __future__ import annotations

__all__ = ["MEMORY", "REPORT", "SYNC"]

#: Memory of one launch, kept in one list until Python frees it; the tables; a block's own state.
MEMORY = """
declare ptr @calloc(i64, i64)
declare void @free(ptr)
declare void @schedule.fail(ptr, i32, i64)

define internal ptr @check.allocate(ptr %check, i64 %size) noinline {
entry:
  %whole = add i64 %size, 64
  %chunk = call ptr @calloc(i64 %whole, i64 1)
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %failed, label %made
failed:
  ret ptr null
made:
  %list = getelementptr inbounds i8, ptr %check, i64 $check_chunks
  br label %push
push:
  %head = load atomic ptr, ptr %list monotonic, align 8
  store ptr %head, ptr %chunk
  %pair = cmpxchg ptr %list, ptr %head, ptr %chunk acq_rel monotonic
  %won = extractvalue { ptr, i1 } %pair, 1
  br i1 %won, label %done, label %push
done:
  %memory = getelementptr inbounds i8, ptr %chunk, i64 64
  ret ptr %memory
}

define void @check.free(ptr %check) {
entry:
  %list = getelementptr inbounds i8, ptr %check, i64 $check_chunks
  br label %look
look:
  %chunk = load ptr, ptr %list
  %none = icmp eq ptr %chunk, null
  br i1 %none, label %done, label %drop
drop:
  %next = load ptr, ptr %chunk
  store ptr %next, ptr %list
  call void @free(ptr %chunk)
  br label %look
done:
  ret void
}

define internal ptr @check.entry(ptr %check, ptr %slot, i64 %size) {
entry:
  %found = load atomic ptr, ptr %slot acquire, align 8
  %none = icmp eq ptr %found, null
  br i1 %none, label %make, label %have
have:
  ret ptr %found
make:
  %new = call ptr @check.allocate(ptr %check, i64 %size)
  %failed = icmp eq ptr %new, null
  br i1 %failed, label %nothing, label %publish
nothing:
  ret ptr null
publish:
  %pair = cmpxchg ptr %slot, ptr null, ptr %new acq_rel acquire
  %won = extractvalue { ptr, i1 } %pair, 1
  %other = extractvalue { ptr, i1 } %pair, 0
  %result = select i1 %won, ptr %new, ptr %other
  ret ptr %result
}

define internal ptr @check.page(ptr %check, i64 %number) {
entry:
  %root.at = getelementptr inbounds i8, ptr %check, i64 $check_table
  %root = call ptr @check.entry(ptr %check, ptr %root.at, i64 2097152)
  %root.none = icmp eq ptr %root, null
  br i1 %root.none, label %failed, label %region
region:
  %high = lshr i64 %number, 18
  %high.index = and i64 %high, 262143
  %region.at = getelementptr inbounds ptr, ptr %root, i64 %high.index
  %region.ptr = call ptr @check.entry(ptr %check, ptr %region.at, i64 2097152)
  %region.none = icmp eq ptr %region.ptr, null
  br i1 %region.none, label %failed, label %page
page:
  %low.index = and i64 %number, 262143
  %page.at = getelementptr inbounds ptr, ptr %region.ptr, i64 %low.index
  %page.ptr = call ptr @check.entry(ptr %check, ptr %page.at, i64 64)
  ret ptr %page.ptr
failed:
  ret ptr null
}

define i1 @check.enter(ptr %block, i32 %thread, i64 %static) {
entry:
  %first = icmp eq i32 %thread, 0
  br i1 %first, label %begin, label %ready
begin:
  %launch.at = getelementptr inbounds i8, ptr %block, i64 $block_launch
  %launch = load ptr, ptr %launch.at
  %check.at = getelementptr inbounds i8, ptr %launch, i64 $launch_check
  %check = load ptr, ptr %check.at
  %threads.at = getelementptr inbounds i8, ptr %block, i64 $block_threads
  %threads = load i64, ptr %threads.at
  %threads.more = add i64 %threads, 31
  %threads.up = and i64 %threads.more, -32
  %dynamic.at = getelementptr inbounds i8, ptr %block, i64 $block_dynamic
  %dynamic.32 = load i32, ptr %dynamic.at
  %dynamic = zext nneg i32 %dynamic.32 to i64
  %shared.size = add i64 %dynamic, %static
  %own = mul i64 %threads.up, $thread_size
  %size.head = add i64 %own, $state_size
  %shared.more = add i64 %shared.size, 4095
  %shared.pages = lshr i64 %shared.more, 12
  %pages.size = shl i64 %shared.pages, 6
  %size.told = add i64 %size.head, $told_size
  %size.pages = add i64 %size.told, %pages.size
  %size = add i64 %size.pages, %shared.size
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state.old = load ptr, ptr %state.at
  %new = icmp eq ptr %state.old, null
  br i1 %new, label %make, label %clear
make:
  %state.new = call ptr @check.allocate(ptr %check, i64 %size)
  %none = icmp eq ptr %state.new, null
  br i1 %none, label %failed, label %link
link:
  store ptr %state.new, ptr %state.at
  %list.at = getelementptr inbounds i8, ptr %check, i64 $check_states
  br label %push
push:
  %head = load atomic ptr, ptr %list.at monotonic, align 8
  %next.at = getelementptr inbounds i8, ptr %state.new, i64 $state_next
  store ptr %head, ptr %next.at
  %pair = cmpxchg ptr %list.at, ptr %head, ptr %state.new acq_rel monotonic
  %won = extractvalue { ptr, i1 } %pair, 1
  br i1 %won, label %fill, label %push
clear:
  %old.next.at = getelementptr inbounds i8, ptr %state.old, i64 $state_next
  %old.next = load ptr, ptr %old.next.at
  call void @llvm.memset.p0.i64(ptr %state.old, i8 0, i64 %size.head, i1 false)
  %old.written = getelementptr inbounds i8, ptr %state.old, i64 %size.pages
  call void @llvm.memset.p0.i64(ptr %old.written, i8 0, i64 %shared.size, i1 false)
  store ptr %old.next, ptr %old.next.at
  br label %fill
fill:
  %state = phi ptr [ %state.new, %push ], [ %state.old, %clear ]
  %check.to = getelementptr inbounds i8, ptr %state, i64 $state_check
  store ptr %check, ptr %check.to
  %number.at = getelementptr inbounds i8, ptr %block, i64 $block_number
  %number = load i64, ptr %number.at
  %number.to = getelementptr inbounds i8, ptr %state, i64 $state_number
  store i64 %number, ptr %number.to
  %shared.at = getelementptr inbounds i8, ptr %block, i64 $block_shared
  %shared = load ptr, ptr %shared.at
  %shared.to = getelementptr inbounds i8, ptr %state, i64 $state_shared
  store ptr %shared, ptr %shared.to
  %size.to = getelementptr inbounds i8, ptr %state, i64 $state_shared_size
  store i64 %shared.size, ptr %size.to
  %told = getelementptr inbounds i8, ptr %state, i64 %size.head
  %told.to = getelementptr inbounds i8, ptr %state, i64 $state_told
  store ptr %told, ptr %told.to
  %pages = getelementptr inbounds i8, ptr %state, i64 %size.told
  %pages.to = getelementptr inbounds i8, ptr %state, i64 $state_pages
  store ptr %pages, ptr %pages.to
  %written.ptr = getelementptr inbounds i8, ptr %state, i64 %size.pages
  %written.to = getelementptr inbounds i8, ptr %state, i64 $state_written
  store ptr %written.ptr, ptr %written.to
  br label %ready
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  ret i1 false
ready:
  ret i1 true
}

define internal ptr @check.thread(ptr %state, i32 %thread) alwaysinline {
  %number = zext nneg i32 %thread to i64
  %offset = mul nuw nsw i64 %number, $thread_size
  %start = getelementptr inbounds i8, ptr %state, i64 $state_size
  %own = getelementptr inbounds i8, ptr %start, i64 %offset
  ret ptr %own
}

define internal i64 @check.fences(ptr %check, i64 %number) alwaysinline {
entry:
  %table.at = getelementptr inbounds i8, ptr %check, i64 $check_fences
  %table = load ptr, ptr %table.at
  %none = icmp eq ptr %table, null
  br i1 %none, label %done, label %read
read:
  %count.at = getelementptr inbounds i16, ptr %table, i64 %number
  %count.16 = load atomic i16, ptr %count.at monotonic, align 2
  %count = zext i16 %count.16 to i64
  br label %done
done:
  %result = phi i64 [ 0, %entry ], [ %count, %read ]
  ret i64 %result
}
"""

#: Faults: the first of each kind and pair of sites is kept, later ones are counted.
REPORT = """
define internal void @check.report(
    ptr %check, i32 %kind, i32 %site, i32 %thread, i64 %number, i32 %site.2, i32 %thread.2, i64 %number.2
) cold noinline {
entry:
  %lock = getelementptr inbounds i8, ptr %check, i64 $check_lock
  br label %take
take:
  %pair = cmpxchg weak ptr %lock, i32 0, i32 1 acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %start, label %take
start:
  %count.at = getelementptr inbounds i8, ptr %check, i64 $check_count
  %count = load i32, ptr %count.at
  %faults = getelementptr inbounds i8, ptr %check, i64 $check_faults
  br label %look
look:
  %index = phi i32 [ 0, %start ], [ %index.next, %other ]
  %index.64 = zext nneg i32 %index to i64
  %offset = mul nuw nsw i64 %index.64, $fault_size
  %fault = getelementptr inbounds i8, ptr %faults, i64 %offset
  %site.at = getelementptr inbounds i8, ptr %fault, i64 4
  %site.2.at = getelementptr inbounds i8, ptr %fault, i64 8
  %times.at = getelementptr inbounds i8, ptr %fault, i64 12
  %end = icmp eq i32 %index, %count
  br i1 %end, label %enter, label %compare
compare:
  %kind.old = load i32, ptr %fault
  %site.old = load i32, ptr %site.at
  %site.2.old = load i32, ptr %site.2.at
  %kind.same = icmp eq i32 %kind.old, %kind
  %site.same = icmp eq i32 %site.old, %site
  %site.2.same = icmp eq i32 %site.2.old, %site.2
  %sites.same = and i1 %site.same, %site.2.same
  %same = and i1 %kind.same, %sites.same
  br i1 %same, label %again, label %other
again:
  %times = load i32, ptr %times.at
  %times.next = call i32 @llvm.uadd.sat.i32(i32 %times, i32 1)
  store i32 %times.next, ptr %times.at
  br label %leave
other:
  %index.next = add nuw nsw i32 %index, 1
  br label %look
enter:
  %full = icmp eq i32 %index, $fault_limit
  br i1 %full, label %leave, label %write
write:
  store i32 %kind, ptr %fault
  store i32 %site, ptr %site.at
  store i32 %site.2, ptr %site.2.at
  store i32 1, ptr %times.at
  %thread.at = getelementptr inbounds i8, ptr %fault, i64 16
  store i32 %thread, ptr %thread.at
  %thread.2.at = getelementptr inbounds i8, ptr %fault, i64 20
  store i32 %thread.2, ptr %thread.2.at
  %number.at = getelementptr inbounds i8, ptr %fault, i64 24
  store i64 %number, ptr %number.at
  %number.2.at = getelementptr inbounds i8, ptr %fault, i64 32
  store i64 %number.2, ptr %number.2.at
  %count.next = add nuw nsw i32 %count, 1
  store i32 %count.next, ptr %count.at
  br label %leave
leave:
  store atomic i32 0, ptr %lock release, align 4
  ret void
}
"""

#: Synchronisation. ``check.arrive``/``check.leave`` stand around a barrier, ``check.wait``/``check.joined`` around a
#: warp operation: the first lane that goes on joins the clocks of all lanes that waited with its mask.
SYNC = """
define void @check.arrive(ptr %block, i32 %thread, i32 %site, i1 %compare) {
entry:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %where.at = getelementptr inbounds i8, ptr %own, i64 $thread_where
  store i32 %site, ptr %where.at
  br i1 %compare, label %look, label %done
look:
  %epoch = load i32, ptr %own
  %turn = add i32 %epoch, 1
  %parity = and i32 %epoch, 1
  %parity.64 = zext nneg i32 %parity to i64
  %offset = shl nuw nsw i64 %parity.64, 4
  %turns = getelementptr inbounds i8, ptr %state, i64 $state_turns
  %entry.at = getelementptr inbounds i8, ptr %turns, i64 %offset
  %site.at = getelementptr inbounds i8, ptr %entry.at, i64 4
  %thread.at = getelementptr inbounds i8, ptr %entry.at, i64 8
  %turn.old = load i32, ptr %entry.at
  %known = icmp eq i32 %turn.old, %turn
  br i1 %known, label %compare.site, label %first
first:
  store i32 %turn, ptr %entry.at
  store i32 %site, ptr %site.at
  store i32 %thread, ptr %thread.at
  br label %done
compare.site:
  %site.old = load i32, ptr %site.at
  %same = icmp eq i32 %site.old, %site
  br i1 %same, label %done, label %bad
bad:
  %thread.old = load i32, ptr %thread.at
  %check = load ptr, ptr %state
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number = load i64, ptr %number.at
  call void @check.report(
    ptr %check, i32 $barrier, i32 %site, i32 %thread, i64 %number, i32 %site.old, i32 %thread.old, i64 %number)
  %launch.at = getelementptr inbounds i8, ptr %block, i64 $block_launch
  %launch = load ptr, ptr %launch.at
  %stop.at = getelementptr inbounds i8, ptr %launch, i64 $launch_stop
  store atomic i32 1, ptr %stop.at monotonic, align 4
  br label %done
done:
  ret void
}

define void @check.leave(ptr %block, i32 %thread, i1 %grid) {
entry:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %epoch = load i32, ptr %own
  %epoch.next = add i32 %epoch, 1
  store i32 %epoch.next, ptr %own
  br i1 %grid, label %all, label %done
all:
  %grids.at = getelementptr inbounds i8, ptr %own, i64 $thread_grids
  %grids = load i32, ptr %grids.at
  %grids.next = add i32 %grids, 1
  store i32 %grids.next, ptr %grids.at
  %check = load ptr, ptr %state
  %generation.at = getelementptr inbounds i8, ptr %check, i64 $check_generation
  %old = atomicrmw umax ptr %generation.at, i32 %grids.next monotonic
  br label %done
done:
  ret void
}

define void @check.wait(ptr %block, i32 %thread, i32 %site, i32 %mask) {
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %where.at = getelementptr inbounds i8, ptr %own, i64 $thread_where
  store i32 %site, ptr %where.at
  %mask.at = getelementptr inbounds i8, ptr %own, i64 $thread_mask
  store i32 %mask, ptr %mask.at
  ret void
}

define void @check.joined(ptr %block, i32 %thread) {
entry:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %mask.at = getelementptr inbounds i8, ptr %own, i64 $thread_mask
  %mask = load i32, ptr %mask.at
  %done.already = icmp eq i32 %mask, 0
  br i1 %done.already, label %done, label %start
start:
  %joined.at = getelementptr inbounds i8, ptr %state, i64 $state_joined
  store i32 1, ptr %joined.at
  %first = and i32 %thread, -32
  br label %gather
gather:
  %lane = phi i32 [ 0, %start ], [ %lane.next, %gather.next ]
  %joint = phi <32 x i16> [ zeroinitializer, %start ], [ %joint.next, %gather.next ]
  %any = phi i1 [ false, %start ], [ %any.next, %gather.next ]
  %number = or i32 %first, %lane
  %other = call ptr @check.thread(ptr %state, i32 %number)
  %other.mask.at = getelementptr inbounds i8, ptr %other, i64 $thread_mask
  %other.mask = load i32, ptr %other.mask.at
  %member = icmp eq i32 %other.mask, %mask
  br i1 %member, label %take, label %gather.next
take:
  %clocks = getelementptr inbounds i8, ptr %other, i64 $thread_clocks
  %lane.64 = zext nneg i32 %lane to i64
  %clock.at = getelementptr inbounds i16, ptr %clocks, i64 %lane.64
  %clock = load i16, ptr %clock.at
  %clock.next = add i16 %clock, 1
  store i16 %clock.next, ptr %clock.at
  %vector = load <32 x i16>, ptr %clocks, align 2
  %gain = sub <32 x i16> %vector, %joint
  %newer = icmp sgt <32 x i16> %gain, zeroinitializer
  %larger = select <32 x i1> %newer, <32 x i16> %vector, <32 x i16> %joint
  %taken = select i1 %any, <32 x i16> %larger, <32 x i16> %vector
  br label %gather.next
gather.next:
  %joint.next = phi <32 x i16> [ %joint, %gather ], [ %taken, %take ]
  %any.next = phi i1 [ %any, %gather ], [ true, %take ]
  %lane.next = add nuw nsw i32 %lane, 1
  %gathered = icmp eq i32 %lane.next, 32
  br i1 %gathered, label %spread, label %gather
spread:
  %to = phi i32 [ 0, %gather.next ], [ %to.next, %spread.next ]
  %to.number = or i32 %first, %to
  %to.thread = call ptr @check.thread(ptr %state, i32 %to.number)
  %to.mask.at = getelementptr inbounds i8, ptr %to.thread, i64 $thread_mask
  %to.mask = load i32, ptr %to.mask.at
  %to.member = icmp eq i32 %to.mask, %mask
  br i1 %to.member, label %give, label %spread.next
give:
  %to.clocks = getelementptr inbounds i8, ptr %to.thread, i64 $thread_clocks
  store <32 x i16> %joint.next, ptr %to.clocks, align 2
  store i32 0, ptr %to.mask.at
  br label %spread.next
spread.next:
  %to.next = add nuw nsw i32 %to, 1
  %spread.done = icmp eq i32 %to.next, 32
  br i1 %spread.done, label %done, label %spread
done:
  ret void
}

define void @check.fence(ptr %block) {
entry:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %check = load ptr, ptr %state
  %table.at = getelementptr inbounds i8, ptr %check, i64 $check_fences
  %blocks.at = getelementptr inbounds i8, ptr %check, i64 $check_blocks
  %blocks = load i64, ptr %blocks.at
  %size = shl i64 %blocks, 1
  %table = call ptr @check.entry(ptr %check, ptr %table.at, i64 %size)
  %none = icmp eq ptr %table, null
  br i1 %none, label %failed, label %count
count:
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number = load i64, ptr %number.at
  %count.at = getelementptr inbounds i16, ptr %table, i64 %number
  %old = atomicrmw add ptr %count.at, i16 1 monotonic
  ret void
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  ret void
}
"""
