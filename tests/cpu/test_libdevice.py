# SPDX-License-Identifier: Apache-2.0
"""libdevice on the host: every operation that it asks of a GPU, against exact arithmetic."""

from __future__ import annotations

import ctypes
import math
import re
from fractions import Fraction
from functools import cache

import numpy as np
import pytest
from exact import (
    arithmetic,
    from_integer,
    high_log2,
    high_power,
    high_sine,
    round_to,
    square_root,
    to_integer,
)
from libdevice_names import read_names
from ulp import same_bits, ulp_distance

from cudabuild.backend import llvm
from cudabuild.cpu import libdevice as hosted
from cudabuild.cpu import nvvm

TYPES = {"float": np.float32, "double": np.float64, "i32": np.int32, "i64": np.int64, "i16": np.int16}
MODES = ("rn", "rz", "rm", "rp")
COUNT = 160


OPERATIONS = sorted(read_names()[1])


def shape_of(name):
    """The LLVM types of an operation: of its result (two of them for a pair), and of its operands."""
    result, parameters, _ = nvvm.TABLE[name if name in nvvm.TABLE else name.replace(".ftz", "")]
    results = result.strip("{ }").split(", ")
    return results, [part.split()[0] for part in parameters.split(", ")]


@cache
def load_operations():
    """Addresses by operation: each a function of a count, arrays of operands, and arrays of results."""
    texts, exports, needed = [], {}, {}
    for number, name in enumerate(OPERATIONS):
        waiting = [name]
        while waiting:
            one = waiting.pop()
            if one not in needed:
                needed[one], needs = nvvm.define(one)
                waiting += needs
        results, types = shape_of(name)
        result = results[0] if len(results) == 1 else f"{{ {results[0]}, {results[1]} }}"
        loads = "".join(
            f"  %p{n} = getelementptr {type}, ptr %in{n}, i64 %i\n  %x{n} = load {type}, ptr %p{n}\n"
            for n, type in enumerate(types)
        )
        call = f"  %r = call {result} @{name}({', '.join(f'{type} %x{n}' for n, type in enumerate(types))})\n"
        stores = ""
        for n, type in enumerate(results):
            value = "%r" if len(results) == 1 else f"%r{n}"
            call += "" if len(results) == 1 else f"  %r{n} = extractvalue {result} %r, {n}\n"
            stores += f"  %q{n} = getelementptr {type}, ptr %out{n}, i64 %i\n  store {type} {value}, ptr %q{n}\n"
        arrays = [f"ptr %in{n}" for n in range(len(types))] + [f"ptr %out{n}" for n in range(len(results))]
        exports[name] = f"test{number}"
        texts.append(
            f"define void @test{number}(i64 %n, {', '.join(arrays)}) {{\nentry:\n  br label %loop\nloop:\n"
            f"  %i = phi i64 [ 0, %entry ], [ %next, %loop ]\n{loads}{call}{stores}"
            "  %next = add i64 %i, 1\n  %more = icmp ult i64 %next, %n\n  br i1 %more, label %loop, label %end\n"
            "end:\n  ret void\n}\n"
        )
    machine = llvm.host_machine(2)
    text = f'target triple = "{llvm.host_triple()}"\n' + "".join(needed.values()) + "".join(texts)
    module = llvm.parse_module(text)
    llvm.optimise_module(module, machine, 2, vectorise=True)
    library = llvm.load_object("host.operations", llvm.emit_object(module, machine), list(exports.values()), {})
    return library, {name: library.address(symbol) for name, symbol in exports.items()}


def run(name, *operands):
    """What the host's definition of an operation gives, elementwise: an array, or a pair of them."""
    results, _ = shape_of(name)
    out = [np.empty(len(operands[0]), TYPES[type]) for type in results]
    arrays = [*operands, *out]
    call = ctypes.CFUNCTYPE(None, ctypes.c_int64, *[ctypes.c_void_p] * len(arrays))(load_operations()[1][name])
    call(len(operands[0]), *[array.ctypes.data for array in arrays])
    return out[0] if len(out) == 1 else out


