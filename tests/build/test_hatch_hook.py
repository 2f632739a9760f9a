# SPDX-License-Identifier: Apache-2.0
"""hatchling with the build hook: wheels, source distributions and editable installations."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from build_helpers import Setuptools, list_images
from test_build_meta import IMAGE, KERNEL, images_of

pytest.importorskip("hatchling")

PYPROJECT = """\
[build-system]
requires = ["hatchling", "cudabuild"]
build-backend = "hatchling.build"
[project]
name = "tiny"
version = "1"
[tool.hatch.build.hooks.cudabuild]
[tool.cudabuild]
archs = ["80"]
ptx = "none"
index = "64"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> Path:
    package = tmp_path / "project" / "src" / "tiny"
    package.mkdir(parents=True)
    (tmp_path / "project" / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "kernels.py").write_text(KERNEL, encoding="utf-8")
    return tmp_path / "project"


def call(setuptools: Setuptools, project: Path, out: Path, hook: str = "build_wheel") -> Path:
    out.mkdir()
    code = f"import hatchling.build as b; print('made', b.{hook}({str(out)!r}))"
    return out / setuptools.python("-c", code, cwd=project).rpartition("made ")[2].split()[0]


def test_wheel_and_sdist_after_a_build_in_place(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    setuptools.python("-m", "cudabuild", "build", "--archs", "90", cwd=tiny)
    wheel = call(setuptools, tiny, tmp_path / "out")
    assert wheel.name == "tiny-1-py2.py3-none-any.whl"
    assert images_of(wheel, tmp_path / "site") == IMAGE
    assert sorted(path.name for path in (tmp_path / "site" / "tiny" / "_cudabuild").iterdir()) == [
        "index.json",
        "sm_80.cuar",
    ]
    assert wheel.read_bytes() == call(setuptools, tiny, tmp_path / "again").read_bytes()
    with tarfile.open(call(setuptools, tiny, tmp_path / "sdist", "build_sdist")) as tar:
        assert not [name for name in tar.getnames() if "_cudabuild" in name]


def test_an_editable_installation_is_built_in_place(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    call(setuptools, tiny, tmp_path / "out", "build_editable")
    folder = tiny / "src" / "tiny" / "_cudabuild"
    assert list_images(folder) == IMAGE
    assert (folder / ".gitignore").read_text("utf-8") == "*\n"


def test_the_hook_behind_the_wrapper_builds_once(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    text = PYPROJECT.replace('"hatchling.build"', '"cudabuild.build_meta"') + 'build-backend = "hatchling.build"\n'
    (tiny / "pyproject.toml").write_text(text, encoding="utf-8")
    (tmp_path / "out").mkdir()
    code = f"import cudabuild.build_meta as b; b.build_wheel({str(tmp_path / 'out')!r}, {{'cudabuild.archs': '89'}})"
    output = setuptools.python("-c", code, cwd=tiny)
    assert output.count("1 kernel with 1 signature") == 1
    (wheel,) = (tmp_path / "out").iterdir()
    assert images_of(wheel, tmp_path / "site") == {("k", "float32[::1]", "sm_89", 64)}


def test_a_wrong_kernel_leaves_no_wheel(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    kernels = tiny / "src" / "tiny" / "kernels.py"
    kernels.write_text(KERNEL.replace("= 2", "= unknown_name"), encoding="utf-8")
    (tmp_path / "out").mkdir()
    code = f"import hatchling.build as b; b.build_wheel({str(tmp_path / 'out')!r})"
    done = setuptools.attempt("-c", code, cwd=tiny)
    assert done.returncode == 1
    assert "error: 1 kernel error; nothing was written" in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").iterdir())


def test_the_compiler_is_asked_for_by_wheels_alone(tiny: Path, tmp_path: Path, setuptools: Setuptools) -> None:
    metadata = tmp_path / "installed" / "cudabuild-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "entry_points.txt").write_text("[hatch]\ncudabuild = cudabuild.build.hatch_hook\n", encoding="utf-8")
    lines = ["Metadata-Version: 2.1", "Name: cudabuild", "Version: 0.1.0", "Requires-Dist: numpy"]
    lines += ["Requires-Dist: cudabuild[jit]; extra == 'build'", "Requires-Dist: llvmlite>=0.48; extra == 'jit'"]
    (metadata / "METADATA").write_text("\n".join(lines) + "\n", encoding="utf-8")
    code = "import hatchling.build as b; print(b.get_requires_for_build_wheel(), '|', b.get_requires_for_build_sdist())"
    output = setuptools.python("-c", code, cwd=tiny, path=[tmp_path / "installed"])
    wheel, _, sdist = output.partition("|")
    assert "'llvmlite>=0.48'" in wheel
    assert "llvmlite" not in sdist
    assert "numpy" not in output
    assert "cudabuild" not in output
