# SPDX-License-Identifier: Apache-2.0
"""The GPU device on the fake driver: NumPy arguments, contexts, devices, failures, images and their life."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from fake_driver import CUresult, FakeDriver
from runtime_kit import SAXPY, DeviceArray, Host, floats, saxpy_body

from cudabuild.errors import DriverError, LaunchError, NoImageError
from cudabuild.image.image import LAUNCH_ABI, DeviceInfo, ImageRequest, KernelImage
from cudabuild.image.left import LeftToJit
from cudabuild.runtime import module
from cudabuild.runtime.images import find_image
from cudabuild.runtime.module import unload_dead


class TestHostArrays:
    """NumPy arguments: to the device, and back after the launch."""

    def test_in_and_back(self, host: Host) -> None:
        kernel = host.kernel(SAXPY, "a, x, y", saxpy_body)
        x, y = np.arange(5, dtype="f4"), np.ones(5, "f4")
        for _ in range(2):
            kernel[1, 32](2.0, x, y)
        assert y.tolist() == [1, 5, 9, 13, 17]
        assert host.fake.memory == {}

    def test_const_is_not_copied_back(self, host: Host) -> None:
        def scribble(x: int, n: int) -> None:
            floats(x, n)[0] = 99

        x = np.zeros(3, "f4")
        x.flags.writeable = False
        host.kernel("const float32[::1]", "x", scribble)[1, 1](x)
        assert x.tolist() == [0, 0, 0]
        assert "cuMemcpyDtoHAsync" not in host.fake.calls

    def test_read_only_needs_const(self, host: Host) -> None:
        x = np.zeros(3, "f4")
        x.flags.writeable = False
        with pytest.raises(LaunchError, match="x is a read-only array for float32"):
            host.kernel("float32[::1]", "x")[1, 1](x)

    def test_one_array_twice(self, host: Host) -> None:
        x = np.arange(4, dtype="f4")
        host.kernel(SAXPY, "a, x, y", saxpy_body)[1, 1](1.0, x, x)
        assert x.tolist() == [0, 2, 4, 6]
        assert host.launched[1] == host.launched[3]

    def test_overlapping_views(self, host: Host) -> None:
        """y[i] += x[i] with x = base[:-1] and y = base[1:] on one memory is a running sum, here as there."""
        base = np.ones(6, "f4")
        host.kernel(SAXPY, "a, x, y", saxpy_body)[1, 1](1.0, base[:-1], base[1:])
        assert base.tolist() == [1, 2, 3, 4, 5, 6]
        assert host.launched[3] - host.launched[1] == 4

    def test_overlapping_views_of_several_types_stay_aligned(self, host: Host) -> None:
        base = np.zeros(64, "u1")
        start = -base.ctypes.data % 8
        host.kernel("uint8[::1], float64[::1]", "x, y")[1, 1](
            base[start + 5 : start + 20], base[start + 8 :][:16].view("f8")
        )
        assert host.launched[2] % 8 == 0
        assert host.launched[2] - host.launched[0] == 3

    def test_gaps_are_left_alone(self, host: Host) -> None:
        """Bytes between the elements of a lone strided array are not written, whoever else writes them meanwhile."""
        base = np.zeros((4, 2), "f4")

        def body(x: int, n: int, stride: int) -> None:
            base[:, 1] = 7  # another thread at work
            memory = floats(x, n * stride // 4)
            for i in range(n):
                memory[i * stride // 4] = i

        host.kernel("float32[:]", "x", body)[1, 1](base[:, 0])
        assert base.tolist() == [[0, 7], [1, 7], [2, 7], [3, 7]]

    def test_negative_strides(self, host: Host) -> None:
        base = np.arange(4, dtype="f4")
        host.kernel("float32[:], float32[::1]", "x, y")[1, 1](base[::-1], base)
        pointer, extent, stride, other, _ = host.launched
        assert (extent, stride, pointer - other) == (4, -4, 12)

    def test_empty(self, host: Host) -> None:
        host.kernel("float32[:, ::1]", "x")[1, 1](np.zeros((0, 5), "f4"))
        assert host.launched == [0, 0, 5]
        assert host.fake.memory == {}

    def test_unaligned(self, host: Host) -> None:
        x = np.zeros(17, "u1")[1:].view("f8")

        def body(pointer: int, n: int) -> None:
            assert pointer % 8 == 0
            floats(pointer, n * 2)[3] = 1.875

        host.kernel("float64[::1]", "x", body)[1, 1](x)
        assert x.tolist() == [0.0, 1.0]

    def test_unaligned_in_fortran_order(self, host: Host) -> None:
        x = np.zeros(25, "u1")[1:].view("f4").reshape(3, 2).T
        x[...] = [[1, 2, 3], [4, 5, 6]]
        seen = []

        def body(pointer: int, rows: int, columns: int) -> None:
            assert pointer % 4 == 0
            memory = floats(pointer, rows * columns)
            seen.extend(memory)
            memory[1] = 9  # row 1, column 0

        host.kernel("float32[::1, :]", "x", body)[1, 1](x)
        assert seen == [1, 4, 2, 5, 3, 6]
        assert x.tolist() == [[1, 2, 3], [9, 5, 6]]

    def test_unaligned_and_overlapping(self, host: Host) -> None:
        base = np.zeros(17, "u1")
        with pytest.raises(LaunchError, match="an unaligned NumPy array that overlaps another argument"):
            host.kernel("float64[::1], uint8[::1]", "x, y")[1, 1](base[1:].view("f8"), base)

    def test_memory_is_freed_after_a_failure(self, host: Host) -> None:
        host.fake.fail_next = [CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
        with pytest.raises(DriverError, match="CUDA_ERROR_ILLEGAL_ADDRESS"):
            host.kernel("float32[::1]", "x")[1, 1](np.zeros(3, "f4"))
        assert host.fake.memory == {}

    def test_beside_device_arrays_and_on_a_stream(self, host: Host) -> None:
        x, y = DeviceArray(np.arange(3, dtype="f4")), np.zeros(3, "f4")
        host.kernel(SAXPY, "a, x, y", saxpy_body)[1, 1, 7](2.0, x, y)
        assert y.tolist() == [0, 2, 4]
        assert host.launched[1] == x.array.ctypes.data
        assert host.fake.launches[-1].stream == 7

    def test_inside_a_tuple(self, host: Host) -> None:
        x = np.zeros(2, "f4")
        host.kernel("Tuple(float32[::1], int32)", "t", lambda p, n, k: floats(p, n).__setitem__(1, k))[1, 1]((x, 5))
        assert x.tolist() == [0, 5]


class TestContextsAndDevices:
    def test_a_current_context_is_used(self) -> None:
        host = Host(FakeDriver(((9, 0), (8, 0))))
        host.fake.use_device(1)
        host.kernel("int32", "n")[1, 1](1)
        assert "cuDevicePrimaryCtxRetain" not in host.fake.calls
        assert host.fake.launches[-1].device == 1

    def test_without_one_the_first_devices_is_made_current(self, host: Host) -> None:
        host.kernel("int32", "n")[1, 1](1)
        assert host.fake.calls.count("cuDevicePrimaryCtxRetain") == 1

    def test_in_every_thread(self, host: Host) -> None:
        kept = host.kernel("int32", "n")[1, 1]
        for _ in range(2):
            kept(1)
        thread = threading.Thread(target=kept, args=(2,))
        thread.start()
        thread.join()
        assert [launch.parameters for launch in host.fake.launches] == [[1], [1], [2]]
        assert host.fake.calls.count("cuLibraryLoadData") == 1

    def test_two_devices_get_their_own_images(self) -> None:
        host = Host(FakeDriver(((9, 0), (8, 0))))
        kept = host.kernel("int32", "n")[1, 1]
        for n, device in enumerate((0, 1, 0, 1, 1, 0)):
            host.fake.use_device(device)
            kept(n)
            launch = host.fake.launches[-1]
            assert (launch.device, launch.parameters) == (device, [n])
        assert [request.device.cc for request in host.requests] == [(9, 0), (8, 0)]

    def test_a_lost_library_is_loaded_again(self, host: Host) -> None:
        kept = host.kernel("int32", "n")[1, 1]
        for _ in range(2):
            kept(1)
        host.fake.fail_next = [CUresult.CUDA_ERROR_INVALID_HANDLE] * 2
        kept(2)
        assert host.launched == [2]
        assert host.fake.calls.count("cuLibraryLoadData") == 2
        kept(3)
        assert host.launched == [3]

    def test_but_only_once(self, host: Host) -> None:
        host.fake.fail_next = [CUresult.CUDA_ERROR_INVALID_HANDLE] * 2
        with pytest.raises(DriverError) as caught:
            host.kernel("int32", "n")[1, 1, 99](1)
        assert str(caught.value) == (
            "launching kernel[(1, 1, 1), (1, 1, 1), 99, 0] failed: CUDA_ERROR_INVALID_HANDLE (400): "
            "text of CUDA_ERROR_INVALID_HANDLE"
        )


class TestFailures:
    @pytest.mark.parametrize("warm", [False, True])
    def test_refused_by_the_device(self, host: Host, warm: bool) -> None:
        host.attributes = {"registers": 255, "shared_bytes": 0}
        kept = host.kernel("int32", "n")[1, 1024]
        if warm:
            kept(1)
        host.fake.fail_next = [CUresult.CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES]
        with pytest.raises(LaunchError) as caught:
            kept(1)
        assert str(caught.value) == (
            "the device refuses this launch: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES\n"
            "  found:    kernel[(1, 1, 1), (1024, 1, 1)], a kernel with registers 255, shared bytes 0\n"
            "  expected: a block whose registers and shared memory fit the device\n"
            "  do:       launch fewer threads per block, or less dynamic shared memory"
        )

    @pytest.mark.parametrize("warm", [False, True])
    def test_an_earlier_kernels_error(self, host: Host, warm: bool) -> None:
        kept = host.kernel("int32", "n")[1, 1]
        if warm:
            kept(1)
        host.fake.fail_next = [CUresult.CUDA_ERROR_ILLEGAL_ADDRESS]
        with pytest.raises(DriverError) as caught:
            kept(1)
        assert (caught.value.code, caught.value.name) == (700, "CUDA_ERROR_ILLEGAL_ADDRESS")

    def test_much_dynamic_shared_memory_is_asked_for(self, host: Host) -> None:
        host.attributes = {"shared_bytes": 8 * 1024}
        kernel = host.kernel("int32", "n")
        for size in (1024, 45 * 1024, 100 * 1024):
            for _ in range(2):
                kernel[1, 1, 0, size](1)
                assert host.fake.launches[-1].shared == size
        assert list(host.fake.max_shared.values()) == [100 * 1024]

    def test_too_much_of_it(self, host: Host) -> None:
        with pytest.raises(LaunchError, match=r"too much shared memory\n  found:    300000 bytes of dynamic"):
            host.kernel("int32", "n")[1, 1, 0, 300_000](1)

    def test_a_damaged_image(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        host.fake.add_code = lambda *args: None  # type: ignore[method-assign]
        with pytest.raises(
            NoImageError, match="shipped cubin sm_90 was refused by the driver: CUDA_ERROR_INVALID_IMAGE"
        ):
            kernel[1, 1](1)


class TestLife:
    def test_images_are_unloaded_after_their_kernel(self, host: Host) -> None:
        for n in range(20):
            host.kernel("int32", "n", name=f"k{n}")[1, 1](n)
        host.requests.clear()  # each holds its kernel
        gc.collect()
        unload_dead()
        assert host.fake.loaded == {}

    def test_not_while_a_configuration_is_held(self, host: Host) -> None:
        kept = host.kernel("int32", "n")[1, 1]
        kept(1)
        gc.collect()
        unload_dead()
        kept(2)
        assert host.launched == [2]
        assert len(host.fake.loaded) == 1

    def test_not_where_it_dies(self, host: Host) -> None:
        host.kernel("int32", "n")[1, 1](1)
        host.fake.calls.clear()
        host.requests.clear()  # each holds its kernel
        gc.collect()
        assert "cuLibraryUnload" not in host.fake.calls
        host.kernel("int32", "n", name="other")[1, 1](1)
        assert host.fake.calls.count("cuLibraryUnload") == 1

    def test_a_first_launch_inside_a_capture(self, host: Host) -> None:
        """It loads all the same, nothing is unloaded meanwhile, and what the graph holds stays for ever."""
        host.kernel("int32", "n", name="dead")[1, 1](1)
        host.requests.clear()
        gc.collect()
        host.fake.captured = {77}
        host.kernel("int32", "n", name="part")[1, 1, 77](1)
        host.requests.clear()
        gc.collect()
        assert len(host.fake.loaded) == 2
        host.fake.captured = set()
        host.kernel("int32", "n", name="later")[1, 1](1)
        assert host.fake.calls.count("cuLibraryUnload") == 1
        names = [next(iter(code.symbols)) for code in host.fake.loaded.values()]
        assert names == ["part", "later"]

    def test_another_stream_is_captured(self, host: Host) -> None:
        host.kernel("int32", "n", name="dead")[1, 1](1)
        host.requests.clear()
        gc.collect()
        host.fake.captured = {77}
        host.kernel("int32", "n", name="other")[1, 1, 88](1)
        assert "cuLibraryUnload" not in host.fake.calls

    def test_thousands_of_closures_do_not_fill_the_device(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        """Their code goes though nothing collects them: Python sees small objects only."""
        monkeypatch.setattr(module._Limit, "count", module._Limit.LEAST)
        gc.collect()
        others = len(module._living)
        most = 0
        gc.disable()
        try:
            for n in range(2_000):
                host.kernel("int32", "n", name=f"k{n}")[1, 1](n)
                host.requests.clear()
                host.bodies.clear()
                host.fake._codes.clear()
                assert host.launched == [n]
                most = max(most, len(host.fake.loaded))
        finally:
            gc.enable()
        assert most <= module._Limit.LEAST + 2 * others
        assert len(host.fake.calls) >= 4_000 - most

    def test_living_modules_are_not_looked_for_at_every_load(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(module._Limit, "count", module._Limit.LEAST)
        collected = []
        monkeypatch.setattr(gc, "collect", lambda: collected.append(len(module._living)))
        kept = [host.kernel("int32", "n", name=f"k{n}") for n in range(1200)]
        for n, kernel in enumerate(kept):
            kernel[1, 1](n)
        assert len(collected) <= 4
        assert len(host.fake.loaded) == 1200

    def test_ptx_ends_with_a_nul(self, host: Host) -> None:
        seen = []

        def find(request: ImageRequest) -> KernelImage:
            image = Host.find(host, request)
            assert image is not None
            image.kind = "ptx"
            return image

        load = host.fake.cuLibraryLoadData

        def spy(data: Any, *rest: Any) -> Any:
            seen.append(bytes(data))
            return load(data, *rest)

        host.find = find  # type: ignore[method-assign]
        host.driver._api.cuLibraryLoadData = spy
        host.kernel("int32", "n")[1, 1](1)
        assert seen == [b"kernel(int32) sm_90 32\0"]


class Provider:
    def __init__(self, name: str, image: KernelImage | None) -> None:
        self.name = name
        self.image = image

    def find(self, request: ImageRequest) -> KernelImage | None:
        if self.image is None:
            request.notes.append(f"{self.name}: has none")
        return self.image


def make_image(origin: str, abi: int = LAUNCH_ABI) -> KernelImage:
    return KernelImage(
        module="m", qualname="kernel", signature="int32", fingerprint=b"", options={}, kind="cubin", target="sm_90",
        index_width=32, symbol="kernel", data=b"x", launch_abi=abi, origin=origin,
    )  # fmt: skip


class TestProviders:
    NAMES = ("shipped", "cached", "ptx", "compiled")

    def find(self, host: Host, having: str, **settings: Any) -> str:
        providers = [Provider(name, make_image(name) if name in having else None) for name in self.NAMES]
        definition = host.kernel("int32", "n").definition
        request = ImageRequest(
            definition, definition.signatures[0], DeviceInfo((9, 0), 13000, "H200"), 32, lambda: bytes(32)
        )
        return find_image(providers, request, **settings).origin

    def test_the_first_wins(self, host: Host) -> None:
        for n, name in enumerate(self.NAMES):
            assert self.find(host, " ".join(self.NAMES[n:])) == name

    @pytest.mark.parametrize(
        ("images", "jit", "found"),
        [
            ("shipped", "auto", "shipped"),
            ("ptx", "auto", "ptx"),
            ("none", "auto", "compiled"),
            ("all", "never", "shipped"),
        ],
    )
    def test_settings(self, host: Host, monkeypatch: pytest.MonkeyPatch, images: str, jit: str, found: str) -> None:
        monkeypatch.setenv("CUDABUILD_IMAGES", images)
        monkeypatch.setenv("CUDABUILD_JIT", jit)
        assert self.find(host, " ".join(self.NAMES)) == found

    def test_compiling_can_be_forbidden(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(NoImageError, match=r"compiled: not asked \(compilation is disabled for this kernel\)"):
            self.find(host, "compiled", may_compile=False)
        monkeypatch.setenv("CUDABUILD_JIT", "never")
        with pytest.raises(NoImageError, match=r"compiled: not asked \(CUDABUILD_JIT=never\)") as caught:
            self.find(host, "compiled")
        assert "unset CUDABUILD_JIT, to compile on first use" in str(caught.value)
        monkeypatch.delenv("CUDABUILD_JIT")
        monkeypatch.setenv("CUDABUILD_IMAGES", "shipped")
        with pytest.raises(NoImageError, match="unset CUDABUILD_IMAGES, to compile on first use"):
            self.find(host, "compiled")

    def test_another_launch_abi_is_a_miss(self, host: Host) -> None:
        definition = host.kernel("int32", "n").definition
        request = ImageRequest(definition, definition.signatures[0], DeviceInfo((9, 0), 13000), 32, lambda: bytes(32))
        providers = [Provider("shipped", make_image("shipped", abi=99)), Provider("compiled", make_image("compiled"))]
        assert find_image(providers, request).origin == "compiled"
        assert request.notes == [f"shipped: shipped cubin sm_90 has launch ABI 99, this version knows {LAUNCH_ABI}"]

    def test_none_has_one(self, host: Host) -> None:
        with pytest.raises(NoImageError) as caught:
            self.find(host, "")
        assert str(caught.value) == (
            "no image of m.kernel for this device\n"
            "  kernel:   kernel(int32), 32-bit indices\n"
            "  device:   H200, compute capability 9.0, driver for CUDA 13.0\n"
            "  shipped: has none\n"
            "  cached: has none\n"
            "  ptx: has none\n"
            "  compiled: has none\n"
            "  do:       one of\n"
            "            pip install 'cudabuild[jit]', to compile on first use\n"
            '            rebuild m with "90" in archs of [tool.cudabuild]\n'
            "            set CUDABUILD_DEVICE=cpu, to run on the CPU device"
        )

    def test_what_its_build_left_to_jit_is_told(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        definition = host.kernel("int32", "n").definition
        left = LeftToJit("m", "kernel", "import", "m.py", 3, "import x", "T", "imports 'x'", ["take it from here"])
        asked = []

        class Shipped(Provider):
            def find_left(self, request: ImageRequest) -> LeftToJit:
                asked.append(request)
                return left

        providers = [Shipped("shipped", None), Provider("compiled", make_image("compiled"))]

        def ask(*chosen: Provider) -> ImageRequest:
            request = ImageRequest(definition, definition.signatures[0], DeviceInfo((9, 0), 13000), 32, lambda: b"")
            find_image(chosen, request)
            return request

        assert ask(*providers).left is None  # nobody would see it: no file is read
        assert asked == []
        monkeypatch.setenv("CUDABUILD_LOG", "info")
        assert ask(*providers).left is left
        monkeypatch.delenv("CUDABUILD_LOG")
        with pytest.raises(NoImageError) as caught:
            ask(providers[0])
        told = "\n  its build left it to JIT: m.py:3: imports 'x' (needed for T)\n            import x\n"
        assert told in str(caught.value)
        assert str(caught.value).endswith("have it built into m, by one of\n              take it from here")
        assert "in archs of [tool.cudabuild]" not in str(caught.value)

    def test_disable_compile(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        host.name = "compiled"
        kernel = host.kernel("int32", "n")
        kernel[1, 1](1)
        kernel.disable_compile()
        for one in (kernel, kernel.specialize(1)):
            with pytest.raises(NoImageError, match="compilation is disabled for this kernel") as caught:
                one[1, 1](1)
            assert "call the kernel's disable_compile(False), to compile on first use" in str(caught.value)
        kernel.disable_compile(False)
        kernel[1, 1](2)
        assert host.launched == [2]

    def test_a_compiled_image_says_why(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("CUDABUILD_LOG", "info")

        def find(request: ImageRequest) -> KernelImage:
            image = Host.find(host, request)
            assert image is not None
            image.origin = "compiled"
            request.notes.append("shipped: N was 3 when built and is 4 now")
            return image

        host.find = find  # type: ignore[method-assign]
        host.kernel("int32", "n")[1, 1](1)
        line = capsys.readouterr().err
        assert line.startswith("cudabuild: kernel(int32): compiled cubin sm_90, 32-bit indices, ")
        assert line.endswith(" ms; shipped: N was 3 when built and is 4 now\n")
