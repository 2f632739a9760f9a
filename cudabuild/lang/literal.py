# SPDX-License-Identifier: Apache-2.0
"""Names that ask the compiler for what it does by itself, as numba's programs spell them."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["literal_unroll", "literally"]

literal_unroll = KernelName(
    "literal_unroll", "literal_unroll(t): a tuple to loop over, its elements of one type or of several; unrolled."
)
literally = KernelName("literally", "literally(x): x, which has to be known before the kernel runs.")
