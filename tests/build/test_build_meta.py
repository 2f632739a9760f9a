# SPDX-License-Identifier: Apache-2.0
"""The back-end that wraps others: with each that is installed here, in each mode, and what it must not do."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import sysconfig
import tarfile
import textwrap
import zipfile
from pathlib import Path

import pytest
from build_helpers import Setuptools, list_images

import cudabuild.build_meta
from cudabuild.build.real_backend import find_compile_requirements

KERNEL = """\
import cudabuild as cb
import not_installed_anywhere

@cb.kernel("float32[::1]")
def k(x):
    x[0] = 2
"""

PYPROJECT = """\
[build-system]
requires = ["cudabuild[build]"]
build-backend = "cudabuild.build_meta"
[project]
name = "tiny"
version = "1"
description = "tiny"
requires-python = ">=3.10"
[tool.cudabuild]
{backend}
archs = ["80"]
ptx = "none"
index = "64"
"""

#: A back-end of the project's own, with the two hooks that every back-end has and no other.
IN_TREE = """\
import json, os, zipfile

def build_wheel(folder, config_settings=None, metadata_directory=None):
    assert config_settings in (None, {"other": "1"}), config_settings
    files = {
        "tiny/__init__.py": "", "tiny/kernels.py": open("src/tiny/kernels.py").read(),
        "tiny-1.dist-info/METADATA": "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n",
        "tiny-1.dist-info/WHEEL": "Wheel-Version: 1.0\\nRoot-Is-Purelib: false\\nTag: cp310-abi3-any\\n",
    }
    record = "".join(name + ",,\\n" for name in files) + "tiny-1.dist-info/RECORD,,\\n"
    name = "tiny-1-cp310-abi3-any.whl"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        for member, text in {**files, "tiny-1.dist-info/RECORD": record}.items():
            archive.writestr(member, text)
    return name

def build_sdist(folder, config_settings=None):
    raise NotImplementedError
