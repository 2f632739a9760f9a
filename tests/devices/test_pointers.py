# SPDX-License-Identifier: Apache-2.0
"""Pointers as arguments, indexed and made into arrays."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda, kernel
from cudabuild.definition import KernelDefinition
from cudabuild.errors import ArgumentError, CompilationError, SignatureError
from cudabuild.frontend import build_ir
from cudabuild.types import float32, parse_signature
from cudabuild.types.pointer import Pointer


def twice(p, n):
    return p[n] * 2


def elements(pointer, n, out):
    i = cuda.grid(1)
    if i < n:
        out[i] = twice(pointer, i)
        cuda.stcs(pointer, i, cuda.ldcs(pointer, i) + 1)
        if i == 2:
            pointer[i] = -pointer[i]


def arrays(pointer, address, rows, out):
    c = cuda.carray(pointer, (rows, 3))
    f = cuda.farray(address, (rows, 3), np.float32)
    flat = cuda.carray(pointer, rows * 3, dtype=np.float32)
    i, j = cuda.grid(2)
    if i < rows and j < 3:
        out[0, i, j] = c[i, j]
        out[1, i, j] = f[i, j]
        out[2, i, j] = flat[i * 3 + j] + c.shape[0]


def arrays_apart(pointer, rows, out):
    i = cuda.grid(1)
    if i % 2:
        out[i] = cuda.carray(pointer, (rows, 3))[i // 3, i % 3]
    elif i < out.size:
        out[i] = cuda.farray(pointer, (rows, 3))[i // 3, i % 3] + 10


@pytest.fixture
def memory(run):
    """Makes arrays that both the host and the kernel reach by their addresses, and reads them back."""
    held = []

    def make(array):
        if run.kind == "cpu":
            held.append(array)
            return array.ctypes.data, lambda: array
        device = cuda.to_device(array)
        held.append(device)
        return device.__cuda_array_interface__["data"][0], device.copy_to_host

    return make


def test_elements(run, memory) -> None:
    x, out = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    address, read = memory(x.copy())
    run(elements, "CPointer(float32), int32, float32[::1]", 1, 32, address, 5, out)
    np.testing.assert_array_equal(out, x * 2)
    np.testing.assert_array_equal(read(), [1, 2, -3, 4, 5])


def test_arrays(run, memory) -> None:
    x, out = np.arange(6, dtype=np.float32), np.zeros((3, 2, 3), np.float32)
    address, _ = memory(x)
    run(arrays, "CPointer(float32), uint64, int, float32[:, :, ::1]", 1, (8, 8), address, address, 2, out)
    np.testing.assert_array_equal(out, [x.reshape(2, 3), x.reshape(2, 3, order="F"), x.reshape(2, 3) + 2])


def test_arrays_in_branches(run, memory) -> None:
    x, out = np.arange(6, dtype=np.float32), np.zeros(6, np.float32)
    address, _ = memory(x)
    run(arrays_apart, "CPointer(float32), int, float32[::1]", 1, 6, address, 2, out)
    by_rows, by_columns = x, x.reshape(2, 3, order="F").ravel() + 10
    np.testing.assert_array_equal(out, np.where(np.arange(6) % 2, by_rows, by_columns))


def test_the_type() -> None:
    (kind,) = parse_signature("CPointer(float32)")
    assert kind == Pointer(float32)
    assert repr(kind) == "CPointer(float32)"
    with pytest.raises(SignatureError, match="the type of the elements"):
        parse_signature("CPointer(nothing)")


def no_type(n):
    x = cuda.carray(n, 3)
    x[0] = 1


def two_indices(p):
    p[0, 1] = 1


@pytest.mark.parametrize(
    ("function", "kinds", "message"),
    [
        (no_type, "uint64", "cuda.carray needs the type of the elements"),
        (two_indices, "CPointer(float32)", "an index is not an integer"),
    ],
)
def test_refusals(function, kinds, message) -> None:
    with pytest.raises(CompilationError, match=message):
        build_ir(KernelDefinition(function), parse_signature(kinds))


def addresses(x, out):
    tile = cuda.shared.array(4, np.float64)
    out[0] = x.ctypes.data
    out[1] = x[1:].ctypes.data - x.ctypes.data
    out[2] = tile.ctypes.data % 16


def test_addresses_of_arrays(run, memory) -> None:
    address, _ = memory(np.arange(3.0))
    out = np.zeros(3, np.int64)
    run(of_pointer, "CPointer(float64), int64[::1]", 1, 1, address, out)
    assert list(out) == [address, 8, 0]


def of_pointer(pointer, out):
    addresses(cuda.carray(pointer, 3), out)


def by_elements(x, places, out):
    for i in range(places.size):
        place = places[i : i + 1].reshape(())  # an array without axes is its element
        out[i] = x[place, 1] + x[(place, place)]


def test_indices_that_are_arrays_without_axes(run) -> None:
    x, places, out = np.arange(9.0).reshape(3, 3), np.array([2, 0, -1]), np.zeros(3)
    run(by_elements, "float64[:, ::1], int64[::1], float64[::1]", 1, 1, x, places, out)
    assert list(out) == [x[p, 1] + x[p, p] for p in places]


def first(p, out):
    out[0] = p[0]


@pytest.mark.filterwarnings("ignore:(Grid size|Host array)")
@pytest.mark.parametrize("decorate", [cuda.jit, kernel], ids=["jit", "kernel"])
@pytest.mark.parametrize("address", [-1, 2**64])
def test_numbers_that_are_no_addresses(decorate, address) -> None:
    """An int wraps into the parameter of a single signature of ``cuda.jit``, an address does not."""
    made = decorate((Pointer(float32), float32[::1]))(first)
    with pytest.raises(ArgumentError, match="does not fit"):
        made[1, 1](address, np.zeros(1, np.float32))


def reads_a_buffer(x, out):
    pointer = cuda.from_buffer(x[1:])
    out[0] = pointer[0] + 10 * pointer[1]
    pointer[2] = 7.0


def test_pointer_to_an_array(run) -> None:
    x, out = np.arange(5, dtype=np.float32), np.zeros(1, np.float32)
    run(reads_a_buffer, "float32[::1], float32[::1]", 1, 1, x, out)
    assert out[0] == 21
    assert list(x) == [0, 1, 2, 7, 4]
