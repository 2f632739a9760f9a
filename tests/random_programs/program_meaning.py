# SPDX-License-Identifier: Apache-2.0
"""What operations of the kernel language give, in Python's unbounded integers and NumPy's floats: the oracle's words.

``NAMES`` holds one function per operation and type (``add_int32``, ``int64_to_float32``), for which the oracle's form
of a random program calls. Integers are Python ints within their type, ``int`` and ``float`` the weak numbers (64 bits),
a bfloat16 is a float32 that holds one, a complex number is a pair. Where Python itself, run on NumPy's scalars, would
give something else (an error, a longer integer), the reason is put into ``beyond``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

__all__ = ["BITS", "COMPLEX", "FLOATS", "INTEGERS", "NAMES", "PARTS", "beyond"]

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "int")
FLOATS = ("float16", "bfloat16", "float32", "float64", "float")
COMPLEX = ("complex64", "complex128")
PARTS = {"complex64": "float32", "complex128": "float64"}
BITS = {"bool": 1, "int8": 8, "int16": 16, "int32": 32, "int64": 64, "int": 64}
BITS.update({"uint8": 8, "uint16": 16, "uint32": 32, "uint64": 64})
NUMPY: dict[str, Any] = {
    "float16": np.float16, "bfloat16": np.float32, "float32": np.float32, "float64": np.float64, "float": np.float64,
}  # fmt: skip
#: Bits of the significand: integers of no more are held exactly.
_EXACT = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53, "float": 53}

#: Why Python would not give what the oracle gives, since it was last cleared.
beyond: set[str] = set()

NAMES: dict[str, Callable[..., Any]] = {}


def _limits(kind: str) -> tuple[int, int]:
    bits = BITS[kind]
    return (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)


def _wrapper(kind: str) -> Callable[[int], int]:
    low, high = _limits(kind)
    span = high - low + 1

    def wrap(value: int) -> int:
        if low <= value <= high:
            return value
        if kind == "int":
            beyond.add("a Python integer of more than 64 bits")
        return (value - low) % span + low

    return wrap


def _define_integer(kind: str) -> None:
    wrap, bits, weak = _wrapper(kind), BITS[kind], kind == "int"

    def divided(compute: Callable[[int, int], int]) -> Callable[[int, int], int]:
        def divide(a: int, b: int) -> int:
            if b == 0:
                if weak:
                    beyond.add("a Python integer divided by zero")
                return 0
            return wrap(compute(a, b))

        return divide

    def left(a: int, count: int) -> int:
        if not 0 <= count < bits:
            beyond.add("a shift by more bits than there are")
            return 0
        return wrap(a << count)

    def right(a: int, count: int) -> int:
        if not 0 <= count < bits:
            beyond.add("a shift by more bits than there are")
            return -1 if a < 0 else 0
        return a >> count

    def brev(a: int) -> int:
        return wrap(int(f"{a & ((1 << bits) - 1):0{bits}b}"[::-1], 2))

    NAMES.update({
        f"add_{kind}": lambda a, b: wrap(a + b), f"sub_{kind}": lambda a, b: wrap(a - b),
        f"mul_{kind}": lambda a, b: wrap(a * b), f"floordiv_{kind}": divided(lambda a, b: a // b),
        f"mod_{kind}": divided(lambda a, b: a % b), f"and_{kind}": lambda a, b: a & b,
        f"or_{kind}": lambda a, b: a | b, f"xor_{kind}": lambda a, b: a ^ b, f"shl_{kind}": left,
        f"shr_{kind}": right, f"neg_{kind}": lambda a: wrap(-a), f"inv_{kind}": lambda a: wrap(~a),
        f"abs_{kind}": lambda a: wrap(abs(a)), f"min_{kind}": min, f"max_{kind}": max, f"brev_{kind}": brev,
        f"popc_{kind}": lambda a: (a & ((1 << bits) - 1)).bit_count(),
        f"clz_{kind}": lambda a: bits - (a & ((1 << bits) - 1)).bit_length(),
        f"load_{kind}": lambda array, *index: int(array[index]), f"pow_{kind}": lambda a, n: wrap(a**n),
        f"divided_{kind}": lambda a, b: (NAMES[f"floordiv_{kind}"](a, b), NAMES[f"mod_{kind}"](a, b)),
    })  # fmt: skip


def _round_brain(x: Any) -> Any:
    """A float32 as the nearest bfloat16, ties to even, held in a float32."""
    if not np.isfinite(x):
        return x
    word = int(np.float32(x).view(np.uint32))
    word = (word + 0x7FFF + (word >> 16 & 1)) & 0xFFFF0000
    return np.uint32(word & 0xFFFFFFFF).view(np.float32)


def _to_brain(x: Any) -> Any:
    """Any real number as a bfloat16, rounded once: by way of a float32 rounded to odd."""
    if isinstance(x, float) and not math.isfinite(x):
        return np.float32(x)
    exact = Fraction(x) if isinstance(x, int) else Fraction(float(x))
    with np.errstate(all="ignore"):
        single = np.float32(float(exact)) if abs(exact) < 2**1000 else np.float32(np.inf)
    if np.isfinite(single) and Fraction(float(single)) != exact:
        word = int(single.view(np.uint32))
        if abs(Fraction(float(single))) > abs(exact):
            word -= 1  # towards zero
        single = np.uint32(word | 1).view(np.float32)
    found = _round_brain(single)
    return np.float32(-0.0) if exact == 0 and isinstance(x, float) and math.copysign(1, x) < 0 else found


def _define_float(kind: str) -> None:
    finish: Callable[[Any], Any] = _round_brain if kind == "bfloat16" else lambda x: x
    number = NUMPY[kind]

    def divide(a: Any, b: Any) -> Any:
        if kind == "float" and b == 0:
            beyond.add("a Python float divided by zero")
        return finish(a / b)

    def fma(a: Any, b: Any, c: Any) -> Any:
        from oracles import exact_fma

        return exact_fma(*(np.array([x], number) for x in (a, b, c)))[0]

    NAMES.update({
        f"add_{kind}": lambda a, b: finish(a + b), f"sub_{kind}": lambda a, b: finish(a - b),
        f"mul_{kind}": lambda a, b: finish(a * b), f"div_{kind}": divide,
        f"floordiv_{kind}": lambda a, b: finish(number(np.floor_divide(a, b))),
        f"mod_{kind}": lambda a, b: finish(number(np.remainder(a, b))), f"neg_{kind}": lambda a: -a,
        f"abs_{kind}": lambda a: np.fabs(a), f"min_{kind}": lambda a, b: b if b < a else a,
        f"max_{kind}": lambda a, b: b if b > a else a, f"load_{kind}": lambda array, *index: number(array[index]),
        f"sqrt_{kind}": lambda a: finish(number(np.sqrt(a))), f"floor_{kind}": np.floor, f"ceil_{kind}": np.ceil,
        f"trunc_{kind}": np.trunc, f"rint_{kind}": np.rint, f"copysign_{kind}": np.copysign,
        f"fmod_{kind}": np.fmod, f"fmin_{kind}": _extreme(1),
        f"fmax_{kind}": _extreme(-1), f"fma_{kind}": fma, f"isnan_{kind}": lambda a: bool(np.isnan(a)),
        f"isinf_{kind}": lambda a: bool(np.isinf(a)),
        f"divided_{kind}": lambda a, b: (NAMES[f"floordiv_{kind}"](a, b), NAMES[f"mod_{kind}"](a, b)),
    })  # fmt: skip


def _extreme(sign: int) -> Callable[[Any, Any], Any]:
    """``fmin`` (1) and ``fmax`` (-1): the other one of a NaN, and -0.0 below 0.0."""

    def choose(a: Any, b: Any) -> Any:
        if np.isnan(a) or np.isnan(b):
            return b if np.isnan(a) else a
        if a == b:
            return a if np.signbit(a) == (sign > 0) else b
        return a if (a < b) == (sign > 0) else b

    return choose


def _define_complex(kind: str) -> None:
    part = NUMPY[PARTS[kind]]
    NAMES.update({
        f"add_{kind}": lambda a, b: (a[0] + b[0], a[1] + b[1]),
        f"sub_{kind}": lambda a, b: (a[0] - b[0], a[1] - b[1]),
        f"mul_{kind}": lambda a, b: (a[0] * b[0] - a[1] * b[1], a[0] * b[1] + a[1] * b[0]),
        # a real operand has no imaginary part at all: Annex G, and Python from 3.14 on
        f"add_right_{kind}": lambda a, r: (a[0] + r, a[1]), f"sub_right_{kind}": lambda a, r: (a[0] - r, a[1]),
        f"mul_right_{kind}": lambda a, r: (a[0] * r, a[1] * r), f"add_left_{kind}": lambda r, b: (r + b[0], b[1]),
        f"sub_left_{kind}": lambda r, b: (r - b[0], -b[1]), f"mul_left_{kind}": lambda r, b: (r * b[0], r * b[1]),
        f"neg_{kind}": lambda a: (-a[0], -a[1]), f"conj_{kind}": lambda a: (a[0], -a[1]),
        f"real_{kind}": lambda a: a[0], f"imag_{kind}": lambda a: a[1], f"make_{kind}": lambda a, b: (part(a), part(b)),
        f"load_{kind}": lambda array, *index: (part(array[index].real), part(array[index].imag)),
    })  # fmt: skip


def _to_integer(source: str, target: str) -> Callable[[Any], int]:
    wrap, (low, high) = _wrapper(target), _limits(target)
    if source in FLOATS:

        def saturate(x: Any) -> int:
            if math.isnan(x):
                beyond.add("NaN as an integer")
                return 0
            if math.isinf(x) or not low <= int(x) <= high:
                beyond.add("a float beyond an integer's limits")
                return high if x > 0 else low
            return int(x)

        return saturate

    def convert(x: int) -> int:
        if not low <= x <= high:  # NumPy refuses to store one, too
            beyond.add("an integer beyond a type's limits")
        return wrap(int(x))

    return convert


def _to_float(source: str, target: str) -> Callable[[Any], Any]:
    number, exact = NUMPY[target], 1 << _EXACT[target]
    if source in FLOATS:
        if target == "bfloat16":
            return lambda x: _to_brain(float(x))
        return number
    wide: Any = np.uint64 if source == "uint64" else np.int64

    def convert(x: int) -> Any:
        if source == "int" and abs(x) > exact:
            beyond.add("a Python integer that rounds as a float")
        return _to_brain(int(x)) if target == "bfloat16" else np.array(int(x), wide).astype(number)[()]

    return convert


def _define_conversions() -> None:
    reals = ("bool", *INTEGERS, *FLOATS)
    for source in reals:
        for target in reals:
            if target == "bool":
                NAMES[f"{source}_to_bool"] = lambda x: bool(x != 0)
            elif target in INTEGERS:
                NAMES[f"{source}_to_{target}"] = _to_integer(source, target)
            else:
                NAMES[f"{source}_to_{target}"] = _to_float(source, target)
        for target in COMPLEX:
            convert, zero = NAMES[f"{source}_to_{PARTS[target]}"], NUMPY[PARTS[target]](0)
            NAMES[f"{source}_to_{target}"] = lambda x, convert=convert, zero=zero: (convert(x), zero)
    for source in COMPLEX:
        for target in COMPLEX:
            part = NUMPY[PARTS[target]]
            NAMES[f"{source}_to_{target}"] = lambda x, part=part: (part(x[0]), part(x[1]))


def _store(array: Any, value: Any, *index: Any) -> None:
    array[index] = complex(*(float(part) for part in value)) if isinstance(value, tuple) else value


def _fill(array: Any, value: Any) -> None:
    for index in range(len(array)):
        _store(array, value, index)


def _define_stores() -> None:
    """Stores of values that have the array's own type already."""
    NAMES["store"] = _store
    NAMES["fill"] = _fill
    for kind in INTEGERS[:-1]:
        NAMES[f"atomic_add_{kind}"] = _updater(kind, lambda a, b: a + b)
        NAMES[f"atomic_max_{kind}"] = _updater(kind, max)
        NAMES[f"atomic_min_{kind}"] = _updater(kind, min)
        NAMES[f"atomic_and_{kind}"] = _updater(kind, lambda a, b: a & b)
        NAMES[f"atomic_or_{kind}"] = _updater(kind, lambda a, b: a | b)
        NAMES[f"atomic_xor_{kind}"] = _updater(kind, lambda a, b: a ^ b)


