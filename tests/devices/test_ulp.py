# SPDX-License-Identifier: Apache-2.0
"""The measure of distances between floats, and the table of largest errors."""

from __future__ import annotations

import numpy as np
import pytest
from ulp import MAX_ULP, bound_holds, limit_of, same_bits, ulp_distance

from cudabuild.ir.ops import MATH


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_distance(dtype):
    info = np.finfo(dtype)
    one, tiny = dtype(1), info.smallest_subnormal
    pairs = [
        (one, one, 0),
        (one, np.nextafter(one, dtype(2)), 1),
        (one, np.nextafter(np.nextafter(one, dtype(0)), dtype(0)), 2),
        (dtype(0.0), dtype(-0.0), 0),
        (tiny, -tiny, 2),
        (info.max, dtype(np.inf), 1),
        (dtype(np.nan), dtype(np.nan), 0),
        (dtype(np.nan), dtype(np.inf), np.inf),
    ]
    a, b = (np.array(column, dtype) for column in list(zip(*pairs, strict=True))[:2])
    wanted = [pair[2] for pair in pairs]
    np.testing.assert_array_equal(ulp_distance(a, b), wanted)
    np.testing.assert_array_equal(ulp_distance(b, a), wanted)
    whole = ulp_distance(-info.max.reshape(1), info.max.reshape(1))[0]
    assert whole == 2.0 * int(info.max.view(f"i{info.dtype.itemsize}"))


def test_same_bits_tells_zeros_and_not_nans():
    a = np.array([0.0, 0.0, np.nan, 1.0, np.inf], np.float32)
    b = np.array([0.0, -0.0, -np.nan, 2.0, np.inf], np.float32)
    assert same_bits(a, b).tolist() == [True, False, True, False, True]
    pairs = [np.stack(parts, axis=1).view(np.complex64).ravel() for parts in ((a, b), (b, b))]
    assert same_bits(*pairs).tolist() == same_bits(a, b).tolist()


def test_same_bits_of_records_and_times():
    times = np.array([3, "NaT", "NaT"], "m8[s]")
    assert same_bits(times, np.array([3, "NaT", 4], "m8[s]")).tolist() == [True, True, False]
    kind = np.dtype([("a", np.float32, (2,)), ("b", np.int8)])
    one, other = np.zeros((2, 2), kind), np.zeros((2, 2), kind)
    one["a"][0, 1] = other["a"][0, 1] = np.nan
    other["a"][1, 1] = [0.0, -0.0]
    assert same_bits(one, other).tolist() == [[True, True], [True, False]]


def test_table_knows_every_function_of_kernels():
    assert set(MATH) - set(MAX_ULP) == {"powi"}  # pow of a converted exponent
    assert limit_of("tgamma", np.float64) == 10
    assert limit_of("sin", "float32") == 2
    assert limit_of("tan", "float16") == 1
    assert limit_of("sqrt", "float16") == 0


def test_bound_of_lgamma_is_given_outside_an_interval():
    x = np.array([-11, -3, -2, 5], np.float32)
    assert bound_holds("lgamma", x).tolist() == [True, False, True, True]
    assert bound_holds("lgamma", x.astype(np.float64)).tolist() == [False, False, True, True]
    assert bound_holds("sin", x).all()
