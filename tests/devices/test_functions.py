# SPDX-License-Identifier: Apache-2.0
"""Every mathematical function over its whole domain, within the CUDA guide's maximum error of a wider result."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from grids import FLOATS, edges, random
from oracles import Wide, from_c, next_after, power, remainder
from ulp import bound_holds, limit_of, same_bits, ulp_distance

from cudabuild import cuda
from cudabuild.definition import DEFAULT_OPTIONS

UNCONTRACTED = DEFAULT_OPTIONS.replace(fma=False)


@dataclass(frozen=True)
class Case:
    """One function: as a kernel calls it, by its name in the table, its reference, and where its domain is denser."""

    spelling: str
    table: str
    reference: Callable[..., Any]
    low: float = -20.0
    high: float = 20.0

    @property
    def function(self) -> Any:
        module, name = self.spelling.split(".")
        return getattr({"math": math, "np": np, "cuda": cuda}[module], name)


UNARY = (
    Case("math.sqrt", "sqrt", np.sqrt, 0, 1e4), Case("cuda.rsqrt", "rsqrt", lambda x: 1 / np.sqrt(x), 0, 1e4),
    Case("cuda.cbrt", "cbrt", np.cbrt), Case("np.cbrt", "cbrt", np.cbrt, -1e-3, 1e-3),
    Case("math.exp", "exp", np.exp), Case("np.exp2", "exp2", np.exp2), Case("math.expm1", "expm1", np.expm1, -2, 2),
    Case("math.log", "log", np.log, 0, 3), Case("math.log2", "log2", np.log2, 0, 3),
    Case("math.log10", "log10", np.log10, 0, 3), Case("math.log1p", "log1p", np.log1p, -1, 2),
    Case("math.sin", "sin", np.sin), Case("math.cos", "cos", np.cos), Case("math.tan", "tan", np.tan),
    Case("math.asin", "asin", np.arcsin, -1, 1), Case("math.acos", "acos", np.arccos, -1, 1),
    Case("math.atan", "atan", np.arctan, -3, 3), Case("math.sinh", "sinh", np.sinh, -3, 3),
    Case("math.cosh", "cosh", np.cosh, -3, 3), Case("math.tanh", "tanh", np.tanh, -2, 2),
    Case("math.asinh", "asinh", np.arcsinh, -3, 3), Case("math.acosh", "acosh", np.arccosh, 1, 4),
    Case("math.atanh", "atanh", np.arctanh, -1, 1), Case("math.erf", "erf", from_c("erfl"), -3, 3),
    Case("math.erfc", "erfc", from_c("erfcl"), -3, 10), Case("math.gamma", "tgamma", from_c("tgammal"), -10, 30),
    Case("math.lgamma", "lgamma", from_c("lgammal"), 0, 30), Case("math.fabs", "fabs", np.fabs),
    Case("np.floor", "floor", np.floor), Case("np.ceil", "ceil", np.ceil), Case("np.trunc", "trunc", np.trunc),
    Case("np.rint", "rint", np.rint), Case("math.degrees", "mul", lambda x: x * x.dtype.type(180 / math.pi)),
    Case("math.radians", "mul", lambda x: x * x.dtype.type(math.pi / 180)),
)  # fmt: skip


BINARY = (
    Case("math.pow", "pow", power, 0, 4), Case("math.atan2", "atan2", np.arctan2),
    Case("math.hypot", "hypot", np.hypot), Case("math.fmod", "fmod", np.fmod),
    Case("math.remainder", "remainder", remainder), Case("math.copysign", "copysign", np.copysign),
    Case("math.nextafter", "nextafter", next_after),
)  # fmt: skip


def unary(case: Case, name: str) -> Any:
    function = case.function

    def kernel(x, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i])

    kernel.label = f"{case.spelling} {name}"  # type: ignore[attr-defined]
    return kernel


def binary(case: Case, name: str) -> Any:
    function = case.function

    def kernel(x, y, out):
        i = cuda.grid(1)
        if i < x.size:
            out[i] = function(x[i], y[i])

    kernel.label = f"{case.spelling} {name}"  # type: ignore[attr-defined]
    return kernel


def inputs(case: Case, name: str, salt: int) -> Any:
    """Edges, every magnitude, and 2,000 values from the interesting part of the domain."""
    rng = np.random.default_rng((salt, len(name)))
    x = np.concatenate(
        [edges(name), random(name, 1000, rng), rng.uniform(case.low, case.high, 2000).astype(name)],
    )
    return x[bound_holds(case.table, x)]


def reference_of(case: Case, *x: Any) -> Any:
    """Exact functions in the type itself, as IEEE 754 has them; the others in a wider one."""
    exact = limit_of(case.table, "float32") == 0
    return case.reference(*(x if exact else (values.astype(Wide) for values in x)))


def check(run: Any, notes: Any, case: Case, found: Any, wide: Any, *x: Any) -> None:
    """``found`` against the reference, in ulp of the result's type."""
    name = found.dtype.name
    with np.errstate(all="ignore"):
        wanted = wide.astype(found.dtype)
    apart = ulp_distance(found, wanted)
    notes.note_error(f"{case.spelling} {name}", run.kind, float(apart.max()))
    limit = limit_of(case.table, name, run.kind)
    wrong = apart > limit if limit else ~same_bits(found, wanted)
    if wrong.any():
        at = int(np.argmax(np.where(wrong, apart, -1)))
        given = ", ".join(repr(column[at]) for column in x)
        raise AssertionError(
            f"{case.spelling}({given}) is {found[at]!r}, not {wanted[at]!r}: {apart[at]:.0f} ulp, at most {limit} "
            f"allowed; {wrong.sum()} of {found.size} are beyond"
        )


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("case", UNARY, ids=lambda case: case.spelling)
def test_one_argument(run, notes, case, name):
    x = inputs(case, name, 1)
    out = np.zeros_like(x)
    run(unary(case, name), f"{name}[::1], {name}[::1]", -(-x.size // 128), 128, x, out, options=UNCONTRACTED)
    with np.errstate(all="ignore"):
        check(run, notes, case, out, reference_of(case, x), x)


@pytest.mark.parametrize("name", FLOATS)
@pytest.mark.parametrize("case", BINARY, ids=lambda case: case.spelling)
def test_two_arguments(run, notes, case, name):
    a, b = (part.ravel() for part in np.meshgrid(edges(name), edges(name)))
    x, y = inputs(case, name, 2), inputs(case, name, 3)
    x, y = np.concatenate([a, x]), np.concatenate([b, np.random.default_rng(4).permutation(y)])
    out = np.zeros_like(x)
    signature = f"{name}[::1], {name}[::1], {name}[::1]"
    run(binary(case, name), signature, -(-x.size // 128), 128, x, y, out, options=UNCONTRACTED)
    with np.errstate(all="ignore"):
        check(run, notes, case, out, reference_of(case, x, y), x, y)


def parts(x, n, fraction, whole, scaled):
    i = cuda.grid(1)
    if i < x.size:
        fraction[i], whole[i] = math.modf(x[i])
        scaled[i] = math.ldexp(x[i], n[i])


@pytest.mark.parametrize("name", FLOATS)
def test_modf_and_ldexp(run, name):
    x = np.concatenate([edges(name), random(name, 2000, np.random.default_rng(5))])
    n = np.random.default_rng(6).integers(-40, 40, x.size).astype(np.int32)
    n[:40] = np.random.default_rng(7).integers(-(1 << 31), 1 << 31, 40)
    outs = [np.zeros_like(x) for _ in range(3)]
    signature = ", ".join(f"{kind}[::1]" for kind in (name, "int32", name, name, name))
    run(parts, signature, -(-x.size // 128), 128, x, n, *outs)
    with np.errstate(all="ignore"):
        for what, found, wanted in zip(
            ("modf[0]", "modf[1]", "ldexp"), outs, [*np.modf(x), np.ldexp(x, n)], strict=True
        ):
            wrong = np.flatnonzero(~same_bits(found, wanted))
            assert not wrong.size, (what, x[wrong[0]], n[wrong[0]], found[wrong[0]], wanted[wrong[0]])
