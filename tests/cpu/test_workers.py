# SPDX-License-Identifier: Apache-2.0
"""The pool of workers: both ways of waiting, under threads, signals, forks, errors and launches within launches."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal
import subprocess
import sys
import textwrap
import threading
import time
import weakref

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.backend import llvm
from cudabuild.cpu import workers
from cudabuild.cpu.abi import LAUNCH_SIZE
from cudabuild.cpu.handover import CLOSED, EXPORTS, handover_text, make_handover
from cudabuild.cpu.library import find_handover

CORES = workers.core_count()
signals = pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")


@pytest.fixture(params=["compiled", "python"])
def kind(request, monkeypatch):
    """A pool of this test's own, of either kind."""
    if request.param == "compiled" and not handover_text():
        pytest.skip("no futex on this system: there is only the other kind")
    monkeypatch.setattr(workers, "_pool", None)
    monkeypatch.setattr(workers, "_compiled", request.param == "compiled")
    yield request.param
    if workers._pool is not None:
        workers._abandon(workers._pool)


@pytest.fixture(autouse=True)
def never_hangs():
    timer = threading.Timer(60, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    yield
    timer.cancel()
    timer.join()


class Call:
    """A job whose workers call a Python function."""

    def __init__(self, function, stop=lambda: None):
        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32)(lambda *_: function())
        self.memory = ctypes.create_string_buffer(LAUNCH_SIZE)
        code = ctypes.cast(self.callback, ctypes.c_void_p).value
        self.job = workers.Job(code, ctypes.addressof(self.memory), stop, self)

    def run(self, count):
        workers.run_job(self.job, count, CORES, find_handover())


def count_blocks(count):
    cuda.atomic.add(count, 0, 1)


def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


def say(x):
    i = cuda.grid(1)
    x[i] = i
    print("thread", i)


def wait_for_flag(flag, out):
    while flag[0] == 0:
        cuda.threadfence_system()
    cuda.atomic.add(out, 0, 1)


def forever(x):
    while x[0] == 0:
        x[1] += 1
    x[2] = 1


