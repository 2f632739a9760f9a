# SPDX-License-Identifier: Apache-2.0
"""What differs between the machines that typed IR is lowered to.

``backend/emit.py`` lowers everything that LLVM says in one way for all targets. The rest is asked of a ``Dialect``:
``backend/nvptx.py`` answers for NVIDIA GPUs, ``cpu/`` for the host. A method receives the ``FunctionEmitter`` and
appends to ``emitter.text``; it may end the current block and begin others (a barrier that suspends, a guarded access).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from cudabuild.backend.narrow_floats import fma_by_double
from cudabuild.backend.text import Operand
from cudabuild.types import Float, Integer, float16
from cudabuild.types.record import natural_alignment

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.errors import Location
    from cudabuild.faults import FaultTable
    from cudabuild.ir.ir import Function, Instr
    from cudabuild.ir.linear import Linear
    from cudabuild.types import Array
    from cudabuild.types.layout import Field

__all__ = ["Access", "Dialect"]


@dataclass
class Access:
    """One access to an array element, before its address is computed.

    Attributes:
        instr: the ``load``, ``store`` or ``atomic``, with its location.
        array: the array's type.
        indices: one integer operand per axis, wrapped already, each of its own width.
        shape: one extent per axis; their common width is that of the kernel's variant, or that of a constant.
        memory_type: the element's LLVM type in memory (``i8`` for bool).
        pointer: makes the element's address; call it where the access is known to be wanted.
        value: what is stored, or what an atomic operation combines with, in its memory type; None for a load.
        kind: ``load``, ``store`` or ``atomic``.
        location: the user's line.
    """

    instr: Instr
    array: Array
    indices: Sequence[Operand]
    shape: Sequence[Operand]
    memory_type: str
    pointer: Callable[[], Operand]
    value: Operand | None = None

    @property
    def kind(self) -> str:
        return self.instr.op

    @property
    def location(self) -> Location | None:
        return self.instr.location

    @property
    def align(self) -> int:
        """Bytes that the address is known to be a multiple of: NumPy aligns a complex number like its parts."""
        return self.array.packed or natural_alignment(self.array.dtype)


class Dialect:
    """The rows that a target supplies. Defaults are those that both targets share."""

    name = ""
    triple = ""
    datalayout = ""
    #: Written after ``atomicrmw``/``cmpxchg`` pointers: ``syncscope("…") monotonic``.
    atomic_ordering = "monotonic"
    #: What is checked inside kernels: ``bounds`` of indices, ``division`` by zero. Needs ``faults`` and ``fault``.
    checks: frozenset[str] = frozenset()
    #: Whether it is decided here what is contracted (``contraction.py``), and not by LLVM; and whether anything is.
    decides_contraction = False
    fuses = False
    #: Whether the kernel's last parameter is the address of a fault record.
    takes_record = False
    #: The places that can fail; a dialect that takes part in checks makes one.
    faults: FaultTable
    #: Parameters that every device function gets before its own, as ``type %name``; callers pass them on by name.
    device_parameters: tuple[str, ...] = ()

    #: Whether the memory system takes cache operators (``hinted_load`` and ``hinted_store``).
    has_cache_hints = False

    def pointer(self, space: str) -> str:
        """The LLVM pointer type of array memory in ``space``: global, shared, local, const or generic."""
        return "ptr"

    def function_attributes(self, emitter: FunctionEmitter) -> str:
        """Attributes of a device function, as text."""
        return "nounwind"

    def open_kernel(self, emitter: FunctionEmitter, symbol: str, fields: Sequence[Field]) -> list[Operand]:
        """Begins the kernel's function (``emitter.text``) and returns one operand per field of the parameter block.

        Types of the operands: ``emitter.field_type(field)``.
        """
        raise NotImplementedError

    def as_bits(self, emitter: FunctionEmitter, value: Operand) -> Operand:
        """What is stored instead of ``value`` in memory that is not aligned for it; of the same size."""
        return value

    def hinted_load(self, emitter: FunctionEmitter, type: str, pointer: Operand, hint: str) -> Operand:
        """A load of an integer or a float with a cache operator ``hint``: ``ca``, ``cg``, ``cs``, ``lu``, ``cv``."""
        raise NotImplementedError

    def hinted_store(self, emitter: FunctionEmitter, value: Operand, pointer: Operand, hint: str) -> None:
        """A store with the PTX cache operator ``hint``: ``cg``, ``cs``, ``wb`` or ``wt``."""
        raise NotImplementedError

    def kernel_return(self, emitter: FunctionEmitter) -> None:
        """Ends the current block: this thread is done."""
        emitter.text.end("ret void")

    def close_kernel(self, emitter: FunctionEmitter) -> None:
        """Called once after the last block was written, before phis are completed."""

    def enter_block(self, emitter: FunctionEmitter) -> None:
        """Called before the first instruction of every block (``emitter.block``), after its phis."""

    def leave_block(self, emitter: FunctionEmitter) -> bool:
        """Called before the last instruction of every block; true if that has been written, too."""
        return False

    def called(self, emitter: FunctionEmitter, callee: Function) -> None:
        """Called after every call of a device function."""

    def sreg(self, emitter: FunctionEmitter, register: str) -> Operand:
        """``tid.x`` … ``nctaid.z``, ``laneid``: an i32 that is not negative."""
        raise NotImplementedError

    def barrier(self, emitter: FunctionEmitter) -> None:
        raise NotImplementedError

    def barrier_reduce(self, emitter: FunctionEmitter, mode: str, flag: Operand) -> Operand:
        """A barrier that combines ``flag`` (i1): ``count`` gives an i32, ``and`` and ``or`` an i1."""
        raise NotImplementedError

    def grid_sync(self, emitter: FunctionEmitter) -> None:
        raise NotImplementedError

    def syncwarp(self, emitter: FunctionEmitter, mask: Operand) -> None:
        raise NotImplementedError

    def vote(self, emitter: FunctionEmitter, mode: str, mask: Operand, flag: Operand) -> Operand:
        """``flag`` (i1) of the lanes of ``mask``: ``all``, ``any`` and ``eq`` give an i1, ``ballot`` an i32."""
        raise NotImplementedError

    def match(self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand) -> Operand:
        """The lanes (i32) whose ``value``, an i32 or i64, is the own one (``any``); all of ``mask`` or 0 (``all``)."""
        raise NotImplementedError

    def activemask(self, emitter: FunctionEmitter) -> Operand:
        raise NotImplementedError

    def fence(self, emitter: FunctionEmitter, scope: str) -> None:
        """Orders memory accesses; ``scope`` is block, device or system."""
        raise NotImplementedError

    def nanosleep(self, emitter: FunctionEmitter, duration: Operand) -> None:
        raise NotImplementedError

    def clock(self, emitter: FunctionEmitter, source: str) -> Operand:
        """An i64: ``cycle`` of this core, ``ns`` of the machine's clock."""
        raise NotImplementedError

    def print(self, emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
        """Prints ``text`` (``ir/printing.py``), its values each an i64, a double or an i1."""
        raise NotImplementedError

    def shfl(
        self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand, lane: Operand, width: Operand
    ) -> Operand:
        """Exchanges ``value`` (any scalar type) within a warp; ``mode`` is idx, up, down or bfly."""
        raise NotImplementedError

    def constant(self, emitter: FunctionEmitter, data: bytes) -> Operand:
        """The address of the read-only bytes ``data``, 16-byte aligned, of type ``pointer("const")``."""
        raise NotImplementedError

    def shared(self, emitter: FunctionEmitter, key: str, memory_type: str, count: int, align: int = 16) -> Operand:
        """The address of the static shared array ``key``, a multiple of ``align``, of type ``pointer("shared")``."""
        raise NotImplementedError

    def local(self, emitter: FunctionEmitter, memory_type: str, count: int, size: int, align: int = 16) -> Operand:
        """The address of a local array of ``count`` elements of ``size`` bytes, on the stack."""
        # 16 bytes: the assembler may then use the widest accesses (codegen measurements: up to 1.7 x on shared arrays)
        return emitter.text.alloca(f"[{count} x {memory_type}]", align)

    def dynamic_shared(self, emitter: FunctionEmitter, align: int = 16) -> tuple[Operand, Operand]:
        """The address of the dynamic shared memory, a multiple of ``align``, and its size in bytes (i32)."""
        raise NotImplementedError

    def spare(self, emitter: FunctionEmitter, space: str, size: int) -> Operand:
        """``size`` bytes that nobody reads or writes on purpose, of type ``pointer(space)``, 16-byte aligned."""
        name = f"{emitter.module.symbol}_spare{size}"
        kind = self.pointer("global")
        prefix = kind.removeprefix("ptr").strip()
        emitter.module.text.globals[name] = (
            f"@{name} = internal {prefix}{' ' if prefix else ''}global [{size} x i8] zeroinitializer, align 16"
        )
        return emitter.coerce(Operand(kind, f"@{name}"), self.pointer(space))

    def math(self, emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
        """A row of ``ir.ops.MATH``, or ``fmod``, on float or double."""
        raise NotImplementedError

    def half_fma(self, emitter: FunctionEmitter, operands: Sequence[Operand]) -> Operand:
        """The fused multiply-add of three halfs, rounded once."""
        return fma_by_double(emitter, operands)

    def float_to_int(self, emitter: FunctionEmitter, value: Operand, bits: int, signed: bool) -> Operand:
        """Saturating conversion of a float or double to ``i<bits>``; NaN gives 0."""
        name = f"llvm.fpto{'s' if signed else 'u'}i.sat.i{bits}.{'f32' if value.type == 'float' else 'f64'}"
        return emitter.text.call(f"i{bits}", name, value)

    # A bfloat16 is kept as an i16 of its bits: on the host, LLVM's own type would lose subnormal numbers where it loads
    # them on processors with AVX512-BF16.

    def widen_brain(self, emitter: FunctionEmitter, word: Operand) -> Operand:
        """A bfloat16 as the float that it is."""
        raise NotImplementedError

    def round_brain(self, emitter: FunctionEmitter, value: Operand) -> Operand:
        """A float or double to the nearest bfloat16, ties to even; any NaN for a NaN."""
        raise NotImplementedError

    def brain_fma(self, emitter: FunctionEmitter, words: Sequence[Operand]) -> Operand:
        """The fused multiply-add of three bfloat16s."""
        raise NotImplementedError

    def access(
        self, emitter: FunctionEmitter, access: Access, perform: Callable[[Operand], Operand | None]
    ) -> Operand | None:
        """Every load, store and atomic of array elements passes here, and nowhere else.

        Args:
            emitter: where to append.
            access: what is accessed.
            perform: appends the access itself, given the element's address, and returns its value, of LLVM type
                ``access.memory_type``, or None for a store. Call it once; it may end the block and begin others.

        Returns:
            What ``perform`` returned, or what stands for it where the access was not wanted.
        """
        return perform(access.pointer())

    def fault(self, emitter: FunctionEmitter, site: Operand, index: Operand, extent: Operand) -> None:
        """Records that this thread failed at ``site`` (i32, of ``faults``), with an index and an extent (i64)."""
        raise NotImplementedError

    def trusted(self, emitter: FunctionEmitter, conditions: Sequence[Linear] | None) -> Operand | None:
        """An i1 that is true only in launches where each sum is negative, or None for no such thing.

        Their atoms are what ``ir/bounds.py`` names; they stand in the kernel itself, not in a device function.
        """
        return None

    def refuse(self, instr: Instr) -> tuple[str, str, str, str] | None:
        """Why the target cannot do ``instr``, as title, found, expected and do of a diagnostic; or None."""
        if instr.op not in ("atomic", "atomic_cas"):
            return None
        element = instr.type
        if (isinstance(element, (Integer, Float)) and element.size >= 4) or element == float16:
            return None
        return (
            "unsupported atomic operation",
            f"atomic.{instr.attrs.get('function', 'cas')} on an array of {element.name}",
            "an array of int32, uint32, int64, uint64, float16, float32 or float64",
            "give the array a 32-bit or 64-bit element type",
        )
