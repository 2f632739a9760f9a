# SPDX-License-Identifier: Apache-2.0
"""Single instructions on scalars: bits of integers, fused and reciprocal operations on floats."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["brev", "cbrt", "clz", "ffs", "fma", "popc", "rsqrt", "selp"]

popc = KernelName("popc", "popc(x): the number of bits set in an integer.")
brev = KernelName("brev", "brev(x): an integer with its bits in reverse order.")
clz = KernelName("clz", "clz(x): the number of zero bits above the highest bit set; all of the type's bits for 0.")
ffs = KernelName("ffs", "ffs(x): the place of the lowest bit set, from 1; 0 for 0.")
selp = KernelName("selp", "selp(condition, a, b): a where the condition is true, else b; both are computed.")
fma = KernelName("fma", "fma(a, b, c): a * b + c, rounded once.")
cbrt = KernelName("cbrt", "cbrt(x): the cube root.")
rsqrt = KernelName("rsqrt", "rsqrt(x): 1 / sqrt(x).")
