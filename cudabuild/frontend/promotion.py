# SPDX-License-Identifier: Apache-2.0
"""The promotion table: NumPy 2's, with NEP 50's weak Python numbers.

A weak value takes the typed operand's type where its kind is not above that type's kind (bool < int < float < complex);
a weak float beside a typed integer makes float64, a weak complex number beside a typed float the narrowest complex type
that holds it. Two weak values make a weak one. Python's bools count as weak ints in arithmetic. Source: NEP 50 and
NumPy's ``result_type``; a test compares the typed half of the table with NumPy itself.
bfloat16, which NumPy has not, promotes as a float16 would, and to float32 beside float16.
"""

from __future__ import annotations

from collections.abc import Callable

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
    WeakComplex,
    WeakFloat,
    WeakInteger,
    complex64,
    complex128,
    float16,
    float32,
    float64,
    weak_complex,
    weak_float,
    weak_int,
)

__all__ = ["complex_of", "is_weak", "join_types", "promote"]


def is_weak(kind: Type) -> bool:
    """Whether a number of this type takes the other operand's type."""
    return isinstance(kind, (WeakInteger, WeakFloat, WeakComplex))


def promote(left: Scalar, right: Scalar) -> Scalar:
    """The type in which an arithmetic operation on ``left`` and ``right`` is done; not bool."""
    if isinstance(left, Boolean):
        left = weak_int
    if isinstance(right, Boolean):
        right = weak_int
    if left == right:
        return left
    if isinstance(left, Complex) or isinstance(right, Complex):
        return _promote_complex(left, right)
    if is_weak(left) and is_weak(right):
        return weak_float
    if is_weak(right):
        left, right = right, left
    if is_weak(left):
        if isinstance(left, WeakFloat) and isinstance(right, Integer):
            return float64
        return right
    if isinstance(left, Float) and isinstance(right, Float):
        if left.bits == right.bits:  # float16 and bfloat16: neither holds the other
            return float32
        return left if left.bits > right.bits else right
    if isinstance(left, Integer) and isinstance(right, Integer):
        return _promote_integers(left, right)
    if isinstance(right, Float):
        left, right = right, left
    assert isinstance(left, Float)
    assert isinstance(right, Integer)
    return _promote_mixed(left, right)


def complex_of(kind: Scalar) -> Complex:
    """The narrowest complex type whose parts hold every float of ``kind``."""
    if isinstance(kind, Complex):
        return kind
    if is_weak(kind):
        return weak_complex
    return complex64 if isinstance(kind, Float) and kind.bits <= 32 else complex128


def _promote_complex(left: Scalar, right: Scalar) -> Scalar:
    """The parts promote as floats do."""
    parts = [kind.part if isinstance(kind, Complex) else kind for kind in (left, right)]
    return complex_of(promote(*parts))


def _promote_integers(left: Integer, right: Integer) -> Scalar:
    if left.signed == right.signed:
        return left if left.bits > right.bits else right
    signed, unsigned = (left, right) if left.signed else (right, left)
    if signed.bits > unsigned.bits:
        return signed
    return Integer(unsigned.bits * 2, True) if unsigned.bits < 64 else float64


def _promote_mixed(floating: Float, integer: Integer) -> Scalar:
    """A float wide enough for the integer's bits, by NumPy's rule: 8 → 16, 16 → 32, wider → 64."""
    if isinstance(floating, BrainFloat) and integer.bits == 8:  # 8 bits of fraction, the hidden one among them
        return floating
    needed = {8: float16, 16: float32}.get(integer.bits, float64)
    return floating if floating.bits >= needed.bits else needed


def join_types(
    left: Type, right: Type, join_scalars: Callable[[Scalar, Scalar], Scalar | None] = promote
) -> Type | None:
    """The type of a variable that is ``left`` on one path and ``right`` on another, or None if there is none.

    Args:
        left, right: the two types.
        join_scalars: what two different scalars give.
    """
    if left == right:
        return left
    if isinstance(left, Scalar) and isinstance(right, Scalar):
        times = (DateTime, TimeDelta)
        return None if isinstance(left, times) or isinstance(right, times) else join_scalars(left, right)
    if isinstance(left, Array) and isinstance(right, Array):
        if left.dtype != right.dtype or left.ndim != right.ndim:
            return None
        return Array(
            left.dtype,
            left.ndim,
            left.layout if left.layout == right.layout else "A",
            left.readonly or right.readonly,
            left.space if left.space == right.space else "generic",
            min(left.alignment, right.alignment),
        )
    if isinstance(left, Tuple) and isinstance(right, Tuple) and len(left.elements) == len(right.elements):
        elements = [join_types(a, b, join_scalars) for a, b in zip(left.elements, right.elements, strict=True)]
        known = [element for element in elements if element is not None]
        return Tuple(known) if len(known) == len(elements) else None
    if isinstance(left, NoneType) or isinstance(right, NoneType):
        return None
    return None
