# SPDX-License-Identifier: Apache-2.0
"""The driver does not take an image that every rule lets pass: the next one is tried, and in the end all is told."""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path
from types import FunctionType

import pytest
from cases_kit import Array, Machine, load, ship
from fake_driver import CUresult

from cudabuild.errors import DriverError, LaunchError, NoImageError
from cudabuild.runtime import driver as results
from cudabuild.runtime.module import unload_dead

KERNEL = "N = 4\ndef k(x):\n    x[0] = N\n"

#: Calls that may be the first to say so: cubins and PTX are loaded when the driver likes to.
CALLS = ["cuLibraryLoadData", "cuLibraryGetKernel", "cuKernelGetFunction", "cuKernelSetAttribute", "cuLaunchKernel"]

REFUSALS = [CUresult(code) for code in sorted(results.REFUSALS)]


@pytest.fixture
def k(tmp_path: Path) -> FunctionType:
    """A kernel with images of three targets beside it."""
    module = load(tmp_path, KERNEL, f"refused_{tmp_path.name}")
    ship(tmp_path / f"_cudabuild_{module.__name__}", [module.k], "sm_90 sm_80 compute_75")
    function: FunctionType = module.k
    return function


def refuse(*targets: str, call: str, result: CUresult) -> Callable[[str, bytes], CUresult]:
    """A driver's answers: one call fails for the code of some targets."""

    def answer(asked: str, data: bytes) -> CUresult:
        found = data.split(b" ")[4].decode().rstrip(",")
        return result if asked == call and found in targets else CUresult.CUDA_SUCCESS

    return answer


def loaded(machine: Machine) -> list[str]:
    """The targets of what runs: of the code that is loaded now."""
    return sorted(code.data.split(b" ")[4].decode().rstrip(",") for code in machine.fake.loaded.values())


def launch(machine: Machine, function: FunctionType, shared: int = 100 * 1024) -> str:
    """Launches with so much shared memory that the driver has to be asked; where the image came from."""
    kernel = machine.kernel(function)
    for _ in range(3):
        kernel[1, 32, 0, shared](Array())
    assert len(machine.fake.launches) == 3
    return kernel.image_source()


