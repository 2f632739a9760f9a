# SPDX-License-Identifier: Apache-2.0
"""Atomic updates of one array element."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["atomic"]

atomic = Namespace(
    "atomic",
    "Read-modify-write operations that no other thread can come between. Each returns the old value.",
    add=KernelName("atomic.add", "atomic.add(array, index, value): array[index] += value; returns the old value."),
    min=KernelName("atomic.min", "atomic.min(array, index, value): array[index] = min(array[index], value)."),
    max=KernelName("atomic.max", "atomic.max(array, index, value): array[index] = max(array[index], value)."),
)
