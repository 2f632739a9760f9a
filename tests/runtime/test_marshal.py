# SPDX-License-Identifier: Apache-2.0
"""The two ways of marshalling agree, whatever the arguments; and generated launchers keep apart what runs at once."""

from __future__ import annotations

import re
import signal
import sys
import threading
import types
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from runtime_kit import DeviceArray, Host, interface

from cudabuild.errors import LaunchError
from cudabuild.runtime.arguments import read_argument
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.runtime.marshal import needs_wide
from cudabuild.types import format_signature

SCALARS = {
    "int8": st.integers(-128, 127),
    "int16": st.integers(-(2**15), 2**15 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint8": st.integers(0, 255),
    "uint16": st.integers(0, 2**16 - 1),
    "uint32": st.integers(0, 2**32 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float16": st.floats(width=16, allow_nan=False),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "complex64": st.complex_numbers(width=64, allow_nan=False),
    "complex128": st.complex_numbers(allow_nan=False),
    "bfloat16": st.floats(width=16, allow_nan=False),
    "bool": st.booleans(),
}
BRAIN = np.dtype(ml_dtypes.bfloat16)


def dtype_of(name: str) -> Any:
    return BRAIN if name == "bfloat16" else np.dtype(name)


@st.composite
def scalars(draw: st.DrawFn) -> Any:
    name = draw(st.sampled_from(sorted(SCALARS)))
    value = draw(SCALARS[name])
    if draw(st.booleans()):
        return dtype_of(name).type(value)
    return value if not isinstance(value, int) or abs(value) < 2**63 else 1


@st.composite
def arrays(draw: st.DrawFn) -> Any:
    """An array interface with any legal shape and strides; nothing is behind its pointer."""
    dtype = dtype_of(draw(st.sampled_from(sorted(SCALARS))))
    shape = tuple(draw(st.lists(st.sampled_from([0, 1, 2, 3, 1000, 2**31 - 1, 2**31, 2**33]), max_size=3)))
    order = draw(st.sampled_from(["none", "C", "F", "any"]))
    strides: tuple[int, ...] | None = None
    if order in ("C", "F"):
        steps, step = [], dtype.itemsize
        for extent in reversed(shape) if order == "C" else shape:
            steps.append(step)
            step *= extent
        strides = tuple(reversed(steps)) if order == "C" else tuple(steps)
        if any(abs(stride) >= 2**63 for stride in strides):
            strides = None
    elif order == "any":
        strides = tuple(draw(st.lists(st.integers(-(2**40), 2**40), min_size=len(shape), max_size=len(shape))))
    readonly = draw(st.booleans())
    changes = {"shape": shape, "strides": strides, "data": (draw(st.integers(0, 2**48)), readonly)}
    return DeviceArray(np.zeros(1, dtype), **changes)


ARGUMENTS = st.lists(scalars() | arrays() | st.tuples(scalars(), arrays()), max_size=4)


@settings(max_examples=150, deadline=None)
@given(ARGUMENTS, ARGUMENTS)
def test_twins(first: list[Any], second: list[Any]) -> None:
    """For a kernel without signatures: careful, generated, and after other arguments of the same Python types."""
    host = Host()
    names = ", ".join(f"a{i}" for i in range(len(first)))
    kernel = host.kernel(None, names)
    calls = [first, first]
    if len(second) == len(first):
        calls += [second, first, second, second]
    expected: dict[int, Any] = {}
    for call in calls:
        kernel[1, 1](*call)
        arguments = [read_argument(value) for value in call]
        signature = tuple(argument.type for argument in arguments)
        asked = [r for r in host.requests if r.signature == signature]
        width = 64 if needs_wide(signature, arguments) else 32
        assert width in {request.index_width for request in asked}
        found = host.fake.launches[-1]
        wanted = expected.setdefault(id(call), found.parameters)
        assert found.parameters == wanted, format_signature(signature)
    assert len(host.requests) <= 2 * 2


@pytest.mark.parametrize(
    ("spec", "argument"),
    [
        ("int", 3),
        ("float32", 1.5),
        ("float64", 3),
        ("int32", np.int32(4)),
        ("float32[::1]", DeviceArray(np.zeros(4, "f4"))),
        ("float32[::1]", DeviceArray(np.zeros(4, "f4"), strides=(4,), stream=1)),
        ("const float32[::1]", DeviceArray(np.zeros(4, "f4"), data=(16, True))),
        ("float32[:, ::1]", DeviceArray(np.zeros((4, 3), "f4"), strides=(12, 4))),
        ("float32[::1, :]", DeviceArray(np.zeros((4, 3), "f4", order="F"))),
        ("float32[:, :]", DeviceArray(np.zeros((4, 3), "f4")[::2])),
        ("float32[:, :]", DeviceArray(np.zeros((4, 3), "f4"))),
        ("uint8[::1]", DeviceArray(np.zeros(1, "u1"), shape=(2**31 + 5,))),
        ("Tuple(int, float32[::1])", (3, DeviceArray(np.zeros(4, "f4")))),
        (None, DeviceArray(np.zeros((), "f4"))),
        (None, DeviceArray(np.zeros((4, 3), "f4")[::2])),
    ],
    ids=lambda value: re.sub(r"\d{7,}", "…", str(value)),  # no addresses: names are alike in all processes
)
def test_second_launch_is_generated_code(host: Host, monkeypatch: pytest.MonkeyPatch, spec: Any, argument: Any) -> None:
    kernel = host.kernel(spec, "x")
    kernel[1, 1](argument)

    def careful(*_: Any) -> None:
        raise AssertionError("the careful path")

    monkeypatch.setattr(Dispatcher, "_launch", careful)
    kernel[1, 1](argument)
    first, second = (launch.parameters for launch in host.fake.launches)
    assert first == second


@pytest.mark.parametrize("spec", ["float32[:]", "float32[::1]"])
def test_four_entries_without_a_version_are_read_in_full(host: Host, spec: str) -> None:
    """The fourth entry may be the strides: what was launched before, and lay in order, says nothing of it."""
    seen: list[tuple[Any, ...]] = []
    kernel = host.kernel(spec, "x", lambda *values: seen.append(values))
    launch = kernel[1, 32]
    memory = np.zeros(64, np.float32)

    def without_version(array: Any, strides: Any) -> DeviceArray:
        made = DeviceArray(array)
        whole = made.__cuda_array_interface__
        made.__cuda_array_interface__ = {name: whole[name] for name in ("shape", "typestr", "data")}
        made.__cuda_array_interface__["strides"] = strides
        return made

    for _ in range(3):  # carefully, then by the generated launcher
        launch(without_version(memory[:8], None))
    spread = without_version(memory[::8], (32,))
    if spec == "float32[::1]":
        with pytest.raises(LaunchError):
            launch(spread)
        assert len(seen) == 3
    else:
        launch(spread)
        assert [values[-1] for values in seen] == [4, 4, 4, 32]


def test_block_matches_a_c_structure(host: Host) -> None:
    kernel = host.kernel("int8, float64[:, :], Tuple(bool, int, float16), uint16", "a, b, c, d")
    array = DeviceArray(np.zeros((4, 6))[::2, ::3])
    for _ in range(2):
        kernel[1, 1](-3, array, (True, 2**31 - 1, 0.5), 65535)
        assert host.launched == [-3, array.array.ctypes.data, 2, 2, 96, 24, True, 2**31 - 1, 0.5, 65535]


def test_complex_numbers_and_bfloat16s(host: Host) -> None:
    kernel = host.kernel("complex64, complex, Tuple(complex128, bfloat16), bfloat16", "a, b, c, d")
    for _ in range(2):
        kernel[1, 1](np.complex64(1 - 2j), 3, (1e300j, 1.5), BRAIN.type(-2))
        assert host.launched == [1.0, -2.0, 3.0, 0.0, 0.0, 1e300, 0x3FC0, 0xC000]
        kernel[1, 1](1e300 + 1j, 2.5j, (np.float32(4), 1 + 2**-8), 1e39)
        assert host.launched == [float("inf"), 1.0, 0.0, 2.5, 4.0, 0.0, 0x3F80, 0x7F80]
    with pytest.raises(LaunchError, match=r"a is float32\[::1\] for complex64"):
        kernel[1, 1](DeviceArray(np.zeros(1, "f4")), 0j, (0j, 0.0), 0.0)


@pytest.mark.parametrize(
    ("argument", "wanted"),
    [
        (1j, "complex"), (np.complex64(1j), "complex64"), (np.complex128(1j), "complex"), (2.5, "float32"),
        (3, "float32"), (np.float32(1), "float32"), (np.float64(1), "float32"), (True, "float32"),
        (BRAIN.type(1), "bfloat16"),
    ],
    ids=str,
)  # fmt: skip
def test_which_signature_a_number_takes(host: Host, argument: Any, wanted: str) -> None:
    kernel = host.kernel(["float32", "complex64", "complex", "bfloat16"], "x")
    for _ in range(2):
        kernel[1, 1](argument)
        assert format_signature(host.requests[-1].signature) == wanted


def test_a_complex_number_is_no_float(host: Host) -> None:
    kernel = host.kernel("float64", "x")
    with pytest.raises(LaunchError, match="x is a Python complex for float64"):
        kernel[1, 1](1j)
    with pytest.raises(LaunchError, match="x is a NumPy complex64 for float64"):
        kernel[1, 1](np.complex64(1))


def test_tuple_elements_of_another_type(host: Host) -> None:
    kernel = host.kernel(None, "t")
    for value in ((1, 2.0), (1.0, 2), (1, 2.0), (1.0, 2), (1, 2, 3)):
        kernel[1, 1](value)
        assert host.launched == list(value)
    assert [format_signature(r.signature) for r in host.requests] == [
        "Tuple(int, float)", "Tuple(float, int)", "Tuple(int, int, int)",
    ]  # fmt: skip


def test_float_beyond_float32_is_infinite(host: Host) -> None:
    kernel = host.kernel("float32, float16", "a, b")
    for _ in range(2):
        kernel[1, 1](-1e300, 1e6)
        assert host.launched == [float("-inf"), float("inf")]
        kernel[1, 1](3.4028235e38, 65504)
        assert host.launched == [np.float32(3.4028235e38), 65504.0]


def test_integer_that_does_not_fit(host: Host) -> None:
    kernel = host.kernel("uint8", "n")
    for _ in range(2):
        kernel[1, 1](255)
        with pytest.raises(LaunchError, match="n is 256 does not fit in uint8"):
            kernel[1, 1](256)


def test_numpy_scalars_convert_within_their_kind(host: Host) -> None:
    kernel = host.kernel("int16, float32, float64, int64", "a, b, c, d")
    for _ in range(2):
        kernel[1, 1](np.int64(5), np.float64(0.5), np.int8(3), np.True_)
        assert host.launched == [5, 0.5, 3.0, 1]
    with pytest.raises(LaunchError, match="a is a NumPy float32 for int16"):
        kernel[1, 1](np.float32(5), 0.5, 0.5, 1)


class TestStreams:
    def test_a_producers_stream_comes_first(self, host: Host) -> None:
        kernel = host.kernel("float32[::1]", "x")
        for stream, expected in ((None, []), (1, []), (7, ["record 7", "wait 0"])):
            array = DeviceArray(np.zeros(3, "f4"), stream=stream)
            for _ in range(2):
                host.fake.calls.clear()
                kernel[1, 1](array)
                assert [c for c in host.fake.calls if c.startswith(("record", "wait"))] == expected

    def test_unless_it_is_the_launchs_own(self, host: Host) -> None:
        kernel = host.kernel("float32[::1]", "x")
        array = DeviceArray(np.zeros(3, "f4"), stream=7)
        for _ in range(2):
            host.fake.calls.clear()
            kernel[1, 1, 7](array)
            assert [c for c in host.fake.calls if c.startswith(("record", "wait"))] == []


def fake_torch() -> Any:
    class Tensor:
        is_cuda, requires_grad, negated, device = True, False, False, "cuda:0"

        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape = array.shape
            self.dtype = getattr(module, array.dtype.name)

        def stride(self) -> tuple[int, ...]:
            return tuple(step // self.array.itemsize for step in self.array.strides)

        def data_ptr(self) -> int:
            pointer: int = self.array.ctypes.data
            return pointer

        def is_contiguous(self) -> bool:
            return bool(self.array.flags.c_contiguous)

        def is_neg(self) -> bool:
            return self.negated

    class DType:
        def __init__(self, name: str) -> None:
            self.name = name

        def __str__(self) -> str:
            return f"torch.{self.name}"

    module: Any = types.ModuleType("torch")
    module.Tensor = Tensor
    for name in ("float32", "float64", "int32", "bfloat16", "bool", "float8_e4m3fn"):
        setattr(module, name, DType(name))
    return module


class TestTorch:
    @pytest.fixture
    def torch(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        module = fake_torch()
        monkeypatch.setitem(sys.modules, "torch", module)
        return module

    def test_all_layouts(self, host: Host, torch: Any) -> None:
        kernel = host.kernel(None, "x")
        base = np.zeros((6, 8), "f4")
        for _ in range(2):
            for array in (base, base.T, base[::2, ::2], base[0]):
                kernel[1, 1](torch.Tensor(array))
                strides = list(array.strides) if array.shape == (3, 4) else []
                assert host.launched == [array.ctypes.data, *array.shape, *strides]
        assert [format_signature(s) for s in kernel.signatures] == [
            "float32[:, ::1]", "float32[::1, :]", "float32[:, :]", "float32[::1]",
        ]  # fmt: skip

    def test_what_it_cannot_take(self, host: Host, torch: Any) -> None:
        kernel = host.kernel("float32[::1]", "x")
        for _ in range(2):
            kernel[1, 1](torch.Tensor(np.zeros(3, "f4")))
        for change, message in (
            ({"is_cuda": False, "device": "cpu"}, "a torch tensor on cpu is not in GPU memory"),
            ({"requires_grad": True}, "a read-only array for float32"),
            ({"negated": True}, "a lazily negated torch tensor"),
            ({"dtype": torch.float8_e4m3fn}, "a tensor of dtype float8_e4m3fn"),
            ({"dtype": torch.float64}, "an array of float64 for float32"),
        ):
            tensor = torch.Tensor(np.zeros(3, "f4"))
            vars(tensor).update(change)
            with pytest.raises(LaunchError, match=message):
                kernel[1, 1](tensor)

    def test_a_kernel_that_only_reads_takes_gradients(self, host: Host, torch: Any) -> None:
        tensor = torch.Tensor(np.zeros(3, "f4"))
        tensor.requires_grad = True
        kernel = host.kernel("const float32[::1]", "x")
        for _ in range(2):
            kernel[1, 1](tensor)
        assert len(host.fake.launches) == 2


def fake_cupy() -> Any:
    class ndarray:
        def __init__(self, array: Any) -> None:
            self.array = array
            self.shape, self.strides, self.dtype = array.shape, array.strides, array.dtype
            self.data = types.SimpleNamespace(ptr=array.ctypes.data)
            self._c_contiguous = array.flags.c_contiguous
            self.flags = array.flags

        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return interface(self.array, stream=module.current or 1)

    module: Any = types.ModuleType("cupy")
    module.ndarray, module.dtype, module.current = ndarray, np.dtype, 0
    module.cuda = types.SimpleNamespace(get_current_stream=lambda: types.SimpleNamespace(ptr=module.current))
    return module


def test_cupy(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    cupy = fake_cupy()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    kernel = host.kernel(None, "x, y")
    base = np.zeros((6, 8), "f4")
    for _ in range(2):
        for array in (base, base.T, base[::2, ::2], base[0], base.astype("i4")):
            kernel[1, 1](cupy.ndarray(array), cupy.ndarray(base))
            strides = list(array.strides) if array.shape == (3, 4) else []
            assert host.launched == [array.ctypes.data, *array.shape, *strides, base.ctypes.data, 6, 8]
    assert len(kernel.signatures) == 5
    for _ in range(2):
        cupy.current = 9
        host.fake.calls.clear()
        kernel[1, 1](cupy.ndarray(base), cupy.ndarray(base))
        assert set(host.fake.calls) == {"record 9", "wait 0"}


class TestAtOnce:
    def test_threads(self, host: Host) -> None:
        """Threads with different arguments never mix them, and each gets a context."""
        kernel = host.kernel("int64, int64", "a, b")
        kept = kernel[1, 1]
        kept(0, 0)

        def work(number: int) -> None:
            for i in range(500):
                kept(number, number * 1000 + i % 7)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            sys.setswitchinterval(interval)
        assert len(host.fake.launches) == 2001
        assert all(launch.parameters[1] // 1000 == launch.parameters[0] for launch in host.fake.launches)

    def test_a_launch_inside_a_launch(self, host: Host) -> None:
        """Reading an argument launches the same kernel: as a finaliser or a signal handler may."""
        kernel = host.kernel("int32, float32[::1], int32", "a, x, b")
        kept = kernel[1, 1]
        plain = DeviceArray(np.zeros(3, "f4"))

        class Nosy:
            depth = 0

            @property
            def __cuda_array_interface__(self) -> dict[str, Any]:
                if self.depth < 3:
                    self.depth += 1
                    kept(10 + self.depth, plain, 20 + self.depth)
                    kept(30 + self.depth, self, 40 + self.depth)
                return interface(plain.array)

        for _ in range(3):
            Nosy.depth = 0
            kept(1, Nosy(), 2)
            assert host.launched[0] == 1
            assert host.launched[-1] == 2
        assert all(launch.parameters[3] - launch.parameters[0] in (1, 10) for launch in host.fake.launches)

    @pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timer here")
    def test_a_signal_handler_that_launches(self, host: Host) -> None:
        kernel = host.kernel("int64, int64", "a, b")
        kept = kernel[1, 1]
        kept(0, 0)
        before = signal.signal(signal.SIGALRM, lambda *_: kept(-5, -5))
        try:
            signal.setitimer(signal.ITIMER_REAL, 1e-4, 1e-4)
            for i in range(20_000):
                kept(i, i)
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        assert all(launch.parameters[0] == launch.parameters[1] for launch in host.fake.launches)
        assert any(launch.parameters[0] == -5 for launch in host.fake.launches)
