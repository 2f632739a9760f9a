# SPDX-License-Identifier: Apache-2.0
"""Kernels that call declared functions are found, and built into cubins that hold the linked code."""

from __future__ import annotations

import os
from pathlib import Path

from build_helpers import Found, MakeProject

from cudabuild.build.project import Project
from cudabuild.build.sandbox import Sandbox
from cudabuild.build.settings import BuildSettings
from cudabuild.build.slice import Slicer
from cudabuild.build.worker import CompileResult, Session, Task
from cudabuild.cache.store import Cache

MODULE = """
    import os

    from cudabuild import cuda, kernel

    HERE = os.path.dirname(os.path.abspath(__file__))
    twice = cuda.declare_device("twice", "int32(int32)", link=os.path.join(HERE, "twice.ptx"))


    @kernel("int32[::1]")
    def doubles(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = twice(x[i])
"""

PTX = """.version 6.5
.target sm_50
.address_size 64
.visible .func (.param .b32 status) twice(.param .b64 result, .param .b32 a)
{
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.u64 %rd1, [result];
    ld.param.u32 %r1, [a];
    shl.b32 %r1, %r1, 1;
    st.u32 [%rd1], %r1;
    mov.u32 %r1, 0;
    st.param.b32 [status], %r1;
    ret;
}
"""


def make(make_project: MakeProject, folder: Path, *, with_code: bool = True) -> Project:
    (folder / "pkg").mkdir()
    if with_code:
        (folder / "pkg" / "twice.ptx").write_text(PTX)
    project = make_project(pkg__linked=MODULE)
    os.utime(folder / "pkg" / "linked.py", (0, 0))  # else it is newer than this process, and compared with what runs
    return project


def compiled(project: Project, cache: Path, *targets: str) -> CompileResult:
    session = Session(project, BuildSettings(targets=()), Cache(str(cache)))
    with Sandbox(project, Slicer(project), ()) as sandbox:
        (kernel,) = session.discover(sandbox).kernels
        assert kernel.left is None
        return session.compile(Task(kernel.module, kernel.qualname, kernel.signatures[0], targets, (32, 64)))


def test_found_with_the_content_of_its_code(make_project: MakeProject, tmp_path: Path) -> None:
    found = Found(make(make_project, tmp_path))
    assert found.reasons == {}
    text = found.values["pkg.linked:doubles"]["twice"]
    assert text.startswith("linked function twice int32(int32) numba ")
    assert not text.endswith("absent")


def test_built_into_cubins_alone(make_project: MakeProject, tmp_path: Path) -> None:
    result = compiled(make(make_project, tmp_path), tmp_path / "cache", "sm_80", "compute_75")
    assert result.errors == ()
    assert [(image.target, image.index_width) for image in result.images] == [("sm_80", 32), ("sm_80", 64)]


def test_code_that_is_not_there_is_named(make_project: MakeProject, tmp_path: Path) -> None:
    (error,) = compiled(make(make_project, tmp_path, with_code=False), tmp_path / "cache", "sm_80").errors
    assert "code to be linked cannot be read" in error
    assert str(tmp_path / "pkg" / "twice.ptx") in error
