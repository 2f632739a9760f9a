# SPDX-License-Identifier: Apache-2.0
"""Typing and lowering rules by topic; importing this package fills the registry."""

from cudabuild.frontend.impl import (
    bits,
    builtins,
    casts,
    cmath_functions,
    constants,
    kinds,
    math_functions,
    memory,
    printing,
    threads,
    warp,
)

__all__ = [
    "bits",
    "builtins",
    "casts",
    "cmath_functions",
    "constants",
    "kinds",
    "math_functions",
    "memory",
    "printing",
    "threads",
    "warp",
]
