# SPDX-License-Identifier: Apache-2.0
"""The parts of a schedule, as LLVM text with ``$name`` for what varies (see ``schedule.py``).

These parts are compiled with each kernel and call ``library.py``. ``$launch_x`` and ``$block_x`` are field offsets of
``abi.py``.
"""

from __future__ import annotations

__all__ = [
    "BLOCK",
    "COROUTINE",
    "DECLARATIONS",
    "EITHER",
    "ENTRY",
    "GUARDED_ROW",
    "JOINED_ROW_X",
    "LOOK",
    "NEXT",
    "NEXT_ROW",
    "ROUNDS",
    "ROW",
    "ROW_X",
    "START",
    "THREADS",
    "TURNS",
]

#: Functions of the library that every kernel uses.
DECLARATIONS = """
declare i1 @schedule.open(ptr, ptr, i32, i1, i64) nounwind
declare i1 @schedule.next(ptr, ptr) nounwind
declare i32 @schedule.take(ptr, ptr) nounwind
declare void @schedule.close(ptr) nounwind
"""

#: What a worker calls.
ENTRY = """
define void @$symbol(ptr %launch, i32 %core) {
entry:
  %block = alloca [$block_size x i8], align 64
$arguments$trust  %opened = call i1 @schedule.open(ptr %launch, ptr %block, i32 %core, i1 $memory, i64 $static)
  br i1 %opened, label %next, label %end
next:
$next
  br i1 %more, label %run, label %close
run:
$uniform$row_x$threads
z.end:
$resume  br label %next
close:
  call void @schedule.close(ptr %block)
  br label %end
end:
  ret void
}
"""

#: How a worker comes to its next block, or to several that run as one.
NEXT = "  %more = call i1 @schedule.next(ptr %launch, ptr %block)"
NEXT_ROW = """  %wide = call range(i32 0, $row_threads_end) i32 @schedule.take(ptr %launch, ptr %block)
  %more = icmp ne i32 %wide, 0"""

#: The threads of a row.
ROW_X = "  %row.x = add nuw nsw i32 %ntid.x, 0\n"
JOINED_ROW_X = "  %row.x = mul nuw nsw i32 %ntid.x, %wide\n"

#: The same where blocks take turns: the library calls back to make the threads of a block.
TURNS = """
define internal i1 @$symbol.start(ptr %block) {
run:
  %launch.at = getelementptr inbounds i8, ptr %block, i64 $block_launch
  %launch = load ptr, ptr %launch.at
$trust$uniform$row_x$threads
z.end:
  ret i1 true
close:
  ret i1 false
}

define void @$symbol(ptr %launch, i32 %core) {
entry:
  call void @schedule.turns(ptr %launch, ptr @$symbol.start, i64 $static)
  ret void
}
"""

#: The loop nest as a function, and its two uses, where a launch can be trusted to make some checks needless.
BLOCK = """
define internal void @$symbol.block($parameters) nounwind alwaysinline {
run:
$threads
z.end:
  ret void
}
"""
EITHER = """  br i1 %trusted, label %run.trusting, label %run.checking
run.trusting:
  call void @$symbol.block($trusting)
  br label %z.end
run.checking:
  call void @$symbol.block($checking)
  br label %z.end"""

#: The loop nest over the threads of a block; it ends at the label ``z.end``.
THREADS = """  br label %z
z:
  %tid.z = phi i32 [ 0, %run ], [ %z.next, %y.end ]
  %row.z = mul nuw nsw i32 %tid.z, %ntid.y
  br label %y
y:
  %tid.y = phi i32 [ 0, %z ], [ %y.next, %$row_end ]
  %row = add nuw nsw i32 %row.z, %tid.y
  %row.thread = mul nuw nsw i32 %row, %row.x
$row
x.done:
$look  %y.next = add nuw nsw i32 %tid.y, 1
  %y.last = icmp eq i32 %y.next, %ntid.y
  br i1 %y.last, label %y.end, label %y
y.end:
  %z.next = add nuw nsw i32 %tid.z, 1
  %z.last = icmp eq i32 %z.next, %ntid.z
  br i1 %z.last, label %z.end, label %z"""

#: The flag is read after each row: rows of blocks that run as one are long.
LOOK = """  %row.stop = load atomic i32, ptr %stop monotonic, align 4
  %row.go = icmp eq i32 %row.stop, 0
  br i1 %row.go, label %row.end, label %z.end
row.end:
"""

