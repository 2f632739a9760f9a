# SPDX-License-Identifier: Apache-2.0
"""Arithmetic of complex numbers, taken apart into that of their parts.

Sums and products are C's plain formulas, with contraction as for floats: ``z * z.conjugate()`` has the rounding error
of one product as its imaginary part, and exactly 0 under ``fma=False``. A real operand has no imaginary part at all,
rather than one of 0 (Annex G, and Python from 3.14 on): ``2.0 * complex(inf, 1)`` is ``inf+2j``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from cudabuild.errors import nearest_name
from cudabuild.frontend import complex_library
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.folding import fold_binary
from cudabuild.frontend.operands import MethodOperand, Operand, const_of, describe, is_const
from cudabuild.ir.ir import Value
from cudabuild.types import Boolean, Complex, Float, Integer, Scalar, bool_, int32

__all__ = ["binary", "call_method", "compare", "conjugate", "is_complex", "make", "negate", "number_attribute", "power"]

_OPERATIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div"}
#: Constant exponents up to this become multiplications.
_LONGEST_CHAIN = 16


def is_complex(*values: Value) -> bool:
    """Whether one of them is a complex number."""
    return any(isinstance(value.type, Complex) for value in values)


def make(context: Context, real: Value, imag: Value, kind: Complex) -> Value:
    """The complex number of two parts, which have the type of ``kind``'s."""
    if is_const(real) and is_const(imag):
        return context.const(complex(const_of(real), const_of(imag)), kind)
    return context.emit("complex", kind, real, imag)


def _parts(context: Context, value: Value, part: Float) -> tuple[Value, Value | None]:
    """Real and imaginary part as ``part``; None for that of a real number."""
    if isinstance(value.type, Complex):
        real, imag = context.parts(value)
        return context.cast(real, part), context.cast(imag, part)
    return context.cast(value, part), None


def _compute(context: Context, operator: str, left: Value, right: Value) -> Value:
    kind = left.type
    assert isinstance(kind, Float)
    if is_const(left) and is_const(right):
        folded = fold_binary(operator, const_of(left), const_of(right), kind)
        if folded is not None:
            return context.const(folded, kind)
    return context.emit(_OPERATIONS[operator], kind, left, right)


def _negated(context: Context, value: Value) -> Value:
    return context.const(-const_of(value), value.type) if is_const(value) else context.emit("neg", value.type, value)


def binary(context: Context, operator: str, a: Value, b: Value) -> Operand:
    """``a operator b``, one of which at least is complex; without ``**``."""
    if operator not in _OPERATIONS:
        raise Refusal(
            f"operator '{operator}' on a complex number",
            found=f"{describe(a)} {operator} {describe(b)}",
            expected="+ - * / ** of complex numbers",
            do="work on z.real and z.imag",
        )
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kind = context.table.arithmetic(a.type, b.type)
    assert isinstance(kind, Complex)
    (real, imag), (other, turn) = _parts(context, a, kind.part), _parts(context, b, kind.part)

    def compute(sign: str, left: Value, right: Value) -> Value:
        return _compute(context, sign, left, right)

    if operator in "+-":
        if imag is None:
            assert turn is not None
            imag = turn if operator == "+" else _negated(context, turn)
        elif turn is not None:
            imag = compute(operator, imag, turn)
        return make(context, compute(operator, real, other), imag, kind)
    if operator == "/" and turn is not None:
        left = make(context, real, context.const(0.0, kind.part) if imag is None else imag, kind)
        return context.calls.call(context, complex_library.divide, [left, make(context, other, turn, kind)], {})
    if turn is None:
        assert imag is not None
        return make(context, compute(operator, real, other), compute(operator, imag, other), kind)
    if imag is None:
        return make(context, compute("*", real, other), compute("*", real, turn), kind)
    first = compute("-", compute("*", real, other), compute("*", imag, turn))
    second = compute("+", compute("*", real, turn), compute("*", imag, other))
    return make(context, first, second, kind)


def negate(context: Context, value: Value) -> Value:
    """``-value``."""
    kind = value.type
    assert isinstance(kind, Complex)
    real, imag = context.parts(value)
    return make(context, _negated(context, real), _negated(context, imag), kind)


def conjugate(context: Context, value: Value) -> Value:
    """``value`` with its imaginary part negated; a real number is its own conjugate."""
    kind = value.type
    if not isinstance(kind, Complex):
        return value
    real, imag = context.parts(value)
    return make(context, real, _negated(context, imag), kind)


