# SPDX-License-Identifier: Apache-2.0
"""``cuda.reduce``: a function of two numbers made into a reduction of whole arrays.

Threads combine elements at the distance of the grid, blocks combine their threads' results as a tree in shared memory,
and one more block combines those of the blocks. The function has to be associative and commutative.
"""

from __future__ import annotations

from cudabuild import decorators
from cudabuild.cuda_jit import jit
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.host_api.arrays import device_array, is_cuda_array, to_device
from cudabuild.lang.memory import shared
from cudabuild.lang.thread import blockIdx, grid, gridsize, threadIdx
from cudabuild.lang.warp import syncthreads
from cudabuild.runtime.dispatcher import Dispatcher

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["Reduce", "reduce"]

_THREADS = 256
#: Enough to keep a GPU busy; what more blocks would do is done by each thread of these.
_MOST_BLOCKS = 512


def _make_kernels(combine: Any) -> tuple[Callable[..., None], Callable[..., None]]:
    """The two kernels: one that reduces an array to one number a block, one that finishes."""

    def tree(values: Any, total: Any, have: Any) -> None:
        t = threadIdx.x
        values[t] = total
        syncthreads()
        width = _THREADS // 2
        while width > 0:
            if t < width and t + width < have:
                values[t] = combine(values[t], values[t + width])
            syncthreads()
            width //= 2

    def partly(array: Any, partials: Any, count: Any) -> None:
        values = shared.array(_THREADS, partials.dtype)  # type: ignore[attr-defined]
        first = grid(1)
        total = array[min(first, count - 1)]
        for i in range(first + gridsize(1), count, gridsize(1)):
            total = combine(total, array[i])
        tree(values, total, min(_THREADS, count - blockIdx.x * _THREADS))
        if threadIdx.x == 0:
            partials[blockIdx.x] = values[0]

    def finish(partials: Any, result: Any, start: Any) -> None:
        values = shared.array(_THREADS, partials.dtype)  # type: ignore[attr-defined]
        t = threadIdx.x
        count = partials.size
        total = partials[min(t, count - 1)]
        for i in range(t + _THREADS, count, _THREADS):
            total = combine(total, partials[i])
        tree(values, total, min(_THREADS, count))
        if t == 0:
            result[0] = combine(start, values[0])

    return partly, finish


class Reduce:
    """A reduction by one function: ``Reduce(lambda a, b: a + b)(array)``.

    Args:
        functor: the function, of two numbers; also what ``cuda.jit(device=True)`` makes of one.
    """

    def __init__(self, functor: Any) -> None:
        options = DEFAULT_OPTIONS.replace(literals="numba")
        combine = functor if hasattr(functor, "definition") else jit(device=True)(functor)
        self._partly, self._finish = (
            Dispatcher(KernelDefinition(kernel, None, None, options), decorators.SERVICES)  # type: ignore[arg-type]
            for kernel in _make_kernels(combine)
        )

    def __call__(self, arr: Any, size: int | None = None, res: Any = None, init: Any = 0, stream: Any = 0) -> Any:
        """Reduces an array of one axis.

        Args:
            arr: a NumPy or device array.
            size: how many elements, from the first; all by default.
            res: a device array whose first element receives the result.
            init: what the result is combined with, and the result of no elements.
            stream: where the work is queued.

        Returns:
            The result; None where it went to ``res``, which is not waited for.

        Raises:
            TypeError: an array of another number of axes.
        """
        if arr.ndim != 1:
            raise TypeError("only support 1D array")
        count = arr.size if size is None else min(int(size), arr.size)
        start = arr.dtype.type(init)
        result = device_array(1, arr.dtype, stream=stream) if res is None else res
        if count == 0:
            if res is None:
                return init
            result.setitem(0, start, stream)
            return None
        values = arr if is_cuda_array(arr) else to_device(arr, stream)
        blocks = min(_MOST_BLOCKS, -(-count // _THREADS))
        partials = device_array(blocks, arr.dtype, stream=stream)
        self._partly[blocks, _THREADS, stream](values, partials, count)
        self._finish[1, _THREADS, stream](partials, result, start)
        return result.copy_to_host(stream=stream)[0] if res is None else None


def reduce(functor: Any) -> Reduce:
    """:class:`Reduce`, as a decorator."""
    return Reduce(functor)
