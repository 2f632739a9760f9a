# SPDX-License-Identifier: Apache-2.0
"""Kernels that a project wrote for numba-cuda, found and built by ``dialect = "numba"`` or ``adopt``."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from build_helpers import CHECKOUT, Found, read_project

from cudabuild.build.candidates import find_candidates
from cudabuild.build.sandbox import Sandbox
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.build.worker import Session
from cudabuild.cache.store import Cache

#: Every way in which the packages of ``tests/wild`` write their kernels at module level or as static methods.
FILES = {
    "pkg/__init__.py": "import unknown_package",
    "pkg/core.py": """
        from numba import njit, prange, set_num_threads, types
        import numba

        @njit(fastmath=True)
        def square(x):
            return numba.float64(x) * x

        @numba.jit(nopython=True, parallel=True)
        def on_the_cpu(x):
            for i in prange(len(x)):
                x[i] = 0
    """,
    "pkg/kernels.py": """
        import numba as nb, xarray
        from numba import cuda, float32, guvectorize, typed
        from numba.cuda import jit as gpu_jit
        import numba.cuda
        from numba.typed import Dict
        from pkg import core
        from pkg.core import square

        SIGNATURE = "(f4[:], i8)"

        @cuda.jit
        def plain(x):
            x[0] = square(x[0])

        @cuda.jit(SIGNATURE)
        def typed_one(x, n):
            x[0] = n

        @nb.cuda.jit("void(float64[:])", fastmath=True)
        def through_the_package(x):
            x[0] = core.square(x[0])

        @gpu_jit(nb.void(float32[:]))
        def through_a_name(x):
            x[0] = float32(2)

        @cuda.jit(device=True)
        def helper(x):
            return x

        @cuda.jit("f8(f8)", device=True, inline=True)
        def typed_helper(x):
            return x

        class Holder:
            @staticmethod
            @cuda.jit("void(int64[:])")
            def method(x):
                x[0] = helper(x[0])

        def host(x):
            x[0] = 1

        called = cuda.jit("void(int32[:])")(host)

        if hasattr(cuda, "grid"):
            @cuda.jit("void(int32[:])")
            def under_if(x):
                x[0] = typed_helper(1.0)

        @guvectorize(["void(float64[:], float64[:])"], "(n)->(n)")
        def not_a_kernel(x, out):
            out[0] = 1

        def make(n):
            @cuda.jit
            def made(x):
                x[0] = n
            return made
    """,
}
MADE = ["Holder.method", "host", "plain", "through_a_name", "through_the_package", "typed_one", "under_if"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        os.utime(path, (0, 0))  # else it is newer than this process, and compared with what runs
    return tmp_path


def test_all_are_found_without_importing(root: Path) -> None:
    found = Found(read_project(root))
    assert sorted(name.removeprefix("pkg.kernels:") for name in found.values) == MADE
    assert list(found.reasons) == ["pkg.kernels:make.<locals>.made"]


def test_values_do_not_depend_on_numba(root: Path) -> None:
    """A function for CPUs is a device function: what is frozen of it is what the adopted package has when it runs."""
    values = Found(read_project(root)).values["pkg.kernels:through_the_package"]
    assert values["core.square/numba.float64"] == "type float64"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, []), ({"dialect": "numba"}, MADE), ({"adopt": ("pkg.kernels",)}, MADE), ({"adopt": ("pkg.core",)}, [])],
)
def test_they_are_ours_only_where_they_were_adopted(
    root: Path, settings: dict[str, object], expected: list[str]
) -> None:
    project = read_project(root)
    slicer = Slicer(project)
    assert {candidate.dialect for candidate in find_candidates(slicer)[0]} == {"numba"}
    with Sandbox(project, slicer) as sandbox:
        found = Session(project, BuildSettings((), **settings), Cache.open()).discover(sandbox)  # type: ignore[arg-type]
    names = [kernel.qualname for kernel in found.kernels if kernel.left is None or kernel.left.kind == "no-signature"]
    assert sorted(names) == expected


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("from numba.typed import Dict\nN = len(Dict())", "numba.typed.Dict means nothing to a kernel"),
        ("import numba\nN = numba.typed.count", "numba.typed means nothing to a kernel"),
        ("try:\n    from numba import gdb\n    N = 1\nexcept ImportError:\n    N = 2", "numba.gdb means nothing"),
    ],
)
def test_values_from_the_cpu_side_are_not_guessed(tmp_path: Path, lines: str, reason: str) -> None:
    text = f"from numba import cuda\n{lines}\n@cuda.jit('void(int64[:])')\ndef f(x):\n    x[0] = N\n"
    (tmp_path / "m.py").write_text(text, encoding="utf-8")
    found = Found(read_project(tmp_path))
    assert not found.values
    assert reason in found.reasons["m:f"]


PROJECT = {
    "pyproject.toml": """
        [project]
        name = "old"
        version = "1.0"
        [tool.setuptools]
        packages = ["old"]
        [tool.cudabuild]
        archs = [80]
        ptx = "none"
        index = 64
        dialect = "numba"
    """,
    "old/__init__.py": """
        from numba import cuda

        @cuda.jit("void(float32[:])")
        def double(x):
            i = cuda.grid(1)
            if i < x.size:
                x[i] *= 2
    """,
}


@pytest.mark.parametrize("setting", ['dialect = "numba"', 'adopt = ["old"]'])
def test_a_build_for_numba_is_adopted_when_it_runs(tmp_path: Path, setting: str) -> None:
    """Not a line of the package is changed: its archives say that it is to be adopted."""
    for name, text in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text).replace('dialect = "numba"', setting), encoding="utf-8")
    build = [sys.executable, "-m", "cudabuild", "build", "--inplace"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(CHECKOUT), str(tmp_path)])}
    done = subprocess.run(
        build, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert {path.name for path in (tmp_path / "old/_cudabuild").iterdir()} >= {"sm_80.cuar", "dialect-numba"}
    code = "from cudabuild.importer.binding import find_archive_folders as find; import old"
    ask = [sys.executable, "-c", f"{code}; print(old.cuda.grid, find(old.double.py_func))"]
    told = subprocess.run(ask, env=environment, capture_output=True, text=True, timeout=60, check=True).stdout
    assert told.startswith("cuda.grid [<cudabuild.importer.binding.ArchiveFolder")
    undone = [*build, "--dialect", "cudabuild", "--adopt", "nothing"]
    undo = subprocess.run(
        undone, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240, check=True
    )
    assert "no kernels found" in undo.stdout
    assert not (tmp_path / "old/_cudabuild").exists()
