# SPDX-License-Identifier: Apache-2.0
"""NumPy's reductions of arrays in a kernel, beside NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run
from python_twin import run_both

from cudabuild import cuda
from cudabuild.definition import Options
from cudabuild.runtime.arguments import read_argument

INTEGERS = ("i1", "i4", "i8", "u1", "u4", "u8", "?")
FLOATS = ("f2", "f4", "f8")


def values(dtype: str, *shape: int) -> Any:
    rng = np.random.default_rng(7)
    return rng.integers(0, 2 if dtype == "?" else 12, shape).astype(dtype)


def results(x: Any, out: Any, places: Any) -> None:
    out[0] = np.sum(x)
    out[1] = np.prod(x)
    out[2] = np.mean(x)
    out[3] = np.var(x)
    out[4] = np.std(x)
    out[5] = np.min(x)
    out[6] = np.max(x)
    places[0] = np.argmin(x)
    places[1] = np.argmax(x)
    places[2] = np.any(x)
    places[3] = np.all(x)
    places[4] = np.count_nonzero(x)


@pytest.mark.parametrize("dtype", [*INTEGERS, "f4", "f8"])
@pytest.mark.parametrize("shape", [(6,), (3, 4), (2, 3, 2)])
def test_numbers(run: Run, dtype: str, shape: tuple[int, ...]) -> None:
    tolerance = {"rtol": 1e-6} if dtype == "f4" else {}
    x = values(dtype, *shape)
    mine, python = (np.zeros(7), np.zeros(5)), (np.zeros(7), np.zeros(5))
    signature = ", ".join(read_argument(a).type.name for a in (x, *mine))
    run(results, signature, 1, 1, x, *mine)
    results(x, *python)
    np.testing.assert_allclose(mine[0], python[0], **tolerance)
    np.testing.assert_array_equal(mine[1], python[1])


SPECIAL = [
    [1.0, 2.0, 0.0, -0.0, -1.5],
    [np.nan, -1.5, 2.5, np.nan, 3.0],
    [-1.5, 2.5, np.inf, -np.inf],
    [3.0, np.inf, np.nan],
    [np.nan, np.nan],
    [-0.0],
]


def special(x: Any, out: Any, places: Any) -> None:
    out[0] = np.sum(x)
    out[1] = np.mean(x)
    out[2] = np.min(x)
    out[3] = np.max(x)
    out[4] = np.nansum(x)
    out[5] = np.nanprod(x)
    out[6] = np.nanmean(x)
    out[7] = np.nanmin(x)
    out[8] = np.nanmax(x)
    out[9] = np.nanvar(x)
    out[10] = np.nanstd(x)
    places[0] = np.argmin(x)
    places[1] = np.argmax(x)
    places[2] = np.all(x)
    places[3] = np.any(x)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("case", range(len(SPECIAL)))
def test_nan_and_infinity(run: Run, dtype: str, case: int) -> None:
    run_both(run, special, np.array(SPECIAL[case], dtype), np.zeros(11), np.zeros(4))


def methods(m: Any, out: Any) -> None:
    out[0] = m.sum()
    out[1] = m.T.mean()
    out[2] = m[1].max()
    out[3] = m[:, 2].min()
    out[4] = m[::2, 1:].argmax()
    out[5] = m[0].prod() + m.std() * 0
    out[6] = m.any() + 2 * m.all()


def test_methods_and_views(run: Run) -> None:
    run_both(run, methods, values("f8", 4, 3), np.zeros(7))
    run_both(run, methods, np.asfortranarray(values("f8", 4, 3)), np.zeros(7))


def test_complex_numbers(run: Run) -> None:
    def kernel(z: Any, out: Any) -> None:
        out[0] = np.sum(z)
        out[1] = np.mean(z)
        out[2] = np.prod(z)

    run_both(run, kernel, np.array([1 + 2j, 3 - 1j, 0.5j]), np.zeros(3, "c16"))


@pytest.mark.filterwarnings("ignore")
def test_nothing(run: Run) -> None:
    def kernel(x: Any, out: Any) -> None:
        out[0] = np.sum(x)
        out[1] = np.prod(x)
        out[2] = np.mean(x)
        out[3] = np.all(x)

    run_both(run, kernel, np.zeros(0), np.full(4, 9.0))

    def least(x: Any, out: Any) -> None:
        out[0] = np.min(x)

    with pytest.raises(IndexError):
        run(least, "float64[::1], float64[::1]", 1, 1, np.zeros(0), np.zeros(1), options=Options({"debug": True}))


def test_no_axes(run: Run) -> None:
    def kernel(x: Any, out: Any) -> None:
        out[0] = np.sum(x)
        out[1] = x.max() + np.count_nonzero(x) * 10 + np.argmin(x)

    run_both(run, kernel, np.array(2.5), np.zeros(2))


def test_each_thread_reduces_its_row(run: Run) -> None:
    def kernel(m: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i < m.shape[0]:
            out[i] = np.sum(m[i]) / m[i].max()

    m, out = values("f8", 100, 5) + 1, np.zeros(100)
    run(kernel, "float64[:, ::1], float64[::1]", 1, 128, m, out)
    np.testing.assert_allclose(out, m.sum(axis=1) / m.max(axis=1))


def rows(m: Any, out: Any) -> None:
    i = cuda.grid(1)
    if i < m.shape[0]:
        x = m[i]
        out[i, 0] = np.sum(x)
        out[i, 1] = np.prod(x)
        out[i, 2] = np.mean(x)
        out[i, 3] = np.var(x)
        out[i, 4] = np.std(x)
        out[i, 5] = np.min(x)
        out[i, 6] = np.amin(x)
        out[i, 7] = np.max(x)
        out[i, 8] = np.amax(x)
        out[i, 9] = np.argmin(x)
        out[i, 10] = np.argmax(x)
        out[i, 11] = np.any(x)
        out[i, 12] = np.all(x)
        out[i, 13] = np.count_nonzero(x)
        out[i, 14] = np.nansum(x)
        out[i, 15] = np.nanprod(x)
        out[i, 16] = np.nanmean(x)
        out[i, 17] = np.nanvar(x)
        out[i, 18] = np.nanstd(x)
        out[i, 19] = np.nanmin(x)
        out[i, 20] = np.nanmax(x)
        out[i, 21] = np.reshape(m, (-1,))[i] + np.ravel(m)[i] + np.transpose(m)[1, i]


ROW_FUNCTIONS = (
    np.sum, np.prod, np.mean, np.var, np.std, np.min, np.min, np.max, np.max, np.argmin, np.argmax, np.any, np.all,
    np.count_nonzero, np.nansum, np.nanprod, np.nanmean, np.nanvar, np.nanstd, np.nanmin, np.nanmax,
)  # fmt: skip


def test_all_reductions_of_rows(run: Run) -> None:
    m = values("f8", 50, 6)
    m[::3, 2] = np.nan
    m[1] = 0
    out = np.zeros((50, 22))
    run(rows, "float64[:, ::1], float64[:, ::1]", 1, 64, m, out)
    for index, function in enumerate(ROW_FUNCTIONS):
        wanted = [function(row) for row in m]
        np.testing.assert_allclose(out[:, index], wanted, rtol=1e-14, err_msg=function.__name__)
    np.testing.assert_array_equal(out[:, 21], m.ravel()[:50] * 2 + m[:, 1])


def extremes_by_their_old_names(x: Any, out: Any) -> None:
    out[0] = np.amin(x)
    out[1] = np.amax(x)


def test_old_names(run: Run) -> None:
    run_both(run, extremes_by_their_old_names, values("i4", 7), np.zeros(2))
