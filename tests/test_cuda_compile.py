# SPDX-License-Identifier: Apache-2.0
"""``cuda.compile`` and its kin, and what a ``cuda.jit`` function tells of its overloads."""

from __future__ import annotations

import io
import math
import re
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cuda import float32, float64, int16, int32, int64, uint32, void
from cudabuild.cuda.errors import TypingError, UnsupportedError
from cudabuild.errors import SignatureError


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudabuild.decorators.SERVICES._choice", None)
    monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")
    monkeypatch.setenv("CUDABUILD_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.setenv("CUDABUILD_IMPLICIT_COPY_WARNINGS", "0")


def add(x: Any, y: Any) -> Any:
    return x + y


def add_arrays(r: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < len(r):
        r[i] = x[i] + y[i]


def test_a_kernel() -> None:
    text, result = cuda.compile_ptx(add_arrays, (float32[:], float32[:], float32[:]))
    assert ".visible .entry" in text
    assert "func_retval" not in text
    assert result == void
    assert ".target sm_75" in text


@pytest.mark.parametrize(
    ("signature", "result"),
    [
        ((float32, float32), float32), ((int32, int32), int64), (int32(int32, int32), int32),
        (int16(int16, int16), int16), ("uint32(uint32, uint32)", uint32), ((float32, int64), float64),
    ],
)  # fmt: skip
def test_a_device_function(signature: Any, result: Any) -> None:
    text, found = cuda.compile(add, signature)
    assert found == result
    assert re.search(rf"\.visible\s+\.func\s+\(\.param\s+\.b{max(result.bits, 32)}\s+func_retval0\)\s+add\(", text)


def test_a_device_function_under_another_name_and_for_another_target() -> None:
    text, _ = cuda.compile(add, (float64, float64), abi_info={"abi_name": "plus"}, cc=(9, 0))
    assert re.search(r"\.func\s+\(.*\)\s+plus\(", text)
    assert ".target sm_90" in text
    assert ".target sm_90a" in cuda.compile(add, (int32, int32), cc=(9, 0, "a"))[0]
    assert re.search(r"\.func\s+\(.*\)\s+_lambda_\(", cuda.compile(lambda x: x, int32(int32))[0])
    debug, _ = cuda.compile(add, (float64, float64), debug=True, opt=False)
    assert "param_2" not in debug
    assert "test_cuda_compile.py" in debug
    own, _ = cuda.compile_ptx(add, (float64, float64), device=True)
    assert re.search(r"\.func\s+\(.*\)\s+add_[0-9a-f]{8}", own)


def test_what_a_device_function_returns_is_no_constant_of_its_caller() -> None:
    def seven() -> Any:
        return 7

    text, result = cuda.compile(seven, ())
    assert result == int64
    assert "func_retval0" in text

    def both(x: Any) -> Any:
        return x, 1.5

    assert cuda.compile(both, (float32,))[1].name == "Tuple(float32, float64)"

    def nothing(x: Any) -> None:
        x[0] = 1

    assert cuda.compile(nothing, (float32[:],))[1] == void


def test_fastmath_and_line_information() -> None:
    def f(x: Any, y: Any, z: Any, d: Any) -> Any:
        return math.sqrt((x * y + z) / d)

    exact, _ = cuda.compile(f, (float32,) * 4)
    fast, _ = cuda.compile(f, (float32,) * 4, fastmath=True)
    assert "sqrt.rn.f32" in exact
    assert "sqrt.approx.ftz.f32" in fast
    assert "test_cuda_compile.py" in cuda.compile(f, (float32,) * 4, lineinfo=True)[0]
    bounded, _ = cuda.compile_ptx(add_arrays, (float32[:],) * 3, launch_bounds=(128, 2, 4), cc=(9, 0))
    assert re.search(r"\.maxntid\s+128", bounded)
    assert re.search(r"\.minnctapersm\s+2", bounded)
    assert re.search(r"\.maxclusterrank\s+4", bounded)


def test_the_other_functions() -> None:
    texts, result = cuda.compile_all(add, (float32, float32))
    assert len(texts) == 1
    assert result == float32
    assert ".target sm_90" in cuda.compile_for_current_device(add, (float32, float32))[0]
    assert ".target sm_90" in cuda.compile_ptx_for_current_device(add_arrays, (float32[:],) * 3)[0]


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ({"abi": "fastcall"}, NotImplementedError, "Unsupported ABI: fastcall"),
        ({"device": False, "abi": "c"}, NotImplementedError, "The C ABI is not supported for kernels"),
        ({"output": "obj"}, NotImplementedError, "Unsupported output type: obj"),
        ({"output": "ltoir"}, UnsupportedError, "LTO-IR is made by libNVVM only"),
        ({"device": False, "abi": "numba"}, TypeError, "CUDA kernel must have void return type"),
    ],
)
def test_what_cannot_be_compiled(arguments: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        cuda.compile(add, (float32, float32), **arguments)


def test_mistakes() -> None:
    def wrong(x: Any) -> Any:
        return x[0]

    with pytest.raises(TypingError, match="only arrays and tuples can be indexed"):
        cuda.compile(wrong, (float32,))


# what a dispatcher tells


def scale(x: Any, n: Any) -> None:
    shared = cuda.shared.array(10, dtype=x.dtype)
    i = cuda.grid(1)
    if i < n:
        shared[i] = 3.14 * math.sin(x[i])
    cuda.syncthreads()
    if i < n:
        x[i] = shared[n - 1 - i]


def launched() -> Any:
    kernel = cuda.jit(scale)
    kernel[1, 10](np.zeros(10, np.float32), 10)
    kernel[1, 10](np.zeros(10), 10)
    return kernel


def test_overloads() -> None:
    kernel = launched()
    single, double = (float32[::1], int64), (float64[::1], int64)
    assert kernel.signatures == [single, double]
    assert [signature.return_type for signature in kernel.nopython_signatures] == [void, void]
    assert list(kernel.overloads) == [single, double]
    with pytest.raises(TypingError):
        cuda.jit(lambda r: r.nothing)[1, 1](np.zeros(1))
    kernel.disable_compile()
    kernel[1, 10](np.zeros(10), 10)
    with pytest.raises(TypeError, match=r"No matching definition for argument types \(int32\[::1\], int64\)"):
        kernel[1, 10](np.zeros(10, np.int32), 10)


def test_compiling_before_the_launch() -> None:
    kernel = cuda.jit(scale)
    overload = kernel.compile("void(float32[::1], int64)")
    assert overload.argument_types == (float32[::1], int64)
    assert repr(overload.signature) == "(float32[::1], int64) -> none"
    assert not overload.cooperative
    kernel.disable_compile()
    with pytest.raises(RuntimeError, match="may not be compiled"):
        kernel.compile("void(float64[::1], int64)")
    device = cuda.jit(device=True)(add)
    assert device.compile_device((int32, int32)).signature.return_type == int64
    assert device.compile_device((int32, float32), float32).signature.return_type == float32
    assert len(device.overloads) == 2


def test_specializing() -> None:
    kernel = cuda.jit(scale)
    one = kernel.specialize(float32[::1], int64)
    assert one.specialized
    assert one is kernel.specialize(np.zeros(3, np.float32), 1)
    assert len(kernel.specializations) == 1
    assert kernel.specialize(float64[::1], int64) is not one
    for made in (one, cuda.jit("void(float32[::1], int64)")(scale)):
        with pytest.raises(RuntimeError, match="Dispatcher already specialized"):
            made.specialize(float32[::1], int64)
    with pytest.raises(TypeError, match="wrong number of arguments"):
        kernel.specialize(float32[::1])


def test_resources() -> None:
    kernel = launched()
    single, double = kernel.signatures
    shared = kernel.get_shared_mem_per_block()
    assert (shared[single], shared[double]) == (40, 80)
    assert kernel.get_shared_mem_per_block(void(*single)) == 40
    assert kernel.get_regs_per_thread(single) > 0
    assert kernel.get_local_mem_per_thread(single) >= 0
    assert kernel.get_max_threads_per_block(single) == 1024
    only = cuda.jit("void(float32[::1], int64)", launch_bounds=128)(scale)
    assert only.get_max_threads_per_block() == 128
    assert only.get_regs_per_thread() > 0
    with pytest.raises(KeyError, match="has no overload for"):
        kernel.get_regs_per_thread((int32[::1], int64))


def test_constant_memory_is_counted() -> None:
    table = np.arange(32)

    @cuda.jit("void(int64[::1])")
    def kernel(x: Any) -> None:
        i = cuda.grid(1)
        x[i] = cuda.const.array_like(table)[i]

    assert kernel.get_const_mem_size() >= table.nbytes


def test_blocks_that_run_at_once() -> None:
    @cuda.jit("void(float32[::1])")
    def waits(x: Any) -> None:
        cuda.cg.this_grid().sync()
        x[0] = 1

    overload = waits.overloads[(float32[::1],)]
    assert overload.cooperative
    assert overload.max_cooperative_grid_blocks(256) >= 8
    assert overload.max_cooperative_grid_blocks((16, 16)) == overload.max_cooperative_grid_blocks(256)
    assert waits.max_cooperative_grid_blocks(256) == overload.max_cooperative_grid_blocks(256)


def test_texts() -> None:
    kernel = launched()
    single = kernel.signatures[0]
    assert set(kernel.inspect_asm()) == set(kernel.signatures)
    assert ".visible .entry scale_" in kernel.inspect_asm(single)
    assert "define ptx_kernel void @scale_" in kernel.inspect_llvm(single)
    assert kernel.inspect_lto_ptx(single) == kernel.inspect_asm(single)
    overload = kernel.overloads[single]
    assert ".target sm_80" in overload.inspect_asm((8, 0))
    assert overload.inspect_llvm() == kernel.inspect_llvm(single)
    assert "EXIT" in kernel.inspect_sass(single)
    text = io.StringIO()
    kernel.inspect_types(text)
    assert "scale (float32[::1], int64)" in text.getvalue()
    assert "kernel scale(" in text.getvalue()


def test_where_code_came_from() -> None:
    kernel = launched()
    stats = kernel.stats
    assert set(stats.cache_hits) | set(stats.cache_misses) == set(kernel.signatures)


def test_two_signatures_that_are_equally_good() -> None:
    kernel = cuda.jit(["(float64[::1], float32, float64)", "(float64[::1], float64, float32)"])(lambda r, x, y: None)
    with pytest.raises(
        TypeError, match=r"Ambiguous overloading for <function .*> \(float64\[::1\], float64, float64\)"
    ):
        kernel[1, 1](np.zeros(1), 1.0, 2.0)
    with pytest.raises(TypeError, match=r"No matching definition for argument types \(complex128\[::1\]"):
        kernel[1, 1](np.zeros(1, complex), 1.0, 2.0)


@pytest.mark.parametrize("types", [(int32,), (int32, int32, int32)])
def test_another_number_of_types_than_parameters(types: Any) -> None:
    found = rf"{len(types)} types for add\(x, y\)\n  expected: 2"
    for make in (
        lambda: cuda.compile(add, types, device=True),
        lambda: cuda.compile_ptx(lambda x, y: None, types),
        lambda: cuda.jit(add).compile_device(types),
        lambda: cuda.jit(add).compile(types),
    ):
        with pytest.raises(SignatureError, match="expected: 2, one for each parameter"):
            make()
    with pytest.raises(SignatureError, match=found):
        cuda.compile(add, types, device=True)