def scale_by(run, factor, count=3000):
    x = np.ones(count)
    run(scale, "float64[::1], float64", -(-count // 256), 256, x, factor)
    np.testing.assert_array_equal(x, factor)


def test_the_pool_is_of_the_kind_that_this_system_has(run, kind):
    scale_by(run, 2.0)
    compiled = isinstance(workers._pool, workers._CompiledPool)
    assert compiled == (kind == "compiled")
    if sys.platform == "linux" and platform.machine() in ("x86_64", "aarch64"):
        assert handover_text()


@pytest.mark.parametrize(
    ("system", "machine"), [("linux", "x86_64"), ("linux", "aarch64"), ("linux", "s390x"), ("win32", "AMD64")]
)
def test_the_text_for_other_computers(monkeypatch, system, machine):
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    text = handover_text()
    monkeypatch.undo()
    assert bool(text) == (machine in ("x86_64", "aarch64"))
    if text:
        names = {function.name for function in llvm.parse_module(text).functions}
        assert names.issuperset(EXPORTS)
    else:
        assert make_handover({}) is None


@pytest.mark.parametrize("count", range(1, CORES + 3))
def test_every_number_of_workers(run, kind, count, monkeypatch):
    launcher = run.bind(count_blocks, "int64[::1]")
    monkeypatch.setattr(workers, "core_count", lambda: CORES + 2)  # more threads than cores, too
    monkeypatch.setattr("cudabuild.cpu.device.core_count", lambda: count)
    total = np.zeros(1, np.int64)
    for turn in range(400):
        launcher((64, 1, 1), (128, 1, 1), 0, 0, (total,))
        assert total[0] == (turn + 1) * 64 * 128
    calls = []
    for _ in range(100):
        before = len(calls)
        Call(lambda: calls.append(threading.get_ident())).run(count)
        assert 1 <= len(calls) - before <= count
        assert threading.get_ident() not in calls


def test_launches_after_pauses_find_their_workers(run, kind):
    launcher = run.bind(count_blocks, "int64[::1]")
    total = np.zeros(1, np.int64)
    for turn in range(150):  # about the time that a worker stays awake
        launcher((64, 1, 1), (128, 1, 1), 0, 0, (total,))
        end = time.perf_counter() + turn * 0.4e-6
        while time.perf_counter() < end:
            pass
    assert total[0] == 150 * 64 * 128


def test_many_threads_launch(run, kind):
    signature = "float64[::1], float64"
    launcher = run.bind(scale, signature)
    arrays = [np.full(3000, float(n)) for n in range(8)]

    def work(n):
        for turn in range(101):
            launcher((12 - 11 * (turn % 2), 1, 1), (256, 1, 1), 0, 0, (arrays[n][: 256 if turn % 2 else 3000], -1.0))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, array in enumerate(arrays):
        np.testing.assert_array_equal(array[:256], -float(n))
        np.testing.assert_array_equal(array[256:], -float(n))


def test_more_launches_than_slots(run, kind):
    flag, out = np.zeros(1, np.int32), np.zeros(1, np.int32)
    launcher = run.bind(wait_for_flag, "int32[::1], int32[::1]")
    threads = [
        threading.Thread(target=launcher, args=((1, 1, 1), (1, 1, 1), 0, 0, (flag, out)), daemon=True)
        for _ in range(80)
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    assert out[0] == 0
    flag[0] = 1
    for thread in threads:
        thread.join()
    assert out[0] == 80


def test_launches_from_all_workers_do_not_wait_for_themselves(run, kind):
    """What happens when Python runs finalisers on workers, and a finaliser launches a kernel."""
    x = np.ones((CORES, 4))
    numbers = list(range(CORES))
    launcher = run.bind(scale, "float64[::1], float64")
    together = threading.Barrier(CORES)

    def launch():
        together.wait()
        launcher((1, 1, 1), (4, 1, 1), 0, 0, (x[numbers.pop()], 3.0))

    Call(launch).run(CORES)
    np.testing.assert_array_equal(x, 3.0)


class Writer:
    """Stands for ``sys.stdout``."""

    def __init__(self, write):
        self.write = write

    def flush(self):
        pass


def test_prints_that_launch(run, kind, monkeypatch):
    x, y = np.zeros(64, np.int64), np.ones(4)
    inner = run.bind(scale, "float64[::1], float64")
    outer = run.bind(say, "int64[::1]")
    lock = threading.Lock()

    def write(text):
        with lock:
            inner((1, 1, 1), (4, 1, 1), 0, 0, (y, 2.0))

    monkeypatch.setattr(sys, "stdout", Writer(write))
    outer((1, 1, 1), (64, 1, 1), 0, 0, (x,))
    monkeypatch.undo()
    np.testing.assert_array_equal(y, 2.0**64)
    np.testing.assert_array_equal(x, np.arange(64))


@pytest.mark.parametrize("nested", [False, True])
def test_an_exception_in_print_reaches_the_caller(run, kind, monkeypatch, nested):
    x = np.zeros(4096, np.int64)
    launcher = run.bind(say, "int64[::1]")
    errors = []

    def write(text):
        raise ValueError(text)

    def launch(blocks):
        with pytest.raises(ValueError, match="thread"):
            launcher((blocks, 1, 1), (64, 1, 1), 0, 0, (x,))
        errors.append(blocks)

    monkeypatch.setattr(sys, "stdout", Writer(write))
    for blocks in (1, 64) * 10:
        if nested:
            Call(lambda blocks=blocks: launch(blocks)).run(1)
        else:
            launch(blocks)
    assert errors == [1, 64] * 10
    scale_by(run, 5.0)


def test_a_worker_keeps_nothing_alive_after_the_launch(run, kind):
    class Own(np.ndarray):
        pass

    x = np.zeros(8).view(Own)
    gone = weakref.ref(x)
    run(scale, "float64[::1], float64", 1, 32, x, 2.0)
    del x
    for _ in range(100):
        gc.collect()
        if gone() is None:
            break
        time.sleep(0.01)
    assert gone() is None


@pytest.fixture
def apart(run, kind):
    """The caller on one core and the workers on others."""
    scale_by(run, 2.0)
    if not hasattr(os, "sched_setaffinity"):
        yield
        return
    cores = sorted(os.sched_getaffinity(0))
    for thread in threading.enumerate():
        if thread.name.startswith("cudabuild-cpu-"):
            os.sched_setaffinity(thread.native_id, cores[1:] or cores)
    os.sched_setaffinity(0, cores[:1])
    yield
    os.sched_setaffinity(0, cores)


def test_idle_workers_sleep(run, apart, monkeypatch):
    monkeypatch.setattr("cudabuild.cpu.device.core_count", lambda: CORES)
    launcher = run.bind(count_blocks, "int64[::1]")
    total = np.zeros(1, np.int64)
    idle = 0.0
    for _ in range(4):
        for _ in range(50):
            launcher((1, 1, 1), (32, 1, 1), 0, 0, (total,))
        time.sleep(0.01)
        used = time.process_time()
        time.sleep(0.25)
        idle += time.process_time() - used
    assert idle < 0.03


def interrupt_soon(act, *args):
    timer = threading.Timer(0.2, act, args)
    timer.start()
    return timer


@signals
@pytest.mark.parametrize("blocks", [1, 64])
def test_control_c(run, kind, blocks):
    x = np.zeros(4, np.int64)
    launcher = run.bind(forever, "int64[::1]")
    scale_by(run, 2.0)
    pool = workers._pool
    start = time.monotonic()
    timer = interrupt_soon(os.kill, os.getpid(), signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        launcher((blocks, 1, 1), (64, 1, 1), 0, 0, (x,))
    assert time.monotonic() - start < 1.2
    timer.join()
    assert x[2] == 0
    assert workers._pool is pool
    scale_by(run, 4.0)


@pytest.mark.skipif(not hasattr(signal, "pthread_kill"), reason="no signals to threads")
def test_control_c_that_the_system_gives_to_a_worker(run, kind):
    launcher = run.bind(forever, "int64[::1]")
    scale_by(run, 2.0)
    worker = [t.ident for t in threading.enumerate() if t.name.startswith("cudabuild-cpu-")][-1]
    start = time.monotonic()
    timer = interrupt_soon(signal.pthread_kill, worker, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        launcher((4, 1, 1), (64, 1, 1), 0, 0, (np.zeros(4, np.int64),))
    assert time.monotonic() - start < 1.2
    timer.join()
    scale_by(run, 4.0)


@signals
@pytest.mark.parametrize("again", [False, True])
def test_a_worker_that_is_stuck_is_left_behind(run, kind, again):
    scale_by(run, 2.0)
    pool = workers._pool
    stuck = threading.Event()
    stopped = []
    call = Call(stuck.wait, lambda: stopped.append(1))
    timers = [interrupt_soon(os.kill, os.getpid(), signal.SIGINT)]
    if again:  # the user loses patience
        timers.append(threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT]))
        timers[-1].start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        call.run(CORES)
    assert time.monotonic() - start < (1.0 if again else 1.6)
    for timer in timers:
        timer.join()
    assert stopped
    assert workers._pool is not pool
    gone = weakref.ref(pool)
    kept = weakref.ref(call)
    del pool, call
    for _ in range(50):
        scale_by(run, 4.0)
    gc.collect()
    assert kept() is not None  # a worker is still in there
    stuck.set()
    for _ in range(200):
        gc.collect()
        if gone() is None and kept() is None:
            break
        time.sleep(0.01)
    assert gone() is None
    assert kept() is None


def test_a_pool_that_was_left_takes_no_launch(run, kind):
    scale_by(run, 2.0)
    pool = workers._pool
    workers._abandon(pool)
    call = Call(lambda: pytest.fail("nobody should come"))
    assert pool.begin(call.job, 1, CORES) == CLOSED
    assert pool.wait(call.job)
    scale_by(run, 4.0)
    assert workers._pool is not pool


def test_launches_that_wait_in_a_pool_that_is_left_come_to_their_turn(kind):
    go, calls = threading.Event(), []
    jobs = [Call(lambda: calls.append(1) or go.wait()), Call(lambda: calls.append(2))]
    threads = [threading.Thread(target=job.run, args=(CORES,), daemon=True) for job in jobs]
    threads[0].start()
    while len(calls) < CORES:
        time.sleep(0.001)
    threads[1].start()
    time.sleep(0.05)
    workers._abandon(workers._pool)
    go.set()
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    assert 2 in calls


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # multi-threaded: that is what is tested
def test_forks_between_launches(run, kind):
    x = np.ones(3000)
    launcher = run.bind(scale, "float64[::1], float64")
    on = True

    def work():
        mine = np.ones(3000)
        while on:
            launcher((12, 1, 1), (256, 1, 1), 0, 0, (mine, 1.0))

    other = threading.Thread(target=work)
    other.start()
    try:
        for _ in range(8):
            launcher((12, 1, 1), (256, 1, 1), 0, 0, (x, -1.0))
            child = os.fork()
            if child == 0:
                signal.alarm(30)
                for _ in range(20):
                    launcher((12, 1, 1), (256, 1, 1), 0, 0, (x, 2.0))
                os._exit(0 if (abs(x) == 2.0**20).all() else 1)
            launcher((12, 1, 1), (256, 1, 1), 0, 0, (x, 1.0))
            assert os.waitpid(child, 0)[1] == 0
    finally:
        on = False
        other.join()
    np.testing.assert_array_equal(x, 1.0)


START = """
    import os, random, signal, sys, threading, time
    import numpy as np
    from cudabuild import cuda
    from cudabuild.cpu import workers
    from cudabuild.cpu.device import CpuDevice
    from cudabuild.definition import KernelDefinition
    from cudabuild.types import parse_signature

    def busy(x, rounds):
        i = cuda.grid(1)
        value = x[i]
        for _ in range(rounds):
            value = value * 0.999 + 0.001
        x[i] = value

    workers._compiled = {compiled}
    launch = CpuDevice().bind(KernelDefinition(busy), parse_signature("float64[::1], int64"))
    x = np.ones(1 << 14)
    launch((64, 1, 1), (256, 1, 1), 0, 0, (x, 1))
"""

INTERRUPTED = """
    armed = False

    def interrupt(number, frame):
        global armed
        if armed:
            armed = False
            raise KeyboardInterrupt

    signal.signal(signal.SIGALRM, interrupt)
    random.seed(1)
    pool, count = workers._pool, 0
    end = time.monotonic() + 4
    for turn in range(600):
        if time.monotonic() > end:
            break
        try:
            armed = True
            signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 2e-3))
            while True:
                launch((64 if turn % 3 else 1, 1, 1), (256, 1, 1), 0, 0, (x, turn % 2 * 100))
        except KeyboardInterrupt:
            count += 1
        launch((64, 1, 1), (256, 1, 1), 0, 0, (x, 1))
    print("turns", count == turn or count == turn + 1, "many", count > 20, "same", workers._pool is pool)
    if {compiled}:
        print("kept", len(pool.jobs))
"""


def run_script(path, text, kind):
    text = textwrap.dedent(text).format(compiled=kind == "compiled")
    path.write_text(text)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=60, env=environment, check=False
    )


@signals
def test_signals_at_any_time(tmp_path, kind):
    done = run_script(tmp_path / "interrupted.py", START + INTERRUPTED, kind)
    assert done.stderr == ""
    assert done.stdout.split()[:6] == ["turns", "True", "many", "True", "same", "True"]
    assert done.returncode == 0
    if kind == "compiled":
        assert done.stdout.split()[6:] == ["kept", "0"]


EXITS = """
    threading.Thread(target=launch, args=((64, 1, 1), (256, 1, 1), 0, 0, (x, 1 << 60)), daemon=True).start()
    time.sleep(0.1)
    print("over")
"""


def test_the_process_ends_while_workers_work(tmp_path, kind):
    start = time.monotonic()
    done = run_script(tmp_path / "exits.py", START + EXITS, kind)
    assert (done.stdout, done.stderr, done.returncode) == ("over\n", "", 0)
    assert time.monotonic() - start < 30


TOGETHER = """
import os, threading
import numpy as np
from cudabuild import cuda, kernel

@kernel
def fill(out):
    for k in range(out.size):
        out[k] = out[k] * 0.5 + 1.0

out = np.zeros(1 << 11)
fill[64, 1024](out)
workers = [thread.native_id for thread in threading.enumerate() if thread.name.startswith("cudabuild-cpu-")]
cores = sorted(os.sched_getaffinity(0))
for worker in workers:
    os.sched_setaffinity(worker, {cores[0]})
for _ in range(50):
    fill[64, 1024](out)
print(len(workers), sum(os.sched_getaffinity(worker) == set(cores) - {cores[0]} for worker in workers))
"""


@pytest.mark.skipif(CORES < 2 or not handover_text(), reason="needs two cores, and Linux")
def test_workers_that_are_kept_on_one_core_part() -> None:
    environment = {**os.environ, "CUDABUILD_DEVICE": "cpu"}
    done = subprocess.run(
        [sys.executable, "-c", TOGETHER], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    count, parted = map(int, done.stdout.split() or (0, 0))
    assert parted >= 1, f"{count} workers, {parted} left: {done.stderr}"
