# SPDX-License-Identifier: Apache-2.0
"""Operators: unary, binary, comparison, ``and``/``or`` without a branch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from cudabuild.frontend import library
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.folding import fold_binary, fold_compare, wrap_integer
from cudabuild.frontend.impl import complex_numbers, texts, times
from cudabuild.frontend.operands import (
    Operand,
    OptionalOperand,
    Static,
    TupleOperand,
    const_of,
    describe,
    is_const,
    type_of,
)
from cudabuild.frontend.python_integers import check_operands
from cudabuild.ir.ir import Value
from cudabuild.lang.vector import VECTORS
from cudabuild.types import (
    Array,
    Boolean,
    Float,
    Integer,
    Scalar,
    WeakInteger,
    bool_,
    int64,
    none,
    uint64,
    weak_int,
)

__all__ = ["binary", "compare", "divide_with_rest", "logical", "unary"]

_ARITHMETIC = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "floordiv", "%": "mod"}
_BITWISE = {"&": "and", "|": "or", "^": "xor"}
_SHIFTS = {"<<": "shl", ">>": "shr"}
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
_SWAPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
#: Constant exponents up to this become multiplications; beyond, the pow function is both faster and more accurate.
_LONGEST_CHAIN = 16


def unary(context: Context, operator: str, operand: Operand) -> Operand:
    """``-x``, ``+x``, ``~x``, ``not x``."""
    if operator == "not":
        value = context.truth(operand)
        if is_const(value):
            return context.const(not const_of(value), bool_)
        return context.emit("inv", bool_, value)
    if isinstance(operand, Value) and times.is_time(operand.type):
        return times.unary(context, operator, operand)
    value = context.scalar(operand, f"the operand of '{operator}'", 0)
    assert isinstance(value.type, Scalar)
    kind = context.table.inverted(value.type) if operator == "~" else context.table.signed(value.type)
    if operator == "~" and isinstance(kind, Float):
        raise Refusal(
            "'~' of a float", found=describe(operand), expected="an integer", do="convert it first: ~int(x)", operand=0
        )
    value = context.cast(value, kind)
    if operator == "+":
        return value
    if complex_numbers.is_complex(value):
        if operator == "-":
            return complex_numbers.negate(context, value)
        raise Refusal(
            "'~' of a complex number", found=describe(operand), expected="an integer", do="take int(z.real)", operand=0
        )
    if isinstance(kind, Boolean):
        return unary(context, "not", value)
    if is_const(value):
        constant = const_of(value)
        if isinstance(kind, Integer):
            return context.const(wrap_integer(-constant if operator == "-" else ~constant, kind), kind)
        return context.const(-constant, kind)
    return context.emit("neg" if operator == "-" else "inv", kind, value)


def binary(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    """``left operator right``, for numbers and tuples."""
    first, second = context.elements(left), context.elements(right)
    if first is not None or second is not None:
        _refuse_vectors(operator, left, right)
    if operator == "+" and first is not None and second is not None:
        return TupleOperand((*first, *second))
    if operator == "*" and (first is None) != (second is None):
        elements, count = (first, right) if first is not None else (second, left)
        if elements is not None and is_const(count) and isinstance(const_of(count), int):
            return TupleOperand(elements * int(const_of(count)))
    if operator not in ("@",):
        a = _number_operand(context, operator, left, right, 0)
        b = _number_operand(context, operator, left, right, 1)
        if times.is_time(a.type) or times.is_time(b.type):
            return times.binary(context, operator, a, b)
        if complex_numbers.is_complex(a, b):
            compute = complex_numbers.power if operator == "**" else complex_numbers.binary
            return compute(context, operator, a, b)
        if operator in _ARITHMETIC:
            return _arithmetic(context, operator, a, b)
        if operator in _BITWISE:
            return _bitwise(context, operator, a, b)
        if operator in _SHIFTS:
            return _shift(context, operator, a, b)
        return _power(context, a, b)
    raise Refusal(
        f"operator '{operator}' is not supported in a kernel",
        found=f"{describe(left)} {operator} {describe(right)}",
        expected="+ - * / // % ** << >> & | ^",
        do="write the product as loops over the elements",
    )


def _refuse_vectors(operator: str, left: Operand, right: Operand) -> None:
    """A vector is a tuple with names, but nobody means its parts joined on."""
    for position, side in enumerate((left, right)):
        if isinstance(side, TupleOperand) and getattr(side.kind, "tuple_name", "") in VECTORS:
            raise Refusal(
                f"operator '{operator}' on a vector",
                found=f"{describe(left)} {operator} {describe(right)}",
                expected="numbers: vectors have no operators",
                do="compute with the fields: a.x + b.x",
                operand=position,
            )


def _number(kind: Any) -> Scalar:
    """Python's bools are integers in arithmetic."""
    assert isinstance(kind, Scalar)
    return weak_int if isinstance(kind, Boolean) else kind


