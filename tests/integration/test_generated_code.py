# SPDX-License-Identifier: Apache-2.0
"""The PTX of every sample kernel for every target: what makes code slow is not in it."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cudabuild_sample import cases

from cudabuild import compiler, cuda
from cudabuild.definition import KernelDefinition
from cudabuild.ir.ranges import compute_ranges
from cudabuild.target import TARGETS, Target, parse_target
from cudabuild.types import format_signature, parse_signature

KERNELS = {case.kernel.__name__: case.kernel for case in cases.make_cases()}
OVERLOADS = [
    pytest.param(name, index, width, id=f"{name}-{index}-{width}")
    for name, kernel in KERNELS.items()
    for index in range(len(kernel.definition.signatures))
    for width in (32, 64)
]

PTX_TARGETS = sorted(name for name, target in TARGETS.items() if target.is_ptx)


def ptx_of(name: str, index: int, width: int, target: Target) -> str:
    definition = KERNELS[name].definition
    return compiler.dump(definition, definition.signatures[index], "ptx", target, width)


@pytest.fixture(scope="module")
def all_ptx() -> dict[tuple[str, int, int, str], str]:
    """Every overload × width × target, compiled together so that the shared work is done once."""
    found = {}
    for name, kernel in KERNELS.items():
        for index, signature in enumerate(kernel.definition.signatures):
            targets = [parse_target(target) for target in PTX_TARGETS]
            for image in compiler.compile_images(kernel.definition, signature, targets, (32, 64)):
                found[name, index, image.index_width, image.target] = bytes(image.data).decode()
    return found


@pytest.mark.parametrize(("name", "index", "width"), OVERLOADS)
@pytest.mark.parametrize("target", PTX_TARGETS)
def test_ptx(name: str, index: int, width: int, target: str, all_ptx: dict[tuple[str, int, int, str], str]) -> None:
    text = all_ptx[name, index, width, target]
    definition = KERNELS[name].definition
    signature = format_signature(definition.signatures[index])
    generic = re.findall(r"^\s*(?:ld|st|atom)\.(?!param|global|shared|local|const)\S+", text, re.MULTILINE)
    assert not generic, generic
    if "float64" not in signature:
        assert not re.findall(r"\.f64", text)
    for declaration in re.findall(r"^.*\.(?:shared|local) .*\.b8.*$", text, re.MULTILINE):
        assert ".align 16" in declaration
    assert "%" in text
    assert f".target sm_{target.removeprefix('compute_')}" in text
    if width == 32:
        assert not re.findall(r"\bmul\.lo\.s64|\bmad\.lo\.s64", text), "a 64-bit product in the 32-bit variant"


@pytest.mark.parametrize(("name", "index", "width"), OVERLOADS)
def test_no_index_is_wrapped(name: str, index: int, width: int) -> None:
    """Every index of the samples is provably not negative, so no code for counting from the end is made."""
    definition = KERNELS[name].definition
    function = compiler.lower_ir(definition, definition.signatures[index])
    ranges = compute_ranges(function, index_width=width)
    wraps = [instr for instr in function.instructions() if instr.op == "wrap"]
    assert [instr.location for instr in wraps if not ranges.nonnegative(instr.operands[0])] == []


def last_of(view):
    return view[view.size - 1]


def bytes_of(x, out):
    view = x.view(np.int8)
    out[0] = last_of(view)
    view[1:] = 0
    last = cuda.carray(x.ctypes.data, out[1], np.int16)
    out[1] = last_of(last)


def test_a_view_with_more_elements_than_fit_32_bits_is_passed_whole() -> None:
    """2³⁰ float64 are 2³³ bytes: in the 32-bit variant too, what takes them knows how many there are."""
    definition = KernelDefinition(bytes_of)
    signature = parse_signature("float64[::1], int64[::1]")
    text = compiler.dump(definition, signature, "ir")
    assert "call" not in text.split("kernel bytes_of")[1]
    optimised = compiler.dump(definition, signature, "optimised", parse_target("sm_90"), 32)
    assert "shl nuw nsw i64" in optimised
    assert not re.search(r"(?:shl|mul)[a-z ]* i32 %p1, ", optimised)
