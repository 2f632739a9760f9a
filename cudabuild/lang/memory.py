# SPDX-License-Identifier: Apache-2.0
"""Arrays that a kernel makes: shared by a block, private to a thread, or constant; and the order of accesses."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["const", "local", "shared", "threadfence", "threadfence_block", "threadfence_system"]

shared = Namespace(
    "shared",
    "Memory that the threads of a block share.",
    array=KernelName(
        "shared.array",
        "shared.array(shape, dtype, alignment=None): an array of constant shape in shared memory; shape 0 is the "
        "dynamic shared memory of the launch configuration. alignment: bytes, where more than 16 are needed.",
    ),
)
local = Namespace(
    "local",
    "Memory private to a thread.",
    array=KernelName(
        "local.array", "local.array(shape, dtype, alignment=None): an array of constant shape, private to the thread."
    ),
)
const = Namespace(
    "const",
    "Memory that kernels read only.",
    array_like=KernelName(
        "const.array_like",
        "const.array_like(array): a NumPy array of the module, as it is when the kernel is compiled.",
    ),
)
threadfence = KernelName(
    "threadfence", "threadfence(): what this thread wrote before is seen on the device before what it writes after."
)
threadfence_block = KernelName("threadfence_block", "threadfence_block(): threadfence, for the threads of the block.")
threadfence_system = KernelName(
    "threadfence_system", "threadfence_system(): threadfence, for the host and other devices too."
)
