# SPDX-License-Identifier: Apache-2.0
"""The cache among processes: one compilation for all, and writers killed anywhere."""

from __future__ import annotations

import builtins
import os
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache.store import Cache
from cudabuild.image.image import KernelImage

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks to be quick")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


def in_child(work: Callable[[], object]) -> int:
    """Starts ``work`` in a forked process; its process id."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            work()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    return child


def wait(child: int) -> int:
    """A child's exit status, negative for a signal."""
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def find(root: str, name: str) -> KernelImage | None:
    return Cache(root).find(make_image(name).key, "sm_90")


def assert_right(image: KernelImage | None, name: str) -> None:
    assert image is not None
    assert bytes(image.data) == make_image(name).data
    assert image.symbol == make_image(name).symbol


def test_processes_that_miss_at_once_compile_each_kernel_once(root: str, tmp_path: Path) -> None:
    log = tmp_path / "made"
    start = time.time() + 0.2
    names = [f"k{number}" for number in range(12)]

    def work(number: int) -> None:
        cache = Cache(root)
        time.sleep(max(0.0, start - time.time()))
        for name in names[number:] + names[:number]:

            def make(name: str = name) -> KernelImage:
                with open(log, "a") as stream:
                    stream.write(f"{name}\n")
                return make_image(name, key=b"")

            assert_right(cache.build_once(make_image(name).key, "sm_90", make), name)

    children = [in_child(lambda number=number: work(number)) for number in range(8)]
    assert [wait(child) for child in children] == [0] * 8
    assert sorted(log.read_text().split()) == sorted(names)
    for name in names:
        assert_right(find(root, name), name)


class Trap:
    """Kills the process before or after the n-th call that touches the disk."""

    CALLS = [(os, "replace"), (os, "unlink"), (os, "stat"), (os, "makedirs"), (os, "listdir"), (os, "open"),
             (builtins, "open")]  # fmt: skip

    def __init__(self, at: int, after: bool) -> None:
        self.left = at
        self.after = after

    def set(self) -> None:
        for module, name in self.CALLS:
            setattr(module, name, self.around(getattr(module, name)))

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def trapped(*args: Any, **kwargs: Any) -> Any:
            self.left -= 1
            if self.left == 0 and not self.after:
                os.kill(os.getpid(), signal.SIGKILL)
            sprung = self.left == 0
            try:
                return call(*args, **kwargs)
            finally:
                if sprung:
                    os.kill(os.getpid(), signal.SIGKILL)

        return trapped


@pytest.mark.parametrize("after", [False, True])
def test_a_writer_killed_at_any_call_leaves_a_sound_cache(root: str, after: bool) -> None:
    Cache(root).publish(*(make_image(f"old{number}") for number in range(3)))
    for number in range(6):  # so that the next publishing merges
        Cache(root).publish(make_image(f"more{number}"))
    names = [*(f"old{number}" for number in range(3)), *(f"more{number}" for number in range(6))]
    at, status = 0, -signal.SIGKILL
    while status == -signal.SIGKILL:
        at += 1
        copy = f"{root}{at}"
        shutil.copytree(root, copy)

        def work(at: int = at, copy: str = copy) -> None:
            cache = Cache(copy)
            Trap(at, after).set()
            cache.publish(make_image("new"))

        status = wait(in_child(work))
        for name in names:
            assert_right(find(copy, name), name)
        found = find(copy, "new")
        if found is not None or status == 0:
            assert_right(found, "new")
        Cache(copy).publish(make_image("next"))
        for name in [*names, "next"]:
            assert_right(find(copy, name), name)
    assert status == 0
    assert at > 20, "the trap was sprung at many calls"


def test_writers_killed_at_random_times(root: str) -> None:
    rng = random.Random(11)
    Cache(root).publish(make_image("old"))
    names = [f"k{number}" for number in range(40)]

    def work() -> None:
        cache = Cache(root)
        while True:  # until it is killed
            for name in names:
                cache.publish(make_image(name))

    for _ in range(12):
        children = [in_child(work) for _ in range(2)]
        time.sleep(rng.uniform(0.002, 0.05))
        os.kill(children[0], signal.SIGKILL)
        time.sleep(rng.uniform(0.0, 0.02))
        os.kill(children[1], signal.SIGKILL)
        assert [wait(child) for child in children] == [-signal.SIGKILL] * 2
        assert_right(find(root, "old"), "old")
        for name in names:
            found = find(root, name)
            if found is not None:
                assert_right(found, name)
    Cache(root).publish(*(make_image(name) for name in names))
    for name in names:
        assert_right(find(root, name), name)


def test_readers_beside_writers_that_merge_and_evict(root: str, capfd: pytest.CaptureFixture[str]) -> None:
    Cache(root).publish(make_image("old"))
    stop = time.time() + 1.0

    def write(start: int) -> None:
        cache = Cache(root, limit=60_000)
        number = start
        while time.time() < stop:
            cache.publish(make_image(f"k{number % 50}", data=b"x" * 2000))
            number += 1

    def read() -> None:
        cache = Cache(root)
        hits = 0
        while time.time() < stop:
            for number in range(50):
                found = cache.find(make_image(f"k{number}").key, "sm_90")
                if found is not None:
                    assert found.qualname == f"k{number}"
                    assert bytes(found.data) == b"x" * 2000
                    hits += 1
        assert hits

    children = [in_child(lambda: write(0)), in_child(lambda: write(25)), in_child(read), in_child(read)]
    assert [wait(child) for child in children] == [0] * 4
    assert capfd.readouterr().err == ""


def test_a_killed_holder_lets_go(root: str) -> None:
    def hold() -> None:
        Cache(root).build_once(make_image().key, "sm_90", lambda: time.sleep(60))  # type: ignore[arg-type, return-value]

    child = in_child(hold)
    deadline = time.time() + 10
    while not list(Path(root, "locks").glob("*")) and time.time() < deadline:
        time.sleep(0.01)
    time.sleep(0.05)
    os.kill(child, signal.SIGKILL)
    assert wait(child) == -signal.SIGKILL
    before = time.time()
    assert_right(Cache(root).build_once(make_image().key, "sm_90", make_image), "k")
    assert time.time() - before < 5


def test_opening_a_cache_imports_no_filelock_nor_platformdirs(root: str) -> None:
    """What a hit in a fresh process may cost."""
    Cache(root).publish(make_image())
    checkout = str(Path(__file__).resolve().parent.parent.parent)
    code = (
        f"import sys, os\nsys.path.insert(0, {checkout!r})\nos.environ['CUDABUILD_CACHE_DIR'] = {root!r}\n"
        "from cudabuild.cache.store import Cache\nimport cudabuild.cache.provider\n"
        f"assert Cache.open().find(bytes.fromhex({make_image().key.hex()!r}), 'sm_90').qualname == 'k'\n"
        "heavy = {'ast', 'inspect', 'json', 'numpy', 're', 'dataclasses', 'hashlib', 'pathlib', 'filelock',\n"
        "         'asyncio', 'platformdirs', 'importlib.metadata'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
