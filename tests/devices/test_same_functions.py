# SPDX-License-Identifier: Apache-2.0
"""libdevice on the host and on a GPU: the same code, so the same bits wherever it asks for no approximation.

How far each function is from the right result is in ``test_functions.py``.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from grids import edges, random
from launching import Device
from operations import Kernel, make_ptx
from ulp import same_bits, ulp_distance

from cudabuild import cuda
from cudabuild.backend.libdevice import find_digest
from cudabuild.definition import DEFAULT_OPTIONS
from cudabuild.ir.ops import MATH
from cudabuild.types import float32, float64, int32

UNCONTRACTED = DEFAULT_OPTIONS.replace(fma=False)
TYPES = {"float32": float32, "float64": float64}
#: Functions that libdevice computes without an instruction whose result the PTX ISA leaves open.
ALIKE = {
    "float32": {
        "log", "log2", "log10", "log1p", "sin", "cos", "atan2", "hypot", "nextafter", "ldexp", "powi",
    },
    "float64": {
        "exp", "exp2", "exp10", "expm1", "sin", "cos", "sinh", "atan2", "remainder", "nextafter", "ldexp", "powi",
    },
}  # fmt: skip
#: Those that LLVM has itself.
EXACT = {"sqrt", "floor", "ceil", "trunc", "rint", "copysign", "fma", "fmin", "fmax"}
#: No function of Python's or NumPy's.
UNSPELLED = {"exp10"}


def unary(name):
    function = getattr(math, name, None) or getattr(np, name)

    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    return kernel


def binary(name):
    function = getattr(math, name)

    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i], y[i])

    return kernel


def powers(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = x[i] ** y[i]


def kernel_of(name):
    if name == "powi":
        return powers
    return unary(name) if MATH[name] == 1 else binary(name)


def operands(name, dtype, seed):
    rng = np.random.default_rng(seed)
    x = np.concatenate([edges(dtype), random(dtype, 30_000, rng), rng.uniform(-20, 20, 30_000).astype(dtype)])
    if name in ("ldexp", "powi"):
        return x, rng.integers(-160, 160, x.size).astype(np.int32)
    return (x, rng.permutation(x)) if MATH[name] == 2 else (x,)


def launch(device, name, *arrays):
    out = np.zeros_like(arrays[0])
    signature = ", ".join(f"{array.dtype}[::1]" for array in (*arrays, out))
    device(kernel_of(name), signature, -(-out.size // 128), 128, *arrays, out, options=UNCONTRACTED)
    return out


@pytest.mark.parametrize("dtype", TYPES)
def test_which_functions_ask_for_approximations(dtype):
    """The list above, read from the PTX; of another libdevice more functions may be alike."""
    found = set()
    for name in set(MATH) - EXACT:
        kind = TYPES[dtype]
        k = Kernel(name, kind, kind, int32)
        second = k.arguments[2] if name in ("ldexp", "powi") else k.arguments[1]
        given = [k.arguments[0], second][: MATH[name]]
        k.keep(k.op("math", kind, *given, function=name))
        if "approx" not in make_ptx(k.finish()):
            found.add(name)
    assert found >= ALIKE[dtype]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("name", "dtype"), [(name, dtype) for dtype in TYPES for name in sorted(ALIKE[dtype] - UNSPELLED)]
)
def test_same_bits_on_both_devices(name, dtype):
    assert find_digest() is not None, "the CPU device has no libdevice here"
    arrays = operands(name, dtype, 1)
    host, gpu = (launch(Device(kind), name, *arrays) for kind in ("cpu", "gpu32"))
    wrong = np.flatnonzero(~same_bits(host, gpu))
    assert not wrong.size, (wrong.size, [(*(a[n] for a in arrays), host[n], gpu[n]) for n in wrong[:5]])


@pytest.mark.parametrize("dtype", TYPES)
def test_integer_powers(run, dtype):
    """Products of products: each adds its rounding to the error."""
    rng = np.random.default_rng(5)
    x, n = rng.uniform(-3, 3, 4000).astype(dtype), rng.integers(-16, 17, 4000).astype(np.int32)
    found = launch(run, "powi", x, n)
    with np.errstate(over="ignore"):
        wanted = (x.astype(np.longdouble) ** n.astype(np.longdouble)).astype(dtype)
    assert ulp_distance(found, wanted).max() <= 16
