# SPDX-License-Identifier: Apache-2.0
"""``cuda.fp16`` and ``cuda.bf16`` while a kernel's own Python runs: computed in float64 and rounded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from cudabuild.lang.half import COMPARISONS, FUNCTIONS, SATURATED, UNORDERED
from cudabuild.types import bfloat16

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["find_half_function"]

_NUMPY = {"exp10": lambda x: np.power(10.0, x), "rsqrt": lambda x: 1 / np.sqrt(x)}


def _ordered(predicate: str, a: float, b: float) -> bool:
    return {
        "eq": a == b, "ne": a < b or a > b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b,
    }[predicate]  # fmt: skip


def _extreme(choose: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda a, b: b if a != a else a if b != b else choose(a, b)


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "hadd": lambda a, b: a + b,
    "hsub": lambda a, b: a - b,
    "hmul": lambda a, b: a * b,
    "hdiv": lambda a, b: np.float64(a) / b,
    "hfma": lambda a, b, c: a * b + c,
    "hneg": lambda a: -a,
    "habs": abs,
    "hrcp": lambda a: np.float64(1) / a,
    "hmax": _extreme(max),
    "hmin": _extreme(min),
    "hmax_nan": lambda a, b: math.nan if a != a or b != b else max(a, b),
    "hmin_nan": lambda a, b: math.nan if a != a or b != b else min(a, b),
    "hfma_relu": lambda a, b, c: math.nan if a * b + c != a * b + c else max(a * b + c, 0.0),
}
_TESTS: dict[str, Callable[[float], Any]] = {
    "hisnan": math.isnan,
    "hisinf": lambda a: int(math.isinf(a)) * (1 if a > 0 else -1),
}
_ROUNDING: dict[str, Callable[[float], Any]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}


def find_half_function(name: str) -> Callable[..., Any] | None:
    """What ``fp16.hadd`` and its like do; None for other names."""
    space, _, function = name.partition(".")
    if space not in ("fp16", "bf16"):
        return None
    kind: Callable[[Any], Any] = np.float16 if space == "fp16" else bfloat16
    return _common(kind, function) or _conversion(kind, function)


def _common(kind: Callable[[Any], Any], name: str) -> Callable[..., Any] | None:
    def numbers(values: tuple[Any, ...]) -> list[float]:
        return [float(kind(value)) for value in values]

    if name in FUNCTIONS:
        compute = _NUMPY.get(FUNCTIONS[name]) or getattr(np, FUNCTIONS[name])
        return lambda *values: kind(compute(np.float64(*numbers(values))))
    if name in COMPARISONS:
        return lambda *values: _ordered(COMPARISONS[name], *numbers(values))
    if name in UNORDERED:
        return lambda *values: not _ordered(UNORDERED[name], *numbers(values))
    if name in _TESTS:
        return lambda *values: _TESTS[name](*numbers(values))
    if name in SATURATED:
        inner = _ARITHMETIC[SATURATED[name]]
        return lambda *values: kind(min(1.0, _extreme(max)(inner(*numbers(values)), 0.0)))
    found = _ARITHMETIC.get(name.removesuffix("_rn"))
    return None if found is None else lambda *values: kind(found(*numbers(values)))


def _conversion(kind: Callable[[Any], Any], name: str) -> Callable[..., Any] | None:
    """``bfloat16_to_int32_rz``, ``int16_as_bfloat16`` and their like; those to bfloat16 round to nearest only."""
    source, _, target = name.partition("_as_")
    if target:
        given = kind if source == "bfloat16" else np.dtype(source).type
        return lambda a: given(a).view(type(kind(0.0)) if target == "bfloat16" else target)
    source, _, target = name.partition("_to_")
    target, _, mode = target.partition("_")
    if source != "bfloat16":
        return kind if mode in ("", "rn") else None
    if target == "float32":
        return lambda a: np.float32(kind(a))
    if mode not in _ROUNDING:
        return None
    limits = np.iinfo(target)
    convert = np.dtype(target).type

    def rounded(a: Any) -> Any:
        whole = float(_ROUNDING[mode](float(kind(a))))
        if whole != whole:
            return convert(0)
        return convert(limits.max if whole >= limits.max else limits.min if whole <= limits.min else int(whole))

    return rounded
