# SPDX-License-Identifier: Apache-2.0
"""The emitter's own text, before LLVM touches it: what is promised to LLVM, in which width, in which order."""

from __future__ import annotations

import pytest
from filechecks import filecheck
from operations import ALL_TYPES, Kernel, all_kernels, device_function, emit, optimised

from cudabuild.backend.text import float_literal, int_literal
from cudabuild.definition import Options
from cudabuild.errors import Location
from cudabuild.ir.ops import OPS
from cudabuild.ir.parser import parse_function
from cudabuild.types import float32

SAXPY = """
kernel saxpy(a: float32, x: float32[::1], y: float32[::1]) -> none
entry:
  %0: int = grid axis=0
  %1: int = dim %y axis=0
  %2: bool = cmp %0, %1 predicate=lt
  branch %2 then=b1 else=b2
b1:
  %3: float32 = load %x, %0
  %4: float32 = mul %a, %3
  %5: float32 = load %y, %0
  %6: float32 = add %4, %5
  store %y, %0, %6
  jump target=b2
b2:
  return
"""

STENCIL = """
kernel copy(x: float32[:, ::1], y: float32[:, :]) -> none
entry:
  %0: int = grid axis=1
  %1: int = grid axis=0
  %2: int = dim %x axis=0
  %3: int = dim %x axis=1
  %4: bool = cmp %0, %2 predicate=lt
  %5: bool = cmp %1, %3 predicate=lt
  %6: bool = and %4, %5
  branch %6 then=b1 else=b2
b1:
  %7: int = wrap %0, %2
  %8: float32 = load %x, %7, %1
  store %y, %0, %1, %8
  jump target=b2
b2:
  return
"""

GATHER = """
kernel gather(i: int32[::1], x: float32[::1], y: float32[::1]) -> none
entry:
  %0: int = const value=0
  %1: int32 = load %i, %0
  %2: int = cast %1
  %3: int = dim %x axis=0
  %4: int = wrap %2, %3
  %5: float32 = load %x, %4
  store %y, %0, %5
  return
"""

COUNT = """
kernel count(limit: int32, y: int32[::1]) -> none
entry:
  %0: int = const value=0
  %1: int = const value=1
  jump target=b1
b1:  ; from entry, b2
  %2: int = phi %0, %5
  %3: int = cast %limit
  %4: bool = cmp %2, %3 predicate=lt
  branch %4 then=b2 else=b3
b2:
  %5: int = add %2, %1
  jump target=b1
b3:
  %6: int32 = cast %2
  store %y, %0, %6
  return
"""


def test_saxpy_of_the_32_bit_variant() -> None:
    filecheck(
        emit(parse_function(SAXPY), 32, symbol="saxpy"),
        """
        CHECK: target triple = "nvptx64-nvidia-cuda"
        CHECK: define ptx_kernel void @saxpy(float %p0, ptr addrspace(1) %p1, i32 %p2, ptr addrspace(1) %p3, i32 %p4)
        the block size is read before the block index
        CHECK: [[N:%.*]] = call range(i32 1, 1025) i32 @llvm.nvvm.read.ptx.sreg.ntid.x()
        CHECK: [[B:%.*]] = call {{.*}} @llvm.nvvm.read.ptx.sreg.ctaid.x()
        CHECK: [[S:%.*]] = mul nsw i32 [[N]], [[B]]
        CHECK: [[T:%.*]] = call range(i32 0, 1024) i32 @llvm.nvvm.read.ptx.sreg.tid.x()
        CHECK: [[I:%.*]] = add nsw i32 [[S]], [[T]]
        CHECK: icmp slt i32 [[I]], %p4
        a 1-d index is 64 bits wide
        CHECK: [[W:%.*]] = zext nneg i32 [[I]] to i64
        CHECK: getelementptr inbounds float, ptr addrspace(1) %p1, i64 [[W]]
        CHECK: load float, ptr addrspace(1) {{.*}}, align 4
        CHECK: fmul contract float
        CHECK: fadd contract float
        CHECK-NOT: trunc
        """,
    )


