# SPDX-License-Identifier: Apache-2.0
"""Locks: between holders in one process and in several, for ranges of one file and for whole files."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from cudabuild import config
from cudabuild.cache import locks
from cudabuild.cache.locks import KeyLocks, hold_lock, try_lock

KEYS = [bytes([7, number]) + bytes(30) for number in range(4)]  # one first byte: one whole file
WARNING = "no locks here"

posix = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks to be quick")
ranges_only = pytest.mark.skipif(not locks._has_ranges, reason="locks of byte ranges are Linux's")


@pytest.fixture(params=["ranges", "whole files"], autouse=True)
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(config, "_warned", set())
    if request.param == "ranges" and not locks._has_ranges:
        pytest.skip("locks of byte ranges are Linux's")
    monkeypatch.setattr(locks, "_has_ranges", request.param == "ranges")
    return str(request.param)


def make(folder: Path) -> KeyLocks:
    return KeyLocks(str(folder), WARNING)


def test_a_key_has_one_holder_at_a_time(tmp_path: Path) -> None:
    one, other = make(tmp_path), make(tmp_path)
    assert one.try_take(KEYS[0])
    assert one.try_take(KEYS[0]), "a holder has what it has"
    assert not other.try_take(KEYS[0])
    one.release()
    assert other.try_take(KEYS[0])
    assert not one.try_take(KEYS[0])
    other.release()


def test_keys_do_not_wait_for_each_other(tmp_path: Path, kind: str) -> None:
    with make(tmp_path) as one, make(tmp_path) as other:
        assert one.try_take(KEYS[0])
        assert [other.try_take(key) for key in KEYS[1:]] == [kind == "ranges"] * 3
        assert one.try_take(KEYS[3]) == (kind == "whole files")
    assert len(os.listdir(tmp_path)) == 1


def test_thousands_of_keys_are_one_empty_file(tmp_path: Path, kind: str) -> None:
    with make(tmp_path) as one, make(tmp_path) as other:
        keys = [number.to_bytes(32, "big") if number % 2 else number.to_bytes(32, "little") for number in range(3000)]
        if kind == "whole files":
            keys = keys[:1]
        assert all(map(one.try_take, keys))
        assert not any(map(other.try_take, keys))
    assert sum(os.stat(path).st_size for path in tmp_path.iterdir()) == 0
    assert len(os.listdir(tmp_path)) == 1


def test_a_wait_ends_when_the_holder_lets_go(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    taken = threading.Event()

    def hold() -> None:
        with make(tmp_path) as holder, hold_lock(path, 1, "nothing"):
            holder.take(KEYS[0], 1, "nothing")
            taken.set()
            time.sleep(0.2)

    thread = threading.Thread(target=hold)
    thread.start()
    taken.wait(10)
    start = time.monotonic()
    assert try_lock(path) is None
    with make(tmp_path) as other, hold_lock(path, 10, "something") as held:
        assert other.take(KEYS[0], 10, "something")
        assert held
    assert 0.1 < time.monotonic() - start < 5
    thread.join()
    release = try_lock(path)
    assert release is not None
    release()


def test_a_wait_is_bounded_and_names_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDABUILD_LOG", "info")
    monkeypatch.setattr(locks, "_PATIENCE", 0.05)
    path = str(tmp_path / "lock")
    with hold_lock(path, 1, "nothing"), hold_lock(path, 0.2, "something") as held:
        assert not held
    told = capsys.readouterr().err.splitlines()
    assert told == [
        f"cudabuild: waiting for something in another process ({path})",
        f"cudabuild: the lock {path} was not free within 0 s: going on without",
    ]
    with hold_lock(path, 0.1, "something") as held:
        assert held


@posix
def test_a_killed_holder_lets_go(tmp_path: Path) -> None:
    child = os.fork()
    if child == 0:
        holder = make(tmp_path)
        holder.take(KEYS[0], 1, "nothing")
        (tmp_path / "held").touch()
        time.sleep(60)
        os._exit(0)
    while not (tmp_path / "held").exists():
        time.sleep(0.005)
    with make(tmp_path) as other:
        assert not other.try_take(KEYS[0])
        os.kill(child, signal.SIGKILL)
        assert other.take(KEYS[0], 10, "something")
    os.waitpid(child, 0)


@posix
def test_a_forked_process_holds_nothing_of_its_parents(tmp_path: Path, kind: str) -> None:
    holder = make(tmp_path)
    holder.take(KEYS[0], 1, "nothing")
    gate, wait = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(wait)
        (tmp_path / f"taken {make(tmp_path).try_take(KEYS[0])}").touch()
        os.read(gate, 1)
        os._exit(0)
    while not list(tmp_path.glob("taken *")):
        time.sleep(0.005)
    assert (tmp_path / "taken False").exists()
    with make(tmp_path) as other:
        assert not other.try_take(KEYS[0])
        holder.release()
        assert other.try_take(KEYS[0]), "while the forked process lives"
    os.close(wait)
    os.waitpid(child, 0)


def test_a_place_without_locks_is_one_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "locks"
    with make(folder) as one:
        assert one.try_take(KEYS[0])
        assert not one.take(KEYS[1], 60, "something")
    with hold_lock(str(folder / "a"), 60, "something", WARNING) as held:
        assert not held
    release = try_lock(str(folder / "b"), WARNING)
    assert release is not None
    release()
    assert capsys.readouterr().err.count("\n") == 1


@ranges_only
@pytest.mark.parametrize("error", [errno.ENOLCK, errno.EIO, errno.ESTALE, errno.EBUSY, errno.EDQUOT])
def test_an_error_of_a_lock_is_no_holder(
    error: int, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind != "ranges":
        pytest.skip("what filelock does with errors is its own")

    def fail(*args: Any) -> Any:
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(locks.fcntl, "fcntl", fail)
    start = time.monotonic()
    with make(tmp_path) as one, hold_lock(str(tmp_path / "a"), 60, "something", WARNING) as held:
        assert not held
        assert not one.take(KEYS[0], 60, "something")
    assert time.monotonic() - start < 5
    (line,) = capsys.readouterr().err.splitlines()
    assert os.strerror(error) in line
    monkeypatch.undo()
    monkeypatch.setattr(locks, "_has_ranges", True)
    with make(tmp_path) as other:
        assert other.try_take(KEYS[0]), "the file was closed"


@ranges_only
def test_a_kernel_that_knows_no_ranges_locks_whole_files(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if kind != "ranges":
        pytest.skip("it does so here")
    real = locks.fcntl.fcntl

    def refuse(file: int, command: int, *args: Any) -> Any:
        if command == locks.fcntl.F_OFD_SETLK:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return real(file, command, *args)

    monkeypatch.setattr(locks.fcntl, "fcntl", refuse)
    with make(tmp_path) as one, make(tmp_path) as other:
        assert one.try_take(KEYS[0])
        assert not other.try_take(KEYS[0])
        assert not other.try_take(KEYS[1]), "another key of the same file"
        one.release()
        assert other.try_take(KEYS[0])
    with hold_lock(str(tmp_path / "a"), 1, "x") as held, hold_lock(str(tmp_path / "a"), 0.01, "x") as again:
        assert held
        assert not again
    assert capsys.readouterr().err.count("\n") == 1  # that it was not free


def test_whether_locks_need_a_library(kind: str) -> None:
    """On Linux a first compilation does not wait for filelock to be imported."""
    saved = {name: sys.modules.pop(name) for name in list(sys.modules) if name.partition(".")[0] == "filelock"}
    try:
        locks.prepare_locks()
        assert ("filelock" in sys.modules) == (kind == "whole files")
    finally:
        sys.modules.update(saved)
