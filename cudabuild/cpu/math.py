# SPDX-License-Identifier: Apache-2.0
"""``ir.ops.MATH`` on the host: LLVM's intrinsics for what IEEE 754 defines to the bit, libdevice for the rest.

Where libdevice is not installed, the rest is LLVM's intrinsics and the C library's functions: results then differ from
a GPU's in their last bits.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cudabuild.backend.libdevice import INTRINSICS, function_name
from cudabuild.backend.text import Operand, float_literal
from cudabuild.cpu.libdevice import find_function

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cudabuild.backend.emit import FunctionEmitter

__all__ = ["LIBRARY", "emit_math"]

#: Intrinsics that LLVM expands itself or turns into the C library's function of that name.
_LOOSE = frozenset((
    "exp", "exp2", "exp10", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh",
    "atan2", "pow",
))  # fmt: skip

#: Functions without an intrinsic, called by their C name (with ``f`` behind it for float32).
LIBRARY = frozenset((
    "cbrt", "expm1", "log1p", "asinh", "acosh", "atanh", "erf", "erfc", "tgamma", "lgamma", "hypot", "remainder",
    "nextafter",
))  # fmt: skip


def emit_math(emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
    """Appends ``function`` of float or double operands; a second operand of ``ldexp`` and ``powi`` is an i32."""
    kind = operands[0].type
    name = function_name(function, kind, fastmath=bool(emitter.options["fastmath"]))
    if name is not None and find_function(name):
        emitter.module.text.libdevice.add(name)
        return emitter.text.call(kind, name, *operands)
    suffix = "f32" if kind == "float" else "f64"
    if function in INTRINSICS or function in _LOOSE:
        intrinsic = INTRINSICS.get(function, function)
        return emitter.text.call(kind, f"llvm.{intrinsic}.{suffix}", *operands, flags=emitter.fast)
    if function in LIBRARY:
        return _library(emitter, function, operands)
    return _OTHERS[function](emitter, kind, suffix, operands)


def _library(emitter: FunctionEmitter, function: str, operands: Sequence[Operand]) -> Operand:
    kind = operands[0].type
    name = function + ("f" if kind == "float" else "")
    group = emitter.module.text.attribute_group("nounwind willreturn memory(none)")
    types = ", ".join(operand.type for operand in operands)
    # Declared here, with attributes: errno is nobody's business, so calls may be moved, merged and dropped.
    emitter.module.text.declares.setdefault(name, f"declare {kind} @{name}({types}) {group}")
    return emitter.text.call(kind, name, *operands)


def _fmod(e: FunctionEmitter, kind: str, suffix: str, operands: Sequence[Operand]) -> Operand:
    return e.text.emit(kind, f"frem {operands[0].typed}, {operands[1].text}")


def _rsqrt(e: FunctionEmitter, kind: str, suffix: str, operands: Sequence[Operand]) -> Operand:
    root = e.text.call(kind, f"llvm.sqrt.{suffix}", operands[0])
    return e.text.emit(kind, f"fdiv {float_literal(1.0, kind).typed}, {root.text}")


def _ldexp(e: FunctionEmitter, kind: str, suffix: str, operands: Sequence[Operand]) -> Operand:
    return e.text.call(kind, f"llvm.ldexp.{suffix}.i32", *operands)


def _powi(e: FunctionEmitter, kind: str, suffix: str, operands: Sequence[Operand]) -> Operand:
    # As libdevice does it: pow of the converted exponent, so that both devices round alike.
    exponent = e.text.emit(kind, f"sitofp {operands[1].typed} to {kind}")
    return e.text.call(kind, f"llvm.pow.{suffix}", operands[0], exponent)


_OTHERS: dict[str, Callable[[FunctionEmitter, str, str, Sequence[Operand]], Operand]] = {
    "fmod": _fmod,
    "rsqrt": _rsqrt,
    "ldexp": _ldexp,
    "powi": _powi,
}
