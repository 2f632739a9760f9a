# SPDX-License-Identifier: Apache-2.0
"""A recorded closure made again by a build is the one that ran: the same fingerprint and the same checks, for every
kind of value that it may capture; and what cannot be made again is left to JIT with the reason."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cudabuild.build.discover import open_modules
from cudabuild.build.project import ModuleFile, Project
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.build.worker import Discovery, Session
from cudabuild.cache.store import Cache
from cudabuild.definition import KernelDefinition
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.recording import RecordedKernel, read_signatures
from cudabuild.recording.captured import Describer
from cudabuild.recording.forms import FORMS, form_tag, nested_forms
from cudabuild.recording.recorder import Recorder
from cudabuild.recording.write import write_signatures
from cudabuild.types.signature import parse_signature

FACTORIES = '''
import enum, functools, math, operator
from collections import namedtuple
import numpy as np
import cudabuild
from cudabuild import cuda, device_function, float32, kernel
from recorded_other import shared, OTHER

Point = namedtuple("Point", "x y")
Color = enum.Enum("Color", "RED GREEN")
class Mode(enum.IntEnum):
    FAST = 4
class Number(int):
    pass
class Settings:
    def __init__(self, **values):
        self.__dict__.update(values)
THE_SETTINGS = Settings(scale=3)
FACTOR = 2.5

def square(x):
    return x * x * FACTOR

@device_function(fastmath=True)
def cube(x):
    return x * x * x

@cuda.jit(device=True)
def numba_cube(x):
    return x * x * x

def make(v):
    @kernel
    def k(a):
        a[0] = v
    return k

def make_attribute(v):
    @kernel
    def k(a):
        a[0] = v.scale + v.inner.N
    return k

def make_call(v):
    """Globals, nested functions and defaults together."""
    def inner(x, w=v):
        return v(x) + w(OTHER)
    @cuda.jit(fastmath=True, max_registers=64)
    def k(a, n=FACTOR, *, m=(1, 2)):
        """Doc."""
        a[0] = inner(a[1]) * n + m[0] + shared(FACTOR)
    return k

def make_inner(n):
    return lambda x: x + n

def make_local_device(n):
    @device_function("float32(float32)", fastmath=True)
    def inner(x):
        return x + n
    return inner

def make_local_typed(n):
    @cuda.jit(float32(float32), device=True)
    def inner(x):
        return x + n
    return inner

def make_linked(v):
    @cuda.jit(link="foreign.ptx")
    def k(a):
        a[0] = v
    return k

class Owner:
    def make(self, n):
        class Local:
            @staticmethod
            def make(m):
                @kernel
                def k(a):
                    a[0] = n + m
                return k
        return Local.make(n + 1)
'''

OTHER = """
OTHER = 7
def shared(x):
    return x + OTHER
"""

SIGNATURE = parse_signature("float32[::1]")


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The module of factories, really imported."""
    (tmp_path / "recorded_factories.py").write_text(FACTORIES)
    (tmp_path / "recorded_other.py").write_text(OTHER)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield importlib.import_module("recorded_factories")
    for name in ("recorded_factories", "recorded_other"):
        sys.modules.pop(name, None)


def build(folder: Path, path: Path | None, check: Callable[[Session, Discovery], None], **settings: Any) -> Discovery:
    """What the build of a project finds, with ``check`` called while the definitions live."""
    files = {one.stem: ModuleFile(one.stem, str(one), False) for one in sorted(folder.glob("*.py"))}
    slicer = Slicer(Project(str(folder), files))
    chosen = BuildSettings((), signature_files=(str(path),) if path is not None else (), **settings)
    session = Session(slicer.project, chosen, Cache.open())
    with open_modules(slicer.project, slicer, chosen) as opened:
        found = session.discover(opened)
        check(session, found)
    return found


def nothing(session: Session, found: Discovery) -> None:
    """No check."""


def described(definition: KernelDefinition) -> tuple[bytes, Any]:
    found = compute_fingerprint(
        definition, parse_signature(", ".join(["float32[::1]", "float64"][: parameters(definition)]))
    )
    return found.digest, [(one.label, one.source, one.values) for one in found.checks]


def parameters(definition: KernelDefinition) -> int:
    return definition.function.__code__.co_argcount


