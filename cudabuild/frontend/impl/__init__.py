# SPDX-License-Identifier: Apache-2.0
"""Typing and lowering rules by topic; importing this package fills the registry."""

from cudabuild.frontend.impl import (
    bits,
    builtins,
    cache_hints,
    casts,
    cmath_functions,
    constants,
    elementwise,
    half,
    kinds,
    libdevice,
    math_functions,
    memory,
    numpy_functions,
    operator_functions,
    pointers,
    printing,
    reductions,
    threads,
    vectors,
    warp,
)

__all__ = [
    "bits",
    "builtins",
    "cache_hints",
    "casts",
    "cmath_functions",
    "constants",
    "elementwise",
    "half",
    "kinds",
    "libdevice",
    "math_functions",
    "memory",
    "numpy_functions",
    "operator_functions",
    "pointers",
    "printing",
    "reductions",
    "threads",
    "vectors",
    "warp",
]

elementwise.accept_arrays()  # last: of all rules that there are
