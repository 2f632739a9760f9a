# SPDX-License-Identifier: Apache-2.0
"""Races and reads of unwritten memory, as LLVM text (see ``shadow.py``).

Memory is watched by *cells*, which a two-level table finds by address: 2¹⁸ regions of 2¹⁸ pages of 4 KiB. The cells of
a page are as large as the elements accessed there; a smaller access splits them, down to bytes. A cell holds three
records: the last plain write, and two of the reads or atomic operations since. A record is two words::

    block << 32 | barriers the thread has passed
    fences of the block << 48 | warp clock << 32 | site << 12 | thread << 2 | atomic << 1 | 1

A recorded access comes *before* the present one if both are of one thread; of one block and the present thread has
passed a barrier since; of one warp and a ``syncwarp`` (or a chain of them) lies between: each lane knows the clock of
every other, a vector of 32; or if the recorded block has executed a fence since, which is how locks and flags order
accesses. Whatever does not come before is concurrent, and a conflict unless both only read or both are atomic. A record
that comes before the present access may be forgotten: what conflicts with it later conflicts with the present one too.
Most accesses need less (``shadow_paths.py``).
A grid sync starts a new generation: pages of an older one are empty.
"""

from __future__ import annotations

__all__ = ["CELLS"]

#: ``check.watch``: ``%what`` is 0 for a load, 1 for a store, 2 for an atomic operation; plus 4 to look for races, plus
#: 8 to look for reads of unwritten shared memory. ``%shift``: log2 of the size in bytes.
CELLS = """
define internal i1 @check.concurrent(ptr %state, i64 %a, i64 %b, i64 %a.old, i64 %b.old, i1 %shared) {
entry:
  %valid = trunc i64 %b.old to i1
  br i1 %valid, label %known, label %no
known:
  %a.differs = xor i64 %a, %a.old
  %number.old = lshr i64 %a.old, 32
  %block.same = icmp ult i64 %a.differs, 4294967296
  br i1 %block.same, label %inside, label %outside
inside:
  %epoch.same = icmp eq i64 %a.differs, 0
  %b.differs = xor i64 %b, %b.old
  %thread.bits = and i64 %b.differs, 4092
  %thread.other = icmp ne i64 %thread.bits, 0
  %possible = and i1 %epoch.same, %thread.other
  br i1 %possible, label %warps, label %no
warps:
  %warp.bits = and i64 %b.differs, 3968
  %warp.same = icmp eq i64 %warp.bits, 0
  br i1 %warp.same, label %lanes, label %fences
lanes:
  %thread.up = lshr i64 %b, 2
  %thread.32 = trunc i64 %thread.up to i32
  %thread = and i32 %thread.32, 1023
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %clocks = getelementptr inbounds i8, ptr %own, i64 $thread_clocks
  %lane.up = lshr i64 %b.old, 2
  %lane = and i64 %lane.up, 31
  %clock.at = getelementptr inbounds i16, ptr %clocks, i64 %lane
  %clock = load i16, ptr %clock.at
  %clock.up = lshr i64 %b.old, 32
  %clock.old = trunc i64 %clock.up to i16
  %gain = sub i16 %clock, %clock.old
  %joined = icmp sgt i16 %gain, 0
  br i1 %joined, label %no, label %fences
outside:
  br i1 %shared, label %no, label %fences
fences:
  %check = load ptr, ptr %state
  %fence.now = call i64 @check.fences(ptr %check, i64 %number.old)
  %fence.old = lshr i64 %b.old, 48
  %fenced = icmp ne i64 %fence.now, %fence.old
  br i1 %fenced, label %no, label %yes
yes:
  ret i1 true
no:
  ret i1 false
}

define internal void @check.conflict(ptr %state, i64 %a, i64 %b, i64 %a.old, i64 %b.old) cold noinline {
entry:
  %site.up = lshr i64 %b, 12
  %site.32 = trunc i64 %site.up to i32
  %site = and i32 %site.32, 1048575
  %site.2.up = lshr i64 %b.old, 12
  %site.2.32 = trunc i64 %site.2.up to i32
  %site.2 = and i32 %site.2.32, 1048575
  %site.64 = zext nneg i32 %site to i64
  %site.2.64 = zext nneg i32 %site.2 to i64
  %key.high = shl i64 %site.64, 32
  %key = or i64 %key.high, %site.2.64
  %mixed = mul i32 %site, 5
  %place = add i32 %mixed, %site.2
  %slot = and i32 %place, $told_mask
  %slot.64 = zext nneg i32 %slot to i64
  %slot.offset = shl nuw nsw i64 %slot.64, 4
  %told.at = getelementptr inbounds i8, ptr %state, i64 $state_told
  %told = load ptr, ptr %told.at
  %entry.at = getelementptr inbounds i8, ptr %told, i64 %slot.offset
  %times.at = getelementptr inbounds i8, ptr %entry.at, i64 8
  %known = load i64, ptr %entry.at
  %again = icmp eq i64 %known, %key
  br i1 %again, label %count, label %first
count:
  %times = load i64, ptr %times.at
  %times.next = add i64 %times, 1
  store i64 %times.next, ptr %times.at
  ret void
first:
  %empty = icmp eq i64 %known, 0
  br i1 %empty, label %keep, label %tell
keep:
  store i64 %key, ptr %entry.at
  br label %tell
tell:
  %check = load ptr, ptr %state
  %thread.up = lshr i64 %b, 2
  %thread.32 = trunc i64 %thread.up to i32
  %thread = and i32 %thread.32, 1023
  %number = lshr i64 %a, 32
  %thread.2.up = lshr i64 %b.old, 2
  %thread.2.32 = trunc i64 %thread.2.up to i32
  %thread.2 = and i32 %thread.2.32, 1023
  %number.2 = lshr i64 %a.old, 32
  call void @check.report(
    ptr %check, i32 $race, i32 %site, i32 %thread, i64 %number, i32 %site.2, i32 %thread.2, i64 %number.2)
  ret void
}

define internal void @check.cell(ptr %state, ptr %cell, i64 %a, i64 %b, i1 %store, i1 %shared) noinline {
entry:
  %w.b.at = getelementptr inbounds i8, ptr %cell, i64 8
  %x.a.at = getelementptr inbounds i8, ptr %cell, i64 16
  %x.b.at = getelementptr inbounds i8, ptr %cell, i64 24
  %y.a.at = getelementptr inbounds i8, ptr %cell, i64 32
  %y.b.at = getelementptr inbounds i8, ptr %cell, i64 40
  %w.a = load i64, ptr %cell
  %w.b = load i64, ptr %w.b.at
  %x.a = load i64, ptr %x.a.at
  %x.b = load i64, ptr %x.b.at
  %y.a = load i64, ptr %y.a.at
  %y.b = load i64, ptr %y.b.at
  %w.open = call i1 @check.concurrent(ptr %state, i64 %a, i64 %b, i64 %w.a, i64 %w.b, i1 %shared)
  %x.open = call i1 @check.concurrent(ptr %state, i64 %a, i64 %b, i64 %x.a, i64 %x.b, i1 %shared)
  %y.open = call i1 @check.concurrent(ptr %state, i64 %a, i64 %b, i64 %y.a, i64 %y.b, i1 %shared)
  br i1 %w.open, label %w.bad, label %w.good
w.bad:
  call void @check.conflict(ptr %state, i64 %a, i64 %b, i64 %w.a, i64 %w.b)
  br label %w.good
w.good:
  %x.differs = xor i64 %x.b, %b
  %x.kind.bit = and i64 %x.differs, 2
  %x.kind = icmp ne i64 %x.kind.bit, 0
  %x.clash = or i1 %x.kind, %store
  %x.race = and i1 %x.clash, %x.open
  br i1 %x.race, label %x.bad, label %x.good
x.bad:
  call void @check.conflict(ptr %state, i64 %a, i64 %b, i64 %x.a, i64 %x.b)
  br label %x.good
x.good:
  %y.differs = xor i64 %y.b, %b
  %y.kind.bit = and i64 %y.differs, 2
  %y.kind = icmp ne i64 %y.kind.bit, 0
  %y.clash = or i1 %y.kind, %store
  %y.race = and i1 %y.clash, %y.open
  br i1 %y.race, label %y.bad, label %y.good
y.bad:
  call void @check.conflict(ptr %state, i64 %a, i64 %b, i64 %y.a, i64 %y.b)
  br label %y.good
y.good:
  br i1 %store, label %write, label %choose
write:
  store i64 %a, ptr %cell
  store i64 %b, ptr %w.b.at
  store i64 0, ptr %x.b.at
  store i64 0, ptr %y.b.at
  ret void
choose:
  br i1 %x.open, label %second, label %to.x
to.x:
  store i64 %a, ptr %x.a.at
  store i64 %b, ptr %x.b.at
  ret void
second:
  br i1 %y.open, label %full, label %to.y
to.y:
  store i64 %a, ptr %y.a.at
  store i64 %b, ptr %y.b.at
  ret void
full:
  %xy = xor i64 %x.a, %y.a
  %xy.block = icmp ult i64 %xy, 4294967296
  %xm = xor i64 %x.a, %a
  %xm.block = icmp ult i64 %xm, 4294967296
  br i1 %xy.block, label %one.block, label %end
one.block:
  br i1 %xm.block, label %same.block, label %to.y
same.block:
  %xy.bits = xor i64 %x.b, %y.b
  %xy.warp.bits = and i64 %xy.bits, 3968
  %xy.warp = icmp eq i64 %xy.warp.bits, 0
  %xm.warp.bits = and i64 %x.differs, 3968
  %xm.warp = icmp eq i64 %xm.warp.bits, 0
  br i1 %xy.warp, label %one.warp, label %end
one.warp:
  br i1 %xm.warp, label %newest, label %to.y
newest:
  store i64 %y.a, ptr %x.a.at
  store i64 %y.b, ptr %x.b.at
  br label %to.y
end:
  ret void
}

define internal i1 @check.split(ptr %check, ptr %page, i32 %shift) cold noinline {
entry:
  %shift.at = getelementptr inbounds i8, ptr %page, i64 $page_shift
  %have = load i32, ptr %shift.at
  %bytes = lshr i32 196608, %shift
  %size = zext nneg i32 %bytes to i64
  %cells = call ptr @check.allocate(ptr %check, i64 %size)
  %none = icmp eq ptr %cells, null
  br i1 %none, label %failed, label %made
failed:
  ret i1 false
made:
  %cells.at = getelementptr inbounds i8, ptr %page, i64 $page_cells
  %old = load ptr, ptr %cells.at
  %fresh = icmp eq ptr %old, null
  br i1 %fresh, label %done, label %copy.start
copy.start:
  %have.shift = sub i32 %have, 1
  %steps = sub i32 %have.shift, %shift
  %count = lshr i32 4096, %shift
  br label %copy
copy:
  %index = phi i32 [ 0, %copy.start ], [ %index.next, %copy ]
  %from = lshr i32 %index, %steps
  %from.64 = zext nneg i32 %from to i64
  %from.offset = mul nuw nsw i64 %from.64, 48
  %from.at = getelementptr inbounds i8, ptr %old, i64 %from.offset
  %to.64 = zext nneg i32 %index to i64
  %to.offset = mul nuw nsw i64 %to.64, 48
  %to.at = getelementptr inbounds i8, ptr %cells, i64 %to.offset
  call void @llvm.memcpy.p0.p0.i64(ptr align 8 %to.at, ptr align 8 %from.at, i64 48, i1 false)
  %index.next = add nuw nsw i32 %index, 1
  %last = icmp eq i32 %index.next, %count
  br i1 %last, label %done, label %copy
done:
  store ptr %cells, ptr %cells.at
  %shift.new = add i32 %shift, 1
  store i32 %shift.new, ptr %shift.at
  ret i1 true
}

define internal void @check.race(
    ptr %block, ptr %state, ptr %page, i32 %thread, i64 %address, i32 %kind, i32 %shift, i32 %site, i1 %shared
) alwaysinline {
entry:
  %check = load ptr, ptr %state
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number = load i64, ptr %number.at
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %epoch.32 = load i32, ptr %own
  %epoch = zext i32 %epoch.32 to i64
  %a.high = shl i64 %number, 32
  %a = or i64 %a.high, %epoch
  %clocks = getelementptr inbounds i8, ptr %own, i64 $thread_clocks
  %lane.32 = and i32 %thread, 31
  %lane = zext nneg i32 %lane.32 to i64
  %clock.at = getelementptr inbounds i16, ptr %clocks, i64 %lane
  %clock.16 = load i16, ptr %clock.at
  %clock = zext i16 %clock.16 to i64
  %fence = call i64 @check.fences(ptr %check, i64 %number)
  %b.fence = shl i64 %fence, 48
  %b.clock = shl i64 %clock, 32
  %site.64 = zext nneg i32 %site to i64
  %b.site = shl i64 %site.64, 12
  %thread.64 = zext nneg i32 %thread to i64
  %b.thread = shl i64 %thread.64, 2
  %kind.64 = zext nneg i32 %kind to i64
  %b.kind = and i64 %kind.64, 2
  %b.1 = or i64 %b.fence, %b.clock
  %b.2 = or i64 %b.1, %b.site
  %b.3 = or i64 %b.2, %b.thread
  %b.4 = or i64 %b.3, %b.kind
  %b = or i64 %b.4, 1
  %store = icmp eq i32 %kind, 1
  br i1 %shared, label %locked, label %lock
lock:
  %version = load atomic i32, ptr %page monotonic, align 4
  %free.now = and i32 %version, -2
  %held = or i32 %version, 1
  %pair = cmpxchg weak ptr %page, i32 %free.now, i32 %held acquire monotonic
  %taken = extractvalue { i32, i1 } %pair, 1
  br i1 %taken, label %ours, label %lock
ours:
  fence release
  %next.version = add i32 %held, 1
  br label %locked
locked:
  %released = phi i32 [ 0, %entry ], [ %next.version, %ours ]
  %shift.at = getelementptr inbounds i8, ptr %page, i64 $page_shift
  %cells.at = getelementptr inbounds i8, ptr %page, i64 $page_cells
  %generation.at = getelementptr inbounds i8, ptr %page, i64 $page_generation
  %have.old = load i32, ptr %shift.at
  %want = add i32 %shift, 1
  %coarse = icmp ugt i32 %have.old, %want
  %missing = icmp eq i32 %have.old, 0
  %resize = or i1 %coarse, %missing
  br i1 %resize, label %split, label %sized
split:
  %done.split = call i1 @check.split(ptr %check, ptr %page, i32 %shift)
  br i1 %done.split, label %sized, label %failed.locked
sized:
  %have = load i32, ptr %shift.at
  %cells = load ptr, ptr %cells.at
  %cell.shift = sub i32 %have, 1
  %check.generation.at = getelementptr inbounds i8, ptr %check, i64 $check_generation
  %generation = load atomic i32, ptr %check.generation.at monotonic, align 4
  %page.generation = load i32, ptr %generation.at
  %current = icmp eq i32 %generation, %page.generation
  br i1 %current, label %ready, label %renew
renew:
  %bytes = lshr i32 196608, %cell.shift
  %size = zext nneg i32 %bytes to i64
  call void @llvm.memset.p0.i64(ptr align 8 %cells, i8 0, i64 %size, i1 false)
  store i32 %generation, ptr %generation.at
  br label %ready
ready:
  %offset.64 = and i64 %address, 4095
  %offset = trunc i64 %offset.64 to i32
  %first = lshr i32 %offset, %cell.shift
  %steps = sub i32 %shift, %cell.shift
  %count = shl nuw i32 1, %steps
  br label %cell
cell:
  %index = phi i32 [ 0, %ready ], [ %index.next, %celled ]
  %cell.number = add nuw nsw i32 %first, %index
  %cell.64 = zext nneg i32 %cell.number to i64
  %cell.offset = mul nuw nsw i64 %cell.64, 48
  %cell.at = getelementptr inbounds i8, ptr %cells, i64 %cell.offset
  %quick = call i1 @check.quick(ptr %state, ptr %cell.at, i64 %a, i64 %b, i1 %store, i1 %shared)
  br i1 %quick, label %celled, label %slow
slow:
  call void @check.cell(ptr %state, ptr %cell.at, i64 %a, i64 %b, i1 %store, i1 %shared)
  br label %celled
celled:
  %index.next = add nuw nsw i32 %index, 1
  %last = icmp eq i32 %index.next, %count
  br i1 %last, label %unlock, label %cell
unlock:
  br i1 %shared, label %done, label %free
free:
  store atomic i32 %released, ptr %page release, align 4
  br label %done
done:
  ret void
failed.locked:
  store atomic i32 %released, ptr %page release, align 4
  br label %failed
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  ret void
}

define void @check.watch(ptr %block, i32 %thread, ptr %pointer, i32 %what, i32 %shift, i32 %site) noinline {
entry:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %address = ptrtoint ptr %pointer to i64
  %shared.at = getelementptr inbounds i8, ptr %state, i64 $state_shared
  %shared.base = load i64, ptr %shared.at
  %shared.size.at = getelementptr inbounds i8, ptr %state, i64 $state_shared_size
  %shared.size = load i64, ptr %shared.size.at
  %offset = sub i64 %address, %shared.base
  %shared = icmp ult i64 %offset, %shared.size
  %kind = and i32 %what, 3
  %races.bit = and i32 %what, 4
  %races = icmp ne i32 %races.bit, 0
  br i1 %races, label %race, label %raced
race:
  br i1 %shared, label %race.shared, label %race.global
race.shared:
  %pages.at = getelementptr inbounds i8, ptr %state, i64 $state_pages
  %pages = load ptr, ptr %pages.at
  %page.index = lshr i64 %offset, 12
  %page.offset = shl nuw nsw i64 %page.index, 6
  %page.shared = getelementptr inbounds i8, ptr %pages, i64 %page.offset
  call void @check.race(
    ptr %block, ptr %state, ptr %page.shared, i32 %thread, i64 %offset, i32 %kind, i32 %shift, i32 %site, i1 true)
  br label %raced
race.global:
  %page.number = lshr i64 %address, 12
  %slot = and i64 %page.number, 7
  %slot.offset = shl nuw nsw i64 %slot, 4
  %recent = getelementptr inbounds i8, ptr %state, i64 $state_recent
  %recent.at = getelementptr inbounds i8, ptr %recent, i64 %slot.offset
  %recent.page.at = getelementptr inbounds i8, ptr %recent.at, i64 8
  %recent.number = load i64, ptr %recent.at
  %hit = icmp eq i64 %recent.number, %page.number
  br i1 %hit, label %page.known, label %page.look
page.known:
  %page.recent = load ptr, ptr %recent.page.at
  br label %page.found
page.look:
  %check = load ptr, ptr %state
  %page.new = call ptr @check.page(ptr %check, i64 %page.number)
  %page.none = icmp eq ptr %page.new, null
  br i1 %page.none, label %failed, label %page.keep
page.keep:
  store i64 %page.number, ptr %recent.at
  store ptr %page.new, ptr %recent.page.at
  br label %page.found
page.found:
  %page = phi ptr [ %page.recent, %page.known ], [ %page.new, %page.keep ]
  %load = icmp eq i32 %kind, 0
  br i1 %load, label %peek, label %race.locked
peek:
  %known = call i1 @check.known(ptr %state, ptr %page, i32 %thread, i64 %address, i32 %shift)
  br i1 %known, label %raced, label %race.locked
race.locked:
  call void @check.race(
    ptr %block, ptr %state, ptr %page, i32 %thread, i64 %address, i32 %kind, i32 %shift, i32 %site, i1 false)
  br label %raced
failed:
  call void @schedule.fail(ptr %block, i32 $no_memory, i64 0)
  br label %raced
raced:
  %uninit.bit = and i32 %what, 8
  %uninit = icmp ne i32 %uninit.bit, 0
  %look = and i1 %uninit, %shared
  br i1 %look, label %written, label %done
written:
  %written.at = getelementptr inbounds i8, ptr %state, i64 $state_written
  %written.base = load ptr, ptr %written.at
  %flags = getelementptr inbounds i8, ptr %written.base, i64 %offset
  call void @check.local(ptr %block, i32 %thread, ptr %flags, i32 %kind, i32 %shift, i32 %site)
  br label %done
done:
  ret void
}

define void @check.local(ptr %block, i32 %thread, ptr %flags, i32 %kind, i32 %shift, i32 %site) {
entry:
  %count = shl nuw i32 1, %shift
  %store = icmp eq i32 %kind, 1
  br i1 %store, label %mark, label %look
look:
  %index = phi i32 [ 0, %entry ], [ %index.next, %look.next ]
  %index.64 = zext nneg i32 %index to i64
  %flag.at = getelementptr inbounds i8, ptr %flags, i64 %index.64
  %flag = load i8, ptr %flag.at
  %unwritten = icmp eq i8 %flag, 0
  br i1 %unwritten, label %bad, label %look.next
look.next:
  %index.next = add nuw nsw i32 %index, 1
  %last = icmp eq i32 %index.next, %count
  br i1 %last, label %looked, label %look
bad:
  %state.at = getelementptr inbounds i8, ptr %block, i64 $block_check
  %state = load ptr, ptr %state.at
  %check = load ptr, ptr %state
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number = load i64, ptr %number.at
  call void @check.report(
    ptr %check, i32 $uninit, i32 %site, i32 %thread, i64 %number, i32 0, i32 0, i64 0)
  br label %looked
looked:
  %load = icmp eq i32 %kind, 0
  br i1 %load, label %done, label %mark
mark:
  %size = zext nneg i32 %count to i64
  call void @llvm.memset.p0.i64(ptr %flags, i8 1, i64 %size, i1 false)
  br label %done
done:
  ret void
}
"""
