# SPDX-License-Identifier: Apache-2.0
"""B. Processes, threads and locks that meet."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from cases_kit import Array, Machine, is_whole, load, ship
from image_making import make_image
from package_kit import CHECKOUT

from cudabuild.cache import batch, store
from cudabuild.cache.store import Cache

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="forks to be quick")


def run_python(code: str, *arguments: str, folder: Path) -> str:
    """What a fresh process prints."""
    search = os.pathsep.join(map(str, [folder, CHECKOUT, CHECKOUT / "tests" / "runtime"]))
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=120, check=False, cwd=folder,
        env={**os.environ, "PYTHONPATH": search, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def together(count: int, work: Callable[[int], object]) -> list[BaseException]:
    """Runs ``work`` in threads that start at once; what they raised."""
    gate, errors = threading.Barrier(count), []

    def run(number: int) -> None:
        gate.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def compile_for_ever(root: Path, function: FunctionType, begun: Path) -> int:
    """A process that holds the lock of a kernel's image and does not come to its end; its process id."""
    child = os.fork()
    if child == 0:
        try:
            machine = Machine(root)
            machine.compile_time, machine.on_compile = 120.0, begun.touch
            machine.launch(function)
        finally:
            os._exit(1)
    deadline = time.monotonic() + 30
    while not begun.exists() and time.monotonic() < deadline:
        time.sleep(0.005)
    assert begun.exists()
    return child


@forks
def test_a_held_lock_delays_nothing_that_needs_no_compiling(root: Path, tmp_path: Path) -> None:
    """Another process stopped in the middle of a compilation, and of a publishing: imports and hits go on."""
    module = load(tmp_path, "N = 1\ndef k(x):\n    x[0] = N\ndef stuck(x):\n    x[0] = 2\n")
    Machine(root).launch(module.k)
    child = compile_for_ever(root, module.stuck, tmp_path / "begun")
    try:
        start = time.perf_counter()
        code = "import cudabuild\n@cudabuild.kernel('float32[::1]')\ndef k(x):\n    x[0] = 1\nprint(k.signatures)"
        (tmp_path / "importing.py").write_text(code)
        assert run_python("import importing", folder=tmp_path)
        again = Machine(root)
        assert again.launch(module.k).startswith("k_")
        assert again.compiled == []
        assert time.perf_counter() - start < 20
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


