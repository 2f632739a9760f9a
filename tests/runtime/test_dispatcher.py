# SPDX-License-Identifier: Apache-2.0
"""Configurations, overloads, index widths, and every message that a launch can end with."""

from __future__ import annotations

import gc
import pickle
import sys
import weakref
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from runtime_kit import SAXPY, DeviceArray, Host, OtherArray, saxpy_body

from cudabuild.definition import KernelDefinition
from cudabuild.errors import LaunchError
from cudabuild.runtime.jit_dispatcher import JitDispatcher
from cudabuild.types import float32, format_signature, int32


def device(*shape: int, dtype: str = "f4") -> DeviceArray:
    return DeviceArray(np.zeros(shape, dtype))


def arange(n: int) -> Any:
    return np.arange(n, dtype="f4")


class TestConfiguration:
    @pytest.mark.parametrize(
        ("key", "grid", "block", "shared", "stream"),
        [
            ((4, 64), (4, 1, 1), (64, 1, 1), 0, 0),
            (((4,), (8, 8)), (4, 1, 1), (8, 8, 1), 0, 0),
            (((4, 5, 6), (8, 2, 4), 0, 100), (4, 5, 6), (8, 2, 4), 100, 0),
            (([4, 5], [8]), (4, 5, 1), (8, 1, 1), 0, 0),
            ((np.int32(4), np.int64(64), 77), (4, 1, 1), (64, 1, 1), 0, 77),
            ((4, 64, None), (4, 1, 1), (64, 1, 1), 0, 0),
        ],
    )
    def test_is_what_the_driver_gets(
        self, host: Host, key: Any, grid: Any, block: Any, shared: int, stream: int
    ) -> None:
        host.kernel("int32", "n")[key](1)
        launch = host.fake.launches[-1]
        assert (launch.grid, launch.block, launch.shared, launch.stream) == (grid, block, shared, stream)

    def test_is_kept(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        assert kernel[4, 64] is kernel[4, 64]
        assert kernel[(4, 1), 64, 0] is kernel[4, 64]

    def test_of_a_stream_object_is_not_kept(self, host: Host) -> None:
        class Stream:
            cuda_stream = 5

        stream = Stream()
        kernel = host.kernel("int32", "n")
        kernel[1, 1, stream](1)
        assert host.fake.launches[-1].stream == 5
        alive = weakref.ref(stream)
        del stream
        gc.collect()
        assert alive() is None

    def test_of_a_stream_object_keeps_it_while_it_is_held(self, host: Host) -> None:
        class Stream:
            ptr = 6

        stream = Stream()
        kept = host.kernel("int32", "n")[1, 1, stream]
        alive = weakref.ref(stream)
        del stream
        gc.collect()
        assert alive() is not None
        kept(1)
        assert host.fake.launches[-1].stream == 6

    def test_of_a_stream_object_launches_fast_the_next_time(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        class Stream:
            cuda_stream = 7

        kernel = host.kernel("int32", "n")
        kernel[1, 1, Stream()](1)
        monkeypatch.setattr(kernel, "_launch", lambda *ignored: pytest.fail("the careful path"))
        kernel[1, 1, Stream()](2)
        assert [launch.stream for launch in host.fake.launches] == [7, 7]

    def test_many_are_forgotten(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        for n in range(1, 1000):
            kernel.forall(n * 256)(1)
        assert len(kernel._configured) <= 300
        assert host.fake.launches[-1].grid == (999, 1, 1)

    @pytest.mark.parametrize(
        ("key", "message"),
        [
            (4, "kernel: bad launch configuration\n  found:    kernel[4]\n  expected: kernel[grid, block], "
                "kernel[grid, block, stream] or kernel[grid, block, stream, shared_bytes]"),
            ((1, 2, 3, 4, 5), "kernel: bad launch configuration\n  found:    kernel[5 values]\n  expected: "
                "kernel[grid, block], kernel[grid, block, stream] or kernel[grid, block, stream, shared_bytes]"),
            ((0, 32), "kernel: bad launch configuration: grid\n  found:    0\n  expected: 1 to 2147483647 along x\n"
                "  do:       launch nothing where there is nothing to do, or use kernel.forall(n)"),
            (((1, 65536), 32), "kernel: bad launch configuration: grid\n  found:    (1, 65536)\n"
                "  expected: 1 to 65535 along y"),
            ((1, -1), "kernel: bad launch configuration: block\n  found:    -1\n  expected: 1 to 1024 along x"),
            ((1, (1, 1, 65)), "kernel: bad launch configuration: block\n  found:    (1, 1, 65)\n"
                "  expected: 1 to 64 along z"),
            ((1, (64, 32)), "kernel: bad launch configuration: block\n  found:    (64, 32): 2048 threads\n"
                "  expected: at most 1024 threads"),
            ((1.5, 32), "kernel: bad launch configuration: grid\n  found:    1.5\n"
                "  expected: a whole number, or a tuple of one to three"),
            ((True, 32), "kernel: bad launch configuration: grid\n  found:    True\n"
                "  expected: a whole number, or a tuple of one to three"),
            ((1, 32, 0, -4), "kernel: bad launch configuration: dynamic shared memory\n  found:    -4\n"
                "  expected: a number of bytes, 0 or more"),
            ((1, 32, "s"), "kernel: bad launch configuration: stream\n  found:    's'\n"
                "  expected: 0, a stream handle, or a stream of torch, CuPy or cuda.core"),
        ],
    )  # fmt: skip
    def test_wrong(self, host: Host, key: Any, message: str) -> None:
        with pytest.raises(LaunchError) as caught:
            host.kernel("int32", "n")[key]
        text = str(caught.value)
        if " do: " in text and " do: " not in message:
            text = text[: text.index("\n  do:")]
        assert text == message

    def test_is_needed(self, host: Host) -> None:
        with pytest.raises(LaunchError) as caught:
            host.kernel("int32", "n")(1)
        assert str(caught.value) == (
            "kernel was called without a launch configuration\n"
            "  do:       kernel[blocks, threads_per_block](…), or kernel.forall(n)(…) for n threads"
        )


class TestForall:
    def test_covers_n(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        kernel.forall(1000)(1)
        launch = host.fake.launches[-1]
        assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))

    def test_takes_block_stream_and_shared_memory(self, host: Host) -> None:
        host.kernel("int32", "n").forall(1000, tpb=100, stream=9, sharedmem=64)(1)
        launch = host.fake.launches[-1]
        assert (launch.grid, launch.block, launch.stream, launch.shared) == ((10, 1, 1), (100, 1, 1), 9, 64)

    def test_keeps_launch_bounds(self, host: Host) -> None:
        host.kernel("int32", "n", launch_bounds=(128, 2)).forall(1000)(1)
        assert host.fake.launches[-1].block == (128, 1, 1)

    def test_of_nothing_launches_nothing(self, host: Host) -> None:
        host.kernel("int32", "n").forall(0)(1)
        assert host.fake.launches == []

    def test_of_less_is_wrong(self, host: Host) -> None:
        for n in (-1, 2.5, None):
            with pytest.raises(LaunchError) as caught:
                host.kernel("int32", "n").forall(n)  # type: ignore[arg-type]
            assert str(caught.value) == (
                f"kernel: bad number of threads\n  found:    forall({n!r})\n  expected: a whole number, 0 or more"
            )

    def test_numpys_numbers_count_like_pythons(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        for n in (np.uint8(200), np.int8(100), np.uint32(200), np.array(200)):
            kernel.forall(n, tpb=np.uint8(50))(1)  # type: ignore[arg-type]
            launch = host.fake.launches[-1]
            assert (launch.grid, launch.block) == ((int(n) // 50, 1, 1), (50, 1, 1))

    def test_a_bad_block_size_is_a_bad_block(self, host: Host) -> None:
        with pytest.raises(LaunchError, match="bad launch configuration: block\n  found:    -5"):
            host.kernel("int32", "n").forall(100, tpb=-5)


class TestArguments:
    def test_three_times_alike(self, host: Host) -> None:
        """The first launch is the careful one, the others are generated code; all pack the same block."""
        kernel = host.kernel(SAXPY, "a, x, y", saxpy_body)
        x, y = DeviceArray(arange(5)), DeviceArray(np.ones(5, "f4"))
        for _ in range(3):
            kernel[1, 32](2.0, x, y)
        first, second, third = (launch.parameters for launch in host.fake.launches)
        assert first == second == third == [2.0, x.array.ctypes.data, 5, y.array.ctypes.data, 5]
        assert y.array.tolist() == [1, 7, 13, 19, 25]

    def test_by_name_and_default(self, host: Host) -> None:
        kernel = host.kernel("int32, int32, int32", "a, b, c=7")
        for _ in range(2):
            kernel[1, 1](b=2, a=1)
            assert host.launched == [1, 2, 7]

    def test_none_at_all(self, host: Host) -> None:
        kernel = host.kernel("void()", "")
        for _ in range(2):
            kernel[1, 1]()
        assert len(host.fake.launches) == 2

    def test_names_of_ours(self, host: Host) -> None:
        kernel = host.kernel("int32, int32, int32", "type, launch, make")
        for _ in range(2):
            kernel[1, 1](1, 2, 3)
            assert host.launched == [1, 2, 3]

    @pytest.mark.parametrize(
        ("args", "message"),
        [
            ((1.0, device(4)),
             "kernel: wrong number of arguments\n  found:    2, without y\n  expected: 3: kernel[…](a, x, y)"),
            ((1.0, device(4), device(4), 5),
             "kernel: wrong number of arguments\n  found:    4\n  expected: 3: kernel[…](a, x, y)"),
            (("a", device(4), device(4)),
             "kernel: argument 'a' is a value of type str\n  expected: a number, a tuple, a NumPy, CuPy or torch "
             "array, or an object with __cuda_array_interface__"),
            ((1.0, [1.0], device(4)),
             "kernel: argument 'x' is a value of type list\n  expected: a number, a tuple, a NumPy, CuPy or torch "
             "array, or an object with __cuda_array_interface__\n  do:       pass numpy.asarray(…) of it"),
            ((1.0, device(4, dtype="f8"), device(4)),
             "kernel: no signature takes these arguments\n"
             "  found:    (a: a Python float, x: float64[::1], y: float32[::1])\n"
             "  expected: (float32, float32[::1], float32[::1]): x is an array of float64 for float32[::1]"),
            ((1.0, device(4, 4), 3),
             "kernel: no signature takes these arguments\n"
             "  found:    (a: a Python float, x: float32[:, ::1], y: a Python int)\n"
             "  expected: (float32, float32[::1], float32[::1]): x is an array of 2 axes for float32[::1]; "
             "y is a Python int for float32[::1]"),
            ((1.0, DeviceArray(np.zeros(8, "f4")[::2]), device(4)),
             "kernel: no signature takes these arguments\n"
             "  found:    (a: a Python float, x: float32[:], y: float32[::1])\n"
             "  expected: (float32, float32[::1], float32[::1]): x is an array with gaps or in Fortran order for "
             "float32[::1] (C order)"),
            ((1.0, DeviceArray(np.zeros(8, "f4"), data=(4096, True)), device(4)),
             "kernel: no signature takes these arguments\n"
             "  found:    (a: a Python float, x: const float32[::1], y: float32[::1])\n"
             "  expected: (float32, float32[::1], float32[::1]): x is a read-only array for float32[::1]: "
             "declare const float32[::1] if the kernel only reads it"),
            ((1.0, DeviceArray(np.zeros(8, ">f4")), device(4)),
             "kernel: argument 'x' is an array of dtype >f4\n  expected: one of bool, int8, int16, int32, int64, "
             "uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, complex64, complex128, in the "
             "machine's byte order"),
            ((1.0, np.ma.zeros(3, "f4"), device(4)),
             "kernel: argument 'x' is a masked array\n  do:       pass array.data and array.mask as two arrays"),
            ((1.0, DeviceArray(np.zeros(8, "f4"), mask=device(8)), device(4)),
             "kernel: argument 'x' is the __cuda_array_interface__ of a DeviceArray has a mask"),
        ],
    )  # fmt: skip
    @pytest.mark.parametrize("warm", [False, True])
    def test_wrong(self, host: Host, args: Any, message: str, warm: bool) -> None:
        kernel = host.kernel(SAXPY, "a, x, y")
        if warm:
            for _ in range(2):
                kernel[1, 32](1.0, device(4), device(4))
        launches = len(host.fake.launches)
        with pytest.raises(LaunchError) as caught:
            kernel[1, 32](*args)
        assert str(caught.value).startswith(message)
        assert caught.value.__cause__ is None
        assert len(host.fake.launches) == launches

    def test_unknown_name(self, host: Host) -> None:
        with pytest.raises(TypeError, match=r"kernel.*unexpected keyword argument 'q'"):
            host.kernel("int32", "n")[1, 1](q=1)


class TestOverloads:
    def test_by_dtype_of_one_python_type(self, host: Host) -> None:
        kernel = host.kernel(["float32, float32[::1]", "float64, float64[::1]"], "a, x")
        for _ in range(3):
            for dtype in ("f4", "f8"):
                kernel[1, 1](0.1, device(3, dtype=dtype))
                assert host.launched[0] == (np.float32(0.1) if dtype == "f4" else 0.1)
        assert len(host.requests) == 2  # each overload is bound once

    def test_layout_is_not_a_matter_of_history(self, host: Host) -> None:
        """A strided launch first must not draw later contiguous arrays to the strided overload."""
        kernel = host.kernel(["float32[:, ::1]", "float32[:, :]"], "x")
        strided = DeviceArray(np.zeros((4, 8), "f4")[:, ::2])
        gapless = DeviceArray(np.zeros((4, 4), "f4"), strides=(16, 4))
        plain = device(4, 4)
        for _ in range(3):
            kernel[1, 1](strided)
            assert host.launched[1:] == [4, 4, 32, 8]
            kernel[1, 1](gapless)
            assert host.launched[1:] == [4, 4]
            kernel[1, 1](plain)
            assert host.launched[1:] == [4, 4]

    def test_const_is_not_a_matter_of_history(self, host: Host) -> None:
        kernel = host.kernel(["const float32[::1]", "float32[::1]"], "x")
        fixed, plain = DeviceArray(np.zeros(3, "f4"), data=(4096, True)), device(4)
        for _ in range(3):
            kernel[1, 1](fixed)
            assert host.launched == [4096, 3]
            kernel[1, 1](plain)
            assert host.launched == [plain.array.ctypes.data, 4]
        assert [str(request.signature[0]) for request in host.requests] == ["const float32[::1]", "float32[::1]"]

    def test_values_of_integers_choose_alone(self, host: Host) -> None:
        kernel = host.kernel(["int32", "int64"], "n")
        for value, form in ((1 << 40, "int64"), (5, "int32"), (1 << 40, "int64"), (5, "int32")):
            kernel[1, 1](value)
            assert host.launched == [value]
            assert kernel.image_source(form) == "shipped cubin sm_90"
        assert [str(request.signature[0]) for request in host.requests] == ["int64", "int32"]

    def test_more_than_a_chain_holds(self, host: Host) -> None:
        names = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64", "bool"]
        kernel = host.kernel([f"{name}[::1]" for name in names], "x")
        arrays = [DeviceArray(np.zeros(3, name)) for name in names]
        for _ in range(3):
            for array in arrays:
                kernel[1, 1](array)
                assert host.launched[0] == array.array.ctypes.data
        assert len(host.requests) == len(names)

    def test_without_signatures(self, host: Host) -> None:
        kernel = host.kernel(None, "a, b, c, d, x, y")
        x, y = device(2, 3), DeviceArray(np.zeros((2, 3), "f8", order="F"))
        for _ in range(2):
            kernel[1, 1](1, 2.0, True, np.float32(3), x, y)
        (signature,) = kernel.signatures
        assert format_signature(signature) == "int, float, bool, float32, float32[:, ::1], float64[::1, :]"
        assert host.launched[:4] == [1, 2.0, True, 3.0]

    def test_annotations_are_signatures(self, host: Host) -> None:
        kernel = host.kernel(None, "a, x")
        kernel.py_func.__annotations__.update(a=int32, x=float32[::1])
        kernel[1, 1](3, device(4))
        assert [str(kind) for kind in kernel.signatures[0]] == ["int32", "float32[::1]"]

    def test_integer_beyond_64_bits(self, host: Host) -> None:
        with pytest.raises(LaunchError, match=r"^kernel: argument 'n': 18446744073709551616 does not fit in int$"):
            host.kernel(None, "n")[1, 1](1 << 64)

    def test_two_python_types_with_one_dtype(self, host: Host) -> None:
        kernel = host.kernel("float32[::1]", "x")
        one, other = device(4), OtherArray(np.zeros(5, "f4"))
        for _ in range(2):
            kernel[1, 1](one)
            kernel[1, 1](other)
            assert host.launched == [other.array.ctypes.data, 5]
        assert len(host.requests) == 1

    def test_specialize(self, host: Host) -> None:
        kernel = host.kernel(["float32[::1]", "float64[::1]"], "x").specialize(device(4, dtype="f8"))
        assert [str(signature[0]) for signature in kernel.signatures] == ["float64[::1]"]
        with pytest.raises(LaunchError, match="no signature takes these arguments"):
            kernel[1, 1](device(4))


class TestIndexWidth:
    """The rule of types/layout.py, over memory that nobody touches."""

    @pytest.mark.parametrize(
        ("spec", "shape", "strides", "itemsize", "width"),
        [
            ("uint8[::1]", (2**31 - 1,), None, 1, 32),
            ("uint8[::1]", (2**31,), None, 1, 64),
            ("uint8[:, ::1]", (2**16, 2**15), None, 1, 64),
            ("uint8[:, ::1]", (2**16 - 1, 2**15), None, 1, 32),
            ("uint8[:, ::1]", (0, 2**40), None, 1, 64),
            ("uint8[:]", (3000,), (10**6,), 1, 64),
            ("uint8[:]", (2148,), (10**6,), 1, 32),
            ("uint8[:]", (3000,), (-(10**6),), 1, 64),
            ("uint8[:, :]", (1, 4), (2**40, 1), 1, 32),
            ("float64[::1]", (2**31 - 1,), None, 8, 32),
        ],
    )
    def test_of_an_array(self, host: Host, spec: str, shape: Any, strides: Any, itemsize: int, width: int) -> None:
        typestr = {1: "|u1", 8: "<f8"}[itemsize]
        array = DeviceArray(np.zeros(1), shape=shape, strides=strides, typestr=typestr, data=(4096, False))
        kernel = host.kernel(spec, "x")
        small = DeviceArray(np.zeros((1,) * len(shape), typestr))
        kernel[1, 1](array)
        assert host.symbol_width == width
        for _ in range(3):
            # In turn with a small one: neither launcher may take what belongs to the other.
            kernel[1, 1](small)
            assert host.launched[0] == small.array.ctypes.data
            kernel[1, 1](array)
            expected = [4096, *shape]
            if strides:
                expected += [s if n > 1 else 0 for n, s in zip(shape, strides, strict=True)]
            assert host.launched == expected
        assert sorted({request.index_width for request in host.requests}) == sorted({32, width})

    def test_of_a_weak_integer(self, host: Host) -> None:
        kernel = host.kernel("int", "n")
        for value in (1, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 5, 2**62):
            for _ in range(2):
                kernel[1, 1](value)
                assert host.launched == [value]
        assert [request.index_width for request in host.requests] == [32, 64]

    def test_of_the_grid(self, host: Host) -> None:
        kernel = host.kernel("int", "n")
        for _ in range(2):
            kernel[2**31 - 1, 1](1)
        assert host.symbol_width == 32
        for _ in range(2):
            kernel[2**30, 2](1)
        assert host.symbol_width == 64
        assert len(host.requests) == 2

    def test_wide_image_serves_all(self, host: Host) -> None:
        host.widths = (64,)
        kernel = host.kernel("int", "n")
        for value in (1, 2**40, 1, 2**40):
            kernel[1, 1](value)
            assert host.launched == [value]
        assert len(host.requests) == 1

    def test_narrow_image_does_not(self, host: Host) -> None:
        from cudabuild.errors import NoImageError

        host.widths = (32,)
        kernel = host.kernel("int", "n")
        kernel[1, 1](1)
        with pytest.raises(NoImageError, match="no image that wide"):
            kernel[1, 1](2**40)


class TestWhatAPersonAsks:
    def test_names(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        assert (kernel.__name__, kernel.__doc__, repr(kernel)) == ("kernel", "A kernel.", "<kernel m.kernel>")
        assert kernel[2, 3].__name__ == "kernel"
        assert kernel[2, 3].__qualname__ == "kernel[(2, 1, 1), (3, 1, 1)]"

    def test_image_source(self, host: Host) -> None:
        kernel = host.kernel("int32", "n")
        assert kernel.image_source() == kernel.image_source("int32") == ""
        kernel[1, 1](1)
        assert kernel.image_source() == kernel.image_source("int32") == "shipped cubin sm_90"

    def test_inspection(self, host: Host) -> None:
        kernel = host.kernel(["int32", "float32"], "n")
        assert kernel.inspect_ir("int32") == {"int32": "ir of kernel(int32) None 32"}
        assert kernel.inspect_llvm(target="sm_80", index_width=64) == {
            "int32": "llvm of kernel(int32) sm_80 64",
            "float32": "llvm of kernel(float32) sm_80 64",
        }
        assert kernel.inspect_asm("float32") == {"float32": "ptx of kernel(float32) None 32"}

    def test_pickles_by_name(self, host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
        kernel = host.kernel("int32", "n")
        kernel.__module__ = __name__
        monkeypatch.setattr(sys.modules[__name__], "kernel", kernel, raising=False)
        assert pickle.loads(pickle.dumps(kernel)) is kernel

    def test_first_launch_is_logged(
        self, host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setenv("CUDABUILD_LOG", "info")
        kernel = host.kernel(SAXPY, "a, x, y")
        for _ in range(3):
            kernel[1, 32](2.0, device(4), device(4))
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"cudabuild: kernel({SAXPY}): shipped cubin sm_90, 32-bit indices, ")
        assert line.endswith(" ms")


@pytest.mark.parametrize("spec", [None, ["uint64", "int64"]])
@pytest.mark.parametrize("values", [(5, 2**63, 5, -1), (2**63, 5, -1, 2**63, 5)])
def test_overloads_of_cuda_jit_by_the_size_of_an_int(host: Host, spec: Any, values: tuple[int, ...]) -> None:
    """2**63 is a uint64 and 5 an int64, whichever was launched before."""
    plain = host.kernel(spec, "n")
    services = SimpleNamespace(
        current_device=host.current_device, warn_of_occupancy=lambda grid: None, warn_of_copy=lambda: None
    )
    options = plain.definition.options.replace(literals="numba")
    kernel = JitDispatcher(KernelDefinition(plain.py_func, spec, options=options), services)
    for value in values:
        kernel[1, 1](value)
        wanted = "uint64" if value >= 2**63 else "int64"
        assert wanted in [format_signature(request.signature) for request in host.requests]
