# SPDX-License-Identifier: Apache-2.0
"""nvJitLink: which one is taken, what is read from its log, and what its failures say."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from operations import make_ptx
from test_emit import SAXPY

from cudabuild.backend import cubin
from cudabuild.definition import DEFAULT_OPTIONS, Options
from cudabuild.errors import ToolError
from cudabuild.ir.parser import parse_function
from cudabuild.target import parse_target

SM_90 = parse_target("sm_90")
SM_110 = parse_target("sm_110")


@pytest.fixture
def both_installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Both majors in a made-up site-packages, with their metadata."""
    for place in ("nvjitlink/lib/libnvJitLink.so.12", "cu13/lib/libnvJitLink.so.13"):
        path = tmp_path / "nvidia" / place
        path.parent.mkdir(parents=True)
        path.touch()
    (tmp_path / "nvidia_nvjitlink_cu12-12.9.86.dist-info").mkdir()
    (tmp_path / "nvidia_nvjitlink-13.5.37.dist-info").mkdir()
    monkeypatch.setattr(cubin, "_folders", lambda: (str(tmp_path / "nvidia"),))
    cubin._installed.cache_clear()
    cubin._package_version.cache_clear()
    yield tmp_path / "nvidia"  # type: ignore[misc]
    cubin._installed.cache_clear()
    cubin._package_version.cache_clear()


def test_12_is_taken_unless_a_target_needs_13(both_installed: Path) -> None:
    assert cubin.linker_major(SM_90) == 12
    assert cubin.linker_major(SM_110) == 13
    assert cubin._installed()[12] == str(both_installed / "nvjitlink" / "lib" / "libnvJitLink.so.12")
    assert cubin._package_version(12) == "12.9.86"
    assert cubin._package_version(13) == "13.5.37"


def test_13_serves_where_12_is_not_installed(both_installed: Path) -> None:
    (both_installed / "nvjitlink" / "lib" / "libnvJitLink.so.12").unlink()
    cubin._installed.cache_clear()
    assert cubin.linker_major(SM_90) == 13


def test_one_process_holds_one_major(both_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "_version", (12, 9))
    assert cubin.find_linker(SM_90) == (12, 9)
    with pytest.raises(ToolError) as caught:
        cubin.find_linker(SM_110)
    assert str(caught.value) == (
        "sm_110 needs nvJitLink 13, and this process has loaded nvJitLink 12.9 already; one process holds one: "
        "compile sm_110 in a process of its own"
    )


def test_a_library_that_cannot_be_loaded(both_installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "_version", None)
    with pytest.raises(ToolError) as caught:
        cubin.find_linker(SM_90)
    assert str(caught.value).startswith("nvJitLink cannot be loaded: ")
    assert str(caught.value).endswith(": pip install --force-reinstall 'nvidia-nvjitlink-cu12>=12.9'")


def test_a_linker_too_old_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cubin, "_installed", dict)
    monkeypatch.setattr(cubin, "_version", (12, 4))
    with pytest.raises(ToolError) as caught:
        cubin.find_linker(SM_90)
    assert str(caught.value) == (
        "sm_90 needs nvJitLink 12.9 or newer; found 12.4: pip install 'nvidia-nvjitlink-cu12>=12.9'"
    )


@pytest.mark.parametrize(
    ("hidden", "message"),
    [
        ("nvjitlink", "pip install 'nvidia-nvjitlink-cu12>=12.9' (the extra 'cudabuild[build]')"),
        ("cuda", "pip install cuda-bindings"),
        ("llvmlite", "pip install 'llvmlite>=0.48'"),
    ],
)
def test_a_missing_tool_is_an_error_with_the_command_that_installs_it(hidden: str, message: str) -> None:
    """In a process of its own, in which the package cannot be imported, or its library not be found."""
    program = f"""
import sys
from cudabuild.backend import cubin, llvm
from cudabuild.errors import ToolError
from cudabuild.target import parse_target
if {hidden!r} == "nvjitlink":
    from cuda.bindings import nvjitlink
    def version():
        raise RuntimeError("not found")
    nvjitlink.version = version
    cubin._installed = lambda: {{}}
else:
    sys.modules[{hidden!r}] = None
try:
    cubin.toolchain(parse_target("sm_90"))
except ToolError as error:
    print(error)
"""
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=100)
    assert message in child.stdout


def test_a_cubin_comes_with_the_resources_it_uses() -> None:
    kernel = parse_function(SAXPY)
    result = cubin.link_cubin(make_ptx(kernel, "sm_90", 32), SM_90, DEFAULT_OPTIONS)
    assert result.data[:4] == b"\x7fELF"
    assert result.version >= (12, 9)
    assert 8 <= result.usage["registers"] <= 32
    assert set(result.usage) == {
        "registers", "shared_bytes", "local_bytes", "spill_store_bytes", "spill_load_bytes", "barriers",
    }  # fmt: skip
    again = cubin.link_cubin(make_ptx(kernel, "sm_90", 32), SM_90, DEFAULT_OPTIONS)
    assert again.data == result.data


def test_resources_are_read_from_the_log() -> None:
    log = (
        "ptxas info    : Compiling entry function 'k' for 'sm_90'\nptxas info    : Function properties for k\n"
        "ptxas         .     16 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads\n"
        "ptxas info    : Used 24 registers, used 1 barriers, 128 bytes smem\n"
        "info    : used 24 registers, used 1 barriers, 0 stack, 1152 bytes smem, 559 bytes cmem[0], 0 bytes lmem\n"
    )
    foreign = "ptxas info    : Function properties for f\nptxas         .     96 bytes stack frame\n"
    assert cubin._read_usage(foreign + log, "k") == {
        "registers": 24, "shared_bytes": 128, "local_bytes": 16, "spill_store_bytes": 8, "spill_load_bytes": 12,
        "barriers": 1,
    }  # fmt: skip


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_optimisation_level_links(level: int) -> None:
    options = Options({"opt": level, "max_registers": 64, "lineinfo": True})
    ptx = make_ptx(parse_function(SAXPY), "sm_90", 32, options, level=level)
    assert cubin.link_cubin(ptx, SM_90, options).usage["registers"] > 0


def test_what_nvjitlink_refuses_is_an_error_with_its_log() -> None:
    with pytest.raises(ToolError, match=r"nvJitLink .* cannot assemble broken for sm_90: .*bad input"):
        cubin.link_cubin("nothing", SM_90, DEFAULT_OPTIONS, "broken")
    ptx = make_ptx(parse_function(SAXPY), "sm_90", 32)
    with pytest.raises(ToolError, match=r"cannot assemble broken for sm_75: "):
        cubin.link_cubin(ptx, parse_target("sm_75"), DEFAULT_OPTIONS, "broken")
    with pytest.raises(ToolError, match=r"(?s)cannot assemble broken for sm_90: .*ptxas"):
        cubin.link_cubin(ptx.replace("setp", "sotp"), SM_90, DEFAULT_OPTIONS, "broken")


def test_the_toolchain_names_every_tool() -> None:
    tools = cubin.toolchain(SM_90)
    assert "LLVM 2" in tools["llvmlite"]
    assert tools["nvjitlink"].startswith("1")
    assert len(tools["libdevice"]) == 16
    assert "nvjitlink" not in cubin.toolchain(parse_target("compute_75"))
