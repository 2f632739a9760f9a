# SPDX-License-Identifier: Apache-2.0
"""Texts in memory (NumPy's ``S`` and ``U``): storing, comparing, their length.

A text is an array of character codes, with zeros behind the last character; a constant of the kernel is one too, once
it is compared at run time.
"""

from __future__ import annotations

from cudabuild.frontend import library_arrays
from cudabuild.frontend.context import Context
from cudabuild.frontend.diagnostics import Refusal
from cudabuild.frontend.impl.elements import codes_of, rebase
from cudabuild.frontend.operands import Operand, Static, describe
from cudabuild.ir.ir import Value
from cudabuild.types import Array, CharSeq, bool_, none, uint8, uint32, weak_int

__all__ = ["compare_texts", "is_text", "store_text", "text_length"]

#: Characters of a text that are stored one by one, without a loop.
_UNROLLED = 64
_PREDICATES = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}


def is_text(operand: Operand) -> bool:
    """Whether the operand is a text in memory."""
    return isinstance(operand, Value) and _kind(operand) is not None


def _kind(value: Value) -> CharSeq | None:
    if isinstance(value.type, Array) and value.type.ndim == 0 and isinstance(value.type.dtype, CharSeq):
        return value.type.dtype
    return None


def store_text(context: Context, place: Value, value: Operand, position: int | None = None) -> None:
    """``place[()] = value``: a constant text, or another one in memory; what is too long is cut off, as in NumPy."""
    kind = _kind(place)
    assert kind is not None
    if is_text(value):
        assert isinstance(value, Value)
        source = _kind(value)
        if source == kind or (source is not None and (kind.unicode or not source.unicode)):
            context.calls.call(
                context, library_arrays.copy_text, [codes_of(context, place), codes_of(context, value)], {}
            )
            return
    characters = _constant_codes(value, kind.unicode)
    if characters is None:
        raise Refusal(
            f"cannot store this in an array of {kind.name}",
            found=describe(value),
            expected="a constant text" if kind.unicode else "constant bytes, or a text of ASCII characters",
            do="write a text between quotes, or a text from another array",
            operand=position,
        )
    target, outer = rebase(context, codes_of(context, place))
    code = uint32 if kind.unicode else uint8
    written = kind.length if kind.length <= _UNROLLED else min(len(characters), kind.length)
    for index in range(written):
        character = characters[index] if index < len(characters) else 0
        context.emit("store", none, target, *outer, context.weak(index), context.const(character, code))
    if written < kind.length:
        arguments = [codes_of(context, place), context.weak(written)]
        context.calls.call(context, library_arrays.clear_text, arguments, {})


def _constant_codes(value: Operand, unicode: bool) -> list[int] | None:
    """The codes of a constant text, or None: bytes and ASCII convert into one another, as in NumPy."""
    text = value.value if isinstance(value, Static) else None
    if isinstance(text, bytes):
        codes = list(text)
        return codes if not unicode or all(code < 128 for code in codes) else None
    if isinstance(text, str):
        codes = [ord(character) for character in text]
        return codes if unicode or all(code < 128 for code in codes) else None
    return None


def compare_texts(context: Context, operator: str, left: Operand, right: Operand) -> Operand:
    """A comparison of two texts, at least one of them in memory; by code, zeros at the end do not count."""
    kinds = [_kind(value) for value in (left, right) if isinstance(value, Value)]
    known = [kind for kind in kinds if kind is not None]
    alike = all(kind.unicode == known[0].unicode for kind in known)
    codes = [_codes(context, value, known[0].unicode) for value in (left, right)]
    if not alike or codes[0] is None or codes[1] is None:
        raise Refusal(
            f"'{operator}' between a text and something else",
            found=f"{describe(left)} {operator} {describe(right)}",
            expected="two texts, both of characters or both of bytes",
            do="compare with a constant of the same kind: 'abc' with U, b'abc' with S",
        )
    order = context.calls.call(context, library_arrays.compare_codes, [codes[0], codes[1]], {})
    if not isinstance(order, Value):
        return order
    wide = context.cast(order, weak_int)
    return context.emit("cmp", bool_, wide, context.weak(0), predicate=_PREDICATES[operator])


def _codes(context: Context, value: Operand, unicode: bool) -> Value | None:
    if isinstance(value, Value) and is_text(value):
        return codes_of(context, value)
    text = value.value if isinstance(value, Static) else None
    if not isinstance(text, str if unicode else bytes):
        return None
    codes = _constant_codes(value, unicode)
    assert codes is not None
    codes = codes or [0]
    code = uint32 if unicode else uint8
    data = b"".join(number.to_bytes(code.size, "little") for number in codes).hex()
    kind = Array(code, 1, "C", readonly=True, space="const")
    return context.emit("constant", kind, shape=(len(codes),), data=data)


def text_length(context: Context, text: Value) -> Operand:
    """The number of characters, zeros at the end left out."""
    return context.calls.call(context, library_arrays.text_length, [codes_of(context, text)], {})
