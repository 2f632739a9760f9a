# SPDX-License-Identifier: Apache-2.0
"""Streams and events as programs hold them, on whatever device there is."""

from __future__ import annotations

from contextlib import contextmanager

from cudabuild.runtime.configuration import stream_handle

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cudabuild.runtime.memory import Allocation, GpuMemory, HostMemory

__all__ = ["Event", "Stream"]


class Stream:
    """Work in order: what is queued on one stream happens one after the other.

    Attributes:
        handle: the driver's; 0 is the default stream.
    """

    __slots__ = ("_memory", "_owner", "handle")

    def __init__(self, memory: GpuMemory | HostMemory, handle: int, owner: Allocation | None = None) -> None:
        self._memory = memory
        self._owner = owner
        self.handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self.handle

    def __int__(self) -> int:
        return self.handle

    def __bool__(self) -> bool:
        return self.handle != 0

    def __repr__(self) -> str:
        return f"<CUDA stream {self.handle:#x}>" if self.handle else "<default CUDA stream>"

    def synchronize(self) -> None:
        """Waits for everything queued so far."""
        self._memory.synchronize_stream(self.handle)

    def query(self) -> bool:
        """Whether everything queued so far has happened."""
        return self._memory.is_stream_done(self.handle)

    @contextmanager
    def auto_synchronize(self) -> Iterator[Stream]:
        """Waits for the stream at the end of a ``with`` block."""
        yield self
        self.synchronize()

    def wait(self, event: Event) -> None:
        """Lets what is queued from now on wait for an event."""
        event.wait(self)


class Event:
    """A point in a stream.

    Args:
        memory: the device's.
        timing: whether :meth:`elapsed_time` will be asked.
    """

    __slots__ = ("_memory", "_owner")

    def __init__(self, memory: GpuMemory | HostMemory, timing: bool = True) -> None:
        self._memory = memory
        self._owner = memory.make_event(timing)

    @property
    def handle(self) -> int:
        """The driver's; 0 where there is no driver."""
        return self._owner.pointer

    def record(self, stream: Any = 0) -> None:
        """Marks the point that the stream has been given work up to."""
        self._memory.record(self._owner, stream_handle(stream))

    def wait(self, stream: Any = 0) -> None:
        """Lets what is queued on ``stream`` from now on wait for this event."""
        self._memory.wait(self._owner, stream_handle(stream))

    def query(self) -> bool:
        """Whether the stream has come here."""
        return self._memory.is_event_done(self._owner)

    def synchronize(self) -> None:
        """Waits until the stream has come here."""
        self._memory.synchronize_event(self._owner)

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds from this event to ``end``; both have been reached."""
        return self._memory.elapsed(self._owner, end._owner)
