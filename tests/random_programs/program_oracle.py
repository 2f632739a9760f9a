# SPDX-License-Identifier: Apache-2.0
"""A random program's arguments, and what it must leave in them."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
from program_kept import KeptProgram
from program_meaning import COMPLEX, FLOATS, NAMES, PARTS, beyond
from program_tree import ArraySpec, Program

__all__ = ["dtype_of", "make_arguments", "run_oracle"]


def dtype_of(kind: str) -> Any:
    """The host's dtype of an element type."""
    return np.dtype(ml_dtypes.bfloat16 if kind == "bfloat16" else kind)


def make_arguments(program: Program | KeptProgram) -> list[Any]:
    """Arrays and numbers in the order of the parameters: alike for a seed, whatever was shrunk away."""
    made: list[Any] = []
    for array in program.arrays:
        rng = np.random.default_rng((program.seed, int(array.name[1:])))
        start = _values(array.kind, array.shape, rng, program.wild)
        if array.role != "in":
            start = np.zeros(array.shape, start.dtype) if array.role != "count" else start
        made.append(_laid_out(array, start, rng))
    for name, kind in program.scalars:
        if name == "n":
            made.append(program.threads)
        else:
            rng = np.random.default_rng((program.seed, 1000))
            made.append(_values(kind, (1,), rng, program.wild)[0])
    return made


def _values(kind: str, shape: tuple[int, ...], rng: np.random.Generator, wild: bool) -> Any:
    if kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if kind in COMPLEX:
        parts = [_values(PARTS[kind], shape, rng, False) for _ in range(2)]
        return (parts[0] + 1j * parts[1]).astype(kind)
    dtype = dtype_of(kind)
    if kind in FLOATS:
        everyday = np.round(rng.normal(0, 4, shape) * 8) / 8 if rng.random() < 0.5 else rng.normal(0, 4, shape)
        with np.errstate(all="ignore"):
            found = everyday.astype(np.float32 if kind == "bfloat16" else dtype).astype(dtype)
            special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1e30, -1e-30, 65504.0, 2.0**31, 2.0**63, -1.5])
            if wild:
                chosen = rng.choice(special, shape).astype(np.float32 if kind == "bfloat16" else dtype)
                found = np.where(rng.random(shape) < 0.3, chosen.astype(dtype), found)
        return found
    limits = np.iinfo(dtype)
    small = rng.integers(max(limits.min, -9), 20, shape).astype(dtype)
    if not wild:
        return small
    edges = np.array([limits.min, limits.min + 1, limits.max, limits.max - 1, limits.max // 2 + 1, 0, 1], dtype)
    bits = rng.integers(limits.min, limits.max, shape, dtype, endpoint=True)
    pick = rng.random(shape)
    return np.where(pick < 0.2, rng.choice(edges, shape), np.where(pick < 0.5, bits, small)).astype(dtype)


def _laid_out(array: ArraySpec, values: Any, rng: np.random.Generator) -> Any:
    """``values`` in memory of the array's layout; A: every other element, backwards, or with the axes turned."""
    if array.layout == "C":
        return np.ascontiguousarray(values)
    if array.layout == "F":
        return np.asfortranarray(values)
    form = rng.integers(0, 3)
    if form == 0:
        view = np.zeros([2 * extent for extent in array.shape], values.dtype)[
            tuple(slice(None, None, 2) for _ in array.shape)
        ]
    elif form == 1:
        view = np.zeros(array.shape, values.dtype)[tuple(slice(None, None, -1) for _ in array.shape)]
    else:
        view = np.zeros([extent + 1 for extent in reversed(array.shape)], values.dtype)[
            tuple(slice(1, None) for _ in array.shape)
        ].T
    view[...] = values
    return view


class _Place:
    """One thread: where it stands, and its block's shared arrays."""

    def __init__(
        self, program: Program | KeptProgram, block: int, thread: tuple[int, int], shared: dict[str, Any]
    ) -> None:
        self.x = block * program.block[0] + thread[0]
        self.y = thread[1]
        self.t = thread[0]
        self._shared = shared

    def shared(self, name: str, extent: int, kind: str) -> Any:
        if name not in self._shared:
            self._shared[name] = new_array(extent, kind)
        return self._shared[name]


def new_array(extent: int, kind: str) -> Any:
    return np.zeros(extent, dtype_of(kind))


def last_first(*values: Any) -> tuple[Any, ...]:
    return values[-1], *values[:-1]


def items(array: Any, kind: str) -> list[Any]:
    load = NAMES[f"load_{kind}"]
    return [load(array, index) for index in range(len(array))]


def run_oracle(program: Program | KeptProgram, arguments: list[Any]) -> set[str]:
    """Runs every thread on ``arguments``; why Python itself would give something else, if it would."""
    namespace: dict[str, Any] = {**NAMES, "np": np, "new_array": new_array, "last_first": last_first, "items": items}
    exec(compile(program.meaning(), "<the oracle>", "exec"), namespace)  # the generator's own text
    kernel = namespace["kernel"]
    beyond.clear()
    values = [*arguments[: len(program.arrays)], program.threads]
    for (_, kind), value in zip(program.scalars[1:], arguments[len(program.arrays) + 1 :], strict=True):
        values.append(_model_value(kind, value))
    with np.errstate(all="ignore"):
        for block in range(program.grid[0]):
            shared: dict[str, Any] = {}
            threads = [(x, y) for y in range(program.block[1]) for x in range(program.block[0])]
            runs = [kernel(_Place(program, block, thread, shared), *values) for thread in threads]
            _in_step([run for run in runs if run is not None])
    return set(beyond)


def _model_value(kind: str, value: Any) -> Any:
    return NAMES[f"load_{kind}"](np.array([value]), 0)


def _in_step(runs: list[Any]) -> None:
    """Lets every thread go to its next barrier, again and again."""
    end = object()
    while runs:
        at_barrier = [next(run, end) is not end for run in runs]
        assert all(at_barrier) or not any(at_barrier), "a barrier that not all threads reach"
        runs = [run for run, waits in zip(runs, at_barrier, strict=True) if waits]
