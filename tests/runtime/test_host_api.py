# SPDX-License-Identifier: Apache-2.0
"""Device arrays, streams, events and devices: one program, on the GPU (a fake driver here) and on the CPU device."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
from typing import Any

import numpy as np
import pytest
from fake_driver import FakeDriver
from runtime_kit import SAXPY, Host, saxpy_body

from cudabuild import cuda, decorators, host_api
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import KernelDefinition
from cudabuild.errors import DriverError, LaunchError
from cudabuild.runtime.device_array import CpuArray, GpuArray
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.driver import use_driver
from cudabuild.runtime.mapped import MappedArray


class _Machine:
    """A device, and ``saxpy`` on it: ``gpu`` on the fake driver, ``cpu``, or ``real``: the machine's own GPU."""

    def __init__(self, kind: str) -> None:
        self.kind = "cpu" if kind == "cpu" else "gpu"
        self.is_fake = kind == "gpu"
        self.host = Host(FakeDriver(((9, 0), (8, 0))))
        if self.is_fake:
            self.device: Any = self.host.device
            self.saxpy = self.host.kernel(SAXPY, "a, x, y", saxpy_body, "saxpy")
        else:
            self.device = CpuDevice() if kind == "cpu" else decorators.current_device()

            def saxpy(a, x, y):
                i = cuda.grid(1)
                if i < x.size:
                    y[i] = a * x[i] + y[i]

            self.saxpy = Dispatcher(KernelDefinition(saxpy, SAXPY), self)

    def current_device(self) -> Any:
        return self.device

    def dump(self, *args: Any) -> str:
        raise AssertionError("nothing is inspected here")


@pytest.fixture(params=["gpu", "cpu", pytest.param("real", marks=pytest.mark.gpu)])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    made = _Machine(request.param)
    monkeypatch.setattr(host_api.choice, "current_device", made.current_device)
    yield made
    monkeypatch.undo()


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = _Machine("gpu")
    monkeypatch.setattr(host_api.choice, "current_device", made.current_device)
    return made


def test_a_program(machine: _Machine) -> None:
    x = np.arange(100, dtype=np.float32)
    stream = cuda.stream()
    d_x, d_y = cuda.to_device(x, stream), cuda.device_array_like(x)
    d_y[:] = 1
    for launch in (machine.saxpy[4, 32, stream], machine.saxpy[4, 32, stream], machine.saxpy.forall(100)):
        launch(2.0, d_x, d_y)
    stream.synchronize()
    assert stream.query()
    np.testing.assert_array_equal(d_y.copy_to_host(), 6 * x + 1)
    np.testing.assert_array_equal(x, np.arange(100))
    start, end = cuda.event(), cuda.event()
    start.record(stream)
    machine.saxpy[4, 32, stream](1.0, d_x, d_y[::-1][::-1])
    end.record(stream)
    end.synchronize()
    assert end.query()
    assert cuda.event_elapsed_time(start, end) >= 0
    with stream.auto_synchronize():
        d_x.copy_to_device(x * 2, stream)
        end.wait(stream)
    np.testing.assert_array_equal(np.asarray(d_x), 2 * x)
    cuda.synchronize()
    machine.saxpy[1, 1](1.0, x, d_y)  # NumPy and device arrays together


def test_own_arrays_have_a_generated_launcher(gpu: _Machine) -> None:
    x = cuda.to_device(np.ones(10, np.float32))
    y = cuda.to_device(np.ones(10, np.float32))
    launch = gpu.saxpy[1, 32]
    launch(1.0, x, y)
    asked = len(gpu.host.requests)
    careful = gpu.saxpy._launch

    def refuse(*args: Any) -> None:
        raise AssertionError("the careful path")

    gpu.saxpy._launch = refuse  # type: ignore[method-assign]
    launch(1.0, y, x)
    assert (gpu.host.launched, len(gpu.host.requests)) == ([1.0, y.pointer, 10, x.pointer, 10], asked)
    for wrong in (cuda.to_device(np.ones(10)), x.reshape(5, 2), x[::2]):
        with pytest.raises(AssertionError, match="the careful path"):
            launch(1.0, wrong, y)
    gpu.saxpy._launch = careful  # type: ignore[method-assign]
    with pytest.raises(LaunchError, match=r"x is an array with gaps or in Fortran order for float32\[::1\]"):
        launch(1.0, x[::2], y)


