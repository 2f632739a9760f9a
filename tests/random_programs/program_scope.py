# SPDX-License-Identifier: Apache-2.0
"""What random programs are written from: numbers, functions, and what has a value at a place."""

from __future__ import annotations

from dataclasses import dataclass, field

from program_meaning import BITS, INTEGERS
from program_tree import Expr

__all__ = [
    "COMPARISONS", "DYADIC", "EDGES", "FLOAT_TEXTS", "NEAR", "SYMBOLS", "Callable_", "Scope", "View", "cast", "late",
]  # fmt: skip

SYMBOLS = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "floordiv": "//", "mod": "%", "and": "&", "or": "|", "xor": "^",
    "shl": "<<", "shr": ">>",
}  # fmt: skip
COMPARISONS = ("<", "<=", "==", "!=", ">", ">=")
EDGES = (127, 128, 255, 256, 32767, 65535, 2147483647, 2147483648, 4294967295, 1 << 40, (1 << 63) - 1)
FLOAT_TEXTS = ("0.0", "0.5", "1.5", "-2.0", "3.25", "0.1", "-0.7", "100.0", "7.0", "1e-05", "-0.0")
DYADIC = ("0.5", "2.0", "-0.25", "1.5", "4.0")

#: math's name -> (NumPy's, how many arguments, the name in the table of error bounds)
NEAR = {
    "sin": ("sin", 1, "sin"), "cos": ("cos", 1, "cos"), "tan": ("tan", 1, "tan"), "exp": ("exp", 1, "exp"),
    "log": ("log", 1, "log"), "log2": ("log2", 1, "log2"), "log10": ("log10", 1, "log10"),
    "log1p": ("log1p", 1, "log1p"), "expm1": ("expm1", 1, "expm1"), "sinh": ("sinh", 1, "sinh"),
    "cosh": ("cosh", 1, "cosh"), "tanh": ("tanh", 1, "tanh"), "asin": ("arcsin", 1, "asin"),
    "acos": ("arccos", 1, "acos"), "atan": ("arctan", 1, "atan"), "asinh": ("arcsinh", 1, "asinh"),
    "hypot": ("hypot", 2, "hypot"), "atan2": ("arctan2", 2, "atan2"),
}  # fmt: skip


@dataclass
class View:
    """An array that a scope can index.

    Attributes:
        shape: its extents; None where it is known only at run time.
        own: the axis whose index must be the thread's own; None: any element may be read.
        writable: whether the thread may write there.
    """

    name: str
    kind: str
    shape: tuple[int | None, ...]
    own: int | None = None
    writable: bool = False


@dataclass
class Callable_:
    """A device function: its parameters' types (a View for an array, a list for a tuple), and what it returns."""

    name: str
    parameters: list[str | View | list[str]]
    results: list[str]
    defaults: int = 0


@dataclass
class Scope:
    """What has a value at a place.

    Attributes:
        variables: may be read and assigned.
        readable: may only be read, such as the elements of a tuple.
        steady: small integers that are only read: name -> (type, least, most).
    """

    variables: dict[str, str] = field(default_factory=dict)
    readable: dict[str, str] = field(default_factory=dict)
    steady: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    views: list[View] = field(default_factory=list)

    def inner(self) -> Scope:
        return Scope(dict(self.variables), dict(self.readable), dict(self.steady), list(self.views))


def cast(expr: Expr, kind: str) -> Expr:
    """``expr`` as ``kind`` where the language converts of its own accord: only the meaning says so."""
    if expr.kind == kind:
        return expr
    source = "{}" if expr.kind != "int" or kind not in INTEGERS else late(expr, kind)
    return Expr(kind, source, f"{expr.kind}_to_{kind}({{}})", [expr])


def late(expr: Expr, kind: str) -> str:
    """The template of a Python integer that meets the type ``kind``: no compiler must know one that it cannot hold,
    or the program is refused. It knows much; but the values of literals are known here too."""
    bits, text = BITS[kind], expr.source.strip("()")
    low, high = (0, (1 << bits) - 1) if kind[0] == "u" else (-(1 << (bits - 1)), (1 << (bits - 1)) - 1)
    if text.lstrip("-").isdigit() and low <= int(text) <= high:
        return "{}"
    return "({} + cuda.threadIdx.x * 0)"