"""

IMAGE = {("k", "float32[::1]", "sm_80", 64)}

#: back-end -> what must be installed for it
BACKENDS = {
    "setuptools.build_meta": "setuptools",
    "hatchling.build": "hatchling",
    "flit_core.buildapi": "flit_core",
    "poetry.core.masonry.api": "poetry.core",
    "uv_build": "uv_build",
}


def is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    if not is_installed(BACKENDS[name]):
        pytest.skip(f"{BACKENDS[name]} is not installed")
    return name


def make_project(root: Path, backend: str = "", more: str = "") -> Path:
    package = root / "src" / "tiny"
    package.mkdir(parents=True)
    line = f'build-backend = "{backend}"' if backend else ""
    (root / "pyproject.toml").write_text(PYPROJECT.format(backend=line) + more, encoding="utf-8")
    (package / "__init__.py").write_text('"""Tiny."""\n', encoding="utf-8")
    (package / "kernels.py").write_text(KERNEL, encoding="utf-8")
    return root


def call(
    setuptools: Setuptools,
    project: Path,
    out: Path,
    hook: str = "build_wheel",
    settings: str = "None",
    **variables: str,
) -> Path:
    """Calls a hook as front-ends do, by position; the file that it made."""
    out.mkdir(parents=True, exist_ok=True)
    code = f"import cudabuild.build_meta as b; print('made', b.{hook}({str(out)!r}, {settings}))"
    scripts = sysconfig.get_path("scripts")  # as front-ends do: uv_build starts a program that it finds by PATH
    variables["PATH"] = os.pathsep.join([scripts, os.environ.get("PATH", "")])
    output = setuptools.python("-c", code, cwd=project, **variables)
    assert len(list(out.iterdir())) == 1, "something else was left beside the result"
    return out / output.rpartition("made ")[2].split()[0]


def images_of(wheel: Path, site: Path) -> set[tuple[str, str, str, int]]:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    return list_images(site)


def test_every_back_end_after_a_build_in_place(backend: str, tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project", backend)
    folder = project / "src" / "tiny" / "_cudabuild"
    folder.mkdir()
    for name in ("sm_90.cuar", "index.json", ".gitignore"):
        (folder / name).write_text("of an earlier build", encoding="utf-8")
    wheels = [call(setuptools, project, tmp_path / f"out {number}") for number in range(2)]
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    assert wheels[0].name == "tiny-1-py3-none-any.whl"
    assert images_of(wheels[0], tmp_path / "site") == IMAGE
    names = sorted(path.name for path in (tmp_path / "site" / "tiny" / "_cudabuild").iterdir())
    assert names == ["index.json", "sm_80.cuar"]
    (metadata,) = (tmp_path / "site").glob("*.dist-info")
    assert "Root-Is-Purelib: true" in (metadata / "WHEEL").read_text("utf-8")
    record = (metadata / "RECORD").read_text("utf-8")
    assert record.count("tiny/_cudabuild/sm_80.cuar,sha256=") == 1
    assert "sm_90" not in record
    with tarfile.open(call(setuptools, project, tmp_path / "sdist", "build_sdist")) as tar:
        names = tar.getnames()
    assert "tiny-1/src/tiny/kernels.py" in names
    assert not [name for name in names if "_cudabuild" in name]


def test_editable_installations_are_the_real_back_ends_own(
    backend: str, tmp_path: Path, setuptools: Setuptools
) -> None:
    if backend == "hatchling.build" and not is_installed("editables"):
        pytest.skip("editables is not installed")
    project = make_project(tmp_path / "project", backend)
    wheel = call(setuptools, project, tmp_path / "out", "build_editable")
    with zipfile.ZipFile(wheel) as archive:
        assert not [name for name in archive.namelist() if "_cudabuild" in name and not name.startswith("__editable")]
    in_tree = list_images(project / "src")
    assert in_tree == (IMAGE if backend == "setuptools.build_meta" else set())


def test_config_settings_overrule_and_are_not_handed_on(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project", "in_tree", 'backend-path = ["tools"]\n')
    (project / "tools").mkdir()
    (project / "tools" / "in_tree.py").write_text(IN_TREE, encoding="utf-8")
    settings = '{"cudabuild.archs": ["86", "90a"], "cudabuild.index": "32", "other": "1"}'
    wheel = call(setuptools, project, tmp_path / "out", settings=settings, CUDABUILD_ARCHS="75")
    assert wheel.name == "tiny-1-cp310-abi3-any.whl"
    assert images_of(wheel, tmp_path / "site") == {("k", "float32[::1]", target, 32) for target in ("sm_86", "sm_90a")}
    assert "Root-Is-Purelib: false" in (tmp_path / "site" / "tiny-1.dist-info" / "WHEEL").read_text("utf-8")


def test_config_settings_with_setuptools(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project")
    settings = '{"cudabuild.archs": "89", "editable-mode": "strict"}'
    wheel = call(setuptools, project, tmp_path / "out", settings=settings)
    assert images_of(wheel, tmp_path / "site") == {("k", "float32[::1]", "sm_89", 64)}
    call(setuptools, project, tmp_path / "editable", "build_editable", settings)
    (links,) = (project / "build").glob("__editable__*")
    assert {image[2] for image in list_images(links)} == {"sm_89"}
    assert not list_images(project / "src")


def test_setuptools_plug_in_and_wrapper_do_not_both_build(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project", "setuptools.build_meta")
    code = "import cudabuild.build_meta as b; b.build_wheel('.')"
    assert setuptools.python("-c", code, cwd=project).count("images compiled") <= 1
    output = setuptools.python("-c", code, cwd=project)
    assert output.count("1 kernel with 1 signature") == 1


def test_the_back_end_alone_asks_for_kernels(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project")
    text = (project / "pyproject.toml").read_text("utf-8").partition("[tool.cudabuild]")[0]
    (project / "pyproject.toml").write_text(text, encoding="utf-8")
    wheel = call(setuptools, project, tmp_path / "out", CUDABUILD_ARCHS="80", CUDABUILD_PTX="none")
    assert {image[2:] for image in images_of(wheel, tmp_path / "site")} == {("sm_80", 32), ("sm_80", 64)}


def test_without_the_plug_in_the_wrapper_builds(tmp_path: Path, setuptools: Setuptools) -> None:
    """Where cudabuild is on the path but not installed, setuptools finds no plug-in of it."""
    project = make_project(tmp_path / "project")
    bare = Setuptools.__new__(Setuptools)
    bare.path = setuptools.path[1:]
    (tmp_path / "hook").mkdir()
    # Not this environment's own installation of cudabuild either.
    (tmp_path / "hook" / "sitecustomize.py").write_text(
        "import importlib.metadata as m\n"
        "keep = m.entry_points\n"
        "m.entry_points = lambda **k: m.EntryPoints(e for e in keep(**k) if not e.value.startswith('cudabuild'))\n",
        encoding="utf-8",
    )
    code = "import cudabuild.build_meta as b; b.build_wheel('.')"
    output = bare.python("-c", code, cwd=project, path=[tmp_path / "hook"])
    assert output.count("1 kernel with 1 signature") == 1
    (wheel,) = project.glob("*.whl")
    assert images_of(wheel, tmp_path / "site") == IMAGE


@pytest.mark.parametrize(
    ("backend", "more", "message"),
    [
        ("cudabuild.build_meta", "", "found:    'cudabuild.build_meta'\n  expected: the back-end that makes the wheel"),
        ("no_such_backend", "", "the build back-end 'no_such_backend' cannot be imported: No module named"),
        ("json:nothing.there", "", "there is no build back-end 'json:nothing.there'"),
        ("json", 'backend-path = [".."]\n', "found:    '..'\n  expected: a folder inside the project"),
        ("json", "backend-path = 3\n", "found:    3\n  expected: folders separated by"),
    ],
)
def test_wrong_back_ends(tmp_path: Path, setuptools: Setuptools, backend: str, more: str, message: str) -> None:
    project = make_project(tmp_path / "project", backend, more)
    done = setuptools.attempt("-c", "import cudabuild.build_meta as b; b.build_wheel('.')", cwd=project)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_kernel_leaves_no_wheel(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project", "flit_core.buildapi" if is_installed("flit_core") else "")
    kernels = project / "src" / "tiny" / "kernels.py"
    kernels.write_text(KERNEL.replace("x[0] = 2", "x[0] = unknown_name"), encoding="utf-8")
    done = setuptools.attempt("-c", "import cudabuild.build_meta as b; b.build_wheel('.')", cwd=project)
    assert done.returncode == 1
    assert "error: 1 kernel error; nothing was written" in done.stderr
    assert "src/tiny/kernels.py:6" in done.stderr  # the user's own file, not a copy of it
    assert "Traceback" not in done.stderr
    assert sorted(path.name for path in project.iterdir() if path.name != "build") == ["pyproject.toml", "src"]


def test_optional_hooks_are_the_real_back_ends(tmp_path: Path, setuptools: Setuptools) -> None:
    project = make_project(tmp_path / "project", "in_tree", 'backend-path = ["tools"]\n')
    (project / "tools").mkdir()
    names = (
        "build_editable", "get_requires_for_build_editable", "get_requires_for_build_sdist",
        "prepare_metadata_for_build_editable", "prepare_metadata_for_build_wheel",
    )  # fmt: skip
    code = f"import json, cudabuild.build_meta as b; print(json.dumps([n for n in {names!r} if hasattr(b, n)]))"
    (project / "tools" / "in_tree.py").write_text(IN_TREE, encoding="utf-8")
    assert json.loads(setuptools.python("-c", code, cwd=project)) == []
    text = IN_TREE + textwrap.dedent(
        """
        def prepare_metadata_for_build_wheel(metadata_directory, config_settings=None):
            return json.dumps([metadata_directory, config_settings])

        def get_requires_for_build_sdist(config_settings=None):
            return ["something", config_settings]

        def get_requires_for_build_wheel(config_settings=None):
            return ["something"]
        """
    )
    (project / "tools" / "in_tree.py").write_text(text, encoding="utf-8")
    assert json.loads(setuptools.python("-c", code, cwd=project)) == [
        "get_requires_for_build_sdist",
        "prepare_metadata_for_build_wheel",
    ]
    settings = {"cudabuild.archs": "80", "mine": "1"}
    code = (
        "import json, cudabuild.build_meta as b; "
        f"s = {settings!r}; "
        "print(json.dumps([json.loads(b.prepare_metadata_for_build_wheel('m', s)), b.get_requires_for_build_sdist(s),"
        " b.get_requires_for_build_sdist(config_settings=None), b.get_requires_for_build_wheel(s)]))"
    )
    prepared, sdist, bare, wheel = json.loads(setuptools.python("-c", code, cwd=project))
    assert prepared == ["m", {"mine": "1"}]
    assert sdist == ["something", {"mine": "1"}]
    assert bare == ["something", None]
    assert wheel[0] == "something"


def names_of(requirements: list[str]) -> set[str]:
    return {re.split("[;<>=~ ]", requirement)[0] for requirement in requirements}


def test_the_compiler_is_asked_for_by_wheels_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_project(tmp_path / "project"))
    requirements = find_compile_requirements()
    assert {"llvmlite", "nvidia-nvjitlink-cu12", "nvidia-nvvm"} <= names_of(requirements)
    assert not names_of(requirements) & {"setuptools", "pytest", "nvidia-nvjitlink"}
    assert not [one for one in requirements if "extra" in one or "cudabuild" in one]
    assert any(one.startswith("nvidia-nvvm; sys_platform") for one in requirements)
    assert set(requirements) <= set(cudabuild.build_meta.get_requires_for_build_wheel())
    assert not names_of(cudabuild.build_meta.get_requires_for_build_sdist()) & names_of(requirements)
    with pytest.raises(AttributeError, match=r"module 'cudabuild\.build_meta' has no attribute 'nothing'"):
        cudabuild.build_meta.nothing  # noqa: B018


def test_the_settings_say_which_nvjitlink(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(make_project(tmp_path / "project"))
    both = {"nvidia-nvjitlink", "nvidia-nvjitlink-cu12"}
    for settings, expected in (
        ({}, {"nvidia-nvjitlink-cu12"}),
        ({"cudabuild.nvjitlink": "13"}, {"nvidia-nvjitlink"}),
        ({"cudabuild.archs": "90 110"}, both),  # nothing before 13 knows sm_110
    ):
        asked = cudabuild.build_meta.get_requires_for_build_wheel(settings)
        assert names_of(asked) & both == expected, settings
    with pytest.raises(SystemExit, match=r"error: .*no such target"):
        cudabuild.build_meta.get_requires_for_build_wheel({"cudabuild.archs": "81"})
