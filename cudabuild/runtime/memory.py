# SPDX-License-Identifier: Apache-2.0
"""A device's memory, streams and events: the GPU's through the driver, those of the other devices in host memory.

Both classes offer the same calls, so everything above them (:mod:`~cudabuild.runtime.device_array`,
:mod:`~cudabuild.runtime.streams`) is written once. On the CPU device every call has happened when it returns: a stream
is in order by that, and its handle is 0.
"""

from __future__ import annotations

from contextlib import contextmanager
from time import perf_counter

from cudabuild.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from cudabuild.runtime.driver import Driver

    #: Whether it is host memory, the address, bytes from one row to the next.
    Side = tuple[bool, int, int]
    Memory = "GpuMemory | HostMemory"

__all__ = ["Allocation", "GpuMemory", "HostMemory", "frees_deferred"]

_ALREADY_LOCKED = 712  #: CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED

#: How many ``frees_deferred`` blocks are open, and what waits for the last of them to end.
_held = [0]
_kept: list[tuple[Any, int]] = []


@contextmanager
def frees_deferred() -> Iterator[None]:
    """Inside, nothing is given back: freeing may make a GPU wait. What was left is given back at the end."""
    _held[0] += 1
    try:
        yield
    finally:
        _held[0] -= 1
        while _kept and not _held[0]:
            give_back, pointer = _kept.pop()
            give_back(pointer)


class Allocation:
    """Memory that is given back when nothing refers to this object any more.

    Attributes:
        pointer: its address, on the device or on the host.
        size: in bytes.
    """

    __slots__ = ("__weakref__", "_give_back", "pointer", "size")

    def __init__(self, pointer: int, size: int, give_back: Any) -> None:
        self.pointer = pointer
        self.size = size
        self._give_back = give_back

    def __del__(self, kept: list[tuple[Any, int]] = _kept, held: list[int] = _held) -> None:
        if held[0]:
            kept.append((self._give_back, self.pointer))
            return
        try:
            self._give_back(self.pointer)
        except (AttributeError, DriverError, TypeError):
            return  # the context has gone, and its memory with it; or the interpreter ends


class GpuMemory:
    """The memory of the calling thread's current GPU."""

    kind = "gpu"

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def _owned(self, pointer: int, size: int, free: Any) -> Allocation:
        driver, context = self.driver, self.driver.current_context()
        return Allocation(pointer, size, lambda address: driver.in_context(context, free, address))

    def allocate(self, size: int) -> Allocation:
        self.driver.current_device()
        return self._owned(self.driver.allocate(size or 1), size, self.driver.free)

    def allocate_host(self, size: int) -> Allocation:
        """Page-locked host memory, readable by the GPU at the same address."""
        return self._owned(self.driver.allocate_host(size or 1), size, self.driver.free_host)

    def allocate_managed(self, size: int, attach_global: bool) -> Allocation:
        """Memory that host and device use at the same address, and that moves between them."""
        return self._owned(self.driver.allocate_managed(size or 1, attach_global), size, self.driver.free)

    def lock_host(self, address: int, size: int) -> Allocation:
        """Page-locks host memory as long as the result lives."""
        if not size:
            return Allocation(address, 0, lambda pointer: None)
        try:
            self.driver.lock_host(address, size)
        except DriverError as error:
            # Memory is locked by the page, and another array on it may have been first. Then it is not ours to unlock.
            if error.code != _ALREADY_LOCKED or not self.driver.is_locked(address, size):
                raise
            return Allocation(address, size, lambda pointer: None)
        return self._owned(address, size, self.driver.unlock_host)

    def device_address(self, address: int) -> int:
        """Where the GPU sees locked host memory."""
        return self.driver.device_address(address)

    def copy(self, target: Side, source: Side, size: int, stream: int) -> None:
        """Queues a copy of ``size`` bytes in one piece."""
        driver, queue = self.driver, self.driver.get_stream(stream)
        driver.current_device()
        if target[0]:
            driver.copy_out(target[1], source[1], size, queue)
        elif source[0]:
            driver.copy_in(target[1], source[1], size, queue)
        else:
            driver.copy_within(target[1], source[1], size, queue)

    def copy_rows(self, target: Side, source: Side, width: int, rows: int, stream: int) -> None:
        """Queues a copy of ``rows`` runs of ``width`` bytes."""
        self.driver.current_device()
        self.driver.copy_rows(target, source, width, rows, self.driver.get_stream(stream))

    def fill(self, pointer: int, value: int, width: int, count: int, stream: int) -> None:
        """Queues the writing of ``count`` equal elements of 1, 2 or 4 bytes."""
        self.driver.current_device()
        self.driver.fill(pointer, value, width, count, self.driver.get_stream(stream))

    def synchronize(self) -> None:
        """Waits for everything that was queued on the current GPU."""
        self.driver.synchronize_context()

    def synchronize_stream(self, stream: int) -> None:
        self.driver.current_device()
        self.driver.synchronize(self.driver.get_stream(stream))

    def is_stream_done(self, stream: int) -> bool:
        self.driver.current_device()
        return self.driver.is_stream_done(self.driver.get_stream(stream))

    def make_stream(self) -> Allocation:
        """A stream; its handle is the ``pointer``."""
        return self._owned(self.driver.create_stream(), 0, self.driver.destroy_stream)

    def make_event(self, timing: bool) -> Allocation:
        """An event; its handle is the ``pointer``."""
        return self._owned(self.driver.create_event(timing), 0, self.driver.destroy_event)

    def record(self, event: Allocation, stream: int) -> None:
        self.driver.record_event(event.pointer, self.driver.get_stream(stream))

    def wait(self, event: Allocation, stream: int) -> None:
        """Lets the stream wait for the event."""
        self.driver.wait_event(self.driver.get_stream(stream), event.pointer)

    def synchronize_event(self, event: Allocation) -> None:
        self.driver.synchronize_event(event.pointer)

    def is_event_done(self, event: Allocation) -> bool:
        return self.driver.is_event_done(event.pointer)

    def elapsed(self, start: Allocation, end: Allocation) -> float:
        """Milliseconds between two recorded events."""
        return self.driver.elapsed(start.pointer, end.pointer)


