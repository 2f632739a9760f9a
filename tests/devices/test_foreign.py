# SPDX-License-Identifier: Apache-2.0
"""Kernels that call device functions which others have compiled: on a GPU linked, on the CPU device refused."""

from __future__ import annotations

import os
import types as python_types
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.backend.cubin import link_cubin
from cudabuild.compiler import Compilation, Request, compile_images
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import CompilationError, LinkedCodeError, SettingError, ToolError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.fingerprint.checks import check_live
from cudabuild.frontend import build_ir
from cudabuild.linking import LinkableCode
from cudabuild.target import TARGETS
from cudabuild.types import float32, int32, parse_signature

HEAD = ".version 6.5\n.target sm_50\n.address_size 64\n"

#: ``int twice(int* result, int a)``, as nvcc would compile it: a status, and the result through a pointer.
TWICE = """
.visible .func (.param .b32 status) twice(.param .b64 result, .param .b32 a)
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [result];
    ld.param.u32 %r1, [a];
    shl.b32 %r2, %r1, 1;
    st.u32 [%rd1], %r2;
    mov.u32 %r1, 0;
    st.param.b32 [status], %r1;
    ret;
}
"""

#: ``bool add_to(float* x, float y, bool twice, signed char c)``: adds to an element, and tells whether c is negative.
ADD_TO = """
.visible .func (.param .b32 negative) add_to(.param .b64 x, .param .b32 y, .param .b32 twice, .param .b32 c)
{
    .reg .b32 %r<4>;
    .reg .f32 %f<4>;
    .reg .b64 %rd<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [x];
    ld.param.f32 %f1, [y];
    ld.param.u32 %r1, [twice];
    ld.param.s32 %r2, [c];
    ld.f32 %f2, [%rd1];
    add.f32 %f3, %f2, %f1;
    setp.ne.u32 %p1, %r1, 0;
    @%p1 add.f32 %f3, %f3, %f1;
    st.f32 [%rd1], %f3;
    shr.u32 %r3, %r2, 31;
    st.param.b32 [negative], %r3;
    ret;
}
"""

twice = cuda.declare_device("twice", "int32(int32)", link=cuda.PTXSource(HEAD + TWICE))
add_to = cuda.declare_device(
    "add_to", "bool(CPointer(float32), float32, bool, int8)", link=[cuda.PTXSource(HEAD + ADD_TO)], abi="c"
)
elsewhere = cuda.declare_device("twice", int32(int32))


def doubled(x):
    return twice(x)


def calls_by_pointer(r, out):
    i = cuda.grid(1)
    if i < r.size:
        out[i] = doubled(r[i]) + twice(i)


def calls_as_in_c(x, flags):
    i = cuda.grid(1)
    if i < x.size:
        flags[i] = add_to(cuda.from_buffer(x[i:]), 1, i % 2 == 1, i - 2)


def refused_on_the_cpu(run: Any, *arguments: Any) -> bool:
    if run.kind != "cpu":
        run(*arguments)
        return False
    with pytest.raises(CompilationError, match="a function of linked device code, on the CPU device") as caught:
        run(*arguments)
    assert "launch it on a GPU" in str(caught.value)
    return True


def test_result_through_a_pointer(run) -> None:
    r, out = np.array([5, -6, 7], np.int32), np.zeros(3, np.int32)
    if not refused_on_the_cpu(run, calls_by_pointer, "int32[::1], int32[::1]", 1, 32, r, out):
        np.testing.assert_array_equal(out, 2 * r + 2 * np.arange(3))


def test_the_abi_of_c(run) -> None:
    x, flags = np.zeros(4, np.float32), np.zeros(4, np.bool_)
    if not refused_on_the_cpu(run, calls_as_in_c, "float32[::1], bool[::1]", 1, 32, x, flags):
        assert list(x) == [1, 2, 1, 2]
        assert list(flags) == [True, True, False, False]


# without a device


def compilation(function: Any, signature: str) -> Compilation:
    return Compilation(KernelDefinition(function), parse_signature(signature))


def test_calls_in_ptx() -> None:
    work = compilation(calls_as_in_c, "float32[::1], bool[::1]")
    ptx = work.get("ptx", Request(TARGETS["sm_90"], 64))
    assert ".extern .func  (.param .b32 func_retval0) add_to" in ptx
    llvm = str(work.get("llvm", Request(TARGETS["sm_90"], 64)))
    assert "i8 signext" in llvm
    assert "i8 zeroext" in llvm
    assert "convergent" in llvm


