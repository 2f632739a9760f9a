# SPDX-License-Identifier: Apache-2.0
"""Where a kernel's mathematics come from on the host: libdevice, or the C library where there is none."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
from libdevice_names import read_names

from cudabuild import cuda
from cudabuild.backend import libdevice
from cudabuild.backend.libdevice import function_name
from cudabuild.cache.store import Cache
from cudabuild.cpu import compile as compiling
from cudabuild.cpu import libdevice as hosted
from cudabuild.cpu.compile import emit_host_text, optimise_host_text
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import ToolError
from cudabuild.frontend import build_ir
from cudabuild.ir.ops import MATH
from cudabuild.ir.passes import run_passes
from cudabuild.types import parse_signature

SIGNATURE = "float32[::1], float32[::1]"


def exponential(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.exp(x[i])


def logarithm(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.log(x[i])


def power(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.pow(x[i], y[i])


def sine(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sin(x[i])


def exact(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sqrt(abs(x[i])) + np.rint(x[i]) + np.floor(x[i]) * math.copysign(x[i], 2.0)


def text_of(function, signature=SIGNATURE, options=DEFAULT_OPTIONS, optimised=False):
    definition = KernelDefinition(function, signature, options=options)
    ir = run_passes(build_ir(definition, parse_signature(signature)), target_kind="host")
    text, _ = emit_host_text(ir, options)
    return optimise_host_text(text) if optimised else text


@pytest.fixture
def absent(monkeypatch):
    """A computer without libdevice."""
    caches = (libdevice._read_file, libdevice.find_libdevice, libdevice.find_digest, hosted._close)
    for one in caches:
        one.cache_clear()
    with monkeypatch.context() as patch:
        patch.setattr(libdevice, "_find_path", lambda: None)
        yield
    for one in caches:
        one.cache_clear()


def launch(function, x, y, store=None, options=DEFAULT_OPTIONS):
    signature = f"{x.dtype}[::1], {x.dtype}[::1]"
    launcher = CpuDevice(store).bind(KernelDefinition(function, signature, options=options), parse_signature(signature))
    launcher((-(-len(x) // 128), 1, 1), (128, 1, 1), 0, 0, (x, y))
    return launcher.kernel.object


def test_every_function_of_libdevice_has_a_host_text():
    names = sorted(read_names()[0])
    assert len(names) > 340
    assert [name for name in names if not hosted.find_function(name)] == []
    text = hosted.format_functions(names)
    assert "llvm.nvvm" not in text
    assert " asm " not in text
    from cudabuild.backend import llvm

    llvm.parse_module(f'target triple = "{llvm.host_triple()}"\n{text}')


def test_every_function_of_kernels_is_one():
    for function in [*MATH, "fmod"]:
        for type in ("float", "double"):
            for fastmath in (False, True):
                name = function_name(function, type, fastmath=fastmath)
                assert name is None or name in read_names()[0]


def test_a_function_of_no_host_definition_is_left_to_the_c_library(monkeypatch):
    hosted._close.cache_clear()
    monkeypatch.setattr(hosted.nvvm, "define", lambda name: None)
    try:
        assert not hosted.find_function("__nv_expf")
        with pytest.raises(
            ToolError, match=r"libdevice's __nv_expf uses nvvm\.\S+, which has no definition for this computer"
        ):
            hosted.format_functions(["__nv_expf"])
        assert "@__nv_expf" not in text_of(exponential)
    finally:
        hosted._close.cache_clear()
    monkeypatch.undo()
    assert "@__nv_expf" in text_of(exponential)


@pytest.mark.parametrize("function", [exponential, logarithm, power])
@pytest.mark.parametrize("type", ["float32", "float64"])
def test_functions_without_loops_are_vectorised(function, type):
    text = text_of(function, f"{type}[::1], {type}[::1]", optimised=True)
    wide = r"<(?:4|8|16) x double>" if type == "float64" else r"<(?:8|16) x float>"
    assert re.search(rf"store {wide}", text)
    body = text.split("vector.body:", 1)[1].split("br i1", 1)[0]
    assert not re.findall(r"call \w+ @(?!llvm)", body)


def test_exact_operations_stay_llvm_intrinsics():
    text = text_of(exact)
    assert "@__nv_" not in text
    for name in ("sqrt", "rint", "floor", "copysign"):
        assert f"@llvm.{name}.f32" in text
    assert re.search("store <(?:8|16) x float>", text_of(exact, optimised=True))


def test_nothing_in_libdevice_is_contracted():
    """As on a GPU (``tests/backend/test_libdevice.py``): its own products and sums are rounded one by one."""
    text = text_of(power)
    bodies = re.findall(r"^define internal \w+ @__nv_.*?^}", text, re.MULTILINE | re.DOTALL)
    assert bodies
    assert not any(re.search(r"\b(?:contract|fast|reassoc|afn)\b", body) for body in bodies)
    assert re.search(r"= fmul float", "".join(bodies))


def test_fastmath_takes_the_functions_that_a_gpu_takes():
    fast = DEFAULT_OPTIONS.replace(fastmath=True)
    assert "@__nv_fast_sinf" in text_of(sine, options=fast)
    assert "@__nv_fast_powf" in text_of(power, options=fast)
    x = np.array([-2.0, 2.0, 0.5], np.float32)
    y = np.full(3, 2.0, np.float32)
    launch(power, x, y, options=fast)
    assert np.isnan(y[0])  # 2 to the power y · log2(x), which a negative x has not
    np.testing.assert_allclose(y[1:], [4.0, 0.25], rtol=1e-6)


def test_fastmath_flushes_no_denormals():
    """A GPU's results would be zeros: the host has no such mode, and asks libdevice for its other half."""
    x = np.array([-90.0, -100.0], np.float32)
    y = np.zeros(2, np.float32)
    launch(exponential, x, y, options=DEFAULT_OPTIONS.replace(fastmath=True))
    assert ((y > 0) & (y < np.finfo(np.float32).smallest_normal)).all()
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=1e-5, atol=2e-45)


