# SPDX-License-Identifier: Apache-2.0
"""``cuda.reduce`` on the CPU device and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, host_api
from cudabuild.decorators import Services


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_DEVICE", request.param)
    services = Services()
    monkeypatch.setattr("cudabuild.decorators.SERVICES", services)
    monkeypatch.setattr(host_api.choice, "current_device", services.current_device)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 255, 256, 257, 511, 70_000, 300_001])
def test_sums(n: int) -> None:
    total = cuda.Reduce(lambda a, b: a + b)
    values = np.arange(n, dtype=np.float64) + 1
    assert total(values) == values.sum()
    assert total(cuda.to_device(values), init=3) == values.sum() + 3
    assert total(values, size=n // 2) == values[: n // 2].sum()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.float32])
def test_other_functions_and_types(dtype: Any) -> None:
    @cuda.reduce
    def largest(a: Any, b: Any) -> Any:
        return max(a, b)

    values = np.random.default_rng(1).integers(1, 100, 1000).astype(dtype)
    result = largest(values)
    assert result == values.max()
    assert result.dtype == dtype
    product = cuda.reduce(cuda.jit(device=True)(lambda a, b: a * b))
    assert product(np.full(5, 2, dtype), init=1) == 32


def test_results_that_stay_on_the_device() -> None:
    total = cuda.reduce(lambda a, b: a + b)
    result = cuda.to_device(np.zeros(1))
    stream = cuda.stream()
    assert total(np.ones(1000), res=result, stream=stream) is None
    stream.synchronize()
    assert result.copy_to_host()[0] == 1000
    total(np.ones(0), res=result, init=7)
    assert result.copy_to_host()[0] == 7
    with pytest.raises(TypeError, match="only support 1D array"):
        total(np.ones((2, 2)))