def power(context: Context, operator: str, a: Value, b: Value) -> Operand:
    """``a ** b``, one of which at least is complex."""
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kind = context.table.arithmetic(a.type, b.type)
    if isinstance(b.type, (Integer, Boolean)):
        exponent = const_of(b) if is_const(b) else None
        base = context.cast(a, context.table.power(a.type, b.type, exponent))
        if exponent is not None and 0 < abs(int(exponent)) <= _LONGEST_CHAIN:
            return _multiply_chain(context, base, int(exponent))
        count = context.cast(b, int32) if isinstance(b.type, Boolean) else b
        return context.calls.call(context, complex_library.integer_power, [base, count], {})
    operands = [context.cast(a, kind), context.cast(b, kind)]
    return context.calls.call(context, complex_library.complex_power, operands, {})


def _multiply_chain(context: Context, base: Value, exponent: int) -> Operand:
    """``base ** exponent`` by squaring."""
    result: Operand | None = None
    square: Any = base
    left = abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else binary(context, "*", _value(result), square)
        left >>= 1
        if left:
            square = binary(context, "*", square, square)
    assert result is not None
    kind = base.type
    assert isinstance(kind, Complex)
    if exponent > 0:
        return result
    return binary(context, "/", context.const(1.0, kind.part), _value(result))


def _value(operand: Operand) -> Value:
    assert isinstance(operand, Value)
    return operand


def compare(context: Context, operator: str, a: Value, b: Value) -> Value:
    """``==`` and ``!=``; complex numbers have no order."""
    if operator not in ("==", "!="):
        raise Refusal(
            f"'{operator}' of complex numbers",
            found=f"{describe(a)} {operator} {describe(b)}",
            expected="== or !=",
            do="compare z.real, z.imag or abs(z)",
        )
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kind = context.table.arithmetic(a.type, b.type)
    assert isinstance(kind, Complex)
    (real, imag), (other, turn) = _parts(context, a, kind.part), _parts(context, b, kind.part)
    zero = context.const(0.0, kind.part)
    predicate, join = ("eq", "and") if operator == "==" else ("ne", "or")
    pairs = ((real, other), (zero if imag is None else imag, zero if turn is None else turn))
    first, second = (context.emit("cmp", bool_, x, y, predicate=predicate) for x, y in pairs)
    return context.emit(join, bool_, first, second)


def count_bits(context: Context, value: Value) -> Value:
    """``value.bit_count()``: the ones in the magnitude of an integer."""
    kind = value.type
    if not isinstance(kind, (Integer, Boolean)):
        raise Refusal(
            "bit_count of something that is not an integer",
            found=describe(value),
            expected="an integer",
            do="use int(x)",
        )
    whole = context.cast(value, context.table.signed(kind))
    assert isinstance(whole.type, Integer)
    size = context.emit("abs", whole.type, whole) if whole.type.signed else whole
    return context.cast(context.emit("popc", int32, size), context.table.bit_count(whole.type))


#: Methods of numbers, all without arguments.
_METHODS: dict[str, Callable[[Context, Value], Value]] = {"conjugate": conjugate, "bit_count": count_bits}


def call_method(context: Context, value: Value, name: str, operands: Sequence[Operand]) -> Operand:
    """The call of a number's method."""
    if operands:
        raise Refusal(
            f"wrong arguments for {name}",
            found=f"{len(operands)} arguments",
            expected=f".{name}() without arguments",
            do="drop them",
        )
    return _METHODS[name](context, value)


def number_attribute(context: Context, value: Value, name: str) -> Operand:
    """``.real``, ``.imag`` and ``.conjugate`` of a number."""
    kind = value.type
    assert isinstance(kind, Scalar)
    if name in ("real", "imag"):
        if isinstance(kind, Complex):
            return context.parts(value)[name == "imag"]
        if isinstance(kind, Boolean):
            value = context.cast(value, context.table.signed(kind))
        return value if name == "real" else context.cast(context.const(0, int32), _scalar(value))
    if name in _METHODS:
        return MethodOperand(value, name)
    near = nearest_name(name, ("real", "imag", *_METHODS))
    raise Refusal(
        f"a number has no attribute {name!r} in a kernel",
        found=f"{kind.name}.{name}",
        expected=f".real, .imag, {', '.join(f'.{known}()' for known in _METHODS)}",
        do=f"did you mean .{near}?" if near else "compute it from the number",
    )


def _scalar(value: Value) -> Scalar:
    assert isinstance(value.type, Scalar)
    return value.type
