# SPDX-License-Identifier: Apache-2.0
"""The door to the driver: why there is none, errors, the choice of the device."""

from __future__ import annotations

import builtins
import ctypes
import os
import sys
from typing import Any

import pytest
from fake_driver import CUresult, FakeDriver

from cudabuild.errors import DriverError, LaunchError, LinkedCodeError
from cudabuild.image.image import DeviceInfo
from cudabuild.runtime import driver as door
from cudabuild.runtime.device import DeviceChoice
from cudabuild.runtime.driver import Driver, find_driver, open_driver, use_driver


@pytest.fixture(autouse=True)
def forget_driver() -> Any:
    use_driver()
    yield
    use_driver()


class TestNone:
    def test_no_library(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def missing(name: str) -> None:
            raise OSError(f"{name}: cannot open shared object file")

        monkeypatch.setattr(ctypes, "CDLL", missing)
        monkeypatch.setattr(sys, "platform", "linux")
        assert find_driver() == (None, "no NVIDIA driver (libcuda.so.1 cannot be loaded)")
        with pytest.raises(DriverError, match=r"^cuInit failed: no GPU \(100\): no NVIDIA driver"):
            open_driver()

    def test_no_cuda_bindings(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def fails(name: str, *args: Any) -> Any:
            if name.startswith("cuda."):
                raise ImportError("No module named 'cuda'")
            return real(name, *args)

        monkeypatch.setattr(ctypes, "CDLL", lambda name: None)
        monkeypatch.setattr(builtins, "__import__", fails)
        assert find_driver() == (
            None, "cuda-bindings cannot be imported (No module named 'cuda'): pip install cuda-bindings"
        )  # fmt: skip

    def test_no_device(self) -> None:
        use_driver(FakeDriver(()))
        assert find_driver() == (None, "the NVIDIA driver finds no device (CUDA_ERROR_NO_DEVICE)")

    def test_init_fails(self) -> None:
        fake = FakeDriver()
        fake.init_result = CUresult.CUDA_ERROR_INVALID_VALUE
        use_driver(fake)
        reason = "cuInit failed: CUDA_ERROR_INVALID_VALUE (1): text of CUDA_ERROR_INVALID_VALUE"
        assert find_driver() == (None, reason)

    def test_the_loader_of_cuda_bindings_fails(self) -> None:
        class Broken(FakeDriver):
            def cuInit(self, flags: int) -> tuple[Any, ...]:
                raise RuntimeError("Failed to dlopen libcuda.so.1\nmore")

        use_driver(Broken())
        assert find_driver() == (None, "no NVIDIA driver (Failed to dlopen libcuda.so.1)")

    def test_zero_devices(self) -> None:
        class Empty(FakeDriver):
            def cuDeviceGetCount(self) -> tuple[Any, ...]:
                return CUresult.CUDA_SUCCESS, 0

        use_driver(Empty())
        assert find_driver() == (None, "the NVIDIA driver finds no device")


class TestDriver:
    def test_device_info(self) -> None:
        info = Driver(FakeDriver(((9, 0), (12, 1)), 12090)).device_info(1)
        assert (info.cc, info.driver_version, info.name) == ((12, 1), 12090, "Fake 1")

    def test_errors_are_kept_in_full(self) -> None:
        driver = Driver(FakeDriver())
        with pytest.raises(DriverError) as caught:
            driver.load_library(b"nothing")
        error = caught.value
        assert (error.call, error.code, error.name) == ("cuLibraryLoadData", 200, "CUDA_ERROR_INVALID_IMAGE")

    def test_a_forked_child_is_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        driver = Driver(FakeDriver())
        monkeypatch.setattr(os, "getpid", lambda: -1)
        error = driver.error("cuCtxGetCurrent", CUresult.CUDA_ERROR_NOT_INITIALIZED)
        assert str(error) == (
            "cuCtxGetCurrent failed: CUDA_ERROR_NOT_INITIALIZED (3): CUDA was initialised before this process was "
            "forked, and a forked child cannot use it: start it with the 'spawn' or 'forkserver' method, or launch "
            "nothing before the fork"
        )

    def test_link_ptx(self) -> None:
        fake = FakeDriver()
        assert Driver(fake).link_ptx(b".version 7.0", "kernel") == b"linked .version 7.0"
        assert fake.calls[-1] == "cuLinkDestroy"
        foreign = [("cubin", b"\x7fELF", "f.cubin"), ("ptx", b".version 6.5", "f.ptx")]
        assert Driver(fake).link_ptx(b".version 7.0", "kernel", foreign).startswith(b"linked ")
        assert fake.calls.count("cuLinkAddData") == 4  # one before
        with pytest.raises(LinkedCodeError, match=r"the driver's linker does not take f\.ltoir"):
            Driver(fake).link_ptx(b".version 7.0", "kernel", [("ltoir", b"", "f.ltoir")])
        assert fake.calls[-1] == "cuLinkDestroy"

    def test_constants_are_the_drivers(self) -> None:
        """The numbers written in driver.py, against the enumerations of cuda.bindings where those are installed."""
        api = pytest.importorskip("cuda.bindings.driver")
        assert int(api.CUresult.CUDA_ERROR_INVALID_CONTEXT) == door.INVALID_CONTEXT
        assert int(api.CUresult.CUDA_ERROR_NO_BINARY_FOR_GPU) == door.NO_BINARY_FOR_GPU
        assert int(api.CUresult.CUDA_ERROR_INVALID_HANDLE) == door.INVALID_HANDLE
        assert int(api.CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES) == door.OUT_OF_RESOURCES
        assert int(api.CUresult.CUDA_ERROR_CONTEXT_IS_DESTROYED) == door.CONTEXT_IS_DESTROYED
        for code in door.LOAD_REFUSALS:
            assert getattr(door, api.CUresult(code).name.removeprefix("CUDA_ERROR_")) == code
        assert int(api.CUresult.CUDA_ERROR_INVALID_VALUE) == door.INVALID_VALUE
        assert int(api.CUresult.CUDA_ERROR_NOT_INITIALIZED) == door.NOT_INITIALIZED
        assert int(api.CUresult.CUDA_ERROR_NO_DEVICE) == door.NO_DEVICE
        attribute = api.CUdevice_attribute
        assert attribute(door._CC_MAJOR).name == "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR"
        assert attribute(door._CC_MINOR).name == "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"
        shared = api.CUfunction_attribute(door._ATTRIBUTE_MAX_DYNAMIC_SHARED)
        assert shared.name == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES"
        names = {"fatbin": "FATBINARY", "archive": "LIBRARY"}
        for kind, number in door._INPUTS.items():
            assert api.CUjitInputType(number).name == f"CU_JIT_INPUT_{names.get(kind, kind.upper())}"
        assert api.CUstreamCaptureMode(door._RELAXED).name == "CU_STREAM_CAPTURE_MODE_RELAXED"
        assert int(api.CUevent_flags.CU_EVENT_DISABLE_TIMING) == door._EVENT_DISABLE_TIMING


class Cpu:
    kind, name = "cpu", "cpu"
    info = DeviceInfo((0, 0), 0)

    def bind(self, definition: Any, signature: Any) -> Any:
        raise NotImplementedError


class Gpu(Cpu):
    kind, name = "gpu", "gpu"


class TestChoice:
    def choose(self) -> Any:
        return DeviceChoice(lambda driver: Gpu(), Cpu).get()

    def test_a_gpu_if_there_is_one(self, capsys: pytest.CaptureFixture[str]) -> None:
        use_driver(FakeDriver())
        assert self.choose().kind == "gpu"
        assert capsys.readouterr().err == ""

    def test_else_the_cpu_with_one_notice(self, capsys: pytest.CaptureFixture[str]) -> None:
        from cudabuild import config

        config._warned.clear()
        use_driver(FakeDriver(()))
        choice = DeviceChoice(lambda driver: Gpu(), Cpu)
        assert choice.get() is choice.get()
        assert choice.get().kind == "cpu"
        assert capsys.readouterr().err == (
            "cudabuild: the NVIDIA driver finds no device (CUDA_ERROR_NO_DEVICE): kernels run on the CPU device "
            "(CUDABUILD_DEVICE=cpu says so without this notice)\n"
        )

    def test_cpu_by_setting(self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")
        use_driver(FakeDriver())
        assert self.choose().kind == "cpu"
        assert capsys.readouterr().err == ""

    def test_gpu_by_setting(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDABUILD_DEVICE", "gpu")
        use_driver(FakeDriver(()))
        with pytest.raises(LaunchError) as caught:
            self.choose()
        assert str(caught.value) == (
            "no GPU\n  found:    the NVIDIA driver finds no device (CUDA_ERROR_NO_DEVICE)\n"
            "  expected: an NVIDIA GPU, because CUDABUILD_DEVICE=gpu\n"
            "  do:       set CUDABUILD_DEVICE=auto or cpu to run on the CPU device"
        )
