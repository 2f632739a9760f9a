# SPDX-License-Identifier: Apache-2.0
"""Every scalar operation gives the language's defined result, at the edges of every type, after LLVM's optimiser."""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable

import pytest
from host_run import run_on_host
from hypothesis import given, settings
from hypothesis import strategies as st
from operations import INTEGERS, Kernel

from cudabuild.backend.arithmetic import overflow_flags
from cudabuild.ir.ir import Block, Builder, Function, Param, Value
from cudabuild.types import (
    Array,
    Integer,
    Scalar,
    Tuple,
    bool_,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    none,
    uint8,
    uint16,
    uint32,
    uint64,
    weak_int,
)

Build = Callable[[Kernel, Value, Value], Value]
Expect = Callable[[int, int, int], int]


def wrap(value: int, kind: Scalar) -> int:
    """``value`` as an integer of ``kind``."""
    assert isinstance(kind, Integer)
    value &= (1 << kind.bits) - 1
    return value - (1 << kind.bits) if kind.signed and value >> (kind.bits - 1) else value


def shift_left(a: int, count: int, bits: int) -> int:
    return a << count if 0 <= count < bits else 0


def shift_right(a: int, count: int, bits: int) -> int:
    return a >> count if 0 <= count < bits else (-1 if a < 0 else 0)


def binary(op: str) -> Build:
    return lambda k, a, b: k.op(op, a.type, a, b)  # type: ignore[arg-type]


def compare(predicate: str) -> Build:
    return lambda k, a, b: k.op("cmp", bool_, a, b, predicate=predicate)


