# SPDX-License-Identifier: Apache-2.0
"""The CPU device behind the launch interface that users see."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.decorators import Services
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError, LaunchError
from cudabuild.runtime.dispatcher import Dispatcher


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")
    services = Services()
    return lambda function, spec=None: Dispatcher(KernelDefinition(function, spec), services)


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def add_one(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] += 1


class Wrapped:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__


def test_configurations_and_overloads(kernel):
    both = ["float32, float32[::1], float32[::1]", "float64, float64[:], float64[:]"]
    launch = kernel(saxpy, both)
    x, y = np.arange(100, dtype=np.float32), np.ones(100, np.float32)
    launch[4, 32](2.0, x, y)
    launch.forall(100)(np.float32(-2), x, y)
    np.testing.assert_array_equal(y, 1)
    assert launch.image_source(both[0]) == "cpu"
    assert launch.image_source(both[1]) == ""
    wide = np.zeros((100, 2))
    launch[(1, 1, 1), (128,), 0, 1024](1, np.arange(100.0), wide[:, 1])
    np.testing.assert_array_equal(wide, np.stack([np.zeros(100), np.arange(100)], axis=1))


def test_a_kernel_without_signatures(kernel):
    launch = kernel(add_one)
    for dtype in (np.int8, np.uint64, np.float64):
        x = np.arange(10, dtype=dtype)
        launch[1, 32](x)
        launch[1, 32](Wrapped(x))
        np.testing.assert_array_equal(x, np.arange(2, 12))


def test_errors_are_the_launch_interface_s_own(kernel):
    with pytest.raises(LaunchError, match="no signature takes these arguments"):
        kernel(add_one, "float32[::1]")[1, 32](np.zeros(3))
    with pytest.raises(LaunchError, match="at most 1024 threads"):
        kernel(add_one)[1, (32, 64)]

    def wrong(x):
        x[0] = nowhere  # noqa: F821

    with pytest.raises(CompilationError, match="nowhere"):
        kernel(wrong)[1, 1](np.zeros(1))


def odd_names(cudabuild_type, cudabuild__first=2, cudabuild_kind0=3, launch=4, kinds=5):
    cudabuild_type[0] = cudabuild__first + 10 * cudabuild_kind0 + 100 * launch + 1000 * kinds


def test_parameters_may_have_any_names(kernel):
    launch = kernel(odd_names)[1, 1]
    x = np.zeros(1, np.int64)
    for _ in range(2):
        launch(x)
        assert x[0] == 5432
        launch(x, 9, kinds=1)
        assert x[0] == 1439
