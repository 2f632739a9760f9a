# SPDX-License-Identifier: Apache-2.0
"""Typed IR to LLVM text.

Before::

    kernel saxpy(a: float32, x: float32[::1])
    entry:
      %0: int = grid axis=0
      %1: int = dim %x axis=0
      %2: bool = cmp %0, %1 predicate=lt

After (NVPTX, 32-bit variant)::

    define ptx_kernel void @saxpy_1f(float %p0, ptr addrspace(1) %p1, i32 %p2) #0 {
    entry:
      %v1 = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
      …
      %v6 = icmp slt i32 %v5, %p2

Every IR value is a list of LLVM values, its leaves: one for a scalar; pointer, extents and (layout A) strides for an
array; those of its elements for a tuple. A 64-bit integer whose range fits 32 bits is *kept* as an i32 and widened
where a wider one is asked for: nothing narrows 64-bit counters once LLVM has them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from cudabuild.backend import arithmetic, faults, foreign_calls, libdevice_calls, memory, printing, views
from cudabuild.backend.contraction import find_fused
from cudabuild.backend.debug_info import DebugInfo
from cudabuild.backend.edges import Edges
from cudabuild.backend.text import FunctionText, ModuleText, Operand, float_literal, int_literal, replace
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.ir.cfg import reverse_postorder
from cudabuild.ir.ir import Block, Function, Instr, Value
from cudabuild.types import (
    Array,
    Boolean,
    BrainFloat,
    Complex,
    DateTime,
    Float,
    Integer,
    NoneType,
    Scalar,
    TimeDelta,
    Tuple,
    Type,
)
from cudabuild.types.brain import brain_bits
from cudabuild.types.layout import Field, parameter_fields

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.dialects import Dialect
    from cudabuild.ir.bounds import IndexBounds

    Row = Callable[["FunctionEmitter", Instr], "Operand | Sequence[Operand] | None"]

__all__ = ["FunctionEmitter", "RangeFacts", "emit_module", "llvm_type", "memory_type"]


class RangeFacts(Protocol):
    """What is known of a function's integers; ``ir/ranges.py`` computes it.

    ``block`` adds what the branches taken to get there say.
    """

    def of(self, value: Value) -> tuple[int, int]:
        """Inclusive bounds of an integer value."""
        ...

    def at(self, value: Value, block: Block) -> tuple[int, int]: ...

    def nonnegative(self, value: Value, block: Block | None = None) -> bool: ...

    def fits32(self, value: Value, block: Block | None = None) -> bool: ...

    def exact(self, instr: Instr) -> bool:
        """True if the operation never wraps."""
        ...

    def turns(self, header: Block) -> int | None:
        """How often control goes back to a loop's header for one entry, at most; None if unknown."""
        ...


def llvm_type(type: Type) -> str:
    """The LLVM type of a scalar in a register."""
    if isinstance(type, Boolean):
        return "i1"
    if isinstance(type, Integer):
        return f"i{type.bits}"
    if isinstance(type, (DateTime, TimeDelta)):
        return "i64"
    assert isinstance(type, Float), type
    return "i16" if isinstance(type, BrainFloat) else {16: "half", 32: "float", 64: "double"}[type.bits]


def memory_type(type: Type) -> str:
    """The LLVM type of a scalar in memory."""
    if isinstance(type, Complex):
        return f"<2 x {llvm_type(type.part)}>"
    return "i8" if isinstance(type, Boolean) else llvm_type(type)


@dataclass
class ModuleEmitter:
    """One module: a kernel and the device functions that it reaches."""

    text: ModuleText
    dialect: Dialect
    index_bits: int
    options: Options
    ranges_of: Callable[[Function], RangeFacts]
    symbol: str
    device_names: dict[Function, str]
    shared: dict[str, int] = field(default_factory=dict)  #: numbers of the shared arrays, by key


