# SPDX-License-Identifier: Apache-2.0
"""A. Files that are cut off, half-written, mixed up or damaged, and writers that are stopped anywhere."""

from __future__ import annotations

import builtins
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from cases_kit import Machine, load, ship
from image_making import make_image

import cudabuild
from cudabuild import config
from cudabuild.cache.store import Cache

KERNEL = "N = 4\ndef k(x):\n    x[0] = N\n"
OURS = os.path.dirname(cudabuild.__file__)


def files(root: Path, kind: str) -> list[Path]:
    found = sorted(root.rglob("*.cuix" if kind == "index" else "*.cuar"))
    assert found
    return found


@pytest.mark.parametrize("kind", ["index", "archive"])
@pytest.mark.parametrize("length", ["empty", "one byte", "half", "all but one"])
def test_a_cut_off_file_is_one_warning_and_one_compilation(
    root: Path, tmp_path: Path, kind: str, length: str, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(tmp_path, KERNEL)
    symbol = Machine(root).launch(module.k)
    (path,) = files(root, kind)
    whole = path.read_bytes()
    keep = {"empty": 0, "one byte": 1, "half": len(whole) // 2, "all but one": len(whole) - 1}[length]
    path.write_bytes(whole[:keep])
    second = Machine(root)
    assert second.launch(module.k) == symbol
    assert second.launch(module.k) == symbol
    told = capsys.readouterr().err.splitlines()
    # An index without a byte is one that another process is about to write.
    assert len(told) == (kind == "archive" or keep > 0)
    assert all(str(path) in line for line in told)
    assert len(second.compiled) == 1
    third = Machine(root)
    assert third.launch(module.k) == symbol
    assert third.compiled == []
    assert capsys.readouterr().err == ""
    assert not path.exists() or path.read_bytes() != whole[:keep], "the file was replaced"


@pytest.mark.parametrize("length", [0, 1, 0.5, -1])
def test_a_cut_off_archive_in_a_package_is_one_warning_and_the_next_best(
    root: Path, tmp_path: Path, length: float, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(tmp_path, KERNEL, "case_cut")
    folder = tmp_path / "_cudabuild_case_cut"
    ship(folder, [module.k], "sm_90 compute_75")
    path = folder / "sm_90.cuar"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * length) if isinstance(length, float) else length])
    machine = Machine(root)
    kernel = machine.kernel(module.k)
    machine.launch(module.k)
    assert machine.launch(module.k)
    told = capsys.readouterr().err.splitlines()
    assert len(told) == 1
    assert str(path) in told[0]
    assert machine.compiled == []
    assert b"compute_75" in machine.fake.given[-1]
    assert kernel is not None


def test_damaged_code_is_made_anew_before_the_driver_sees_it(root: Path, tmp_path: Path) -> None:
    """A bit in every part of a cached image; :meth:`Machine.launch` looks at all that the driver is given."""
    module = load(tmp_path, KERNEL)
    symbol = Machine(root).launch(module.k)
    (path,) = files(root, "archive")
    whole = path.read_bytes()
    at = whole.index(b"code of ")
    for offset in range(0, len(whole) - at, 37):
        damaged = bytearray(whole)
        damaged[at + offset] ^= 1 << offset % 8
        copy = root.with_name("damaged")
        shutil.copytree(root, copy)
        (copy / path.relative_to(root)).write_bytes(damaged)
        machine = Machine(copy)
        assert machine.launch(module.k) == symbol
        assert machine.compiled == [symbol], offset
        again = Machine(copy)
        assert again.launch(module.k) == symbol
        assert again.compiled == []
        shutil.rmtree(copy)


def test_files_of_two_builds_are_never_taken_for_one(root: Path, tmp_path: Path) -> None:
    """One archive is of the source before, the other of the source now."""
    folder = tmp_path / "_cudabuild_case_two"
    old = load(tmp_path, KERNEL, "case_two")
    ship(folder, [old.k], "sm_90")
    new = load(tmp_path, KERNEL.replace("x[0] = N", "x[0] = N + 1"), "case_two")
    ship(folder, [new.k], "compute_75")
    machine = Machine(root)
    kernel = machine.kernel(new.k)
    machine.launch(new.k)
    assert b"compute_75" in machine.fake.given[0]
    assert machine.compiled == []
    assert kernel.__name__ == "k"


class Interruption(BaseException):
    """What a signal handler may raise, between any two lines."""


class LineTrap:
    """Raises at one line of our files, when it runs for the first time; notes every line."""

    def __init__(self, at: tuple[str, int] | None = None) -> None:
        self.at = at
        self.seen: dict[tuple[str, int], None] = {}

    def __call__(self, frame: FrameType, event: str, argument: object) -> Any:
        file = frame.f_code.co_filename
        if not file.startswith(OURS) or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            place = (file[len(OURS) :], frame.f_lineno)
            self.seen[place] = None
            if place == self.at:
                self.at = None
                raise Interruption
        return self


