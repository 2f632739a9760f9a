# SPDX-License-Identifier: Apache-2.0
"""Which kernels discovery finds, how their modules are run, and what is said of those left to JIT."""

from __future__ import annotations

import json
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from build_helpers import Found, MakeProject, Setuptools
from corpus_kit import Entry, compare, import_entries, list_entries

from cudabuild.build.discover import find_candidates
from cudabuild.build.slice import Slicer
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.left import KINDS, LeftToJit, find_left

HEAD = "import cudabuild as cb\n"

KERNEL = '@cb.kernel("float32[::1]")\ndef {name}(x):\n    x[0] = {value}\n'


def kernel(value: object, name: str = "k") -> str:
    return KERNEL.format(name=name, value=value)


@pytest.fixture
def forget_modules() -> Iterator[None]:
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.partition(".")[0] in ("m", "pkg"):
            del sys.modules[name]


def left_of(found: Found) -> LeftToJit:
    (one,) = [kernel.left for kernel in found.kernels.values() if kernel.left is not None]
    return one


# What is said of those left to JIT


def test_everything_is_said_of_a_kernel_left_to_jit(discover: Callable[..., Found]) -> None:
    found = discover(
        m=HEAD + "import missing_thing\nSCALE = missing_thing.SCALE\n" + kernel("SCALE") + kernel(1, "good")
    )
    left = left_of(found)
    assert (left.module, left.qualname, left.kind, left.name) == ("m", "k", "import", "SCALE")
    assert (left.file, left.line, left.statement) == ("m.py", 2, "import missing_thing")
    assert left.explain() == (
        "m:k\n"
        "  reason:   m.py:2: imports 'missing_thing', which need not be there when a wheel is built\n"
        "  found:    import missing_thing\n"
        "  needed:   for SCALE\n"
        "  do:       take the value from a module of this project\n"
        "  or:       name 'missing_thing' in allow-imports of [tool.cudabuild] and in [build-system] requires\n"
        '  or:       build without isolation, with discovery = "import" in [tool.cudabuild]'
    )
    assert list(found.values) == ["m:good"]


@pytest.mark.parametrize(
    ("kind", "modules", "place", "name"),
    [
        ("outside", {"m": HEAD + "import socket\nN = socket.AF_INET\n" + kernel("N")}, "m.py:2", "N"),
        ("no-source", {"pkg__m": HEAD + "from ._native import N\n" + kernel("N")}, "pkg/m.py:2", "N"),
        ("fails", {"m": HEAD + "N = {}['n']\n" + kernel("N")}, "m.py:2", "N"),
        ("branch", {"m": HEAD + "if 0:\n" + textwrap.indent(kernel(1), "    ")}, "m.py:4", ""),
        ("not-a-kernel", {"m": HEAD + kernel(1) + "k = len([k])\n"}, "m.py:3", ""),
        ("run-time", {"m": HEAD + "def f():\n" + textwrap.indent(kernel(1), "    ")}, "m.py:4", ""),
        ("foreign", {"m": HEAD + "import textwrap\nk = cb.kernel('float32')(textwrap.dedent)\n"}, "m.py:3", ""),
        (
            "unreadable",
            {"pkg__m": HEAD + "from .bad import N\n" + kernel("N"), "pkg__bad": "\nN = (\n"},
            "pkg/bad.py:2",
            "N",
        ),
        ("device", {"m": HEAD + "from cudabuild import cuda\nN = len(cuda.gpus)\n" + kernel("N")}, "m.py:3", "N"),
    ],
)  # fmt: skip
def test_kinds_of_reasons(
    kind: str, modules: dict[str, str], place: str, name: str, discover: Callable[..., Found]
) -> None:
    left = left_of(discover(**modules))
    assert (left.kind, f"{left.file}:{left.line}", left.name) == (kind, place, name)
    assert left.remedies
    assert "{name}" not in " ".join(left.remedies)


def test_the_kinds_that_no_slice_meets_are_tested_elsewhere() -> None:
    """``no-signature`` by the command, ``import-fails`` below."""
    tested = {"outside", "no-source", "fails", "branch", "not-a-kernel", "run-time", "foreign", "unreadable", "device"}
    assert set(KINDS) >= tested | {"import", "no-signature", "import-fails"}


# What a slice may not ask of the machine


