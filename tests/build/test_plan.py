# SPDX-License-Identifier: Apache-2.0
"""What is compiled where, and where it goes."""

from __future__ import annotations

import pytest
from build_helpers import MakeProject

from cudabuild.build.plan import FOLDER, find_artefacts, is_artefact, plan_tasks
from cudabuild.build.settings import BuildSettings
from cudabuild.build.worker import FoundKernel
from cudabuild.importer import finder
from cudabuild.target import parse_archs


def test_the_import_hook_looks_where_the_build_writes() -> None:
    assert finder.FOLDER == FOLDER


def test_targets_of_another_linker_go_to_processes_of_their_own() -> None:
    targets = tuple(parse_archs("80 88 110 120+PTX", "none"))
    kernels = [
        FoundKernel("m", "k", "m.py", 1, signatures=("float32[::1]", "float64[::1]")),
        FoundKernel("m", "left", "m.py", 5, left="m.py:5: it declares no signature"),
    ]
    older, newer = plan_tasks(kernels, BuildSettings(targets, index_widths=(64,)))
    assert (older.linker, newer.linker) == (12, 13)
    assert [(task.qualname, task.signature, task.targets, task.index_widths) for task in older.tasks] == [
        ("k", "float32[::1]", ("sm_80", "sm_120", "compute_120"), (64,)),
        ("k", "float64[::1]", ("sm_80", "sm_120", "compute_120"), (64,)),
    ]
    assert {task.targets for task in newer.tasks} == {("sm_88", "sm_110")}
    assert str(newer.tasks[0]) == "m:k(float32[::1])"


@pytest.mark.parametrize(
    ("module", "owner", "inside"),
    [
        ("pkg", "pkg", "pkg/_cudabuild"),
        ("pkg.sub.m", "pkg", "pkg/_cudabuild"),
        ("single", "single", "_cudabuild_single"),
    ],
)
def test_places(make_project: MakeProject, module: str, owner: str, inside: str) -> None:
    project = make_project(pkg="", pkg__sub__m="", single="")
    found = find_artefacts(project, module)
    assert (found.owner, found.inside) == (owner, inside)
    assert project.relative(found.in_tree) == inside


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("src/pkg/_cudabuild/sm_80.cuar", True),
        ("src/pkg/_cudabuild/index.json", True),
        ("_cudabuild_single/.gitignore", True),
        ("src/pkg/_cudabuild/sm_80.cuar.123.new.tmp", True),
        ("src/pkg/notes.tmp", False),
        ("src/pkg/data/sm_80.cuar", False),
        ("src/pkg/_cudabuild/notes.txt", False),
        ("src/pkg/_cudabuilder/index.json", False),
    ],
)
def test_artefacts_are_known_by_folder_and_name(path: str, expected: bool) -> None:
    assert is_artefact(path) is expected
