# SPDX-License-Identifier: Apache-2.0
"""``cudabuild cache``: its actions, their JSON, statuses and messages."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.__main__ import main
from cudabuild.cache.store import Cache
from cudabuild.cli.output import load_schema


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "_warned", set())
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("CUDABUILD_SITE_CACHE", str(tmp_path / "site"))
    Cache(str(tmp_path / "cache")).publish(make_image("a"), make_image("b"))
    Cache(str(tmp_path / "cache")).publish(make_image("a", target="sm_80"))
    Cache(str(tmp_path / "site")).publish(make_image("c"))
    return tmp_path / "cache"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Any:
    def run(*arguments: str, status: int = 0) -> str:
        assert main(["cache", *arguments]) == status
        return capsys.readouterr().out

    return run


@pytest.fixture
def json_of(say: Any) -> Any:
    def run(*arguments: str, status: int = 0) -> Any:
        values = json.loads(say(*arguments, "--json", status=status))
        jsonschema.Draft202012Validator(load_schema("cache")).validate(values)
        assert values["action"] == arguments[0]
        return values

    return run


def test_where(root: Path, say: Any, json_of: Any) -> None:
    assert say("where") == f"{root}\n"
    layers = json_of("where")["layers"]
    assert [(layer["path"], layer["kind"], layer["state"]) for layer in layers] == [
        (str(root), "user", "ready"),
        (str(root.parent / "site"), "site", "read-only"),
    ]


def test_where_without_a_place(say: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("CUDABUILD_CACHE_DIR")
    monkeypatch.setattr("cudabuild.cache.upkeep.find_root", lambda: None)
    assert main(["cache", "where"]) == 1
    assert capsys.readouterr().err == (
        "error: there is no place for a cache: this user has no home folder\n"
        "  do:       set CUDABUILD_CACHE_DIR to a folder\n"
    )
    assert "no folder\n  the user's cache; not used: this user has no home folder" in say("info")


def test_info(root: Path, say: Any, json_of: Any) -> None:
    user, site = json_of("info")["layers"]
    assert [(one["target"], one["images"], one["segments"]) for one in user["targets"]] == [
        ("sm_80", 1, 1),
        ("sm_90", 2, 1),
    ]
    assert (user["limit"], site["limit"]) == (1 << 30, None)
    assert user["bytes"] > sum(one["bytes"] for one in user["targets"]) - 1
    text = say("info")
    assert f"{root}\n  the user's cache\n" in text
    assert f"\n\n{root.parent / 'site'}\n  a site cache, only read\n" in text


def test_list(root: Path, say: Any, json_of: Any) -> None:
    images = json_of("list")["images"]
    assert [(Path(one["cache"]).name, one["target"], one["qualname"]) for one in images] == [
        ("cache", "sm_80", "a"),
        ("cache", "sm_90", "a"),
        ("cache", "sm_90", "b"),
        ("site", "sm_90", "c"),
    ]
    assert images[0]["key"] == make_image("a", target="sm_80").key.hex()
    assert images[0]["toolchain"] == make_image("a").toolchain
    assert len(json_of("list", "module.a")["images"]) == 2
    assert len(json_of("list", "--target", "sm_80", "--target", "sm_70")["images"]) == 1
    lines = say("list").splitlines()
    assert lines[0] == str(root)
    assert lines[1].split("  ")[1:4] == ["package.module.a(float32, float32[::1])", "sm_80", "32-bit indices"]
    assert lines[-1].startswith("4 images, ")


def test_verify_and_repair(root: Path, say: Any, json_of: Any) -> None:
    assert json_of("verify")["faults"] == []
    (path,) = (root / "sm_80").glob("seg-*")
    path.write_bytes(path.read_bytes()[:-1])
    assert [(one["kind"], one["repaired"]) for one in json_of("verify", status=1)["faults"]] == [("segment", False)]
    text = say("verify", status=1)
    assert text.startswith(f"segment: {path}: ")
    assert "; 1 fault\n  do:       cudabuild cache verify --repair; or nothing: " in text
    values = json_of("verify", "--repair")
    assert [(one["kind"], one["repaired"]) for one in values["faults"]] == [("segment", True)]
    assert values["images"] == 3
    assert say("verify").endswith("; 0 faults\n")


def test_a_damaged_site_cache_is_told_and_not_touched(root: Path, say: Any) -> None:
    (path,) = (root.parent / "site" / "sm_90").glob("seg-*")
    path.write_bytes(path.read_bytes()[:-1])
    before = {file: file.stat().st_mtime_ns for file in (root.parent / "site").rglob("*")}
    assert f"segment: {path}: " in say("verify", status=1)
    assert "1 fault left of 1" in say("verify", "--repair", status=1)
    say("clear")
    say("prune")
    assert {file: file.stat().st_mtime_ns for file in (root.parent / "site").rglob("*")} == before


def test_prune(root: Path, say: Any, json_of: Any) -> None:
    planned = json_of("prune", "--size", "1", "--dry-run")
    assert (planned["removed"]["images"], planned["dry_run"]) == (3, True)
    assert "3 images in 2 files would be removed" in say("prune", "--size", "1", "--dry-run")
    assert json_of("prune")["removed"] == {"images": 0, "files": 0, "bytes": 0}
    os.utime(next((root / "sm_90").glob("seg-*")), (1e9, 1e9))
    assert json_of("prune", "--unused", "30")["removed"]["images"] == 2
    assert json_of("prune", "--size", "1")["removed"]["images"] == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--size", "lots"], "bad value of --size\n  found:    'lots'\n  expected: a number of bytes, such as "),
        (["--unused", "soon"], "argument --unused: 'soon' is no number of days, such as 30"),
        (["--unused", "-1"], "argument --unused: '-1' is no number of days, such as 30"),
    ],
)
def test_prune_with_wrong_values(
    root: Path, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status: object = main(["cache", "prune", *arguments])
    except SystemExit as ended:
        status = ended.code
    assert status in (1, 2)
    assert message in capsys.readouterr().err


def test_clear(root: Path, say: Any, json_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    values = json_of("clear", "--target", "sm_80")
    assert (values["removed"]["images"], values["busy"]) == (1, [])
    text = say("clear")
    assert text.startswith(f"{root}: 2 images in 1 file removed, ")
    assert json_of("list")["images"][0]["qualname"] == "c", "what the site cache holds stays"
    assert main(["cache", "clear", "--target", "sm_35"]) == 1
    assert capsys.readouterr().err == (
        f"error: nothing is cached for sm_35\n  found:    {root}\n  expected: sm_80 or sm_90\n"
    )


def test_a_lock_that_another_process_keeps(root: Path, say: Any, json_of: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudabuild.cache.shelf.Shelf.remove", lambda self, *_, **__: self.target != "sm_80")
    values = json_of("clear", status=1)
    assert values["busy"] == ["sm_80"]
    assert "busy: sm_80: " in say("clear", status=1)


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
def test_a_cache_that_is_refused(root: Path, say: Any, json_of: Any, capsys: pytest.CaptureFixture[str]) -> None:
    root.chmod(0o777)
    assert json_of("info")["layers"][0]["state"] == "refused"
    assert "not used: others may write to it" in say("info")
    assert [one["kind"] for one in json_of("verify", status=1)["faults"]] == ["refused"]
    for action in ("prune", "clear"):
        assert main(["cache", action]) == 1
        assert capsys.readouterr().err == (
            f"error: the cache {root} cannot be changed\n  found:    others may write to it\n"
            "  expected: a folder that belongs to this user alone\n  do:       set CUDABUILD_CACHE_DIR to one\n"
        )