@pytest.mark.parametrize("spec", ["float32[:, :]", "float32[::1, :]", "const float32[:, ::1]"])
def test_layouts_of_generated_launchers(gpu: _Machine, spec: str) -> None:
    kernel = gpu.host.kernel(spec, "x", name="k")
    order = "F" if spec == "float32[::1, :]" else "C"
    base = cuda.device_array((4, 6), np.float32, order=order)
    arrays = [base, base[1:, ::2]] if spec == "float32[:, :]" else [base]
    for array in arrays:
        kernel[1, 1](array)
        first = gpu.host.launched
        kernel[1, 1](array)
        assert gpu.host.launched == first
        strides = list(array.strides) if spec == "float32[:, :]" else []
        assert first == [array.pointer, *array.shape, *strides]


def test_views(machine: _Machine) -> None:
    base = np.arange(60, dtype=np.int32).reshape(3, 4, 5)
    array = cuda.to_device(base)
    assert (array.shape, array.strides, array.dtype, array.ndim) == (base.shape, base.strides, base.dtype, 3)
    assert (array.size, array.nbytes, array.itemsize, len(array)) == (60, 240, 4, 3)
    for key in (1, slice(1, 3), (slice(None), 2), (Ellipsis, slice(None, None, -2)), (None, 0, Ellipsis, 1)):
        np.testing.assert_array_equal(array[key].copy_to_host(), base[key])
    assert array[1, 2, 3] == base[1, 2, 3]
    assert type(array[1, 2, 3]) is np.int32
    assert array[1, 2, 3, ...].shape == ()
    assert [int(row[0, 0]) for row in array] == [0, 20, 40]
    np.testing.assert_array_equal(array.T.copy_to_host(), base.T)
    np.testing.assert_array_equal(array.transpose((1, 0, 2)).copy_to_host(), base.transpose(1, 0, 2))
    np.testing.assert_array_equal(array.reshape(5, -1).copy_to_host(), base.reshape(5, -1))
    np.testing.assert_array_equal(array.reshape((60,)).ravel().copy_to_host(), base.ravel())
    np.testing.assert_array_equal(array.T.ravel(order="F").copy_to_host(), base.T.ravel(order="F"))
    np.testing.assert_array_equal(array.view(np.int16).copy_to_host(), base.view(np.int16))
    np.testing.assert_array_equal(array.view("f4").copy_to_host(), base.view("f4"))
    assert array.is_c_contiguous()
    assert not array.T.is_c_contiguous()
    assert array.T.is_f_contiguous()
    with pytest.raises(NotImplementedError, match="order C needs a copy"):
        array.T.reshape(60)
    np.testing.assert_array_equal(array.T.ravel(order="A").copy_to_host(), base.T.ravel(order="A"))
    for mistake in (
        lambda x: x.view(np.int64),
        lambda x: x[:, :, ::2].view(np.int16),
        lambda x: x.view("V3"),
        lambda x: x.transpose((0, 0, 1)),
        lambda x: x.transpose((0, 1, 3)),
        lambda x: x.transpose((0, 1)),
    ):
        with pytest.raises(ValueError, match=r"dtype|ax[ie]s") as numpys:
            mistake(base)
        with pytest.raises(ValueError, match=re.escape(str(numpys.value))):
            mistake(array)
    with pytest.raises(TypeError, match="without axes"):
        len(array[0, 0, 0, ...])
    with pytest.raises(TypeError, match="copy_to_host"):
        array[np.array([1, 2])]


