# SPDX-License-Identifier: Apache-2.0
"""Complex numbers against Python and NumPy: arithmetic, ``cmath``, special values, and the places they can stand in."""

from __future__ import annotations

import cmath
import enum
import itertools
import math
import operator
from typing import NamedTuple

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.types import complex64, complex128

NAMES = ("complex64", "complex128")
EPSILON = {"complex64": float(np.finfo(np.float32).eps), "complex128": float(np.finfo(np.float64).eps)}
SPECIAL = (0.0, -0.0, 1.0, -1.0, 1.5, -3.5, 0.3, 2.0**-30, -(2.0**40), math.inf, -math.inf, math.nan)


def random_numbers(name, count=300, seed=0):
    rng = np.random.default_rng(seed)
    size = 10.0 ** rng.uniform(-3, 1.5, (2, count))
    parts = rng.normal(size=(2, count)) * size
    return (parts[0] + 1j * parts[1]).astype(name)


def special_numbers(name):
    return np.array([complex(x, y) for x, y in itertools.product(SPECIAL, SPECIAL)]).astype(name)


def assert_near(found, wanted, units, what):
    """At most ``units`` roundings apart, measured by the size of the number."""
    epsilon = EPSILON[found.dtype.name]
    error = np.abs(found.astype(complex) - wanted) / np.maximum(np.abs(wanted), 1e-300) / epsilon
    worst = int(np.argmax(error))
    assert error[worst] <= units, f"{what}: {found[worst]} for {wanted[worst]}, {error[worst]:.1f} units apart"


