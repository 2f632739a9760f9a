# SPDX-License-Identifier: Apache-2.0
"""Launching on the CPU device: arguments in place, messages, threads, signals, processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.errors import LaunchError
from cudabuild.types import float32


def scale(x, factor):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= factor


def copy(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = x[i]


def scalars(a, b, c, d, e, f, out):
    out[0] = a
    out[1] = b
    out[2] = c
    out[3] = d
    out[4] = e
    out[5] = f


class Wrapped:
    """An array that is not NumPy's, with NumPy's array interface."""

    def __init__(self, array):
        self.array = array

    @property
    def __array_interface__(self):
        return self.array.__array_interface__


def test_arrays_are_used_in_place(run):
    x = np.arange(10.0)
    run(scale, "float64[::1], float64", 1, 32, x, 2.0)
    run(scale, "float64[::1], float64", 1, 32, Wrapped(x), 5.0)
    run(scale, "float64[:], float64", 1, 32, x[::2], -1.0)
    np.testing.assert_array_equal(x, np.arange(10.0) * np.where(np.arange(10) % 2, 10, -10))


def test_a_subclass_and_the_same_array_twice(run):
    class Own(np.ndarray):
        pass

    x = np.arange(6, dtype=np.int32).view(Own)
    run(copy, "int32[::1], int32[::1]", 1, 32, x, x)
    np.testing.assert_array_equal(x, np.arange(6))


def test_scalars_of_every_origin(run):
    out = np.zeros(6)
    signature = "int, float, bool, uint8, float32, int64, float64[::1]"
    run(scalars, signature, 1, 1, 2**40, 0.5, True, np.int64(200), 3, np.uint8(7), out)
    np.testing.assert_array_equal(out, [2**40, 0.5, 1, 200, 3, 7])
    run(scalars, signature, 1, 1, np.int8(-1), np.float32(0.25), np.bool_(False), True, np.float64(1e300), -1, out)
    np.testing.assert_array_equal(out, [-1, 0.25, 0, 1, np.inf, -1])


def pair_sum(pair, out):
    (a, x), b = pair
    out[0] = a + x[1] + b


def test_tuples(run):
    out = np.zeros(1)
    x = np.array([1.0, 10.0])
    run(pair_sum, "Tuple(Tuple(int32, float64[::1]), float64), float64[::1]", 1, 1, ((3, x), 0.5), out)
    assert out[0] == 13.5


def test_unaligned_arrays_travel_as_copies(run):
    memory = np.zeros(8 * 9 + 1, np.uint8)
    x = memory[1:].view(np.float64)
    assert not x.flags.aligned
    x[:] = np.arange(9)
    run(scale, "float64[::1], float64", 1, 32, x, 3.0)
    np.testing.assert_array_equal(x, np.arange(9) * 3.0)


def test_read_only_arrays_can_be_read(run):
    x = np.arange(4, dtype=np.int32)
    x.flags.writeable = False
    y = np.zeros(4, np.int32)
    run(copy, "int32[::1], int32[::1]", 1, 4, x, y)
    np.testing.assert_array_equal(y, x)


READ_ONLY = np.zeros(4)
READ_ONLY.flags.writeable = False

BAD_ARGUMENTS = [
    ((np.zeros(4, np.float32), 1.0), "argument 'x' of scale", "a 1-d array of float32", "float64[::1]"),
    ((np.zeros((2, 2)), 1.0), "argument 'x' of scale", "a 2-d array of float64", "float64[::1]"),
    ((np.zeros(8)[::2], 1.0), "argument 'x' of scale", "with strides (16,)", "C order"),
    ((np.zeros(4, ">f8"), 1.0), "argument 'x' of scale", "a 1-d array of >f8", "float64[::1]"),
    (([1.0, 2.0], 1.0), "argument 'x' of scale", "list [1.0, 2.0]", "float64[::1]"),
    ((READ_ONLY, 1.0), "argument 'x' of scale", "read-only", "an array that the kernel can write"),
    ((np.zeros(4), "2"), "argument 'factor' of scale", "str '2'", "float64"),
    ((np.zeros(4), np.zeros(4)), "argument 'factor' of scale", "a 1-d array of float64", "float64"),
    ((np.zeros(4),), "scale takes 2 arguments", "1", ""),
]


@pytest.mark.parametrize(("args", "where", "found", "expected"), BAD_ARGUMENTS)
def test_bad_arguments_are_named(run, args, where, found, expected):
    with pytest.raises(LaunchError) as caught:
        run(scale, "float64[::1], float64", 1, 32, *args)
    message = str(caught.value)
    assert message.startswith(where)
    assert found in message.partition("found:")[2].partition("expected:")[0]
    assert expected in message.partition("expected:")[2]


def one_byte(x, value):
    x[0] = value


@pytest.mark.parametrize("value", [256, -1, 1.5, None])
def test_integers_must_fit(run, value):
    with pytest.raises(LaunchError, match="argument 'value' of one_byte does not fit"):
        run(one_byte, "uint8[::1], uint8", 1, 1, np.zeros(1, np.uint8), value)


def static_shared(x):
    s = cuda.shared.array(200 * 1024 // 4, "int32")
    s[cuda.threadIdx.x] = 1
    x[0] = s[0]


def test_too_much_shared_memory(run):
    x = np.zeros(1, np.int32)
    run(static_shared, "int32[::1]", 1, 1, x, shared=20 * 1024)
    with pytest.raises(LaunchError, match="too much shared memory for static_shared") as caught:
        run(static_shared, "int32[::1]", 1, 1, x, shared=28 * 1024)
    assert "28672 bytes of dynamic shared memory, 204800 bytes in the kernel itself" in str(caught.value)


def busy(x, rounds):
    i = cuda.grid(1)
    value = x[i % x.size]
    for _ in range(rounds):
        value = value * 0.999 + 0.001
    x[i % x.size] = value


def test_threads_launch_at_the_same_time(run):
    signature = "float64[::1], float64"
    launcher = run.bind(scale, signature)
    arrays = [np.full(3000, float(n)) for n in range(8)]

    def work(n):
        for _ in range(25):
            launcher((12, 1, 1), (256, 1, 1), 0, 0, (arrays[n], -1.0))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for n, array in enumerate(arrays):
        np.testing.assert_array_equal(array, -float(n))


def interrupt_soon(seconds):
    timer = threading.Timer(seconds, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    return timer


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
def test_control_c_ends_a_launch_of_many_blocks(run):
    x = np.zeros(1000)
    launcher = run.bind(busy, "float64[::1], int64")
    start = time.monotonic()
    timer = interrupt_soon(0.2)
    with pytest.raises(KeyboardInterrupt):
        launcher((1_000_000, 1, 1), (64, 1, 1), 0, 0, (x, 10_000))
    timer.join()
    assert time.monotonic() - start < 1.2
    y = np.ones(3)
    run(scale, "float64[::1], float64", 1, 32, y, 4.0)  # the same pool goes on
    np.testing.assert_array_equal(y, 4.0)


SPIN = """
    import os, signal, threading, time
    import numpy as np
    from cudabuild import cuda
    from cudabuild.cpu.device import CpuDevice
    from cudabuild.definition import KernelDefinition
    from cudabuild.types import parse_signature

    def spin(x):
        while x[0] == 0:  # nobody will ever change it
            x[1] += 1

    def one(x):
        x[0] = 1

    device = CpuDevice()
    bind = lambda function: device.bind(KernelDefinition(function), parse_signature("int64[::1]"))
    one = bind(one)
    spin = bind(spin)
    x = np.zeros(2, np.int64)
    threading.Timer(0.2, os.kill, [os.getpid(), signal.SIGINT]).start()
    start = time.monotonic()
    try:
        spin((1, 1, 1), (1, 1, 1), 0, 0, (x,))
    except KeyboardInterrupt:
        print("interrupted", time.monotonic() - start < 2)
    y = np.zeros(1, np.int64)
    one((1, 1, 1), (1, 1, 1), 0, 0, (y,))
    print("usable", y[0])