BINARY: dict[str, tuple[Build, Expect]] = {
    "add": (binary("add"), lambda a, b, bits: a + b),
    "sub": (binary("sub"), lambda a, b, bits: a - b),
    "mul": (binary("mul"), lambda a, b, bits: a * b),
    "min": (binary("min"), lambda a, b, bits: min(a, b)),
    "max": (binary("max"), lambda a, b, bits: max(a, b)),
    "and": (binary("and"), lambda a, b, bits: a & b),
    "or": (binary("or"), lambda a, b, bits: a | b),
    "xor": (binary("xor"), lambda a, b, bits: a ^ b),
    "floordiv": (binary("floordiv"), lambda a, b, bits: a // b if b else 0),
    "mod": (binary("mod"), lambda a, b, bits: a % b if b else 0),
    "shl": (binary("shl"), shift_left),
    "shr": (binary("shr"), shift_right),
    "neg": (lambda k, a, b: k.op("neg", a.type, a), lambda a, b, bits: -a),  # type: ignore[arg-type]
    "inv": (lambda k, a, b: k.op("inv", a.type, a), lambda a, b, bits: ~a),  # type: ignore[arg-type]
    "abs": (lambda k, a, b: k.op("abs", a.type, a), lambda a, b, bits: abs(a)),  # type: ignore[arg-type]
    "lt": (compare("lt"), lambda a, b, bits: a < b),
    "le": (compare("le"), lambda a, b, bits: a <= b),
    "gt": (compare("gt"), lambda a, b, bits: a > b),
    "ge": (compare("ge"), lambda a, b, bits: a >= b),
    "eq": (compare("eq"), lambda a, b, bits: a == b),
    "ne": (compare("ne"), lambda a, b, bits: a != b),
    "select": (
        lambda k, a, b: k.op("select", a.type, k.op("cmp", bool_, a, b, predicate="gt"), a, b),  # type: ignore[arg-type]
        lambda a, b, bits: a if a > b else b,
    ),
}


def two_operand_kernel(kind: Scalar, builds: list[Build], constants: tuple[int, ...] = ()) -> Function:
    """``out[i] = build_i(a, b)``, all as int64; then, for each constant c, ``build_i(a, c)``."""
    k = Kernel("two", Array(int64, 1, "C"), kind, kind)
    out, a, b = k.arguments
    k.params[:] = [out, a, b]
    for index, param in enumerate(k.params):
        param.index = index
    pairs = [(a, b)] + [(a, k.const(c, kind)) for c in constants]
    for index, (build, (x, y)) in enumerate((build, pair) for pair in pairs for build in builds):
        k.op("store", none, out, k.const(index), k.op("cast", int64, build(k, x, y)))
    return k.finish()


def edges(kind: Scalar) -> list[int]:
    assert isinstance(kind, Integer)
    low, high = (-(1 << (kind.bits - 1)), (1 << (kind.bits - 1)) - 1) if kind.signed else (0, (1 << kind.bits) - 1)
    values = {low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 8, 15, 31, 32, 63, 64, 100, high // 2, -1, -2, -3, -8, -100}
    return sorted(value for value in values if low <= value <= high)


def check(kind: Scalar, width: int, values: list[int]) -> None:
    constants = tuple(c for c in (1, 3, 8, -1, -4, 31, 33) if wrap(c, kind) == c)
    function = two_operand_kernel(kind, [build for build, _ in BINARY.values()], constants)
    run = run_on_host(function, width)
    out = (ctypes.c_int64 * (len(BINARY) * (1 + len(constants))))()
    bits = kind.size * 8
    for a in values:
        for b in values:
            run(ctypes.addressof(out), len(out), a, b)
            expected = [
                wrap(wrap(int(expect(a, y, bits)), kind), int64)
                for y in (b, *constants)
                for _, expect in BINARY.values()
            ]
            names = [f"{name} {a} {y}" for y in (b, *constants) for name in BINARY]
            assert dict(zip(names, out, strict=True)) == dict(zip(names, expected, strict=True))


@pytest.mark.parametrize("kind", INTEGERS, ids=str)
def test_integer_operations_are_python_wrapped_to_the_type(kind: Scalar) -> None:
    check(kind, 64, edges(kind))


def test_a_weak_int_of_the_32_bit_variant_still_computes_in_64_bits() -> None:
    check(weak_int, 32, [value for value in edges(weak_int) if wrap(value, int32) == value] + edges(int32))


@pytest.mark.parametrize("source", INTEGERS, ids=str)
def test_integer_casts_wrap(source: Scalar) -> None:
    targets = [int8, int16, int32, int64, uint8, uint16, uint32, uint64, weak_int]
    builds = [lambda k, a, b, t=t: k.op("cast", t, a) for t in targets]
    run = run_on_host(two_operand_kernel(source, builds))
    out = (ctypes.c_int64 * len(targets))()
    for value in edges(source):
        run(ctypes.addressof(out), len(out), value, 0)
        assert list(out) == [wrap(wrap(value, target), int64) for target in targets]


def test_shift_counts_of_any_type_shift_everything_out() -> None:
    for count_type, counts in ((uint8, [0, 1, 31, 32, 255]), (int64, [-1, 0, 5, 31, 32, 63, 64, 1 << 40])):
        k = Kernel("shifts", Array(int64, 1, "C"), int32, count_type)
        out, a, b = k.arguments
        k.params[:] = [out, a, b]
        for index, param in enumerate(k.params):
            param.index = index
        for index, op in enumerate(("shl", "shr")):
            k.op("store", none, out, k.const(index), k.op("cast", int64, k.op(op, int32, a, b)))
        run = run_on_host(k.finish())
        results = (ctypes.c_int64 * 2)()
        for value in (-(1 << 31), -5, 0, 5, (1 << 31) - 1):
            for count in counts:
                run(ctypes.addressof(results), 2, value, count)
                assert list(results) == [wrap(shift_left(value, count, 32), int32), shift_right(value, count, 32)]


def float_floordiv(a: float, b: float) -> float:
    """What NumPy gives: Python's result, and ±inf or NaN where Python raises."""
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a) * math.copysign(1, b)
    if math.isinf(a) or math.isnan(a) or math.isnan(b):
        return math.nan
    return a // b


def float_mod(a: float, b: float) -> float:
    return math.nan if b == 0 or math.isinf(a) or math.isnan(a) or math.isnan(b) else a % b


def python_min(a: float, b: float) -> float:
    return b if b < a else a


def python_max(a: float, b: float) -> float:
    return b if b > a else a


FLOAT_VALUES = [0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 7.0, -7.0, 3.25, 1e30, -1e30, math.inf, -math.inf, math.nan]


@pytest.mark.parametrize("kind", [float32, float64], ids=str)
def test_float_operations(kind: Scalar) -> None:
    expect: dict[str, Callable[[float, float], float]] = {
        "floordiv": float_floordiv,
        "mod": float_mod,
        "min": python_min,
        "max": python_max,
    }
    k = Kernel("floats", Array(kind, 1, "C"), kind, kind)
    out, a, b = k.arguments
    k.params[:] = [out, a, b]
    for index, param in enumerate(k.params):
        param.index = index
    for index, op in enumerate(expect):
        k.op("store", none, out, k.const(index), k.op(op, kind, a, b))
    run = run_on_host(k.finish())
    code = "f" if kind == float32 else "d"
    results = ((ctypes.c_float if kind == float32 else ctypes.c_double) * len(expect))()
    for x in FLOAT_VALUES:
        for y in FLOAT_VALUES:
            run(ctypes.addressof(results), len(results), x, y)
            exact = [struct.unpack(code, struct.pack(code, v))[0] for v in (x, y)]
            for (name, function), found in zip(expect.items(), results, strict=True):
                wanted = struct.unpack(code, struct.pack(code, function(*exact)))[0]
                if math.isnan(wanted):
                    same = math.isnan(found)
                else:
                    same = found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
                assert same, f"{name}({x}, {y}) = {found}, expected {wanted}"


def test_float_to_integer_saturates_and_nan_is_zero() -> None:
    targets = [int8, int16, int32, int64, uint8, uint16, uint32, uint64]
    k = Kernel("casts", Array(int64, 1, "C"), float64)
    out, a = k.arguments
    k.params[:] = [out, a]
    for index, param in enumerate(k.params):
        param.index = index
    for index, target in enumerate(targets):
        k.op("store", none, out, k.const(index), k.op("cast", int64, k.op("cast", target, a)))
    run = run_on_host(k.finish())
    results = (ctypes.c_int64 * len(targets))()
    for value in (0.0, -0.9, 1.9, -1.9, 127.5, 255.9, 256.0, -129.0, 1e10, -1e10, 1e30, -1e30, math.inf, -math.inf):
        run(ctypes.addressof(results), len(results), value)
        expected = []
        for target in targets:
            low, high = edges(target)[0], edges(target)[-1]
            whole = high if value == math.inf else low if value == -math.inf else min(max(int(value), low), high)
            expected.append(wrap(whole, int64))
        assert list(results) == expected, value
    run(ctypes.addressof(results), len(results), math.nan)
    assert list(results) == [0] * len(targets)


@pytest.mark.parametrize("op", ["add", "sub", "mul"])
@given(
    a=st.tuples(st.integers(-140, 140), st.integers(-140, 140)).map(sorted),
    b=st.tuples(st.integers(-140, 140), st.integers(-140, 140)).map(sorted),
)
@settings(max_examples=60, deadline=None)
def test_overflow_flags_promise_nothing_false(op: str, a: list[int], b: list[int]) -> None:
    """Every value is tried, at 8 bits: a flag may stand only where no pair overflows."""
    flags = overflow_flags(op, (a[0], a[1]), (b[0], b[1]), 8)
    apply = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}[op]
    results = [apply(x, y) for x in {*range(a[0], a[1] + 1, 7), a[1]} for y in {*range(b[0], b[1] + 1, 7), b[1]}]
    if "nsw" in flags:
        assert all(-128 <= value <= 127 for value in [*results, *a, *b])
    if "nuw" in flags:
        assert all(0 <= value <= 255 for value in [*results, *a, *b])