def _updater(kind: str, compute: Callable[[int, int], int]) -> Callable[..., None]:
    wrap = _wrapper(kind)

    def update(array: Any, value: int, *index: Any) -> None:
        array[index] = wrap(compute(int(array[index]), value))

    return update


def _define_functions() -> None:
    """Functions that are not exact, in a wider type than their result."""
    names = (
        "sin", "cos", "tan", "exp", "log", "log2", "log10", "log1p", "expm1", "sinh", "cosh", "tanh", "arcsin",
        "arccos", "arctan", "arcsinh", "cbrt", "hypot", "arctan2", "exp2",
    )  # fmt: skip
    for name in names:
        for kind in ("float16", "float32", "float64"):
            NAMES[f"{name}_{kind}"] = _widened(getattr(np, name), NUMPY[kind])


def _widened(function: Any, number: Any) -> Callable[..., Any]:
    wide: Any = np.longdouble if number is np.float64 else np.float64
    return lambda *values: number(function(*(wide(value) for value in values)))


def _define() -> None:
    for kind in INTEGERS:
        _define_integer(kind)
    for kind in FLOATS:
        _define_float(kind)
    for kind in COMPLEX:
        _define_complex(kind)
    NAMES["load_bool"] = lambda array, *index: bool(array[index])
    _define_conversions()
    _define_stores()
    _define_functions()


_define()
