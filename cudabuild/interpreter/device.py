# SPDX-License-Identifier: Apache-2.0
"""The Python device behind the launch interface of ``runtime/device.py``."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild.errors import LaunchError
from cudabuild.image.image import DeviceInfo
from cudabuild.interpreter.reach import find_names, is_meeting
from cudabuild.interpreter.schedule import Schedule
from cudabuild.interpreter.thread import Block, Thread, element_type, with_attributes
from cudabuild.lang.name import interpreter
from cudabuild.types import Array, Boolean, NoneType, Record, Tuple, WeakComplex, WeakFloat, WeakInteger, shared_array

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cudabuild.definition import KernelDefinition
    from cudabuild.types import Signature, Type

    Dim = tuple[int, int, int]

__all__ = ["PythonDevice", "PythonLauncher", "convert"]

#: As many threads as an operating system gives without complaint; only a grid that meets as a whole needs more than
#: a block's.
_MOST_AT_ONCE = 4096


class PythonDevice:
    """The running interpreter."""

    kind = "python"

    def __init__(self) -> None:
        self.name = "python (this interpreter)"
        self.info = DeviceInfo((0, 0), 0, self.name)

    def bind(self, definition: KernelDefinition, signature: Signature) -> PythonLauncher:
        """Nothing is compiled."""
        return PythonLauncher(definition, signature)


class PythonLauncher:
    """One overload on the Python device."""

    source = "python"

    def __init__(self, definition: KernelDefinition, signature: Signature) -> None:
        self._definition = definition
        self._signature = signature
        names = find_names(definition.function)
        self._meets = any(map(is_meeting, names))
        self._grid_meets = "this_grid" in names or "cg.this_grid" in names

    def __call__(self, grid: Dim, block: Dim, stream: object, shared: int, args: tuple[Any, ...]) -> None:
        """Runs the kernel's function once per thread, and waits for all.

        Raises:
            LaunchError: threads that wait for each other for ever, or too many that would have to run at once.
        """
        values = [convert(kind, value) for kind, value in zip(self._signature, args, strict=True)]

        def run(thread: Thread) -> None:
            self._run(thread, values)

        blocks = [Block(index, block, grid, shared) for index in _positions(grid)] if self._grid_meets else None
        if blocks is not None:
            count = len(blocks) * block[0] * block[1] * block[2]
            if count > _MOST_AT_ONCE:
                raise LaunchError(
                    f"{self._definition.qualname}: a grid that meets as a whole is too large for the Python device\n"
                    f"  found:    {count} threads\n  expected: at most {_MOST_AT_ONCE}"
                )
            _meet(run, blocks)
            return
        for index in _positions(grid):
            one = Block(index, block, grid, shared)
            if self._meets:
                _meet(run, [one])
            else:
                for position in _positions(block):
                    run(Thread(one, position, self._refuse_meeting))

    def _run(self, thread: Thread, values: list[Any]) -> None:
        token = interpreter.set(thread)
        try:
            with np.errstate(all="ignore"):
                self._definition.function(*values)
        except Exception as error:
            add_note = getattr(error, "add_note", None)  # Python 3.11
            if add_note is not None:
                where = f"thread {thread.index} of block {thread.block.index}"
                add_note(f"in {self._definition.qualname}, {where}")
            raise
        finally:
            interpreter.reset(token)

    def _refuse_meeting(self, thread: Thread, name: str, args: tuple[Any, ...]) -> Any:
        raise LaunchError(
            f"{self._definition.qualname}: cuda.{name} is reached in a way that cannot be seen in the code\n"
            "  do:       call it by its own name, in the kernel or in a function that the kernel names"
        )


def _meet(run: Any, blocks: list[Block]) -> None:
    schedule: Schedule

    def meet(thread: Thread, name: str, args: tuple[Any, ...]) -> Any:
        return schedule.meet(thread, name, args)

    threads = [Thread(block, index, meet) for block in blocks for index in _positions(block.shape)]
    schedule = Schedule(run, threads)
    schedule.run()


def _positions(shape: Dim) -> Iterator[Dim]:
    """Every index, x fastest."""
    for z, y, x in itertools.product(range(shape[2]), range(shape[1]), range(shape[0])):
        yield x, y, z


def convert(kind: Type, value: Any) -> Any:
    """An argument as the kernel sees it: arrays of NumPy scalars, typed numbers, Python numbers for weak types."""
    if isinstance(kind, Array):
        array = shared_array(value)
        if kind.readonly:
            array = array.view()
            array.flags.writeable = False
        array = with_attributes(array)
        return array[()] if isinstance(kind.dtype, Record) and not kind.ndim else array  # a record, over its memory
    if isinstance(kind, Tuple):
        return tuple(convert(element, item) for element, item in zip(kind.elements, value, strict=True))
    if isinstance(kind, WeakInteger):
        return int(value)
    if isinstance(kind, WeakFloat):
        return float(value)
    if isinstance(kind, WeakComplex):
        return complex(value)
    if isinstance(kind, Boolean):
        return np.bool_(value)
    if isinstance(kind, NoneType):  # None, or a type
        return value
    return np.asarray(value).astype(element_type(kind))[()]
