# SPDX-License-Identifier: Apache-2.0
"""How a launch gets to the workers and its end to the caller without Python: LLVM text for Linux, part of the library.

The workers stay in ``pool.work``; a caller is in ``pool.post``, then in ``pool.wait`` again and again. Both hold no
lock of Python there. A launch lies in a *slot*: how many workers may still join it (its tickets) and how many are in it
are one number. A worker that leaves takes the remaining tickets away, since no block is left to begin; nobody waits for
a worker that woke too late. The last one tells the caller.

Who finds nothing to do sleeps in a futex. After a launch a worker looks for the next one for 50 µs first, and yields
its core between looks. So it can be on the caller's own core: the caller runs there as soon as it has something to do,
and when it waits for the next launch the worker is there already. A caller whose workers are looking looks for the end
as long, if a core is left for it.

Linux may wake two workers on one core and leave them there while another core idles. A worker that begins a launch on
the core of another leaves that core for good: it may run on all cores of the process but that one, until it meets
somebody again. So does one that woke too late because another worked on its core.
"""

from __future__ import annotations

import ctypes
import platform
import sys
from functools import cache
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from cudabuild.cpu.abi import LAUNCH

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["CLOSED", "DONE", "EXPORTS", "FULL", "POOL_SIZE", "Handover", "handover_text", "make_handover"]

#: What ``pool.post`` and ``pool.wait`` return. At 0 the launch goes on.
DONE = 1  #: it is over
FULL = 2  #: not begun: there are more launches than slots
CLOSED = 3  #: not begun: the workers have been told to end

EXPORTS = ("pool.work", "pool.post", "pool.wait", "pool.close")

_SLOTS = 64
_SLOT_SIZE = 64
_FIRST_SLOT = 192

#: Bytes of a pool, aligned to a cache line and zero at first: one line for the number of launches so far (which
#: sleepers watch), one for those who sleep and look, one for what callers write and the cores that workers began the
#: latest launch on, then the slots.
POOL_SIZE = _FIRST_SLOT + _SLOTS * _SLOT_SIZE

#: The number of the system call futex (Linux, ``asm/unistd.h``).
_FUTEX = {"x86_64": 202, "aarch64": 98}