def test_elements(machine: _Machine) -> None:
    base = np.zeros((4, 6), np.float64)
    array = cuda.to_device(base)
    sets: list[tuple[Any, Any]] = [
        ((slice(None), 2), 7),
        ((0, 1), 2.5),
        (1, np.arange(6)),
        ((slice(None, None, 2), slice(1, 4)), np.arange(3)),
        ((slice(None), slice(None, None, -1)), np.arange(24).reshape(4, 6)),
        (slice(2, 4), 0),
        (slice(0, 0), 1),
    ]
    for key, value in sets:
        base[key] = value
        array[key] = value
        np.testing.assert_array_equal(array.copy_to_host(), base)
    other = cuda.to_device(np.arange(6, dtype=np.float64))
    array[1:3] = other
    array[:, 0] = array[:, 5]
    base[1:3] = np.arange(6)
    base[:, 0] = base[:, 5]
    out = np.zeros((4, 12))[:, ::2]
    assert array.copy_to_host(out) is out
    np.testing.assert_array_equal(out, base)
    small = cuda.to_device(np.zeros(5, np.int16))
    for value in (258, -1):
        small[1:4] = value
        np.testing.assert_array_equal(small.copy_to_host(), [0, value, value, value, 0])
    array[0] = np.ones((1, 1, 6))
    assert (array[0].copy_to_host() == 1.0).all()
    for shape in ((5,), (1, 2, 3), (2, 6)):
        with pytest.raises(ValueError, match="broadcast") as numpys:
            base[0] = np.ones(shape)
        with pytest.raises(ValueError, match=re.escape(str(numpys.value))):
            array[0] = np.ones(shape)
    with pytest.raises(ValueError, match=r"could not broadcast input array from shape \(6,\) into shape \(5,\)"):
        array[0, 1:] = other
    with pytest.raises(TypeError, match="convert them in a kernel"):
        array[0, :5] = small
    with pytest.raises(TypeError, match="incompatible dtype: float64 vs"):
        array.copy_to_device(small)
    with pytest.raises(ValueError, match=r"incompatible shape: \(4, 6\) vs. \(6,\)"):
        array.copy_to_device(np.zeros(6))
    out.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        array.copy_to_host(out)
    with pytest.raises(TypeError):
        array + 1
    with pytest.raises(TypeError):
        base + array


def test_parts_and_streams_of_arrays(machine: _Machine) -> None:
    array = cuda.to_device(np.arange(7))
    parts = list(array.split(3))
    assert [part.copy_to_host().tolist() for part in parts] == [[0, 1, 2], [3, 4, 5], [6]]
    with pytest.raises(ValueError, match="only an array with one axis"):
        next(array.reshape(7, 1).split(3))
    stream = cuda.stream()
    bound = array.bind(stream)
    assert (bound.stream, bound.pointer, array.stream) == (stream, array.pointer, 0)


def test_making_arrays(machine: _Machine) -> None:
    fortran = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    assert cuda.to_device(fortran).strides == fortran.strides
    assert cuda.device_array_like(cuda.to_device(fortran)).strides == fortran.strides
    np.testing.assert_array_equal(cuda.to_device(np.arange(10)[::3]).copy_to_host(), [0, 3, 6, 9])
    np.testing.assert_array_equal(cuda.to_device([1, 2, 3]).copy_to_host(), [1, 2, 3])
    assert cuda.device_array(3).dtype == np.float64
    for shape in ([2, 3], np.array([2, 3]), (np.int64(2), 3)):
        assert cuda.device_array(shape).shape == (2, 3)
    for shape in (1.5, np.float64(2), np.array(2.0), [2.0], np.array([2.0, 3.0]), (2, "3")):
        with pytest.raises(TypeError):
            cuda.device_array(shape)
    assert cuda.device_array((2, 3), np.int8, strides=(8, 1)).strides == (8, 1)
    assert cuda.device_array((0, 3)).copy_to_host().shape == (0, 3)
    assert cuda.device_array(()).copy_to_host().shape == ()
    target = cuda.device_array(3, np.int64)
    assert cuda.to_device(np.arange(3), to=target) is target
    assert cuda.to_device(target) is target
    record = np.array([(1, 2.5)], np.dtype([("a", "i4"), ("b", "f8")], align=True))
    assert cuda.to_device(record).copy_to_host() == record
    assert cuda.is_cuda_array(target)
    assert not cuda.is_cuda_array(fortran)
    assert cuda.as_cuda_array(target) is target
    assert repr(target) == "<device array (3,) of int64>"
    with pytest.raises(ValueError, match="negative"):
        cuda.device_array(-1)
    with pytest.raises(ValueError, match="one for each axis"):
        cuda.device_array((2, 2), strides=(8,))
    with pytest.raises(TypeError, match="Python objects"):
        cuda.to_device(np.array([None]))
    with pytest.raises(TypeError, match="cuda array interface"):
        cuda.as_cuda_array(fortran)