def test_unsigned_elements_of_tuples_stay_unsigned() -> None:
    """Through phis, selects, calls, parameters and results."""
    pair = Tuple((uint32, uint8))
    p, q = Param(pair, None, "p", 0), Param(pair, None, "q", 1)
    entry, other, done = Block("entry"), Block("b1"), Block("b2")
    b = Builder(entry)
    first = b.emit("item", uint32, p, index=0)
    b.branch(b.emit("cmp", bool_, first, b.const(5, uint32), predicate="eq"), other, done)
    Builder(other).jump(done)
    b = Builder(done)
    b.ret(b.emit("phi", pair, p, q))
    callee = Function("pick", [p, q], pair, [entry, other, done], False)
    k = Kernel("tuples", Array(int64, 1, "C"), uint32, uint8)
    out, x, y = k.arguments
    k.params[:] = k.arguments
    for index, param in enumerate(k.params):
        param.index = index
    made = k.op("tuple", pair, x, y)  # type: ignore[arg-type]
    called = k.op("call", pair, made, made, callee=callee)  # type: ignore[arg-type]
    chosen = k.op("select", pair, k.op("cmp", bool_, x, x, predicate="ne"), made, called)  # type: ignore[arg-type]
    for index, kind in enumerate((uint32, uint8)):
        element = k.op("item", kind, chosen, index=index)
        k.op("store", none, out, k.const(index), k.op("cast", int64, element))
    run = run_on_host(k.finish())
    results = (ctypes.c_int64 * 2)()
    run(ctypes.addressof(results), 2, 0xFFFFFFFF, 0xFF)
    assert list(results) == [0xFFFFFFFF, 0xFF]