"""


NO_MEMORY = """
    import resource
    import numpy as np
    from cudabuild import cuda
    from cudabuild.cpu.device import CpuDevice
    from cudabuild.definition import KernelDefinition
    from cudabuild.errors import LaunchError
    from cudabuild.types import float32, parse_signature

    def large(x):
        mine = cuda.local.array(131072, float32)
        t = cuda.threadIdx.x
        mine[t] = x[t]
        cuda.syncthreads()
        x[t] = mine[(t + x.size) % 131072] + mine[t]

    launch = CpuDevice().bind(KernelDefinition(large), parse_signature("float32[::1]"))
    x = np.ones(1024, np.float32)
    launch((1, 1, 1), (2, 1, 1), 0, 0, (x,))
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (256 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        launch((3, 1, 1), (1024, 1, 1), 0, 0, (x,))
    except LaunchError as error:
        print(error)
    launch((1, 1, 1), (2, 1, 1), 0, 0, (x,))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited through /proc and RLIMIT_AS")
def test_a_block_that_does_not_fit_in_memory(tmp_path):
    done = run_script(tmp_path / "no_memory.py", NO_MEMORY)
    assert done.stderr == ""
    assert done.stdout.startswith("large, block (")
    assert "no memory left for the threads and shared arrays of a block of (1024, 1, 1) threads" in done.stdout
    assert done.returncode == 0


def run_script(path, text):
    path.write_text(textwrap.dedent(text))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=60, env=environment, check=False
    )


@pytest.mark.skipif(sys.platform == "win32", reason="signals reach the main thread otherwise there")
def test_control_c_leaves_a_kernel_that_never_ends(tmp_path):
    done = run_script(tmp_path / "spin.py", SPIN)
    assert done.stderr == ""
    assert done.stdout.split() == ["interrupted", "True", "usable", "1"]
    assert done.returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # multi-threaded: that is what is tested
def test_a_forked_child_can_launch(run):
    x = np.ones(5)
    run(scale, "float64[::1], float64", 1, 32, x, 2.0)
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        run(scale, "float64[::1], float64", 1, 32, x, 2.0)
        os._exit(0 if (x == 4.0).all() else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0


def fill_local(out):
    mine = cuda.local.array(131072, float32)
    for k in range(131072):
        mine[k] = k
    out[cuda.grid(1)] = mine[out.size * 1000]


def test_half_a_mebibyte_of_local_memory(run):
    out = np.zeros(8, np.float32)
    run(fill_local, "float32[::1]", 2, 4, out)
    np.testing.assert_array_equal(out, 8000)
