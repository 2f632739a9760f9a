# SPDX-License-Identifier: Apache-2.0
"""Runs a kernel's own Python, thread after thread: the oracle for what its compiled forms must give.

Array elements are NumPy scalars, so typed arithmetic wraps and promotes as NumPy 2 says; Python numbers stay Python
numbers. Only for kernels whose threads do not wait for one another.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from cudabuild.lang.name import interpreter

__all__ = ["run_python"]


def run_python(
    function: Callable[..., Any], grid: tuple[int, int, int], block: tuple[int, int, int], *args: Any
) -> None:
    """Calls ``function`` once for every thread of the launch, in order."""
    for block_index in itertools.product(*(range(size) for size in reversed(grid))):
        for thread_index in itertools.product(*(range(size) for size in reversed(block))):
            answer = _Thread(thread_index[::-1], block_index[::-1], block, grid)
            token = interpreter.set(answer)
            try:
                with np.errstate(all="ignore"):
                    function(*args)
            finally:
                interpreter.reset(token)


class _Thread:
    """What the kernel-side names answer for one thread."""

    def __init__(self, thread: tuple[int, ...], block: tuple[int, ...], block_dim: Any, grid_dim: Any) -> None:
        self.registers = {"threadIdx": thread, "blockIdx": block, "blockDim": block_dim, "gridDim": grid_dim}

    def __call__(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        base, _, rest = name.partition(".")
        if base in self.registers:
            return self.registers[base]["xyz".index(rest)]
        if base in ("grid", "gridsize"):
            values = tuple(self._axis(base, axis) for axis in range(args[0]))
            return values[0] if args[0] == 1 else values
        if base == "local":
            return np.zeros(*args, **kwargs)
        if base == "atomic":
            array, index, value = args
            old = array[index]
            array[index] = {"add": lambda: old + value, "min": lambda: min(old, value), "max": lambda: max(old, value)}[
                rest
            ]()
            return old
        raise AssertionError(f"cuda.{name} is not interpreted")

    def _axis(self, base: str, axis: int) -> int:
        size = self.registers["blockDim"][axis]
        if base == "gridsize":
            return int(size * self.registers["gridDim"][axis])
        return int(self.registers["blockIdx"][axis] * size + self.registers["threadIdx"][axis])