def test_saxpy_of_the_64_bit_variant() -> None:
    filecheck(
        emit(parse_function(SAXPY), 64, symbol="saxpy"),
        """
        CHECK: define ptx_kernel void @saxpy(float %p0, ptr addrspace(1) %p1, i64 %p2, ptr addrspace(1) %p3, i64 %p4)
        CHECK: mul nuw nsw i64
        CHECK: add nuw nsw i64
        CHECK: icmp slt i64 {{.*}}, %p4
        CHECK-NOT: trunc
        """,
    )


def test_an_nd_offset_of_the_32_bit_variant_is_computed_in_32_bits_and_widened_once() -> None:
    text = emit(parse_function(STENCIL), 32)
    filecheck(
        text,
        """
        CHECK: define ptx_kernel void @kernel(ptr addrspace(1) %p0, i32 %p1, i32 %p2, ptr addrspace(1) %p3, i32 %p4,
        CHECK-SAME: i32 %p5, i32 %p6, i32 %p7)
        CHECK: [[R:%.*]] = mul {{.*}}nsw i32 {{.*}}, %p2
        CHECK: [[O:%.*]] = add {{.*}}nsw i32 [[R]]
        CHECK: [[W:%.*]] = sext i32 [[O]] to i64
        CHECK: getelementptr inbounds float, ptr addrspace(1) %p0, i64 [[W]]
        byte strides
        CHECK: mul nsw i32 {{.*}}, %p6
        CHECK: mul nsw i32 {{.*}}, %p7
        CHECK: getelementptr inbounds i8, ptr addrspace(1) %p3, i64
        """,
    )
    assert "select" not in text, "an index that cannot be negative is not wrapped"
    assert "mul nsw i32" not in emit(parse_function(STENCIL), 64).replace("range(i32", "")


def test_an_index_of_unknown_sign_wraps_in_32_bits() -> None:
    filecheck(
        emit(parse_function(GATHER), 32),
        """
        CHECK: [[I:%.*]] = load i32, ptr addrspace(1)
        CHECK: [[W:%.*]] = add nsw i32 [[I]], %p3
        CHECK: [[C:%.*]] = icmp slt i32 [[I]], 0
        CHECK: select i1 [[C]], i32 [[W]], i32 [[I]]
        """,
    )


@pytest.mark.parametrize("width", [32, 64])
def test_a_counter_bounded_by_an_int32_is_an_int32(width: int) -> None:
    filecheck(
        emit(parse_function(COUNT), width),
        """
        CHECK: [[K:%phi.*]] = phi i32 [ 0, {{.*}} ], [ [[NEXT:%.*]], {{.*}} ]
        CHECK: icmp slt i32 [[K]], %p0
        CHECK: [[NEXT]] = add nuw nsw i32 [[K]], 1
        """,
    )


def test_no_contraction_without_fma_and_approximations_only_under_fastmath() -> None:
    assert "contract" not in emit(parse_function(SAXPY), options=Options({"fma": False}))
    fast = emit(parse_function(SAXPY), options=Options({"fastmath": True}))
    assert "fmul nsz arcp contract afn reassoc float" in fast
    assert '"denormal-fp-math-f32"="preserve-sign,preserve-sign"' in fast
    assert "denormal" not in emit(parse_function(SAXPY))


def test_launch_bounds_are_attributes_of_the_kernel() -> None:
    text = emit(parse_function(SAXPY), options=Options({"launch_bounds": (256, 4)}))
    assert 'attributes #0 = { nounwind "nvvm.maxntid"="256" "nvvm.minctasm"="4" }' in text
    assert '"nvvm.maxntid"="128"' in emit(parse_function(SAXPY), options=Options({"launch_bounds": 128}))
    assert '"nvvm.maxnreg"="64"' in emit(parse_function(SAXPY), options=Options({"max_registers": 64}))


def test_a_shared_array_is_a_16_byte_aligned_global_of_its_space_used_directly() -> None:
    text = emit(
        parse_function(
            """
            kernel k(y: float32[::1], i: int) -> none
            entry:
              %0: float32[:, ::1]@shared = shared shape=(4,8) key='tile'
              %1: float32[:, ::1]@shared = shared shape=(4,8) key='other'
              %2: float32[:, ::1]@shared = shared shape=(4,8) key='tile'
              %3: float32 = load %0, %i, %i
              store %1, %i, %i, %3
              store %2, %i, %i, %3
              return
            """
        )
    )
    filecheck(
        text,
        """
        CHECK: @kernel_shared0 = internal addrspace(3) global [32 x float] poison, align 16
        CHECK: @kernel_shared1 = internal addrspace(3) global [32 x float] poison, align 16
        CHECK-NOT: global
        CHECK: getelementptr inbounds float, ptr addrspace(3) @kernel_shared0
        CHECK: getelementptr inbounds float, ptr addrspace(3) @kernel_shared1
        CHECK: getelementptr inbounds float, ptr addrspace(3) @kernel_shared0
        """,
    )