def test_page_locked_arrays(machine: _Machine) -> None:
    pinned = cuda.pinned_array((2, 3), np.float32, order="F")
    assert type(pinned) is np.ndarray
    assert (pinned.shape, pinned.dtype, pinned.flags.f_contiguous) == ((2, 3), np.float32, True)
    assert cuda.pinned_array_like(pinned).strides == pinned.strides
    mapped = cuda.mapped_array(8, np.float32)
    mapped[:] = 1
    machine.saxpy[1, 32](1.0, mapped, mapped)
    cuda.synchronize()
    np.testing.assert_array_equal(mapped, 2)
    assert isinstance(mapped[::2], MappedArray) == (machine.kind == "gpu")
    machine.saxpy[1, 32](1.0, mapped + 1, mapped)  # what NumPy computes is an array like any other
    cuda.synchronize()
    np.testing.assert_array_equal(mapped, 5)
    assert cuda.mapped_array_like(pinned).strides == pinned.strides
    with pytest.raises(ValueError, match="no gaps"):
        cuda.pinned_array(3, strides=(16,))
    if machine.kind == "gpu":
        assert cuda.is_cuda_array(mapped)
        assert not hasattr(mapped + 1, "__cuda_array_interface__")


def test_interfaces(machine: _Machine) -> None:
    array = cuda.to_device(np.arange(6, dtype=np.int32).reshape(2, 3))
    name = "__cuda_array_interface__" if machine.kind == "gpu" else "__array_interface__"
    found = getattr(array.T, name)
    assert found["shape"] == (3, 2)
    assert found["strides"] == (4, 12)
    assert found["data"] == (array.pointer, False)
    assert (found["typestr"], found["version"]) == ("<i4", 3)
    assert isinstance(array, GpuArray if machine.kind == "gpu" else CpuArray)
    assert hasattr(array, "__cuda_array_interface__") == (machine.kind == "gpu")


def test_memory_of_other_libraries(gpu: _Machine) -> None:
    class Foreign:
        def __init__(self, array: Any, stream: Any, readonly: bool = False) -> None:
            self.array = array
            self.__cuda_array_interface__ = {
                "shape": array.shape, "strides": None, "typestr": array.dtype.str,
                "data": (array.ctypes.data, readonly), "version": 3, "stream": stream,
            }  # fmt: skip

    base = np.arange(6, dtype=np.float32)
    array = cuda.as_cuda_array(Foreign(base, 7))
    assert gpu.host.fake.calls.count("cuStreamSynchronize") == 1
    assert array.__cuda_array_interface__["stream"] == 7
    array[2] = 9
    assert base[2] == 9
    fixed = cuda.as_cuda_array(Foreign(base, None, True), sync=False)
    with pytest.raises(ValueError, match="read-only"):
        fixed[0] = 1


