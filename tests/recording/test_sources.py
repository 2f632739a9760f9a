# SPDX-License-Identifier: Apache-2.0
"""Signature files and their arrays are part of source distributions: a wheel is built from these."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from cudabuild.build.sdist_file import remove_artefacts
from cudabuild.build.sources import find_signature_files, read_signature_files

PYPROJECT = """
[project]
name = "withfile"
version = "1"
[tool.setuptools]
py-modules = ["withfile"]
[tool.cudabuild]
archs = ["90"]
ptx = "none"
index = "32"
strict = true
signatures = ["recorded/s.toml"]
"""

MODULE = """
from cudabuild import kernel
def make(table):
    @kernel
    def k(a):
        a[0] = table[1]
    return k
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project whose one kernel captures an array of 8 kB, recorded by a run of it."""
    root = tmp_path / "project"
    (root / "recorded").mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT)
    (root / "withfile.py").write_text(MODULE)
    code = "import numpy as np, withfile; withfile.make(np.arange(1000.0))[1, 1](np.ones(3))"
    command = [
        sys.executable,
        "-m",
        "cudabuild",
        "record",
        "--out",
        "recorded/s.toml",
        "--",
        sys.executable,
        "-c",
        code,
    ]
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu"}
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return root


def test_an_sdist_holds_them_and_a_wheel_is_built_from_it(project: Path, tmp_path: Path) -> None:
    names = find_signature_files(str(project))
    assert [name.rpartition("/")[0] for name in names] == ["recorded/s.arrays", "recorded"]
    code = f"import setuptools.build_meta as b; b.build_sdist({str(tmp_path)!r})"
    done = subprocess.run([sys.executable, "-c", code], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with tarfile.open(tmp_path / "withfile-1.tar.gz") as archive:
        assert {f"withfile-1/{name}" for name in names} <= set(archive.getnames())
        archive.extractall(tmp_path / "unpacked", filter="data")
    code = f"import setuptools.build_meta as b; b.build_wheel({str(tmp_path)!r})"
    unpacked = tmp_path / "unpacked" / "withfile-1"
    done = subprocess.run([sys.executable, "-c", code], cwd=unpacked, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr  # strict: the kernel was built


def test_they_are_put_into_the_sdists_of_other_back_ends(project: Path, tmp_path: Path) -> None:
    path = tmp_path / "withfile-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(project / "withfile.py", "withfile-1/withfile.py")
        archive.add(project / "recorded" / "s.toml", "withfile-1/recorded/s.toml")
    needed = read_signature_files(str(project))
    assert remove_artefacts(str(path), needed) == []
    with tarfile.open(path) as archive:
        assert archive.getnames() == [
            "withfile-1/withfile.py",
            "withfile-1/recorded/s.toml",
            f"withfile-1/{min(needed)}",
        ]
        stream = archive.extractfile(f"withfile-1/{min(needed)}")
        assert stream is not None
        assert stream.read() == needed[min(needed)]
    before = path.read_bytes()
    assert remove_artefacts(str(path), needed) == []
    assert path.read_bytes() == before


def test_what_lies_elsewhere_is_left_alone(project: Path, tmp_path: Path) -> None:
    (tmp_path / "s.toml").write_text("")
    text = PYPROJECT.replace('["recorded/s.toml"]', '["../s.toml", "none.toml"]')
    (project / "pyproject.toml").write_text(text)
    assert find_signature_files(str(project)) == []
    (project / "pyproject.toml").write_text("[tool.cudabuild\n")
    assert find_signature_files(str(project)) == []
