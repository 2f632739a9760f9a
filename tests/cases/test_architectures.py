# SPDX-License-Identifier: Apache-2.0
"""E. Devices and drivers that are not those that an image was made for."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import FunctionType

import pytest
from cases_kit import Array, Machine, load, ship
from package_kit import KERNEL as KERNELS
from package_kit import build_archives, run, write_files

from cudabuild.errors import NoImageError

KERNEL = "N = 4\ndef k(x):\n    x[0] = N\n"


def target_of(code: bytes) -> str:
    return code.split(b" ")[4].decode().rstrip(",")


def shipped(folder: Path, name: str, targets: str, **attributes: int) -> FunctionType:
    """A kernel and its archives beside it."""
    module = load(folder, KERNEL, name)
    ship(folder / f"_cudabuild_{name}", [module.k], targets, **attributes)
    function: FunctionType = module.k
    return function


def test_ptx_of_a_newer_version_than_the_drivers_is_left_aside(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = shipped(tmp_path, "case_ptx", "compute_75", minimum_driver=13000)
    machine = Machine(root, version=12020)
    machine.launch(k)
    assert [target_of(code) for code in machine.fake.given] == ["sm_90"]
    assert len(machine.compiled) == 1
    newer = Machine(root.with_name("empty"), version=13000)
    newer.launch(k)
    assert [target_of(code) for code in newer.fake.given] == ["compute_75"]
    monkeypatch.setenv("CUDABUILD_IMAGES", "shipped")
    with pytest.raises(NoImageError) as told:
        Machine(root, version=12020).launch(k)
    assert "compute_75 needs a driver for CUDA 13.0 or newer; this one is for CUDA 12.2" in str(told.value)


def test_a_cubin_for_a_newer_driver_gives_way_to_ptx_of_an_older_one(root: Path, tmp_path: Path) -> None:
    k = shipped(tmp_path, "case_cubin", "sm_90", minimum_driver=13000)
    ship(tmp_path / "_cudabuild_case_cubin", [k], "compute_75", minimum_driver=11000)
    machine = Machine(root, version=12080)
    machine.launch(k)
    assert [target_of(code) for code in machine.fake.given] == ["compute_75"]
    assert machine.compiled == []


def test_a_device_newer_than_all_cubins_is_served_or_told(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    k = shipped(tmp_path, "case_new", "sm_80 sm_90")
    compiled = Machine(root, ((12, 0),))
    compiled.launch(k)
    assert [target_of(code) for code in compiled.fake.given] == ["sm_120"]
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    with pytest.raises(NoImageError) as told:
        Machine(root.with_name("empty"), ((12, 0),)).launch(k)
    text = str(told.value)
    assert "ships sm_80, sm_90" in text
    assert "compute capability 12.0, driver for CUDA 13.0" in text
    assert 'rebuild case_new with "120" in archs of [tool.cudabuild]' in text
    assert "unset CUDABUILD_JIT" in text
    ship(tmp_path / "_cudabuild_case_new", [k], "compute_90")
    machine = Machine(root.with_name("empty"), ((12, 0),))
    machine.launch(k)
    assert [target_of(code) for code in machine.fake.given] == ["compute_90"]


@pytest.mark.parametrize("ccs", list(itertools.permutations([(9, 0), (8, 6), (8, 0), (12, 0)], 3)), ids=str)
def test_devices_that_take_turns_keep_their_own_code(
    root: Path, tmp_path: Path, ccs: tuple[tuple[int, int], ...]
) -> None:
    """In every order: PTX, and cubins of a lower minor, would run on the others too."""
    k = shipped(tmp_path, "case_turns", "sm_80 sm_86 sm_90 compute_75")
    machine = Machine(root, ccs)
    kernel = machine.kernel(k)
    for turn in range(12):
        machine.fake.use_device(turn % 3)
        kernel[1, 32](Array())
    best = {(9, 0): "sm_90", (8, 6): "sm_86", (8, 0): "sm_80", (12, 0): "compute_75"}
    assert machine.fake.ran == [(turn % 3, best[ccs[turn % 3]]) for turn in range(12)]
    assert len(machine.fake.given) == 3


def test_devices_that_are_alike_share_one_launcher(root: Path, tmp_path: Path) -> None:
    """A launch asks for no device there."""
    k = shipped(tmp_path, "case_alike", "sm_90")
    machine = Machine(root, ((9, 0), (9, 0)))
    kernel = machine.kernel(k)
    kernel[1, 32](Array())
    machine.fake.cuCtxGetDevice = None  # type: ignore[assignment]
    for device in (1, 0):
        machine.fake.use_device(device)
        kernel[1, 32](Array())
    assert machine.fake.ran == [(0, "sm_90"), (1, "sm_90"), (0, "sm_90")]
    assert len(machine.fake.given) == 1


def test_a_kernel_without_an_image_for_one_architecture_is_named_before_any_launch(tmp_path: Path) -> None:
    files = {
        "pkg/__init__.py": "",
        "pkg/a.py": KERNELS,
        "pkg/b.py": KERNELS.replace("scale", "shift").replace("* SCALE", "+ SCALE"),
    }
    root = write_files(tmp_path, files)
    build_archives(root, "pkg/_cudabuild", "pkg.a", "pkg.b", archs="sm_90")
    build_archives(root, "pkg/_cudabuild", "pkg.a", archs="sm_80")  # the other one was left out
    code = """
        import cudabuild
        for target in ("sm_90", "sm_86"):
            found = cudabuild.coverage("pkg", target=target)
            print(found.is_covered, *(f"{one.module}.{one.qualname}" for one in found if not one.is_covered))
        print(*{reason for one in found for reason in one.reasons[32] if "shift" in reason}, sep="\\n")
    """
    told = run(code, root, CUDABUILD_DEVICE="cpu").splitlines()
    assert told[:2] == ["True", "False pkg.b.shift"]
    assert "shipped: sm_80 holds no shift(int32, float32[::1])" in told
