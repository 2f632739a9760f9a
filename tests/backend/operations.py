# SPDX-License-Identifier: Apache-2.0
"""Kernels, built by hand, that hold every operation of the typed IR on every type that it takes.

    python operations.py sm_75 sm_90a …      makes PTX of all of them for these targets; prints one line per target

LLVM ends the process on an operation that a target cannot select: the tests run this file as a child process.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from cudabuild.backend.emit import emit_module
from cudabuild.backend.nvptx import NvptxDialect
from cudabuild.backend.ptx import emit_ptx, link_libdevice, optimise_llvm, pipeline_group
from cudabuild.definition import Options
from cudabuild.ir.ir import Block, Builder, Function, Instr, Param, Value
from cudabuild.ir.ops import ATOMICS, MATH
from cudabuild.ir.ranges import compute_ranges
from cudabuild.ir.verifier import verify_function
from cudabuild.lang.cache import LOADS, STORES
from cudabuild.lang.libdevice import FUNCTIONS
from cudabuild.target import parse_target
from cudabuild.types import (
    Array,
    Boolean,
    Complex,
    DateTime,
    Float,
    Integer,
    Member,
    Record,
    Scalar,
    TimeDelta,
    Tuple,
    bfloat16,
    bool_,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    none,
    parse_signature,
    scalar_by_name,
    uint8,
    uint16,
    uint32,
    uint64,
    weak_complex,
    weak_float,
    weak_int,
)

__all__ = ["ALL_TYPES", "Kernel", "all_kernels", "emit", "make_ptx", "optimised", "rendezvous_kernel"]

INTEGERS: tuple[Scalar, ...] = (int8, int16, int32, int64, uint8, uint16, uint32, uint64, weak_int)
FLOATS: tuple[Scalar, ...] = (float16, bfloat16, float32, float64, weak_float)
COMPLEX: tuple[Complex, ...] = (complex64, complex128, weak_complex)
ALL_TYPES: tuple[Scalar, ...] = (bool_, *INTEGERS, *FLOATS)
STORED: tuple[Scalar, ...] = tuple(
    kind for kind in (*ALL_TYPES, *COMPLEX) if kind not in (weak_int, weak_float, weak_complex)
)
ATOMIC_TYPES: tuple[Scalar, ...] = (int32, uint32, int64, uint64, float16, float32, float64)
REGISTERS = [f"{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"]
REGISTERS += ["laneid", "lanemask_lt"]


class Kernel:
    """A kernel of one block, under construction: results are stored so that nothing is dead."""

    def __init__(self, name: str, *types: Scalar | Array) -> None:
        outs = [Array(kind, 1, "C") for kind in STORED]
        self.params = [Param(kind, None, f"p{n}", n) for n, kind in enumerate([*outs, *types])]
        self._outs = {str(out.dtype): param for out, param in zip(outs, self.params, strict=False)}
        self.arguments: list[Param] = self.params[len(outs) :]
        self.blocks = [Block("entry")]
        self.builder = Builder(self.blocks[0])
        self.name = name
        self._count = 0

    def const(self, value: float, type: Scalar = weak_int) -> Value:
        return self.builder.const(value, type)

    def op(self, name: str, type: Scalar | Array, *operands: Value, **attrs: object) -> Instr:
        return self.builder.emit(name, type, *operands, **attrs)

    def array(self, kind: Scalar) -> Param:
        """The output array of a type."""
        return self._outs[str(kind)]

    def keep(self, value: Value) -> None:
        """Stores a scalar at the next place of the output array of its type."""
        if value.type == weak_complex:
            for index in range(2):
                self.keep(self.op("part", weak_float, value, index=index))
            return
        kind = {"int": int64, "float": float64}.get(value.type.name, value.type)
        assert isinstance(kind, Scalar)
        if kind != value.type:
            value = self.op("cast", kind, value)
        self.op("store", none, self._outs[str(kind)], self.const(self._count), value)
        self._count += 1

    def finish(self) -> Function:
        self.builder.ret()
        function = Function(self.name, self.params, none, self.blocks, True)
        verify_function(function)
        return function


def emit(function: Function, width: int = 64, options: Options | None = None, symbol: str = "kernel") -> str:
    """The LLVM text of a kernel for NVIDIA GPUs, with libdevice."""
    options = options or Options({})
    module = emit_module(
        function,
        NvptxDialect(debug=any(instr.op == "raise" for instr in function.instructions())),
        symbol=symbol,
        index_width=width,
        ranges_of=lambda one: compute_ranges(one, index_width=width),
        options=options,
    )
    return link_libdevice(module, options)


def optimised(function: Function, width: int = 64, options: Options | None = None) -> str:
    return str(optimise_llvm(emit(function, width, options), "sm_75", 3))


def make_ptx(
    function: Function, target: str = "sm_90", width: int = 64, options: Options | None = None, level: int = 3
) -> str:
    chosen = parse_target(target)
    module = optimise_llvm(emit(function, width, options), pipeline_group(chosen), level)
    return emit_ptx(module, chosen, level)


def integer_kernel(kind: Scalar) -> Function:
    k = Kernel(f"arithmetic_{kind.name}", kind, kind, uint8, int64)
    a, b, small, large = k.arguments
    for name in ("add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor"):
        k.keep(k.op(name, kind, a, b))
    for divisor in (1, 3, 8, -1, -4) if kind.name[0] != "u" else (1, 3, 8):
        k.keep(k.op("floordiv", kind, a, k.const(divisor, kind)))
        k.keep(k.op("mod", kind, a, k.const(divisor, kind)))
    for name in ("shl", "shr"):
        for count in (b, small, large, k.const(3)):
            k.keep(k.op(name, kind, a, count))
    for name in ("neg", "inv", "abs", "brev"):
        k.keep(k.op(name, kind, a))
    for name in ("popc", "clz", "ctz"):
        k.keep(k.op(name, int32, a))
    k.keep(k.op("within", kind, a, k.const(0, kind), k.const(100, kind)))
    _compare_and_cast(k, kind, a, b)
    return k.finish()


def float_kernels(kind: Scalar) -> Iterator[Function]:
    k = Kernel(f"arithmetic_{kind.name}", kind, kind)
    a, b = k.arguments
    for name in ("add", "sub", "mul", "min", "max", "div", "fmod", "floordiv", "mod"):
        k.keep(k.op(name, kind, a, b))
    for name in ("neg", "abs"):
        k.keep(k.op(name, kind, a))
    for name in ("isnan", "isinf", "isfinite"):
        k.keep(k.op(name, bool_, a))
    _compare_and_cast(k, kind, a, b)
    yield k.finish()
    if kind == weak_float:  # the same as float64
        return
    k = Kernel(f"math_{kind.name}", kind, kind, kind, int32)
    a, b, c, n = k.arguments
    for function, count in MATH.items():
        operands: Sequence[Value] = (a, n) if function in ("ldexp", "powi") else (a, b, c)[:count]
        k.keep(k.op("math", kind, *operands, function=function))
    yield k.finish()


def libdevice_kernels() -> Iterator[Function]:
    """Every function of ``cuda.libdevice``, a kernel for each signature."""
    by_types: dict[tuple[tuple[str, ...], ...], list[str]] = {}
    for name, signature in FUNCTIONS.items():
        by_types.setdefault((tuple(signature.arguments), tuple(signature.results)), []).append(name)
    for number, names in enumerate(by_types.values()):
        signature = FUNCTIONS[names[0]]
        given = [parse_signature(name)[0] for name in signature.arguments]
        k = Kernel(f"libdevice_{number}", *given)  # type: ignore[arg-type]
        results = [scalar_by_name(name) for name in signature.results]
        for name in names:
            if len(results) == 1:
                k.keep(k.op("libdevice", results[0], *k.arguments, function=name))  # type: ignore[arg-type]
                continue
            found = k.op("libdevice", Tuple(results), *k.arguments, function=name)  # type: ignore[arg-type]
            for index, kind in enumerate(results):
                k.keep(k.op("item", kind, found, index=index))  # type: ignore[arg-type]
        yield k.finish()


def pointer_kernel() -> Function:
    """Arrays from addresses."""
    k = Kernel("pointers", uint64, weak_int)
    address, extent = k.arguments
    for kind in STORED:
        one = k.op("array_at", Array(kind, 1, "C"), address, extent)
        k.keep(k.op("load", kind, one, k.const(3)))
        for layout in "CF":
            two = k.op("array_at", Array(kind, 2, layout), address, k.const(4), extent)
            k.op("store", none, two, k.const(2), k.const(1), k.op("load", kind, one, k.const(0)))
    return k.finish()


def foreign_kernel() -> Function:
    """Functions of linked code, under both ABIs, with and without a result."""
    k = Kernel("foreign")
    kinds = [kind for kind in (bool_, *INTEGERS, float32, float64) if kind != weak_int]
    for abi in ("c", "numba"):
        for kind in kinds:
            given = k.op("load", kind, k.array(kind), k.const(0))
            k.keep(k.op("foreign", kind, given, given, symbol=f"of_{kind.name}_{abi}", abi=abi))
        k.op("foreign", none, k.const(1, int32), symbol=f"nothing_{abi}", abi=abi)
    return k.finish()


def hint_kernel() -> Function:
    """Loads and stores with every cache operator."""
    k = Kernel("cache_hints")
    for kind in (*INTEGERS[:-1], *FLOATS[:-1]):
        for load in LOADS:
            value = k.op("load", kind, k.array(kind), k.const(1), hint=load)
            k.op("store", none, k.array(kind), k.const(2), value)
        for store in STORES:
            k.op("store", none, k.array(kind), k.const(3), value, hint=store)
    return k.finish()


def bits_kernel() -> Function:
    """The bits of each number as every other type of that size."""
    numbers = [kind for kind in ALL_TYPES if kind not in (bool_, weak_int, weak_float)]
    k = Kernel("bits", *numbers)
    for value in k.arguments:
        for kind in numbers:
            if kind.size == value.type.size and kind != value.type:  # type: ignore[attr-defined]
                k.keep(k.op("retype", kind, value))
    return k.finish()


def complex_kernel(kind: Complex) -> Function:
    k = Kernel(f"complex_{kind.name}", kind, kind.part)
    z, x = k.arguments
    for index in range(2):
        k.keep(k.op("part", kind.part, z, index=index))
    k.keep(k.op("complex", kind, x, k.op("part", kind.part, z, index=0)))
    k.keep(k.op("select", kind, k.op("isnan", bool_, x), z, k.const(1.5 - 2j, kind)))
    k.keep(k.op("undef", kind))
    for array in (k.array(kind), k.op("local", Array(kind, 1, "C", space="local"), shape=(4,), key="own")):
        assert isinstance(array.type, Array)
        for index in range(2):
            parts = k.op(
                "field", Array(kind.part, 1, "A", space=array.type.space), array, offset=index * kind.part.size
            )
            k.op("store", none, parts, k.const(1), x)
            k.keep(k.op("load", kind.part, parts, k.const(0)))
            if array.type.space == "global":
                k.op("atomic", kind.part, parts, k.const(1), x, function="add")
    return k.finish()


def bool_kernel() -> Function:
    k = Kernel("arithmetic_bool", bool_, bool_)
    a, b = k.arguments
    for name in ("and", "or", "xor", "min", "max", "add", "mul", "floordiv", "mod"):
        k.keep(k.op(name, bool_, a, b))
    k.keep(k.op("inv", bool_, a))
    _compare_and_cast(k, bool_, a, b)
    return k.finish()


def _compare_and_cast(k: Kernel, kind: Scalar, a: Value, b: Value) -> None:
    for predicate in ("eq", "ne", "lt", "le", "gt", "ge"):
        k.keep(k.op("cmp", bool_, a, b, predicate=predicate))
    k.keep(k.op("select", kind, k.op("cmp", bool_, a, b, predicate="lt"), a, b))
    for target in ALL_TYPES:
        k.keep(k.op("cast", target, a))


def memory_kernel(kind: Scalar) -> Function:
    """Every layout and space, views, shuffles; atomics where the type has them."""
    arrays = [Array(kind, ndim, layout) for layout in "CFA" for ndim in (1, 2, 3)]
    k = Kernel(f"memory_{kind.name}", Array(kind, 0, "C"), *arrays, weak_int, kind)
    scalar, *others, i, value = k.arguments
    k.op("store", none, scalar, k.op("load", kind, scalar))
    for array in others:
        assert isinstance(array.type, Array)
        indices = [k.op("wrap", weak_int, i, k.op("dim", weak_int, array, axis=n)) for n in range(array.type.ndim)]
        k.op("store", none, array, *indices, k.op("load", kind, array, *indices))
        k.keep(k.op("stride", int64, array, axis=0))
        if array.type.ndim == 3:
            view = k.op("view", array.type.with_(ndim=2, layout="A"), array, i, i, i, i, axes="is-")
            k.op("store", none, view, i, i, value)
    made = [
        k.op("shared", Array(kind, 2, "C", space="shared"), shape=(4, 8), key="tile"),
        k.op("local", Array(kind, 2, "C", space="local"), shape=(4, 8), key="own"),
        k.op("dynamic_shared", Array(kind, 1, "C", space="shared")),
    ]
    for array in made:
        assert isinstance(array.type, Array)
        indices = [i] * array.type.ndim
        k.op("store", none, array, *indices, value)
        k.op("barrier", none)
        k.keep(k.op("load", kind, array, *indices[1:], k.const(1)))
        k.keep(k.op("dim", weak_int, array, axis=0))
    for mode in ("idx", "up", "down", "bfly") if isinstance(kind, (Boolean, Integer, Float)) else ():
        mask, lane = k.const(0xFFFFFFFF, uint32), k.op("cast", int32, i)
        k.keep(k.op("shfl", kind, mask, value, lane, k.const(32, int32), mode=mode))
        k.keep(k.op("shfl", kind, mask, value, k.const(1, int32), lane, mode=mode))
    if kind in ATOMIC_TYPES:
        _atomics(k, kind, others[0], made[0], others[6], i, value)
        for mode in ("any", "all") if kind.size >= 4 else ():
            k.keep(k.op("match", uint32, k.const(0xFF, uint32), value, mode=mode))
    for layout in "CFA":
        numbers = [i] * (5 if layout == "A" else 3)
        placed = k.op("array_at", Array(kind, 2, layout), *numbers, home="gpu")
        k.op("store", none, placed, i, k.op("dim", weak_int, placed, axis=1), value)
    constant = k.op("constant", Array(kind, 2, "C", True, "const"), shape=(2, 3), data="01" * 6 * kind.size)
    k.keep(k.op("load", kind, constant, i, i))
    return k.finish()


def record_kernel() -> Function:
    """Fields of records in every memory, aligned and not; times; other axes and element types of one memory."""
    inner = Record([Member("x", float32, 0), Member("y", float64, 4, (2, 3))], 52)
    record = Record([Member("a", int8, 0), Member("b", inner, 1), Member("t", DateTime("D"), 53)], 61)
    arrays = [Array(record, ndim, layout) for ndim in (0, 1, 2) for layout in "CFA"]
    k = Kernel("records", *arrays, Array(float32, 2, "C"), weak_int, DateTime("D"), TimeDelta("s"))
    *others, matrix, i, date, span = k.arguments
    made = [
        k.op(space, Array(record, 1, "C", space=space), shape=(3,), key=f"records {space}")
        for space in ("shared", "local")
    ]
    for base in [*others, *made, k.op("dynamic_shared", Array(record, 1, "C", space="shared"))]:
        assert isinstance(base.type, Array)
        ndim, space, indices = base.type.ndim, base.type.space, [i] * base.type.ndim
        place = k.op("view", base.type.with_(ndim=0, layout="C"), base, *indices, axes="i" * ndim)
        for one, around in ((base, indices), (place, [])):
            layout = "A" if around else "C"
            nested = k.op("field", Array(inner, len(around), layout, space=space, packed=1), one, offset=1)
            kind = Array(float64, len(around) + 2, layout, space=space, packed=1)
            part = k.op("field", kind, nested, offset=4, shape=(2, 3))
            k.keep(k.op("load", float64, part, *around, i, i))
            k.op("store", none, part, *around, i, i, k.const(1.0, float64))
            k.keep(k.op("dim", weak_int, part, axis=len(around)))
            when = k.op("field", Array(DateTime("D"), len(around), layout, space=space, packed=1), one, offset=53)
            k.keep(k.op("retype", int64, k.op("load", DateTime("D"), when, *around)))
            k.op("store", none, when, *around, date)
        k.keep(k.op("address", weak_int, place))
    k.keep(k.op("retype", int64, span))
    turned = k.op("transpose", Array(float32, 2, "F"), matrix, order=(1, 0))
    k.keep(k.op("load", float32, turned, i, i))
    k.keep(k.op("load", float32, k.op("transpose", Array(float32, 3, "A"), matrix, order=(1, -1, 0)), i, i, i))
    doubles = k.op("reshape", Array(float64, 1, "C"), matrix, i)
    k.keep(k.op("load", float64, doubles, i))
    k.keep(k.op("load", float32, k.op("reshape", Array(float32, 3, "C"), turned_back(k, turned), i, i, i), i, i, i))
    return k.finish()


def turned_back(k: Kernel, turned: Value) -> Value:
    """A transposed matrix transposed once more."""
    assert isinstance(turned.type, Array)
    return k.op("transpose", turned.type.with_(layout="C"), turned, order=(1, 0))


def _atomics(k: Kernel, kind: Scalar, array: Value, tile: Value, strided: Value, i: Value, value: Value) -> None:
    is_unsigned = isinstance(kind, Integer) and not kind.signed
    for function, wanted in ATOMICS.items():
        if wanted == "number" or is_unsigned or (wanted == "integer" and isinstance(kind, Integer)):
            k.keep(k.op("atomic", kind, array, i, value, function=function))
            k.keep(k.op("atomic", kind, tile, i, i, value, function=function))
            k.op("atomic", kind, strided, i, value, function=function)
    k.keep(k.op("atomic_cas", kind, array, i, k.op("load", kind, array, i), value))
    k.keep(k.op("atomic_cas", kind, tile, i, i, value, value))


def thread_kernel() -> Function:
    k = Kernel("threads", int64)
    for register in REGISTERS:
        k.keep(k.op("sreg", int32, register=register))
    for axis in range(3):
        k.keep(k.op("grid", weak_int, axis=axis))
        k.keep(k.op("gridsize", weak_int, axis=axis))
    return k.finish()


def rendezvous_kernel() -> Function:
    """Where threads wait for one another, order what others see, pause, and read clocks."""
    k = Kernel("rendezvous", bool_, uint32)
    flag, mask = k.arguments
    k.keep(k.op("barrier_reduce", int32, flag, mode="count"))
    for mode in ("and", "or"):
        k.keep(k.op("barrier_reduce", bool_, flag, mode=mode))
    for lanes in (mask, k.const(0xFFFFFFFF, uint32)):
        k.op("syncwarp", none, lanes)
        for mode in ("all", "any", "eq"):
            k.keep(k.op("vote", bool_, lanes, flag, mode=mode))
        k.keep(k.op("vote", uint32, lanes, flag, mode="ballot"))
    k.keep(k.op("activemask", uint32))
    for scope in ("block", "device", "system"):
        k.op("fence", none, scope=scope)
    for source in ("cycle", "ns"):
        k.keep(k.op("clock", int64, source=source))
    k.op("nanosleep", none, mask)
    wide = k.op("cast", uint64, mask)
    k.op("print", none, wide, flag, *[wide] * 33, text="%llu %s" + " %llu" * 33 + "%%")
    k.op("print", none, text="nothing")
    k.op("grid_sync", none)
    return k.finish()


def device_function(kind: Scalar) -> Function:
    """``(x, y) -> (min, max)`` by a branch, so that calls, tuples, items, phis and returns have their place."""
    from cudabuild.types import Tuple

    pair = Tuple((kind, kind))
    x, y = (Param(kind, None, name, n) for n, name in enumerate("xy"))
    entry, swap, done = Block("entry"), Block("b1"), Block("b2")
    b = Builder(entry)
    ordered = b.emit("tuple", pair, x, y)
    left, right = (b.emit("part", kind.part, z, index=0) for z in (x, y)) if isinstance(kind, Complex) else (x, y)
    b.branch(b.emit("cmp", bool_, left, right, predicate="le"), done, swap)
    b = Builder(swap)
    swapped = b.emit("tuple", pair, y, x)
    b.jump(done)
    b = Builder(done)
    b.ret(b.emit("phi", pair, ordered, swapped))
    return Function("ordered", [x, y], pair, [entry, swap, done], False)


def call_kernel(kind: Scalar) -> Function:
    k = Kernel(f"calls_{kind.name}", kind, kind)
    a, b = k.arguments
    callee = device_function(kind)
    whole = k.op("call", callee.result, a, b, callee=callee)  # type: ignore[arg-type]
    k.keep(k.op("item", kind, whole, index=0))
    k.keep(k.op("item", kind, whole, index=1))
    k.keep(k.op("undef", kind))
    return k.finish()


def fault_kernel() -> Function:
    """Everything that ``debug=True`` checks; ``raise`` stands in debug kernels only."""
    k = Kernel("faults", weak_int, int32, uint8)
    index, divisor, small = k.arguments
    element = k.op("load", int32, k.array(int32), index)
    k.keep(k.op("floordiv", int32, element, divisor))
    k.keep(k.op("mod", uint8, small, small))
    k.op("raise", none, exception="builtins:ValueError", message="so it goes")
    return k.finish()


def all_kernels() -> list[Function]:
    """Every operation on every type."""
    found = [bool_kernel(), thread_kernel(), rendezvous_kernel(), fault_kernel(), record_kernel()]
    found += map(integer_kernel, INTEGERS)
    found += [kernel for kind in FLOATS for kernel in float_kernels(kind)]
    found.append(bits_kernel())
    found += [complex_kernel(kind) for kind in COMPLEX if kind != weak_complex]
    found += [*libdevice_kernels(), hint_kernel(), pointer_kernel(), foreign_kernel()]
    found += [memory_kernel(kind) for kind in STORED]
    found += [call_kernel(kind) for kind in (*ALL_TYPES, *COMPLEX)]
    assert all(isinstance(kind, (Boolean, Float, Integer)) for kind in ALL_TYPES)
    return found


def main(names: list[str]) -> None:
    targets = [parse_target(name) for name in names]
    kernels, fastmath = all_kernels(), Options({"fastmath": True})
    exact = [(f.name, emit(f)) for f in kernels]
    fast = [(f"{f.name} fast", emit(f, options=fastmath)) for f in kernels if "float" in f.name]
    for group in sorted({pipeline_group(target) for target in targets}):
        modules = [(name, optimise_llvm(text, group, 1)) for name, text in exact + fast]
        for target in targets:
            if pipeline_group(target) == group:
                for name, module in modules if target == targets[0] else modules[: len(exact)]:
                    print(f"{target} {name}", file=sys.stderr, flush=True)  # the last line names what ended the process
                    text = emit_ptx(module, target, 1)
                    assert f".target {target.processor}" in text, text[:200]
                print(f"{target} ok", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