def test_without_libdevice_it_is_the_c_library(absent):
    assert not hosted.find_function("__nv_expf")
    for function in (exponential, power, sine):
        text = text_of(function)
        assert "@__nv_" not in text
        assert re.search(r"@llvm\.(exp|pow|sin)\.f32", text)
    x = np.linspace(-5, 5, 300, dtype=np.float32)
    y = np.empty_like(x)
    launch(exponential, x, y)
    np.testing.assert_allclose(y, np.exp(x.astype(np.float64)), rtol=3e-7)


def test_with_libdevice_and_without_it_agree_to_a_few_units(absent, request):
    without = np.linspace(-5, 5, 300, dtype=np.float32)
    x = without.copy()
    launch(sine, x, without)
    for one in (libdevice._read_file, libdevice.find_libdevice, libdevice.find_digest, hosted._close):
        one.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(libdevice, "_find_path", libdevice._find_packaged)
        assert hosted.find_function("__nv_sinf")
        found = np.empty_like(x)
        launch(sine, x, found)
    np.testing.assert_allclose(found, without, rtol=3e-7)


def test_kept_code_knows_its_libdevice(tmp_path, monkeypatch):
    """Code made with one libdevice is not found with another, or with none."""
    names = []
    make = compiling.compile_object
    monkeypatch.setattr(compiling, "compile_object", lambda d, *rest: names.append(d.qualname) or make(d, *rest))
    from cudabuild.cpu import objects

    cache = Cache(str(tmp_path))
    x, y = np.zeros(8, np.float32), np.zeros(8, np.float32)
    for digest, compiled in [(None, 1), ("0123456789abcdef", 2), ("fedcba9876543210", 3), (None, 3)]:
        monkeypatch.setattr(objects, "find_digest", lambda digest=digest: digest)
        launch(exponential, x, y, cache)
        assert len(names) == compiled
    np.testing.assert_array_equal(y, 1.0)


def powers_of_floats(x, y, out):
    i = cuda.grid(1)
    if i < x.size:
        out[i] = math.pow(x[i], y[i])


@pytest.mark.parametrize("size", [1, 6, 64])
def test_even_powers_beyond_the_mantissa(run, size):
    """Few elements are computed one by one, many in vectors; the shifts inside must mean the same."""
    y = 2.0 ** np.resize(np.arange(52, 1024), size)
    for exponent in (y, np.full(size, 2.0**63), np.full(size, 2.0**64)):
        out = np.zeros(size)
        run(powers_of_floats, "float64[::1], float64[::1], float64[::1]", 1, 64, np.full(size, -1.5), exponent, out)
        np.testing.assert_array_equal(out, np.full(size, np.inf))
