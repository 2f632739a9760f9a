# SPDX-License-Identifier: Apache-2.0
"""Arrays that a kernel makes: shared by a block, or private to a thread."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["local", "shared"]

shared = Namespace(
    "shared",
    "Memory that the threads of a block share.",
    array=KernelName(
        "shared.array",
        "shared.array(shape, dtype): an array of constant shape in shared memory; shape 0 is the dynamic shared memory "
        "of the launch configuration.",
    ),
)
local = Namespace(
    "local",
    "Memory private to a thread.",
    array=KernelName("local.array", "local.array(shape, dtype): an array of constant shape, private to the thread."),
)
