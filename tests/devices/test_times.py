# SPDX-License-Identifier: Apache-2.0
"""``datetime64`` and ``timedelta64``: arithmetic, comparison, units and NaT, as NumPy has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run
from python_twin import run_both

from cudabuild import cuda

DAYS = np.array(["2005-02-03", "1969-12-31", "NaT", "2024-02-29", "1600-01-01", "1970-01-01"], "M8[D]")
SPANS = np.array([3, -4, 0, "NaT", 25, 1], "m8[D]")
HOURS = np.array([7, -30, "NaT", 48, 0, -1], "m8[h]")
START = np.datetime64("2020-01-01", "D")
HOUR = np.timedelta64(1, "h")
NAT = np.datetime64("NaT", "D")


def sums(d: Any, s: Any, h: Any, out_d: Any, out_h: Any, out_s: Any) -> None:
    for i in range(d.shape[0]):
        out_d[0, i] = d[i] + s[i]
        out_d[1, i] = d[i] - s[i]
        out_d[2, i] = s[i] + d[i]
        out_d[3, i] = d[i] + 5
        out_h[0, i] = d[i] + h[i]
        out_s[0, i] = d[i] - d[0]
        out_s[1, i] = s[i] + s[0]
        out_s[2, i] = -s[i]
        out_s[3, i] = s[i] - s[1]


def test_sums_and_differences(run: Run) -> None:
    out_d, out_h, out_s = (np.zeros((4, 6), t) for t in ("M8[D]", "M8[h]", "m8[D]"))
    run_both(run, sums, DAYS, SPANS, HOURS, out_d, out_h, out_s)


def products(s: Any, h: Any, out: Any, floats: Any, counts: Any) -> None:
    for i in range(s.shape[0]):
        out[0, i] = s[i] * 3
        out[1, i] = -2 * s[i]
        out[2, i] = s[i] * 1.5
        out[3, i] = s[i] / 2
        out[4, i] = s[i] // 2
        out[5, i] = s[i] / 2.5
        floats[i] = s[i] / h[0]
        if not np.isnat(s[i]):
            counts[i] = s[i] // h[0]
        out[6, i] = s[i] % s[4]
        out[7, i] = s[i] // -2
        out[8, i] = s[i] // 2.5


def test_products_and_quotients(run: Run) -> None:
    run_both(run, products, SPANS, HOURS, np.zeros((9, 6), "m8[D]"), np.zeros(6), np.zeros(6, "i8"))
    odd = np.array([-7, 7, -1, 5, 3, "NaT"], "m8[D]")
    run_both(run, products, odd, HOURS, np.zeros((9, 6), "m8[D]"), np.zeros(6), np.zeros(6, "i8"))


def comparisons(d: Any, s: Any, h: Any, out: Any) -> None:
    for i in range(d.shape[0]):
        out[0, i] = d[i] == d[0]
        out[1, i] = d[i] != d[0]
        out[2, i] = d[i] < d[0]
        out[3, i] = s[i] >= h[i]
        out[4, i] = s[i] == s[i]
        out[5, i] = h[i] < s[0]
        out[6, i] = np.isnat(d[i])


def test_comparisons(run: Run) -> None:
    run_both(run, comparisons, DAYS, SPANS, HOURS, np.zeros((7, 6), "?"))


UNITS = ["Y", "M", "W", "D", "h", "m", "s", "ms", "us", "25s", "3M"]


@pytest.mark.parametrize("source", UNITS)
def test_dates_change_their_unit_where_they_are_stored(run: Run, source: str) -> None:
    rng = np.random.default_rng(4)
    dates = rng.integers(-80000, 80000, 40).astype("M8[D]").astype(f"M8[{source}]")
    dates[3] = "NaT"

    def kernel(d: Any, out: Any) -> None:
        for i in range(d.shape[0]):
            out[i] = d[i]

    for target in UNITS:
        run_both(run, kernel, dates, np.zeros(40, f"M8[{target}]"))


def test_spans_change_their_unit_where_they_are_stored(run: Run) -> None:
    spans = np.array([-100, -61, -60, -1, 0, 1, 59, 60, 3601, "NaT"], "m8[s]")

    def kernel(s: Any, out: Any) -> None:
        out[:] = s

    for target in ("m", "ms", "h", "s", "25s"):
        run_both(run, kernel, spans, np.zeros(10, f"m8[{target}]"))
    run_both(run, kernel, np.array([-13, 5, 24], "m8[M]"), np.zeros(3, "m8[Y]"))


def constants(d: Any, s: Any, out: Any) -> None:
    out[0] = d[0] - START
    out[1] = HOUR * 48
    d[0] = START
    d[1] = START + np.timedelta64(3, "D")
    d[2] = np.datetime64("2021-05-06")
    d[3] = NAT
    s[0] = np.timedelta64(5, "D")


def test_constants(run: Run) -> None:
    run_both(run, constants, DAYS, SPANS, np.zeros(2, "m8[h]"))


def test_times_as_arguments_and_in_records(run: Run) -> None:
    def kernel(r: Any, d: Any, s: Any) -> None:
        r[0]["when"] = d
        r[1]["when"] = r[0]["when"] + s
        r[0]["long"] = s
        r[1] = r[0] if s == np.timedelta64(1, "D") else r[1]

    records = np.zeros(2, [("n", "i1"), ("when", "M8[s]"), ("long", "m8[ms]")])
    run_both(run, kernel, records, np.datetime64("2020-02-02", "D"), np.timedelta64(12, "h"))


def choose(a: Any, b: Any) -> Any:
    return a if a < b else b


def test_times_in_variables_and_functions(run: Run) -> None:
    def kernel(d: Any, out: Any) -> None:
        first = d[0]
        for i in range(d.shape[0]):
            first = choose(d[i], first)
        out[0] = first
        out[1] = max(d[0], d[3])

    run_both(run, kernel, DAYS[[0, 1, 3, 4]].copy(), np.zeros(2, "M8[D]"))


def test_times_as_numbers(run: Run) -> None:
    def kernel(d: Any, s: Any, out: Any) -> None:
        out[0] = np.int64(s[0]) + 1
        out[1] = np.int64(d[1])
        s[1] = np.timedelta64(out[0], "D")

    days, spans, out = DAYS.copy(), SPANS.copy(), np.zeros(2, "i8")
    run(kernel, "datetime64[D][::1], timedelta64[D][::1], int64[::1]", 1, 1, days, spans, out)
    assert out.tolist() == [4, -1]
    assert spans[1] == np.timedelta64(4, "D")


def test_a_kernel_of_many_threads(run: Run) -> None:
    def kernel(start: Any, end: Any, delta: Any, target: Any, matches: Any) -> None:
        for i in range(cuda.grid(1), delta.size, cuda.gridsize(1)):
            delta[i] = end[i] - start[i]
            matches[i] = start[i] == target

    start = np.arange("2005-02", "2006-02", dtype="M8[D]")
    end = start + np.arange(start.size) * 7
    delta, matches = np.zeros(start.size, "m8[D]"), np.zeros(start.size, "?")
    signature = "datetime64[D][::1], datetime64[D][::1], timedelta64[D][::1], datetime64[D], bool[::1]"
    run(kernel, signature, 2, 64, start, end, delta, start[5], matches)
    np.testing.assert_array_equal(delta, end - start)
    assert np.flatnonzero(matches).tolist() == [5]


def test_python_functions_of_times(run: Run) -> None:
    def kernel(s: Any, h: Any, out: Any, hours: Any) -> None:
        for i in range(s.shape[0]):
            out[0, i] = abs(s[i])
            out[1, i] = min(s[i], s[0], s[1])
            hours[i] = max(s[i], h[i])

    run_both(run, kernel, SPANS, HOURS, np.zeros((2, 6), "m8[D]"), np.zeros(6, "m8[h]"))


def test_every_other_thread_makes_times(run: Run) -> None:
    def kernel(d: Any, out: Any) -> None:
        i = cuda.grid(1)
        if i % 2 == 0 and i < d.shape[0]:
            if np.isnat(d[i]):
                d[i] = np.datetime64("2000-01-01")
            d[i] = d[i] + np.timedelta64(i, "D")
            own = cuda.local.array(1, np.dtype("M8[D]"))
            own[0] = d[i]
            out[i] = np.int64(own[0])

    days = np.array(["2020-01-01", "NaT", "NaT", "2020-01-04", "1970-01-01"], "M8[D]")
    out = np.zeros(5, "i8")
    run(kernel, "datetime64[D][::1], int64[::1]", 1, 8, days, out)
    assert days.astype(str).tolist() == ["2020-01-01", "NaT", "2000-01-03", "2020-01-04", "1970-01-05"]
    assert out.tolist() == [18262, 0, 10959, 0, 4]
