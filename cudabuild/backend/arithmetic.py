# SPDX-License-Identifier: Apache-2.0
"""Scalar operations to LLVM text, every result defined: nothing here can trap or make poison out of a user's values.

``nsw``/``nuw`` are written only where the operands' ranges prove that nothing overflows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.contraction import emit_fused
from cudabuild.backend.faults import check_divisor
from cudabuild.backend.narrow_floats import copy_sign, half_copy_sign, half_next_after, next_after
from cudabuild.backend.text import Operand, float_literal, int_literal, replace
from cudabuild.ir.ir import Instr, Value
from cudabuild.types import Boolean, BrainFloat, Float, Integer, Scalar, float32

if TYPE_CHECKING:
    from collections.abc import Callable

    from cudabuild.backend.emit import FunctionEmitter

__all__ = ["ROWS", "overflow_flags"]

_FLOAT = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_ORDERED = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}
_BITS = {"half": 16, "float": 32, "double": 64}


def overflow_flags(op: str, a: tuple[int, int], b: tuple[int, int], bits: int) -> str:
    """``"nuw nsw "``, one of them or nothing: what holds for ``op`` on values in these inclusive ranges."""
    if op == "add":
        low, high = a[0] + b[0], a[1] + b[1]
    elif op == "sub":
        low, high = a[0] - b[1], a[1] - b[0]
    else:
        products = [x * y for x in a for y in b]
        low, high = min(products), max(products)
    smallest, largest = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    signed = min(low, a[0], b[0]) >= smallest and max(high, a[1], b[1]) <= largest
    unsigned = min(low, a[0], b[0]) >= 0 and max(high, a[1], b[1]) < 1 << bits
    return ("nuw " if unsigned else "") + ("nsw " if signed else "")


def _is_signed(instr: Instr, bits: int) -> bool:
    """Whether numbers of ``instr``'s type are signed at this width: those kept narrower than their type always are."""
    return isinstance(instr.type, Integer) and (instr.type.signed or bits < instr.type.bits)


def _float_type(type: Scalar) -> str:
    assert isinstance(type, Float)
    return {16: "half", 32: "float", 64: "double"}[type.bits]


def _arithmetic(e: FunctionEmitter, instr: Instr) -> Operand:
    """add, sub, mul, div."""
    a, b = instr.operands
    if isinstance(instr.type, Float):
        if instr in e.fused:
            return emit_fused(e, instr, e.fused[instr])
        x, y = e.scalar(a), e.scalar(b)
        if x.type == "half" and instr.op == "div":
            return _by_float(e, [x, y], lambda p, q: e.text.emit("float", f"fdiv {e.fast}{p.typed}, {q.text}"))
        return e.text.emit(x.type, f"{_FLOAT[instr.op]} {e.fast}{x.typed}, {y.text}")
    bits = e.bits_for(instr, a, b)
    x, y = e.integer(a, bits), e.integer(b, bits)
    if bits == 1:
        # numpy's bool arithmetic: + is or, * is and, - has no meaning (the front end refuses it)
        return e.text.emit("i1", f"{ {'add': 'or', 'mul': 'and', 'sub': 'xor'}[instr.op] } {x.typed}, {y.text}")
    flags = _flags(e, instr, bits)
    return e.result(instr, f"{instr.op} {flags}{x.typed}, {y.text}", bits)


def _flags(e: FunctionEmitter, instr: Instr, bits: int) -> str:
    a, b = (e.range_of(value) for value in instr.operands)
    assert isinstance(instr.type, Integer)
    if bits < instr.type.bits:
        # Both operands and the result are int32 values: nothing overflowed, however wide the operands' ranges make it.
        nuw = min(a[0], b[0], e.ranges.of(instr)[0]) >= 0
        return "nuw nsw " if nuw else "nsw "
    flags = overflow_flags(instr.op, a, b, bits)
    if not flags and e.ranges.exact(instr):
        return "nsw " if instr.type.signed else "nuw "
    return flags


def _by_float(e: FunctionEmitter, operands: list[Operand], make: Callable[..., Operand]) -> Operand:
    """Computes in float32 what float16 has no instruction for, rounded back at the end."""
    wide = [e.text.emit("float", f"fpext {o.typed} to float") if o.type == "half" else o for o in operands]
    made = make(*wide)
    return e.text.emit("half", f"fptrunc {made.typed} to half")