def test_a_device_function_is_internal_and_inlined_and_returns_its_tuple_as_one_value() -> None:
    kernel = next(f for f in all_kernels() if f.name == "calls_float32")
    filecheck(
        emit(kernel),
        """
        CHECK: define internal { float, float } @kernel_device0(float %p0, float %p1) #0 {
        CHECK: phi float
        CHECK: phi float
        CHECK: insertvalue
        CHECK: define ptx_kernel
        CHECK: call { float, float } @kernel_device0(
        CHECK: extractvalue { float, float } {{.*}}, 1
        CHECK: attributes #0 = { alwaysinline nounwind }
        """,
    )


def test_line_information_of_device_functions_in_other_files() -> None:
    """LLVM drops all of it, with a warning only, where one node is not as it should be."""
    k = Kernel("lines", float32, float32)
    for number in (-1, 1):
        callee = device_function(float32)
        callee.location = Location(f"/somewhere/else{number}.py", 10, 0, 10, 5)
        pair = k.op("call", callee.result, *k.arguments[::-number], callee=callee)  # type: ignore[arg-type]
        k.keep(k.op("item", float32, pair, index=0))
    function = k.finish()
    function.location = Location("/somewhere/kernel.py", 3, 0, 3, 9)
    function.blocks[0].instructions[-1].location = Location("/inlined/from.py", 7, 0, 7, 9)
    text = optimised(function, options=Options({"lineinfo": True}))
    for name in ("kernel.py", "else1.py", "else-1.py", "from.py"):
        assert f'DIFile(filename: "{name}", directory: "")' in text
    assert text.count("distinct !DISubprogram") == 3
    assert "/somewhere" not in text


def test_a_value_nobody_assigned_is_zero_not_poison() -> None:
    for kernel in all_kernels():
        if kernel.name.startswith("calls"):
            assert "undef" not in emit(kernel)


def test_the_hand_built_kernels_hold_every_operation() -> None:
    used = {instr.op for kernel in all_kernels() for f in (kernel, *kernel.callees) for instr in f.instructions()}
    assert used == set(OPS)
    assert {kind.name for kernel in all_kernels() for i in kernel.instructions() for kind in [i.type]} >= {
        kind.name for kind in ALL_TYPES
    }


@pytest.mark.parametrize(
    ("value", "bits", "text", "constant"),
    [(255, 8, "-1", -1), (-1, 64, "-1", -1), (1 << 63, 64, str(-(1 << 63)), -(1 << 63)), (3, 1, "true", 1)],
)
def test_integer_literals(value: int, bits: int, text: str, constant: int) -> None:
    literal = int_literal(value, bits)
    assert (literal.type, literal.text, literal.constant) == (f"i{bits}", text, constant)


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (0.1, "float", "0x3FB99999A0000000"),
        (0.1, "double", "0x3FB999999999999A"),
        (0.1, "half", "0xH2E66"),
        (1e300, "float", "0x7FF0000000000000"),
        (-1e300, "half", "0xHFC00"),
        (float("inf"), "half", "0xH7C00"),
    ],
)
def test_float_literals_are_rounded_to_their_type(value: float, type: str, text: str) -> None:
    assert float_literal(value, type).text == text


def test_an_unsigned_value_with_its_top_bit_set_is_not_promised_to_be_positive() -> None:
    text = emit(
        parse_function(
            """
            kernel k(y: uint64[::1], a: uint32, b: uint32, c: bool) -> none
            entry:
              %0: int = const value=0
              branch %c then=b1 else=b2
            b1:
              jump target=b2
            b2:  ; from entry, b1
              %1: uint32 = phi %a, %b
              %2: uint64 = cast %1
              store %y, %0, %2
              return
            """
        )
    )
    assert "zext i32 %phi" in text