VALUES = (
    "4", "-1", "2.5", "True", "'text'", "1 << 80", "1j", "b'\\x00\\xff'", "None", "...", "float('nan')", "-0.0",
    "1e-300", "(1, (2.5, 'x'))", "[1, 2]", "{'a': 1, 2: (3,)}", "{1, 2}", "frozenset({'b'})", "Point(1, 2.5)",
    "Color.RED", "Mode.FAST", "Color", "Point", "int", "min", "math.sqrt",
    "math", "np", "cuda", "cuda.grid", "cuda.threadIdx", "np.float32",
    "np.sqrt", "np.dtype('>i2')", "np.dtype([('x', 'f4'), ('y', 'i8', (2,))], align=True)", "np.float32(0.1)",
    "np.uint64(2**64 - 1)", "np.complex64(1 + 2j)", "np.bool_(True)", "np.datetime64('2020-01-01')", "float32",
    "float32[::1]", "np.array([1.5, 2.5], 'f4')", "np.arange(6).reshape(2, 3)", "np.asfortranarray(np.ones((2, 3)))",
    "np.arange(6)[::2]", "np.array([1+2j])", "np.array([np.nan, -0.0])", "np.zeros(3, [('x', 'f4'), ('n', 'i2')])",
    "np.array(3.5)", "np.array(['ab', 'c'])", "np.zeros((0, 4))", "np.arange(2000.0)", "square", "cube", "numba_cube",
    "make_inner(5)", "make_inner(np.float64(2))", "make_local_device(3)", "make_local_typed(3)",
    "functools.partial(square, x=2)",
    "functools.partial(make_inner(2), 3)", "(square, make_inner(1))", "THE_SETTINGS", "cudabuild.int32",
)  # fmt: skip


@pytest.mark.parametrize("expression", VALUES)
def test_every_value(modules: ModuleType, tmp_path: Path, expression: str) -> None:
    value = eval(expression, vars(modules))
    live = modules.make(value)
    recorder = Recorder(str(tmp_path / "s.toml"))
    recorder.add(live.definition, SIGNATURE, live.dialect)
    recorder.merge()
    wanted = described(live.definition)

    def check(session: Session, found: Discovery) -> None:
        (kernel,) = [one for one in found.kernels if one.qualname == "make.<locals>.k"]
        assert kernel.left is None, kernel.left
        assert kernel.signatures == ("float32[::1]",)
        made = session._kernels["recorded_factories", "make.<locals>.k", ""].definition
        assert made is not None
        assert made.function is not live.definition.function
        assert described(made) == wanted

    build(tmp_path, tmp_path / "s.toml", check)


def test_the_values_have_every_form() -> None:
    (module,) = [ModuleType("recorded_values")]
    exec(FACTORIES.replace("from recorded_other import shared, OTHER", OTHER), vars(module))
    found = set()

    def walk(form: Any) -> None:
        found.add(form_tag(form))
        for inner in nested_forms(form):
            walk(inner)

    sys.modules["recorded_values"] = module
    try:
        describer = Describer(lambda array, name: f"s.arrays/{name}.npy")
        for expression in VALUES:
            walk(describer.value(eval(expression, vars(module)), vars(module)["make"]))
    finally:
        del sys.modules["recorded_values"]
    assert set(FORMS) - found == {"attributes", "same", "unknown"}  # these are tested below


@pytest.mark.parametrize("discovery", ["slice", "import"])
def test_all_that_surrounds(modules: ModuleType, tmp_path: Path, discovery: str) -> None:
    """Attributes of objects, defaults, functions that hold functions, options and dialect, classes inside functions."""
    inner = modules.Settings(N=np.int32(3))
    live = [
        modules.make_attribute(modules.Settings(scale=2, inner=inner, unused=object())),
        modules.make_call(modules.square),
        modules.make_call(modules.make_inner(2)),
        modules.Owner().make(4),
    ]
    recorder = Recorder(str(tmp_path / "s.toml"))
    for kernel in live:
        signature = parse_signature("float32[::1], float64"[: 12 if parameters(kernel.definition) == 1 else None])
        recorder.add(kernel.definition, signature, kernel.dialect)
    recorder.merge()
    wanted = sorted(repr(described(kernel.definition)) for kernel in live)

    def check(session: Session, found: Discovery) -> None:
        unused = ("make.<locals>.k", "make_linked.<locals>.k")
        assert not [str(one.left) for one in found.kernels if one.left and one.qualname not in unused]
        made = [one.definition for one in session._kernels.values() if one.definition is not None]
        assert sorted(repr(described(definition)) for definition in made) == wanted
        options = {one.options["max_registers"] for one in made}
        assert options == {None, 64}

    found = build(tmp_path, tmp_path / "s.toml", check, discovery=discovery)
    variants = [one.variant for one in found.kernels if one.qualname == "make_call.<locals>.k"]
    assert len(set(variants)) == 2
    assert all(variants)


