# SPDX-License-Identifier: Apache-2.0
"""The barrier of a whole grid on NVIDIA GPUs.

A cooperative launch gives the grid a workspace of its own. The driver leaves its address in ``%envreg1`` (the high
half) and ``%envreg2`` (the low one); the word at offset 4 belongs to the barrier. One thread of each block adds to it;
block 0 adds what brings the sum of all to 2³¹, so that bit 31 changes exactly when the last block has come, in whatever
order they come and however often.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand, int_literal

if TYPE_CHECKING:
    from cudabuild.backend.dialects import Dialect
    from cudabuild.backend.emit import FunctionEmitter

__all__ = ["emit_grid_sync"]

_WORD = 4  #: offset of the barrier's word in the workspace


def emit_grid_sync(dialect: Dialect, emitter: FunctionEmitter) -> None:
    """Appends the barrier: block barrier, one thread's arrival and wait, block barrier."""
    text = emitter.text
    arrive, wait, done, resume = (text.name(hint) for hint in ("arrive", "wait", "arrived", "synced"))
    dialect.barrier(emitter)
    text.branch(_is_first(emitter, dialect, "tid"), arrive, resume)
    text.start(arrive)
    word = _barrier_word(emitter)
    others = text.emit("i32", f"sub i32 -2147483648, {_count_blocks(emitter, dialect).text}")
    others = text.emit("i32", f"add {others.typed}, 1")
    share = text.emit("i32", f"select {_is_first(emitter, dialect, 'ctaid').typed}, {others.typed}, i32 1")
    dialect.fence(emitter, "device")
    order = f"{dialect.atomic_ordering}, align 4"
    before = text.emit("i32", f"atomicrmw add {word.typed}, {share.typed} {order}")
    text.jump(wait)
    text.start(wait)
    now = text.emit("i32", f"load atomic volatile i32, {word.typed} {order}")
    changed = text.emit("i32", f"xor {now.typed}, {before.text}")
    text.branch(text.emit("i1", f"icmp slt {changed.typed}, 0"), done, wait)
    text.start(done)
    dialect.fence(emitter, "device")
    text.jump(resume)
    text.start(resume)
    dialect.barrier(emitter)


def _barrier_word(emitter: FunctionEmitter) -> Operand:
    text = emitter.text
    high, low = (text.call("i32", f"llvm.nvvm.read.ptx.sreg.envreg{n}") for n in (1, 2))
    wide = text.emit("i64", f"zext {high.typed} to i64")
    wide = text.emit("i64", f"shl {wide.typed}, 32")
    base = text.emit("i64", f"zext {low.typed} to i64")
    address = text.emit("i64", f"or {base.typed}, {wide.text}")
    workspace = text.emit("ptr addrspace(1)", f"inttoptr {address.typed} to ptr addrspace(1)")
    return text.emit(workspace.type, f"getelementptr inbounds i8, {workspace.typed}, {int_literal(_WORD, 64).typed}")


def _is_first(emitter: FunctionEmitter, dialect: Dialect, register: str) -> Operand:
    """Whether the thread or block has index 0 along all axes."""
    text = emitter.text
    x, y, z = (dialect.sreg(emitter, f"{register}.{axis}") for axis in "xyz")
    some = text.emit("i32", f"or {x.typed}, {y.text}")
    some = text.emit("i32", f"or {some.typed}, {z.text}")
    return text.emit("i1", f"icmp eq {some.typed}, 0")


def _count_blocks(emitter: FunctionEmitter, dialect: Dialect) -> Operand:
    text = emitter.text
    x, y, z = (dialect.sreg(emitter, f"nctaid.{axis}") for axis in "xyz")
    count = text.emit("i32", f"mul {x.typed}, {y.text}")
    return text.emit("i32", f"mul {count.typed}, {z.text}")
