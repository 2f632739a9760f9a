# SPDX-License-Identifier: Apache-2.0
"""Records, texts and times as arguments: read, marshalled both ways, copied to the device and back."""

from __future__ import annotations

import ctypes
from typing import Annotated, Any

import numpy as np
import pytest
from runtime_kit import DeviceArray, Host

from cudabuild import cuda, kernel
from cudabuild.errors import LaunchError
from cudabuild.runtime.arguments import read_argument
from cudabuild.runtime.device_array import GpuArray, make_array
from cudabuild.runtime.memory import HostMemory
from cudabuild.types import Array, from_dtype

FIELDS = [("a", "i4"), ("b", "f8"), ("h", "f4", 2)]
ALIGNED = np.dtype(FIELDS, align=True)
PACKED = np.dtype([("a", "i1"), ("b", "f8"), ("h", "f4", 2)])
NESTED = np.dtype([("x", "i4"), ("y", ALIGNED)])


@pytest.mark.parametrize("dtype", [ALIGNED, PACKED, NESTED], ids=["aligned", "packed", "nested"])
def test_arrays_of_records_are_read_with_their_type(dtype: np.dtype) -> None:
    kind = from_dtype(dtype)
    array = np.zeros((3, 4), dtype)
    assert read_argument(array).type == Array(kind, 2, "C")
    assert read_argument(array.view(np.recarray)).type == Array(kind, 2, "C")
    assert read_argument(array[:, ::2]).type == Array(kind, 2, "A")
    assert read_argument(array[1, 2]).type == Array(kind, 0, "C")
    assert read_argument(array.view(np.recarray)[1, 2]).type == Array(kind, 0, "C")
    described = DeviceArray(array, descr=dtype.descr)
    assert read_argument(described).type == Array(kind, 2, "C")


def test_texts_and_times_are_read_with_their_type() -> None:
    for dtype in ("S3", "U4", "M8[D]", "m8[ms]", "M8"):
        assert read_argument(np.zeros(3, dtype)).type == Array(from_dtype(dtype), 1, "C")
        assert read_argument(DeviceArray(np.zeros(3, dtype))).type == Array(from_dtype(dtype), 1, "C")
    assert read_argument(np.datetime64("2020-01-01", "D")).type == from_dtype("M8[D]")
    assert read_argument(np.timedelta64(5, "h")).type == from_dtype("m8[h]")


@pytest.mark.parametrize("value", [np.zeros(2, "O"), np.zeros(2, ">i4"), np.zeros(2, [("x", "O")]), np.str_("abc")])
def test_what_kernels_have_no_type_for_is_refused(value: Any) -> None:
    with pytest.raises(LaunchError, match="dtype"):
        read_argument(value)


@pytest.mark.parametrize(
    ("first", "other"),
    [
        (np.datetime64("2020-02-03", "D"), np.datetime64("2020-02-03", "s")),
        (np.timedelta64(3, "D"), np.timedelta64(4, "h")),
    ],
)
def test_a_time_is_passed_as_its_number(host: Host, first: Any, other: Any) -> None:
    kernel = host.kernel(from_dtype(first.dtype).name, "t")
    for value in (first, first + 1, first + 2):
        kernel[1, 1](value)
        assert host.launched == [int(value.astype("i8"))]
    with pytest.raises(LaunchError, match="no signature"):
        kernel[1, 1](other)


def test_launches_tell_records_of_one_size_apart(host: Host) -> None:
    kernel = host.kernel(None, "x")
    first = np.zeros(3, [("a", "i4"), ("b", "f4")])
    second = np.zeros(3, [("a", "f4"), ("b", "i4")])
    for _ in range(3):
        for array in (first, second):
            kernel[1, 1](DeviceArray(array, descr=array.dtype.descr))
            assert host.launched == [array.ctypes.data, 3]
    assert kernel.signatures == [(Array(from_dtype(array.dtype), 1, "C"),) for array in (first, second)]


class TestHostCopies:
    """What a kernel writes comes back, wherever a record lies in host memory."""

    @pytest.mark.parametrize("shift", [0, 1, 4])
    def test_a_record_that_lies_askew_travels_aligned(self, host: Host, shift: int) -> None:
        memory = np.zeros(3 * ALIGNED.itemsize + 16, "u1")
        start = -memory.ctypes.data % 16 + shift
        array = memory[start : start + 2 * ALIGNED.itemsize].view(ALIGNED)
        seen = []

        def body(pointer: int, n: int) -> None:
            seen.append((pointer % 8, n))
            ctypes.c_int32.from_address(pointer + ALIGNED.itemsize).value = 41

        host.kernel(None, "x", body)[1, 1](array)
        assert seen == [(0, 2)]
        assert array["a"].tolist() == [0, 41]

    def test_a_single_record_comes_back(self, host: Host) -> None:
        array = np.zeros(2, ALIGNED)
        record = array[1]

        def body(pointer: int) -> None:
            ctypes.c_double.from_address(pointer + 8).value = 2.5

        host.kernel(None, "r", body)[1, 1](record)
        assert record["b"] == array[1]["b"] == 2.5