@forks
def test_a_holder_that_does_not_finish_is_waited_for_once_and_not_for_ever(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load(tmp_path, "def k(x):\n    x[0] = 2\n")
    child = compile_for_ever(root, module.k, tmp_path / "begun")
    try:
        for room in (store, batch):
            monkeypatch.setattr(room, "BUILD_WAIT", 0.3)
        machine = Machine(root)
        assert machine.launch(module.k).startswith("k_")
        assert len(machine.compiled) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert str(root) in line
        assert "going on without" in line
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    after = Machine(root)
    assert after.launch(module.k).startswith("k_")
    assert after.compiled == []


SHARED = """
import math

SCALE = 3

def first(a):
    return a * SCALE + 1

def second(a):
    return first(a) + math.sqrt(a)

def third(a, b):
    return second(a) if a > b else first(b)

def make(number):
    def k(x, n):
        for i in range(n):
            x[i] = third(x[i], number) + first(number)
    return k

KERNELS = [make(number) for number in range(32)]
"""

COMPILE = """
import hashlib, sys, threading
import shared_helpers
from cudabuild.compiler import compile_image
from cudabuild.definition import KernelDefinition
from cudabuild.target import parse_target
from cudabuild.types import parse_signature

threads, found, errors = int(sys.argv[1]), {}, []
gate = threading.Barrier(threads)
signature = parse_signature("float32[::1], int32")
targets = [parse_target("sm_80"), parse_target("compute_75")]

def work(place):
    gate.wait()
    for number in range(place, len(shared_helpers.KERNELS), threads):
        definition = KernelDefinition(shared_helpers.KERNELS[number])
        target = targets[number % 2]
        image = compile_image(definition, signature, target=target, index_width=32)
        found[number] = hashlib.sha256(bytes(image.data) + repr(image.attributes).encode()).hexdigest()

workers = [threading.Thread(target=work, args=(place,)) for place in range(threads)]
for worker in workers: worker.start()
for worker in workers: worker.join()
print(*(found[number] for number in range(len(shared_helpers.KERNELS))), sep="\\n")
"""


def test_kernels_with_common_helpers_compiled_in_threads_are_those_compiled_alone(tmp_path: Path) -> None:
    (tmp_path / "shared_helpers.py").write_text(SHARED)
    serial, parallel = (run_python(COMPILE, threads, folder=tmp_path).split() for threads in ("1", "16"))
    assert len(serial) == len(set(serial)) == 32
    assert parallel == serial


def test_first_launches_together_on_several_devices_take_each_its_own_code(root: Path, tmp_path: Path) -> None:
    ccs = ((9, 0), (8, 0), (12, 0), (9, 0), (8, 6), (10, 0))
    module = load(tmp_path, "".join(f"def k{number}(x):\n    x[0] = {number}\n" for number in range(12)))
    ship(tmp_path / f"_cudabuild_{module.__name__}", [module.k0, module.k1], "sm_80 sm_90 compute_75")
    machine = Machine(root, ccs)
    kernels = [machine.kernel(getattr(module, f"k{number}")) for number in range(12)]

    def work(device: int) -> None:
        machine.fake.use_device(device)
        for kernel in kernels:
            kernel[1, 32](Array())

    assert together(len(ccs), work) == []
    assert len(machine.fake.launches) == 12 * len(ccs)
    assert all(map(is_whole, machine.fake.given))
    assert len(machine.fake.given) == len(set(machine.fake.given)), "each code is loaded once for all devices"
    own = {(9, 0): "sm_90", (8, 0): "sm_80", (12, 0): "sm_120", (8, 6): "sm_86", (10, 0): "sm_100"}
    ships = {"sm_86": "sm_80", "sm_120": "compute_75", "sm_100": "compute_75"}  # of two of the twelve
    for device, cc in enumerate(ccs):
        ran = sorted(target for number, target in machine.fake.ran if number == device)
        if cc == (8, 6):  # what 8.0 has compiled by then is in the cache, and good enough
            assert set(ran) <= {"sm_80", "sm_86"}
        else:
            assert ran == sorted([own[cc]] * 10 + [ships.get(own[cc], own[cc])] * 2)
    assert {symbol.partition("_")[0] for symbol in machine.compiled} == {f"k{number}" for number in range(2, 12)}
    assert 40 <= len(machine.compiled) <= 50, "each is compiled once for each kind of device"


WRONG = """
import os, threading, traceback
from cudabuild.definition import KernelDefinition
from cudabuild.errors import CompilationError
from cudabuild.compiler import compile_image
import cudabuild.backend.cubin
from cudabuild.target import parse_target
from cudabuild.types import parse_signature
import first_kernels

signature, target = parse_signature("float32[::1]"), parse_target("compute_75")

def trial():
    told, made, gate = [], [], threading.Barrier(4)

    def work(number):
        gate.wait()
        try:
            function = first_kernels.wrong if number % 2 else first_kernels.right
            made.append(bytes(compile_image(KernelDefinition(function), signature, target=target, index_width=32).data))
        except BaseException as error:
            told.append((type(error).__name__, str(error)))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    assert len(made) == 2 and made[0] == made[1], (made, told)
    assert len(told) == 2 and told[0] == told[1], told
    assert told[0][0] == "TypingError" or issubclass(getattr(__import__("cudabuild.errors").errors, told[0][0]),
                                                     CompilationError), told
    assert "missing_name" in told[0][1] and "first_kernels.py" in told[0][1], told

failed = 0
for number in range(TRIALS):
    child = os.fork()
    if not child:
        status = 1
        try:
            trial()
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    failed += os.waitpid(child, 0)[1] != 0
print(failed)
"""


@forks
def test_first_compilations_together_work_and_tell_the_true_error(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Four threads compile a process's first kernels, two of which are wrong; in many processes."""
    (tmp_path / "first_kernels.py").write_text(
        "def right(x):\n    x[0] = x[1] * 2\n\ndef wrong(x):\n    x[0] = missing_name\n"
    )
    assert (
        run_python(WRONG.replace("TRIALS", str(request.config.getoption("--examples") or 12)), folder=tmp_path) == "0\n"
    )


def test_a_file_that_cannot_be_replaced_while_others_read_it_escapes_nobody(
    root: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Windows refuses it. Readers get a right image or a miss, writers go on with what they made."""
    rng = random.Random(5)
    names = [f"k{number}" for number in range(12)]
    stop = time.monotonic() + 1.0

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(path: Any, *args: Any, **kwargs: Any) -> Any:
            if str(path).startswith(str(root)) and rng.random() < 0.4:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return call(path, *args, **kwargs)

        return wrapped

    for name in ("replace", "unlink"):
        monkeypatch.setattr(os, name, refusing(getattr(os, name)))

    def work(number: int) -> None:
        while time.monotonic() < stop:
            cache = Cache(str(root))
            for name in names:
                if number % 2:
                    image = cache.build_once(make_image(name).key, "sm_90", lambda name=name: make_image(name))
                    cache.publish(make_image(name))
                    assert bytes(image.data) == make_image(name).data
                else:
                    found = cache.find(make_image(name).key, "sm_90")
                    assert found is None or bytes(found.data) == make_image(name).data

    assert together(4, work) == []
    monkeypatch.undo()
    Cache(str(root)).publish(*map(make_image, names))
    assert all(Cache(str(root)).find(make_image(name).key, "sm_90") is not None for name in names)
    assert len(capsys.readouterr().err.splitlines()) <= 1
