# SPDX-License-Identifier: Apache-2.0
"""The short ways of an access that is watched for races, as LLVM text (see ``shadow_cells.py``).

Most accesses need neither clocks nor fences (``check.quick``): what is recorded is empty, one's own, or from before a
barrier; or all are reads of the present epoch, and no thread of the block has executed a ``syncwarp`` or a fence. Where
that is not sure, the long way decides.

Shared memory has its pages beside the block's state, found without the table and used without a lock. Of the others a
block remembers eight. A read of an element that nobody has written and that two other blocks have read needs no lock,
for nothing is recorded of it (``check.known``): the page's lock is odd while it is held, and another number afterwards.
"""

from __future__ import annotations

__all__ = ["PATHS"]

#: ``check.access`` takes what ``check.watch`` takes.
PATHS = """
define internal i1 @check.before(i64 %a, i64 %b, i64 %a.old, i64 %b.old, i1 %shared) alwaysinline {
  %none = icmp eq i64 %b.old, 0
  %differs = xor i64 %a, %a.old
  %less = sub i64 %differs, 1
  %passed = icmp ult i64 %less, 4294967295
  %outside = icmp ugt i64 %differs, 4294967295
  %ended = and i1 %outside, %shared
  %now = icmp eq i64 %differs, 0
  %b.differs = xor i64 %b, %b.old
  %thread.bits = and i64 %b.differs, 4092
  %own = icmp eq i64 %thread.bits, 0
  %mine = and i1 %now, %own
  %one = or i1 %none, %passed
  %two = or i1 %ended, %mine
  %before = or i1 %one, %two
  ret i1 %before
}

define internal i1 @check.quick(ptr %state, ptr %cell, i64 %a, i64 %b, i1 %store, i1 %shared) alwaysinline {
entry:
  %w.b.at = getelementptr inbounds i8, ptr %cell, i64 8
  %x.a.at = getelementptr inbounds i8, ptr %cell, i64 16
  %x.b.at = getelementptr inbounds i8, ptr %cell, i64 24
  %y.a.at = getelementptr inbounds i8, ptr %cell, i64 32
  %y.b.at = getelementptr inbounds i8, ptr %cell, i64 40
  %w.a = load i64, ptr %cell
  %w.b = load i64, ptr %w.b.at
  %w.before = call i1 @check.before(i64 %a, i64 %b, i64 %w.a, i64 %w.b, i1 %shared)
  br i1 %w.before, label %others, label %slow
others:
  %x.a = load i64, ptr %x.a.at
  %x.b = load i64, ptr %x.b.at
  %y.a = load i64, ptr %y.a.at
  %y.b = load i64, ptr %y.b.at
  %x.before = call i1 @check.before(i64 %a, i64 %b, i64 %x.a, i64 %x.b, i1 %shared)
  %y.before = call i1 @check.before(i64 %a, i64 %b, i64 %y.a, i64 %y.b, i1 %shared)
  br i1 %store, label %writes, label %reads
writes:
  %all.before = and i1 %x.before, %y.before
  br i1 %all.before, label %write, label %slow
write:
  store i64 %a, ptr %cell
  store i64 %b, ptr %w.b.at
  store i64 0, ptr %x.b.at
  store i64 0, ptr %y.b.at
  ret i1 true
reads:
  %x.differs = xor i64 %x.b, %b
  %y.differs = xor i64 %y.b, %b
  %x.bit = and i64 %x.differs, 2
  %y.bit = and i64 %y.differs, 2
  %x.like = icmp eq i64 %x.bit, 0
  %y.like = icmp eq i64 %y.bit, 0
  %x.fine = or i1 %x.before, %x.like
  %y.fine = or i1 %y.before, %y.like
  %fine = and i1 %x.fine, %y.fine
  br i1 %fine, label %place, label %slow
place:
  br i1 %x.before, label %to.x, label %open
to.x:
  store i64 %a, ptr %x.a.at
  store i64 %b, ptr %x.b.at
  ret i1 true
open:
  %x.now = icmp eq i64 %x.a, %a
  %joined.at = getelementptr inbounds i8, ptr %state, i64 $state_joined
  %joined = load i32, ptr %joined.at
  %never.joined = icmp eq i32 %joined, 0
  %xb = or i64 %x.b, %b
  %fence.bits = lshr i64 %xb, 48
  %unfenced = icmp eq i64 %fence.bits, 0
  %sure.1 = and i1 %x.now, %never.joined
  %sure = and i1 %sure.1, %unfenced
  br i1 %sure, label %second, label %slow
second:
  br i1 %y.before, label %to.y, label %full
full:
  %y.now = icmp eq i64 %y.a, %a
  %y.fence = lshr i64 %y.b, 48
  %y.unfenced = icmp eq i64 %y.fence, 0
  %y.sure = and i1 %y.now, %y.unfenced
  br i1 %y.sure, label %choose, label %slow
choose:
  %xy.bits = xor i64 %x.b, %y.b
  %xy.warp.bits = and i64 %xy.bits, 3968
  %xy.warp = icmp eq i64 %xy.warp.bits, 0
  br i1 %xy.warp, label %one.warp, label %done
one.warp:
  %xm.warp.bits = and i64 %x.differs, 3968
  %xm.warp = icmp eq i64 %xm.warp.bits, 0
  br i1 %xm.warp, label %newest, label %to.y
newest:
  store i64 %y.a, ptr %x.a.at
  store i64 %y.b, ptr %x.b.at
  br label %to.y
to.y:
  store i64 %a, ptr %y.a.at
  store i64 %b, ptr %y.b.at
  br label %done
done:
  ret i1 true
slow:
  ret i1 false
}

define internal i1 @check.known(ptr %state, ptr %page, i32 %thread, i64 %address, i32 %shift) alwaysinline {
entry:
  %check = load ptr, ptr %state
  %fences.at = getelementptr inbounds i8, ptr %check, i64 $check_fences
  %fences = load ptr, ptr %fences.at
  %unfenced = icmp eq ptr %fences, null
  %version = load atomic i32, ptr %page acquire, align 4
  %held = trunc i32 %version to i1
  %generation.at = getelementptr inbounds i8, ptr %check, i64 $check_generation
  %generation = load atomic i32, ptr %generation.at monotonic, align 4
  %page.generation.at = getelementptr inbounds i8, ptr %page, i64 $page_generation
  %page.generation = load atomic i32, ptr %page.generation.at monotonic, align 4
  %shift.at = getelementptr inbounds i8, ptr %page, i64 $page_shift
  %have = load atomic i32, ptr %shift.at monotonic, align 4
  %want = add i32 %shift, 1
  %free = xor i1 %held, true
  %sized = icmp eq i32 %have, %want
  %current = icmp eq i32 %generation, %page.generation
  %fit.1 = and i1 %free, %sized
  %fit.2 = and i1 %current, %unfenced
  %fit = and i1 %fit.1, %fit.2
  br i1 %fit, label %look, label %no
look:
  %cells.at = getelementptr inbounds i8, ptr %page, i64 $page_cells
  %cells = load atomic ptr, ptr %cells.at monotonic, align 8
  %in.page = and i64 %address, 4095
  %shift.64 = zext nneg i32 %shift to i64
  %cell.number = lshr i64 %in.page, %shift.64
  %cell.offset = mul nuw nsw i64 %cell.number, 48
  %cell = getelementptr inbounds i8, ptr %cells, i64 %cell.offset
  %w.b.at = getelementptr inbounds i8, ptr %cell, i64 8
  %x.a.at = getelementptr inbounds i8, ptr %cell, i64 16
  %x.b.at = getelementptr inbounds i8, ptr %cell, i64 24
  %y.a.at = getelementptr inbounds i8, ptr %cell, i64 32
  %y.b.at = getelementptr inbounds i8, ptr %cell, i64 40
  %w.b = load atomic i64, ptr %w.b.at monotonic, align 8
  %x.a = load atomic i64, ptr %x.a.at monotonic, align 8
  %x.b = load atomic i64, ptr %x.b.at monotonic, align 8
  %y.a = load atomic i64, ptr %y.a.at monotonic, align 8
  %y.b = load atomic i64, ptr %y.b.at monotonic, align 8
  fence acquire
  %version.after = load atomic i32, ptr %page monotonic, align 4
  %same = icmp eq i32 %version, %version.after
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number.64 = load i64, ptr %number.at
  %number = and i64 %number.64, 4294967295
  %unwritten = icmp eq i64 %w.b, 0
  %x.block = lshr i64 %x.a, 32
  %y.block = lshr i64 %y.a, 32
  %x.other = icmp ne i64 %x.block, %number
  %y.other = icmp ne i64 %y.block, %number
  %xy.other = icmp ne i64 %x.block, %y.block
  %both = and i64 %x.b, %y.b
  %valid = trunc i64 %both to i1
  %kinds = or i64 %x.b, %y.b
  %atomic = and i64 %kinds, 2
  %plain = icmp eq i64 %atomic, 0
  %ok.1 = and i1 %same, %unwritten
  %ok.2 = and i1 %x.other, %y.other
  %ok.3 = and i1 %xy.other, %valid
  %ok.4 = and i1 %ok.1, %ok.2
  %ok.5 = and i1 %ok.3, %plain
  %ok = and i1 %ok.4, %ok.5
  ret i1 %ok
no:
  ret i1 false
}

define void @check.access(ptr %block, i32 %thread, ptr %pointer, i32 %what, i32 %shift, i32 %site) {
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
  %asked = and i32 %what, 12
  %races = icmp eq i32 %asked, 4
  %wanted = and i1 %races, %shared
  br i1 %wanted, label %fast, label %slow
fast:
  %check = load ptr, ptr %state
  %fences.at = getelementptr inbounds i8, ptr %check, i64 $check_fences
  %fences = load ptr, ptr %fences.at
  %unfenced = icmp eq ptr %fences, null
  %generation.at = getelementptr inbounds i8, ptr %check, i64 $check_generation
  %generation = load atomic i32, ptr %generation.at monotonic, align 4
  %pages.at = getelementptr inbounds i8, ptr %state, i64 $state_pages
  %pages = load ptr, ptr %pages.at
  %page.index = lshr i64 %offset, 12
  %page.offset = shl nuw nsw i64 %page.index, 6
  %page = getelementptr inbounds i8, ptr %pages, i64 %page.offset
  %shift.at = getelementptr inbounds i8, ptr %page, i64 $page_shift
  %have = load i32, ptr %shift.at
  %page.generation.at = getelementptr inbounds i8, ptr %page, i64 $page_generation
  %page.generation = load i32, ptr %page.generation.at
  %want = add i32 %shift, 1
  %sized = icmp eq i32 %have, %want
  %current = icmp eq i32 %page.generation, %generation
  %fit = and i1 %sized, %current
  %ready = and i1 %fit, %unfenced
  br i1 %ready, label %look, label %slow
look:
  %own = call ptr @check.thread(ptr %state, i32 %thread)
  %number.at = getelementptr inbounds i8, ptr %state, i64 $state_number
  %number = load i64, ptr %number.at
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
  %b.clock = shl i64 %clock, 32
  %low.site = shl i32 %site, 12
  %low.thread = shl i32 %thread, 2
  %low.kind = and i32 %what, 2
  %low.1 = or i32 %low.site, %low.thread
  %low.2 = or i32 %low.1, %low.kind
  %low.3 = or i32 %low.2, 1
  %low = zext i32 %low.3 to i64
  %b = or i64 %b.clock, %low
  %in.page = and i64 %offset, 4095
  %shift.64 = zext nneg i32 %shift to i64
  %cell.number = lshr i64 %in.page, %shift.64
  %cell.offset = mul nuw nsw i64 %cell.number, 48
  %cells.at = getelementptr inbounds i8, ptr %page, i64 $page_cells
  %cells = load ptr, ptr %cells.at
  %cell = getelementptr inbounds i8, ptr %cells, i64 %cell.offset
  %store.bit = and i32 %what, 1
  %store = icmp ne i32 %store.bit, 0
  %quick = call i1 @check.quick(ptr %state, ptr %cell, i64 %a, i64 %b, i1 %store, i1 true)
  br i1 %quick, label %done, label %slow
slow:
  tail call void @check.watch(ptr %block, i32 %thread, ptr %pointer, i32 %what, i32 %shift, i32 %site)
  ret void
done:
  ret void
}
"""
