# SPDX-License-Identifier: Apache-2.0
"""Atomic updates of one array element."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["atomic"]


def _update(name: str, doc: str) -> KernelName:
    return KernelName(f"atomic.{name}", f"atomic.{name}(array, index, value): {doc}; returns the old value.")


atomic = Namespace(
    "atomic",
    "Read-modify-write operations that no other thread can come between, on arrays in global or shared memory. Each "
    "returns the old value.",
    add=_update("add", "array[index] += value"),
    sub=_update("sub", "array[index] -= value"),
    and_=_update("and_", "array[index] &= value (integers)"),
    or_=_update("or_", "array[index] |= value (integers)"),
    xor=_update("xor", "array[index] ^= value (integers)"),
    inc=_update("inc", "adds 1, or sets 0 where the element is value or more (unsigned integers)"),
    dec=_update("dec", "subtracts 1, or sets value where the element is 0 or more than value (unsigned integers)"),
    exch=_update("exch", "array[index] = value"),
    max=_update("max", "array[index] = max(array[index], value); nothing where either is NaN"),
    min=_update("min", "array[index] = min(array[index], value); nothing where either is NaN"),
    nanmax=_update("nanmax", "array[index] = max(array[index], value), where a NaN counts as missing"),
    nanmin=_update("nanmin", "array[index] = min(array[index], value), where a NaN counts as missing"),
    compare_and_swap=KernelName(
        "atomic.compare_and_swap",
        "atomic.compare_and_swap(array, old, value): atomic.cas of the array's first element.",
    ),
    cas=KernelName(
        "atomic.cas",
        "atomic.cas(array, index, old, value): stores value if array[index] is old, bit for bit; returns what was "
        "there.",
    ),
)
