# SPDX-License-Identifier: Apache-2.0
"""Arrays to LLVM text: extents, strides, wrapped indices, addresses, views, shared and local arrays, atomics.

In the 32-bit variant the offset of an n-d access is computed in i32 with ``nsw`` and widened at the end; the launch
has checked that every offset fits. A 1-d index stays at 64 bits: truncating it would break pointer induction.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from cudabuild.backend.dialects import Access
from cudabuild.backend.faults import checked_access, checked_view
from cudabuild.backend.text import Operand, int_literal, replace
from cudabuild.ir.extents import is_of_row
from cudabuild.types import Array, Boolean, BrainFloat, CharSeq, Complex, Float, Integer, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.emit import FunctionEmitter
    from cudabuild.ir.ir import Instr, Value

__all__ = ["ROWS", "Parts", "byte_strides", "step", "within_row"]


class Parts:
    """The leaves of an array value.

    Attributes:
        type: the array's.
        pointer, shape, strides: of the array; strides are in bytes and there for layout A only.
    """

    def __init__(self, e: FunctionEmitter, value: Value) -> None:
        assert isinstance(value.type, Array)
        self.type = value.type
        leaves = e.leaves[value]
        self.pointer = leaves[0]
        self.shape = [replace(leaf, nneg=True) for leaf in leaves[1 : 1 + self.type.ndim]]
        self.strides = leaves[1 + self.type.ndim :]


def _memory_type(array: Array) -> str:
    kind = array.dtype
    if isinstance(kind, Boolean):
        return "i8"
    if isinstance(kind, BrainFloat):
        return "i16"
    if isinstance(kind, Float):
        return {16: "half", 32: "float", 64: "double"}[kind.bits]
    if isinstance(kind, Complex):
        return f"<2 x {'float' if kind.part.bits == 32 else 'double'}>"
    if isinstance(kind, (Record, CharSeq)):  # never loaded as a whole
        return f"[{kind.size} x i8]"
    return f"i{kind.size * 8}"


def _dim(e: FunctionEmitter, instr: Instr) -> Operand:
    return Parts(e, instr.operands[0]).shape[int(instr.attrs["axis"])]


def _stride(e: FunctionEmitter, instr: Instr) -> Operand:
    return byte_strides(e, Parts(e, instr.operands[0]))[int(instr.attrs["axis"])]


def byte_strides(e: FunctionEmitter, parts: Parts) -> list[Operand]:
    """Byte strides of any array; those that follow from its extents are computed in 64 bits."""
    array = parts.type
    if array.layout == "A":
        return list(parts.strides)
    order = range(array.ndim) if array.layout == "F" else range(array.ndim - 1, -1, -1)
    strides = [int_literal(0, 64)] * array.ndim
    step = int_literal(array.dtype.size, 64)
    for position, axis in enumerate(order):
        strides[axis] = step
        if position + 1 < array.ndim:
            step = _times(e, step, e.convert(parts.shape[axis], 64))
    return strides


def _times(e: FunctionEmitter, a: Operand, b: Operand) -> Operand:
    if a.constant is not None and b.constant is not None:
        return int_literal(a.constant * b.constant, a.bits)
    if 1 in (a.constant, b.constant):
        return b if a.constant == 1 else a
    nneg = a.nneg and b.nneg
    return e.text.emit(a.type, f"mul {'nuw ' if nneg else ''}nsw {a.typed}, {b.text}", nneg=nneg)


def _plus(e: FunctionEmitter, a: Operand, b: Operand) -> Operand:
    if 0 in (a.constant, b.constant):
        return b if a.constant == 0 else a
    nneg = a.nneg and b.nneg
    return e.text.emit(a.type, f"add {'nuw ' if nneg else ''}nsw {a.typed}, {b.text}", nneg=nneg)


def _wrap(e: FunctionEmitter, instr: Instr) -> Operand:
    """Adds the extent to a negative index; nothing where the index cannot be negative."""
    index, extent = instr.operands
    low, high = e.range_of(index)
    if low >= 0:
        return e.scalar(index)
    bits = 32 if e.fits32(index) and e.fits32(extent) else 64
    x, n = e.integer(index, bits), e.integer(extent, bits)
    moved = e.text.emit(x.type, f"add nsw {x.typed}, {n.text}")
    if high >= 0:
        below = e.text.emit("i1", f"icmp slt {x.typed}, 0")
        moved = e.text.emit(x.type, f"select {below.typed}, {moved.typed}, {x.typed}")
    return replace(moved, nneg=e.ranges.nonnegative(instr))


def _access(e: FunctionEmitter, instr: Instr, indices: Sequence[Value], value: Operand | None = None) -> Access:
    parts = Parts(e, instr.operands[0])
    operands = [e.scalar(index) for index in indices]
    return Access(
        instr,
        parts.type,
        operands,
        parts.shape,
        _memory_type(parts.type),
        lambda: _address(e, parts, operands),
        value,
    )


def _offset_bits(e: FunctionEmitter, parts: Parts) -> int:
    array = parts.type
    if array.layout == "A":
        return 32 if e.index_bits == 32 and all(s.type == "i32" or s.constant == 0 for s in parts.strides) else 64
    if array.ndim == 1:
        return 64
    return 32 if e.index_bits == 32 or array.space in ("shared", "local", "const") else 64


def _address(e: FunctionEmitter, parts: Parts, indices: Sequence[Operand]) -> Operand:
    """The address of the element at ``indices``."""
    array, pointer = parts.type, parts.pointer
    if array.ndim == 0:
        return pointer
    bits = _offset_bits(e, parts)
    if array.layout == "A":
        unit = "i8"
        offset = int_literal(0, bits)
        for index, stride in zip(indices, parts.strides, strict=True):
            offset = _plus(e, offset, _times(e, e.convert(index, bits), e.convert(stride, bits)))
    else:
        unit = _memory_type(array)
        axes = list(range(array.ndim)) if array.layout == "C" else list(range(array.ndim - 1, -1, -1))
        offset = e.convert(indices[axes[0]], bits)
        for axis in axes[1:]:
            row = _times(e, offset, e.convert(parts.shape[axis], bits))
            offset = _plus(e, row, e.convert(indices[axis], bits))
    # Sign extension even where the offset cannot be negative: LLVM moves constants out of ``sext(add nsw x, -1)`` into
    # the access's immediate offset, out of ``zext`` it does not.
    return step(e, pointer, unit, e.convert(replace(offset, nneg=False), 64))


def step(e: FunctionEmitter, pointer: Operand, unit: str, offset: Operand) -> Operand:
    """``pointer`` moved by ``offset`` (i64) times the size of the LLVM type ``unit``."""
    if offset.constant == 0:
        return pointer
    return e.text.emit(pointer.type, f"getelementptr inbounds {unit}, {pointer.typed}, {offset.typed}")


def _load(e: FunctionEmitter, instr: Instr) -> Operand | Sequence[Operand]:
    access = _access(e, instr, instr.operands[1:])
    kind = access.memory_type
    hint = instr.attrs.get("hint")
    if hint is not None and e.dialect.has_cache_hints:
        value = checked_access(e, access, lambda pointer: e.dialect.hinted_load(e, kind, pointer, hint))
    else:
        value = checked_access(
            e, access, lambda pointer: e.text.emit(kind, f"load {kind}, {pointer.typed}, align {access.align}")
        )
    assert value is not None
    if isinstance(instr.type, Boolean):
        return e.text.emit("i1", f"icmp ne {value.typed}, 0")
    if isinstance(instr.type, Complex):
        part = kind[5:-1]
        return [e.text.emit(part, f"extractelement {value.typed}, i32 {index}") for index in range(2)]
    return e.integer_result(instr, value) if isinstance(instr.type, Integer) else value


def _store(e: FunctionEmitter, instr: Instr) -> None:
    value = _memory_value(e, instr.operands[-1])
    access = _access(e, instr, instr.operands[1:-1], value)
    if access.array.packed:
        value = e.dialect.as_bits(e, value)
    hint = instr.attrs.get("hint")
    if hint is not None and e.dialect.has_cache_hints:
        checked_access(e, access, lambda pointer: e.dialect.hinted_store(e, value, pointer, hint))
        return
    checked_access(e, access, lambda pointer: e.text.do(f"store {value.typed}, {pointer.typed}, align {access.align}"))


def _memory_value(e: FunctionEmitter, value: Value) -> Operand:
    operand = e.scalar(value)
    if isinstance(value.type, Complex):
        pair = Operand(f"<2 x {operand.type}>", "poison")
        for index, part in enumerate(e.leaves[value]):
            pair = e.text.emit(pair.type, f"insertelement {pair.typed}, {part.typed}, i32 {index}")
        return pair
    if isinstance(value.type, Boolean):
        return e.text.emit("i8", f"zext {operand.typed} to i8")
    return e.integer(value, value.type.bits) if isinstance(value.type, Integer) else operand


def _view(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    base, result = Parts(e, instr.operands[0]), instr.type
    assert isinstance(result, Array)
    ok = checked_view(e, instr, _view_indices(base, instr))
    if result.ndim == 0 and ok is None:
        pointer = _address(e, base, [e.scalar(index) for index in instr.operands[1:]])
        return [e.coerce(pointer, e.dialect.pointer(result.space))]
    strides = byte_strides(e, base)
    offset = int_literal(0, 64)
    shape: list[Operand] = []
    steps: list[Operand] = []
    operands = iter(instr.operands[1:])
    for axis, letter in enumerate(instr.attrs["axes"]):
        if letter == "-":
            shape.append(base.shape[axis])
            steps.append(strides[axis])
            continue
        first = e.integer(next(operands), 64)
        stride = e.convert(strides[axis], 64)
        if letter == "i" and ok is not None:
            first = e.text.emit("i64", f"select {ok.typed}, {first.typed}, i64 0")
        offset = _plus(e, offset, _times(e, first, stride))
        if letter == "s":
            steps.append(_times(e, e.integer(next(operands), 64), stride))
            length = replace(e.integer(next(operands), e.index_bits), nneg=True)
            shape.append(within_row(e, instr.operands[0], base.shape[axis], length))
    if ok is not None:  # of a row that is not there, nothing is: every later access tells too, and touches nothing
        shape = [e.text.emit(n.type, f"select {ok.typed}, {n.typed}, {n.type} 0", nneg=True) for n in shape]
    pointer = step(e, base.pointer, "i8", offset)
    pointer = e.coerce(pointer, e.dialect.pointer(result.space))
    if ok is not None and result.ndim == 0:  # of an element that is not there: a place that nothing else uses
        spare = e.dialect.spare(e, result.space, result.dtype.size)
        pointer = e.text.emit(pointer.type, f"select {ok.typed}, {pointer.typed}, {spare.typed}")
    return [pointer, *shape, *(steps if result.layout == "A" else ())]


def within_row(e: FunctionEmitter, base: Value, extent: Operand, length: Operand) -> Operand:
    """The length of a slice of ``base``; 0 where that is a row that is not there, which has an ``extent`` of 0."""
    if "bounds" not in e.dialect.checks or not is_of_row(base):
        return length
    empty = e.text.emit("i1", f"icmp eq {extent.typed}, 0")
    return e.text.emit(length.type, f"select {empty.typed}, {length.type} 0, {length.typed}", nneg=True)


def _view_indices(base: Parts, instr: Instr) -> list[tuple[int, Value, Operand]]:
    """Axis, index and extent for every axis that a view indexes."""
    found = []
    at = 1
    for axis, letter in enumerate(instr.attrs["axes"]):
        if letter == "i":
            found.append((axis, instr.operands[at], base.shape[axis]))
        at += {"i": 1, "s": 3, "-": 0}[letter]
    return found


def _made(e: FunctionEmitter, instr: Instr, pointer: Operand) -> Sequence[Operand]:
    return [pointer, *(int_literal(extent, e.index_bits) for extent in instr.attrs["shape"])]


def _shared(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    assert isinstance(instr.type, Array)
    count = prod(instr.attrs["shape"])
    align = instr.attrs.get("align", 16)
    return _made(e, instr, e.dialect.shared(e, str(instr.attrs["key"]), _memory_type(instr.type), count, align))


def _local(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    assert isinstance(instr.type, Array)
    align = instr.attrs.get("align", 16)
    memory = e.dialect.local(e, _memory_type(instr.type), prod(instr.attrs["shape"]), instr.type.dtype.size, align)
    return _made(e, instr, e.coerce(memory, e.dialect.pointer("local")))


def _dynamic_shared(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    assert isinstance(instr.type, Array)
    pointer, size = e.dialect.dynamic_shared(e, instr.attrs.get("align", 16))
    count = e.text.emit(size.type, f"udiv {size.typed}, {instr.type.dtype.size}", nneg=True)
    return [pointer, e.convert(count, e.index_bits)]


def _atomic(e: FunctionEmitter, instr: Instr) -> Operand:
    """The old value. Floating min and max are loops of compare-and-swap that end early where nothing changes."""
    value = _memory_value(e, instr.operands[-1])
    access = _access(e, instr, instr.operands[1:-1], value)
    old = checked_access(e, access, lambda pointer: _update(e, instr, access, pointer, value))
    assert old is not None
    return e.integer_result(instr, old) if isinstance(instr.type, Integer) else old


#: Functions of ``atomic`` -> LLVM's operation, where it is not of that name.
_UPDATES = {"exch": "xchg", "inc": "uinc_wrap", "dec": "udec_wrap", "nanmin": "min", "nanmax": "max"}


def _update(e: FunctionEmitter, instr: Instr, access: Access, pointer: Operand, value: Operand) -> Operand:
    function = instr.attrs["function"]
    opcode = _UPDATES.get(function, function)
    if isinstance(instr.type, Float):
        if opcode in ("min", "max"):
            return _float_min_max(e, pointer, value, function, access.align)
        if function == "sub":  # the same rounding, and one instruction where a subtraction would be a loop
            value = e.text.emit(value.type, f"fneg {value.typed}")
        opcode = {"add": "fadd", "sub": "fadd"}.get(function, opcode)
    else:
        assert isinstance(instr.type, Integer)
        opcode = "u" + opcode if opcode in ("min", "max") and not instr.type.signed else opcode
    text = f"atomicrmw {opcode} {pointer.typed}, {value.typed} {e.dialect.atomic_ordering}, align {access.align}"
    return e.text.emit(value.type, text)


def _atomic_cas(e: FunctionEmitter, instr: Instr) -> Operand:
    wanted, value = (_memory_value(e, operand) for operand in instr.operands[-2:])
    access = _access(e, instr, instr.operands[1:-2], value)

    def swap(pointer: Operand) -> Operand:
        if isinstance(instr.type, Integer):
            return _compare_and_swap(e, pointer, wanted, value, access.align)[0]
        bits = f"i{8 * access.align}"
        words = [e.text.emit(bits, f"bitcast {word.typed} to {bits}") for word in (wanted, value)]
        found = _compare_and_swap(e, pointer, words[0], words[1], access.align)[0]
        return e.text.emit(value.type, f"bitcast {found.typed} to {value.type}")

    old = checked_access(e, access, swap)
    assert old is not None
    return e.integer_result(instr, old) if isinstance(instr.type, Integer) else old


def _compare_and_swap(
    e: FunctionEmitter, pointer: Operand, wanted: Operand, value: Operand, align: int
) -> tuple[Operand, Operand]:
    """The old integer, and whether it was replaced."""
    order = f"{e.dialect.atomic_ordering} monotonic"
    text = f"cmpxchg {pointer.typed}, {wanted.typed}, {value.typed} {order}, align {align}"
    pair = e.text.emit(f"{{ {value.type}, i1 }}", text)
    found = e.text.emit(value.type, f"extractvalue {pair.typed}, 0")
    return found, e.text.emit("i1", f"extractvalue {pair.typed}, 1")


def _constant(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    return _made(e, instr, e.dialect.constant(e, bytes.fromhex(instr.attrs["data"])))


def _float_min_max(e: FunctionEmitter, pointer: Operand, value: Operand, function: str, align: int) -> Operand:
    """``array[i] = min(array[i], value)``. A NaN value changes nothing; ``nan…`` replaces a NaN element."""
    text = e.text
    bits = {"half": "i16", "float": "i32", "double": "i64"}[value.type]
    before = text.current.label
    test, swap, done = (text.name(hint) for hint in ("atomic", "swap", "done"))
    wanted = text.emit(bits, f"bitcast {value.typed} to {bits}")
    first = text.emit(bits, f"load atomic {bits}, {pointer.typed} {e.dialect.atomic_ordering}, align {align}")
    before = text.current.label
    text.jump(test)
    text.start(test)
    seen = Operand(bits, f"%{text.name('seen')}")
    old = text.emit(value.type, f"bitcast {seen.typed} to {value.type}")
    better = text.emit("i1", f"fcmp {'olt' if function.endswith('min') else 'ogt'} {value.typed}, {old.text}")
    if function.startswith("nan"):
        gap = text.emit("i1", f"fcmp uno {old.typed}, {old.text}")
        number = text.emit("i1", f"fcmp ord {value.typed}, {value.text}")
        better = text.emit("i1", f"or {better.typed}, {text.emit('i1', f'and {gap.typed}, {number.text}').text}")
    text.branch(better, swap, done)
    text.start(swap)
    found, won = _compare_and_swap(e, pointer, seen, wanted, align)
    text.branch(won, done, test)
    loop = next(block for block in text.blocks if block.label == test)
    loop.phis.append(f"  {seen.text} = phi {bits} [ {first.text}, %{before} ], [ {found.text}, %{swap} ]")
    text.start(done)
    return old


ROWS: dict[str, Callable[[FunctionEmitter, Instr], Operand | Sequence[Operand] | None]] = {
    "dim": _dim,
    "stride": _stride,
    "wrap": _wrap,
    "load": _load,
    "store": _store,
    "view": _view,
    "shared": _shared,
    "local": _local,
    "dynamic_shared": _dynamic_shared,
    "constant": _constant,
    "atomic": _atomic,
    "atomic_cas": _atomic_cas,
}