def run_traced(trap: LineTrap, work: Callable[[], object]) -> bool:
    """Whether the work came to its end."""
    before = sys.gettrace()
    sys.settrace(trap)
    try:
        work()
    except Interruption:
        return False
    finally:
        sys.settrace(before)
    return True


@pytest.mark.filterwarnings("ignore:unclosed file", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_exception_at_any_line_of_a_publishing_leaves_a_sound_cache(
    root: Path, request: pytest.FixtureRequest
) -> None:
    old = [make_image(f"old{number}") for number in range(8)]
    for image in old[:7]:
        Cache(str(root)).publish(image)
    Cache(str(root)).publish(make_image("lost", target="sm_80"))
    copies = iter(range(10**6))

    def attempt(at: tuple[str, int] | None) -> tuple[LineTrap, bool]:
        copy = root.with_name(f"copy{next(copies)}")
        shutil.copytree(root, copy)
        cache, trap = Cache(str(copy)), LineTrap(at)
        finished = run_traced(trap, lambda: cache.publish(old[7]))  # the eighth: it merges
        for image in old[:7]:
            found = Cache(str(copy)).find(image.key, "sm_90")
            assert found is not None, at
            assert bytes(found.data) == image.data
        found = Cache(str(copy)).find(old[7].key, "sm_90")
        assert found is None or bytes(found.data) == old[7].data
        assert found is not None or not finished
        cache.publish(make_image("next"))  # by the same process: no lock is left behind
        assert Cache(str(copy)).find(make_image("next").key, "sm_90") is not None, at
        shutil.rmtree(copy)
        return trap, finished

    trap, finished = attempt(None)
    assert finished
    assert len(trap.seen) > 100
    assert any("write.py" in file for file, _ in trap.seen)
    every = 1 if request.config.getoption("--examples") else 5  # every line, where more is asked for
    places = [place for number, place in enumerate(trap.seen) if number % every == 0 or "locks.py" in place[0]]
    stopped = [not attempt(place)[1] for place in places]
    assert sum(stopped) > 0.9 * len(stopped), "most lines let an exception through"


def test_a_reader_beside_a_writer_sees_what_was_there_or_all_of_it(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before and after every call of the writer: what another process sees while the writer is stopped there."""
    old = [make_image(f"old{number}") for number in range(7)]
    new = make_image("new")
    for image in old:
        Cache(str(root)).publish(image)
    real = {
        (module, name): getattr(module, name)
        for module, name in [(os, "replace"), (os, "unlink"), (os, "open"), (os, "stat"), (os, "listdir"),
                             (builtins, "open")]
    }  # fmt: skip
    looks: list[bool] = []

    def look() -> None:
        monkeypatch.undo()
        try:
            for image in old:
                found = Cache(str(root)).find(image.key, "sm_90")
                assert found is not None
                assert bytes(found.data) == image.data
            found = Cache(str(root)).find(new.key, "sm_90")
            assert found is None or bytes(found.data) == new.data
            looks.append(found is not None)
        finally:
            watch()

    def watch() -> None:
        for (module, name), call in real.items():
            monkeypatch.setattr(module, name, around(call))

    def around(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*args: Any, **kwargs: Any) -> Any:
            look()
            try:
                return call(*args, **kwargs)
            finally:
                look()

        return watched

    cache = Cache(str(root))
    watch()
    try:
        cache.publish(new)
    finally:
        monkeypatch.undo()
    assert looks == sorted(looks), "once it is there it stays"
    assert looks[0] is False
    assert looks[-1] is True
    assert len(looks) > 20
    assert not [key for key in config._warned if str(root) in key]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks to be quick")
def test_sixteen_processes_on_a_cold_cache_compile_each_kernel_once(root: Path, tmp_path: Path) -> None:
    """As the workers of a parallel test run would."""
    text = "".join(f"def k{number}(x):\n    x[0] = {number}\n" for number in range(8))
    module = load(tmp_path, text)
    log = tmp_path / "compiled"
    children = []
    for worker in range(16):
        child = os.fork()
        if child == 0:
            status = 1
            try:
                machine = Machine(root)
                machine.compile_time = 0.01
                for number in range(8):
                    name = f"k{(number + worker) % 8}"
                    assert machine.launch(getattr(module, name)).startswith(f"{name}_")
                with open(log, "a") as stream:
                    stream.write("".join(f"{symbol}\n" for symbol in machine.compiled))
                status = 0
            finally:
                os._exit(status)
        children.append(child)
    assert [os.waitpid(child, 0)[1] for child in children] == [0] * 16
    compiled = log.read_text().split()
    assert len(compiled) == len(set(compiled)) == 8