def test_memory_is_given_back_in_any_thread(gpu: _Machine) -> None:
    fake = gpu.host.fake
    array: Any = cuda.device_array(10)
    view: Any = array[2:]
    stream: Any = cuda.stream()
    event: Any = cuda.event()
    pinned: Any = cuda.pinned_array(4)[1:]
    assert len(fake.memory) == 4
    del array
    gc.collect()
    assert len(fake.memory) == 4
    held = [view, stream, event, pinned]
    del view, stream, event, pinned
    thread = threading.Thread(target=held.clear)  # without a context of its own
    thread.start()
    thread.join()
    gc.collect()
    assert fake.memory == {}


def test_devices(machine: _Machine) -> None:
    gpus = cuda.gpus
    count = 1 if machine.kind == "cpu" else 2 if machine.is_fake else machine.device.driver.device_count()
    assert len(gpus) == len(list(gpus)) == count
    assert cuda.list_devices() is gpus
    device = cuda.get_current_device()
    assert (device.id, device) == (0, gpus.current)
    assert device.compute_capability == (9, 0) or not machine.is_fake
    assert device.MULTIPROCESSOR_COUNT >= 1
    assert "0" in repr(gpus)
    with pytest.raises(AttributeError):
        _ = device.NO_SUCH_ATTRIBUTE
    with pytest.raises(AttributeError):
        _ = device.no_such
    context = cuda.current_context()
    assert context.device == device
    assert 0 < context.get_memory_info()[0] <= context.get_memory_info()[1]
    context.synchronize()
    context.reset()
    assert device.supports_float16
    assert device.supports_bfloat16 == (device.compute_capability >= (8, 0))
    with gpus[count - 1]:
        assert cuda.get_current_device().id == count - 1
    assert cuda.get_current_device().id == 0
    assert cuda.select_device(count - 1).device.id == count - 1
    assert cuda.current_context(0).device.id == 0
    with pytest.raises(IndexError):
        cuda.select_device(count)


def test_streams(machine: _Machine) -> None:
    stream = cuda.stream()
    assert bool(stream) == (machine.kind == "gpu")
    assert stream.__cuda_stream__() == (0, int(stream))
    assert repr(cuda.default_stream()) == "<default CUDA stream>"
    assert int(cuda.per_thread_default_stream()) == (2 if machine.kind == "gpu" else 0)
    assert int(cuda.external_stream(0x77)) == (0x77 if machine.kind == "gpu" else 0)
    event = cuda.event(timing=False)
    stream.wait(event)
    if machine.is_fake:
        machine.host.fake.busy |= {stream.handle, event.handle}
        assert not stream.query()
        assert not event.query()
        event.synchronize()
        assert event.query()
    elif machine.kind == "cpu":
        with pytest.raises(DriverError, match="never recorded"):
            event.elapsed_time(event)


def test_availability(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    use_driver(FakeDriver(()))
    try:
        assert not cuda.is_available()
        assert not cuda.detect()
        assert capsys.readouterr().out.startswith("Found no CUDA device: the NVIDIA driver finds no device")
        monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")
        monkeypatch.setattr(host_api.choice, "current_device", _Machine("cpu").current_device)
        assert cuda.is_available()
        assert cuda.detect()
        assert "id 0    cpu (" in capsys.readouterr().out
        use_driver(FakeDriver())
        monkeypatch.delenv("CUDABUILD_DEVICE")
        assert cuda.is_available()
    finally:
        use_driver()


def test_names_cost_nothing_until_used() -> None:
    code = (
        "import sys; from cudabuild import cuda; assert 'cudabuild.host_api' not in sys.modules; cuda.gpus; "
        "assert 'cudabuild.host_api' in sys.modules; assert 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    with pytest.raises(AttributeError, match=r"module 'cudabuild\.cuda' has no attribute 'no_such'"):
        _ = cuda.no_such
    assert "to_device" in dir(cuda)


@pytest.mark.parametrize("shape", [0, (0, 3), (3, 0)])
def test_empty_arrays_as_arguments(machine: _Machine, shape: Any) -> None:
    size = cuda.to_device(np.zeros(shape, np.float32)).reshape(0)
    machine.saxpy.forall(4)(2.0, size, size)
    cuda.synchronize()
