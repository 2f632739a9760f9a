# SPDX-License-Identifier: Apache-2.0
"""Texts: constants stored in NumPy's ``S`` and ``U`` arrays and fields, copied, compared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from launching import Run
from python_twin import run_both

from cudabuild import cuda

GREETING = "grüß dich ∑🙂"
DTYPE = np.dtype([("n", "i1"), ("name", "U5"), ("code", "S6")])
ALIGNED = np.dtype([("n", "i1"), ("name", "U5"), ("code", "S6")], align=True)


def characters(a: Any) -> None:
    a[0] = "XYZ"
    a[1] = GREETING
    a[2] = ""
    a[3] = "a text that is longer than the elements"
    text = "ab"
    a[4] = text
    a[1:2] = "many"
    a[-1] = a[0]


@pytest.mark.parametrize("dtype", ["U1", "U4", "U12", "U100"])
def test_characters(run: Run, dtype: str) -> None:
    run_both(run, characters, np.full(7, "old text", dtype))


def octets(a: Any) -> None:
    a[0] = b"XYZ"
    a[1] = b"a\xffb"
    a[2] = b""
    a[3] = "ascii"
    a[4:] = b"end"
    a[-1] = a[0]


@pytest.mark.parametrize("dtype", ["S1", "S3", "S12", "S200"])
def test_bytes(run: Run, dtype: str) -> None:
    run_both(run, octets, np.full(7, b"old text", dtype))


def fields(r: Any) -> None:
    r[0].n = 1
    r[0].name = "ABC"
    r[0]["code"] = b"xyz"
    r[1] = r[0]
    r[1]["name"] = "Ω"
    r[2].code = r[0].code
    r["name"][2] = r[0]["name"]
    r.name[3] = "all"


@pytest.mark.parametrize("dtype", [DTYPE, ALIGNED], ids=["packed", "aligned"])
def test_texts_in_records(run: Run, dtype: np.dtype) -> None:
    run_both(run, fields, np.zeros(4, dtype).view(np.recarray))


def test_a_text_of_another_length_and_kind(run: Run) -> None:
    def kernel(a: Any, b: Any, c: Any) -> None:
        a[0] = b[0]
        b[1] = a[1]
        a[1] = c[1]
        c[0] = "bytes"

    run_both(run, kernel, np.array(["one", "second"]), np.array(["longer text", "x"]), np.array([b"abc", b"de"]))


def comparisons(a: Any, b: Any, out: Any) -> None:
    n = 0
    for i in range(a.shape[0]):
        out[n] = a[i] == "abc"
        out[n + 1] = a[i] != "abc"
        out[n + 2] = a[i] == b[i]
        out[n + 3] = a[i] < b[i]
        out[n + 4] = a[i] <= "ab"
        out[n + 5] = a[i] == ""
        out[n + 6] = len(a[i])
        n += 7


def test_comparing_characters(run: Run) -> None:
    a = np.array(["abc", "ab", "abcd", "", "abd", "é"])
    b = np.array(["abc", "abc", "ab", "", "abcdefg", "e"])
    run_both(run, comparisons, a, b, np.zeros(42, "i4"))


def test_comparing_bytes(run: Run) -> None:
    def kernel(a: Any, out: Any) -> None:
        for i in range(a.shape[0]):
            out[i] = (a[i] == b"abc") + 2 * (a[i] > a[0]) + 4 * (a[i] != b"")

    run_both(run, kernel, np.array([b"abc", b"ab", b"abcd", b"", b"\xff"]), np.zeros(5, "i4"))


def test_threads_choose_texts(run: Run) -> None:
    def kernel(a: Any) -> None:
        i = cuda.grid(1)
        if i < a.shape[0]:
            if a[i] == "old":
                a[i] = "new"
            else:
                a[i] = "other"

    array = np.array(["old", "x"] * 50, "U5")
    run(kernel, "U5[::1]", 1, 128, array)
    assert array.tolist() == ["new", "other"] * 50


def test_texts_in_shared_memory(run: Run) -> None:
    def kernel(a: Any) -> None:
        tile = cuda.shared.array(4, np.dtype("U6"))
        t = cuda.threadIdx.x
        tile[t] = a[t]
        cuda.syncthreads()
        a[t] = tile[3 - t]

    array = np.array(["one", "two", "three", "four"], "U6")
    run(kernel, "U6[::1]", 1, 4, array)
    assert array.tolist() == ["four", "three", "two", "one"]