def expressions(depth: int) -> st.SearchStrategy[tuple[object, ...]]:
    """Trees over two small weak ints, mixing operations that keep values narrow with some that do not."""
    leaves = st.one_of(
        st.sampled_from([("a",), ("b",), ("dim",)]), st.integers(-40, 3000).map(lambda value: ("const", value))
    )
    ops = st.sampled_from(["add", "sub", "mul", "min", "max", "floordiv", "mod", "and", "or", "xor", "shl", "shr"])
    if depth == 0:
        return leaves
    inner = expressions(depth - 1)
    return st.one_of(leaves, st.tuples(ops, inner, inner), st.tuples(st.sampled_from(["neg", "abs", "inv"]), inner))


def build_tree(k: Kernel, tree: tuple[object, ...], names: dict[str, Value]) -> Value:
    head = tree[0]
    if head == "const":
        return k.const(tree[1])  # type: ignore[arg-type]
    if isinstance(head, str) and head in names:
        return names[head]
    operands = [build_tree(k, part, names) for part in tree[1:]]  # type: ignore[arg-type]
    return k.op(str(head), weak_int, *operands)


def evaluate(tree: tuple[object, ...], names: dict[str, int]) -> int:
    head = str(tree[0])
    if head == "const":
        assert isinstance(tree[1], int)
        return tree[1]
    if head in names:
        return names[head]
    operands = [evaluate(part, names) for part in tree[1:]]  # type: ignore[arg-type]
    return wrap(int(BINARY[head][1](operands[0], operands[-1], 64)), weak_int)


@given(tree=expressions(4), width=st.sampled_from([32, 64]), pairs=st.lists(
    st.tuples(st.integers(-(1 << 31), (1 << 31) - 1), st.integers(0, 255), st.integers(0, 5000)), min_size=3, max_size=8
))  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_narrowed_expressions_equal_64_bit_ones(
    tree: tuple[object, ...], width: int, pairs: list[tuple[int, int, int]]
) -> None:
    """What is kept in 32 bits, by whatever range was proved, equals Python's integers wrapped to 64 bits."""
    k = Kernel("tree", Array(int64, 1, "C"), weak_int, uint8)
    out, a, b = k.arguments
    k.params[:] = [out, a, b]
    for index, param in enumerate(k.params):
        param.index = index
    names = {"a": a, "b": k.op("cast", weak_int, b), "dim": k.op("dim", weak_int, out, axis=0)}
    k.op("store", none, out, k.const(0), k.op("cast", int64, build_tree(k, tree, names)))
    run = run_on_host(k.finish(), width)
    result = (ctypes.c_int64 * 1)()
    for x, y, n in pairs:
        run(ctypes.addressof(result), n, x, y)
        assert result[0] == evaluate(tree, {"a": x, "b": y, "dim": n}), (tree, x, y, n)
