# SPDX-License-Identifier: Apache-2.0
"""NumPy's element functions over whole arrays, with ``out`` and broadcasting."""

from __future__ import annotations

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.frontend import build_ir
from cudabuild.types import parse_signature


def sines(x, out):
    if cuda.grid(1) == 0:
        np.sin(x, out)


@pytest.mark.parametrize("kind", ["float32", "float64", "int32"])
@pytest.mark.parametrize("shape", [(5,), (3, 4), (2, 3, 4), (2, 1, 3, 2)])
def test_one_operand(run, shape, kind) -> None:
    x = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(kind)
    out = np.zeros(shape)
    dims = f"[{', '.join([':'] * len(shape))}]"
    run(sines, f"{kind}{dims}, float64{dims}", 1, 32, x, out)
    np.testing.assert_allclose(out, np.sin(x), rtol=1e-6)


def sine_of_a_number(x, out):
    if cuda.grid(1) == 0:
        np.sin(x, out)


def test_a_number_goes_everywhere(run) -> None:
    out = np.zeros((3, 2))
    run(sine_of_a_number, "float64, float64[:, ::1]", 1, 32, 0.5, out)
    np.testing.assert_allclose(out, np.full((3, 2), np.sin(0.5)))


def sums(x, y, out):
    if cuda.grid(1) == 0:
        np.add(x, y, out=out)


@pytest.mark.parametrize(
    ("first", "second", "shape"),
    [
        ((4,), (4,), (4,)),
        ((4,), (1,), (4,)),
        ((3, 1), (4,), (3, 4)),
        ((4,), (2, 3, 4), (2, 3, 4)),
        ((1, 3, 1), (2, 1, 4), (2, 3, 4)),
    ],
)
def test_broadcasting(run, first, second, shape) -> None:
    rng = np.random.default_rng(1)
    x, y, out = rng.random(first), rng.random(second), np.zeros(shape)
    names = [f"float64[{', '.join([':'] * array.ndim)}]" for array in (x, y, out)]
    run(sums, ", ".join(names), 1, 32, x, y, out)
    np.testing.assert_array_equal(out, x + y)


def test_views_as_results(run) -> None:
    x = np.arange(-3, 4)
    y = np.array([0, 1, -5, 0, 3, 2, 9])
    out = np.zeros((5, 7), np.int64)

    def expected() -> list[np.ndarray]:
        return [x < y, y != 0, np.maximum(x, y), x & 6, ~x]

    def kernel(x, y, out):
        if cuda.grid(1) == 0:
            np.less(x, y, out[0])
            np.logical_xor(False, y, out[1])
            np.maximum(x, y, out[2])
            np.bitwise_and(x, 6, out[3])
            np.invert(x, out[4])

    run(kernel, "int64[::1], int64[::1], int64[:, ::1]", 1, 32, x, y, out)
    np.testing.assert_array_equal(out, expected())


def orders(x, y, out, chosen):
    if cuda.grid(1) == 0:
        np.less(x, y, out[0])
        np.less_equal(x, y, out[1])
        np.greater(x, y, out[2])
        np.greater_equal(x, y, out[3])
        np.maximum(x, y, chosen[0])
        np.minimum(x, y, chosen[1])
        np.fmax(x, y, chosen[2])
        np.fmin(x, y, chosen[3])


@pytest.mark.parametrize("other", ["complex64", "float32", "int64"])
@pytest.mark.parametrize("kind", ["complex64", "complex128"])
def test_order_of_complex_numbers(run, kind, other) -> None:
    """By the real parts, then by the imaginary ones, as NumPy has it; a NaN is before and after nothing."""
    parts = [0.0, -0.0, 1.0, -2.5, np.inf, np.nan]
    x = np.array([complex(a, b) for a in parts for b in parts], kind)
    y = x.astype(other) if other == "complex64" else np.array([0, 1, -2, 3]).astype(other)
    x, y = np.broadcast_arrays(x[:, None], y)
    x, y = x.ravel(), y.ravel()
    out, chosen = np.zeros((4, x.size), np.bool_), np.zeros((4, x.size), np.complex128)
    run(orders, f"{kind}[::1], {other}[::1], bool[:, ::1], complex128[:, ::1]", 1, 32, x, y, out, chosen)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(out, [x < y, x <= y, x > y, x >= y])
        expected = [np.maximum(x, y), np.minimum(x, y), np.fmax(x, y), np.fmin(x, y)]
    np.testing.assert_array_equal(chosen.view(np.float64), np.array(expected, np.complex128).view(np.float64))


def no_result(x, out):
    out[0] = np.sin(x)


def result_is_a_number(x, out):
    np.sin(x[0], out[0])


def too_small(x, out):
    np.sin(out, x[0])


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (no_result, "numpy.sin of an array makes a new array"),
        (result_is_a_number, "the result of numpy.sin goes to no array"),
        (too_small, "numpy.sin does not fit into its result"),
    ],
)
def test_refusals(function, message) -> None:
    kinds = "float64[:, ::1], float64[:, ::1]" if function is too_small else "float64[::1], float64[::1]"
    with pytest.raises(CompilationError, match=message):
        build_ir(KernelDefinition(function), parse_signature(kinds))


def without_axes(x, out):
    if cuda.grid(1) == 0:
        np.sin(x[1:2].reshape(()), out[0:1].reshape(()))
        np.add(x[0:1].reshape(()), x[2:].reshape(()), out[1:].reshape(()))


def test_arrays_without_axes(run) -> None:
    x, out = np.array([0.5, 1.0, 2.0]), np.zeros(2)
    run(without_axes, "float64[::1], float64[::1]", 1, 32, x, out)
    np.testing.assert_allclose(out, [np.sin(1.0), 2.5])
