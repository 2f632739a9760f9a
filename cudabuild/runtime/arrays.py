# SPDX-License-Identifier: Apache-2.0
"""NumPy arguments of a GPU launch: copied to the device before it and back after it.

Arrays that overlap in host memory (views of one array, one array passed twice) overlap on the device too: each run of
overlapping arrays is one allocation, and an array stands at the same distance from its start as on the host. An array
with gaps that overlaps no other travels packed, so that bytes between its elements are neither read nor written.
"""

from __future__ import annotations

from cudabuild.errors import DriverError, LaunchError
from cudabuild.types import Array, Record, Tuple

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from cudabuild.runtime.arguments import Argument
    from cudabuild.runtime.driver import Driver
    from cudabuild.types import Type

__all__ = ["HostArrays", "flatten"]

_ALIGNMENT = 256  # of every device allocation; an array keeps its host address modulo this


def flatten(kinds: Sequence[Type], arguments: Sequence[Argument]) -> Iterator[tuple[Type, Argument]]:
    """Every (type, argument), the elements of tuples in their place."""
    for kind, argument in zip(kinds, arguments, strict=True):
        if isinstance(kind, Tuple):
            yield from flatten(kind.elements, argument.value)
        else:
            yield kind, argument


class _Run:
    """Overlapping host arrays: bytes ``low`` to ``high`` of the host, and where they stand on the device."""

    __slots__ = ("allocation", "high", "low", "outputs", "pointer")

    def __init__(self, low: int, high: int) -> None:
        self.low = low
        self.high = high
        self.allocation = self.pointer = 0
        self.outputs: set[tuple[int, int]] = set()


class HostArrays:
    """The host arrays of one launch. Use: plan (the constructor), ``copy_in``, launch, ``copy_out``, ``free``."""

    def __init__(self, kinds: Sequence[Type], arguments: Sequence[Argument]) -> None:
        self._packed: list[tuple[Any, Any, bool]] = []
        self._runs: list[_Run] = []
        found = [(kind, argument) for kind, argument in flatten(kinds, arguments) if argument.reader == "host"]
        spans = [_span(argument) for _, argument in found]
        for index, (kind, argument) in enumerate(found):
            assert isinstance(kind, Array)
            aligned = bool(argument.value.flags.aligned)
            if isinstance(kind.dtype, Record):
                aligned = aligned and _is_aligned(argument, kind.alignment)
            if (aligned and (argument.c or argument.f)) or spans[index][0] == spans[index][1]:
                continue
            if not _overlaps(spans[index], spans[:index] + spans[index + 1 :]):
                self._pack(argument, written=not kind.readonly)
                spans[index] = _span(argument)
            elif not aligned:
                raise LaunchError(
                    "an unaligned NumPy array that overlaps another argument\n  do:       pass a copy of it"
                )
        self._merge(spans, [kind for kind, _ in found])

    def _pack(self, argument: Argument, written: bool) -> None:
        import numpy

        original = argument.value
        # In the order that it lies in: an unaligned array in Fortran order may stand for a parameter in that order.
        packed = numpy.array(original, order="C" if argument.c or not argument.f else "F", copy=True)
        self._packed.append((original, packed, written))
        argument.value = packed
        argument.pointer = packed.__array_interface__["data"][0]
        argument.strides = packed.strides

    def _merge(self, spans: list[tuple[int, int]], kinds: Sequence[Type]) -> None:
        for low, high in sorted(set(spans)):
            if low == high:
                continue
            if self._runs and low < self._runs[-1].high:
                self._runs[-1].high = max(high, self._runs[-1].high)
            else:
                self._runs.append(_Run(low, high))
        for (low, high), kind in zip(spans, kinds, strict=True):
            run = self._find(low)
            if run is not None and low < high and isinstance(kind, Array) and not kind.readonly:
                run.outputs.add((low, high))

    def _find(self, address: int) -> _Run | None:
        return next((run for run in self._runs if run.low <= address < run.high), None)

    def copy_in(self, driver: Driver, stream: Any) -> None:
        for run in self._runs:
            shift = run.low % _ALIGNMENT
            run.allocation = driver.allocate(run.high - run.low + shift)
            run.pointer = run.allocation + shift
            driver.copy_in(run.pointer, run.low, run.high - run.low, stream)

    def pointer_of(self, argument: Argument) -> int:
        """The device pointer of an array argument; that of a device array is its own."""
        if argument.reader != "host":
            return argument.pointer
        run = self._find(argument.pointer)
        return 0 if run is None else run.pointer + (argument.pointer - run.low)

    def copy_out(self, driver: Driver, stream: Any) -> None:
        """Waits for the launch and brings back what it may have written."""
        for run in self._runs:
            for low, high in sorted(run.outputs):
                driver.copy_out(low, run.pointer + (low - run.low), high - low, stream)
        driver.synchronize(stream)
        for original, packed, written in self._packed:
            if written:
                original[...] = packed

    def free(self, driver: Driver, *, failed: bool) -> None:
        """Gives the device memory back. After a failure the context may be lost, and freeing then fails as well."""
        for run in self._runs:
            if run.allocation:
                try:
                    driver.free(run.allocation)
                except DriverError:
                    if not failed:
                        raise


def _is_aligned(argument: Argument, alignment: int) -> bool:
    """Whether every element is: NumPy tells only of records made with ``align=True``."""
    bits = argument.pointer
    for extent, stride in zip(argument.shape, argument.strides, strict=True):
        bits |= stride if extent > 1 else 0
    return bits % alignment == 0


def _span(argument: Argument) -> tuple[int, int]:
    """The host bytes that an array's elements lie in, the end exclusive."""
    assert isinstance(argument.type, Array)
    low = high = argument.pointer
    for extent, stride in zip(argument.shape, argument.strides, strict=True):
        if extent == 0:
            return argument.pointer, argument.pointer
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + argument.type.dtype.size


def _overlaps(span: tuple[int, int], others: Sequence[tuple[int, int]]) -> bool:
    return any(span[0] < high and low < span[1] for low, high in others)