@pytest.mark.parametrize("result", REFUSALS)
@pytest.mark.parametrize("call", [call for call in CALLS if call != "cuKernelGetFunction"])
def test_a_cubin_gives_way_to_ptx(
    tmp_path: Path, k: FunctionType, call: str, result: CUresult, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine(tmp_path / "cache")
    machine.fake.answer = refuse("sm_90", call=call, result=result)
    assert launch(machine, k) == "shipped ptx compute_75"
    lines = capsys.readouterr().err.splitlines()
    assert lines == [
        f"cudabuild: k(float32[::1]): shipped cubin sm_90, 32-bit indices: the driver refuses it: {result.name} (text "
        f"of {result.name}); looking for another image"
    ]


@pytest.mark.parametrize("result", REFUSALS)
@pytest.mark.parametrize("call", CALLS)
def test_ptx_gives_way_to_a_compilation(tmp_path: Path, k: FunctionType, call: str, result: CUresult) -> None:
    machine = Machine(tmp_path / "cache", ((12, 0),))
    machine.fake.answer = refuse("compute_75", call=call, result=result)
    assert launch(machine, k) == "compiled cubin sm_120"
    assert len(machine.compiled) == 1


@pytest.mark.parametrize("result", [CUresult.CUDA_ERROR_INVALID_VALUE, CUresult.CUDA_ERROR_NOT_FOUND])
def test_code_that_is_cut_off_is_refused_when_it_is_loaded(tmp_path: Path, k: FunctionType, result: CUresult) -> None:
    machine = Machine(tmp_path / "cache")
    machine.fake.answer = refuse("sm_90", call="cuLibraryLoadData", result=result)
    assert launch(machine, k) == "shipped ptx compute_75"
    assert machine.compiled == []


def test_the_next_cubin_of_the_same_major_is_tried(tmp_path: Path, k: FunctionType) -> None:
    machine = Machine(tmp_path / "cache", ((8, 6),))
    ship(Path(k.__code__.co_filename).parent / f"_cudabuild_{k.__module__}", [k], "sm_86")
    machine.fake.answer = refuse("sm_86", call="cuLibraryLoadData", result=CUresult.CUDA_ERROR_INVALID_IMAGE)
    assert launch(machine, k) == "shipped cubin sm_80"


def test_what_is_refused_on_one_device_serves_another(tmp_path: Path, k: FunctionType) -> None:
    """Refusals are a device's: the same PTX may be newer than one GPU's compiler and serve the other."""
    machine = Machine(tmp_path / "cache", ((9, 0), (9, 0)))
    context = machine.fake._thread

    def answer(call: str, data: bytes) -> CUresult:
        bad = call == "cuLaunchKernel" and b" sm_90," in data and context.context == 101
        return CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU if bad else CUresult.CUDA_SUCCESS

    machine.fake.answer = answer
    kernel = machine.kernel(k)
    sources = []
    for turn in range(6):
        machine.fake.use_device(turn % 2)
        kernel[1, 32](Array())
        sources.append(kernel.image_source())
    assert [launch.device for launch in machine.fake.launches] == [0, 1] * 3
    assert sources[:2] == ["shipped cubin sm_90", "shipped ptx compute_75"]
    gc.collect()
    unload_dead()
    assert loaded(machine) == ["compute_75", "sm_90"]


def test_in_the_end_one_message_says_it_all(tmp_path: Path, k: FunctionType, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(tmp_path / "cache", ((12, 0),), version=12080)
    ship(Path(k.__code__.co_filename).parent / f"_cudabuild_{k.__module__}", [k], "sm_120")
    unsupported = CUresult.CUDA_ERROR_UNSUPPORTED_PTX_VERSION

    def answer(call: str, data: bytes) -> CUresult:
        if call == "cuLibraryLoadData" and b" sm_120," in data:
            return CUresult.CUDA_ERROR_INVALID_IMAGE
        return unsupported if call == "cuKernelGetFunction" else CUresult.CUDA_SUCCESS

    machine.fake.answer = answer
    with pytest.raises(NoImageError) as caught:
        machine.kernel(k)[1, 32](Array())
    name, folder = k.__module__, Path(k.__code__.co_filename).parent
    refused = "was refused by the driver: CUDA_ERROR"
    assert str(caught.value) == (
        f"no image of {name}.k for this device\n"
        "  kernel:   k(float32[::1]), 32-bit indices\n"
        "  device:   Fake 0, compute capability 12.0, driver for CUDA 12.8\n"
        f"  shipped: {folder}/_cudabuild_{name} ships sm_80, sm_90, sm_120\n"
        f"  shipped: sm_120 {refused}_INVALID_IMAGE (text of CUDA_ERROR_INVALID_IMAGE)\n"
        "  cache: holds nothing for this device\n"
        f"  ptx: compute_75 {refused}_UNSUPPORTED_PTX_VERSION (text of CUDA_ERROR_UNSUPPORTED_PTX_VERSION)\n"
        f"  compiled: compiled cubin sm_120 {refused}_INVALID_IMAGE (text of CUDA_ERROR_INVALID_IMAGE)\n"
        "  do:       one of\n"
        "            install a newer NVIDIA driver\n"
        f'            rebuild {name} with "120" in archs of [tool.cudabuild]\n'
        "            set CUDABUILD_DEVICE=cpu, to run on the CPU device"
    )
    unload_dead()
    assert machine.fake.loaded == {}
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    with pytest.raises(NoImageError, match="unset CUDABUILD_JIT, to compile on first use"):
        Machine(tmp_path / "cache", ((10, 0),)).kernel(load(tmp_path, KERNEL).k)[1, 32](Array())


def test_what_was_refused_is_not_asked_again(tmp_path: Path, k: FunctionType) -> None:
    machine = Machine(tmp_path / "cache")
    machine.fake.answer = refuse("sm_90", call="cuLibraryLoadData", result=CUresult.CUDA_ERROR_INVALID_IMAGE)
    kernel = machine.kernel(k)
    kernel[1, 32](Array())
    asked = len(machine.fake.given)
    machine.fake.fail_next = [CUresult.CUDA_ERROR_INVALID_HANDLE] * 2  # a context was destroyed: all is bound anew
    kernel[1, 32](Array())
    assert len(machine.fake.given) == asked + 1


@pytest.mark.parametrize("call", ["cuLibraryLoadData", "cuLaunchKernel"])
def test_other_faults_are_no_refusals(tmp_path: Path, k: FunctionType, call: str) -> None:
    machine = Machine(tmp_path / "cache")
    machine.fake.answer = refuse("sm_90", call=call, result=CUresult.CUDA_ERROR_ILLEGAL_ADDRESS)
    with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
        machine.kernel(k)[1, 32](Array())
    assert machine.compiled == []


def test_too_much_shared_memory_is_no_refusal(tmp_path: Path, k: FunctionType) -> None:
    machine = Machine(tmp_path / "cache")
    with pytest.raises(LaunchError, match="too much shared memory"):
        machine.kernel(k)[1, 32, 0, 300_000](Array())


def test_kernels_with_the_same_fault_are_one_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "".join(f"def k{n}(x):\n    x[0] = {n}\n" for n in range(5))
    module = load(tmp_path, text, "refused_many")
    kernels = [getattr(module, f"k{n}") for n in range(5)]
    ship(tmp_path / "_cudabuild_refused_many", kernels, "sm_90")
    for level, count in (("off", 1), ("info", 10)):  # each has images of two index widths
        monkeypatch.setenv("CUDABUILD_LOG", level)
        machine = Machine(tmp_path / f"cache-{level}")
        machine.fake.answer = refuse("sm_90", call="cuLibraryLoadData", result=CUresult.CUDA_ERROR_INVALID_IMAGE)
        capsys.readouterr()
        for kernel in kernels:
            with pytest.raises(NoImageError):
                machine.kernel(kernel)[1, 32](Array())
        lines = capsys.readouterr().err.splitlines()
        shipped = [line for line in lines if "shipped cubin sm_90" in line and "the driver refuses it" in line]
        assert len(shipped) == count