def _min_max(e: FunctionEmitter, instr: Instr) -> Operand:
    a, b = instr.operands
    if isinstance(instr.type, Float):
        # Python's: ``b if b < a else a``; a NaN in front stays, one behind is passed over.
        x, y = e.scalar(a), e.scalar(b)
        test = e.text.emit("i1", f"fcmp {'olt' if instr.op == 'min' else 'ogt'} {y.typed}, {x.text}")
        return e.text.emit(x.type, f"select {test.typed}, {y.typed}, {x.typed}")
    bits = e.bits_for(instr, a, b)
    x, y = e.integer(a, bits), e.integer(b, bits)
    if bits == 1:
        return e.text.emit("i1", f"{'and' if instr.op == 'min' else 'or'} {x.typed}, {y.text}")
    sign = "s" if _is_signed(instr, bits) else "u"
    return e.integer_result(instr, e.text.call(x.type, f"llvm.{sign}{instr.op}.{x.type}", x, y))


def _divide(e: FunctionEmitter, instr: Instr) -> Operand:
    """Python's floordiv and mod: by zero gives 0 for integers, INT_MIN // -1 wraps."""
    if isinstance(instr.type, Float):
        x, y = (e.scalar(value) for value in instr.operands)
        if x.type == "half":
            return _by_float(e, [x, y], lambda p, q: _divide_float(e, instr.op, p, q))
        return _divide_float(e, instr.op, x, y)
    a, b = instr.operands
    bits = e.bits_for(instr, a, b)
    x, y = e.integer(a, bits), e.integer(b, bits)
    if bits == 1:
        if "division" in e.dialect.checks:
            check_divisor(e, instr, e.text.emit("i1", f"xor {y.typed}, true"))
        # bool // bool: False for a zero divisor and a // True otherwise; a % True is False
        return e.text.emit("i1", f"and {x.typed}, {y.text}") if instr.op == "floordiv" else int_literal(0, 1)
    type = instr.type
    assert isinstance(type, Integer)
    (low_a, _), (low_b, high_b) = e.range_of(a), e.range_of(b)
    divisor = y.constant
    if divisor is not None and divisor > 0 and divisor & (divisor - 1) == 0:
        return e.result(instr, _power_of_two(instr, x, divisor, _is_signed(instr, bits)), bits)
    zero = None
    if low_b <= 0 <= high_b:
        zero = e.text.emit("i1", f"icmp eq {y.typed}, 0")
        check_divisor(e, instr, zero)
    if not type.signed or (low_a >= 0 and low_b >= 0):
        y = _safe_divisor(e, y, zero)
        whole = e.text.emit(x.type, f"{'udiv' if instr.op == 'floordiv' else 'urem'} {x.typed}, {y.text}")
        return e.integer_result(instr, _zero_if(e, zero if instr.op == "floordiv" else None, whole))
    smallest = -(1 << (bits - 1))
    unsafe = zero
    if low_a <= smallest and low_b <= -1 <= high_b:
        most = e.text.emit("i1", f"icmp eq {x.typed}, {smallest}")
        minus = e.text.emit("i1", f"icmp eq {y.typed}, -1")
        both = e.text.emit("i1", f"and {most.typed}, {minus.text}")
        unsafe = both if zero is None else e.text.emit("i1", f"or {zero.typed}, {both.text}")
    divisor_operand = _safe_divisor(e, y, unsafe)
    rest = e.text.emit(x.type, f"srem {x.typed}, {divisor_operand.text}")
    differs = e.text.emit(x.type, f"xor {rest.typed}, {y.text}") if low_b < 0 else rest
    opposite = e.text.emit("i1", f"icmp slt {differs.typed}, 0")
    if low_b < 0:
        some = e.text.emit("i1", f"icmp ne {rest.typed}, 0")
        opposite = e.text.emit("i1", f"and {some.typed}, {opposite.text}")
    if instr.op == "mod":
        moved = e.text.emit(x.type, f"add {rest.typed}, {y.text}")
        return e.result(instr, f"select {opposite.typed}, {moved.typed}, {rest.typed}", bits)
    whole = e.text.emit(x.type, f"sdiv {x.typed}, {divisor_operand.text}")
    down = e.text.emit(x.type, f"sext {opposite.typed} to {x.type}")
    floor = e.text.emit(x.type, f"add {whole.typed}, {down.text}")
    return e.integer_result(instr, _zero_if(e, zero, floor))