@pytest.mark.parametrize(
    "statement",
    [
        "N = len(cuda.gpus)",
        "N = 0 if not cuda.gpus else 1",
        "N = cuda.get_current_device().id",
        "N = cuda.current_context().get_memory_info()[0]",
        "N = int(cuda.detect())",
        "N = int(cuda.to_device([1.0])[0])",
        "N = cuda.device_array(3).size",
        "t = np.zeros(3, 'f4')\nlaunched[1, 1](t)\nN = t[0]",
    ],
)
def test_a_slice_asks_no_device(statement: str, discover: Callable[..., Found]) -> None:
    launched = '@cb.kernel("float32[::1]")\ndef launched(x):\n    x[0] = 2\n'
    text = HEAD + "import numpy as np\nfrom cudabuild import cuda\n" + launched + statement + "\n" + kernel("N")
    found = discover(m=text)
    left = left_of(found)
    assert left.qualname == "k"
    assert left.kind == "device"
    assert left.statement in ("launched[1, 1](t)", statement)
    assert text.splitlines()[left.line - 1] == left.statement
    assert list(found.values) == ["m:launched"]


def test_what_stands_under_is_available_is_built(discover: Callable[..., Found]) -> None:
    text = HEAD + "from cudabuild import cuda\nif cuda.is_available():\n" + textwrap.indent(kernel(1), "    ")
    assert discover(m=text).values == {"m:k": {}}


# Which modules


def test_packages_and_exclude(make_project: MakeProject, tmp_path: Path, setuptools: Setuptools) -> None:
    make_project(
        pkg__a=HEAD + kernel(1), pkg__b=HEAD + kernel(2), pkg__tests__c=HEAD + kernel(3), other__d=HEAD + kernel(4)
    )
    settings = '[project]\nname = "p"\nversion = "1"\n[tool.cudabuild]\narchs = ["80"]\nindex = "32"\nptx = "none"\n'
    tables = 'packages = ["pkg"]\nexclude = ["*.tests"]\n[tool.setuptools]\npackages = ["pkg", "pkg.tests", "other"]\n'
    (tmp_path / "pyproject.toml").write_text(settings + tables)
    setuptools.python("-m", "cudabuild", "build", "--out", str(tmp_path / "out"), cwd=tmp_path)
    index = json.loads((tmp_path / "out" / "pkg" / "_cudabuild" / "index.json").read_text())
    assert [entry["module"] for entry in index["kernels"]] == ["pkg.a", "pkg.b"]
    assert not (tmp_path / "out" / "other" / "_cudabuild").exists()


def test_numba_kernels_are_candidates_of_their_dialect(make_project: MakeProject) -> None:
    text = (
        "from numba import cuda, float32\nimport numba as nb\n@cuda.jit\ndef k(x): pass\n@nb.cuda.jit\ndef j(x): pass\n"
    )
    device = "@cuda.jit(device=True)\ndef f(x): pass\ng = cuda.jit(f, device=True)\n"
    static = "class C:\n    @staticmethod\n    @cuda.jit\n    def s(x): pass\n"
    project = make_project(pkg__m=text + device + static)
    candidates, _ = find_candidates(Slicer(project))
    assert [(one.name, one.dialect) for one in candidates] == [("k", "numba"), ("j", "numba"), ("C.s", "numba")]


@pytest.mark.parametrize(("strict", "exclude"), [(False, ""), (True, ""), (True, "pkg.bad")])
def test_a_file_that_cannot_be_parsed(
    strict: bool, exclude: str, make_project: MakeProject, tmp_path: Path, setuptools: Setuptools
) -> None:
    """It may hold kernels: told, and an error where none may be left; nothing where the settings leave it out."""
    make_project(pkg__good=HEAD + kernel(1), pkg__bad=HEAD + "def (:\n")
    lines = ["[project]", 'name = "p"', 'version = "1"', "[tool.cudabuild]", 'archs = ["80"]', 'index = "32"']
    lines += ['ptx = "none"', f"strict = {str(strict).lower()}", f'exclude = ["{exclude}"]']
    (tmp_path / "pyproject.toml").write_text("\n".join([*lines, "[tool.setuptools]", 'packages = ["pkg"]', ""]))
    done = setuptools.attempt("-m", "cudabuild", "build", "--out", str(tmp_path / "out"), cwd=tmp_path)
    assert done.returncode == int(strict and not exclude), done.stdout + done.stderr
    told = "pkg/bad.py:2: cannot be parsed" in done.stdout + done.stderr
    assert told is not bool(exclude)


def test_files_that_are_newer_than_the_process_are_known_again(discover: Callable[..., Found]) -> None:
    """On a file server whose clock is ahead every file is; Python 3.11 compiles some calls by what else is compiled."""
    body = "    if 1:\n        x[cuda.grid(1)] = cuda.threadIdx.x\n"
    decorated = '@cb.kernel("float32[::1]")\ndef {name}(x):\n' + body
    guarded = textwrap.indent(decorated.format(name="j"), "    ")
    found = discover(m=HEAD + "from cudabuild import cuda\n" + decorated.format(name="k") + "if cb:\n" + guarded)
    assert set(found.values) == {"m:k", "m:j"}


