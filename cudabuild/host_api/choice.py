# SPDX-License-Identifier: Apache-2.0
"""The device that the host-side names speak of, and its memory."""

from __future__ import annotations

from cudabuild import decorators
from cudabuild.runtime.memory import GpuMemory, HostMemory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["current_device", "current_memory"]


def current_device() -> Any:
    """The device that kernels run on."""
    return decorators.current_device()


#: Device -> its memory, made once per device object.
_memories: dict[int, tuple[Any, GpuMemory | HostMemory]] = {}


def current_memory() -> GpuMemory | HostMemory:
    """Its memory."""
    device = current_device()
    known = _memories.get(id(device))
    if known is None or known[0] is not device:
        made = GpuMemory(device.driver) if device.kind == "gpu" else HostMemory()
        known = _memories[id(device)] = (device, made)
    return known[1]
