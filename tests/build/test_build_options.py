# SPDX-License-Identifier: Apache-2.0
"""Compile options that only the build settings say: they reach the code, are recorded, and bind, on GPU and CPU."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path

import pytest
from build_helpers import CHECKOUT, Setuptools

from cudabuild.image.archive import Archive, Record

KERNELS = """\
import cudabuild as cb

@cb.kernel("float32[::1], float32")
def plain(x, a):
    i = cb.cuda.grid(1)
    x[i] = x[i] * a - x[i] / a

@cb.kernel("float32[::1], float32", fma=True, fastmath=False, debug=False, lineinfo=False, max_registers=None)
def written(x, a):
    i = cb.cuda.grid(1)
    x[i] = x[i] * a - x[i] / a

@cb.kernel
def bare(x, a):
    x[0] = a
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"
[project]
name = "chosen"
version = "1"
[tool.setuptools]
py-modules = ["chosen"]
[tool.cudabuild]
archs = ["90"]
index = "64"
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "chosen.py").write_text(KERNELS, encoding="utf-8")
    (tmp_path / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    return tmp_path


def build(project: Path, setuptools: Setuptools, settings: str, *arguments: str) -> dict[tuple[str, str], Record]:
    """Builds in place with further settings; (kernel, kind) -> its record."""
    (project / "pyproject.toml").write_text(PYPROJECT + settings, encoding="utf-8")
    setuptools.python("-m", "cudabuild", "build", *arguments, cwd=project)
    archives = [Archive(str(path)) for path in sorted((project / "_cudabuild_chosen").glob("*.cuar"))]
    return {(record.qualname, record.kind): record for archive in archives for record in archive.records()}


def text_of(record: Record) -> str:
    return bytes(record.load_image("shipped").data).decode()


#: What the settings say -> the options recorded, and what that does to the PTX of ``plain``.
CHOICES = {
    "": ({}, ["fma.rn.f32", "div.rn.f32"], [".ftz", ".loc", ".maxnreg"]),
    "fma = false\nlineinfo = true\n": (
        {"fma": False, "lineinfo": True},
        ["mul.rn.f32", "sub.rn.f32", ".loc"],
        ["fma.rn.f32"],
    ),
    "fastmath = true\nmax-registers = 24\n": (
        {"fastmath": True, "max_registers": 24},
        ["div.approx.ftz.f32", ".maxnreg 24"],
        ["div.rn.f32"],
    ),
}


@pytest.mark.parametrize("settings", CHOICES)
def test_an_option_reaches_the_code_and_is_recorded(project: Path, setuptools: Setuptools, settings: str) -> None:
    options, there, missing = CHOICES[settings]
    records = build(project, setuptools, settings)
    for kind in ("cubin", "ptx"):
        assert records["plain", kind].options == options
        assert records["plain", kind].decorated == ()
        assert records["written", kind].options == {}
        assert set(records["written", kind].decorated) == {"debug", "fastmath", "fma", "lineinfo", "max_registers"}
    text = text_of(records["plain", "ptx"])
    assert [part for part in there if part not in text] == []
    assert [part for part in missing if part in text] == []
    if "max_registers" in options:
        assert records["plain", "cubin"].load_image("shipped").attributes["registers"] <= 24
    index = json.loads((project / "_cudabuild_chosen" / "index.json").read_text(encoding="utf-8"))
    assert {kernel["qualname"]: kernel["options"] for kernel in index["kernels"]} == {"plain": options, "written": {}}


def test_debug_from_the_environment_makes_debug_images(project: Path, setuptools: Setuptools) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    output = setuptools.python("-m", "cudabuild", "build", cwd=project, CUDABUILD_DEBUG="1")
    assert "debug = true from the environment variable CUDABUILD_DEBUG" in output
    records = {
        record.qualname: record for record in Archive(str(project / "_cudabuild_chosen" / "sm_90.cuar")).records()
    }
    assert records["plain"].options == {"debug": True}
    assert records["plain"].load_image("shipped").attributes["exceptions"]
    assert records["written"].options == {}
    assert "exceptions" not in records["written"].load_image("shipped").attributes


def test_options_and_signatures_of_one_kernel(project: Path, setuptools: Setuptools) -> None:
    settings = """
fma = false
[tool.cudabuild.signatures]
"chosen:bare" = ["float32[::1], float32", "float64[::1], float64"]
[tool.cudabuild.kernel."chosen:p*"]
fma = true
max-registers = 32
[tool.cudabuild.kernel."chosen:bare"]
signatures = "int32[::1], int32"
"""
    build(project, setuptools, settings)
    records = list(Archive(str(project / "_cudabuild_chosen" / "sm_90.cuar")).records())
    assert {(record.qualname, record.signature): record.options for record in records} == {
        ("plain", "float32[::1], float32"): {"max_registers": 32},
        ("written", "float32[::1], float32"): {},
        ("bare", "int32[::1], int32"): {"fma": False},
        ("bare", "float32[::1], float32"): {"fma": False},
        ("bare", "float64[::1], float64"): {"fma": False},
    }


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            '[tool.cudabuild.kernel."chosen:written"]\nfma = false\n',
            "chosen:written has two values of fma\n  found:    fma=True in its decorator, and fma = False in its table",
        ),
        (
            '[tool.cudabuild.kernel."chosen:plan"]\nfma = false\n',
            "[tool.cudabuild] has settings of a kernel that there is not\n  found:    'chosen:plan' (fma)\n"
            "  expected: chosen:bare, chosen:plain, chosen:written\n  do:       did you mean 'chosen:plain'?",
        ),
        ('[tool.cudabuild.signatures]\n"chosen:bare" = "float32"\n', "chosen.py:13: bare: bad signature\n  float32\n"),
    ],
)
def test_wrong_settings_of_one_kernel(project: Path, setuptools: Setuptools, settings: str, message: str) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT + settings, encoding="utf-8")
    done = setuptools.attempt("-m", "cudabuild", "build", cwd=project)
    assert done.returncode == 1
    assert message in done.stderr
    assert not (project / "_cudabuild_chosen").exists()


