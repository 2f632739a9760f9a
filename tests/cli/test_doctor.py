# SPDX-License-Identifier: Apache-2.0
"""``doctor``: what is here, and what kernels would load."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from pathlib import Path

import pytest
from cli_kit import attempt, command, json_of, make_project
from package_kit import KERNEL, build_archives, write_files

from cudabuild.build import native
from cudabuild.cli import doctor
from cudabuild.image.archive import Archive
from cudabuild.image.image import DeviceInfo
from cudabuild.importer.loads import find_loads


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_files(tmp_path_factory.mktemp("site"), {"shipping/__init__.py": KERNEL})
    build_archives(root, "shipping/_cudabuild", "shipping", archs="sm_80 sm_90 sm_90a compute_80")
    return root


def test_what_is_here(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    facts = json_of("doctor", cwd=tmp_path, CUDABUILD_CACHE_DIR=str(cache))
    assert facts["python"]["version"] == platform.python_version()
    assert facts["python"]["executable"] == sys.executable
    versions = {package["name"]: package["version"] for package in facts["packages"]}
    assert versions["llvmlite"] == importlib.metadata.version("llvmlite")
    assert facts["tools"]["llvm"].startswith(f"{versions['llvmlite']} (LLVM ")
    linkers = [linker for linker in facts["tools"]["nvjitlink"] if not linker["error"]]
    assert linkers
    assert all(Path(linker["path"]).is_file() for linker in linkers)
    assert Path(facts["tools"]["libdevice"]).name == "libdevice.10.bc"
    assert (facts["driver"]["version"] > 0) == bool(facts["devices"])
    assert facts["devices"] or facts["driver"]["reason"]
    assert facts["cache"] == {"path": str(cache), "bytes": 0, "files": 0, "writable": True}
    assert facts["kernels"] == []
    assert facts["problems"] == []


def test_caches_that_are_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    places = {"CUDABUILD_CACHE_DIR": str(tmp_path / "file"), "CUDABUILD_SITE_CACHE": str(tmp_path / "none")}
    facts = json_of("doctor", cwd=tmp_path, **places)
    assert facts["problems"] == [
        f"the cache {tmp_path / 'file'} is not used: it is not a folder; set CUDABUILD_CACHE_DIR to a folder",
        f"the site cache {tmp_path / 'none'} is not used: there is none",
    ]
    assert not facts["cache"]["writable"]


def test_settings_and_problems(tmp_path: Path) -> None:
    root = make_project(tmp_path / "root")
    facts = json_of("doctor", cwd=root, CUDABUILD_ARCH="80", CUDABUILD_JIT="nevr", CUDABUILD_INDEX="32")
    assert {one["variable"]: one["value"] for one in facts["environment"]}["CUDABUILD_INDEX"] == "32"
    origins = {one["key"]: one["origin"] for one in facts["settings"]}
    assert origins["index"] == "the environment variable CUDABUILD_INDEX"
    assert origins["archs"].startswith("[tool.cudabuild] of ")
    first, second = facts["problems"]
    assert first == "unknown variable CUDABUILD_ARCH: did you mean CUDABUILD_ARCHS?"
    assert second.startswith("bad value of the environment variable CUDABUILD_JIT")
    told = command("build", "--out", "out", "--archs", "80", "--ptx", "none", cwd=root, CUDABUILD_ARCH="80")
    assert "cudabuild: warning: unknown variable CUDABUILD_ARCH: did you mean CUDABUILD_ARCHS?" in told
    out = command("doctor", cwd=root, CUDABUILD_INDEX="7")
    assert "1 problem\n  bad value of the environment variable CUDABUILD_INDEX\n    found:    '7'" in out


@pytest.mark.parametrize(
    ("cc", "driver", "loaded"),
    [
        ((9, 0), 13000, ("sm_90a", "cubin", (32, 64))),
        ((9, 0), 11080, ("compute_80", "ptx", (32, 64))),  # too old for these cubins
        ((8, 6), 12000, ("sm_80", "cubin", (32, 64))),
        ((8, 7), 13000, ("compute_80", "ptx", (32, 64))),  # Tegra
        ((12, 0), 13000, ("compute_80", "ptx", (32, 64))),
        ((7, 5), 13000, ("", "", ())),
    ],
)
def test_what_a_kernel_would_load(
    site: Path, cc: tuple[int, int], driver: int, loaded: tuple[str, str, tuple[int, ...]]
) -> None:
    archives = [Archive(str(path)) for path in (site / "shipping" / "_cudabuild").glob("*.cuar")]
    (load,) = find_loads(archives, DeviceInfo(cc, driver))
    assert (load.target, load.kind, load.index_widths) == loaded
    assert load.qualname == "scale"
    assert loaded[0] or len(load.reasons) == 4


def test_packages_are_asked_for_devices(site: Path, tmp_path: Path) -> None:
    package = str(site / "shipping")
    facts = json_of("doctor", package, "--device", "8.6", "--device", "sm_90", "--driver", "12.9", cwd=tmp_path)
    assert [(one["cc"], one["loads"][0]["target"]) for one in facts["kernels"]] == [("8.6", "sm_80"), ("9.0", "sm_90a")]
    out = command("doctor", package, "--device", "7.5", cwd=tmp_path, status=1)
    assert "shipping.scale(int32, float32[::1])  nothing" in out
    assert "sm_80 " in out
    for arguments, message in [
        (["--device", "nine"], "bad --device\n  found:    'nine'"),
        (["--device", "9.0", "--driver", "new"], "bad --driver\n  found:    'new'"),
    ]:
        done = attempt("doctor", package, *arguments, cwd=tmp_path)
        assert done.returncode == 1
        assert message in done.stderr


def test_a_machine_without_a_gpu_says_so(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "find_gpus", lambda: {"version": 0, "devices": [], "reason": "no NVIDIA driver"})
    facts = doctor.gather_facts([str(site / "shipping")])
    assert facts["kernels"] == []
    assert facts["problems"] == [
        f"no GPU here to load the kernels of {site / 'shipping'}: name a device, as in --device 9.0"
    ]
    assert "  driver  none: no NVIDIA driver" in doctor.format_facts(facts)


def test_devices_of_this_machine(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    devices = [{"name": "NVIDIA H200", "cc": [9, 0]}, {"name": "NVIDIA A10", "cc": [8, 6]}]
    monkeypatch.setattr(doctor, "find_gpus", lambda: {"version": 13000, "devices": devices, "reason": ""})
    facts = doctor.gather_facts([str(site / "shipping")])
    assert [(one["device"], one["loads"][0]["target"]) for one in facts["kernels"]] == [
        ("NVIDIA H200", "sm_90a"),
        ("NVIDIA A10", "sm_80"),
    ]
    lines = doctor.format_facts(facts)
    assert "  device 1  NVIDIA A10, compute capability 8.6" in lines
    assert f"kernels of {site / 'shipping'} on NVIDIA A10 (8.6)" in lines


def test_a_probe_that_dies_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "_ASK_GPUS", "import os; os.write(2, b'driver crashed\\n'); os._exit(7)")
    assert native.find_gpus()["error"] == "the process that asked ended with status 7: driver crashed"
    native.find_native_ccs.cache_clear()
    assert native.find_native_ccs() == []
    native.find_native_ccs.cache_clear()


def test_a_machine_without_tools(monkeypatch: pytest.MonkeyPatch) -> None:
    hide = "import importlib.abc\nclass Hide(importlib.abc.MetaPathFinder):\n"
    hide += "    def find_spec(self, name, path=None, target=None):\n"
    hide += "        if name.partition('.')[0] in ('llvmlite', 'cuda'): raise ModuleNotFoundError(name)\n"
    monkeypatch.setattr(native, "_START", native._START + hide + "sys.meta_path.insert(0, Hide())\n")
    tools = native.find_tools()
    assert tools["llvm"] == ""
    assert "llvmlite" in tools["llvm_error"]
    assert tools["nvjitlink"][0]["error"]
