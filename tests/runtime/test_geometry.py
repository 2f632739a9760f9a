# SPDX-License-Identifier: Apache-2.0
"""Indexing and copying between layouts, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cudabuild.runtime.geometry import gapless_strides, plan_moves, resolve_shape, take

SLICES = st.builds(
    slice,
    st.none() | st.integers(-6, 6),
    st.none() | st.integers(-6, 6),
    st.none() | st.sampled_from([-3, -2, -1, 1, 2, 3]),
)
KEYS = st.lists(SLICES | st.integers(-3, 2) | st.none() | st.just(Ellipsis), max_size=4).map(tuple)
SHAPES = st.lists(st.integers(0, 4), min_size=1, max_size=3)


@given(SHAPES, KEYS)
@settings(max_examples=300, deadline=None)
def test_take_is_what_numpy_does(shape: list[int], key: tuple[Any, ...]) -> None:
    array = np.arange(int(np.prod(shape)), dtype=np.int16).reshape(shape)
    try:
        expected = array[(*key, Ellipsis) if Ellipsis not in key else key]
    except IndexError:
        with pytest.raises(IndexError):
            take(array.shape, array.strides, key)
        return
    offset, new_shape, strides = take(array.shape, array.strides, key)
    assert new_shape == expected.shape
    if expected.size:
        assert offset == expected.ctypes.data - array.ctypes.data
        used = [n > 1 for n in new_shape]
        assert [s for s, u in zip(strides, used, strict=True) if u] == [
            s for s, u in zip(expected.strides, used, strict=True) if u
        ]


@given(SHAPES, st.data())
@settings(max_examples=200, deadline=None)
def test_moves_copy_everything_once(shape: list[int], data: st.DataObject) -> None:
    def strided(dtype: Any) -> Any:
        steps = [data.draw(st.sampled_from([-2, -1, 1, 2])) for _ in shape]
        order = data.draw(st.permutations(range(len(shape))))
        full = np.zeros([shape[a] * 2 + 1 for a in order], dtype)
        view = full.transpose(np.argsort(order))
        return view[tuple(slice(None, None, s) for s in steps)][tuple(slice(0, n) for n in shape)]

    source, target = strided(np.int32), strided(np.int32)
    source[...] = np.arange(source.size).reshape(shape)
    raw = {}
    for move in plan_moves(source.shape, target.strides, source.strides, 4):
        assert move.rows == 1 or min(move.target_step, move.source_step) >= move.width
        for row in range(move.rows):
            for byte in range(0, move.width, 4):
                key = move.target + row * move.target_step + byte
                assert key not in raw
                raw[key] = move.source + row * move.source_step + byte
    expected = {
        sum(i * s for i, s in zip(index, target.strides, strict=True)): sum(
            i * s for i, s in zip(index, source.strides, strict=True)
        )
        for index in np.ndindex(*shape)
    }
    assert raw == expected


def test_gapless_arrays_are_one_move_and_columns_one_of_rows() -> None:
    (whole,) = plan_moves((4, 5), (20, 4), (20, 4), 4)
    assert (whole.width, whole.rows) == (80, 1)
    (column,) = plan_moves((4,), (20,), (4,), 4)
    assert (column.width, column.rows, column.target_step, column.source_step) == (4, 4, 20, 4)
    (reverse,) = plan_moves((5,), (-4,), (-4,), 4)
    assert (reverse.target, reverse.source, reverse.width) == (-16, -16, 20)


def test_shapes() -> None:
    assert resolve_shape((-1, 3), 12) == (4, 3)
    assert gapless_strides((2, 3), 4) == (12, 4)
    assert gapless_strides((2, 3), 4, "F") == (4, 8)
    for shape in ((5,), (-1, -1), (-2, 6), (-1, 0)):
        with pytest.raises(ValueError, match="cannot reshape array of size 12"):
            resolve_shape(shape, 12)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="not by list"):
        take((3,), (4,), [0, 1])
    with pytest.raises(TypeError, match="not by bool"):
        take((3,), (4,), True)
    with pytest.raises(IndexError, match="index 3 is out of bounds for axis 0 with size 3"):
        take((3,), (4,), 3)
    with pytest.raises(IndexError, match="single ellipsis"):
        take((3,), (4,), (Ellipsis, Ellipsis))