def _power_of_two(instr: Instr, x: Operand, divisor: int, signed: bool) -> str:
    if instr.op == "mod":
        return f"and {x.typed}, {divisor - 1}"
    shift = "ashr" if signed and not x.nneg else "lshr"
    return f"{shift} {x.typed}, {divisor.bit_length() - 1}"


def _safe_divisor(e: FunctionEmitter, divisor: Operand, unsafe: Operand | None) -> Operand:
    if unsafe is None:
        return divisor
    return e.text.emit(divisor.type, f"select {unsafe.typed}, {divisor.type} 1, {divisor.typed}")


def _zero_if(e: FunctionEmitter, condition: Operand | None, value: Operand) -> Operand:
    if condition is None:
        return value
    return e.text.emit(value.type, f"select {condition.typed}, {value.type} 0, {value.typed}")


def _divide_float(e: FunctionEmitter, op: str, a: Operand, b: Operand) -> Operand:
    """As NumPy: the remainder takes the divisor's sign, the quotient is the floor; x // 0 is ±inf or NaN, x % 0 NaN."""
    text, kind = e.text, a.type
    suffix = "f32" if kind == "float" else "f64"
    zero = float_literal(0.0, kind).text
    rest = e.dialect.math(e, "fmod", [a, b])
    some = text.emit("i1", f"fcmp une {rest.typed}, {zero}")
    rest_below = text.emit("i1", f"fcmp olt {rest.typed}, {zero}")
    divisor_below = text.emit("i1", f"fcmp olt {b.typed}, {zero}")
    differ = text.emit("i1", f"xor {rest_below.typed}, {divisor_below.text}")
    adjust = text.emit("i1", f"and {some.typed}, {differ.text}")
    if op == "mod":
        moved = text.emit(kind, f"fadd {rest.typed}, {b.text}")
        kept = text.emit(kind, f"select {adjust.typed}, {moved.typed}, {rest.typed}")
        signed_zero = text.call(kind, f"llvm.copysign.{suffix}", Operand(kind, zero), b)
        return text.emit(kind, f"select {some.typed}, {kept.typed}, {signed_zero.typed}")
    exact = text.emit(kind, f"fsub {a.typed}, {rest.text}")
    quotient = text.emit(kind, f"fdiv {exact.typed}, {b.text}")
    lower = text.emit(kind, f"fadd {quotient.typed}, {float_literal(-1.0, kind).text}")
    quotient = text.emit(kind, f"select {adjust.typed}, {lower.typed}, {quotient.typed}")
    floor = text.call(kind, f"llvm.floor.{suffix}", quotient)
    over = text.emit(kind, f"fsub {quotient.typed}, {floor.text}")
    half_over = text.emit("i1", f"fcmp ogt {over.typed}, {float_literal(0.5, kind).text}")
    upper = text.emit(kind, f"fadd {floor.typed}, {float_literal(1.0, kind).text}")
    floor = text.emit(kind, f"select {half_over.typed}, {upper.typed}, {floor.typed}")
    plain = text.emit(kind, f"fdiv {a.typed}, {b.text}")
    signed_zero = text.call(kind, f"llvm.copysign.{suffix}", Operand(kind, zero), plain)
    nonzero = text.emit("i1", f"fcmp une {quotient.typed}, {zero}")
    floor = text.emit(kind, f"select {nonzero.typed}, {floor.typed}, {signed_zero.typed}")
    by_zero = text.emit("i1", f"fcmp oeq {b.typed}, {zero}")
    return text.emit(kind, f"select {by_zero.typed}, {plain.typed}, {floor.typed}")


def _fmod(e: FunctionEmitter, instr: Instr) -> Operand:
    return _math_call(e, "fmod", [e.scalar(value) for value in instr.operands])


def _math(e: FunctionEmitter, instr: Instr) -> Operand:
    function = instr.attrs["function"]
    operands = [e.scalar(value) for value in instr.operands]
    if function in ("ldexp", "powi"):
        operands[1] = e.integer(instr.operands[1], 32)
    return _math_call(e, function, operands)


