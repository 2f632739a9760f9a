# SPDX-License-Identifier: Apache-2.0
"""Device arrays that kernels name: their memory is read and written in place, and their code is kept by nothing."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, kernel
from cudabuild.decorators import current_device
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature


class Foreign:
    """Shows an array and nothing else."""

    def __init__(self, array: Any) -> None:
        self.kept = array
        for name in ("__cuda_array_interface__", "__array_interface__"):
            if hasattr(array, name):
                setattr(self, name, getattr(array, name))


def make_kernel(source: Any, target: Any, table: Any) -> Any:
    def read(i: Any, j: Any) -> Any:
        return source[i, j]

    @kernel
    def work(o: Any) -> None:
        i = cuda.grid(1)
        if i < source.shape[0]:
            for j in range(source.shape[1]):
                o[i, j] = read(i, j) * 2 + table.values[j]
            target[i] = len(source) + i

    return work


class Table:
    def __init__(self, values: Any) -> None:
        self.values = values


@pytest.mark.parametrize("foreign", [False, True])
def test_reads_and_writes(foreign: bool) -> None:
    host = np.arange(6, dtype=np.float32).reshape(2, 3)
    wrap = Foreign if foreign else lambda array: array
    source, target = cuda.to_device(host.T), cuda.to_device(np.zeros(5, np.int64))
    table = cuda.to_device(np.array([10, 20], np.int16))
    work = make_kernel(wrap(source), wrap(target[::2]), Table(wrap(table)))
    out = np.zeros((3, 2), np.float32)
    for _ in range(2):
        work[1, 32](out)
        np.testing.assert_array_equal(out, host.T * 2 + [10, 20])
    np.testing.assert_array_equal(target.copy_to_host(), [3, 0, 4, 0, 5])
    source[0, 0] = 7  # the array, and not what was in it
    work[1, 32](out)
    assert out[0, 0] == 24


def test_the_kernel_keeps_the_array() -> None:
    captured = [cuda.to_device(np.array([41]))]

    @kernel
    def work(o: Any) -> None:
        o[0] = array[0] + 1

    array = captured.pop()
    out = np.zeros(1, np.int64)
    work[1, 1](out)
    array = None
    gc.collect()
    others = [cuda.to_device(np.array([k])) for k in range(100)]
    work[1, 1](out)
    assert out[0] == 42
    assert len(others) == 100


def zero_dimensional(o: Any) -> None:
    o[()] = SCALAR[()] + 1


SCALAR: Any = None


def test_no_dimensions() -> None:
    global SCALAR
    SCALAR = cuda.to_device(np.array(41.0))
    out = cuda.to_device(np.array(0.0))
    kernel(zero_dimensional)[1, 1](out)
    assert out.copy_to_host() == 42


def test_nothing_keeps_the_code() -> None:
    array = cuda.to_device(np.arange(3))

    def work(o: Any) -> None:
        o[0] = array[0]

    fingerprint = compute_fingerprint(KernelDefinition(work), parse_signature("int64[::1]"))
    assert fingerprint.in_process == "array"

    def helper(i: Any, table: Any = array) -> Any:
        return table[i]

    def calling(o: Any) -> None:
        o[0] = helper(1)

    fingerprint = compute_fingerprint(KernelDefinition(calling), parse_signature("int64[::1]"))
    assert fingerprint.in_process == "helper/(defaults)"

    def plain(o: Any) -> None:
        o[0] = "device array".count == 0

    assert compute_fingerprint(KernelDefinition(plain), ()).in_process == ""


class Gpu:
    __cuda_array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (0x7000, True), "version": 3}


class Host:
    __array_interface__ = {"shape": (3,), "typestr": "<f8", "data": (0x7000, True), "version": 3}


def test_memory_of_another_device_is_refused() -> None:
    elsewhere: Any = Gpu() if current_device().kind == "cpu" else Host()

    @kernel
    def work(o: Any) -> None:
        o[0] = elsewhere[0]

    with pytest.raises(CompilationError, match=r"a captured array in (GPU|host) memory, on"):
        work[1, 1](np.zeros(1))


def test_read_only_arrays_stay_so() -> None:
    elsewhere = Gpu()

    def work(o: Any) -> None:
        elsewhere[0] = 1.0

    with pytest.raises(CompilationError, match="assignment to a read-only array"):
        build_ir(KernelDefinition(work), parse_signature("float64[::1]"))


def test_bfloat16() -> None:
    """An array interface says ``<V2`` of it, which NumPy reads as two bytes without a meaning."""
    brain = pytest.importorskip("ml_dtypes").bfloat16
    host = np.arange(6, dtype=np.float32).astype(brain)
    named, scale = cuda.to_device(host), brain(1.5)

    @kernel
    def work(o: Any, x: Any) -> None:
        for i in range(x.size):
            o[i] = x[i] + named[i] * scale

    out = np.zeros(3, np.float32)
    work[1, 1](out, cuda.to_device(host)[::2])
    assert list(out) == [0.0, 3.5, 7.0]


def test_elements_that_are_not_aligned() -> None:
    complexes = cuda.to_device(np.array([(1.0, 2 + 3j)] * 3, [("w", "f8"), ("z", "c16")]))["z"]  # at multiples of 8

    @kernel
    def reading(o: Any) -> None:
        o[0] = complexes[1].imag

    out = np.zeros(1)
    reading[1, 1](out)
    assert out[0] == 3

    packed = cuda.to_device(np.zeros(3, [("flag", "i1"), ("x", "f4")]))
    named = packed["x"]

    def work(o: Any) -> None:
        o[0] = named[0]

    with pytest.raises(CompilationError, match="not aligned for their type"):
        build_ir(KernelDefinition(work), parse_signature("float32[::1]"))


def test_records_with_a_bfloat16() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    host = np.zeros(3, np.dtype([("a", np.float32), ("b", ml_dtypes.bfloat16), ("c", np.int16, 2)]))
    host["b"], host["c"] = [1.5, 2.5, -3.0], [[1, 2], [3, 4], [5, 6]]
    records = cuda.to_device(host)

    @kernel
    def work(o: Any) -> None:
        i = cuda.grid(1)
        if i < records.size:
            o[i] = records[i].b * 2 + records[i].c[1]
            records[i].b = o[i]

    out = np.zeros(3, np.float32)
    work[1, 32](out)
    np.testing.assert_array_equal(out, [5, 9, 0])
    np.testing.assert_array_equal(records.copy_to_host()["b"].astype(np.float32), [5, 9, 0])