#: ``posted`` counts launches. Sleepers are woken by it: who posts counts up and then looks for sleepers, who goes to
#: sleep says so and then compares (the system does, in the futex). A caller may rely on workers that look, instead of
#: waking others, only if its launch is the only one (``running``): another would rely on the same.
#: A slot: ``state`` (the low half tickets, the high half workers that are in it), ``done`` (0; 1 once the caller
#: sleeps; 2 at the end, and whoever stores the 2 touches the slot no more), whether it is in use, ``enter``, the
#: launch, and the cores that workers began on (by number modulo 64). Nothing is left to optimise here: LLVM took 25 ms
#: to find that out.
_TEXT = """
declare i64 @syscall(i64, ...)
declare i32 @clock_gettime(i32, ptr)
declare i32 @sched_getcpu()
declare i32 @sched_yield()
declare i32 @getpid()
declare i32 @sched_getaffinity(i32, i64, ptr)
declare i32 @sched_setaffinity(i32, i64, ptr)

define private i64 @pool.now() noinline optnone {
entry:
  %time = alloca [2 x i64]
  %status = call i32 @clock_gettime(i32 1, ptr %time)
  %seconds = load i64, ptr %time
  %rest.at = getelementptr inbounds i8, ptr %time, i64 8
  %rest = load i64, ptr %rest.at
  %scaled = mul i64 %seconds, 1000000000
  %now = add i64 %scaled, %rest
  ret i64 %now
}

define private void @pool.look(ptr %word, i32 %value) noinline optnone {
entry:
  %start = call i64 @pool.now()
  br label %again
again:
  br label %turn
turn:
  %count = phi i32 [ 0, %again ], [ %count.next, %next ]
  %found = load atomic i32, ptr %word seq_cst, align 4
  %same = icmp eq i32 %found, %value
  br i1 %same, label %next, label %end
next:
  %yielded = call i32 @sched_yield()
  %count.next = add i32 %count, 1
  %full = icmp eq i32 %count.next, 4
  br i1 %full, label %time, label %turn
time:
  %now = call i64 @pool.now()
  %passed = sub i64 %now, %start
  %over = icmp ugt i64 %passed, 50000
  br i1 %over, label %end, label %again
end:
  ret void
}

define private void @pool.wake(ptr %word, i32 %count) noinline optnone {
entry:
  %woken = call i64 (i64, ...) @syscall(i64 $futex, ptr %word, i32 129, i32 %count)
  ret void
}

define private void @pool.move(i32 %core) noinline optnone {
entry:
  %mask = alloca [128 x i8]
  %process = call i32 @getpid()
  %size = call i32 @sched_getaffinity(i32 %process, i64 128, ptr %mask)
  %known = icmp sge i32 %size, 0
  %inside = icmp ult i32 %core, 1024
  %both = and i1 %known, %inside
  br i1 %both, label %move, label %end
move:
  %place = lshr i32 %core, 3
  %byte = getelementptr inbounds i8, ptr %mask, i32 %place
  %bit = and i32 %core, 7
  %bit.8 = trunc i32 %bit to i8
  %one = shl i8 1, %bit.8
  %others = xor i8 %one, -1
  %before = load i8, ptr %byte
  %after = and i8 %before, %others
  store i8 %after, ptr %byte
  %moved = call i32 @sched_setaffinity(i32 0, i64 128, ptr %mask)
  br label %end
end:
  ret void
}

define i32 @pool.work(ptr %pool, ptr %mine) noinline optnone {
entry:
  %closed.at = getelementptr inbounds i8, ptr %pool, i64 4
  %sleepers.at = getelementptr inbounds i8, ptr %pool, i64 64
  %lookers.at = getelementptr inbounds i8, ptr %pool, i64 68
  %high.at = getelementptr inbounds i8, ptr %pool, i64 128
  %latest.at = getelementptr inbounds i8, ptr %pool, i64 136
  %cursor.at = getelementptr inbounds i8, ptr %mine, i64 8
  br label %round
round:
  %warm = phi i1 [ false, %entry ], [ true, %left ], [ false, %look ], [ false, %slept ]
  %woken = phi i1 [ false, %entry ], [ false, %left ], [ false, %look ], [ true, %slept ]
  %closed = load atomic i32, ptr %closed.at seq_cst, align 4
  %posted = load atomic i32, ptr %pool seq_cst, align 4
  %high = load atomic i32, ptr %high.at seq_cst, align 4
  %cursor = load i32, ptr %cursor.at
  %any = icmp eq i32 %high, 0
  br i1 %any, label %nothing, label %scan
scan:
  %count = phi i32 [ 0, %round ], [ %count.next, %scan.next ]
  %place = phi i32 [ %cursor, %round ], [ %place.next, %scan.next ]
  %inside = icmp ult i32 %place, %high
  %number = select i1 %inside, i32 %place, i32 0
  %number.64 = zext nneg i32 %number to i64
  %offset = mul nuw nsw i64 %number.64, $slot_size
  %offset.all = add nuw nsw i64 %offset, $first_slot
  %slot = getelementptr inbounds i8, ptr %pool, i64 %offset.all
  br label %claim
claim:
  %state = load atomic i64, ptr %slot seq_cst, align 8
  %tickets = trunc i64 %state to i32
  %none = icmp eq i32 %tickets, 0
  br i1 %none, label %scan.next, label %take
take:
  %state.taken = add i64 %state, 4294967295
  %taken = cmpxchg ptr %slot, i64 %state, i64 %state.taken seq_cst seq_cst
  %taken.ok = extractvalue { i64, i1 } %taken, 1
  br i1 %taken.ok, label %run, label %claim
scan.next:
  %count.next = add nuw nsw i32 %count, 1
  %place.next = add nuw nsw i32 %number, 1
  %scanned = icmp uge i32 %count.next, %high
  br i1 %scanned, label %nothing, label %scan
run:
  %cursor.next = add nuw nsw i32 %number, 1
  store i32 %cursor.next, ptr %cursor.at
  %enter.at = getelementptr inbounds i8, ptr %slot, i64 16
  %enter = load ptr, ptr %enter.at
  %launch.at = getelementptr inbounds i8, ptr %slot, i64 24
  %launch = load ptr, ptr %launch.at
  store ptr %launch, ptr %mine
  %core.here = call i32 @sched_getcpu()
  %core.bit = and i32 %core.here, 63
  %core.bit.64 = zext nneg i32 %core.bit to i64
  %core.one = shl nuw i64 1, %core.bit.64
  %cores.used.at = getelementptr inbounds i8, ptr %slot, i64 32
  %cores.used = atomicrmw or ptr %cores.used.at, i64 %core.one monotonic
  %cores.latest = atomicrmw or ptr %latest.at, i64 %core.one monotonic
  %core.used = and i64 %cores.used, %core.one
  %alone = icmp eq i64 %core.used, 0
  br i1 %alone, label %enter.now, label %move
move:
  call void @pool.move(i32 %core.here)
  br label %enter.now
enter.now:
  call void %enter(ptr %launch, i32 %core.here)
  store ptr null, ptr %mine
  br label %leave
leave:
  %state.old = load atomic i64, ptr %slot seq_cst, align 8
  %within = lshr i64 %state.old, 32
  %within.less = sub nuw i64 %within, 1
  %state.left = shl nuw i64 %within.less, 32
  %gone = cmpxchg ptr %slot, i64 %state.old, i64 %state.left seq_cst seq_cst
  %gone.ok = extractvalue { i64, i1 } %gone, 1
  br i1 %gone.ok, label %check, label %leave
check:
  %last = icmp eq i64 %state.left, 0
  br i1 %last, label %tell, label %left
tell:
  %done.at = getelementptr inbounds i8, ptr %slot, i64 8
  %done = atomicrmw xchg ptr %done.at, i32 2 seq_cst
  %asleep = icmp eq i32 %done, 1
  br i1 %asleep, label %wake, label %left
wake:
  call void @pool.wake(ptr %done.at, i32 1)
  br label %left
left:
  br label %round
nothing:
  %open = icmp eq i32 %closed, 0
  br i1 %open, label %idle, label %end
idle:
  br i1 %warm, label %look, label %late
late:
  br i1 %woken, label %place.check, label %sleep
place.check:
  %late.core = call i32 @sched_getcpu()
  %late.bit = and i32 %late.core, 63
  %late.bit.64 = zext nneg i32 %late.bit to i64
  %late.one = shl nuw i64 1, %late.bit.64
  %late.used = load atomic i64, ptr %latest.at monotonic, align 8
  %late.same = and i64 %late.used, %late.one
  %late.alone = icmp eq i64 %late.same, 0
  br i1 %late.alone, label %sleep, label %late.move
late.move:
  call void @pool.move(i32 %late.core)
  br label %sleep
look:
  %lookers = atomicrmw add ptr %lookers.at, i32 1 seq_cst
  call void @pool.look(ptr %pool, i32 %posted)
  %lookers.less = atomicrmw sub ptr %lookers.at, i32 1 seq_cst
  br label %round
sleep:
  %sleepers = atomicrmw add ptr %sleepers.at, i32 1 seq_cst
  %why = call i64 (i64, ...) @syscall(i64 $futex, ptr %pool, i32 128, i32 %posted, ptr null)
  br label %slept
slept:
  %sleepers.less = atomicrmw sub ptr %sleepers.at, i32 1 seq_cst
  br label %round
end:
  ret i32 0
}

define i32 @pool.post(ptr %pool, ptr %enter, ptr %launch, i32 %workers, i32 %cores, i64 %nanoseconds) noinline optnone {
entry:
  %closed.at = getelementptr inbounds i8, ptr %pool, i64 4
  %sleepers.at = getelementptr inbounds i8, ptr %pool, i64 64
  %lookers.at = getelementptr inbounds i8, ptr %pool, i64 68
  %high.at = getelementptr inbounds i8, ptr %pool, i64 128
  %running.at = getelementptr inbounds i8, ptr %pool, i64 132
  %latest.at = getelementptr inbounds i8, ptr %pool, i64 136
  br label %scan
scan:
  %number = phi i64 [ 0, %entry ], [ %number.next, %scan.next ]
  %offset = mul nuw nsw i64 %number, $slot_size
  %offset.all = add nuw nsw i64 %offset, $first_slot
  %slot = getelementptr inbounds i8, ptr %pool, i64 %offset.all
  %owned.at = getelementptr inbounds i8, ptr %slot, i64 12
  %owned = cmpxchg ptr %owned.at, i32 0, i32 1 seq_cst seq_cst
  %owned.ok = extractvalue { i32, i1 } %owned, 1
  %number.next = add nuw nsw i64 %number, 1
  br i1 %owned.ok, label %fill, label %scan.next
scan.next:
  %scanned = icmp eq i64 %number.next, $slots
  br i1 %scanned, label %full, label %scan
fill:
  %place = trunc i64 %number.next to i32
  %slot.to = getelementptr inbounds i8, ptr %launch, i64 $launch_slot
  store i32 %place, ptr %slot.to
  %done.at = getelementptr inbounds i8, ptr %slot, i64 8
  store atomic i32 0, ptr %done.at seq_cst, align 4
  %enter.to = getelementptr inbounds i8, ptr %slot, i64 16
  store ptr %enter, ptr %enter.to
  %launch.to = getelementptr inbounds i8, ptr %slot, i64 24
  store ptr %launch, ptr %launch.to
  %used.to = getelementptr inbounds i8, ptr %slot, i64 32
  store i64 0, ptr %used.to
  store atomic i64 0, ptr %latest.at monotonic, align 8
  %high = atomicrmw umax ptr %high.at, i32 %place seq_cst
  %others = atomicrmw add ptr %running.at, i32 1 seq_cst
  %alone = icmp eq i32 %others, 0
  %tickets = zext i32 %workers to i64
  store atomic i64 %tickets, ptr %slot seq_cst, align 8
  %posted = atomicrmw add ptr %pool, i32 1 seq_cst
  %closed = load atomic i32, ptr %closed.at seq_cst, align 4
  %open = icmp eq i32 %closed, 0
  br i1 %open, label %count, label %withdraw
count:
  %sleepers = load atomic i32, ptr %sleepers.at seq_cst, align 4
  %lookers = load atomic i32, ptr %lookers.at seq_cst, align 4
  %enough = icmp sge i32 %lookers, %workers
  %awake = and i1 %alone, %enough
  br i1 %awake, label %spare, label %call
call:
  %none = icmp eq i32 %sleepers, 0
  br i1 %none, label %wait, label %wake
wake:
  call void @pool.wake(ptr %pool, i32 %workers)
  br label %wait
spare:
  %core.left = icmp slt i32 %workers, %cores
  br i1 %core.left, label %look, label %wait
look:
  call void @pool.look(ptr %done.at, i32 0)
  br label %wait
wait:
  %status = call i32 @pool.wait(ptr %pool, ptr %launch, i64 %nanoseconds)
  ret i32 %status
withdraw:
  %back = cmpxchg ptr %slot, i64 %tickets, i64 0 seq_cst seq_cst
  %back.ok = extractvalue { i64, i1 } %back, 1
  br i1 %back.ok, label %unused, label %wait
unused:
  call void @pool.release(ptr %pool, ptr %launch, ptr %slot)
  ret i32 $closed
full:
  ret i32 $full
}

define private void @pool.release(ptr %pool, ptr %launch, ptr %slot) noinline optnone {
entry:
  %running.at = getelementptr inbounds i8, ptr %pool, i64 132
  %running = atomicrmw sub ptr %running.at, i32 1 seq_cst
  %slot.to = getelementptr inbounds i8, ptr %launch, i64 $launch_slot
  store i32 0, ptr %slot.to
  %owned.at = getelementptr inbounds i8, ptr %slot, i64 12
  store atomic i32 0, ptr %owned.at seq_cst, align 4
  ret void
}

define i32 @pool.wait(ptr %pool, ptr %launch, i64 %nanoseconds) noinline optnone {
entry:
  %time = alloca [2 x i64]
  store i64 0, ptr %time
  %rest.at = getelementptr inbounds i8, ptr %time, i64 8
  store i64 %nanoseconds, ptr %rest.at
  %place.at = getelementptr inbounds i8, ptr %launch, i64 $launch_slot
  %place = load i32, ptr %place.at
  %nowhere = icmp eq i32 %place, 0
  br i1 %nowhere, label %over, label %find
find:
  %place.64 = zext nneg i32 %place to i64
  %number = sub nuw nsw i64 %place.64, 1
  %offset = mul nuw nsw i64 %number, $slot_size
  %offset.all = add nuw nsw i64 %offset, $first_slot
  %slot = getelementptr inbounds i8, ptr %pool, i64 %offset.all
  %done.at = getelementptr inbounds i8, ptr %slot, i64 8
  %before = cmpxchg ptr %done.at, i32 0, i32 1 seq_cst seq_cst
  %before.value = extractvalue { i32, i1 } %before, 0
  %done.before = icmp eq i32 %before.value, 2
  br i1 %done.before, label %release, label %sleep
sleep:
  %why = call i64 (i64, ...) @syscall(i64 $futex, ptr %done.at, i32 128, i32 1, ptr %time)
  %after = load atomic i32, ptr %done.at seq_cst, align 4
  %done.after = icmp eq i32 %after, 2
  br i1 %done.after, label %release, label %on
release:
  call void @pool.release(ptr %pool, ptr %launch, ptr %slot)
  br label %over
over:
  ret i32 $done
on:
  ret i32 0
}

define void @pool.close(ptr %pool) noinline optnone {
entry:
  %closed.at = getelementptr inbounds i8, ptr %pool, i64 4
  store atomic i32 1, ptr %closed.at seq_cst, align 4
  %posted = atomicrmw add ptr %pool, i32 1 seq_cst
  call void @pool.wake(ptr %pool, i32 2147483647)
  ret void
}
"""