def _math_call(e: FunctionEmitter, function: str, operands: list[Operand]) -> Operand:
    if operands[0].type == "half":
        if function == "nextafter":
            return half_next_after(e, operands)
        if function == "copysign":
            return half_copy_sign(e, operands)
        if function == "fma":
            return e.dialect.half_fma(e, operands)
        return _by_float(e, operands, lambda *wide: e.dialect.math(e, function, list(wide)))
    return e.dialect.math(e, function, operands)


def _bitwise(e: FunctionEmitter, instr: Instr) -> Operand:
    a, b = instr.operands
    bits = e.bits_for(instr, a, b)
    return e.result(instr, f"{instr.op} {e.integer(a, bits).typed}, {e.integer(b, bits).text}", bits)


def _shift(e: FunctionEmitter, instr: Instr) -> Operand:
    """Counts of at least the width, and negative ones, shift everything out."""
    value, count = instr.operands
    type = instr.type
    assert isinstance(type, Integer)
    bits = e.bits_for(instr, value)
    x, amount = e.integer(value, bits), e.scalar(count)
    low, high = e.range_of(count)
    if instr.op == "shl" and bits < type.bits and high < bits <= 32:
        flags = "nsw "  # value and result are int32 values, so the bits that leave are copies of the sign
    else:
        flags = ""
    arithmetic = instr.op == "shr" and _is_signed(instr, bits) and not x.nneg
    opcode = "shl" if instr.op == "shl" else "ashr" if arithmetic else "lshr"
    if low >= 0 and high < bits:
        return e.result(instr, f"{opcode} {flags}{x.typed}, {e.convert(amount, bits).text}", bits)
    # The count in 32 bits first: LLVM's NVPTX back end makes one ``shl.b64`` of the select below, and looks only at the
    # low 32 bits of a 64-bit count.
    if amount.bits > 32:
        amount = e.text.call(amount.type, f"llvm.umin.{amount.type}", amount, int_literal(255, amount.bits))
    amount = replace(e.convert(amount, 32), signed=False)
    if arithmetic:
        most = e.text.call("i32", "llvm.umin.i32", amount, int_literal(bits - 1, 32))
        return e.result(instr, f"ashr {x.typed}, {e.convert(replace(most, nneg=True), bits).text}", bits)
    inside = e.text.emit("i1", f"icmp ult {amount.typed}, {bits}")
    shifted = e.text.emit(x.type, f"{opcode} {x.typed}, {e.convert(amount, bits).text}")
    return e.result(instr, f"select {inside.typed}, {shifted.typed}, {x.type} 0", bits)


def _neg(e: FunctionEmitter, instr: Instr) -> Operand:
    (a,) = instr.operands
    if isinstance(instr.type, Float):
        return e.text.emit(e.scalar(a).type, f"fneg {e.fast}{e.scalar(a).typed}")
    bits = e.bits_for(instr, a)
    x = e.integer(a, bits)
    if bits == 1:
        return x
    flags = "nsw " if _is_signed(instr, bits) and e.range_of(a)[0] > -(1 << (bits - 1)) else ""
    return e.result(instr, f"sub {flags}{x.type} 0, {x.text}", bits)


def _inv(e: FunctionEmitter, instr: Instr) -> Operand:
    bits = e.bits_for(instr, instr.operands[0])
    x = e.integer(instr.operands[0], bits)
    return e.result(instr, f"xor {x.typed}, {'true' if bits == 1 else '-1'}", bits)


def _abs(e: FunctionEmitter, instr: Instr) -> Operand:
    (a,) = instr.operands
    if isinstance(instr.type, Float):
        x = e.scalar(a)
        return e.text.call(x.type, f"llvm.fabs.f{_BITS[x.type]}", x)
    bits = e.bits_for(instr, a)
    x = e.integer(a, bits)
    if bits == 1 or x.nneg or not _is_signed(instr, bits):
        return e.integer_result(instr, x)
    return e.integer_result(instr, e.text.call(x.type, f"llvm.abs.{x.type}", x, int_literal(0, 1)))


def _cmp(e: FunctionEmitter, instr: Instr) -> Operand:
    a, b = instr.operands
    predicate = instr.attrs["predicate"]
    if isinstance(a.type, Float):
        x, y = e.scalar(a), e.scalar(b)
        return e.text.emit("i1", f"fcmp {_ORDERED[predicate]} {x.typed}, {y.text}")
    bits = e.bits_for(instr, a, b)
    x, y = e.integer(a, bits), e.integer(b, bits)
    if predicate not in ("eq", "ne"):
        signed = isinstance(a.type, Integer) and (a.type.signed or bits < a.type.bits)
        predicate = ("s" if signed else "u") + predicate
    return e.text.emit("i1", f"icmp {predicate} {x.typed}, {y.text}")


