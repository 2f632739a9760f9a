# SPDX-License-Identifier: Apache-2.0
"""CUDA's functions of 16-bit floats: ``cuda.fp16`` on float16, ``cuda.bf16`` on bfloat16. One table for both."""

from __future__ import annotations

from cudabuild.lang.name import KernelName, Namespace

__all__ = ["BF16", "COMPARISONS", "FUNCTIONS", "INTEGERS", "MODES", "SATURATED", "UNORDERED", "bf16", "fp16"]

#: Functions of one number that ``ir.ops.MATH`` has, by its name.
FUNCTIONS = {
    "hsin": "sin", "hcos": "cos", "hlog": "log", "hlog2": "log2", "hlog10": "log10", "hexp": "exp", "hexp2": "exp2",
    "hexp10": "exp10", "hsqrt": "sqrt", "hrsqrt": "rsqrt", "hceil": "ceil", "hfloor": "floor", "htrunc": "trunc",
    "hrint": "rint", "htanh": "tanh", "htanh_approx": "tanh",
}  # fmt: skip

#: Comparisons that are false beside a NaN, and those that are true beside one -> the ordered one that they are not.
COMPARISONS = {"heq": "eq", "hne": "ne", "hge": "ge", "hgt": "gt", "hle": "le", "hlt": "lt"}
UNORDERED = {"hequ": "ne", "hneu": "eq", "hgeu": "lt", "hgtu": "le", "hleu": "gt", "hltu": "ge"}

_ARITHMETIC = {
    "hadd": "a + b",
    "hsub": "a - b",
    "hmul": "a * b",
    "hdiv": "a / b",
    "hfma": "a * b + c, rounded once",
    "hneg": "-a",
    "habs": "the absolute value",
    "hrcp": "1 / a",
    "hmax": "the greater; of a number and a NaN the number",
    "hmin": "the smaller; of a number and a NaN the number",
}

#: bfloat16 only: name -> the function whose result is limited to 0 … 1.
SATURATED = {"hadd_sat": "hadd", "hsub_sat": "hsub", "hmul_sat": "hmul", "hfma_sat": "hfma"}
_MORE = {
    "hadd_rn": "a + b",
    "hsub_rn": "a - b",
    "hmul_rn": "a * b",
    "hfma_relu": "a * b + c, rounded once, or 0 where that is negative",
    "hmax_nan": "the greater; a NaN where either is one",
    "hmin_nan": "the smaller; a NaN where either is one",
    "hisnan": "whether it is a NaN",
    "hisinf": "1 for infinity, -1 for minus infinity, else 0",
    "float32_to_bfloat16": "the nearest bfloat16",
    "float64_to_bfloat16": "the nearest bfloat16",
    "bfloat16_to_float32": "the same number as a float32",
    "bfloat16_as_int16": "the same bits as an int16",
    "bfloat16_as_uint16": "the same bits as a uint16",
    "int16_as_bfloat16": "the same bits as a bfloat16",
    "uint16_as_bfloat16": "the same bits as a bfloat16",
}

#: How a conversion rounds.
MODES = {"rn": "to nearest, ties to even", "rz": "towards zero", "rd": "down", "ru": "up"}
#: Integer types that are converted to and from bfloat16; those of 8 bits only from it, towards zero.
INTEGERS = ("int16", "uint16", "int32", "uint32", "int64", "uint64")


def _name(space: str, name: str, parameters: str, doc: str) -> KernelName:
    return KernelName(f"{space}.{name}", f"{space}.{name}({parameters}): {doc}.")


def _parameters(name: str) -> str:
    base = name.partition("_")[0]
    return {"hfma": "a, b, c", "hneg": "a", "habs": "a", "hrcp": "a"}.get(base, "a, b")


def _common(space: str) -> dict[str, KernelName]:
    found = {name: _name(space, name, _parameters(name), doc) for name, doc in _ARITHMETIC.items()}
    found.update((name, _name(space, name, "a", f"{function} of a")) for name, function in FUNCTIONS.items())
    found.update(
        (name, _name(space, name, "a, b", f"whether a {predicate} b; false beside a NaN"))
        for name, predicate in COMPARISONS.items()
    )
    return found


def _brain() -> dict[str, KernelName]:
    found = _common("bf16")
    for name, predicate in UNORDERED.items():
        found[name] = _name("bf16", name, "a, b", f"not (a {predicate} b); true beside a NaN")
    for name, function in SATURATED.items():
        found[name] = _name("bf16", name, _parameters(name), f"{function}, limited to 0 … 1; 0 for a NaN")
    for name, doc in _MORE.items():
        single = "_to_" in name or "_as_" in name or name.startswith("his")
        found[name] = _name("bf16", name, "a" if single else _parameters(name), doc)
    for mode, doc in MODES.items():
        found[f"float32_to_bfloat16_{mode}"] = _name("bf16", f"float32_to_bfloat16_{mode}", "a", f"rounds {doc}")
        for kind in INTEGERS:
            for name in (f"bfloat16_to_{kind}_{mode}", f"{kind}_to_bfloat16_{mode}"):
                found[name] = _name("bf16", name, "a", f"rounds {doc}")
    for kind in ("int8", "uint8"):
        found[f"bfloat16_to_{kind}_rz"] = _name("bf16", f"bfloat16_to_{kind}_rz", "a", f"rounds {MODES['rz']}")
    return found


fp16 = Namespace("fp16", "Functions of float16.", **_common("fp16"))
#: The names of ``cuda.bf16``.
BF16 = _brain()
bf16 = Namespace("bf16", "Functions of bfloat16.", **BF16)
