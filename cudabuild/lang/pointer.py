# SPDX-License-Identifier: Apache-2.0
"""Arrays from addresses."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["carray", "farray"]

carray = KernelName(
    "carray",
    "carray(pointer, shape, dtype=None): the elements at an address as an array in C order.",
)
farray = KernelName("farray", "farray(pointer, shape, dtype=None): the elements at an address, in Fortran order.")