def emit_module(
    function: Function,
    dialect: Dialect,
    *,
    symbol: str,
    index_width: int,
    ranges_of: Callable[[Function], RangeFacts],
    options: Options = DEFAULT_OPTIONS,
) -> ModuleText:
    """The LLVM module of ``function``: a kernel, or a device function for others to call.

    Args:
        function: verified typed IR; operations that ``dialect`` cannot select must have been refused already.
        symbol: the entry point's name.
        index_width: 32 or 64, the variant.
        ranges_of: range facts of the kernel and of each device function.
    """
    text = ModuleText(dialect.triple, dialect.datalayout)
    names = {callee: f"{symbol}_device{n}" for n, callee in enumerate(function.callees)}
    module = ModuleEmitter(text, dialect, index_width, options, ranges_of, symbol, names)
    for callee in function.callees:
        FunctionEmitter(module, callee).run_device()
    emitter = FunctionEmitter(module, function)
    if function.is_kernel:
        emitter.run_kernel()
    else:
        emitter.run_device(exported=True)
    return text


class FunctionEmitter:
    """Lowers one function. ``text`` is where dialects append.

    Attributes:
        text, dialect, options, index_bits, module: what is being written and how.
        instr: the instruction being lowered.
        fused: additions of which a product is part -> which operand it is (``contraction.py``).
        fast: fast-math flags with a trailing space, for operations on floats.
    """

    text: FunctionText

    def __init__(self, module: ModuleEmitter, function: Function) -> None:
        self.module = module
        self.function = function
        self.dialect = module.dialect
        self.options = module.options
        self.index_bits = module.index_bits
        self.ranges = module.ranges_of(function)
        self.fast = "nsz arcp contract afn reassoc " if module.options["fastmath"] else ""
        contracts = bool(module.options["fma"]) and not self.fast
        self.fused = find_fused(function) if contracts and self.dialect.fuses else {}
        if contracts and not self.dialect.decides_contraction:
            self.fast = "contract "
        self.leaves: dict[Value, tuple[Operand, ...]] = {}
        self.block = function.blocks[0]
        self.instr: Instr | None = None
        self.index_bounds: IndexBounds | None = None  #: made by ``faults.py`` for the first check
        self._debug: DebugInfo | None = None
        self.edges = Edges(self)
        self._converted: dict[tuple[str, int, str], Operand] = {}
        self._converted_in: object = None

    # -- whole functions

    def run_kernel(self) -> None:
        types = tuple(param.type for param in self.function.params)
        fields = parameter_fields(types, self.index_bits, fault=self.dialect.takes_record)
        operands = self.dialect.open_kernel(self, self.module.symbol, fields)
        for param in self.function.params:
            own = [
                self._field_value(part, operand, self._part_type(param.type, part))
                for part, operand in zip(fields, operands, strict=True)
                if part.argument == param.index
            ]
            self.leaves[param] = tuple(own)
        self._body()
        self.dialect.close_kernel(self)
        self.edges.complete_phis()

    def run_device(self, *, exported: bool = False) -> None:
        name = self.module.symbol if exported else self.module.device_names[self.function]
        parameters = list(self.dialect.device_parameters)
        for param in self.function.params:
            operands = [
                Operand(type, f"%p{len(parameters) + n}", signed)
                for n, (type, signed) in enumerate(self.signed_leaves(param.type))
            ]
            parameters += [operand.typed for operand in operands]
            self.leaves[param] = tuple(operands)
        inlined = "" if exported else "alwaysinline "
        group = self.module.text.attribute_group(inlined + self.dialect.function_attributes(self))
        linkage = "" if exported else "internal "
        header = f"define {linkage}{self.result_type()} @{name}({', '.join(parameters)}) {group}"
        self.text = self.module.text.function(name, header)
        self._body()
        self.edges.complete_phis()

    def _body(self) -> None:
        if self.options["lineinfo"]:
            symbol = self.module.device_names.get(self.function, self.module.symbol)
            self._debug = DebugInfo(self.module.text, self.text, self.function.name, symbol, self.function.location)
            self.text.debug = self._debug.attachment(self.function.location)
        order = reverse_postorder(self.function)
        for number, block in enumerate(order):
            self.edges.labels[block] = f"b{number}"
        self.text.jump(self.edges.labels[order[0]])
        for block in order:
            self.text.start(self.edges.labels[block])
            self.block = block
            for phi in block.phis:
                self._begin_phi(phi)
            self.dialect.enter_block(self)
            for instr in block.instructions:
                if instr.is_end and self.dialect.leave_block(self):
                    continue
                if instr.op != "phi":
                    self.lower(instr)
            self.edges.exits[block] = self.text.current

    def _begin_phi(self, phi: Instr) -> None:
        """Names the leaves of a phi; their operands are written when all blocks are."""
        leaves = [Operand(type, f"%{self.text.name('phi')}", signed) for type, signed in self.signed_leaves(phi.type)]
        if isinstance(phi.type, Integer):
            kept = "i32" if leaves[0].type == "i64" and self.ranges.fits32(phi) else leaves[0].type
            leaves = [self.integer_result(phi, replace(leaves[0], type=kept))]
        self.leaves[phi] = tuple(leaves)

    def lower(self, instr: Instr) -> None:
        """Appends one instruction, and keeps its leaves."""
        if self._debug is not None:
            self.text.debug = self._debug.attachment(instr.location)
        self.instr = instr
        result = _ROWS[instr.op](self, instr)
        if result is not None:
            self.leaves[instr] = (result,) if isinstance(result, Operand) else tuple(result)

    # -- values and types

    def leaf_types(self, type: Type) -> list[str]:
        """The LLVM types that a value of ``type`` is passed as between blocks and functions."""
        if isinstance(type, Array):
            strides = type.ndim if type.layout == "A" else 0
            index = f"i{self.index_bits}"
            return [self.dialect.pointer(type.space), *[index] * type.ndim, *["i64"] * strides]
        if isinstance(type, Tuple):
            return [leaf for element in type.elements for leaf in self.leaf_types(element)]
        if isinstance(type, Complex):
            return [llvm_type(type.part)] * 2
        return [] if isinstance(type, NoneType) else [llvm_type(type)]

    def field_type(self, field: Field) -> str:
        """The LLVM type of a field of the parameter block."""
        names = {"P": self.dialect.pointer("global"), "e": "half", "f": "float", "d": "double"}
        return names.get(field.format, f"i{8 * field.size}")

    def scalar(self, value: Value) -> Operand:
        """The operand of a scalar, at the width it is kept in."""
        return self.leaves[value][0]

    def integer(self, value: Value, bits: int) -> Operand:
        """The integer ``value`` at ``bits`` bits; narrowing keeps the low bits."""
        return self.convert(self.scalar(value), bits)

    def convert(self, operand: Operand, bits: int) -> Operand:
        """An integer operand widened as its sign says, or truncated."""
        if operand.bits == bits:
            return operand
        if operand.constant is not None:
            value = operand.constant if operand.signed else operand.constant & ((1 << operand.bits) - 1)
            return int_literal(value, bits)
        if self._converted_in is not self.text.current:
            self._converted_in = self.text.current
            self._converted.clear()
        narrows = operand.bits > bits
        how = "trunc" if narrows else "zext nneg" if operand.nneg else "sext" if operand.signed else "zext"
        key = (operand.text, bits, how)
        found = self._converted.get(key)
        if found is None:
            nneg = not narrows and how != "sext"
            found = self.text.emit(f"i{bits}", f"{how} {operand.typed} to i{bits}", nneg=nneg)
            self._converted[key] = found
        return found

    def coerce(self, operand: Operand, type: str) -> Operand:
        """``operand`` as LLVM type ``type``: integers change width, pointers address space."""
        if operand.type == type:
            return operand
        if type.startswith("ptr"):
            return self.text.emit(type, f"addrspacecast {operand.typed} to {type}")
        return self.convert(operand, int(type[1:]))

    def fits32(self, value: Value) -> bool:
        """True if an integer value is at least −2³¹ and below 2³¹ in the block being written."""
        return self.ranges.fits32(value, self.block)

    def range_of(self, value: Value) -> tuple[int, int]:
        """Inclusive bounds of an integer value in the block being written."""
        return self.ranges.at(value, self.block)

    def bits_for(self, instr: Instr, *values: Value) -> int:
        """The width to compute an integer operation on ``values`` in."""
        type = values[0].type
        if isinstance(type, Boolean):
            return 1
        assert isinstance(type, Integer)
        if type.bits != 64:
            return type.bits
        wanted = (*values, instr) if isinstance(instr.type, Integer) else values
        return 32 if all(self.fits32(value) for value in wanted) else 64

    def result(self, instr: Instr, text: str, bits: int) -> Operand:
        """Appends an integer operation of width ``bits`` that computes ``instr``."""
        return self.integer_result(instr, self.text.emit(f"i{bits}", text))

    def integer_result(self, instr: Instr, operand: Operand) -> Operand:
        """``operand`` with the signs of ``instr``'s type and range."""
        if operand.type == "i1":
            return operand
        signed = self.is_signed(instr.type, operand.type)
        nneg = self.ranges.of(instr)[1] < 1 << (operand.bits - 1) and self.ranges.nonnegative(instr)
        return replace(operand, signed=signed, nneg=nneg)

    def is_signed(self, type: Type, kept: str = "") -> bool:
        """Whether a scalar widens by its sign; one kept narrower than its type is in the signed range."""
        return not isinstance(type, Integer) or type.signed or (kept == "i32" and type.bits == 64)

    def signed_leaves(self, type: Type) -> list[tuple[str, bool]]:
        """The LLVM types of a value's leaves, each with how it widens."""
        return [(leaf, self.is_signed(kind)) for kind in _leaf_kinds(type) for leaf in self.leaf_types(kind)]

    def _part_type(self, type: Type, field: Field) -> Type:
        for index in field.path:
            assert isinstance(type, Tuple)
            type = type.elements[index]
        return type

    def _field_value(self, field: Field, operand: Operand, type: Type) -> Operand:
        if field.part == "value" and isinstance(type, Boolean):
            return self.text.emit("i1", f"icmp ne {operand.typed}, 0")
        signed = not (field.part == "value" and isinstance(type, Integer) and not type.signed)
        return replace(operand, signed=signed, nneg=field.part == "shape")

    def result_type(self) -> str:
        """The LLVM type that a device function returns."""
        types = self.leaf_types(self.function.result)
        return "void" if not types else types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"

    # -- rows that concern the function as a whole

    def label(self, block: Block) -> str:
        """Where the block that is being written goes in order to come to ``block``."""
        return self.edges.label(self.block, block)

    def emit_return(self, instr: Instr) -> None:
        if self.function.is_kernel:
            self.dialect.kernel_return(self)
            return
        types = self.leaf_types(self.function.result)
        if not types:
            self.text.end("ret void")
            return
        leaves = [self.coerce(leaf, t) for leaf, t in zip(self.leaves[instr.operands[0]], types, strict=True)]
        if len(leaves) == 1:
            self.text.end(f"ret {leaves[0].typed}")
            return
        whole = Operand(self.result_type(), "poison")
        for index, leaf in enumerate(leaves):
            whole = self.text.emit(whole.type, f"insertvalue {whole.typed}, {leaf.typed}, {index}")
        self.text.end(f"ret {whole.typed}")

    def emit_call(self, instr: Instr) -> Sequence[Operand]:
        callee: Function = instr.attrs["callee"]
        args = list(self.dialect.device_parameters)
        for value, param in zip(instr.operands, callee.params, strict=True):
            for leaf, type in zip(self.leaves[value], self.leaf_types(param.type), strict=True):
                args.append(self.coerce(leaf, type).typed)
        types = self.leaf_types(callee.result)
        result = "void" if not types else types[0] if len(types) == 1 else "{ " + ", ".join(types) + " }"
        text = f"call {result} @{self.module.device_names[callee]}({', '.join(args)})"
        if not types:
            self.text.do(text)
            self.dialect.called(self, callee)
            return ()
        whole = self.text.emit(result, text)
        self.dialect.called(self, callee)
        if len(types) == 1:
            return (replace(whole, signed=self.is_signed(callee.result)),)
        return self._split(whole, callee.result)

    def _split(self, whole: Operand, type: Type) -> list[Operand]:
        return [
            self.text.emit(leaf, f"extractvalue {whole.typed}, {index}", signed=signed)
            for index, (leaf, signed) in enumerate(self.signed_leaves(type))
        ]


