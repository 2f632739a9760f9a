# SPDX-License-Identifier: Apache-2.0
"""The launch wing on a real GPU: array libraries, streams, threads, and the driver's own linker."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cudabuild
from cudabuild import cuda, float32, kernel

pytestmark = pytest.mark.gpu


@kernel
def add(out: Any, x: Any, amount: Any) -> None:
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] + amount


@kernel("float32[:, :], float32[:, :], float32")
def scale(out: Any, x: Any, factor: Any) -> None:
    i, j = cuda.grid(2)
    if i < out.shape[0] and j < out.shape[1]:
        out[i, j] = x[i, j] * factor


def test_numpy_arrays_are_copied_in_and_back() -> None:
    x, out = np.arange(1000, dtype=np.float64), np.zeros(1000)
    add[4, 256](out, x, 2)
    np.testing.assert_array_equal(out, x + 2)
    a, b = np.arange(60, dtype=np.float32).reshape(6, 10), np.zeros((10, 6), np.float32)
    scale[(2, 2), (8, 8)](b.T, a[:, ::1], 3.0)
    np.testing.assert_array_equal(b.T, a * 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8", "int64"])
def test_cupy_arrays(dtype: str) -> None:
    cupy = pytest.importorskip("cupy")
    x = cupy.arange(1000).astype(dtype)
    out = cupy.zeros(1000, dtype)
    for _ in range(3):  # carefully, then by the generated launcher
        out[:] = 0
        add[4, 256](out, x, 2)
        cupy.testing.assert_array_equal(out, x + cupy.asarray(2, dtype))
    a = cupy.arange(60, dtype="f4").reshape(6, 10)
    b = cupy.zeros((10, 6), "f4")
    for _ in range(3):
        b[:] = 0
        scale[(2, 2), (8, 8)](b.T, a[::-1], 3.0)
        cupy.testing.assert_array_equal(b.T, a[::-1] * 3)


def test_cupy_streams() -> None:
    cupy = pytest.importorskip("cupy")
    x, out = cupy.arange(1 << 20, dtype="f4"), cupy.zeros(1 << 20, "f4")
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x += 1
        add[4096, 256, stream](out, x, 2)
        found = out.get()
    np.testing.assert_array_equal(found, np.arange(1 << 20, dtype=np.float32) + 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "uint8"])
def test_torch_tensors(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    kind = getattr(torch, dtype)
    x, out = torch.arange(200, device="cuda").to(kind), torch.zeros(200, device="cuda", dtype=kind)
    for _ in range(3):
        out.zero_()
        add[1, 256](out, x, 2)
        assert torch.equal(out, x + 2)
    a, b = torch.arange(60.0, device="cuda").reshape(6, 10), torch.zeros((10, 6), device="cuda")
    for _ in range(3):
        b.zero_()
        scale[(2, 2), (8, 8)](b.T, a, 3.0)
        assert torch.equal(b.T, a * 3)


def test_threads_never_mix_their_arguments() -> None:
    failures: list[Any] = []

    def work(number: int) -> None:
        x = np.full(4096, number, np.float32)
        for turn in range(50):
            out = np.zeros(4096, np.float32)
            add[16, 256](out, x, turn)
            if not (out == number + turn).all():
                failures.append((number, turn, out[0]))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_the_driver_links_where_nvjitlink_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache_dir: Path
) -> None:
    from cudabuild import jit
    from cudabuild.backend import cubin
    from cudabuild.cache.store import get_cache
    from cudabuild.errors import ToolError
    from cudabuild.image.image import ImageRequest

    def missing(target: Any) -> Any:
        raise ToolError("no nvJitLink")

    monkeypatch.setattr(cubin, "find_linker", missing)
    device = cudabuild.current_device()
    definition = add.definition
    signature = (float32[::1], float32[::1], float32)
    request = ImageRequest(definition, signature, device.info, 32, bytes)
    get_cache.cache_clear()
    try:
        image = jit.CompiledProvider().find(request)
    finally:
        get_cache.cache_clear()
    assert image is not None, request.notes
    assert image.kind == "cubin"
    assert "driver linker" in image.toolchain
    assert bytes(image.data)[:4] == b"\x7fELF"
