# SPDX-License-Identifier: Apache-2.0
"""Arrays from addresses."""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["carray", "farray", "from_buffer"]

carray = KernelName(
    "carray",
    "carray(pointer, shape, dtype=None): the elements at an address as an array in C order.",
)
farray = KernelName("farray", "farray(pointer, shape, dtype=None): the elements at an address, in Fortran order.")
from_buffer = KernelName(
    "from_buffer", "from_buffer(array): a pointer to the first element, as cffi's FFI().from_buffer gives it."
)
