# SPDX-License-Identifier: Apache-2.0
"""``cuda.jit``: every form of it, its options, and what it refuses."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cuda import float32, float64, int32, int64, void
from cudabuild.cuda.errors import NumbaInvalidConfigWarning, NumbaPerformanceWarning, TypingError
from cudabuild.cuda_jit import options_of
from cudabuild.early import suspended
from cudabuild.errors import SettingError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.runtime.jit_dispatcher import JitDispatcher


@pytest.fixture(autouse=True)
def _on_the_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudabuild.decorators.SERVICES._choice", None)
    monkeypatch.setenv("CUDABUILD_DEVICE", "cpu")
    monkeypatch.setenv("CUDABUILD_LOW_OCCUPANCY_WARNINGS", "0")
    monkeypatch.setenv("CUDABUILD_IMPLICIT_COPY_WARNINGS", "0")


def fill(x: Any, value: Any) -> None:
    i = cuda.grid(1)
    if i < x.size:
        x[i] = value


FORMS = {
    "bare": cuda.jit,
    "called": cuda.jit(),
    "text": cuda.jit("void(float32[::1], float32)"),
    "text in parentheses": cuda.jit("(float32[::1], float32)"),
    "void of types": cuda.jit(void(float32[::1], float32)),
    "tuple": cuda.jit((float32[::1], float32)),
    "list of texts": cuda.jit(["float32[::1], float32", "float64[::1], float64"]),
    "list, mixed": cuda.jit([void(float64[:], float64), (float32[:], float32), "void(int32[:], int32)"]),
    "options": cuda.jit(fastmath=True, opt=False, lineinfo=True, cache=True, inline="always", lto=True),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    kernel = FORMS[form](fill)
    assert isinstance(kernel, JitDispatcher)
    assert kernel.py_func is fill
    x = np.zeros(10, np.float32)
    kernel[1, 32](x, np.float32(2.5))
    assert (x == 2.5).all()


def test_kernels_have_numbas_types_and_kernels_of_their_own_have_weak_ones() -> None:
    assert cuda.jit(fill).definition.options["literals"] == "numba"
    assert cuda.jit(literals="weak")(fill).definition.options["literals"] == "weak"


def test_device_functions_are_for_kernels() -> None:
    @cuda.jit(device=True)
    def twice(a: Any) -> Any:
        """Twice."""
        return a + a

    @cuda.jit
    def kernel(x: Any) -> None:
        x[0] = twice(x[0])

    x = np.array([2.0])
    kernel[1, 1](x)
    assert x[0] == 4.0
    assert twice.__doc__ == "Twice."
    with pytest.raises(ValueError, match="launch configuration was not specified"):
        twice(1)
    with pytest.raises(RuntimeError, match="Cannot compile a device function as a kernel"):
        twice[1, 1](x)


def test_a_kernel_may_be_called_by_a_kernel() -> None:
    @cuda.jit
    def inner(x: Any) -> None:
        x[0] = 7

    @cuda.jit
    def outer(x: Any) -> None:
        inner(x)

    x = np.zeros(1)
    outer[1, 1](x)
    assert x[0] == 7


def test_a_device_functions_signature_converts_arguments_and_result() -> None:
    @cuda.jit("int64(int64, int64)", device=True)
    def quotient(a: Any, b: Any) -> Any:
        return a / b

    @cuda.jit
    def kernel(x: Any, y: Any) -> None:
        x[0] = quotient(y, 2)

    x = np.zeros(1)
    kernel[1, 1](x, 7.9)
    assert x[0] == 3.0


def test_a_device_functions_best_signature_is_taken() -> None:
    @cuda.jit(["(float32, float32)", "(float64, float64)"], device=True)
    def add(a: Any, b: Any) -> Any:
        return a + b

    @cuda.jit
    def kernel(x: Any, a: Any, b: Any) -> None:
        x[0] = add(a, b)

    x = np.zeros(1)
    kernel[1, 1](x, np.float32(1), np.float32(2**-25))
    assert x[0] == 1.0
    kernel[1, 1](x, 1, 2**-25)
    assert x[0] == 1.0 + 2**-25
    with pytest.raises(TypingError, match=r"Invalid use of types: a call with parameters \(complex128, float64\)"):
        kernel[1, 1](np.zeros(1, np.complex128), 1j, 1.0)


def test_a_kernel_that_returns_a_value_is_a_type_error_too() -> None:
    kernel = cuda.jit(lambda x: x[0])
    with pytest.raises(TypeError, match="a kernel returns a value"):
        kernel[1, 1](np.zeros(1))
    with pytest.raises(TypingError, match="a kernel returns a value"):
        kernel[1, 1](np.zeros(1))


def test_mistakes_are_told_at_the_decorator_where_there_is_a_signature() -> None:
    def wrong(x: Any) -> None:
        x[0] = undefined_name(x[0])  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypingError, match="name 'undefined_name' is not defined"):
        cuda.jit("void(float32[:])")(wrong)
    with suspended():
        cuda.jit("void(float32[:])")(wrong)
    kernel = cuda.jit(wrong)
    with pytest.raises(TypingError, match="name 'undefined_name' is not defined"):
        kernel[1, 1](np.zeros(1, np.float32))


def test_mistakes_are_not_told_where_the_setting_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_EARLY_ERRORS", "0")

    @cuda.jit("void(float32[:])")
    def wrong(x: Any) -> None:
        x[0] = undefined_name(x[0])  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("spec", ["int32(int32[:])", int32(int32[:]), [void(int32[:]), int32(int64[:])]])
def test_a_kernel_returns_nothing(spec: Any) -> None:
    with pytest.raises(TypeError, match=r"CUDA kernel must have void return type\."):
        cuda.jit(spec)


OPTIONS = [
    ({"opt": True}, "opt", 3), ({"opt": False}, "opt", 0), ({"opt": 1}, "opt", 1), ({}, "opt", 3),
    ({"fastmath": {"fast"}}, "fastmath", True), ({"fastmath": {"contract", "nnan"}}, "fastmath", False),
    ({"fastmath": {"nnan", "ninf", "nsz", "arcp", "contract", "afn", "reassoc"}}, "fastmath", True),
    ({"fastmath": False}, "fastmath", False), ({"max_registers": 32}, "max_registers", 32),
    ({"launch_bounds": (256, 2)}, "launch_bounds", (256, 2)),
    ({"launch_bounds": (256, 2, 4)}, "launch_bounds", (256, 2, 4)), ({"launch_bounds": 128}, "launch_bounds", 128),
    ({"debug": True, "opt": False}, "debug", True), ({"debug": None}, "debug", False),
    ({"nopython": True}, "literals", "numba"), ({"forceinline": True}, "opt", 3),
]  # fmt: skip


@pytest.mark.parametrize(("given", "name", "value"), OPTIONS)
def test_options(given: dict[str, Any], name: str, value: Any) -> None:
    options, carveout = options_of(given)
    assert options[name] == value
    assert carveout is None


@pytest.mark.parametrize(
    ("value", "percent"), [("MaxL1", 0), ("MaxShared", 100), ("default", -1), (30, 30), (-1, -1), ("maxl1", 0)]
)
def test_shared_memory_carveout(value: Any, percent: int) -> None:
    assert cuda.jit(shared_memory_carveout=value)(fill).definition.carveout == percent


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"fastmat": True}, SettingError, "unknown option of cuda.jit\n  found:    fastmat=True"),
        ({"fastmath": {"fest"}}, SettingError, "bad value of the option fastmath of cuda.jit\n  found:    fest"),
        ({"fastmath": 5}, SettingError, "bad value of the option fastmath of cuda.jit\n  found:    5"),
        ({"opt": 9}, SettingError, "bad value of the kernel option opt\n  found:    9"),
        ({"launch_bounds": (1, 2, 3, 4)}, SettingError, "Got 4 launch bounds: expected at most 3"),
        ({"max_registers": 3}, SettingError, "bad value of the kernel option max_registers"),
        ({"boundscheck": True}, NotImplementedError, "bounds checking is not supported for CUDA"),
        ({"argtypes": ()}, SettingError, "cuda.jit no longer takes argtypes="),
        ({"extensions": 3}, SettingError, "bad value of the option extensions of cuda.jit\n  found:    3"),
        ({"extensions": [fill]}, SettingError, "a list of objects with a method prepare_args(type, value, stream"),
        ({"link": ["f.txt"]}, SettingError, "link= of a file of unknown kind"),
        (
            {"shared_memory_carveout": 101},
            ValueError,
            "Invalid carveout value: bad value of the option",
        ),
        (
            {"shared_memory_carveout": "most"},
            ValueError,
            "Invalid carveout value: bad value of the option",
        ),
        (
            {"shared_memory_carveout": 1.5},
            TypeError,
            "Invalid carveout value: bad value of the option",
        ),
    ],
)
def test_options_that_cannot_be(given: dict[str, Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=re.escape(text)):
        cuda.jit(**given)


def test_options_that_do_not_go_together_are_warned_of() -> None:
    with pytest.warns(NumbaInvalidConfigWarning, match="debug=True with opt=True") as met:
        cuda.jit(debug=True)
    assert met[0].filename == __file__
    with pytest.warns(NumbaInvalidConfigWarning, match="debug and lineinfo are mutually exclusive"):
        cuda.jit(debug=True, lineinfo=True, opt=False)


def test_options_are_told_apart_by_type() -> None:
    """What was understood once is remembered; ``opt=True`` equals ``opt=1`` and means another level."""
    for _ in range(2):
        for opt, level in ((1, 1), (True, 3), (0, 0), (False, 0)):
            assert cuda.jit(opt=opt)(lambda: None).definition.options["opt"] == level
        assert cuda.jit(fastmath={"fast"})(lambda: None).definition.options["fastmath"]
        with pytest.raises(SettingError):
            cuda.jit(opt=7)


def test_a_result_is_refused_however_the_signature_is_written() -> None:
    for spec in (
        "int32(int32)",
        " float32 (int32[::1])",
        "Tuple(int32, int32)(int32)",
        ["void(int32)", "int32(int64)"],
    ):
        with pytest.raises(TypeError, match="CUDA kernel must have void return type"):
            cuda.jit(spec)
    for spec in ("void(int32)", "(int32,)", "int32", "int32, Tuple(int32, int32)"):
        cuda.jit(spec)


def test_only_functions_of_packages_without_images_are_typed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module that was last found to ship images is remembered, and no other takes its place."""
    asked = []

    def find(function: Any) -> list[str]:
        asked.append(function.__name__)
        return ["archives"] if function.__globals__["ships"] else []

    monkeypatch.setattr("cudabuild.importer.binding.find_archive_folders", find)
    monkeypatch.setattr("cudabuild.decorators.SERVICES._shipping", None)
    text = "def {name}(x):\n    x[0] = nowhere\n"
    modules: list[dict[str, Any]] = [{"ships": True}, {"ships": False}]
    for number, module in enumerate((0, 0, 1, 0, 1)):
        name = f"k{number}"
        exec(text.format(name=name), modules[module])
        decorate = cuda.jit("void(float32[::1])", source=text.format(name=name))
        if modules[module]["ships"]:
            decorate(modules[module][name])
        else:
            with pytest.raises(TypingError, match="nowhere"):
                decorate(modules[module][name])
    assert asked == ["k0", "k2", "k4"]


