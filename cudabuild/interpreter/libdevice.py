# SPDX-License-Identifier: Apache-2.0
"""``cuda.libdevice`` on the Python device: the functions that NumPy has too, computed in float64 and rounded once.

Intrinsics that say how to round, special functions and bit operations are not here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild.lang.libdevice import FUNCTIONS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["find_libdevice_function"]

_MEANINGS: dict[str, Callable[..., Any]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign,
    "cos": np.cos, "cosh": np.cosh, "erf": math.erf, "erfc": math.erfc, "exp": np.exp, "exp2": np.exp2,
    "expm1": np.expm1, "fabs": np.fabs, "floor": np.floor, "fmod": np.fmod, "hypot": np.hypot, "log": np.log,
    "log10": np.log10, "log1p": np.log1p, "log2": np.log2, "pow": np.power, "rint": np.rint, "sin": np.sin,
    "sincos": lambda x: (np.sin(x), np.cos(x)), "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh,
    "trunc": np.trunc,
}  # fmt: skip


def find_libdevice_function(name: str) -> Callable[..., Any] | None:
    """What stands for ``libdevice.sinf`` or ``libdevice.sin``; None for any other name."""
    base, _, function = name.partition(".")
    if base != "libdevice" or function not in FUNCTIONS:
        return None
    results = [np.dtype(result).type for result in FUNCTIONS[function].results]
    meaning = _MEANINGS.get(function.removesuffix("f") if results[0] is np.float32 else function)
    if meaning is None:
        return None

    def compute(*arguments: Any) -> Any:
        values = meaning(*map(np.float64, arguments))
        if len(results) == 1:
            return results[0](values)
        return tuple(result(value) for result, value in zip(results, values, strict=True))

    return compute