def floats(dtype, seed, count=COUNT):
    """Every kind of number, the edges of each in all pairs with the next seed, and some near each other."""
    info, random_ = np.finfo(dtype), np.random.default_rng(seed)
    kind = np.dtype(f"i{info.bits // 8}")
    edges = [0.0, info.smallest_subnormal, info.smallest_normal, 0.5, 1.0, 1.5, 2.5, 3.0, info.max, np.inf, np.nan]
    edges = np.array(edges, dtype)
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    anything = random_.integers(low, high, count, kind, endpoint=True).view(dtype)
    middle = (random_.standard_normal(count) * 2.0 ** random_.integers(-8, 8, count)).astype(dtype)
    tiny = (random_.integers(1, 1 << 20, count // 4) * float(info.smallest_subnormal)).astype(dtype)
    found = np.concatenate([edges, -edges, anything, middle, tiny, -tiny])
    return random_.permutation(np.concatenate([found, np.nextafter(edges[1:9], dtype(0))]))


def integers(dtype, seed):
    info, random_ = np.iinfo(dtype), np.random.default_rng(seed)
    anything = random_.integers(info.min, info.max, COUNT, dtype, endpoint=True)
    small = anything >> random_.integers(0, info.bits, COUNT).astype(dtype)
    powers = [1 << n for n in range(info.bits - 1)]
    edges = [
        0,
        info.max,
        info.min,
        -1,
        *powers,
        *[p + 1 for p in powers],
        *[p - 1 for p in powers],
        *[-p for p in powers],
    ]
    halves = [(3 << n) + d for n in range(info.bits - 3) for d in (-1, 0, 1)]
    return np.concatenate([anything, small, np.array([*edges, *halves], dtype)])


def cases(types, seed=1):
    columns = [
        floats(TYPES[type], seed + n) if type in ("float", "double") else integers(TYPES[type], seed + n)
        for n, type in enumerate(types)
    ]
    length = max(map(len, columns))
    return [np.resize(column, length) for column in columns]


def flush(value):
    if isinstance(value, np.float32) and abs(value) < np.finfo(np.float32).smallest_normal:
        return np.float32(math.copysign(0.0, value))
    return value


def signed(value, bits):
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def unsigned(value, bits):
    return int(value) & ((1 << bits) - 1)


def expected_arithmetic(name, values, dtype):
    operation, mode = name.split(".")[1:3]
    return arithmetic(operation, values, dtype, mode)


def expected_to_integer(name, value):
    found = re.fullmatch(r"nvvm\.[fd]2(u?)(i|ll)\.(r.)", name)
    bits = 32 if found[2] == "i" else 64
    low, high = (0, (1 << bits) - 1) if found[1] else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if np.isnan(value):
        return 0 if isinstance(value, np.float32) and bits == 32 else signed(1 << (bits - 1), bits)
    if np.isinf(value):
        return signed(high if value > 0 else low, bits)
    return signed(min(max(to_integer(Fraction(float(value)), found[3]), low), high), bits)


def expected_from_integer(name, value):
    found = re.fullmatch(r"nvvm\.(u?)(i|ll)2([fd])\.(r.)", name)
    bits = 32 if found[2] == "i" else 64
    number = unsigned(value, bits) if found[1] else int(value)
    return from_integer(number, np.float32 if found[3] == "f" else np.float64, found[4])


def expected_narrowing(name, value):
    if not np.isfinite(value) or value == 0:
        return np.float32(value)
    return round_to(Fraction(float(value)), np.float32, name.rsplit(".", 1)[1])


def expected_pair(name, values):
    bits = 32 if "32" in name else 64
    numbers = [unsigned(value, bits) for value in values]
    if name.endswith("u128"):
        first, second = (numbers[n] | numbers[n + 1] << bits for n in (0, 2))
        whole = first + second if "add" in name else first - second
    else:
        whole = numbers[0] * numbers[1] + (numbers[2] if len(numbers) == 3 else 0)
    return signed(whole, bits), signed(whole >> bits, bits)


def expected_prmt(a, b, c):
    octets = unsigned(a, 32).to_bytes(4, "little") + unsigned(b, 32).to_bytes(4, "little")
    picked = []
    for n in range(4):
        choice = unsigned(c, 32) >> (4 * n) & 15
        octet = octets[choice & 7]
        picked.append((255 if octet >> 7 else 0) if choice & 8 else octet)
    return signed(int.from_bytes(bytes(picked), "little"), 32)


def expected_smallest(name, a, b):
    first = name.split(".")[1] == "fmin"
    if np.isnan(a) or np.isnan(b):
        return b if np.isnan(a) else a
    if a == b == 0:  # -0 is the smaller zero
        return type(a)(-0.0 if (np.signbit(a) or np.signbit(b) if first else np.signbit(a) and np.signbit(b)) else 0.0)
    return min(a, b) if first else max(a, b)


def expected_coarse(name, value):
    """An argument and a result of 21 significant bits; what is denormal is zero."""
    value = (np.float64(value).view(np.int64) & np.int64(-(1 << 32))).view(np.float64)
    least = np.finfo(np.float64).smallest_normal
    if abs(value) < least:
        return np.float64(math.copysign(math.inf, value))
    if not np.isfinite(value):
        return (
            np.float64(math.copysign(0.0, value) if "rcp" in name or value > 0 else math.nan)
            if value == value
            else value
        )
    if "sqrt" in name and value < 0:
        return np.float64(math.nan)
    exact = Fraction(float(value))
    found = round_to(1 / exact if "rcp" in name else square_root(exact, True), np.float64, bits=21)
    return np.float64(math.copysign(0.0, value)) if abs(found) < least else found


def expected_approximation(name, *values):
    """The exact result of ``rsqrt``, ``sin``, ``cos``, ``ex2`` and ``lg2``, rounded to the nearest."""
    kind, value = name.split(".")[1], values[0]
    dtype = type(value)
    if kind in ("rcp", "div", "sqrt"):
        return arithmetic(kind, values, dtype, "rn")
    if np.isnan(value) or (kind in ("rsqrt", "lg2") and value < 0) or (kind in ("sin", "cos") and np.isinf(value)):
        return dtype(math.nan)
    if kind == "ex2":
        if abs(value) > 1000:
            return dtype(math.inf if value > 0 else 0.0)
        return round_to(high_power(Fraction(float(value))), dtype)
    if kind == "lg2":
        if value == 0 or np.isinf(value):
            return dtype(-math.inf if value == 0 else math.inf)
        return round_to(high_log2(Fraction(float(value))), dtype)
    if kind == "rsqrt":
        if value == 0 or np.isinf(value):
            return dtype(math.copysign(math.inf, value) if value == 0 else 0.0)
        return round_to(square_root(Fraction(float(value)), True), dtype)
    found = round_to(high_sine(Fraction(float(value)), kind == "cos"), dtype)
    return value if value == 0 and kind == "sin" else found


def expected_simple(name, *values):
    value = values[0]
    parts = name.split(".")
    if parts[1] in ("floor", "ceil", "trunc", "round"):
        function = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint}[parts[1]]
        return function(value)
    if parts[1] in ("shl", "shr"):
        bits = int(parts[2][1:])
        number, count = unsigned(value, bits), unsigned(values[1], bits)
        if count >= bits:
            return 0
        return signed(number << count if parts[1] == "shl" else number >> count, bits)
    if parts[1] == "mulhi":
        bits = 32 if parts[2].endswith("i") else 64
        convert = unsigned if parts[2].startswith("u") else lambda x, _: int(x)
        return signed(convert(value, bits) * convert(values[1], bits) >> bits, bits)
    if parts[1] == "sad":
        a, b, c = map(int, values) if parts[2] == "i" else (unsigned(x, 32) for x in values)
        return signed(abs(a - b) + c, 32)
    return {
        "fabs": lambda: abs(value),
        "saturate": lambda: value.dtype.type(0) if not value > 0 else min(value, value.dtype.type(1)),
        "lohi": lambda: np.int64(signed(unsigned(value, 32) | unsigned(values[-1], 32) << 32, 64)).view(np.float64),
        "d2i": lambda: signed(int(np.float64(value).view(np.int64)) >> (32 if parts[2] == "hi" else 0), 32),
        "bfind": lambda: 32 - unsigned(value, 32).bit_length() if value else -1,
        "f2h": lambda: np.float16(value).view(np.int16),
    }[parts[1]]()


def expect(name, values):
    """What an operation must give for one set of operands."""
    parts = name.split(".")
    if parts[-1].startswith("u") and parts[0] == "ptx" and "bfind" not in name:
        return expected_pair(name, values)
    if name == "ptx.select.equ.f64":
        a, b, c, d = values
        return c if a == b or np.isnan(a) or np.isnan(b) else d
    if name == "nvvm.prmt":
        return expected_prmt(*values)
    if "approx.ftz.d" in name or "approx.ftz.f64" in name:
        return expected_coarse(name, *values)
    if "ftz" in parts:
        with np.errstate(all="ignore"):
            return flush(expect(name.replace(".ftz", ""), [flush(value) for value in values]))
    if "approx" in parts:
        return expected_approximation(name, *values)
    if parts[1] in ("add", "sub", "mul", "div", "fma", "rcp", "sqrt"):
        return expected_arithmetic(name, values, type(values[0]))
    if parts[1] in ("fmin", "fmax"):
        return expected_smallest(name, *values)
    if re.fullmatch(r"nvvm\.[fd]2u?(i|ll)\.r.", name):
        return expected_to_integer(name, *values)
    if re.fullmatch(r"nvvm\.u?(i|ll)2[fd]\.r.", name):
        return expected_from_integer(name, *values)
    return expected_narrowing(name, *values) if parts[1] == "d2f" else expected_simple(name, *values)


def inputs(name, types):
    """Operands for an operation: of every kind, and those that come near a tie or an edge of it."""
    columns = cases(types, seed=sum(map(ord, name)))
    if types == ["float"] * 3 or types == ["double"] * 3:  # sums that nearly cancel
        near = range(0, len(columns[0]), 3)
        with np.errstate(all="ignore"):
            columns[2][near] = -(columns[0][near] * columns[1][near])
            columns[2][near[::2]] = np.nextafter(columns[2][near[::2]], columns[0].dtype.type(0))
    elif types in (["float", "float"], ["double", "double"]):
        columns[1][::8], columns[1][4::8] = columns[0][::8], -columns[0][4::8]
    elif types == ["double"] and "d2f" in name:  # halfway between two float32, and beside
        single = floats(np.float32, 3)
        single = single[np.isfinite(single)].astype(np.float64)
        with np.errstate(over="ignore"):
            up = np.nextafter(single.astype(np.float32), np.float32(np.inf)).astype(np.float64)
        middle = (single + up) / 2
        columns = [np.concatenate([columns[0], middle, np.nextafter(middle, 0), np.nextafter(middle, np.inf)])]
    elif name.startswith(("ptx.shl", "ptx.shr")):
        columns[1][::2] = np.arange(len(columns[1][::2])) % 140 - 4
    elif "ex2" in name or "lg2" in name:
        spread = np.random.default_rng(7).uniform(-150, 130, 300).astype(np.float32)
        columns = [np.concatenate([columns[0], spread, abs(spread), np.float32(1) + spread * np.float32(2.0**-20)])]
    return columns


@pytest.mark.parametrize("name", OPERATIONS)
def test_operation(name):
    results, types = shape_of(name)
    operands = inputs(name, types)
    found = run(name, *operands)
    with np.errstate(all="ignore"):
        wanted = [expect(name, values) for values in zip(*operands, strict=True)]
    if len(results) == 2:
        for index in range(2):
            np.testing.assert_array_equal(found[index], [pair[index] for pair in wanted])
        return
    wanted = np.array(wanted, TYPES[results[0]])
    if name == "nvvm.f2h.rn":
        found, wanted = found.view(np.float16), wanted.view(np.float16)
    if name == "nvvm.rsqrt.approx.d":  # corrected once: rounded to the nearest but for ties nearly met
        assert ulp_distance(found, wanted).max() <= 1
        assert np.mean(ulp_distance(found, wanted) > 0) < 0.01
        return
    same = same_bits(found, wanted) if wanted.dtype.kind == "f" else found == wanted
    wrong = np.flatnonzero(~same)[:5]
    assert not len(wrong), [(*(operand[n] for operand in operands), found[n], wanted[n]) for n in wrong]


def test_rounding_mode_is_back_to_the_nearest():
    third = run("nvvm.div.rp.d", np.array([1.0]), np.array([3.0]))
    assert third[0] > 1.0 / 3.0
    assert float(np.float64(1.0) / np.float64(3.0)) == 0.3333333333333333
    assert run("nvvm.div.rn.d", np.array([1.0]), np.array([3.0]))[0] == 1.0 / 3.0


def test_table_defines_nothing_else():
    """Every entry is an operation of libdevice, or one that such an entry calls."""
    used = set()
    waiting = list(OPERATIONS)
    while waiting:
        name = waiting.pop()
        if name not in used:
            used.add(name)
            waiting += nvvm.define(name)[1]
    assert set(nvvm.TABLE) <= used


def test_unknown_operations_have_no_definition():
    assert nvvm.define("nvvm.nothing.f") is None
    assert nvvm.define("nvvm.nothing.ftz.f") is None
    assert hosted.name_assembly("nothing.u32 $0, $1; exit;") is None
