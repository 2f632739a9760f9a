# SPDX-License-Identifier: Apache-2.0
"""Kernels put into wheels that some other tool has finished."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from build_helpers import list_images
from test_wheel_file import FILES, check_record, make_wheel

from cudabuild.build.wheel_build import ship_in_wheel
from cudabuild.errors import BuildError

KERNEL = """\
import cudabuild as cb
import not_installed_anywhere

@cb.kernel("float32[::1]")
def k(x):
    x[0] = {value}
"""

SETTINGS = {"archs": "80", "ptx": "none", "index": "64", "jobs": 1}


def test_archives_stand_beside_their_modules_wherever_those_are(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    files = {
        **FILES,
        "pkg/kernels.py": KERNEL.format(value=1).encode(),
        "p-1.data/purelib/other/__init__.py": KERNEL.format(value=2).encode(),
        "single.py": KERNEL.format(value=3).encode(),
        # Of an earlier build: of a target that is no longer built for, and of a package that lost its kernels.
        "pkg/_cudabuild/sm_75.cuar": b"stale",
        "pkg/_cudabuild/.gitignore": b"*",
        "plain/__init__.py": b"",
        "plain/_cudabuild/index.json": b"stale",
        # Archives that some other distribution's modules are served by: none of this wheel's modules is beside them.
        "elsewhere/_cudabuild/sm_90.cuar": b"kept",
        "pkg/_cudabuild_notes/notes.txt": b"kept",
    }
    wheel = make_wheel(tmp_path / "p-1-py3-none-any.whl", files)
    ship_in_wheel(str(wheel), str(tmp_path), SETTINGS)
    check_record(wheel)
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        archive.extractall(tmp_path / "site")
    folders = ("pkg/_cudabuild", "p-1.data/purelib/other/_cudabuild", "_cudabuild_single")
    expected = {f"{folder}/{name}" for folder in folders for name in ("index.json", "sm_80.cuar")}
    kept = {"elsewhere/_cudabuild/sm_90.cuar", "pkg/_cudabuild_notes/notes.txt"}
    assert {name for name in names if "_cudabuild" in name} == expected | kept
    for folder in folders:
        assert list_images(tmp_path / "site" / folder) == {("k", "float32[::1]", "sm_80", 64)}
    assert " in p-1.data/purelib/other/_cudabuild" in capfd.readouterr().out
    before = wheel.read_bytes()
    ship_in_wheel(str(wheel), str(tmp_path), SETTINGS)
    assert wheel.read_bytes() == before


def test_a_wrong_kernel_is_told_by_the_users_own_file(tmp_path: Path) -> None:
    wrong = KERNEL.format(value="unknown_name").encode()
    files = {**FILES, "pkg/kernels.py": wrong, "pkg/generated.py": wrong}
    wheel = make_wheel(tmp_path / "p-1-py3-none-any.whl", files)
    before = wheel.read_bytes()
    source = tmp_path / "project" / "src" / "pkg" / "kernels.py"
    source.parent.mkdir(parents=True)
    source.write_bytes(wrong)
    with pytest.raises(BuildError) as caught:
        ship_in_wheel(str(wheel), str(tmp_path / "project"), SETTINGS)
    text = str(caught.value)
    assert "2 kernel errors; nothing was written" in text
    assert "src/pkg/kernels.py:6" in text
    assert "pkg/generated.py:6" in text  # which the project does not have: a copy of what the wheel holds
    assert wheel.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == [wheel.name, "project"]