class HostMemory:
    """Host memory in the part of device memory, for the CPU device and the Python device."""

    kind = "cpu"

    def allocate(self, size: int) -> Allocation:
        import ctypes

        memory = (ctypes.c_char * (size + 256))()  # zeroed pages; 256 is the alignment that cuMemAlloc promises
        pointer = -(-ctypes.addressof(memory) // 256) * 256
        return Allocation(pointer, size, lambda address, memory=memory: None)

    allocate_host = allocate

    def allocate_managed(self, size: int, attach_global: bool) -> Allocation:
        return self.allocate(size)

    def lock_host(self, address: int, size: int) -> Allocation:
        return Allocation(address, size, lambda pointer: None)

    def device_address(self, address: int) -> int:
        return address

    def copy(self, target: Side, source: Side, size: int, stream: int) -> None:
        import ctypes

        ctypes.memmove(target[1], source[1], size)

    def copy_rows(self, target: Side, source: Side, width: int, rows: int, stream: int) -> None:
        import ctypes

        for row in range(rows):
            ctypes.memmove(target[1] + row * target[2], source[1] + row * source[2], width)

    def fill(self, pointer: int, value: int, width: int, count: int, stream: int) -> None:
        import ctypes

        if width == 1:
            ctypes.memset(pointer, value, count)
        else:
            ctypes.memmove(pointer, value.to_bytes(width, "little") * count, width * count)

    def synchronize(self) -> None:
        """Everything has happened."""

    def synchronize_stream(self, stream: int) -> None:
        """Everything has happened."""

    def is_stream_done(self, stream: int) -> bool:
        return True

    def make_stream(self) -> Allocation:
        return Allocation(0, 0, lambda address: None)

    def make_event(self, timing: bool) -> Allocation:
        return _HostEvent()

    def record(self, event: Allocation, stream: int) -> None:
        assert isinstance(event, _HostEvent)
        event.seconds = perf_counter()

    def wait(self, event: Allocation, stream: int) -> None:
        """Everything has happened."""

    def synchronize_event(self, event: Allocation) -> None:
        """Everything has happened."""

    def is_event_done(self, event: Allocation) -> bool:
        return True

    def elapsed(self, start: Allocation, end: Allocation) -> float:
        assert isinstance(start, _HostEvent)
        assert isinstance(end, _HostEvent)
        if start.seconds is None or end.seconds is None:
            raise DriverError("elapsed time", 400, "CUDA_ERROR_INVALID_HANDLE", "an event that was never recorded")
        return (end.seconds - start.seconds) * 1e3


class _HostEvent(Allocation):
    """A moment."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        super().__init__(0, 0, lambda address: None)
        self.seconds: float | None = None