def test_something_else_than_a_function_is_refused() -> None:
    with pytest.raises(TypeError, match=r"cuda\.jit on a int"):
        cuda.jit(3)
    with pytest.raises(TypeError, match=r"cuda\.jit on a type"):
        cuda.jit()(int)


def test_small_grids_and_host_arrays_are_warned_of() -> None:
    cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 1
    cuda.config.CUDA_WARN_ON_IMPLICIT_COPY = 1
    try:
        kernel = cuda.jit(fill)
        with pytest.warns(
            NumbaPerformanceWarning, match="Grid size 1 will likely result in GPU under-utilization"
        ) as one:
            launch = kernel[1, 32]
        with pytest.warns(NumbaPerformanceWarning, match="Host array used in CUDA kernel") as other:
            launch(np.zeros(3), 1.0)
        assert [warning.filename for warning in (*one, *other)] == [__file__] * 2
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            kernel[128, 32](cuda.to_device(np.zeros(3)), 1.0)
    finally:
        del cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS, cuda.config.CUDA_WARN_ON_IMPLICIT_COPY


def test_extensions_see_every_argument() -> None:
    class Doubler:
        def prepare_args(self, kind: Any, value: Any, stream: Any, retr: list[Any]) -> tuple[Any, Any]:
            retr.append(lambda: seen.append(value))
            return kind, value * 2 if isinstance(value, float) else value

    seen: list[Any] = []
    kernel = cuda.jit(extensions=[Doubler()])(fill)
    x = np.zeros(3)
    for _ in range(2):
        kernel[1, 32](x, 1.5)
        assert (x == 3.0).all()
    assert len(seen) == 4