def _number_operand(context: Context, operator: str, left: Operand, right: Operand, position: int) -> Value:
    operand = (left, right)[position]
    if isinstance(operand, Value) and isinstance(operand.type, Scalar):
        return operand
    if isinstance(type_of(operand), Array):
        do = "index the arrays: kernels work on elements, not on whole arrays"
    elif isinstance(operand, Static) and callable(operand.value):
        do = "call it"
    else:
        do = "use numbers on both sides"
    raise Refusal(
        f"operator '{operator}' on something that is not a number",
        found=f"{describe(left)} {operator} {describe(right)}",
        expected="a number on each side",
        do=do,
        operand=position,
    )


def _arithmetic(context: Context, operator: str, a: Value, b: Value) -> Value:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    table = context.table
    by_operator = {"/": table.division, "//": table.floor_division, "%": table.floor_division}
    kind = by_operator.get(operator, table.arithmetic)(a.type, b.type)
    if operator in by_operator and table.division_raises and isinstance(kind, (Float, Integer)):
        _check_divisor(context, context.cast(b, kind))
    return _same_type(context, operator, _ARITHMETIC[operator], a, b, kind)


def divide_with_rest(context: Context, x: Operand, y: Operand) -> TupleOperand:
    """``divmod(x, y)``: both parts of one type, which need not be that of the operators."""
    kinds = [operand.type if isinstance(operand, Value) else None for operand in (x, y)]
    if all(isinstance(kind, (Boolean, Integer)) for kind in kinds):
        kind = context.table.divmod(*(kind for kind in kinds if isinstance(kind, Scalar)))
        if kind != context.table.floor_division(*(kind for kind in kinds if isinstance(kind, Scalar))):
            x, y = context.convert(x, kind), context.convert(y, kind)
    return TupleOperand((binary(context, "//", x, y), binary(context, "%", x, y)))


def _check_divisor(context: Context, divisor: Value) -> None:
    """Under debug, a divisor of 0 is an error that ends the thread."""
    if not context.calls.debug or context.calls.fastmath or (is_const(divisor) and const_of(divisor) != 0):
        return
    is_float = isinstance(divisor.type, Float)
    zero = context.emit("cmp", bool_, divisor, context.const(0.0 if is_float else 0, divisor.type), predicate="eq")
    message = "division by zero" if is_float else ""  # that of integers is the default
    context.emit("raise", none, zero, exception="builtins:ZeroDivisionError", message=message, ends=True)


def _same_type(context: Context, operator: str, op: str, a: Value, b: Value, kind: Scalar) -> Value:
    check_operands(context, operator, (a, b), kind)
    left, right = context.cast(a, kind), context.cast(b, kind)
    if is_const(left) and is_const(right):
        folded = fold_binary(operator, const_of(left), const_of(right), kind)
        if folded is not None:
            return context.const(folded, kind)
    return context.emit(op, kind, left, right)


def _bitwise(context: Context, operator: str, a: Value, b: Value) -> Value:
    if isinstance(a.type, Boolean) and isinstance(b.type, Boolean):
        if is_const(a) and is_const(b):
            x, y = const_of(a), const_of(b)
            return context.const({"&": x & y, "|": x | y, "^": x ^ y}[operator], bool_)
        return context.emit(_BITWISE[operator], bool_, a, b)
    kind = _integers(operator, a, b, context.table.bitwise)
    return _same_type(context, operator, _BITWISE[operator], a, b, kind)


def _integers(operator: str, a: Value, b: Value, meet: Callable[[Scalar, Scalar], Scalar]) -> Integer:
    for position, value in enumerate((a, b)):
        if isinstance(value.type, Float):
            raise Refusal(
                f"operator '{operator}' on a float",
                found=f"{describe(a)} {operator} {describe(b)}",
                expected="integers",
                do="convert it first: int(x)",
                operand=position,
            )
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    kind = meet(a.type, b.type)
    if not isinstance(kind, Integer):
        raise Refusal(
            f"operator '{operator}' on int64 and uint64",
            found=f"{describe(a)} {operator} {describe(b)}, whose common type is {kind.name}",
            expected="two integers of one signedness",
            do="convert one of them: uint64(x) or int64(x)",
        )
    return kind


def _shift(context: Context, operator: str, a: Value, b: Value) -> Value:
    kind = _integers(operator, a, b, context.table.shift)
    check_operands(context, operator, (a, b), kind, converted=1)
    left = context.cast(a, kind)
    count = b if isinstance(b.type, Integer) else context.cast(b, weak_int)
    if is_const(left) and is_const(count):
        return context.const(fold_binary(operator, const_of(left), const_of(count), kind), kind)
    return context.emit(_SHIFTS[operator], kind, left, count)


def _power(context: Context, a: Value, b: Value) -> Operand:
    assert isinstance(a.type, Scalar)
    assert isinstance(b.type, Scalar)
    short = is_const(b) and isinstance(b.type, Integer) and abs(const_of(b)) <= _LONGEST_CHAIN
    exponent = const_of(b) if short else None
    kind = context.table.power(a.type, b.type, exponent)
    check_operands(context, "**", (a, b), kind, converted=1)
    if exponent is not None and not (exponent < 0 and isinstance(kind, Integer)):
        return _multiply_chain(context, context.cast(a, kind), exponent, kind)
    if isinstance(kind, Integer):
        b = context.cast(b, context.table.signed(b.type))
        return context.calls.call(context, library.integer_power, [context.cast(a, kind), b], {})
    return context.emit("math", kind, context.cast(a, kind), context.cast(b, kind), function="pow")