LEFT = [
    ("object()", "v: builtins.object has no name that leads to it cannot be written down", "not-rebuilt"),
    (
        "Settings(a=1)",
        "v: recorded_factories.Settings has no name that leads to it cannot be written down",
        "not-rebuilt",
    ),
    ("Number(3)", "v: recorded_factories.Number has no name that leads to it cannot be written down", "not-rebuilt"),
    ("np.array([None])", "v: an array of object cannot be written down", "not-rebuilt"),
]


@pytest.mark.parametrize(("expression", "reason", "kind"), LEFT)
def test_what_cannot_be_written_down(
    modules: ModuleType, tmp_path: Path, expression: str, reason: str, kind: str
) -> None:
    live = modules.make(eval(expression, vars(modules)))
    recorder = Recorder(str(tmp_path / "s.toml"))
    recorder.add(live.definition, SIGNATURE, live.dialect)
    recorder.merge()
    found = build(tmp_path, tmp_path / "s.toml", nothing)
    (kernel,) = [one for one in found.kernels if one.qualname == "make.<locals>.k"]
    assert kernel.left is not None
    line = next(n for n, text in enumerate(FACTORIES.splitlines(), 1) if text == "    def k(a):")
    assert (kernel.left.file, kernel.left.line, kernel.left.kind) == ("recorded_factories.py", line, kind)
    assert kernel.left.reason == f"{reason} (recorded at s.toml:7)"


def test_foreign_code(modules: ModuleType, tmp_path: Path) -> None:
    live = modules.make_linked(3)
    recorder = Recorder(str(tmp_path / "s.toml"))
    recorder.add(live.definition, SIGNATURE, live.dialect)
    recorder.merge()
    (left,) = [one.left for one in build(tmp_path, tmp_path / "s.toml", nothing).kernels if "linked" in one.qualname]
    assert left is not None
    assert left.reason.startswith("link=: the foreign code that its decorator links to it cannot be written down")


NUMBA = """
import math
import numba
from numba import cuda, float32

def make(n):
    from numba import cuda as nc
    import numba as nb
    @nc.jit(device=True)
    def inner(x):
        return x * n
    @nc.jit
    def k(a):
        local = nc.local.array(2, dtype=nb.float32)
        local[0] = inner(a[nc.grid(1)])
        a[nc.grid(1)] = local[0] + math.sqrt(a[0])
    return k

class Maker:
    def __init__(self, n):
        self.n = n
    def make(self):
        n = self.n
        def impl(a, k=self.n):
            a[cuda.grid(1)] = n + k
        return cuda.jit(impl)
"""


def test_a_package_written_for_numba(tmp_path: Path) -> None:
    (tmp_path / "written_for_numba.py").write_text(NUMBA)
    code = """
    import cudabuild
    cudabuild.adopt("written_for_numba")
    import numpy as np, written_for_numba as m
    from cudabuild.fingerprint import compute_fingerprint
    a = np.ones(4, np.float32)
    for kernel, more in ((m.make(3), ()), (m.Maker(2).make(), (5,))):
        kernel[1, 4](a, *more)
        print(compute_fingerprint(kernel.definition, list(kernel._launchers)[0]).digest.hex())
    """
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu", "CUDABUILD_RECORD": str(tmp_path / "s.toml")}
    command = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = []

    def check(session: Session, discovery: Discovery) -> None:
        assert not [str(kernel.left) for kernel in discovery.kernels if kernel.left]
        for kernel in discovery.kernels:
            definition = session._kernels[kernel.module, kernel.qualname, kernel.variant].definition
            assert definition is not None
            (text,) = kernel.signatures
            found.append(compute_fingerprint(definition, parse_signature(text)).digest.hex())

    build(tmp_path, tmp_path / "s.toml", check, dialect="numba")
    assert sorted(found) == sorted(done.stdout.split())


# sources that changed since, and files that a person wrote

CLOSURE = """
from cudabuild import kernel
N = 3
def make(n, m=2):
    @kernel
    def k(a):
        a[0] = n * N
    return k
"""


