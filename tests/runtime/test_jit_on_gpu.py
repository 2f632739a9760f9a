# SPDX-License-Identifier: Apache-2.0
"""``cuda.jit`` kernels on a GPU: launches of every kind, and what the driver says of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cuda import float32, int64
from cudabuild.decorators import Services

pytestmark = pytest.mark.gpu


@pytest.fixture(autouse=True)
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    monkeypatch.setenv("CUDABUILD_DEVICE", "gpu")
    monkeypatch.setenv("CUDABUILD_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.setenv("CUDABUILD_IMPLICIT_COPY_WARNINGS", "0")
    made = Services()
    monkeypatch.setattr("cudabuild.cuda_jit.SERVICES", made)
    monkeypatch.setattr("cudabuild.decorators.SERVICES", made)
    return made


def fill(x: Any, value: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value * 0.5


def test_launches() -> None:
    kernel = cuda.jit(fill)
    host = np.zeros(100, np.float32)
    device = cuda.to_device(host)
    for value in (3, 4, 5.0, 2**40, 7):  # each kind twice, the second time fast
        kernel[4, 32](device, value)
        assert (device.copy_to_host() == np.float32(value * 0.5)).all()
        kernel[4, 32](host, value)
        assert (host == np.float32(value * 0.5)).all()
    assert kernel.signatures == [(float32[::1], int64), (float32[::1], cuda.float64)]
    kernel[4, 32](cuda.In(host), 9)
    assert (host == 3.5).all()
    kernel.forall(100)(cuda.InOut(host), 9)
    assert (host == 4.5).all()
    assert set(kernel.stats.cache_hits) | set(kernel.stats.cache_misses) == set(kernel.signatures)


def test_an_int_wraps_where_there_is_one_signature() -> None:
    x = cuda.to_device(np.zeros(1, np.int32))
    kernel = cuda.jit("void(int32[::1], int32)")(lambda r, v: store(r, v))
    for value, stored in ((5, 5), (0x80000001, -(2**31) + 1), (6, 6)):
        kernel[1, 1](x, value)
        assert x.copy_to_host()[0] == stored


@cuda.jit(device=True)
def store(r: Any, v: Any) -> None:
    r[0] = v


def test_the_driver_tells_what_a_kernel_uses() -> None:
    def kernel_function(x: Any, n: Any) -> None:
        shared = cuda.shared.array(10, dtype=x.dtype)
        i = cuda.grid(1)
        if i < n:
            shared[i] = 3.14 * math.sin(x[i])
        cuda.syncthreads()
        if i < n:
            x[i] = shared[n - 1 - i]

    kernel = cuda.jit("void(float32[::1], int64)", launch_bounds=256, shared_memory_carveout="MaxShared")(
        kernel_function
    )
    assert kernel.get_shared_mem_per_block() == 40
    assert kernel.get_regs_per_thread() > 0
    assert kernel.get_local_mem_per_thread() >= 0
    assert kernel.get_const_mem_size() >= 0
    assert kernel.get_max_threads_per_block() == 256
    kernel[1, 10](np.zeros(10, np.float32), 10)
    (overload,) = kernel.overloads.values()
    assert overload.regs_per_thread == kernel.get_regs_per_thread()
    assert not overload.cooperative


def test_blocks_that_run_at_once() -> None:
    @cuda.jit("void(float32[::1])")
    def waits(x: Any) -> None:
        cuda.cg.this_grid().sync()
        x[cuda.grid(1)] = cuda.gridsize(1)

    overload = waits.overloads[(float32[::1],)]
    blocks = overload.max_cooperative_grid_blocks(256)
    assert overload.cooperative
    assert blocks >= cuda.get_current_device().MULTIPROCESSOR_COUNT
    x = cuda.to_device(np.zeros(blocks * 256, np.float32))
    waits[blocks, 256](x)
    assert (x.copy_to_host() == blocks * 256).all()
    with pytest.raises(Exception, match="too many blocks for a grid that waits for all of them"):
        waits[blocks * 8, 256](x)


def test_code_for_the_current_device() -> None:
    major, minor = cuda.get_current_device().compute_capability
    text, _ = cuda.compile_for_current_device(lambda x: x + 1, (float32,))
    assert f".target sm_{major}{minor}" in text


def test_debug_tells_a_division_by_zero() -> None:
    @cuda.jit(debug=True, opt=False)
    def divide(r: Any, x: Any, y: Any) -> None:
        r[0] = x / y

    with pytest.raises(ZeroDivisionError):
        divide[1, 1](np.zeros(1), 1.0, 0.0)