def test_types_are_names_of_cuda() -> None:
    assert cuda.types.Array(float32, 2, "C") == float32[:, ::1]
    pair = cuda.types.UniTuple(int32, 2)
    assert pair.name == "Tuple(int32, int32)"
    assert pair == cuda.types.Tuple([int32, int32])
    assert isinstance(pair, cuda.types.UniTuple)
    assert (len(pair), list(pair)) == (2, [int32, int32])
    assert cuda.types.Tuple([])
    assert (int32.bitwidth, float64.bitwidth, cuda.complex64.bitwidth) == (32, 64, 64)
    assert (cuda.boolean, cuda.intp, cuda.f4, cuda.double) == (cuda.types.bool_, int64, float32, float64)
    assert (int32.bitwidth, float64.bitwidth, cuda.complex64.bitwidth) == (32, 64, 64)
    assert (int32.minval, int32.maxval, cuda.uint8.minval, cuda.uint8.maxval) == (-(2**31), 2**31 - 1, 0, 255)
    assert (pair.types, pair.count) == ((int32, int32), 2)
    plain, strided = float32[:, ::1], float32[:]
    assert (plain.mutable, plain.aligned, plain.is_contig, plain.is_c_contig, plain.is_f_contig) == (*[True] * 4, False)
    assert (strided.is_contig, strided.is_c_contig, float32[::1].is_f_contig, float32[::1, :].is_f_contig) == (
        False,
        False,
        True,
        True,
    )
    assert not float32[::1].with_(readonly=True).mutable
    assert cuda.typeof(1) == int64
    assert cuda.typeof(1.0) == float64
    assert cuda.typeof(np.zeros((2, 2), np.float32)) == float32[:, ::1]
    with pytest.raises(ValueError, match="cannot determine the type of"):
        cuda.typeof(object())
    with pytest.raises(AttributeError, match=r"module 'cudabuild\.cuda' has no attribute 'no_such_name'"):
        _ = cuda.no_such_name