def _multiply_chain(context: Context, base: Value, exponent: int, kind: Scalar) -> Value:
    """``base ** exponent`` by squaring."""
    one = context.const(1 if isinstance(kind, Integer) else 1.0, kind)
    result: Value | None = None
    square, left = base, abs(exponent)
    while left:
        if left & 1:
            result = square if result is None else _same_type(context, "*", "mul", result, square, kind)
        left >>= 1
        if left:
            square = _same_type(context, "*", "mul", square, square, kind)
    if result is None:
        return one
    return _same_type(context, "/", "div", one, result, kind) if exponent < 0 else result


def logical(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    """``left and right``, both evaluated: the result is one of the two, as in Python."""
    first = context.truth(left)
    if is_const(first):
        return right if bool(const_of(first)) is (operator == "and") else left
    if operator == "or" and isinstance(left, OptionalOperand):
        left = left.value  # what is true is not None
    if isinstance(left, Value) and isinstance(right, Value):
        if isinstance(left.type, Boolean) and isinstance(right.type, Boolean):
            if is_const(right):
                return left if bool(const_of(right)) == (operator == "and") else right
            return context.emit(operator, bool_, left, right)
        if isinstance(left.type, Scalar) and isinstance(right.type, Scalar):
            kind = context.table.extreme(left.type, right.type)
            check_operands(context, operator, (left, right), kind)
            a, b = context.cast(left, kind), context.cast(right, kind)
            return context.emit("select", kind, first, *((b, a) if operator == "and" else (a, b)))
    second = context.truth(right)
    return context.emit(operator, bool_, first, second)


def compare(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    """One comparison of a chain."""
    from cudabuild.frontend.impl.comparison import compare_objects

    special = compare_objects(context, operator, left, right)
    if special is not None:
        return special
    if texts.is_text(left) or texts.is_text(right):
        return texts.compare_texts(context, operator, left, right)
    a = _number_operand(context, operator, left, right, 0)
    b = _number_operand(context, operator, left, right, 1)
    if times.is_time(a.type) or times.is_time(b.type):
        return times.compare(context, operator, a, b)
    return compare_numbers(context, operator, a, b)


def compare_numbers(context: Context, operator: str, a: Value, b: Value) -> Value:
    """Exact for every pair of types: neither side is narrowed to be compared."""
    if complex_numbers.is_complex(a, b):
        return complex_numbers.compare(context, operator, a, b)
    if is_const(a) and is_const(b):
        return context.const(fold_compare(operator, const_of(a), const_of(b)), bool_)
    if isinstance(a.type, Boolean) and isinstance(b.type, Boolean):
        return context.emit("cmp", bool_, a, b, predicate=_PREDICATES[operator])
    x, y = _number(a.type), _number(b.type)
    if isinstance(x, Integer) and isinstance(y, Integer):
        return _compare_integers(context, operator, context.cast(a, x), context.cast(b, y))
    kind = context.table.arithmetic(x, y)
    return context.emit("cmp", bool_, context.cast(a, kind), context.cast(b, kind), predicate=_PREDICATES[operator])


def _compare_integers(context: Context, operator: str, a: Value, b: Value) -> Value:
    assert isinstance(a.type, Integer)
    assert isinstance(b.type, Integer)
    kind: Scalar
    if a.type == b.type:
        kind = a.type
    elif _fits(a, b.type):
        kind = b.type
    elif _fits(b, a.type):
        kind = a.type
    elif uint64 in (a.type, b.type):
        if a.type == uint64:
            return _compare_signed_unsigned(context, _SWAPPED[operator], context.cast(b, int64), a)
        return _compare_signed_unsigned(context, operator, context.cast(a, int64), b)
    else:
        kind = weak_int if isinstance(a.type, WeakInteger) or isinstance(b.type, WeakInteger) else int64
    return context.emit("cmp", bool_, context.cast(a, kind), context.cast(b, kind), predicate=_PREDICATES[operator])


def _fits(value: Value, kind: Integer) -> bool:
    """True if every possible ``value`` is a value of ``kind``."""
    source = value.type
    assert isinstance(source, Integer)
    if is_const(value):
        return bool(wrap_integer(const_of(value), kind) == const_of(value))
    if source.signed:
        return kind.signed and source.bits <= kind.bits
    return source.bits < kind.bits or (source.bits == kind.bits and not kind.signed)


def _compare_signed_unsigned(context: Context, operator: str, signed: Value, unsigned: Value) -> Value:
    negative = context.emit("cmp", bool_, signed, context.const(0, int64), predicate="lt")
    as_unsigned = context.cast(signed, uint64)
    below = context.emit("cmp", bool_, as_unsigned, unsigned, predicate=_PREDICATES[operator])
    if operator in ("<", "<=", "!="):
        return context.emit("or", bool_, negative, below)
    return context.emit("and", bool_, context.emit("inv", bool_, negative), below)
