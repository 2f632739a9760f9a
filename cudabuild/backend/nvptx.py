# SPDX-License-Identifier: Apache-2.0
"""The rows of the operation table that are NVIDIA's: registers, barriers, shuffles, shared memory, math, conversions.

LLVM ends the process on an operation that a target cannot select, so every intrinsic written here is one that the
NVPTX back end selects from sm_75 and PTX 7.0 on (a test emits each for every target). What is not among them goes
through libdevice or is spelled out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.dialects import Dialect
from cudabuild.backend.grid_sync import emit_grid_sync
from cudabuild.backend.libdevice import INTRINSICS, function_name
from cudabuild.backend.printing import emit_vprintf
from cudabuild.backend.text import Operand, constant_global, float_literal, int_literal, replace
from cudabuild.faults import FaultTable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.types.layout import Field

__all__ = ["NvptxDialect"]

#: Special registers -> the largest value (CUDA C++ Programming Guide, "Compute Capabilities").
_LIMITS = {
    "tid.x": 1023, "tid.y": 1023, "tid.z": 63, "ntid.x": 1024, "ntid.y": 1024, "ntid.z": 64,
    "ctaid.x": 2**31 - 2, "ctaid.y": 65534, "ctaid.z": 65534,
    "nctaid.x": 2**31 - 1, "nctaid.y": 65535, "nctaid.z": 65535, "laneid": 31, "lanemask_lt": 2**31 - 1,
}  # fmt: skip

_BITS = {"half": 16, "bfloat": 16, "float": 32, "double": 64}

_SPACES = {"global": "ptr addrspace(1)", "shared": "ptr addrspace(3)", "const": "ptr addrspace(4)"}

_FENCES = {"block": "cta", "device": "gl", "system": "sys"}
_CLOCKS = {"cycle": "clock64", "ns": "globaltimer"}


#: Writes a fault record (``faults.py``), if no thread has done so before.
_FAULT = """
define internal void @{name}(ptr addrspace(1) %record, i32 %site, i64 %index, i64 %extent) noinline cold nounwind {{
entry:
  %seen = load atomic i32, ptr addrspace(1) %record syncscope("device") monotonic, align 4
  %early = icmp eq i32 %seen, 0
  br i1 %early, label %try, label %done
try:
  %pair = cmpxchg ptr addrspace(1) %record, i32 0, i32 %site syncscope("device") monotonic monotonic, align 4
  %won = extractvalue {{ i32, i1 }} %pair, 1
  br i1 %won, label %record.it, label %done
record.it:
{stores}  br label %done
done:
  ret void
}}
"""
_REGISTERS = tuple(f"{register}.{axis}" for register in ("tid", "ctaid") for axis in "xyz")


def _fault_text(name: str) -> str:
    lines = []
    numbers = [(f"%{register}", "i32", 8 + 4 * n) for n, register in enumerate(_REGISTERS)]
    for register in _REGISTERS:
        lines.append(f"  %{register} = call i32 @llvm.nvvm.read.ptx.sreg.{register}()")
    for value, type, offset in [*numbers, ("%index", "i64", 32), ("%extent", "i64", 40)]:
        at = f"%at.{offset}"
        lines.append(f"  {at} = getelementptr inbounds i8, ptr addrspace(1) %record, i64 {offset}")
        lines.append(f"  store {type} {value}, ptr addrspace(1) {at}")
    return _FAULT.format(name=name, stores="\n".join(lines) + "\n")


class NvptxDialect(Dialect):
    """NVIDIA GPUs. What a module may hold does not depend on the target: all from sm_75 on select the same set.

    Args:
        debug: whether indices and divisors are checked, and faults told in a record.
    """

    name = "nvptx"
    has_cache_hints = True
    triple = "nvptx64-nvidia-cuda"
    datalayout = "e-p6:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
    # What CUDA's atomicAdd means: device scope, no ordering.
    atomic_ordering = 'syncscope("device") monotonic'

    def __init__(self, *, debug: bool = False) -> None:
        self.faults = FaultTable()
        self.takes_record = debug
        if debug:
            self.checks = frozenset(("bounds", "division"))
            self.device_parameters = ("ptr addrspace(1) %record",)

    def pointer(self, space: str) -> str:
        return _SPACES.get(space, "ptr")

    def function_attributes(self, emitter: FunctionEmitter) -> str:
        ftz = ' "denormal-fp-math-f32"="preserve-sign,preserve-sign"' if emitter.options["fastmath"] else ""
        return "nounwind" + ftz

    def open_kernel(self, emitter: FunctionEmitter, symbol: str, fields: Sequence[Field]) -> list[Operand]:
        operands = [
            Operand(emitter.field_type(field), "%record" if field.part == "fault" else f"%p{n}")
            for n, field in enumerate(fields)
        ]
        attributes = self.function_attributes(emitter) + _bounds(emitter)
        group = emitter.module.text.attribute_group(attributes)
        parameters = ", ".join(operand.typed for operand in operands)
        emitter.text = emitter.module.text.function(symbol, f"define ptx_kernel void @{symbol}({parameters}) {group}")
        return operands

    def sreg(self, emitter: FunctionEmitter, register: str) -> Operand:
        low = 1 if register.startswith("n") else 0
        attributes = f"range(i32 {low}, {int_literal(_LIMITS[register] + 1, 32).text})"
        if register == "lanemask_lt":  # its limit + 1 is no i32
            return emitter.text.call("i32", "llvm.nvvm.read.ptx.sreg.lanemask.lt", nneg=True)
        name = f"llvm.nvvm.read.ptx.sreg.{register}"
        return emitter.text.call("i32", name, attributes=attributes, nneg=True)

    def barrier(self, emitter: FunctionEmitter) -> None:
        emitter.text.call("void", "llvm.nvvm.barrier.cta.sync.aligned.all", int_literal(0, 32))

    def barrier_reduce(self, emitter: FunctionEmitter, mode: str, flag: Operand) -> Operand:
        kind, name = ("i32", "popc") if mode == "count" else ("i1", mode)
        return emitter.text.call(kind, f"llvm.nvvm.barrier.cta.red.{name}.aligned.all", int_literal(0, 32), flag)

    def grid_sync(self, emitter: FunctionEmitter) -> None:
        emit_grid_sync(self, emitter)

    def syncwarp(self, emitter: FunctionEmitter, mask: Operand) -> None:
        emitter.text.call("void", "llvm.nvvm.bar.warp.sync", mask)

    def vote(self, emitter: FunctionEmitter, mode: str, mask: Operand, flag: Operand) -> Operand:
        name = "uni" if mode == "eq" else mode
        return emitter.text.call("i32" if mode == "ballot" else "i1", f"llvm.nvvm.vote.{name}.sync", mask, flag)

    def match(self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand) -> Operand:
        if mode == "any":
            return emitter.text.call("i32", f"llvm.nvvm.match.any.sync.{value.type}", mask, value)
        pair = emitter.text.call("{ i32, i1 }", f"llvm.nvvm.match.all.sync.{value.type}p", mask, value)
        return emitter.text.emit("i32", f"extractvalue {pair.typed}, 0")

    def activemask(self, emitter: FunctionEmitter) -> Operand:
        return emitter.text.call("i32", "llvm.nvvm.activemask")

    def fence(self, emitter: FunctionEmitter, scope: str) -> None:
        emitter.text.call("void", f"llvm.nvvm.membar.{_FENCES[scope]}")

    def nanosleep(self, emitter: FunctionEmitter, duration: Operand) -> None:
        emitter.text.call("void", "llvm.nvvm.nanosleep", duration)

    def clock(self, emitter: FunctionEmitter, source: str) -> Operand:
        return emitter.text.call("i64", f"llvm.nvvm.read.ptx.sreg.{_CLOCKS[source]}")

    def print(self, emitter: FunctionEmitter, text: str, values: Sequence[Operand]) -> None:
        emit_vprintf(emitter, text, values)

    def shfl(
        self, emitter: FunctionEmitter, mode: str, mask: Operand, value: Operand, lane: Operand, width: Operand
    ) -> Operand:
        text = emitter.text
        # PTX's third operand: the segment mask in bits 8 to 12, the last lane (the first for "up") in bits 0 to 4.
        last = 0 if mode == "up" else 31
        if width.constant is not None:
            clamp = int_literal(((32 - width.constant) << 8) | last, 32)
        else:
            segment = text.emit("i32", f"sub i32 32, {width.text}")
            segment = text.emit("i32", f"shl {segment.typed}, 8")
            clamp = text.emit("i32", f"or {segment.typed}, {last}")

        def exchange(word: Operand) -> Operand:
            return text.call("i32", f"llvm.nvvm.shfl.sync.{mode}.i32", mask, word, lane, clamp)

        bits = _BITS.get(value.type) or value.bits
        word = value if value.type.startswith("i") else text.emit(f"i{bits}", f"bitcast {value.typed} to i{bits}")
        if bits < 32:
            wide = text.emit("i32", f"zext {word.typed} to i32")
            found = text.emit(f"i{bits}", f"trunc {exchange(wide).typed} to i{bits}")
        elif bits == 32:
            found = exchange(word)
        else:
            pair = text.emit("<2 x i32>", f"bitcast {word.typed} to <2 x i32>")
            for index in range(2):
                half = exchange(text.emit("i32", f"extractelement {pair.typed}, i32 {index}"))
                pair = text.emit("<2 x i32>", f"insertelement {pair.typed}, {half.typed}, i32 {index}")
            found = text.emit("i64", f"bitcast {pair.typed} to i64")
        if value.type.startswith("i"):
            return found
        return text.emit(value.type, f"bitcast {found.typed} to {value.type}")

    def shared(self, emitter: FunctionEmitter, key: str, memory_type: str, count: int, align: int = 16) -> Operand:
        module = emitter.module
        # Short: a symbol's name is repeated in several sections of a cubin.
        number = module.shared.setdefault(key, len(module.shared))
        name = f"{module.symbol}_shared{number}"
        # align 16 at least: nvJitLink assembles relocatable code, so the declared alignment is all the assembler knows
        # of the address, and without it wide shared loads are lost (up to 1.7 x on a tiled matrix product).
        kind = f"[{count} x {memory_type}]"
        module.text.globals[name] = f"@{name} = internal addrspace(3) global {kind} poison, align {align}"
        return Operand("ptr addrspace(3)", f"@{name}")

    def constant(self, emitter: FunctionEmitter, data: bytes) -> Operand:
        return constant_global(emitter.module.text, emitter.module.symbol, data, "ptr addrspace(4)", "addrspace(4)")

    def spare(self, emitter: FunctionEmitter, space: str, size: int) -> Operand:
        if space == "shared":
            return self.shared(emitter, f"spare {size}", "i8", size)
        if space == "const":
            return self.constant(emitter, bytes(size))
        return super().spare(emitter, space, size)

    def dynamic_shared(self, emitter: FunctionEmitter, align: int = 16) -> tuple[Operand, Operand]:
        module = emitter.module
        name = f"{module.symbol}_dynamic"
        known = module.text.globals.get(name, "align 16")  # one memory: the most that any use of it asks for
        align = max(align, int(known.rpartition("align ")[2]))
        module.text.globals[name] = f"@{name} = external addrspace(3) global [0 x i8], align {align}"
        size = emitter.text.emit("i32", 'call i32 asm "mov.u32 $0, %dynamic_smem_size;", "=r"()', nneg=True)
        return Operand("ptr addrspace(3)", f"@{name}"), size

    def fault(self, emitter: FunctionEmitter, site: Operand, index: Operand, extent: Operand) -> None:
        module = emitter.module
        name = f"{module.symbol}_fault"
        for register in _REGISTERS:
            module.text.declare("i32", f"llvm.nvvm.read.ptx.sreg.{register}", [])
        module.text.definitions[name] = _fault_text(name)
        arguments = f"ptr addrspace(1) %record, {site.typed}, {index.typed}, {extent.typed}"
        emitter.text.do(f"call void @{name}({arguments})")

    def math(self, emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
        text, kind = emitter.text, operands[0].type
        fast = bool(emitter.options["fastmath"])
        name = function_name(function, kind, fastmath=fast)
        if name is None:
            flags = "afn " if fast and function == "sqrt" else ""
            return text.call(kind, f"llvm.{INTRINSICS[function]}.f{_BITS[kind]}", *operands, flags=flags)
        text.module.libdevice.add(name)
        return text.call(kind, name, *operands)

    def widen_brain(self, emitter: FunctionEmitter, word: Operand) -> Operand:
        return emitter.text.emit("float", f"fpext {_to_bfloat(emitter, word).typed} to float")

    def round_brain(self, emitter: FunctionEmitter, value: Operand) -> Operand:
        found = emitter.text.emit("bfloat", f"fptrunc {value.typed} to bfloat")
        return emitter.text.emit("i16", f"bitcast {found.typed} to i16")

    def brain_fma(self, emitter: FunctionEmitter, words: Sequence[Operand]) -> Operand:
        # Below sm_80 LLVM computes it in float32, where it may round onto a tie.
        found = emitter.text.call("bfloat", "llvm.fma.bf16", *(_to_bfloat(emitter, word) for word in words))
        return emitter.text.emit("i16", f"bitcast {found.typed} to i16")

    def half_fma(self, emitter: FunctionEmitter, operands: Sequence[Operand]) -> Operand:
        return emitter.text.call("half", "llvm.fma.f16", *operands)

    def as_bits(self, emitter: FunctionEmitter, value: Operand) -> Operand:
        """The bits of floats, as integers that went through a ``mov``.

        LLVM splits the store into bytes and writes ``st.global.b8 [a], %rd2`` for the lowest, %rd2 being what a
        ``mul.f64`` made. ptxas then stores that *number* as a byte (an F2I in the SASS of CUDA 13.0), not its low bits.
        """
        text = emitter.text
        if value.type.startswith("<2 x "):
            kind = value.type[5:-1]
            word = f"i{_BITS[kind]}"
            pair = Operand(f"<2 x {word}>", "poison")
            for index in range(2):
                part = text.emit(kind, f"extractelement {value.typed}, i32 {index}")
                bits = self.as_bits(emitter, part)
                pair = text.emit(pair.type, f"insertelement {pair.typed}, {bits.typed}, i32 {index}")
            return pair
        if value.type not in _BITS:
            return value
        word = f"i{_BITS[value.type]}"
        bits = text.emit(word, f"bitcast {value.typed} to {word}")
        register = _REGISTERS_OF[word]
        return text.emit(word, f'call {word} asm "mov.b{word[1:]} $0, $1;", "={register},{register}"({bits.typed})')

    def hinted_load(self, emitter: FunctionEmitter, type: str, pointer: Operand, hint: str) -> Operand:
        # LLVM has no cache operators. Volatile: two of them are two loads.
        text, bits = emitter.text, _memory_bits(type)
        word = f"i{max(bits, 16)}"
        asm = f"ld{_space(pointer)}.{hint}.b{bits} $0, [$1];"
        found = text.emit(word, f'call {word} asm sideeffect "{asm}", "={_REGISTERS_OF[word]},l"({pointer.typed})')
        if bits < 16:
            return text.emit(type, f"trunc {found.typed} to {type}")
        return found if type == word else text.emit(type, f"bitcast {found.typed} to {type}")

    def hinted_store(self, emitter: FunctionEmitter, value: Operand, pointer: Operand, hint: str) -> None:
        text, bits = emitter.text, _memory_bits(value.type)
        word = f"i{max(bits, 16)}"
        if bits < 16:
            value = text.emit(word, f"zext {value.typed} to {word}")
        elif value.type != word:
            value = text.emit(word, f"bitcast {value.typed} to {word}")
        asm = f"st{_space(pointer)}.{hint}.b{bits} [$0], $1;"
        text.do(
            f'call void asm sideeffect "{asm}", "l,{_REGISTERS_OF[word]},~{{memory}}"({pointer.typed}, {value.typed})'
        )

    def float_to_int(self, emitter: FunctionEmitter, value: Operand, bits: int, signed: bool) -> Operand:
        """PTX's own ``cvt`` saturates; it maps NaN to 0 only from float32 to 32 bits, so the rest tests for NaN."""
        text = emitter.text
        wide = max(bits, 32)
        kind = f"{'f' if value.type == 'float' else 'd'}2{'' if signed else 'u'}{'i' if wide == 32 else 'll'}"
        found = text.call(f"i{wide}", f"llvm.nvvm.{kind}.rz", value)
        if value.type == "double" or wide == 64:
            nan = text.emit("i1", f"fcmp uno {value.typed}, {float_literal(0.0, value.type).text}")
            found = text.emit(f"i{wide}", f"select {nan.typed}, i{wide} 0, {found.typed}")
        if bits < 32:
            top = (1 << (bits - 1 if signed else bits)) - 1
            sign = "s" if signed else "u"
            found = text.call("i32", f"llvm.{sign}min.i32", found, int_literal(top, 32))
            if signed:
                found = text.call("i32", "llvm.smax.i32", found, int_literal(-top - 1, 32))
            found = text.emit(f"i{bits}", f"trunc {found.typed} to i{bits}")
        return replace(found, signed=signed)


#: LLVM type -> the inline assembly constraint of a register that holds it.
_REGISTERS_OF = {"i16": "h", "i32": "r", "i64": "l"}


def _memory_bits(type: str) -> int:
    return _BITS.get(type) or int(type[1:])


def _space(pointer: Operand) -> str:
    """The state space that an access names: global, or none where it is not known."""
    return ".global" if pointer.type == "ptr addrspace(1)" else ""


def _to_bfloat(emitter: FunctionEmitter, word: Operand) -> Operand:
    return emitter.text.emit("bfloat", f"bitcast {word.typed} to bfloat")


def _bounds(emitter: FunctionEmitter) -> str:
    """Launch bounds as attributes: they reach the PTX, so they also act where the driver assembles it."""
    bounds, registers = emitter.options["launch_bounds"], emitter.options["max_registers"]
    text = ""
    if bounds is not None:
        numbers = (bounds,) if isinstance(bounds, int) else bounds
        # LLVM leaves the last out of the PTX of targets that have no clusters.
        for name, number in zip(("maxntid", "minctasm", "maxclusterrank"), numbers, strict=False):
            text += f' "nvvm.{name}"="{number}"'
    if registers is not None:
        text += f' "nvvm.maxnreg"="{registers}"'
    return text