def handover_text() -> str:
    """LLVM text of ``EXPORTS``; empty where there is no futex (elsewhere ``workers.py`` waits in Python)."""
    number = _FUTEX.get(platform.machine()) if sys.platform == "linux" else None
    if number is None:
        return ""
    return Template(_TEXT).substitute(
        futex=number,
        slots=_SLOTS,
        slot_size=_SLOT_SIZE,
        first_slot=_FIRST_SLOT,
        launch_slot=LAUNCH["slot"].offset,
        done=DONE,
        full=FULL,
        closed=CLOSED,
    )


class Handover(NamedTuple):
    """The compiled functions, as ctypes calls them: without the lock of Python.

    Attributes:
        work: ``(pool, mine)``: runs launches until the pool is closed. ``mine`` are 16 bytes of this worker's, zero at
            first; the address of the launch that it is in stands there.
        post: ``(pool, enter, launch, workers, cores, nanoseconds)``: begins a launch, and waits so long for its end.
        wait: ``(pool, launch, nanoseconds)``: waits on; ``DONE`` also for a launch that was not begun.
        close: ``(pool)``: lets each worker end once there is nothing left to do.
    """

    work: Any
    post: Any
    wait: Any
    close: Any


@cache
def _makers() -> tuple[Any, ...]:
    pointer, number, long = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    return (
        ctypes.CFUNCTYPE(number, pointer, pointer),
        ctypes.CFUNCTYPE(number, pointer, pointer, pointer, number, number, long),
        ctypes.CFUNCTYPE(number, pointer, pointer, long),
        ctypes.CFUNCTYPE(None, pointer),
    )


def make_handover(symbols: Mapping[str, int]) -> Handover | None:
    """What ``symbols`` (of ``library_symbols``) hold of it; None where they do not."""
    if "pool.work" not in symbols:
        return None
    return Handover(*(make(symbols[name]) for make, name in zip(_makers(), EXPORTS, strict=True)))