#: The loop over x of every thread of a row.
ROW = """  br label %x
x:
  %tid.x = phi i32 [ 0, %y ], [ %x.next, %x.end ]
  %thread = add nuw nsw i32 %row.thread, %tid.x
$start
x.end:
  %x.next = add nuw nsw i32 %tid.x, 1
  %x.last = icmp eq i32 %x.next, %row.x
  br i1 %x.last, label %x.done, label %x"""

#: The loop over x where the kernel begins with a guard: from the first thread that passes it to the last. LLVM would
#: vectorise the search too, for the one step that it takes in most rows.
GUARDED_ROW = """  br label %low
low:
  %low.x = phi i32 [ 0, %y ], [ %low.next, %low.step ]
  %low.in = icmp ult i32 %low.x, %row.x
  br i1 %low.in, label %low.test, label %x.done
low.test:
  %low.thread = add nuw nsw i32 %row.thread, %low.x
  %low.guard = call i1 @$guard($low)
  br i1 %low.guard, label %low.found, label %low.step
low.step:
  %low.next = add nuw nsw i32 %low.x, 1
  br label %low, !llvm.loop $search
low.found:
  %high.start = sub nuw nsw i32 %row.x, 1
  br label %high
high:
  %high.x = phi i32 [ %high.start, %low.found ], [ %high.next, %high.step ]
  %high.thread = add nuw nsw i32 %row.thread, %high.x
  %high.guard = call i1 @$guard($high)
  br i1 %high.guard, label %high.found, label %high.step
high.step:
  %high.next = sub nuw nsw i32 %high.x, 1
  br label %high, !llvm.loop $search
high.found:
  %order = icmp ule i32 %low.x, %high.x
  call void @llvm.assume(i1 %order)
  %all.end = add nuw nsw i32 %high.x, 1
  br label %all
all:
  %tid.x = phi i32 [ %low.x, %high.found ], [ %all.next, %all ]
  %thread = add nuw nsw i32 %row.thread, %tid.x
  %all.guard = call i1 @$guard($all)
  call void @llvm.assume(i1 %all.guard)
  call void @$body($run)
  %all.next = add nuw nsw i32 %tid.x, 1
  %all.last = icmp eq i32 %all.next, %all.end
  br i1 %all.last, label %x.done, label %all"""

#: Makes one thread's coroutine; a null handle says that there was no memory for its frame.
START = """  %handle = call ptr @$body($operands)
  %handle.number = zext nneg i32 %thread to i64
  %handles.at = getelementptr inbounds i8, ptr %block, i64 $$block_handles
  %handles = load ptr, ptr %handles.at
  %handle.to = getelementptr inbounds ptr, ptr %handles, i64 %handle.number
  store ptr %handle, ptr %handle.to
  %missing = icmp eq ptr %handle, null
  br i1 %missing, label %close, label %x.end"""

#: Frames come from a bump allocator: one allocation per worker and launch, of one frame per thread of a block.
COROUTINE = """
declare token @llvm.coro.id(i32, ptr, ptr, ptr)
declare i64 @llvm.coro.size.i64()
declare ptr @llvm.coro.begin(token, ptr)
declare i8 @llvm.coro.suspend(token, i1)
declare void @llvm.coro.end(ptr, i1, token)
declare ptr @schedule.frames(ptr, i64)
declare void @schedule.rounds(ptr)
declare void @schedule.turns(ptr, ptr, i64)

define internal ptr @schedule.frame(ptr %block, i64 %size) alwaysinline {
entry:
  %size.up = add i64 %size, 15
  %step = and i64 %size.up, -16
  %top.at = getelementptr inbounds i8, ptr %block, i64 $block_top
  %top.old = load ptr, ptr %top.at
  %first = icmp eq ptr %top.old, null
  br i1 %first, label %allocate, label %take
allocate:
  %top.new = call ptr @schedule.frames(ptr %block, i64 %step)
  %none = icmp eq ptr %top.new, null
  br i1 %none, label %failed, label %take
take:
  %frame = phi ptr [ %top.old, %entry ], [ %top.new, %allocate ]
  %top.next = getelementptr inbounds i8, ptr %frame, i64 %step
  store ptr %top.next, ptr %top.at
  ret ptr %frame
failed:
  ret ptr null
}
"""

#: Runs the coroutines of a block to their ends.
ROUNDS = "  call void @schedule.rounds(ptr %block)\n"