# discovery = "import"


@pytest.mark.usefixtures("forget_modules")
def test_import_runs_everything(make_project: MakeProject) -> None:
    sets = "import sys\nsetattr(sys.modules['pkg.m'], 'N', 7)\n"
    project = make_project(
        pkg__m=HEAD + "N = 1\nfrom . import late\n" + kernel("N"),
        pkg__late=sets,
        pkg__bad=HEAD + "import missing_thing_at_build\n" + kernel(2),
        pkg__made=HEAD
        + "def make():\n    @cb.kernel('float32')\n    def inner(x): pass\n    return inner\nk = make()\n",
    )
    found = Found(project, imported=True)
    assert found.values == {"pkg.m:k": {"N": "7"}}
    left = found.kernels["pkg.bad:k"].left
    assert left is not None
    assert (left.kind, left.file, left.line) == ("import-fails", "pkg/bad.py", 2)
    assert left.reason == "importing pkg.bad fails here: ModuleNotFoundError: No module named 'missing_thing_at_build'"
    made = found.kernels["pkg.made:make.<locals>.inner"].left
    assert made is not None
    assert made.kind == "run-time"


@pytest.mark.usefixtures("forget_modules")
def test_import_leaves_nothing_behind(make_project: MakeProject) -> None:
    path, modules = list(sys.path), set(sys.modules)
    Found(make_project(pkg__m=HEAD + kernel(1)), imported=True)
    assert sys.path == path
    assert not [name for name in set(sys.modules) - modules if name.startswith("pkg")]


@pytest.mark.usefixtures("forget_modules")
def test_import_and_slice_find_the_same_kernels(make_project: MakeProject) -> None:
    static = textwrap.indent(kernel("N", "s"), "    ")
    table = "T = {'a': cb.kernel('float32[::1]')(lambda x: None)}\n"
    project = make_project(
        pkg__m=HEAD + "N = 3\nN += 1\n" + kernel("N") + "class C:\n    @staticmethod\n" + static,
        pkg__sub__deep=HEAD + "from ..m import N as M\n" + table + kernel("M"),
    )
    sliced, imported = Found(project), Found(project, imported=True)
    assert sliced.values == imported.values
    for name, one in sliced.kernels.items():
        other = imported.kernels[name].definition
        assert one.definition is not None
        assert other is not None
        signature = one.definition.signatures[0]
        assert compute_fingerprint(one.definition, signature).digest == compute_fingerprint(other, signature).digest


def test_discovery_by_import_in_a_build(make_project: MakeProject, tmp_path: Path, setuptools: Setuptools) -> None:
    text = HEAD + "import only_here\nN = only_here.N\n" + kernel("N")
    make_project(pkg__m=text)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "only_here.py").write_text("N = 5\n")
    settings = '[project]\nname = "p"\nversion = "1"\n[tool.cudabuild]\narchs = ["80"]\nindex = "32"\nptx = "none"\n'
    (tmp_path / "pyproject.toml").write_text(settings + '[tool.setuptools]\npackages = ["pkg"]\n')
    command = ("-m", "cudabuild", "build", "--out", str(tmp_path / "out"))
    setuptools.python(*command, cwd=tmp_path, path=[tmp_path / "elsewhere"])
    file = tmp_path / "out" / "pkg" / "_cudabuild" / "index.json"
    assert [left.kind for left in find_left(json.loads(file.read_text()))] == ["import"]
    (tmp_path / "pyproject.toml").write_text(
        settings + 'discovery = "import"\nstrict = true\n[tool.setuptools]\npackages = ["pkg"]\n'
    )
    setuptools.python(*command, cwd=tmp_path, path=[tmp_path / "elsewhere"])
    (entry,) = json.loads(file.read_text())["kernels"]
    assert entry["free_values"] == {"N": "5"}
    done = setuptools.attempt(*command, cwd=tmp_path)
    assert done.returncode == 1
    assert "pkg/m.py:2: importing pkg.m fails here: ModuleNotFoundError: No module named 'only_here'" in done.stderr


# The corpus


@pytest.fixture(scope="module")
def imported() -> dict[str, dict[str, dict[str, str]]]:
    return import_entries([entry for entry in list_entries() if sys.version_info[:2] >= entry.python])


@pytest.mark.parametrize("entry", list_entries(), ids=lambda entry: entry.name)
def test_corpus(entry: Entry, imported: dict[str, dict[str, dict[str, str]]]) -> None:
    if sys.version_info[:2] < entry.python:
        pytest.skip(f"the module is written for Python {'.'.join(map(str, entry.python))}")
    assert compare(entry, imported[entry.name]) == []