def record_closure(folder: Path, monkeypatch: pytest.MonkeyPatch) -> RecordedKernel:
    (folder / "closure_module.py").write_text(CLOSURE)
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module("closure_module")
    try:
        live = module.make(5)
        recorder = Recorder(str(folder / "s.toml"))
        recorder.add(live.definition, SIGNATURE, live.dialect)
        recorder.merge()
    finally:
        del sys.modules["closure_module"]
    (record,) = read_signatures(folder / "s.toml")
    return record


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ("N = 3", "N = 3\n\n# Two lines more.\n", ""),
        ("n * N", "n * N + 1", ""),
        ("n * N", "N", ""),
        ("n * N", "n * N + m", "6: it uses m of the function around it, which was not recorded (recorded at s.toml:7)"),
        (
            "def k",
            "def kk",
            "5: closure_module.py holds no make.<locals>.k: it was renamed or taken out, or made by exec",
        ),
        ("def k(a)", "def k(a, b)", "it has 2 parameters, its recorded signatures 1"),
        ("N = 3", "import torch\nN = torch.N", "3: imports 'torch', which need not be there when a wheel is built"),
        (
            "    return k",
            "    if n:\n        @kernel\n        def k(a):\n            a[0] = n\n    return k",
            "",
        ),
        (
            "        a[0] = n * N\n    return k",
            "        a[0] = n\n    if n:\n        @kernel\n        def k(a):\n            a[0] = n + 1\n    return k",
            "",
        ),
    ],
)
def test_an_edited_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, reason: str
) -> None:
    record_closure(tmp_path, monkeypatch)
    assert before in CLOSURE
    (tmp_path / "closure_module.py").write_text(CLOSURE.replace(before, after, 1))
    found = build(tmp_path, tmp_path / "s.toml", nothing)
    kernels = [one for one in found.kernels if one.qualname == "make.<locals>.k"]
    assert len(kernels) == 1
    if reason:
        assert reason in str(kernels[0].left)
    else:
        assert kernels[0].left is None
        assert kernels[0].signatures == ("float32[::1]",)


def test_two_functions_of_one_name_that_were_both_edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = record_closure(tmp_path, monkeypatch)
    text = CLOSURE.replace("N = 3", "N = 3\n\n").replace("n * N", "n")
    again = "    if n:\n        @kernel\n        def k(a):\n            a[0] = n + 1\n    return k"
    (tmp_path / "closure_module.py").write_text(text.replace("    return k", again))
    (left,) = [one.left for one in build(tmp_path, tmp_path / "s.toml", nothing).kernels if one.left]
    assert "there are several functions make.<locals>.k, and all of them were edited since" in left.reason
    assert record.code


def test_variants_and_hand_written_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = record_closure(tmp_path, monkeypatch)
    plain = replace(record, line=0, code="")
    assert record.code
    more = [replace(plain, captured={"n": n}, signatures=("float64[::1]",)) for n in (5, 6, 7)]
    write_signatures(tmp_path / "s.toml", more)
    found = build(tmp_path, tmp_path / "s.toml", nothing)
    names = [(one.variant, one.signatures) for one in found.kernels]
    assert names == [
        ("n = 5", ("float64[::1]", "float32[::1]")),  # one kernel, recorded twice
        ("n = 6", ("float64[::1]",)),
        ("n = 7", ("float64[::1]",)),
    ]


PLAIN = """
from cudabuild import kernel
@kernel
def grows(a, n):
    a[0] = n
@kernel("float32[::1]")
def declares(a):
    a[0] = 1
"""

PLAIN_FILE = """
[[kernel]]
name = "plain_module:grows"
signatures = ["float32[::1], int64", "float32[::1]"]
[[kernel]]
name = "plain_module:declares"
signatures = ["float32[::1]", "float64[::1]"]
[[kernel]]
name = "plain_module:gone"
signatures = ["int64"]
[[kernel]]
name = "plain_module.sub:gone"
signatures = ["int64"]
[[kernel]]
name = "tests.test_it:k"
signatures = ["int64"]
"""


def test_kernels_that_stand_in_modules(tmp_path: Path) -> None:
    (tmp_path / "plain_module.py").write_text(PLAIN)
    (tmp_path / "s.toml").write_text(PLAIN_FILE)
    found = build(tmp_path, tmp_path / "s.toml", nothing)
    built = {one.qualname: (one.signatures, one.recorded) for one in found.kernels if one.signatures}
    assert built == {
        "declares": (("float32[::1]", "float64[::1]"), {"float64[::1]"}),
        "grows": (("float32[::1], int64",), {"float32[::1], int64"}),
    }
    assert sorted(str(one.left) for one in found.kernels if one.left) == [
        "plain_module.py:1: there is no such kernel any more (recorded at s.toml:8)",
        "plain_module.py:4: its recorded signature 'float32[::1]' (s.toml:2) does not fit it any more: "
        "found 1 types for grows(a, n), expected 2, one for each parameter",
        "plain_module/sub.py:1: there is no such module any more (recorded at s.toml:11)",
    ]
    assert found.notes == ("1 recorded kernel of other packages (tests) not looked at",)
    assert {one.left.kind for one in found.kernels if one.left} == {"stale"}


def test_without_files_nothing_changes(tmp_path: Path) -> None:
    (tmp_path / "plain_module.py").write_text(PLAIN)
    found = build(tmp_path, None, nothing)
    assert {one.qualname: bool(one.left) for one in found.kernels} == {"declares": False, "grows": True}