def test_hints_say_which_way_an_array_travels() -> None:
    kernel = cuda.jit(fill)
    x = np.zeros(3)
    kernel[1, 32](cuda.In(x), 1.0)
    assert (x == 0.0).all()
    for value, hint in ((2.0, cuda.Out), (3.0, cuda.InOut)):
        kernel[1, 32](hint(x), value)
        assert (x == value).all()
    assert repr(cuda.In(1)) == "In(1)"


def test_an_int_wraps_where_there_is_one_signature() -> None:
    x = np.zeros(1, np.int32)
    cuda.jit("void(int32[::1], int32)")(fill)[1, 1](x, 0x80000001)
    assert x[0] == -(2**31) + 1
    with pytest.raises(TypeError, match="2147483649 does not fit in int32"):
        cuda.jit(["void(int32[::1], int32)"])(fill)[1, 1](x, 0x80000001)


def test_unsigned_memory_serves_as_signed_where_there_is_one_signature() -> None:
    x = np.zeros(3, np.uint32)
    copy = cuda.to_device(x)
    kernel = cuda.jit("void(int32[::1], int32)")(fill)
    for array in (x, copy):
        kernel[1, 32](array, -2)
    assert (x == 2**32 - 2).all()
    assert (copy.copy_to_host() == 2**32 - 2).all()
    with pytest.raises(TypeError, match=r"an array of uint64 for int32\[::1\]"):
        kernel[1, 32](np.zeros(3, np.uint64), 1)
    with pytest.raises(TypeError, match=r"an array of uint32 for int32\[::1\]"):
        cuda.jit(["void(int32[::1], int32)"])(fill)[1, 32](x, 1)


def test_a_device_function_has_no_machine_code_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="Cannot inspect SASS of a device function"):
        cuda.jit(device=True)(fill).inspect_sass()


def test_a_negative_number_of_threads() -> None:
    with pytest.raises(ValueError, match="Can't create ForAll with negative task count: -1"):
        cuda.jit(fill).forall(-1)


def test_a_block_is_not_larger_than_the_launch_bounds() -> None:
    kernel = cuda.jit(launch_bounds=64)(fill)
    with pytest.raises(ValueError, match="a block larger than the launch bounds\n  found:    128 threads"):
        kernel[1, (32, 4)]
    kernel[1, 64](np.zeros(3), 1.0)


def test_some_mistakes_are_told_in_numbas_words_too() -> None:
    def wrong(x: Any) -> None:
        a = cuda.shared.array(x.size, float32)
        a[0] = x[cuda.grid(x.size)]

    with pytest.raises(TypingError) as caught:
        cuda.jit("void(float32[:])")(wrong)
    text = str(caught.value)
    assert "  numba:    No implementation of function Function(<function shared.array>) found for signature" in text
    assert "  numba:    RequireLiteralValue" in text
    with pytest.raises(TypingError) as caught:
        cuda.jit("void(float32[:])", literals="weak")(wrong)
    assert "numba:" not in str(caught.value)


def test_arguments_by_name_convert_too() -> None:
    @cuda.jit("int64(int64, int64)", device=True)
    def difference(a: Any, b: Any) -> Any:
        return a - b

    @cuda.jit
    def kernel(x: Any, y: Any) -> None:
        x[0] = difference(b=y, a=10.9)

    x = np.zeros(1)
    kernel[1, 1](x, 3.7)
    assert x[0] == 7.0


def test_a_device_functions_signature_is_part_of_what_a_kernel_means() -> None:
    def add(a: Any, b: Any) -> Any:
        return a + b

    def fingerprint_with(spec: Any) -> bytes:
        function = cuda.jit(spec, device=True)(add)
        kernel = cuda.jit(lambda x: store(x, function))
        return compute_fingerprint(kernel.definition, (int64[::1],)).digest

    specs = [None, "int64(int64, int64)", int32(int64, int64), int64(int32, int32), (int64, int64)]
    assert len({fingerprint_with(spec) for spec in specs}) == len(specs)


def store(x: Any, function: Any) -> None:
    x[0] = function(x[0], x[0])