class TestDeviceRecords:
    @pytest.fixture(autouse=True)
    def cpu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")

    def test_fields_of_a_record_on_the_device(self) -> None:
        array = cuda.to_device(np.zeros(2, NESTED))
        array[0]["y"]["a"] = 7
        array[1]["y"]["h"][1] = 2.5
        array["x"] = 3
        assert array[0]["y"]["a"] == 7
        assert array[1]["y"]["h"][1] == 2.5
        back = array.copy_to_host()
        assert back["x"].tolist() == [3, 3]
        assert back[0]["y"]["a"] == 7
        assert back[1]["y"]["h"].tolist() == [0.0, 2.5]

    def test_a_whole_record_goes_and_comes_back(self) -> None:
        host = np.zeros(2, ALIGNED)[1]
        host["b"], host["h"] = 1.5, (2, 3)
        record = cuda.to_device(host)
        assert record.shape == ()
        assert record.dtype == ALIGNED
        other = np.zeros(1, ALIGNED)[0]
        record.copy_to_host(other)
        assert other == host
        record["h"][:] = np.array([5, 6], "f4")
        assert record["h"].copy_to_host().tolist() == [5, 6]
        with pytest.raises(ValueError, match="no field 'hh'"):
            record["hh"]

    def test_kernels_take_records_on_the_device(self) -> None:
        def k(r: Any, one: Any, dates: Any) -> None:
            r[1].b = one.a + r[0].h[1]
            dates[0] = dates[0] + np.timedelta64(1, "D")

        array = np.zeros(2, ALIGNED)
        array["a"], array["h"] = 3, (1, 2)
        device = cuda.to_device(array)
        dates = cuda.to_device(np.array(["2020-01-31"], "M8[D]"))
        kernel(k)[1, 1](device, device[1], dates)
        assert device.copy_to_host()["b"].tolist() == [0, 5]
        assert dates.copy_to_host().astype(str).tolist() == ["2020-02-01"]
        assert device[1]["b"] == 5

    def test_annotations_and_templates_name_records(self) -> None:
        def k(r: Annotated[Any, KIND[::1]], one: Annotated[Any, KIND]) -> None:
            r[0].a = one.a + 1

        made = kernel(k)
        assert made.signatures == [(KIND[::1], Array(KIND, 0, "C"))]
        array = np.zeros(2, ALIGNED)
        made[1, 1](array, array[1])
        assert array["a"].tolist() == [1, 0]


KIND = from_dtype(ALIGNED)


def test_generated_launchers_know_records_of_device_arrays(host: Host) -> None:
    memory = HostMemory()
    launched = host.kernel(None, "x")
    second = np.dtype([("a", "f8"), ("b", "i4"), ("h", "f4", 2)], align=True)
    assert second.itemsize == ALIGNED.itemsize
    for _ in range(3):
        for dtype in (ALIGNED, second, np.dtype(FIELDS, align=True)):  # the last, another object
            made = make_array(memory, 4, dtype)
            array = GpuArray(memory, made, made.pointer, made.shape, made.strides, dtype)
            launched[1, 1](array)
            assert host.launched == [array.pointer, 4]
    assert launched.signatures == [(Array(from_dtype(dtype), 1, "C"),) for dtype in (ALIGNED, second)]


def test_fields_that_lie_askew_on_the_device_are_refused(host: Host) -> None:
    memory = HostMemory()
    kernel = host.kernel(None, "x")
    made = make_array(memory, 4, PACKED)
    array = GpuArray(memory, made, made.pointer, made.shape, made.strides, PACKED)
    for _ in range(2):
        kernel[1, 1](array["a"])
        assert host.launched == [array.pointer, 4, PACKED.itemsize]
        with pytest.raises(LaunchError, match="not aligned"):
            kernel[1, 1](array["b"])
    assert array["b"].__cuda_array_interface__["typestr"] == "<f8"
    outer = np.dtype([("lead", "i1"), ("inner", [("x", "f4"), ("y", "f4")])])
    made = make_array(memory, 4, outer)
    with pytest.raises(LaunchError, match="not aligned"):
        kernel[1, 1](GpuArray(memory, made, made.pointer, made.shape, made.strides, outer)["inner"])
