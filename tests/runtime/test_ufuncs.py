# SPDX-License-Identifier: Apache-2.0
"""``cuda.vectorize`` and ``cuda.guvectorize`` on the CPU device and on a GPU."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda, host_api
from cudabuild.cuda import complex128, float32, from_dtype, int32, void
from cudabuild.cuda.errors import TypingError
from cudabuild.decorators import Services


@pytest.fixture(params=["cpu", pytest.param("gpu", marks=pytest.mark.gpu)], autouse=True)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_DEVICE", request.param)
    monkeypatch.setenv("CUDABUILD_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.setenv("CUDABUILD_IMPLICIT_COPY_WARNINGS", "0")
    services = Services()
    monkeypatch.setattr("cudabuild.decorators.SERVICES", services)
    monkeypatch.setattr("cudabuild.cuda_jit.SERVICES", services)
    monkeypatch.setattr(host_api.choice, "current_device", services.current_device)


def add(a: Any, b: Any) -> Any:
    """The sum."""
    return a + b


ADDED = [int32(int32, int32), float32(float32, float32), "float64(float64, float64)"]


def test_numbers_and_arrays() -> None:
    ufunc = cuda.vectorize(ADDED)(add)
    assert ufunc(1.25, 2.5) == 3.75
    assert (ufunc.__name__, ufunc.__doc__) == ("add", "The sum.")
    for dtype in (np.int32, np.float32, np.float64):
        x = np.arange(1000).astype(dtype)
        result = ufunc(x, x)
        assert result.dtype == dtype
        np.testing.assert_array_equal(result, x + x)
    assert ufunc(np.zeros((0, 3)), 1.0).shape == (0, 3)
    np.testing.assert_array_equal(ufunc((1.0, 2.0), (3.0, 4.0)), [4.0, 6.0])


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("ndim", [1, 2, 3, 5])
def test_shapes(ndim: int, order: Any) -> None:
    ufunc = cuda.vectorize(ADDED)(add)
    x = np.random.default_rng(ndim).random((3, 4, 2, 5, 3)[:ndim])
    y = np.array(x, order=order)[..., ::-1]
    np.testing.assert_array_equal(ufunc(x, y), x + y)
    np.testing.assert_array_equal(ufunc(x[:1], y), x[:1] + y)
    np.testing.assert_array_equal(ufunc(x, 0.5), x + 0.5)


def test_device_arrays_give_device_arrays() -> None:
    ufunc = cuda.vectorize(ADDED)(add)
    x = np.arange(10, dtype=np.float32)
    stream = cuda.stream()
    on_device = cuda.to_device(x, stream)
    result = ufunc(on_device, on_device, stream=stream)
    assert isinstance(result, cuda.DeviceArray)
    np.testing.assert_array_equal(result.copy_to_host(stream=stream), x + x)
    np.testing.assert_array_equal(ufunc(x, on_device).copy_to_host(), x + x)
    assert ufunc(on_device, on_device, out=on_device) is on_device
    np.testing.assert_array_equal(on_device.copy_to_host(), x + x)
    out = np.zeros(10, np.float32)
    assert ufunc(x, x, out=out) is out
    np.testing.assert_array_equal(out, x + x)
    np.testing.assert_array_equal(ufunc(x, x, out), x + x)
    with pytest.raises(TypeError, match=r"a device array does not support \.astype\(\)"):
        ufunc(cuda.to_device(x.astype(np.int16)), x)
    with pytest.raises(ValueError, match=r"the output has shape \(10,\), the inputs broadcast to \(2, 10\)"):
        ufunc(np.zeros((2, 10), np.float32), x, out=on_device)


def test_other_signatures() -> None:
    square = cuda.vectorize("complex128(complex128)")(lambda z: z * z)
    assert square(1 + 2j) == (1 + 2j) ** 2
    time = from_dtype(np.dtype("datetime64[D]"))
    start = np.arange("2005-02", "2006-02", dtype="datetime64[D]")
    difference = cuda.vectorize([(time, time)])(lambda a, b: b - a)
    result = difference(start, start[::-1])
    np.testing.assert_array_equal(result, start[::-1] - start)
    assert result.dtype == "timedelta64[D]"
    with pytest.raises(TypeError, match="add: no matching signature\n  found:    complex128, float64"):
        cuda.vectorize(ADDED)(add)(1j, 1.0)
    assert cuda.vectorize([complex128(complex128, complex128)])(add)(np.float32(1), 1j) == 1 + 1j


@pytest.mark.parametrize("n", [1, 2, 100, 5000])
def test_reductions(n: int) -> None:
    ufunc = cuda.vectorize(ADDED)(add)
    x = np.arange(n, dtype=np.int32)
    for array in (x, cuda.to_device(x)):
        result = ufunc.reduce(array)
        assert result == x.sum()
        assert result.dtype == np.int32


def test_options_of_vectorize() -> None:
    with pytest.warns(RuntimeWarning, match="nopython kwarg for cuda target is redundant"):
        cuda.vectorize(ADDED, nopython=True)
    with pytest.raises(KeyError, match="Unrecognized options: nonexistent"):
        cuda.vectorize(ADDED, nonexistent=2)
    with pytest.raises(TypeError, match="signatures are needed"):
        cuda.vectorize(add)
    with pytest.raises(ValueError, match="target='cpu': expected 'cuda'"):
        cuda.vectorize(ADDED, target="cpu")
    with pytest.raises(TypingError, match="name 'undefined_name' is not defined"):
        cuda.vectorize(ADDED)(lambda a, b: undefined_name)  # type: ignore[name-defined]  # noqa: F821


def matmul(a: Any, b: Any, c: Any) -> None:
    m, n = a.shape
    n, p = b.shape
    for i in range(m):
        for j in range(p):
            c[i, j] = 0
            for k in range(n):
                c[i, j] += a[i, k] * b[k, j]


MATMUL = ([void(float32[:, :], float32[:, :], float32[:, :])], "(m,n),(n,p)->(m,p)")


def test_matrices() -> None:
    gufunc = cuda.guvectorize(*MATMUL, nopython=True)(matmul)
    a = np.arange(1000 * 8, dtype=np.float32).reshape(40, 25, 2, 4)
    b = np.arange(1000 * 20, dtype=np.float32).reshape(40, 25, 4, 5)
    np.testing.assert_array_equal(gufunc(a, b), np.matmul(a, b))
    np.testing.assert_array_equal(gufunc(a, b[0, 0]), np.matmul(a, b[0, 0]))
    np.testing.assert_array_equal(gufunc(a[0, 0], b[0, 0]), np.matmul(a[0, 0], b[0, 0]))
    result = gufunc(a, cuda.to_device(b))
    np.testing.assert_array_equal(result.copy_to_host(), np.matmul(a, b))
    out = cuda.device_array(result.shape, np.float32)
    assert gufunc(cuda.to_device(a), cuda.to_device(b), out=out) is out
    np.testing.assert_array_equal(out.copy_to_host(), np.matmul(a, b))


def test_numbers_beside_arrays_and_several_results() -> None:
    @cuda.guvectorize("void(float32, float32[:], float32[:])", "(),(t)->(t)")
    def scale(a: Any, x: Any, out: Any) -> None:
        for i in range(out.shape[0]):
            out[i] = a * x[i]

    x = np.arange(10, dtype=np.float32).reshape(5, 2)
    np.testing.assert_array_equal(scale(np.float32(2), x), 2 * x)
    np.testing.assert_array_equal(scale(np.arange(5), x), np.arange(5)[:, None] * x)

    @cuda.guvectorize(["void(int32[:], int32[:], float64[:])"], "(n)->(),(n)")
    def both(x: Any, total: Any, half: Any) -> None:
        total[0] = 0
        for i in range(x.size):
            total[0] += x[i]
            half[i] = x[i] / 2

    y = np.arange(12, dtype=np.int32).reshape(3, 4)
    total, half = both(y)
    np.testing.assert_array_equal(total, y.sum(axis=1))
    np.testing.assert_array_equal(half, y / 2)
    first, second = np.zeros(3, np.int32), np.zeros((3, 4))
    both(y, first, second)
    np.testing.assert_array_equal(first, total)
    np.testing.assert_array_equal(second, half)
    twice = cuda.guvectorize(["void(int32, int32[:])"], "()->()")(store_twice)
    assert twice(10) == 20
    old = cuda.guvectorize(["void(int32[:], int32[:])"], "()->()")(copy_first)
    np.testing.assert_array_equal(old(np.arange(4, dtype=np.int32)), np.arange(4))


def store_twice(x: Any, out: Any) -> None:
    out[0] = x * 2


def copy_first(x: Any, out: Any) -> None:
    out[0] = x[0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (([int32(int32[:], int32[:])], "(m)->(m)"), TypeError, "guvectorized functions cannot return values"),
        (([void(int32[:], int32[:])], "(m)->(k)"), ValueError, "axis 'k' of a result is no input's"),
        (([void(int32[:], int32[:])], "m->m"), ValueError, "bad layout 'm->m'"),
        (([void(int32[:], int32[:])], "(m)"), ValueError, "bad layout '(m)'"),
        (([void(int32[:], int32[:])], "(m),(m)->(m)"), TypeError, "has not the 3 arguments of the layout"),
    ],
)
def test_layouts_that_cannot_be(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        cuda.guvectorize(*arguments)(lambda a, b: None)


def test_calls_that_cannot_be() -> None:
    gufunc = cuda.guvectorize(*MATMUL)(matmul)
    a = np.zeros((2, 2), np.float32)
    with pytest.raises(TypeError, match=r"gufunc accepts 2 positional arguments .* Got 1 positional argument\."):
        gufunc(a)
    with pytest.raises(TypeError, match=r"or 3 positional arguments .* Got 4 positional arguments\."):
        gufunc(a, a, a, a)
    with pytest.raises(ValueError, match="cannot specify argument 'out' as both positional and keyword"):
        gufunc(a, a, a, out=a)
    with pytest.raises(ValueError, match="axis 'n' is 2 long and 3 long"):
        gufunc(a, np.zeros((3, 2), np.float32))
    with pytest.raises(ValueError, match="an input of 1 axes, expected at least 2"):
        gufunc(a[0], a)
    with pytest.raises(TypeError, match="an output of float64: expected float32"):
        gufunc(a, a, np.zeros((2, 2)))
    with pytest.raises(ValueError, match=r"an output of shape \(3, 2\): expected \(2, 2\), in C order"):
        gufunc(a, a, np.zeros((3, 2), np.float32))
    with pytest.raises(TypeError, match="nopython flag must be True"):
        cuda.guvectorize(*MATMUL, nopython=False)
    with pytest.raises(TypeError, match="The following target options are not supported: 'ever2', 'what1'"):
        cuda.guvectorize(*MATMUL, what1=True, ever2=False)
    kernel = cuda.jit(lambda x: gufunc(x, x))
    with pytest.raises(TypingError, match="cannot be called in a kernel"):
        kernel[1, 1](a)