def arithmetic(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        x = a[i]
        y = b[i]
        out[0, i] = x + y
        out[1, i] = x - y
        out[2, i] = x * y
        out[3, i] = x / y
        out[4, i] = -x
        out[5, i] = +x
        out[6, i] = x**2
        out[7, i] = x**-3
        out[8, i] = pow(x, y)
        out[9, i] = 1j * x
        out[10, i] = 2.5 * x + x * 3
        out[11, i] = x / 4
        out[12, i] = 1 / x
        out[13, i] = complex(x.real, y.imag)
        out[14, i] = x if x != y and x == x else y
        out[15, i] = abs(x)
        out[16, i] = 1 - x
        out[17, i] = x - 1.5j
        z = 0j
        for _ in range(3):
            z = z * x + y
        out[18, i] = z
        z += x
        z *= y
        z -= 2
        z /= 2j
        out[19, i] = z
        out[20, i] = x ** (i % 7 - 3)
        out[21, i] = x**0


@pytest.mark.parametrize("name", NAMES)
def test_arithmetic(run, name):
    x, y = random_numbers(name), random_numbers(name, seed=1)
    out = np.zeros((22, x.size), name)
    run(arithmetic, f"{name}[::1], {name}[::1], {name}[:, ::1]", 3, 128, x, y, out)
    x, y = x.astype(complex), y.astype(complex)
    horner = (y * x + y) * x + y
    # The polynomial and the running sum can cancel: their terms are what rounding errors are measured by.
    expected = {
        0: x + y, 1: x - y, 2: x * y, 3: x / y, 4: -x, 5: x, 6: x * x, 7: 1 / x**3, 9: 1j * x, 10: 5.5 * x, 11: x / 4,
        12: 1 / x, 13: x.real + 1j * y.imag, 14: x, 15: np.abs(x) + 0j, 16: 1 - x, 17: x - 1.5j, 21: np.ones_like(x),
    }  # fmt: skip
    for row, wanted in expected.items():
        assert_near(out[row], wanted, 6 if row in (3, 7, 12) else 2, f"row {row}")
    powers = np.array([u ** (k % 7 - 3) for k, u in enumerate(x)])
    assert_near(out[20], powers, 12, "whole powers")
    power = np.array([u**v for u, v in zip(x, y, strict=True)])
    exact = np.abs(power) < 1e30  # elsewhere the exponent's rounding shows
    limit = 8 + 4 * np.abs(y * np.log(x))
    error = np.abs(out[8] - power) / np.maximum(np.abs(power), 1e-30) / EPSILON[name]
    assert np.all((error <= limit)[exact & (np.abs(power) > 1e-30)])
    terms = np.abs(y) * (np.abs(x) + 1) ** 2
    assert np.all(np.abs(out[18] - horner) <= 8 * EPSILON[name] * terms)
    last = ((horner + x) * y - 2) / 2j
    assert np.all(np.abs(out[19] - last) <= 16 * EPSILON[name] * ((terms + np.abs(x)) * np.abs(y) + 2))


def unfused(z, out):
    i = cuda.grid(1)
    out[i] = z[i] * z[i].conjugate()


def test_without_contraction_a_number_times_its_conjugate_is_real(run):
    z = random_numbers("complex64", 128)
    out = np.zeros_like(z)
    run(unfused, "complex64[::1], complex64[::1]", 1, 128, z, out, options=DEFAULT_OPTIONS.replace(fma=False))
    np.testing.assert_array_equal(out.imag, 0.0)


def quotient(a, b, out):
    i = cuda.grid(1)
    if i < a.size:
        out[i] = a[i] / b[i]


@pytest.mark.parametrize("name", NAMES)
def test_quotients_of_infinities_and_zeros(run, name):
    """Annex G: where an infinity or a zero is the answer, it is found; elsewhere the answer is Python's."""
    pairs = list(itertools.product(special_numbers(name), special_numbers(name)))
    a, b = (np.array([pair[k] for pair in pairs], name) for k in range(2))
    out = np.zeros_like(a)
    run(quotient, f"{name}[::1], {name}[::1], {name}[::1]", -(-a.size // 256), 256, a, b, out)
    for x, y, found in zip(a.tolist(), b.tolist(), out.tolist(), strict=True):
        what = f"{x} / {y} = {found}"
        if any(map(cmath.isnan, (x, y))):
            continue
        if cmath.isinf(x) and not cmath.isinf(y):
            assert cmath.isinf(found), what
        elif cmath.isinf(y) and not cmath.isinf(x):
            assert found == 0, what
        elif y == 0:
            assert cmath.isinf(found) if x != 0 else cmath.isnan(found), what
        elif not cmath.isinf(x):
            wanted = x / y
            assert cmath.isclose(found, wanted, rel_tol=8 * EPSILON[name]), what


def whole_powers(z, out):
    i = cuda.grid(1)
    out[i, 0] = z[i] ** (2 + 0j)
    out[i, 1] = z[i] ** 3.0
    out[i, 2] = z[i] ** 0j
    out[i, 3] = 2 ** z[i]


def test_whole_powers_are_products(run):
    z = np.array([1j, -1j, 1 + 1j, -2 + 0j, 0j, 3 + 4j])
    out = np.zeros((6, 4), complex)
    run(whole_powers, "complex128[::1], complex128[:, ::1]", 1, 6, z, out)
    np.testing.assert_array_equal(out[:, 0], z * z)
    np.testing.assert_array_equal(out[:, 1], z * z * z)
    np.testing.assert_array_equal(out[:, 2], 1)
    np.testing.assert_allclose(out[:, 3], 2**z, rtol=1e-15)


# cmath

FUNCTIONS = (
    "exp", "log", "log10", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh",
)  # fmt: skip


def functions(z, out):
    i = cuda.grid(1)
    if i < z.size:
        out[0, i] = cmath.exp(z[i])
        out[1, i] = cmath.log(z[i])
        out[2, i] = cmath.log10(z[i])
        out[3, i] = cmath.sqrt(z[i])
        out[4, i] = cmath.sin(z[i])
        out[5, i] = cmath.cos(z[i])
        out[6, i] = cmath.tan(z[i])
        out[7, i] = cmath.asin(z[i])
        out[8, i] = cmath.acos(z[i])
        out[9, i] = cmath.atan(z[i])
        out[10, i] = cmath.sinh(z[i])
        out[11, i] = cmath.cosh(z[i])
        out[12, i] = cmath.tanh(z[i])
        out[13, i] = cmath.asinh(z[i])
        out[14, i] = cmath.acosh(z[i])
        out[15, i] = cmath.atanh(z[i])


def numpy_functions(z, out):
    i = cuda.grid(1)
    if i < z.size:
        out[0, i] = np.exp(z[i])
        out[1, i] = np.log(z[i])
        out[2, i] = np.log10(z[i])
        out[3, i] = np.sqrt(z[i])
        out[4, i] = np.sin(z[i])
        out[5, i] = np.cos(z[i])
        out[6, i] = np.tan(z[i])
        out[7, i] = np.arcsin(z[i])
        out[8, i] = np.arccos(z[i])
        out[9, i] = np.arctan(z[i])
        out[10, i] = np.sinh(z[i])
        out[11, i] = np.cosh(z[i])
        out[12, i] = np.tanh(z[i])
        out[13, i] = np.arcsinh(z[i])
        out[14, i] = np.arccosh(z[i])
        out[15, i] = np.arctanh(z[i])


def python_results(function, numbers):
    found = []
    for z in numbers.tolist():
        try:
            found.append(getattr(cmath, function)(z))
        except (ValueError, OverflowError):
            found.append(None)
    return found


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("kernel", [functions, numpy_functions])
def test_functions_of_everyday_numbers(run, name, kernel):
    z = random_numbers(name)
    out = np.zeros((len(FUNCTIONS), z.size), name)
    run(kernel, f"{name}[::1], {name}[:, ::1]", 3, 128, z, out)
    for row, function in enumerate(FUNCTIONS):
        assert_near(out[row], np.array(python_results(function, z)), 16, function)


@pytest.mark.parametrize("name", NAMES)
def test_functions_of_infinities_and_zeros(run, name):
    """Each part as CPython's, with the signs of zeros."""
    z = special_numbers(name)
    out = np.zeros((len(FUNCTIONS), z.size), name)
    run(functions, f"{name}[::1], {name}[:, ::1]", 2, 128, z, out)
    limit = float(np.finfo(out.real.dtype).max)
    for row, function in enumerate(FUNCTIONS):
        for given, found, wanted in zip(z.tolist(), out[row].tolist(), python_results(function, z), strict=True):
            if wanted is None:
                continue
            for part, aim in ((found.real, wanted.real), (found.imag, wanted.imag)):
                what = f"{function}({given}) = {found}, not {wanted}"
                if math.isnan(aim):
                    assert math.isnan(part), what
                elif aim == 0.0 or math.isinf(aim) or abs(aim) > limit:
                    assert part == (aim if abs(aim) <= limit else math.copysign(math.inf, aim)), what
                    assert math.copysign(1.0, part) == math.copysign(1.0, aim), what
                else:
                    close = 16 * EPSILON[name] * max(abs(aim), 0.25 * min(abs(wanted), 1.0))
                    assert abs(part - aim) <= close, what


def others(z, r, phi, real, number, flags):
    i = cuda.grid(1)
    if i < z.size:
        real[0, i] = cmath.phase(z[i])
        real[1, i], real[2, i] = cmath.polar(z[i])
        real[3, i] = np.angle(z[i])
        real[4, i] = np.abs(z[i])
        real[5, i] = np.real(z[i])
        real[6, i] = np.imag(z[i])
        number[0, i] = cmath.rect(r[i], phi[i])
        number[1, i] = cmath.log(z[i], 3.0)
        number[2, i] = np.conj(z[i])
        number[3, i] = np.conjugate(z[i])
        number[4, i] = z[i] * cmath.pi + cmath.e + cmath.tau * 1j
        flags[0, i] = cmath.isnan(z[i])
        flags[1, i] = cmath.isinf(z[i])
        flags[2, i] = cmath.isfinite(z[i])
        flags[3, i] = np.isnan(z[i])
        flags[4, i] = bool(z[i])
        flags[5, i] = not z[i]
        flags[6, i] = cmath.isclose(z[i], z[i] * (1 + 1e-5), rel_tol=1e-4)
        flags[7, i] = cmath.isclose(z[i], z[i] + 1)


@pytest.mark.parametrize("name", NAMES)
def test_other_functions(run, name):
    z = np.concatenate([special_numbers(name), random_numbers(name, 100)])
    part = z.real.dtype.name
    rng = np.random.default_rng(3)
    r, phi = rng.normal(size=(2, z.size)).astype(part)
    real, number = np.zeros((7, z.size), part), np.zeros((5, z.size), name)
    flags = np.zeros((8, z.size), bool)
    signature = f"{name}[::1], {part}[::1], {part}[::1], {part}[:, ::1], {name}[:, ::1], bool[:, ::1]"
    run(others, signature, 3, 128, z, r, phi, real, number, flags)
    tolerance = {"rtol": 4 * EPSILON[name]}
    for row in (0, 2, 3):
        np.testing.assert_allclose(real[row], np.angle(z), **tolerance)
    for row in (1, 4):
        np.testing.assert_allclose(real[row], np.abs(z), **tolerance)
    np.testing.assert_array_equal(real[5], z.real)
    np.testing.assert_array_equal(real[6], z.imag)
    wide = r.astype(float), phi.astype(float)
    assert_near(number[0], wide[0] * np.exp(1j * wide[1]), 4, "rect")
    tame = np.isfinite(z) & (z != 0) & (np.abs(np.abs(z) - 1) > 1e-3)
    assert_near(number[1][tame], np.log(z[tame].astype(complex)) / math.log(3.0), 8, "log of base 3")
    for row in (2, 3):
        np.testing.assert_array_equal(number[row], np.conj(z))
        signed = ~np.isnan(z.imag)  # the sign of a NaN means nothing, and a GPU drops it
        np.testing.assert_array_equal(np.signbit(number[row].imag)[signed], ~np.signbit(z.imag)[signed])
    everyday = z[special_numbers(name).size :].astype(complex)
    assert_near(number[4][-everyday.size :], everyday * math.pi + math.e + math.tau * 1j, 8, "constants")
    for row, test in enumerate((np.isnan, np.isinf, np.isfinite, np.isnan, lambda x: x != 0, lambda x: x == 0)):
        np.testing.assert_array_equal(flags[row], test(z), str(row))
    finite = np.isfinite(z)
    np.testing.assert_array_equal(flags[6][finite], True)
    np.testing.assert_array_equal(flags[7][finite], np.abs(z[finite]) > 1e8)


def real_logarithms(x, out):
    i = cuda.grid(1)
    out[i, 0] = cmath.sqrt(x[i])
    out[i, 1] = cmath.log(x[i])
    out[i, 2] = np.expm1(complex(x[i], 1e-3))
    out[i, 3] = np.log1p(complex(x[i], 1e-3))
    out[i, 4] = np.log2(complex(x[i], 1.0))
    out[i, 5] = np.exp2(complex(x[i], 1.0))


def test_real_arguments_and_the_functions_that_only_numpy_has(run):
    x = np.array([-2.0, -0.5, -1e-8, 1e-8, 0.25, 3.0])
    out = np.zeros((6, 6), complex)
    run(real_logarithms, "float64[::1], complex128[:, ::1]", 1, 6, x, out)
    near, far = x + 1e-3j, x + 1j
    wanted = [np.sqrt(x + 0j), np.log(x + 0j), np.expm1(near), np.log1p(near), np.log2(far), np.exp2(far)]
    np.testing.assert_allclose(out, np.array(wanted).T, rtol=1e-12)


# places


def parts_of_arrays(z, shift, sizes):
    i, j = cuda.grid(2)
    if i < z.shape[0] and j < z.shape[1]:
        if i != 2:
            cuda.atomic.add(z.real, (i, j), shift[j])
        cuda.atomic.add(z.imag, (0, j), 1)
        if i == 1:
            z.imag[1, j] = 7
        column = z[:, j]
        cuda.atomic.max(column.real, 2, 100)
        if i == 0 and j == 0:
            sizes[0] = z.real.shape[1]
            sizes[1] = z.imag.strides[0]
            sizes[2] = z.real.itemsize
            sizes[3] = z.real.ndim


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", ["C", "F", "A"])
def test_parts_of_arrays_are_views(run, name, layout):
    rows, columns = 4, 5
    z = random_numbers(name, rows * columns).reshape(rows, columns)
    z[1] = 1
    given = {"C": z.copy(), "F": np.asfortranarray(z), "A": np.repeat(np.repeat(z, 2, 0), 3, 1)[::2, ::3]}[layout]
    part = given.real.dtype.name
    shift = np.arange(columns).astype(part)
    sizes = np.zeros(4, np.int64)
    kind = {"C": ":, ::1", "F": "::1, :", "A": ":, :"}[layout]
    run(parts_of_arrays, f"{name}[{kind}], {part}[::1], int64[::1]", (1, 1), (8, 8), given, shift, sizes)
    wanted = z.copy()
    wanted.real += shift
    wanted.imag[0] += rows
    wanted.imag[1] = 7
    wanted.real[2] = 100
    np.testing.assert_allclose(given, wanted, rtol=4 * EPSILON[name])
    if run.kind != "cpu" and layout == "A":  # a host array with gaps is copied without them
        given = z.copy()
    assert sizes.tolist() == [columns, given.strides[0], given.itemsize // 2, 2]


TABLE = np.array([1 + 2j, -3j, 4.5, 0], np.complex64)
FACTOR = 0.5 + 0.25j


def pair_of(z, factor):
    return z * factor, z.conjugate()


def first_nonzero(a, b):
    if a:
        return a
    return b


def everywhere(scalar, weak, z, out, few):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(32, complex64)
    own = cuda.local.array((2, 2), dtype=complex64)
    tile[i] = z[i]
    own[0, 1] = z[i] * scalar
    own[1, 0] = first_nonzero(0j, own[0, 1])
    cuda.syncthreads()
    other = tile[31 - i]
    pair = pair_of(other, FACTOR)
    a, b = pair
    choice = pair if i % 2 == 0 else (b, a)
    out[i] = choice[0] + own[1, 0] * weak + TABLE[i % 4]
    few[i] = z[i]
    few[i] += np.complex64(1j) + complex64(i)
    few[i] *= np.complex128(2.0)


def test_places(run):
    z = random_numbers("complex64", 32)
    out, few = np.zeros_like(z), np.zeros(32, np.complex128)
    signature = "complex64, complex, complex64[::1], complex64[::1], complex128[::1]"
    run(everywhere, signature, 1, 32, np.complex64(1 - 1j), 2 + 0.5j, z, out, few)
    other = z[::-1].astype(complex)
    wide = z.astype(complex)
    first = np.where(np.arange(32) % 2 == 0, other * FACTOR, other.conj())
    assert_near(out, first + wide * (1 - 1j) * (2 + 0.5j) + np.tile(TABLE, 8), 64, "places")
    np.testing.assert_allclose(few, (wide + 1j + np.arange(32)) * 2, rtol=1e-6)


def arguments(a, b, pair, out):
    out[0] = a
    out[1] = b
    out[2] = pair[0] + pair[1]


def test_scalar_arguments(run):
    out = np.zeros(3, complex)
    run(arguments, "complex64, complex128, Tuple(complex, int), complex128[::1]", 1, 1, 3, np.float32(2), (1j, 4), out)
    assert out.tolist() == [3, 2, 4 + 1j]
    run(arguments, "complex64, complex128, Tuple(complex, int), complex128[::1]", 1, 1, 0.5j, -2 - 1j, (True, 1), out)
    assert out.tolist() == [0.5j, -2 - 1j, 2]


def in_numpys_order(a, b, flags, out):
    i = cuda.grid(1)
    if i < a.size:
        flags[0, i] = np.less(a[i], b[i])
        flags[1, i] = np.less_equal(a[i], b[i])
        flags[2, i] = np.greater(a[i], b[i])
        flags[3, i] = np.greater_equal(a[i], b[i])
        out[0, i] = np.maximum(a[i], b[i])
        out[1, i] = np.minimum(a[i], b[i])
        out[2, i] = np.fmax(a[i], b[i])
        out[3, i] = np.fmin(a[i], b[i])
        out[4, i] = np.sign(a[i])
        out[5, i] = np.square(b[i])
        out[6, i] = np.maximum(a[i], 0.5)
        out[7, i] = np.conj(a[i]) + np.real(b[i]) * np.imag(a[i]) + np.angle(a[i])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_order_of_numpy(run):
    parts = [0.0, 1.0, -1.0, 2.5, math.nan]
    numbers = [complex(x, y) for x, y in itertools.product(parts, parts)]
    a, b = np.array(list(itertools.product(numbers, numbers))).T.copy()
    flags, out = np.zeros((4, a.size), bool), np.zeros((8, a.size), complex)
    signature = "complex128[::1], complex128[::1], bool[:, ::1], complex128[:, ::1]"
    run(in_numpys_order, signature, 5, 128, a, b, flags, out)
    tests = [np.less(a, b), np.less_equal(a, b), np.greater(a, b), np.greater_equal(a, b)]
    np.testing.assert_array_equal(flags, tests)
    rows = [np.maximum(a, b), np.minimum(a, b), np.fmax(a, b), np.fmin(a, b)]
    for row, wanted in enumerate([*rows, np.sign(a), np.square(b), np.maximum(a, 0.5)]):
        same = (out[row] == wanted) | (np.isnan(out[row]) & np.isnan(wanted)) | np.isclose(out[row], wanted, rtol=1e-15)
        assert same.all(), (row, a[~same][:3], b[~same][:3], out[row][~same][:3], wanted[~same][:3])
    mixed = np.conj(a) + b.real * a.imag + np.angle(a)
    np.testing.assert_allclose(out[7].real, mixed.real, rtol=1e-14, atol=1e-14)


def weak(x, z, out):
    i = cuda.grid(1)
    out[i] = (1j * i / 2 + 3) * x[i] + z[i] * 2.0**0.5


def test_weak_numbers_take_the_type_of_the_parts(run):
    x, z = np.linspace(0, 1, 8, dtype=np.float32), random_numbers("complex64", 8)
    out = np.zeros_like(z)
    run(weak, "float32[::1], complex64[::1], complex64[::1]", 1, 8, x, z, out)
    i = np.arange(8)
    assert_near(out, (1j * i / 2 + 3) * x + z.astype(complex) * 2**0.5, 8, "weak")


def shows(z):
    print(z[0], z[1], (z[0], 1), 2 - 0.5j)


def test_print(run, capfd):
    capfd.readouterr()
    run(shows, "complex64[::1]", 1, 1, np.array([1.5 - 2j, complex(-0.25, math.inf)], np.complex64))
    if run.kind != "cpu":
        import ctypes

        cuda.synchronize()
        ctypes.CDLL(None).fflush(None)
    found = capfd.readouterr().out.strip()
    assert found == "(1.500000-2.000000j) (-0.250000+infj) ((1.500000-2.000000j), 1) (2.000000-0.500000j)"


def converts(x, out, wide):
    i = cuda.grid(1)
    out[i] = x[i]
    wide[i] = complex128(complex(i, x[i])) + np.complex64(2)
    wide[i] += complex(1j, 2j) + complex(True)


@pytest.mark.parametrize("name", ["bool", "int8", "uint64", "float16", "float32", "float64"])
def test_real_numbers_become_complex(run, name):
    x = np.arange(8).astype(name)
    out, wide = np.zeros(8, np.complex64), np.zeros(8, complex)
    run(converts, f"{name}[::1], complex64[::1], complex128[::1]", 1, 8, x, out, wide)
    np.testing.assert_array_equal(out, x)
    np.testing.assert_array_equal(wide, np.arange(8) + 1j * x.astype(float) + 2 - 1 + 1j)


class Pair(NamedTuple):
    z: complex
    scale: float


class Turn(enum.Enum):
    QUARTER = 1j


def shifted(z, by=2j):
    return z + by


def in_every_construct(z, w, out):
    total = 0
    for value in z:
        total += value
    for k, value in enumerate(w):
        total += value * k
    for a, b in zip(z, w, strict=False):
        total += a * b
    out[0] = total
    pair = Pair(z[0], 1)
    chosen = pair if w[0] == z[0] else Pair(w[0], 2)
    out[1] = chosen.z * chosen.scale
    maybe = None
    if w.size > 2:
        maybe = z[1]
    if maybe is not None:
        out[2] = maybe
    turn = Turn.QUARTER.value
    turned = lambda value: value * turn  # noqa: E731
    out[3] = turned(shifted(z[0])) + shifted(w[0], by=3)
    pieces = (z[0], w[0], 1j)
    out[4] = pieces[int(z[0].real) % 3] + (pieces == pieces)
    out[5] = (z[0] and w[0]) + (z[4] or 1) + (not z[4]) + (z[1] in (1j, 3j))
    out[6] = operator.mul(z[0], w[0]) - operator.neg(z[1]) + cuda.selp(z[0] != w[0], z[0], w[0])


def on_arrays(z, w, out, rows):
    np.add(z, w, out)
    rows[0].fill(1j)
    rows[1, 1:] = z[1:]
    np.exp(z, rows[2])
    rows[3] = 2
    rows.T[0, 3] = z.sum() + np.mean(w) + sum(z)
    rows.real[3, 1] = 7
    rows[3].imag[2] = -1


def test_constructs_and_whole_arrays(run):
    z, w = np.array([1 + 2j, 3j, 2, -1 + 1j, 0, 0.5]), np.array([2 - 1j, 1, 1j, 4, 2 + 2j, 1])
    out, rows = np.zeros(7, complex), np.zeros((4, 6), complex)
    run(in_every_construct, "complex128[::1], complex128[::1], complex128[::1]", 1, 1, z, w, out)
    total = z.sum() + (w * np.arange(6)).sum() + (z * w).sum()
    turned = (z[0] + 2j) * 1j + w[0] + 3
    wanted = [total, w[0] * 2, z[1], turned, w[0] + 1, w[0] + 1 + 1 + 1, z[0] * w[0] + z[1] + z[0]]
    np.testing.assert_allclose(out, wanted, rtol=1e-14)
    signature = "complex128[::1], complex128[::1], complex128[::1], complex128[:, ::1]"
    out = np.zeros(6, complex)
    run(on_arrays, signature, 1, 1, z, w, out, rows)
    expected = np.zeros((4, 6), complex)
    expected[0], expected[1, 1:], expected[2], expected[3] = 1j, z[1:], np.exp(z), 2
    expected[3, 0] = 2 * z.sum() + w.mean()
    expected[3, 1] = 7
    expected[3, 2] = 2 - 1j
    np.testing.assert_allclose(rows, expected, rtol=1e-14)
    np.testing.assert_array_equal(out, z + w)
