# SPDX-License-Identifier: Apache-2.0
"""What cudabuild's own source distribution and wheel hold."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parent.parent
LEFT_OUT = shutil.ignore_patterns(
    ".git", ".venv", ".work", "build", "*.egg-info", "__pycache__", ".*_cache", ".hypothesis"
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    project = tmp_path_factory.mktemp("distribution") / "project"
    shutil.copytree(CHECKOUT, project, ignore=LEFT_OUT)
    # cudabuild/build is a package; the pattern above is for the folder of that name beside it.
    shutil.copytree(CHECKOUT / "cudabuild" / "build", project / "cudabuild" / "build", dirs_exist_ok=True)
    shutil.copytree(CHECKOUT / "tests" / "build", project / "tests" / "build", dirs_exist_ok=True)
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(project.parent), str(project)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    return project.parent


def sources(*folders: str) -> set[str]:
    paths = [path for folder in folders for path in (CHECKOUT / folder).rglob("*.py")]
    return {path.relative_to(CHECKOUT).as_posix() for path in paths if ".work" not in path.parts}


def test_the_source_distribution_is_the_checkout(built: Path) -> None:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as stream:
        names = {name.partition("/")[2] for name in stream.getnames()}
    assert sources("cudabuild", "tests", "sample_project") <= names
    assert {".ci/run", "LICENSE", "cudabuild/types/README.md", "tests/golden/wrong_kernels/unknown_name.txt"} <= names
    assert not [name for name in names if name.endswith((".pyc", ".cuar"))]


def test_the_wheel_is_the_package(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        (entries,) = [name for name in archive.namelist() if name.endswith(".dist-info/entry_points.txt")]
        assert "[console_scripts]\ncudabuild = cudabuild.__main__:main" in archive.read(entries).decode()
    assert wheel.name.endswith("-py3-none-any.whl")
    schemas = {path.relative_to(CHECKOUT).as_posix() for path in (CHECKOUT / "cudabuild" / "cli" / "schemas").iterdir()}
    assert len(schemas) >= 5
    assert names == sources("cudabuild") | schemas | {"cudabuild/py.typed"}
