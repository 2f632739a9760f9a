# SPDX-License-Identifier: Apache-2.0
"""Faults of the disk in the middle of a publishing: nothing that was there is lost, nothing is told twice."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest
from disk_calls import Call, DiskCalls, Phase
from image_making import make_image

from cudabuild import config
from cudabuild.cache.store import Cache

pytestmark = pytest.mark.skipif(os.name != "posix", reason="the shim is made for the calls of POSIX systems")

OLD = [f"old{number}" for number in range(3)]


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(config, "_warned", set())
    root = str(tmp_path / "cache")
    for name in OLD:
        Cache(root).publish(make_image(name))
    return root


def failing(error: int, name: str, *, path: str = "", since: str = "before") -> Any:
    """An agent that lets all calls of one name fail on files whose paths end in ``path``."""

    def agent(call: Call, phase: Phase) -> None:
        if phase == since and call.name == name and call.path.endswith(path):
            raise OSError(error, os.strerror(error), call.path)

    return agent


def found(root: str, *names: str) -> list[str]:
    return [name for name in names if Cache(root).find(make_image(name).key, "sm_90") is not None]


UNREADABLE = [
    ("open", "index.cuix"),
    ("os.stat", "index.cuix"),
    ("read", "index.cuix"),
    ("os.listdir", "sm_90"),
    ("open", ".cuar"),
    ("mmap.mmap", ""),
]


@pytest.mark.parametrize("error", [errno.EMFILE, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize(("name", "path"), UNREADABLE)
def test_a_writer_that_cannot_read_loses_nothing(
    root: str, error: int, name: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """An index or a folder that cannot be read for a moment is no empty one."""
    cache = Cache(root)
    with DiskCalls([root], failing(error, name, path=path)):
        cache.publish(make_image("new"))
    assert capsys.readouterr().err.count("\n") <= 1
    assert cache.find(make_image("new").key, "sm_90") is not None
    assert found(root, *OLD) == OLD
    Cache(root).publish(make_image("newer"))
    assert found(root, *OLD, "newer") == [*OLD, "newer"]


@pytest.mark.parametrize(("name", "path"), UNREADABLE)
def test_a_reader_that_cannot_read_says_so_once_and_finds_it_later(
    root: str, name: str, path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    cache = Cache(root)
    with DiskCalls([root], failing(errno.EMFILE, name, path=path)):
        for old in OLD * 2:
            cache.find(make_image(old).key, "sm_90")
    told = capsys.readouterr().err.splitlines()
    assert len(told) <= 1
    assert all("cannot be read (Too many open files)" in line for line in told)
    assert all(cache.find(make_image(old).key, "sm_90") is not None for old in OLD)


def test_a_full_disk_keeps_nothing_of_what_was_written_in_vain(root: str) -> None:
    before = sorted(os.listdir(os.path.join(root, "sm_90")))
    for number in range(6):  # the last ones would merge
        with DiskCalls([root], failing(errno.ENOSPC, "write", path=".tmp", since="half")):
            Cache(root).publish(make_image(f"new{number}"))
        with DiskCalls([root], failing(errno.ENOSPC, "os.replace", path="index.cuix")):
            Cache(root).publish(make_image(f"new{number}"))
    assert sorted(os.listdir(os.path.join(root, "sm_90"))) == before
    assert found(root, *OLD) == OLD


@pytest.mark.parametrize("error", [errno.EBUSY, errno.ESTALE, errno.EACCES])
@pytest.mark.parametrize("name", ["os.unlink", "os.listdir"])
def test_what_cannot_be_cleaned_up_is_no_failure(
    root: str, error: int, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"new{number}" for number in range(8)]

    def agent(call: Call, phase: Phase) -> None:
        if phase == "before" and call.name == name and call.file == "cache/shelf.py" and is_published():
            raise OSError(error, os.strerror(error), call.path)

    def is_published() -> bool:
        return os.stat(os.path.join(root, "sm_90", "index.cuix")).st_ino != before

    for new in names:
        before = os.stat(os.path.join(root, "sm_90", "index.cuix")).st_ino
        with DiskCalls([root], agent):
            Cache(root, limit=1 << 20).publish(make_image(new))
    assert found(root, *OLD, *names) == [*OLD, *names]
    assert capsys.readouterr().err == ""


def test_merging_is_given_up_where_a_segment_cannot_be_read(root: str) -> None:
    names = [f"new{number}" for number in range(5)]
    for name in names[:-1]:
        Cache(root).publish(make_image(name))
    opened: list[str] = []

    def agent(call: Call, phase: Phase) -> None:
        if phase == "before" and call.name == "open" and call.path.endswith(".cuar"):
            opened.append(call.path)
            if len(opened) == 4:  # in the middle of merging
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), call.path)

    with DiskCalls([root], agent):
        Cache(root).publish(make_image(names[-1]))
    assert len(opened) == 4
    assert found(root, *OLD, *names) == [*OLD, *names]


def test_a_note_that_cannot_be_written_leaves_nothing(root: str) -> None:
    cache = Cache(root)
    cache.write_note("tools-1", b"old")
    with DiskCalls([root], failing(errno.ENOSPC, "write", since="half")):
        cache.write_note("tools-1", b"new")
    assert cache.read_note("tools-1") == b"old"
    assert os.listdir(os.path.join(root, "notes")) == ["tools-1"]
