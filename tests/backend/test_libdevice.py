# SPDX-License-Identifier: Apache-2.0
"""libdevice: extraction by name, the compiler's answers to its questions, and what becomes of them in PTX."""

from __future__ import annotations

import re

import pytest
from operations import Kernel, make_ptx

from cudabuild.backend import libdevice, llvm
from cudabuild.definition import Options
from cudabuild.errors import ToolError
from cudabuild.ir.ir import Function
from cudabuild.ir.ops import MATH
from cudabuild.types import float32, float64, int32

#: Functions of libdevice that ask whether square roots are exact.
ASK_SQRT = ("__nv_sqrtf", "__nv_hypotf", "__nv_norm3df", "__nv_norm4df", "__nv_normf", "__nv_jnf")


def math_kernel(function: str, kind: object = float32) -> Function:
    k = Kernel("math", *[kind] * 3, int32)  # type: ignore[list-item]
    operands = k.arguments[: MATH[function]] if function not in ("ldexp", "powi") else [k.arguments[0], k.arguments[3]]
    k.keep(k.op("math", kind, *operands, function=function))  # type: ignore[arg-type]
    return k.finish()


def test_extraction_holds_what_is_reached_and_nothing_else() -> None:
    text = libdevice.find_libdevice().extract(["__nv_sinf", "__nv_sin"])
    assert "define internal float @__nv_sinf(float %a) alwaysinline nounwind {" in text
    assert "@__internal_trig_reduction_slowpathd(double %a) noinline nounwind {" in text
    assert "@__cudart_i2opi_f = internal addrspace(1) global [6 x i32]" in text
    assert text.count("define ") == 3
    assert "__nvvm_reflect" not in text
    llvm.parse_module(f'target triple = "nvptx64-nvidia-cuda"\n{text}')


def test_the_order_of_names_does_not_matter() -> None:
    library = libdevice.find_libdevice()
    assert library.extract(["__nv_sinf", "__nv_expf"]) == library.extract({"__nv_expf", "__nv_sinf"})


@pytest.mark.parametrize("name", ASK_SQRT)
def test_square_roots_stay_exact(name: str) -> None:
    """LLVM's own answer to ``__CUDA_PREC_SQRT`` is 0, which silently makes them ``sqrt.approx``."""
    library = libdevice.find_libdevice()
    header = {"__nv_normf": "i32 2, ptr %v", "__nv_jnf": "i32 %n, float %a"}
    count = {"__nv_sqrtf": 1, "__nv_hypotf": 2, "__nv_norm3df": 3, "__nv_norm4df": 4}
    arguments = header.get(name) or ", ".join(["float %a"] * count[name])
    for fastmath, wanted in ((False, "llvm.nvvm.sqrt.rn.f("), (True, "llvm.nvvm.sqrt.approx")):
        text = f"""target triple = "nvptx64-nvidia-cuda"
        define ptx_kernel void @k(float %a, ptr addrspace(1) %x, ptr %v, i32 %n) {{
          %r = call float @{name}({arguments})
          store float %r, ptr addrspace(1) %x
          ret void
        }}
        {library.extract([name], fastmath=fastmath)}"""
        module = llvm.parse_module(text)
        llvm.optimise_module(module, llvm.nvptx_machine("sm_75", 3), 3)
        body = str(module).split("define ptx_kernel", 1)[1].split("\ndeclare", 1)[0]
        assert wanted in body
        assert ("approx" in body.replace("rsqrt.approx", "")) == fastmath or name == "__nv_jnf"


@pytest.mark.parametrize("function", ["sqrt", "hypot"])
def test_ptx_of_square_roots(function: str) -> None:
    assert "sqrt.rn.f32" in make_ptx(math_kernel(function))
    assert function == "hypot" or "sqrt.rn.f64" in make_ptx(math_kernel(function, float64))
    fast = make_ptx(math_kernel(function), options=Options({"fastmath": True}))
    assert "sqrt.approx.ftz.f32" in fast
    assert "sqrt.rn" not in fast


@pytest.mark.parametrize(
    ("function", "instruction"),
    [("sin", "sin.approx"), ("exp", "ex2.approx"), ("log", "lg2.approx"), ("tanh", "tanh.approx.f32")],
)
def test_fastmath_swaps_functions_for_approximations(function: str, instruction: str) -> None:
    plain = make_ptx(math_kernel(function))
    fast = make_ptx(math_kernel(function), options=Options({"fastmath": True}))
    assert instruction in fast
    assert len(fast) < len(plain)


def test_float32_functions_use_no_float64() -> None:
    """But for the reduction of large arguments, which is libdevice's own."""
    assert {f for f in MATH if "f64" in make_ptx(math_kernel(f), level=1)} == {"sin", "cos", "tan"}


@pytest.mark.parametrize("kind", [float32, float64])
def test_nothing_in_libdevice_is_contracted(kind: object) -> None:
    """Neither by LLVM (its operations carry no flags) nor by the assembler (``.rn`` forbids it)."""
    rounded = 0
    for function in MATH:
        ptx = make_ptx(math_kernel(function, kind))
        assert not re.search(r"\b(?:add|sub|mul)(?:\.ftz)?\.f(?:32|64)", ptx), function
        rounded += len(re.findall(r"\b(?:add|sub|mul)\.rn\.f(?:32|64)", ptx))
    assert rounded > 50


def test_division_is_exact_unless_fast() -> None:
    k = Kernel("division", float32, float32)
    k.keep(k.op("div", float32, *k.arguments))
    function = k.finish()
    assert "div.rn.f32" in make_ptx(function)
    assert "div.approx.ftz.f32" in make_ptx(function, options=Options({"fastmath": True}))


def test_an_unknown_function_is_an_error_that_names_the_package() -> None:
    with pytest.raises(ToolError, match="libdevice has no function __nv_nothing: update nvidia-nvvm"):
        libdevice.find_libdevice().extract(["__nv_nothing"])


def test_a_missing_libdevice_names_the_package_and_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libdevice, "_find_path", lambda: None)
    libdevice._read_file.cache_clear()
    try:
        with pytest.raises(ToolError) as caught:
            libdevice._read_file()
    finally:
        libdevice._read_file.cache_clear()
    assert str(caught.value) == (
        "mathematical functions need libdevice, and it was not found: pip install nvidia-nvvm (the extra "
        "'cudabuild[jit]'), or point CUDA_HOME at a CUDA toolkit"
    )