def run(code: str, project: Path, setuptools: Setuptools, **environment: str) -> list[str]:
    """What a fresh process prints that imports the project."""
    start = f"import sys\nsys.path[:0] = [{str(CHECKOUT / 'tests' / 'runtime')!r}]\nimport chosen\n"
    return setuptools.python("-c", start + textwrap.dedent(code), cwd=project, **environment).splitlines()


BIND = """
    from cudabuild.runtime.driver import use_driver
    import fake_driver
    class Array:
        __cuda_array_interface__ = {"shape": (4,), "typestr": "<f4", "data": (4096, False), "version": 3}
    fake = fake_driver.FakeDriver()
    fake.takes_any_code = True
    use_driver(fake)
    for name in ("plain", "written"):
        kernel = getattr(chosen, name)
        kernel[1, 32](Array(), 2.0)
        print(kernel.image_source())
"""


def test_images_bind_whatever_the_build_chose(project: Path, setuptools: Setuptools) -> None:
    build(project, setuptools, "fma = false\nmax-registers = 40\nfastmath = true\n")
    assert run(BIND, project, setuptools, CUDABUILD_JIT="never") == ["shipped cubin sm_90"] * 2


def test_compiling_at_run_time_keeps_what_the_build_chose(project: Path, setuptools: Setuptools) -> None:
    """On the GPU and on the CPU device, and for an edited kernel too."""
    build(project, setuptools, "fma = false\n")
    source = project / "chosen.py"
    source.write_text(KERNELS.replace("x[i] / a", "x[i] / a / a"), encoding="utf-8")
    code = """
        from cudabuild import decorators, jit
        from cudabuild.image.image import DeviceInfo, ImageRequest
        for kernel in (chosen.plain, chosen.written):
            definition = kernel.definition
            request = ImageRequest(definition, definition.signatures[0], DeviceInfo((9, 0), 13000), 64, bytes)
            image = jit.CompiledProvider().find(request)
            print(image.options, image.attributes["decorated"] == tuple(sorted(definition.options.written)))
        import numpy
        x = numpy.float32([1 + 2**-12] * 32)
        chosen.plain[1, 32](x, numpy.float32(1 + 2**-12))
        y = numpy.float32([1 + 2**-12] * 32)
        chosen.written[1, 32](y, numpy.float32(1 + 2**-12))
        print(x[0] == y[0])
    """
    assert run(code, project, setuptools, CUDABUILD_DEVICE="cpu") == ["{'fma': False} True", "{} True", "False"]


BEYOND = """
    import numpy
    from cudabuild.errors import BoundsError
    x = numpy.zeros(4, numpy.float32)
    try:
        chosen.plain[1, 32](x, 1.0)
        print("nothing told")
    except BoundsError as error:
        print(error)
"""


def test_debug_of_the_build_on_the_cpu(project: Path, setuptools: Setuptools) -> None:
    """Where the CPU device checks nothing by itself, the recorded option has it check."""
    build(project, setuptools, "debug = true\n")
    told = "".join(run(BEYOND, project, setuptools, CUDABUILD_DEVICE="cpu", CUDABUILD_CHECK="none"))
    assert "is out of range for axis 0 with 4 elements" in told
    assert "chosen.py:6" in told


@pytest.mark.gpu
def test_debug_of_the_build_on_a_gpu(project: Path, setuptools: Setuptools) -> None:
    (project / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    setuptools.python("-m", "cudabuild", "build", cwd=project, CUDABUILD_DEBUG="1", CUDABUILD_ARCHS="native")
    told = "".join(run(BEYOND, project, setuptools, CUDABUILD_JIT="never"))
    assert "is out of range for axis 0 with 4 elements" in told
    assert "chosen" in told
