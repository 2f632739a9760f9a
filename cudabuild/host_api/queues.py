# SPDX-License-Identifier: Apache-2.0
"""Streams and events, and waiting for them."""

from __future__ import annotations

from cudabuild.host_api import choice
from cudabuild.runtime.streams import Event, Stream

__all__ = [
    "Event",
    "Stream",
    "default_stream",
    "event",
    "event_elapsed_time",
    "external_stream",
    "legacy_default_stream",
    "per_thread_default_stream",
    "stream",
    "synchronize",
]

_LEGACY = 1  # CU_STREAM_LEGACY
_PER_THREAD = 2  # CU_STREAM_PER_THREAD


def stream() -> Stream:
    """A new stream."""
    memory = choice.current_memory()
    owner = memory.make_stream()
    return Stream(memory, owner.pointer, owner)


def default_stream() -> Stream:
    """The stream that everything is queued on which names none."""
    return Stream(choice.current_memory(), 0)


def per_thread_default_stream() -> Stream:
    """The default stream of the calling thread alone."""
    memory = choice.current_memory()
    return Stream(memory, _PER_THREAD if memory.kind == "gpu" else 0)


def external_stream(ptr: int) -> Stream:
    """A stream that another library made, by its handle; it must outlive the result."""
    memory = choice.current_memory()
    return Stream(memory, int(ptr) if memory.kind == "gpu" else 0)


def event(timing: bool = True) -> Event:
    """A new event; ``timing=False`` makes a cheaper one that only orders."""
    return Event(choice.current_memory(), timing)


def event_elapsed_time(evtstart: Event, evtend: Event) -> float:
    """Milliseconds between two events that have been reached."""
    return evtstart.elapsed_time(evtend)


def synchronize() -> None:
    """Waits for everything that was queued on the current device."""
    choice.current_memory().synchronize()


def legacy_default_stream() -> Stream:
    """The default stream that waits for every other stream, and they for it."""
    memory = choice.current_memory()
    return Stream(memory, _LEGACY if memory.kind == "gpu" else 0)