def _cast(e: FunctionEmitter, instr: Instr) -> Operand:
    (value,) = instr.operands
    source, target = value.type, instr.type
    x = e.scalar(value)
    if isinstance(target, Boolean):
        if isinstance(source, Boolean):
            return x
        if isinstance(source, Float):
            return e.text.emit("i1", f"fcmp une {x.typed}, {float_literal(0.0, x.type).text}")
        return e.text.emit("i1", f"icmp ne {x.typed}, 0")
    if isinstance(target, Float):
        return _to_float(e, x, value, _float_type(target))
    assert isinstance(target, Integer)
    bits = 32 if target.bits == 64 and e.fits32(instr) else target.bits
    if isinstance(source, Float):
        if x.type == "half":
            x = e.text.emit("float", f"fpext {x.typed} to float")
        return e.integer_result(instr, e.dialect.float_to_int(e, x, target.bits, target.signed))
    if x.type == "i1":
        x = replace(x, signed=False)
    return e.integer_result(instr, e.convert(x, bits))


def _within(e: FunctionEmitter, instr: Instr) -> Operand:
    """A value whose bounds the front end vouches for: nothing to compute, but its range may let it be kept narrower."""
    x = e.scalar(instr.operands[0])
    if x.type == "i64" and e.ranges.fits32(instr):
        x = e.convert(x, 32)
    return e.integer_result(instr, x)


def _to_float(e: FunctionEmitter, x: Operand, value: Value, kind: str) -> Operand:
    if x.type in _BITS:
        if x.type == kind:
            return x
        how = "fpext" if _BITS[x.type] < _BITS[kind] else "fptrunc"
        return e.text.emit(kind, f"{how} {x.typed} to {kind}")
    if x.type == "i64" and e.fits32(value):
        x = e.integer(value, 32)
    if x.constant is not None and x.type != "i1":
        exact = x.constant if x.signed else x.constant & ((1 << x.bits) - 1)
        if abs(exact) <= 1 << 11:  # exact in every float type: no rounding to get right here
            return float_literal(float(exact), kind)
    how = "uitofp" if x.type == "i1" or not x.signed else "sitofp"
    return e.text.emit(kind, f"{how} {x.typed} to {kind}")


def _classify(e: FunctionEmitter, instr: Instr) -> Operand:
    x = e.scalar(instr.operands[0])
    if instr.op == "isnan":
        return e.text.emit("i1", f"fcmp uno {x.typed}, {float_literal(0.0, x.type).text}")
    size = e.text.call(x.type, f"llvm.fabs.f{_BITS[x.type]}", x)
    infinity = float_literal(float("inf"), x.type).text
    return e.text.emit("i1", f"fcmp {'oeq' if instr.op == 'isinf' else 'olt'} {size.typed}, {infinity}")


def _count_bits(e: FunctionEmitter, instr: Instr) -> Operand:
    """popc, clz and ctz, of the operand's own width; clz and ctz of 0 are that width."""
    value = _own_width(e, instr.operands[0])
    name = {"popc": "ctpop", "clz": "ctlz", "ctz": "cttz"}[instr.op]
    zero_counts = () if instr.op == "popc" else (int_literal(0, 1),)
    count = e.text.call(value.type, f"llvm.{name}.{value.type}", value, *zero_counts)
    return replace(e.convert(replace(count, nneg=True), 32), nneg=True)


def _brev(e: FunctionEmitter, instr: Instr) -> Operand:
    value = _own_width(e, instr.operands[0])
    return e.integer_result(instr, e.text.call(value.type, f"llvm.bitreverse.{value.type}", value))


def _own_width(e: FunctionEmitter, value: Value) -> Operand:
    assert isinstance(value.type, Integer)
    return e.integer(value, value.type.bits)