def test_images_hold_the_linked_code_and_there_is_no_ptx() -> None:
    work = compilation(calls_by_pointer, "int32[::1], int32[::1]")
    targets = [TARGETS["sm_80"], TARGETS["compute_75"]]
    images = compile_images(work.definition, work.signature, targets, [32, 64])
    assert [(image.target, image.index_width) for image in images] == [("sm_80", 32), ("sm_80", 64)]
    assert all(b"twice" in bytes(image.data) for image in images)
    assert images[0].attributes["registers"] > 0


@cuda.jit(link=[cuda.PTXSource(HEAD + TWICE)])
def links_itself(r):
    r[0] = elsewhere(r[0])


def calls_unlinked(r):
    r[0] = elsewhere(r[0])


def test_code_that_the_decorator_links() -> None:
    ir = build_ir(links_itself.definition, parse_signature("int32[::1]"))
    assert [link.kind for link in ir.links] == ["ptx"]
    Compilation(links_itself.definition, parse_signature("int32[::1]")).get("cubin", Request(TARGETS["sm_80"], 64))
    with pytest.raises(ToolError, match="twice"):
        compilation(calls_unlinked, "int32[::1]").get("cubin", Request(TARGETS["sm_80"], 64))


def test_a_wrong_link_is_named() -> None:
    ptx = compilation(calls_unlinked, "int32[::1]").get("ptx", Request(TARGETS["sm_80"], 64))
    wrong = cuda.PTXSource("no PTX", "wrong.ptx")
    with pytest.raises(LinkedCodeError, match=r"cannot link kernel with wrong\.ptx for sm_80"):
        link_cubin(ptx, TARGETS["sm_80"], DEFAULT_OPTIONS, "kernel", [wrong])


def test_content_counts_and_the_path_does_not(tmp_path) -> None:
    digests = []
    for folder, text in (("a", TWICE), ("b", TWICE), ("c", TWICE + "\n")):
        path = tmp_path / folder / "code.ptx"
        path.parent.mkdir()
        path.write_text(HEAD + text)
        function = cuda.declare_device("twice", "int32(int32)", link=path)
        digests.append(fingerprint_with(function).digest)
    assert digests[0] == digests[1] != digests[2]
    other_types = cuda.declare_device("twice", "int64(int32)", link=tmp_path / "a" / "code.ptx")
    assert fingerprint_with(other_types).digest != digests[0]


def fingerprint_with(function: Any) -> Any:
    return compute_fingerprint(KernelDefinition(with_twice(function)), parse_signature("int32[::1]"))


def with_twice(function: Any) -> Any:
    """``calls_unlinked`` that calls ``function``."""
    names = {**calls_unlinked.__globals__, "elsewhere": function}
    return python_types.FunctionType(calls_unlinked.__code__, names, "calls_unlinked")


def test_shipped_images_bind_where_the_linked_file_is_not_shipped(tmp_path) -> None:
    path = tmp_path / "code.ptx"
    path.write_text(HEAD + TWICE)
    kernel = with_twice(cuda.declare_device("twice", "int32(int32)", link=str(path)))
    checks = compute_fingerprint(KernelDefinition(kernel), parse_signature("int32[::1]")).checks
    assert check_live(kernel, checks, by_name=False) == ""
    path.write_text(HEAD + TWICE + "\n")
    assert "elsewhere was linked function twice" in check_live(kernel, checks, by_name=True)
    os.remove(path)
    assert check_live(kernel, checks, by_name=True) == ""
    assert check_live(kernel, checks, by_name=False) != ""
    with pytest.raises(LinkedCodeError, match="code to be linked cannot be read") as caught:
        Compilation(KernelDefinition(kernel), parse_signature("int32[::1]")).get("cubin", Request(TARGETS["sm_80"], 64))
    assert str(path) in str(caught.value)


def test_decorated_links_count_in_the_fingerprint() -> None:
    fingerprint = compute_fingerprint(links_itself.definition, parse_signature("int32[::1]"))
    assert "(linked)" in dict(fingerprint.parts)
    assert check_live(links_itself.definition.function, fingerprint.checks, by_name=False) == ""


class FFI:
    """As cffi has it."""

    __module__ = "cffi.api"

    def from_buffer(self, array: Any) -> Any:
        raise TypeError("on the host")


ffi = FFI()


def points_by_cffi(x, flags):
    flags[0] = add_to(ffi.from_buffer(x), 1, True, 0)