def _leaf_kinds(type: Type) -> list[Type]:
    """The scalars and arrays inside ``type``, in order."""
    if isinstance(type, Tuple):
        return [kind for element in type.elements for kind in _leaf_kinds(element)]
    return [type]


def _const(e: FunctionEmitter, instr: Instr) -> Operand | Sequence[Operand]:
    value = instr.attrs["value"]
    if isinstance(instr.type, Complex):
        return [float_literal(part, llvm_type(instr.type.part)) for part in (value.real, value.imag)]
    return _literal(e, instr, value)


def _literal(e: FunctionEmitter, instr: Instr, value: Any) -> Operand:
    type = instr.type
    if isinstance(type, BrainFloat):
        return int_literal(brain_bits(value), 16)
    if isinstance(type, Float):
        return float_literal(float(value), llvm_type(type))
    bits = 1 if isinstance(type, Boolean) else type.size * 8 if isinstance(type, Scalar) else 64
    if bits == 64 and -(1 << 31) <= value < 1 << 31:
        bits = 32
    operand = int_literal(int(value), bits)
    return replace(operand, signed=e.is_signed(type, operand.type))


def _undef(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    # Zero rather than undef: a kernel that reads the value after all gets a defined result on every device.
    zeros = []
    for kind in _leaf_kinds(instr.type):
        for type in e.leaf_types(kind):
            if type.startswith("i"):
                zeros.append(int_literal(0, int(type[1:])))
            else:
                zeros.append(Operand(type, "null" if type.startswith("ptr") else float_literal(0.0, type).text))
    return zeros


def _complex(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    return [e.scalar(part) for part in instr.operands]


def _part(e: FunctionEmitter, instr: Instr) -> Operand:
    index: int = instr.attrs["index"]
    return e.leaves[instr.operands[0]][index]


def _tuple(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    return [leaf for value in instr.operands for leaf in e.leaves[value]]


def _item(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    whole = instr.operands[0].type
    assert isinstance(whole, Tuple)
    index = instr.attrs["index"]
    first = sum(len(e.leaf_types(element)) for element in whole.elements[:index])
    return e.leaves[instr.operands[0]][first : first + len(e.leaf_types(whole.elements[index]))]


def _select(e: FunctionEmitter, instr: Instr) -> Sequence[Operand]:
    condition, a, b = instr.operands
    test = e.scalar(condition).typed
    if isinstance(instr.type, (Integer, Boolean)):
        bits = e.bits_for(instr, a, b)
        return [e.result(instr, f"select {test}, {e.integer(a, bits).typed}, {e.integer(b, bits).typed}", bits)]
    results = []
    for (type, signed), x, y in zip(e.signed_leaves(instr.type), e.leaves[a], e.leaves[b], strict=True):
        text = f"select {test}, {e.coerce(x, type).typed}, {e.coerce(y, type).typed}"
        results.append(e.text.emit(type, text, signed=signed))
    return results


def _sreg(e: FunctionEmitter, instr: Instr) -> Operand:
    return replace(e.dialect.sreg(e, instr.attrs["register"]), nneg=True)


def _grid(e: FunctionEmitter, instr: Instr) -> Operand:
    """``ntid`` is read first: the assembler then keeps the block size in a uniform register."""
    axis = "xyz"[instr.attrs["axis"]]
    size = e.dialect.sreg(e, f"ntid.{axis}")
    bits = 32 if e.index_bits == 32 else 64
    flags = "nuw nsw" if bits == 64 else "nsw"
    if instr.op == "gridsize":
        count = e.dialect.sreg(e, f"nctaid.{axis}")
        x, y = (e.convert(replace(o, nneg=True), bits) for o in (size, count))
        return replace(e.text.emit(x.type, f"mul {flags} {x.typed}, {y.text}"), nneg=True)
    block = e.dialect.sreg(e, f"ctaid.{axis}")
    x, y = (e.convert(replace(o, nneg=True), bits) for o in (size, block))
    start = e.text.emit(x.type, f"mul {flags} {x.typed}, {y.text}")
    thread = e.convert(replace(e.dialect.sreg(e, f"tid.{axis}"), nneg=True), bits)
    return replace(e.text.emit(x.type, f"add {flags} {start.typed}, {thread.text}"), nneg=True)


def _barrier(e: FunctionEmitter, instr: Instr) -> None:
    e.dialect.barrier(e)


def _shfl(e: FunctionEmitter, instr: Instr) -> Operand:
    mask, value, lane, width = instr.operands
    kept = e.scalar(value)
    if isinstance(value.type, Integer):
        kept = e.integer(value, value.type.bits)
    found = e.dialect.shfl(e, instr.attrs["mode"], e.integer(mask, 32), kept, e.integer(lane, 32), e.integer(width, 32))
    return replace(found, signed=e.is_signed(instr.type))


def _barrier_reduce(e: FunctionEmitter, instr: Instr) -> Operand:
    found = e.dialect.barrier_reduce(e, instr.attrs["mode"], e.scalar(instr.operands[0]))
    return replace(found, nneg=True) if found.type == "i32" else found  # an i1 of 1 is negative


def _vote(e: FunctionEmitter, instr: Instr) -> Operand:
    mask, flag = instr.operands
    found = e.dialect.vote(e, instr.attrs["mode"], e.integer(mask, 32), e.scalar(flag))
    return e.integer_result(instr, found)


def _match(e: FunctionEmitter, instr: Instr) -> Operand:
    mask, value = instr.operands
    if isinstance(value.type, Integer):
        word = e.integer(value, value.type.bits)
    else:
        assert isinstance(value.type, Float)  # of at least 32 bits
        word = e.text.emit(f"i{value.type.bits}", f"bitcast {e.scalar(value).typed} to i{value.type.bits}")
    return e.integer_result(instr, e.dialect.match(e, instr.attrs["mode"], e.integer(mask, 32), word))


def _jump(e: FunctionEmitter, instr: Instr) -> None:
    e.text.jump(e.label(instr.attrs["target"]))


def _branch(e: FunctionEmitter, instr: Instr) -> None:
    e.text.branch(e.scalar(instr.operands[0]), e.label(instr.attrs["then"]), e.label(instr.attrs["else"]))


_ROWS: dict[str, Row] = {
    **arithmetic.ROWS,
    **libdevice_calls.ROWS,
    **memory.ROWS,
    **faults.ROWS,
    **printing.ROWS,
    **views.ROWS,
    "const": _const,
    "undef": _undef,
    "complex": _complex,
    "part": _part,
    "tuple": _tuple,
    "item": _item,
    "select": _select,
    "sreg": _sreg,
    "grid": _grid,
    "gridsize": _grid,
    "barrier": _barrier,
    "barrier_reduce": _barrier_reduce,
    "grid_sync": lambda e, instr: e.dialect.grid_sync(e),
    "syncwarp": lambda e, instr: e.dialect.syncwarp(e, e.integer(instr.operands[0], 32)),
    "vote": _vote,
    "match": _match,
    "activemask": lambda e, instr: e.integer_result(instr, e.dialect.activemask(e)),
    "fence": lambda e, instr: e.dialect.fence(e, instr.attrs["scope"]),
    "nanosleep": lambda e, instr: e.dialect.nanosleep(e, e.integer(instr.operands[0], 32)),
    "clock": lambda e, instr: e.integer_result(instr, e.dialect.clock(e, instr.attrs["source"])),
    "shfl": _shfl,
    "jump": _jump,
    "branch": _branch,
    "return": lambda e, instr: e.emit_return(instr),
    "call": lambda e, instr: e.emit_call(instr),
    **foreign_calls.ROWS,
}
