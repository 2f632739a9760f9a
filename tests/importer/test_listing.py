# SPDX-License-Identifier: Apache-2.0
"""``python -m cudabuild list`` and ``inspect``."""

from __future__ import annotations

from pathlib import Path

import pytest
from package_kit import KERNEL, build_archives, write_files

from cudabuild.__main__ import main


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_files(tmp_path_factory.mktemp("site"), {"listed/__init__.py": KERNEL, "lone.py": KERNEL})
    build_archives(root, "listed/_cudabuild", "listed", archs="compute_75 sm_90 sm_80")
    build_archives(root, "_cudabuild_lone", "lone", archs="sm_90")
    return root


def test_list(site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.syspath_prepend(str(site))
    for what in ("listed", str(site / "listed"), str(site / "listed" / "_cudabuild")):
        assert main(["list", what]) == 0
        folder = site / "listed" / "_cudabuild"
        assert capsys.readouterr().out.splitlines() == [
            f"{folder}/sm_80.cuar: sm_80, 2 images",
            f"{folder}/sm_90.cuar: sm_90, 2 images",
            f"{folder}/compute_75.cuar: compute_75, 2 images",
            "listed.scale(int32, float32[::1]): sm_80, sm_90, compute_75 (32+64-bit indices)",
        ]


def test_list_a_module_or_one_archive(
    site: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(site))
    archive = site / "_cudabuild_lone" / "sm_90.cuar"
    for what in ("lone", str(archive)):
        assert main(["list", what]) == 0
        assert capsys.readouterr().out.splitlines() == [
            f"{archive}: sm_90, 2 images",
            "lone.scale(int32, float32[::1]): sm_90 (32+64-bit indices)",
        ]


def test_inspect(site: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", str(site / "_cudabuild_lone" / "sm_90.cuar"), "scale"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "lone.scale(int32, float32[::1])"
    assert "  image:        cubin sm_90, 32-bit indices, 4 bytes" in lines
    assert "  driver:       for CUDA 12.0 or newer" in lines
    assert any(line.startswith("  free values:  ") and "SCALE 3" in line for line in lines)
    assert main(["inspect", str(site / "listed"), "nothing"]) == 0
    assert capsys.readouterr().out == "no kernel whose name holds 'nothing'\n"


def test_nothing_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "surely_not_there"]) == 1
    assert capsys.readouterr().err == (
        "error: no archives\n  found:    surely_not_there\n"
        "  expected: a wheel, an archive, a folder that holds some, or a package that ships some\n"
    )


def test_no_archive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "bad.cuar"
    path.write_bytes(b"nothing of the kind")
    assert main(["inspect", str(path)]) == 1
    assert capsys.readouterr().err.startswith(f"error: {path}: ")