def test_buffers_of_cffi() -> None:
    work = compilation(points_by_cffi, "float32[::1], bool[::1]")
    assert not compute_fingerprint(work.definition, work.signature).unresolved
    assert "add_to" in work.get("ptx", Request(TARGETS["sm_80"], 64))


# what is refused


def too_few(x, flags):
    flags[0] = add_to(cuda.from_buffer(x), 1)


def an_array(x, flags):
    flags[0] = add_to(x, 1, True, 1)


def too_large(x, flags):
    flags[0] = add_to(cuda.from_buffer(x), 1, True, 300)


def of_another_type(x, flags):
    flags[0] = add_to(cuda.from_buffer(flags), 1, True, 3)


takes_array = cuda.declare_device("takes_array", "int32(float32[:])")


def passes_an_array(x, flags):
    flags[0] = takes_array(x)


@pytest.mark.parametrize(
    ("kernel", "text"),
    [
        (too_few, r"add_to\(CPointer\(float32\), float32, bool, int8\), by position"),
        (an_array, r"pass a pointer to its elements: cuda\.from_buffer\(array\)"),
        (too_large, r"a number from -128 to 127, as the signature has int8"),
        (of_another_type, r"argument 1 of 'add_to' does not fit its declaration"),
        (passes_an_array, r"declare a pointer, such as CPointer\(float32\)"),
    ],
)
def test_wrong_calls(kernel: Any, text: str) -> None:
    with pytest.raises(CompilationError, match=text):
        build_ir(KernelDefinition(kernel), parse_signature("float32[::1], bool[::1]"))


def test_declarations() -> None:
    for sig in ("int32(float32[:])", int32(float32[:])):
        found = cuda.declare_device("f", sig)
        assert (found.name, found.sig.args, found.sig.return_type) == ("f", (float32[:],), int32)
    assert cuda.declare_device("f", "void(int32)").sig.return_type.name == "none"
    for wrong in ((float32[:],), "(float32[:],)", "float32"):
        with pytest.raises(TypeError, match="Return type is missing"):
            cuda.declare_device("f", wrong)
    with pytest.raises(SettingError, match="expected: 'numba' or 'c'"):
        cuda.declare_device("f", "int32()", abi="d")
    with pytest.raises(TypeError, match="kernels call it, on a GPU"):
        twice(3)


def test_kinds_of_code() -> None:
    kinds = {"a.ptx": "PTXSource", "a.CU": "CUSource", "b.o": "Object", "b.a": "Archive", "c.ltoir": "LTOIR"}
    for path, name in {**kinds, "c.fatbin": "Fatbin", "c.cubin": "Cubin"}.items():
        made = LinkableCode.from_path_or_obj(path)
        assert type(made) is getattr(cuda, name)
        assert LinkableCode.from_path_or_obj(made) is made
    for wrong, text in (("a.txt", "a file of unknown kind"), (3, "something that is no code")):
        with pytest.raises(SettingError, match=text):
            cuda.jit(link=[wrong])(calls_unlinked)
    with pytest.raises(SettingError, match="setup_callback"):
        cuda.Object(b"", setup_callback=print)


SOURCE = 'extern "C" __device__ int twice(int *result, int a) { *result = 2 * a; return 0; }'


def has_nvrtc() -> str:
    from cudabuild.backend import nvrtc

    try:
        nvrtc._load(12)
    except LinkedCodeError as error:
        return str(error)
    return ""


def test_cuda_source() -> None:
    kernel = with_twice(cuda.declare_device("twice", "int32(int32)", link=cuda.CUSource(SOURCE)))
    work = Compilation(KernelDefinition(kernel), parse_signature("int32[::1]"))
    missing = has_nvrtc()
    if missing:
        with pytest.raises(LinkedCodeError, match="needs NVRTC, which was not found") as caught:
            work.get("cubin", Request(TARGETS["sm_80"], 64))
        assert "pip install" in str(caught.value)
        return
    assert b"twice" in work.get("cubin", Request(TARGETS["sm_80"], 64)).data
    wrong = with_twice(cuda.declare_device("twice", "int32(int32)", link=cuda.CUSource("no C++", "wrong.cu")))
    with pytest.raises(LinkedCodeError, match=r"NVRTC cannot compile wrong\.cu for sm_80\n.*wrong\.cu\(1\): error"):
        Compilation(KernelDefinition(wrong), parse_signature("int32[::1]")).get("cubin", Request(TARGETS["sm_80"], 64))
