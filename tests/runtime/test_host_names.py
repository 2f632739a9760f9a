# SPDX-License-Identifier: Apache-2.0
"""Host-side names that numba-cuda programs use beside arrays and streams, on the CPU device and on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, host_api
from cudabuild.decorators import Services
from cudabuild.runtime.memory import Allocation


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("CUDABUILD_DEVICE", request.param)
    monkeypatch.setenv("CUDABUILD_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.setenv("CUDABUILD_IMPLICIT_COPY_WARNINGS", "0")
    services = Services()
    monkeypatch.setattr("cudabuild.cuda_jit.SERVICES", services)
    monkeypatch.setattr(host_api.choice, "current_device", services.current_device)
    monkeypatch.setattr("cudabuild.decorators.SERVICES", services)
    return services.current_device()


def double(x: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= 2


def test_managed_arrays_are_used_in_place() -> None:
    x = cuda.managed_array(100, np.float64)
    x[:] = 1.5
    cuda.jit(double)[4, 32](x)
    cuda.synchronize()
    assert (x == 3.0).all()
    assert cuda.managed_array((2, 3), np.int8, order="F", attach_global=False).flags.f_contiguous
    with pytest.raises(ValueError, match="page-locked arrays have no gaps"):
        cuda.managed_array(3, strides=(8,))


def test_arrays_are_pinned_inside_a_block() -> None:
    x = np.arange(6.0)
    with cuda.pinned(x, np.zeros((0, 3))):
        on_device = cuda.to_device(x)
        cuda.jit(double)[1, 32](on_device)
        on_device.copy_to_host(x)
    assert list(x) == [0, 2, 4, 6, 8, 10]
    with cuda.pinned(x):  # unlocked again, or this would fail
        pass


def test_arrays_are_mapped_inside_a_block() -> None:
    x, y = np.ones(5), np.arange(12.0).reshape(3, 4)[:, ::-1]
    with cuda.mapped(x) as on_device:
        cuda.jit(double)[1, 32](on_device)
        cuda.synchronize()
    assert (x == 2.0).all()
    with cuda.mapped(x, y) as both:
        assert [one.shape for one in both] == [(5,), (3, 4)]
        assert np.array_equal(both[1].copy_to_host(), y)


def test_cleanup_is_deferred() -> None:
    given_back: list[int] = []
    with cuda.defer_cleanup():
        with cuda.defer_cleanup():
            Allocation(7, 1, given_back.append)
        assert given_back == []
    assert given_back == [7]
    Allocation(8, 1, given_back.append)
    assert given_back == [7, 8]


def test_an_array_from_an_interface(device: Any) -> None:
    if device.kind != "gpu":
        with pytest.raises(Exception, match="an array in GPU memory cannot be used on the CPU device"):
            cuda.from_cuda_array_interface({"shape": (3,), "typestr": "<f8", "data": (4096, False), "version": 3})
        return
    x = cuda.to_device(np.arange(3.0))
    same = cuda.from_cuda_array_interface(x.__cuda_array_interface__, owner=x)
    assert list(same.copy_to_host()) == [0, 1, 2]


def test_contexts_and_versions() -> None:
    @cuda.require_context
    def answer(n: int) -> int:
        return n + 1

    assert answer(2) == 3
    assert answer.__name__ == "answer"
    assert cuda.is_supported_version()
    assert cuda.cuda_error() is None
    info = cuda.current_context().get_memory_info()
    assert (info.free, info.total) == info
    assert 0 < info.free <= info.total
    cuda.current_context().deallocations.clear()  # what programs for numba-cuda call to have memory back
    assert len(cuda.current_context().deallocations) == 0
    assert cuda.is_bfloat16_supported()
    assert int(cuda.legacy_default_stream()) in (0, 1)
    cuda.close()


def test_profilers_are_told_where_to_collect() -> None:
    with cuda.profiling():
        cuda.jit(double)[1, 32](np.ones(3))
    cuda.profile_start()
    cuda.profile_stop()
