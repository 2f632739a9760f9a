# SPDX-License-Identifier: Apache-2.0
"""Every operation on every type for every target. LLVM ends the process where it cannot select: so child processes."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from filechecks import generic_accesses
from operations import all_kernels, make_ptx
from test_emit import SAXPY

from cudabuild.backend.cubin import link_cubin, linker_major
from cudabuild.backend.ptx import find_isa
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.ir.parser import parse_function
from cudabuild.target import TARGETS, parse_target

CHECKOUT = Path(__file__).resolve().parents[2]
#: PTX for compute_90 is PTX for sm_90.
NAMES = [name for name, target in TARGETS.items() if not target.is_ptx]


def run_child(names: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(Path(__file__).with_name("operations.py")), *names],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(CHECKOUT)},
        timeout=250,
    )


def test_every_operation_on_every_type_is_selected_for_every_target() -> None:
    with ThreadPoolExecutor(2) as pool:
        for names, child in zip((NAMES[::2], NAMES[1::2]), pool.map(run_child, (NAMES[::2], NAMES[1::2])), strict=True):
            last = child.stderr.splitlines()[-1:] if child.returncode else []
            assert child.returncode == 0, f"ended at {last}: {child.stderr[-2000:]}"
            assert child.stdout.split("\n")[:-1] == [f"{name} ok" for name in sort_as_made(names)]


def sort_as_made(names: list[str]) -> list[str]:
    """The child works group by group: sm_100 and up first."""
    return [n for n in names if parse_target(n).cc >= (10, 0)] + [n for n in names if parse_target(n).cc < (10, 0)]


@pytest.mark.parametrize("name", list(TARGETS))
def test_the_ptx_isa_is_that_of_the_table(name: str) -> None:
    target = parse_target(name)
    ptx = make_ptx(parse_function(SAXPY), name)
    assert find_isa(ptx) == target.ptx_isa
    assert f".target {target.processor}\n" in ptx


def test_no_access_is_generic() -> None:
    for kernel in all_kernels():
        for width in (32, 64) if kernel.name.startswith("memory") else (64,):
            ptx = make_ptx(kernel, "sm_75", width, level=1)
            assert generic_accesses(ptx) == [], f"{kernel.name}, {width} bits"
            if kernel.name.startswith("memory"):
                assert ptx.count("\t.shared .align 16 .b8") == 1
                assert ".local .align 16 .b8" in ptx
                assert ".extern .shared .align 16 .b8 kernel_dynamic[]" in ptx


def nvdisasm() -> str:
    from cuda.pathfinder import find_nvidia_binary_utility

    found = find_nvidia_binary_utility("nvdisasm")
    assert found, "nvdisasm is part of the test extra"
    return str(found)


def test_nvdisasm_accepts_a_cubin_of_every_target(tmp_path: Path) -> None:
    made = []
    kernel = parse_function(SAXPY)
    for name in NAMES:
        target = parse_target(name)
        if linker_major(target) == linker_major(parse_target("sm_90")):
            result = link_cubin(make_ptx(kernel, name, 32), target, DEFAULT_OPTIONS)
            path = tmp_path / f"{name}.cubin"
            path.write_bytes(result.data)
            made.append((name, path))
    assert len(made) >= 18
    with ThreadPoolExecutor(2) as pool:
        disassemble = lambda path: subprocess.run([nvdisasm(), "-c", str(path)], capture_output=True, text=True)  # noqa: E731
        for (name, _), done in zip(made, pool.map(disassemble, [path for _, path in made]), strict=True):
            assert done.returncode == 0, f"{name}: {done.stderr}"
            assert "EXIT" in done.stdout
            assert "FFMA" in done.stdout, "a * x + y is one fused operation"


def test_all_kernels_assemble(tmp_path: Path) -> None:
    """nvJitLink takes the PTX of every operation, exact and fast."""
    target = parse_target("sm_90")
    for kernel in all_kernels():
        if not kernel.name.startswith(("memory_u", "calls", "foreign")):  # which calls what is not there
            options = Options({"opt": 1, "fastmath": "float32" in kernel.name})
            link_cubin(make_ptx(kernel, "sm_90", 32, options, level=1), target, options, kernel.name)
