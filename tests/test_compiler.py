# SPDX-License-Identifier: Apache-2.0
"""The stage table: what each stage makes, what requests share, and the image at its end."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import pytest

from cudabuild import compiler, cuda
from cudabuild.definition import KernelDefinition, Options
from cudabuild.errors import CompilationError, ToolError
from cudabuild.ir.ir import Function
from cudabuild.target import parse_target
from cudabuild.types import parse_signature

SM_75, SM_90, SM_100 = (parse_target(name) for name in ("sm_75", "sm_90", "sm_100"))
COMPUTE_75 = parse_target("compute_75")
SIGNATURE = parse_signature("float32, float32[::1], float32[::1]")


def saxpy(a: Any, x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def distance(x: Any, y: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        y[i] = math.sqrt(x[i]) + i / 2


def a_kernel_whose_name_is_longer_than_forty_characters(x: Any) -> None:
    x[0] = 1


def scalar_only(n: Any) -> None:
    if n > 3:
        cuda.syncthreads()


def wrong(x: Any) -> None:
    x.no_such_thing[0] = 1


DEFINITION = KernelDefinition(saxpy)


def test_a_cubin_image_says_what_it_is() -> None:
    image = compiler.compile_image(DEFINITION, SIGNATURE, target=SM_90, index_width=32)
    assert bytes(image.data[:4]) == b"\x7fELF"
    assert image.symbol.encode() in bytes(image.data)
    assert (image.kind, image.target, image.index_width, image.origin) == ("cubin", "sm_90", 32, "compiled")
    assert (image.module, image.qualname) == (__name__, "saxpy")
    assert image.signature == "float32, float32[::1], float32[::1]"
    assert image.symbol == f"saxpy_{image.fingerprint.hex()[:8]}"
    assert image.options == {}
    assert image.attributes["minimum_driver"] in (12000, 13000)
    assert image.attributes["registers"] > 0
    assert image.attributes["spill_store_bytes"] == 0
    assert {"llvmlite", "libdevice", "nvjitlink"} <= set(image.toolchain)


def test_a_ptx_image_needs_the_driver_that_knows_its_isa() -> None:
    image = compiler.compile_image(DEFINITION, SIGNATURE, target=COMPUTE_75, index_width=64)
    text = bytes(image.data).decode()
    assert text.splitlines()[4:6] == [".version 7.0", ".target sm_75"]
    assert f".visible .entry {image.symbol}(" in text
    assert image.symbol.endswith("_w64")
    assert (image.kind, image.target) == ("ptx", "compute_75")
    assert image.attributes["minimum_driver"] == 11000
    assert "nvjitlink" not in image.toolchain


def test_work_that_requests_share_is_done_once() -> None:
    seen: Counter[str] = Counter()
    spent: list[float] = []

    def watch(stage: str, seconds: float) -> None:
        seen[stage] += 1
        spent.append(seconds)

    images = compiler.compile_images(DEFINITION, SIGNATURE, [SM_75, SM_90, SM_100, COMPUTE_75], [32, 64], watch=watch)
    assert [(image.target, image.index_width) for image in images] == [
        (target, width) for target in ("sm_75", "sm_90", "sm_100", "compute_75") for width in (32, 64)
    ]
    assert seen == {"ir": 1, "fingerprint": 1, "llvm": 2, "optimised": 4, "ptx": 8, "cubin": 6, "image": 8}
    assert all(seconds >= 0 for seconds in spent), "an inner stage's time is not counted twice"
    assert len({bytes(image.data) for image in images}) == 8


def test_two_compilations_give_the_same_bytes() -> None:
    first, second = (compiler.compile_images(DEFINITION, SIGNATURE, [SM_90, COMPUTE_75], [32, 64]) for _ in range(2))
    assert [bytes(image.data) for image in first] == [bytes(image.data) for image in second]
    alone = compiler.compile_image(DEFINITION, SIGNATURE, target=COMPUTE_75, index_width=64)
    assert bytes(alone.data) == bytes(first[3].data), "alone or with others, the image is the same"


def test_cubins_linked_in_threads_are_the_same() -> None:
    targets = [SM_75, SM_90, COMPUTE_75]
    plain = compiler.compile_images(DEFINITION, SIGNATURE, targets, [32, 64])
    threaded = compiler.compile_images(DEFINITION, SIGNATURE, targets, [32, 64], threads=3)
    assert [(image.target, image.index_width, bytes(image.data), image.attributes) for image in threaded] == [
        (image.target, image.index_width, bytes(image.data), image.attributes) for image in plain
    ]


def test_what_a_linker_refuses_in_a_thread_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> object:
        raise ToolError("refused")

    monkeypatch.setattr(compiler.cubin, "link_cubin", refuse)
    with pytest.raises(ToolError, match="refused"):
        compiler.compile_images(DEFINITION, SIGNATURE, [SM_75, SM_90], [32, 64], threads=3)


def test_options_reach_the_code_and_the_image() -> None:
    options = Options({"fma": False, "launch_bounds": (128, 2), "opt": 2})
    image = compiler.compile_image(DEFINITION, SIGNATURE, target=COMPUTE_75, index_width=32, options=options)
    text = bytes(image.data).decode()
    assert ".maxntid 128" in text
    assert ".minnctapersm 2" in text
    assert "fma.rn.f32" not in text
    assert image.options == {"fma": False, "launch_bounds": (128, 2), "opt": 2}
    plain = compiler.compile_image(DEFINITION, SIGNATURE, target=COMPUTE_75, index_width=32)
    assert "fma.rn.f32" in bytes(plain.data).decode()
    assert plain.fingerprint != image.fingerprint


def test_line_information_names_files_and_lines_without_folders() -> None:
    options = Options({"lineinfo": True})
    images = compiler.compile_images(DEFINITION, SIGNATURE, [COMPUTE_75, SM_90], [32], options)
    text = bytes(images[0].data).decode()
    assert '"test_compiler.py"' in text
    line = saxpy.__code__.co_firstlineno + 3
    assert re.search(rf"\.loc\s+1 {line} \d+", text)
    assert b"nv_debug_line" in bytes(images[1].data)
    plain = compiler.compile_image(DEFINITION, SIGNATURE, target=COMPUTE_75, index_width=32)
    assert ".loc" not in bytes(plain.data).decode()


def test_symbols_are_short_and_ascii() -> None:
    definition = KernelDefinition(a_kernel_whose_name_is_longer_than_forty_characters)
    work = compiler.Compilation(definition, parse_signature("float32[::1]"))
    symbol = work.symbol(64)
    assert symbol.startswith("a_kernel_whose_name_is_longer_than_forty_")
    assert len(symbol) == 40 + 1 + 8 + 4


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        ("source", "def saxpy(a: Any, x: Any, y: Any) -> None:"),
        ("hir", "function saxpy(a, x, y)"),
        ("ir", "kernel saxpy(a: float32, x: float32[::1], y: float32[::1]) -> none"),
        ("fingerprint", "(signature): float32, float32[::1], float32[::1]"),
        ("llvm", 'target triple = "nvptx64-nvidia-cuda"'),
        ("optimised", "tail call"),
        ("ptx", ".target sm_90"),
    ],
)
def test_every_stage_with_a_text_can_be_dumped(stage: str, line: str) -> None:
    text = compiler.dump(DEFINITION, SIGNATURE, stage, SM_90)
    assert line in text


def test_a_dump_that_cannot_be_says_why() -> None:
    with pytest.raises(ValueError, match=r"no text of stage 'cubin': expected function, source, .*, ptx"):
        compiler.dump(DEFINITION, SIGNATURE, "cubin", SM_90)
    for stage in ("optimised", "ptx"):
        with pytest.raises(ValueError, match=f"stage '{stage}' needs a target"):
            compiler.dump(DEFINITION, SIGNATURE, stage)
    assert "ptx_kernel" in compiler.dump(DEFINITION, SIGNATURE, "llvm")


def test_lowered_ir_has_been_through_the_passes() -> None:
    function = compiler.lower_ir(KernelDefinition(distance), parse_signature("float32[::1], float32[::1]"))
    assert isinstance(function, Function)
    assert all(instr.type.name not in ("float", "float64") for instr in function.instructions())
    ptx = compiler.dump(KernelDefinition(distance), parse_signature("float32[::1], float32[::1]"), "ptx", SM_90)
    assert "f64" not in ptx
    assert "sqrt.rn.f32" in ptx


def test_a_wrong_kernel_is_refused_before_llvm_with_its_line() -> None:
    with pytest.raises(CompilationError) as caught:
        compiler.compile_image(KernelDefinition(wrong), parse_signature("float32[::1]"), target=SM_90, index_width=32)
    assert "no_such_thing" in str(caught.value)
    assert "test_compiler.py:" in str(caught.value)


def test_the_stages_stand_in_order() -> None:
    names = [stage.name for stage in compiler.STAGES if stage.name != "fingerprint"]
    assert names == ["function", "source", "hir", "ir", "llvm", "optimised", "ptx", "cubin", "sass", "image"]


def test_a_kernel_without_arrays_compiles_for_both_widths() -> None:
    definition = KernelDefinition(scalar_only)
    images = compiler.compile_images(definition, parse_signature("int32"), [COMPUTE_75], [32, 64])
    texts = [bytes(image.data).decode().replace(image.symbol, "K") for image in images]
    assert texts[0] == texts[1]
    assert "bar.sync" in texts[0]
