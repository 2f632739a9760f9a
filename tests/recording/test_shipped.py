# SPDX-License-Identifier: Apache-2.0
"""Recorded kernels from the file to the launch: real builds of a small project, fresh processes on a fake GPU."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]

PYPROJECT = """
[project]
name = "recpkg"
version = "1"
[tool.setuptools]
packages = ["recpkg"]
[tool.cudabuild]
archs = ["90"]
ptx = "none"
index = "32"
signatures = "s.toml"
"""

MODULE = """
import numpy as np
from cudabuild import cuda, kernel

N = 3

def make(n, f=None):
    @kernel
    def k(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = a[i] * n + N
    return k

def twice(x):
    return x * 2

def make_call(f):
    @cuda.jit
    def called(a):
        i = cuda.grid(1)
        if i < a.size:
            a[i] = f(a[i])
    return called

@kernel
def plain(a, n):
    i = cuda.grid(1)
    if i < a.size:
        a[i] = n
"""

RECORDS = """
schema = 1
[[kernel]]
name = "recpkg.module:make.<locals>.k"
signatures = ["float32[::1]"]
captured.n = 4
[[kernel]]
name = "recpkg.module:make.<locals>.k"
signatures = ["float32[::1]"]
captured.n = 5
[[kernel]]
name = "recpkg.module:make.<locals>.k"
signatures = ["float32[::1]"]
captured.n = 2.5
[[kernel]]
name = "recpkg.module:make_call.<locals>.called"
signatures = ["float32[::1]"]
dialect = "numba"
options = { literals = "numba" }
captured.f = { object = "recpkg.module:twice" }
[[kernel]]
name = "recpkg.module:plain"
signatures = ["float32[::1], int64"]
"""

PROBE = """
import hashlib, json, sys
sys.path.insert(0, {runtime!r})
import fake_driver
from cudabuild.runtime.driver import use_driver
fake = fake_driver.FakeDriver()
fake.takes_any_code = True
use_driver(fake)
import numpy as np
from recpkg import module

class Array:
    __cuda_array_interface__ = {{"shape": (32,), "typestr": "<f4", "data": (4096, False), "version": 3}}

def source(kernel, *arguments):
    try:
        kernel[1, 32](Array(), *arguments)
    except Exception as error:
        return [line.strip() for line in str(error).splitlines() if line.startswith("  shipped: sm_90")]
    launcher = list(kernel._launchers.values())[-1]
    return [kernel.image_source(), hashlib.sha256(launcher.bound().image.data).hexdigest()]

print(json.dumps({expression}))
"""


class Built:
    """A copy of the project, built in place."""

    def __init__(self, folder: Path, module: str = MODULE, records: str = RECORDS) -> None:
        self.folder = folder
        self.module = folder / "recpkg" / "module.py"
        self.module.parent.mkdir(parents=True)
        (folder / "recpkg" / "__init__.py").write_text("")
        (folder / "pyproject.toml").write_text(PYPROJECT)
        self.module.write_text(module)
        (folder / "s.toml").write_text(records)

    def build(self, *options: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "cudabuild", "build", "--inplace", *options]
        return subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)

    def ask(self, expression: str, **variables: str) -> Any:
        """What an expression over ``module`` and ``source`` gives in a fresh process that may not compile."""
        code = PROBE.format(runtime=str(CHECKOUT / "tests" / "runtime"), expression=textwrap.dedent(expression))
        environment = {**os.environ, "CUDABUILD_JIT": "never", "PYTHONPATH": str(self.folder), **variables}
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-c", code], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return [*json.loads(done.stdout), done.stderr] if variables else json.loads(done.stdout)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    made = Built(tmp_path_factory.mktemp("recorded") / "project")
    done = made.build("--strict")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "5 kernels with 5 signatures" in done.stdout
    assert "left to JIT" not in done.stdout
    return made


def test_each_variant_takes_its_own_image(built: Built) -> None:
    found = built.ask("[source(module.make(n)) for n in (4, 5, 2.5, 4)]")
    assert [source for source, _ in found] == ["shipped cubin sm_90"] * 4
    codes = [code for _, code in found]
    assert len(set(codes)) == 3
    assert codes[0] == codes[3]


def test_kernels_and_functions_of_modules(built: Built) -> None:
    found = built.ask("[source(module.make_call(module.twice)), source(module.plain, np.int64(3))]")
    assert [source for source, _ in found] == ["shipped cubin sm_90"] * 2


def test_what_was_not_recorded_is_a_miss_with_the_reason(built: Built) -> None:
    expression = """[
        source(module.make(6)),
        source(module.make(4.0)),
        source(module.make_call(lambda x: x)),
        source(module.plain, 3.0),
    ]"""
    found = built.ask(expression)
    assert [line.removeprefix("shipped: sm_90 ") for (line,) in found[:2]] == [
        "n was 2.5, 4 or 5 when built and is 6 now",
        "n was 2.5, 4 or 5 when built and is 4.0 now",
    ]
    assert found[2] == ["shipped: sm_90 the code of f differs from what was built"]
    assert found[3] == ["shipped: sm_90 holds no plain(float32[::1], float)"]


def test_what_was_not_recorded_is_compiled(built: Built, tmp_path: Path) -> None:
    variables = {"CUDABUILD_JIT": "auto", "CUDABUILD_LOG": "info", "CUDABUILD_CACHE_DIR": str(tmp_path)}
    (source, code), errors = built.ask("[source(module.make(6))]", **variables)
    assert source == "compiled cubin sm_90"
    assert code
    assert "shipped: sm_90 n was 2.5, 4 or 5 when built and is 6 now" in errors


def test_edits_that_change_no_meaning_leave_them_bound(built: Built, tmp_path: Path) -> None:
    moved = MODULE.replace("def make(n", "# A comment.\n\ndef make(n")
    built.module.write_text(moved)
    try:
        found = built.ask("[source(module.make(5)), source(module.make_call(module.twice))]")
        built.module.write_text(moved.replace("N = 3", "N = 4"))
        (other,) = built.ask("[source(module.make(5))]")
    finally:
        built.module.write_text(MODULE)
    assert [source for source, _ in found] == ["shipped cubin sm_90"] * 2
    assert other[0].startswith("shipped: sm_90 N was 3 when built and is 4 now")


class TestStale:
    """What the file says and the sources no longer do."""

    RECORDS = """
[[kernel]]
name = "recpkg.module:plain"
signatures = ["float32[::1], int64", "int64, int64"]
[[kernel]]
name = "recpkg.module:make.<locals>.gone"
signatures = ["float32[::1]"]
line = 7
"""

    def test_is_told_and_the_rest_is_built(self, tmp_path: Path) -> None:
        made = Built(tmp_path / "project", records=self.RECORDS)
        done = made.build()
        assert done.returncode == 0, done.stdout + done.stderr
        assert (
            "recpkg.module:make.<locals>.gone: recpkg/module.py:7: recpkg/module.py holds no make.<locals>.gone: it "
            "was renamed or taken out, or made by exec (recorded at s.toml:5)" in done.stdout
        )
        assert (
            "its recorded signature 'int64, int64' does not fit it any more: a number has no attribute" in done.stdout
        )
        index = json.loads((made.module.parent / "_cudabuild" / "index.json").read_text())
        assert [kernel["signature"] for kernel in index["kernels"]] == ["float32[::1], int64"]
        stale = {(one["qualname"], one["line"]) for one in index["left_to_jit"] if one["kind"] == "stale"}
        assert stale == {("make.<locals>.gone", 7), ("plain", 29)}
        assert MODULE.splitlines()[28] == "    if i < a.size:"

    def test_is_an_error_when_strict(self, tmp_path: Path) -> None:
        made = Built(tmp_path / "project", records=self.RECORDS)
        done = made.build("--strict")
        assert done.returncode == 1
        told = done.stdout + done.stderr
        assert "holds no make.<locals>.gone" in told
        assert "recpkg/module.py:29" in told
        assert not (made.module.parent / "_cudabuild").exists()

    @pytest.mark.parametrize("command", [("build", "--inplace"), ("list", "."), ("check",)])
    def test_a_wrong_file_is_told_with_its_line(self, tmp_path: Path, command: tuple[str, ...]) -> None:
        made = Built(tmp_path / "project", records=self.RECORDS + "lines = 7\n")
        line = [sys.executable, "-m", "cudabuild", *command]
        done = subprocess.run(line, cwd=made.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert f"{made.folder / 's.toml'}:9: bad lines\n  found:    an unknown key" in done.stderr
        assert "Traceback" not in done.stderr
