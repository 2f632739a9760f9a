# SPDX-License-Identifier: Apache-2.0
"""The host's dialect for kernels that are watched: every access and every synchronisation is told to ``shadow.py``.

A checked kernel is another compilation of the same typed IR, and only made when asked for::

    call void @check.access(ptr %block, i32 %thread, ptr %address, i32 <what>, i32 <log2 of the size>, i32 <site>)
    %v7 = load float, ptr %address

Its threads are coroutines whether or not they stop, so that all of them know their block. Next to each local array,
always ``_distance`` bytes above it, lies one byte for each of its bytes: whether that is written.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from cudabuild.backend.text import Operand
from cudabuild.cpu.dialect import HostDialect
from cudabuild.cpu.findings import Site
from cudabuild.cpu.loops import LIMIT
from cudabuild.cpu.shadow import ACCESS_KINDS, DECLARATIONS, LOOK_FOR_RACES, LOOK_FOR_UNINIT
from cudabuild.ir.ir import Instr
from cudabuild.types import Array

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabuild.backend.dialects import Access
    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.cpu.schedule import Plan
    from cudabuild.ir.ir import Function

__all__ = ["CheckedDialect"]

_DOES = {
    "load": "reads it",
    "store": "writes it",
    "atomic": "updates it atomically",
    "atomic_cas": "updates it atomically",
}


class CheckedDialect(HostDialect):
    """Lowers one kernel so that it is watched.

    Args:
        function, triple, datalayout, guards: as for ``HostDialect``.
        checks: what to look for, of ``abi.CHECKS``.

    Attributes:
        sites: the places that are told, by number; number 0 is nobody's.
    """

    definitions = DECLARATIONS
    device_parameters = ("ptr %block", *HostDialect.device_parameters)
    splits_guards = False
    joins_blocks = False
    poll_limit = LIMIT // 64  # an access that is watched takes far longer

    def __init__(
        self,
        function: Function,
        triple: str,
        datalayout: str,
        guards: frozenset[str] = frozenset(),
        *,
        checks: frozenset[str],
    ) -> None:
        super().__init__(function, triple, datalayout, guards)
        self.coroutine = True
        self.watched = checks
        self.sites: list[Site] = [Site("", None)]
        self._numbers: dict[Instr, int] = {}
        functions = [*function.callees, function]
        local = [instr for one in functions for instr in one.instructions() if instr.op == "local"]
        self._has_local = bool(local)
        self._has_generic = any(_is_generic(value) for one in functions for value in one.instructions())
        self._distance = -(-max((_size(instr) for instr in local), default=0) // 16) * 16

    def _open_coroutine(self, emitter: FunctionEmitter, plan: Plan) -> None:
        text = emitter.text
        size = self._layout[1] if self._layout else 0
        text.do(f"%check.ready = call i1 @check.enter(ptr %block, i32 %thread, i64 {size})")
        text.end("br i1 %check.ready, label %checked, label %failed")
        text.start("checked")
        super()._open_coroutine(emitter, plan)

    # -- memory

    def access(
        self, emitter: FunctionEmitter, access: Access, perform: Callable[[Operand], Operand | None]
    ) -> Operand | None:
        def watch(pointer: Operand) -> Operand | None:
            self._tell_access(emitter, access, pointer)
            return perform(pointer)

        return super().access(emitter, access, watch)

    def _tell_access(self, emitter: FunctionEmitter, access: Access, pointer: Operand) -> None:
        space = access.array.space
        races = "races" in self.watched and space in ("global", "shared", "generic")
        # An array that may be in one of several memories may be a thread's own: its addresses mean another thing there.
        races = races and not (space == "generic" and self._has_local)
        uninit = "uninit" in self.watched and space in ("shared", "local", "generic")
        # … and what is written through it cannot be marked as written.
        uninit = uninit and not (space == "local" and self._has_generic)
        if not races and not uninit:
            return
        kind = ACCESS_KINDS[access.kind]
        shift = access.align.bit_length() - 1
        parts = range(0, access.array.dtype.size, access.align)
        if space == "local":
            pointer = emitter.text.emit("ptr", f"getelementptr i8, {pointer.typed}, i64 {self._distance}")
            name, what = "local", kind
        else:
            name, what = "watch" if uninit else "access", kind | races * LOOK_FOR_RACES | uninit * LOOK_FOR_UNINIT
        site = self._site(access.instr, _DOES[access.kind])
        for offset in parts:
            at = pointer
            if offset:
                at = emitter.text.emit("ptr", f"getelementptr i8, {pointer.typed}, i64 {offset}")
            emitter.text.do(
                f"call void @check.{name}(ptr %block, i32 %thread, {at.typed}, i32 {what}, i32 {shift}, i32 {site})"
            )

    def local(self, emitter: FunctionEmitter, memory_type: str, count: int, size: int, align: int = 16) -> Operand:
        memory = emitter.text.alloca(f"[{self._distance + count * size} x i8]", 16)
        flags = emitter.text.emit("ptr", f"getelementptr i8, {memory.typed}, i64 {self._distance}")
        emitter.text.do(f"call void @llvm.memset.p0.i64({flags.typed}, i8 0, i64 {count * size}, i1 false)")
        return memory

    # -- synchronisation

    def barrier(self, emitter: FunctionEmitter) -> None:
        self._arrive(emitter, "syncthreads")
        super().barrier(emitter)
        self._leave(emitter)

    def barrier_reduce(self, emitter: FunctionEmitter, mode: str, flag: Operand) -> Operand:
        self._arrive(emitter, f"syncthreads_{mode}")
        result = super().barrier_reduce(emitter, mode, flag)
        self._leave(emitter)
        return result

    def grid_sync(self, emitter: FunctionEmitter) -> None:
        self._arrive(emitter, "grid sync")
        super().grid_sync(emitter)
        self._leave(emitter, grid=True)

    def syncwarp(self, emitter: FunctionEmitter, mask: Operand) -> None:
        site = self._site_here(emitter, "syncwarp")
        emitter.text.do(f"call void @check.wait(ptr %block, i32 %thread, i32 {site}, {mask.typed})")
        super().syncwarp(emitter, mask)
        emitter.text.do("call void @check.joined(ptr %block, i32 %thread)")

    def shfl(
        self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand, lane: Operand, width: Operand
    ) -> Operand:
        self._wait(emitter, "shuffle")
        return super().shfl(emitter, mode, mask, value, lane, width)

    def vote(self, emitter: FunctionEmitter, mode: str, mask: Operand, flag: Operand) -> Operand:
        self._wait(emitter, "vote")
        return super().vote(emitter, mode, mask, flag)

    def match(self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand) -> Operand:
        self._wait(emitter, "match")
        return super().match(emitter, mode, mask, value)

    def fence(self, emitter: FunctionEmitter, scope: str) -> None:
        # All scopes alike: a fence for the block alone may hide a race between blocks, and never makes one up.
        super().fence(emitter, scope)
        emitter.text.do("call void @check.fence(ptr %block)")

    def _arrive(self, emitter: FunctionEmitter, what: str) -> None:
        site = self._site_here(emitter, what)
        compare = "true" if "barriers" in self.watched else "false"
        emitter.text.do(f"call void @check.arrive(ptr %block, i32 %thread, i32 {site}, i1 {compare})")

    def _leave(self, emitter: FunctionEmitter, grid: bool = False) -> None:
        emitter.text.do(f"call void @check.leave(ptr %block, i32 %thread, i1 {'true' if grid else 'false'})")

    def _wait(self, emitter: FunctionEmitter, what: str) -> None:
        """A warp operation that orders no memory accesses (CUDA C++ Programming Guide, "Warp Shuffle Functions")."""
        site = self._site_here(emitter, what)
        emitter.text.do(f"call void @check.wait(ptr %block, i32 %thread, i32 {site}, i32 0)")

    # -- sites

    def _site_here(self, emitter: FunctionEmitter, what: str) -> int:
        assert emitter.instr is not None
        return self._site(emitter.instr, f"waits at this {what}")

    def _site(self, instr: Instr, does: str) -> int:
        """The site's number; each instruction has one of its own, so that two barriers on one line differ."""
        if instr not in self._numbers:
            self._numbers[instr] = len(self.sites)
            self.sites.append(Site(does, instr.location))
        return self._numbers[instr]


def _is_generic(instr: Instr) -> bool:
    return isinstance(instr.type, Array) and instr.type.space == "generic"


def _size(instr: Instr) -> int:
    assert isinstance(instr.type, Array)
    return int(prod(instr.attrs["shape"])) * instr.type.dtype.size
