# SPDX-License-Identifier: Apache-2.0
"""Assignment to slices, rows and whole arrays, and the views that need no memory: as NumPy does it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run
from python_twin import run_both

from cudabuild import cuda
from cudabuild.definition import Options
from cudabuild.types import float32, int32

DEBUG = Options({"debug": True})


def numbers(*shape: int, dtype: str = "f4", order: Any = "C") -> Any:
    return np.asarray(np.arange(1, 1 + np.prod(shape)).reshape(shape), dtype, order=order)


def scalars(x: Any, m: Any) -> None:
    x[1:4] = 7
    x[-2:] = 2.5
    x[::3] = x[1]
    m[1] = 9
    m[:, 0] = 4
    m[..., 1] = m[2, 2]
    m[2:, 1:] = True
    x[3:1] = 99
    x[10:20] = 99


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i2", "u1"])
def test_a_number_to_many_elements(run: Run, dtype: str, order: str) -> None:
    run_both(run, scalars, numbers(8, dtype=dtype), numbers(4, 3, dtype=dtype, order=order))


def arrays(x: Any, y: Any, m: Any, n: Any) -> None:
    x[2:5] = y[:3]
    x[:2] = y[::-1][:2]
    m[0] = y[:3]
    m[:, 1] = y[:4]
    m[1:3] = n
    n[:] = m[2:]
    m[3, ::2] = y[4:]
    m[:, :1] = y[0:1]


@pytest.mark.parametrize("order", ["C", "F"])
def test_arrays_to_slices(run: Run, order: str) -> None:
    run_both(run, arrays, numbers(6), numbers(6, dtype="i4") * 10, numbers(4, 3, order=order), numbers(2, 3) * 100)


def broadcast(m: Any, row: Any, column: Any, cube: Any) -> None:
    cube[:] = m
    m[:] = row
    cube[0, :, :] = column
    cube[1] = row[1]
    m[:, :] = column
    cube[:, 1] = row


def test_broadcasting(run: Run) -> None:
    run_both(run, broadcast, numbers(4, 3), numbers(3) * 10, numbers(4, 1) * 100, numbers(2, 4, 3))


@pytest.mark.parametrize("shift", [1, -1, 2])
def test_a_shift_within_one_array(run: Run, shift: int) -> None:
    def up(x: Any, m: Any) -> None:
        x[1:] = x[:-1]
        m[1:] = m[:-1]
        m[:, 1:] = m[:, :-1]

    def down(x: Any, m: Any) -> None:
        x[:-1] = x[1:]
        m[:-1, :] = m[1:, :]
        m[:, :-1] = m[:, 1:]

    def apart(x: Any, m: Any) -> None:
        y = x[::-1]
        y[2:] = y[:-2]
        y[:-1] = y[1:]
        m[2:, 1:] = m[:-2, :-1]
        m[:-1, 1:] = m[1:, :-1]

    run_both(run, {1: up, -1: down, 2: apart}[shift], numbers(9), numbers(5, 4))


def tuples(x: Any, m: Any) -> None:
    x[1:4] = (7, 8.5, 9)
    m[1] = (1, 2, 3)
    m[2:4] = ((4, 5, 6), (7, 8, 9))


def test_tuples_to_slices(run: Run) -> None:
    run_both(run, tuples, numbers(6), numbers(4, 3))


def rows(m: Any, total: Any) -> None:
    for row in m:
        row[0] = len(row)
        row[1:] = row[:-1]
        for value in row:
            total[0] += value
    for i, row in enumerate(m):
        total[1] += row[1] * i


def test_iteration_by_rows(run: Run) -> None:
    run_both(run, rows, numbers(3, 4), np.zeros(2))
    run_both(run, rows, numbers(3, 4, order="F"), np.zeros(2))


def views(x: Any, m: Any, out: Any) -> None:
    out[0] = m.T[2, 1]
    out[1] = m.T.shape[0] * 10 + m.T.shape[1]
    out[2] = m.reshape(-1)[5]
    out[3] = m.reshape(3, 4)[2, 1]
    out[4] = m.reshape((2, -1))[1, 0]
    out[5] = m.ravel()[7]
    out[6] = x[:, None][3, 0]
    out[7] = x[None].shape[1]
    out[8] = x.reshape(2, 3)[1].reshape(3, 1)[2, 0]
    out[9] = m[1, None, :].shape[0] + m[1, None, :].ndim
    out[10] = m.transpose()[0, 3]
    out[11] = m.transpose(1, 0)[1, 3]
    out[12] = m.nbytes + m.itemsize + m.size
    m.T[0] = 5
    m.reshape(-1)[-2:] = 6
    x.fill(3)
    m[1].fill(2)
    x[:, np.newaxis][:2] = 8


def test_views_of_the_same_memory(run: Run) -> None:
    run_both(run, views, numbers(6), numbers(4, 3), np.zeros(13))


def transposed_columns(m: Any, out: Any) -> None:
    turned = m.T
    for i in range(turned.shape[0]):
        for j in range(turned.shape[1]):
            out[i, j] = turned[i, j]
    out.T[:, 0] = m[:, 0]


@pytest.mark.parametrize("order", ["C", "F"])
def test_transposing(run: Run, order: str) -> None:
    run_both(run, transposed_columns, numbers(4, 3, order=order), np.zeros((3, 4)))
    run_both(run, transposed_columns, numbers(8, 6, order=order)[::2, ::2], np.zeros((3, 4)))


def permuted(c: Any, out: Any) -> None:
    out[:] = c.transpose(2, 0, 1)[1]
    out[0] = c.T[0, :, 1][1]


def test_permuting_axes(run: Run) -> None:
    run_both(run, permuted, numbers(2, 3, 4), np.zeros((2, 3)))


def as_bytes(x: Any, out: Any) -> None:
    b = x.view(np.uint8)
    out[0] = b.shape[0]
    out[1] = b[6]
    b[3] = 1
    out[2] = x.view(np.int32)[1]
    out[3] = b.view(np.int16)[5]


def test_other_types_of_the_same_memory(run: Run) -> None:
    run_both(run, as_bytes, np.array([3, 70000, -5, 12], "i4"), np.zeros(4, "i8"))
    run_both(run, as_bytes, np.array([3, 7.5, -5, 12], "f4"), np.zeros(4, "i8"))


def test_no_axes(run: Run) -> None:
    def kernel(a: Any, out: Any) -> None:
        out[0] = a[()] + a[...]
        a[()] = 5
        a[...] = a[()] + 1

    run_both(run, kernel, np.array(2.5), np.zeros(1))


def test_slices_of_shared_and_local_memory(run: Run) -> None:
    def kernel(x: Any) -> None:
        tile = cuda.shared.array((4, 8), float32)
        own = cuda.local.array(8, int32)
        own[:] = 3
        own[2:5] = own[:3]
        t = cuda.threadIdx.x
        tile[t] = own
        tile[t, 1::2] = t
        cuda.syncthreads()
        x[t] = tile[3 - t]

    array = np.zeros((4, 8), "f4")
    run(kernel, "float32[:, ::1]", 1, 4, array)
    wanted = np.full((4, 8), 3, "f4")
    wanted[:, 1::2] = np.arange(4)[::-1, None]
    np.testing.assert_array_equal(array, wanted)


def set_row(row: Any, value: Any) -> None:
    row[:] = value


def test_slices_are_passed_to_functions(run: Run) -> None:
    def kernel(m: Any, x: Any) -> None:
        set_row(m[1], 5)
        set_row(m[:, 2], x[:4])
        set_row(m[2:, :2], x[1])

    run_both(run, kernel, numbers(4, 3), numbers(6))


def mismatch(x: Any, y: Any, n: int) -> None:
    x[:] = y[:n]


@pytest.mark.parametrize("n", [3, 5])
def test_another_number_of_elements_is_told_under_debug(run: Run, n: int) -> None:
    x, y = np.zeros(4, "f4"), numbers(6)
    with pytest.raises(ValueError, match="could not broadcast"):
        run(mismatch, "float32[::1], float32[::1], int", 1, 1, x, y, n, options=DEBUG)
    assert not x.any()
    run(mismatch, "float32[::1], float32[::1], int", 1, 1, x, y, 4, options=DEBUG)
    np.testing.assert_array_equal(x, y[:4])
    run(mismatch, "float32[::1], float32[::1], int", 1, 1, x, y, n)  # not told, and nothing assigned
    np.testing.assert_array_equal(x, y[:4])


def test_a_shape_that_does_not_fit_is_told_under_debug(run: Run) -> None:
    def kernel(x: Any, n: int) -> None:
        x.reshape(n, 2)[0, 0] = 1

    with pytest.raises(ValueError, match="cannot reshape"):
        run(kernel, "float32[::1], int", 1, 1, numbers(7), 3, options=DEBUG)
    run(kernel, "float32[::1], int", 1, 1, numbers(6), 3, options=DEBUG)


def test_tuples_of_another_length_are_told_under_debug(run: Run) -> None:
    def kernel(x: Any) -> None:
        x[:] = (1, 2, 3)

    with pytest.raises(ValueError, match="could not broadcast"):
        run(kernel, "float32[::1]", 1, 1, numbers(4), options=DEBUG)


def test_a_row_that_is_not_there_is_told(run: Run) -> None:
    def kernel(m: Any, i: int) -> None:
        m[i] = 5

    array = numbers(3, 2)
    with pytest.raises(IndexError):
        run(kernel, "float32[:, ::1], int", 1, 1, array, 3, options=DEBUG)
    np.testing.assert_array_equal(array, numbers(3, 2))


def test_an_extent_that_follows_from_the_others_at_run_time(run: Run) -> None:
    for options in (None, DEBUG):
        for n in (-1, 3):

            def kernel(x: Any, n: int, out: Any) -> None:
                out[0] = x.reshape(n, 4)[1, 2]
                out[1] = x.reshape((2, n, 2)).shape[1]
                out[2] = x[:0].reshape(n, 0).shape[0]

            out = np.zeros(3)
            chosen = {} if options is None else {"options": options}
            run(kernel, "float32[::1], int, float64[::1]", 1, 1, numbers(12), n, out, **chosen)
            assert out.tolist() == [7, 3, 0 if n == -1 else 3]


TABLE = np.array([[1.5, 2.5, 3.5], [4, 5, 6]])


def test_copies_of_arrays_with_constant_extents(run: Run) -> None:
    def kernel(out: Any) -> None:
        own = TABLE.copy()
        own[0] = own[1]
        tile = cuda.shared.array(3, float32)
        tile[:] = 7
        other = tile.copy()
        tile[0] = 8
        out[:2] = own
        out[2] = other

    out = np.zeros((3, 3))
    run(kernel, "float64[:, ::1]", 1, 1, out)
    assert out.tolist() == [[4, 5, 6], [4, 5, 6], [7, 7, 7]]


def numpy_names(m: Any, out: Any) -> None:
    out[0] = np.reshape(m, (2, 6))[1, 2]
    out[1] = np.ravel(m)[4]
    out[2] = np.transpose(m)[2, 0]
    for value in m.flat:
        out[3] += value
    out[4] = m[1, 1].astype(np.int8)
    out[5] = m[0, 1].item()


def test_numpys_functions_and_methods_of_one_element(run: Run) -> None:
    run_both(run, numpy_names, numbers(4, 3) + np.float32(0.5), np.zeros(6))


def test_a_view_of_memory_that_is_not_aligned_is_told_under_debug(run: Run) -> None:
    def kernel(b: Any, n: int) -> None:
        b[n : n + 8].view(np.float64)[0] = 1.0

    for start in (0, 8):
        run(kernel, "uint8[::1], int", 1, 1, np.zeros(64, "u1"), start, options=DEBUG)
    with pytest.raises(ValueError, match="not aligned"):
        run(kernel, "uint8[::1], int", 1, 1, np.zeros(64, "u1"), 4, options=DEBUG)


def test_a_shape_that_does_not_fit_holds_no_elements(run: Run) -> None:
    def kernel(x: Any, n: int, out: Any) -> None:
        wrong = x.reshape(n, 1000)
        out[0] = wrong.size
        for row in wrong:
            row[:] = 7

    def negative(x: Any, n: int, out: Any) -> None:
        wrong = x.reshape(n, n)
        out[0] = wrong.size
        for row in wrong:
            row[:] = 7

    for function, n, size in ((kernel, 10, 7), (negative, -2, 4)):
        x, out = numbers(size), np.full(1, -1.0)
        run(function, "float32[::1], int, float64[::1]", 1, 1, x, n, out)
        assert out[0] == 0
        np.testing.assert_array_equal(x, numbers(size))


def test_a_reshaped_row_that_is_not_there_is_touched_nowhere(run: Run) -> None:
    def kernel(m: Any, i: int) -> None:
        again = m[i].reshape(2, -1)
        for row in again:
            for k in range(row.shape[0]):
                row[k] = 5
        again[1, 0] = 6

    for array in (numbers(3, 4), np.zeros((0, 4), "f4")):
        before = array.copy()
        with pytest.raises(IndexError):
            run(kernel, "float32[:, ::1], int", 1, 1, array, 3, options=DEBUG)
        np.testing.assert_array_equal(array, before)


def part_of(row: Any) -> Any:
    return row[1:3]


def test_a_slice_of_a_row_that_is_not_there_is_touched_nowhere(run: Run) -> None:
    def kernel(m: Any, i: int) -> None:
        row = m[i]
        part = row[1:3]
        part[0] = 5
        for k in range(part.shape[0]):
            part[k] = 6
        part_of(m[i])[1] = 7
        row[::2].fill(8)

    for array in (numbers(3, 4), np.zeros((0, 4), "f4")):
        before = array.copy()
        with pytest.raises(IndexError):
            run(kernel, "float32[:, ::1], int", 1, 1, array, 3, options=DEBUG)
        np.testing.assert_array_equal(array, before)