def _brain_cast(e: FunctionEmitter, instr: Instr) -> Operand:
    """To bfloat16, or from it by way of float32, which holds every one."""
    (value,) = instr.operands
    source, target = value.type, instr.type
    if source == target:
        return e.scalar(value)
    if not isinstance(target, BrainFloat):
        return _cast(e, Instr(target, instr.location, "cast", [_brain_value(e, value)], {}, instr.block))
    x = e.scalar(value)
    if isinstance(source, Float):
        if x.type == "half":
            x = e.text.emit("float", f"fpext {x.typed} to float")
        return e.dialect.round_brain(e, x)
    if isinstance(source, Integer) and source.bits == 64:
        x = _to_odd(e, e.integer(value, 64), source.signed)
    return e.dialect.round_brain(e, _to_float(e, x, value, "double"))


def _to_odd(e: FunctionEmitter, x: Operand, signed: bool) -> Operand:
    """A 64-bit integer that a double holds and that rounds as ``x`` does in 40 bits: bits below are one sticky bit."""
    text = e.text
    size = text.call("i64", "llvm.abs.i64", x, int_literal(0, 1)) if signed else x
    large = text.emit("i1", f"icmp ugt {size.typed}, {1 << 53}")
    low = text.emit("i64", f"and {x.typed}, 4095")
    some = text.emit("i1", f"icmp ne {low.typed}, 0")
    sticky = text.emit("i64", f"select {some.typed}, i64 2048, i64 0")
    high = text.emit("i64", f"and {x.typed}, -4096")
    rounded = text.emit("i64", f"or {high.typed}, {sticky.text}")
    return text.emit("i64", f"select {large.typed}, {rounded.typed}, {x.typed}", signed=signed)


def _brain_value(e: FunctionEmitter, value: Value) -> Value:
    """``value`` as a float32, if it is a bfloat16: where it stands, its upper half."""
    if not isinstance(value.type, BrainFloat):
        return value
    wide = Value(float32)
    e.leaves[wide] = (e.dialect.widen_brain(e, e.scalar(value)),)
    return wide


def _with_brain(row: Callable[[FunctionEmitter, Instr], Operand]) -> Callable[[FunctionEmitter, Instr], Operand]:
    """The row for bfloat16 too: computed in float32, where sums, products and quotients round innocuously, and rounded
    once more. No target below sm_90 has more than a fused multiply-add."""

    def emit(e: FunctionEmitter, instr: Instr) -> Operand:
        brain = isinstance(instr.type, BrainFloat)
        if not brain and not any(isinstance(value.type, BrainFloat) for value in instr.operands):
            return row(e, instr)
        kind = float32 if brain else instr.type
        values = [_brain_value(e, value) for value in instr.operands]
        found = row(e, Instr(kind, instr.location, instr.op, values, instr.attrs, instr.block))
        return e.dialect.round_brain(e, found) if brain else found

    return emit


def _math_row(e: FunctionEmitter, instr: Instr) -> Operand:
    function = instr.attrs["function"]
    if isinstance(instr.type, BrainFloat) and function in ("copysign", "fma", "nextafter"):
        words = [e.scalar(value) for value in instr.operands]
        if function == "fma":
            return e.dialect.brain_fma(e, words)
        if function == "copysign":
            return copy_sign(e, words)
        return next_after(e, words, [e.dialect.widen_brain(e, word) for word in words])
    return _with_brain(_math)(e, instr)


def _cast_row(e: FunctionEmitter, instr: Instr) -> Operand:
    brain = isinstance(instr.type, BrainFloat) or isinstance(instr.operands[0].type, BrainFloat)
    return (_brain_cast if brain else _cast)(e, instr)


ROWS: dict[str, Callable[[FunctionEmitter, Instr], Operand]] = {
    **dict.fromkeys(("add", "sub", "mul", "div"), _with_brain(_arithmetic)),
    **dict.fromkeys(("min", "max"), _with_brain(_min_max)),
    **dict.fromkeys(("floordiv", "mod"), _with_brain(_divide)),
    **dict.fromkeys(("and", "or", "xor"), _bitwise),
    **dict.fromkeys(("shl", "shr"), _shift),
    "fmod": _with_brain(_fmod),
    "math": _math_row,
    "neg": _with_brain(_neg),
    "inv": _inv,
    "abs": _with_brain(_abs),
    **dict.fromkeys(("popc", "clz", "ctz"), _count_bits),
    "brev": _brev,
    "cmp": _with_brain(_cmp),
    "cast": _cast_row,
    "within": _within,
    **dict.fromkeys(("isnan", "isinf", "isfinite"), _with_brain(_classify)),
}
