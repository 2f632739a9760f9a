# SPDX-License-Identifier: Apache-2.0
"""The Python device: threads that meet, typed values, exceptions, breakpoints."""

from __future__ import annotations

import _thread
import cmath
import io
import math
import os
import pdb
import subprocess
import sys
import threading
import time
from typing import Any

import numpy as np
import pytest
import test_half

from cudabuild import cuda, decorators, device_function, float32, host_api, int32, kernel
from cudabuild.cpu.device import CpuDevice
from cudabuild.decorators import Services
from cudabuild.definition import KernelDefinition
from cudabuild.errors import LaunchError
from cudabuild.interpreter.device import PythonDevice
from cudabuild.interpreter.reach import find_names, is_meeting
from cudabuild.runtime.dispatcher import Dispatcher
from cudabuild.types import as_dtype, from_dtype
from cudabuild.types import scalar_by_name as from_name


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """``launch(function)``: the function as a kernel on the Python device."""
    monkeypatch.setenv("CUDABUILD_DEVICE", "python")
    services = Services()
    monkeypatch.setattr(host_api.choice, "current_device", services.current_device)
    return lambda function, spec=None: Dispatcher(KernelDefinition(function, spec), services)


def saxpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i]


def test_the_same_launch_interface(launch: Any) -> None:
    k = launch(saxpy, ["float32, float32[::1], float32[::1]", "float64, const float64[:], float64[:]"])
    x = np.arange(10, dtype=np.float32)
    y = cuda.to_device(np.ones(10, np.float32))
    k[2, 8](2, x, y)
    k.forall(10, stream=cuda.stream())(np.float32(2), x, y)
    np.testing.assert_array_equal(y.copy_to_host(), 4 * x + 1)
    assert k.image_source("float32, float32[::1], float32[::1]") == "python"
    assert cuda.is_available()
    with pytest.raises(LaunchError, match="no signature takes these arguments"):
        k[1, 1](1, x, np.ones(10))


def test_no_meeting_means_the_callers_thread(launch: Any) -> None:
    order = []

    def k(x):
        order.append((*cuda.grid(2), cuda.blockIdx.x, cuda.threadIdx.y, threading.get_ident()))
        x[cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x, cuda.threadIdx.y] += cuda.gridsize(2)[0]

    x = np.zeros((4, 2), np.int64)
    launch(k)[2, (2, 2)](x)
    np.testing.assert_array_equal(x, 4)
    ident = threading.get_ident()
    assert order == [(b * 2 + tx, ty, b, ty, ident) for b in range(2) for ty in range(2) for tx in range(2)]


def reduce_block(x, out):
    part = cuda.shared.array(64, float32)
    t = cuda.threadIdx.x
    part[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    step = cuda.blockDim.x // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]


def test_barriers(launch: Any) -> None:
    x, out = np.arange(192, dtype=np.float32), np.zeros(3, np.float32)
    launch(reduce_block)[3, 64](x, out)
    np.testing.assert_array_equal(out, x.reshape(3, 64).sum(axis=1))


def test_threads_that_have_returned_do_not_count(launch: Any) -> None:
    def k(x):
        t = cuda.threadIdx.x
        if t % 3 == 0:
            return
        x[t, 0] = cuda.syncthreads_count(t > 10)
        x[t, 1] = cuda.syncthreads_and(t > 0)
        x[t, 2] = cuda.syncthreads_or(t == 3)
        cuda.syncwarp()

    x = np.full((40, 3), -1)
    launch(k)[1, 40](x)
    live = np.arange(40) % 3 != 0
    np.testing.assert_array_equal(x[live], [[sum(live[11:]), 1, 0]] * sum(live))
    np.testing.assert_array_equal(x[~live], -1)


def test_warp_operations(launch: Any) -> None:
    def k(x, out):
        i = cuda.threadIdx.x
        lane = cuda.laneid
        v = x[i]
        out[0, i] = cuda.shfl_down_sync(0xFFFFFFFF, v, 4)
        out[1, i] = cuda.shfl_up_sync(-1, v, 4)
        out[2, i] = cuda.shfl_xor_sync(0xFFFFFFFF, v, 1)
        out[3, i] = cuda.shfl_sync(0xFFFFFFFF, v, 3)
        out[4, i] = cuda.ballot_sync(0xFFFFFFFF, v > 20)
        if lane < 16:
            out[5, i] = cuda.any_sync(0xFFFF, lane == 3) + 2 * cuda.all_sync(0xFFFF, lane == 3)
        else:
            out[5, i] = 4 + cuda.eq_sync(0xFFFF0000, lane > 3)
        out[6, i] = cuda.match_any_sync(0xFFFFFFFF, v % 2)
        mask, alike = cuda.match_all_sync(0xFFFFFFFF, v)
        out[7, i] = mask + alike
        out[8, i] = cuda.popc(cuda.lanemask_lt()) - lane + cuda.popc(cuda.activemask())

    x, out = np.arange(40, dtype=np.int32), np.zeros((9, 40), np.int64)
    launch(k)[1, 40](x, out)
    lanes = np.arange(32)
    whole = out[:, :32]
    np.testing.assert_array_equal(whole[0], np.where(lanes < 28, lanes + 4, lanes))
    np.testing.assert_array_equal(whole[1], np.where(lanes > 3, lanes - 4, lanes))
    np.testing.assert_array_equal(whole[2], lanes ^ 1)
    np.testing.assert_array_equal(whole[3], 3)
    np.testing.assert_array_equal(whole[4], sum(1 << n for n in range(21, 32)))
    np.testing.assert_array_equal(whole[5], np.where(lanes < 16, 1, 5))
    np.testing.assert_array_equal(whole[6], np.where(lanes % 2, 0xAAAAAAAA, 0x55555555))
    np.testing.assert_array_equal(whole[7], 0)
    np.testing.assert_array_equal(out[8], 1)
    np.testing.assert_array_equal(out[0, 32:], [36, 37, 38, 39, 36, 37, 38, 39])  # the warp has eight live lanes
    np.testing.assert_array_equal(out[4, 32:], 0xFF)


def test_locks_and_flags_make_progress(launch: Any) -> None:
    def k(lock, total, flag):
        i = cuda.grid(1)
        if i == 0:
            while cuda.atomic.add(flag, 0, 0) == 0:
                cuda.nanosleep(10)
        if i == 5:
            cuda.atomic.exch(flag, 0, 1)
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        before = total[0]
        cuda.threadfence()
        total[0] = before + 1
        cuda.atomic.exch(lock, 0, 0)

    lock, total, flag = (np.zeros(1, np.int32) for _ in range(3))
    launch(k)[1, 16](lock, total, flag)
    assert (total[0], lock[0]) == (16, 0)


def test_the_grid_meets(launch: Any) -> None:
    def k(x, out):
        i = cuda.grid(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        out[i] = x[x.size - 1 - i]

    x, out = np.zeros(24, np.int32), np.zeros(24, np.int32)
    k_launch = launch(k)
    k_launch[3, 8](x, out)
    np.testing.assert_array_equal(out, np.arange(24)[::-1])
    with pytest.raises(LaunchError, match="at most 4096"):
        k_launch[64, 128](x, out)


def test_memory(launch: Any) -> None:
    table = np.array([3, 1, 2])

    def k(out):
        t = cuda.threadIdx.x
        dynamic = cuda.shared.array(0, dtype=int32)
        bytes_ = cuda.shared.array(shape=0, dtype=np.uint8)
        mine = cuda.local.array((2, 2), dtype=np.float64)
        mine[0, 1] = t
        dynamic[t] = t
        cuda.syncthreads()
        out[t, 0] = dynamic.size + bytes_.size
        out[t, 1] = dynamic[(t + 1) % 4]
        out[t, 2] = mine[0, 1] + cuda.const.array_like(table)[t % 3]
        out[t, 3] = bytes_[4]

    out = np.zeros((4, 4), np.int64)
    launch(k)[1, 4, 0, 16](out)
    np.testing.assert_array_equal(out, [[20, (t + 1) % 4, t + table[t % 3], 1] for t in range(4)])


def test_atomics(launch: Any) -> None:
    def k(x, f, old):
        a = cuda.atomic
        old[0] = a.add(x, (0, 0), 250)
        old[1] = a.sub(x, (0, 1), 7)
        old[2] = a.and_(x, (0, 2), 6)
        old[3] = a.or_(x, (0, 3), 8)
        old[4] = a.xor(x, (0, 4), 1)
        old[5] = a.inc(x, (0, 5), 5)
        old[6] = a.inc(x, (0, 6), 6)
        old[7] = a.dec(x, (0, 7), 3)
        old[8] = a.dec(x, (0, 8), 100)
        old[9] = a.max(x, (0, 9), 3)
        old[10] = a.min(x, (0, 10), 3)
        old[11] = a.exch(x, (0, 11), -1)
        old[12] = a.cas(x, (0, 12), 5, 50)
        old[13] = a.cas(x, (0, 13), 6, 50)
        old[14] = a.compare_and_swap(x[0, 14:], 5, 60)
        a.max(f, 0, 1.0)
        a.max(f, 1, math.nan)
        a.nanmax(f, 2, 1.0)
        a.nanmin(f, 3, math.nan)
        a.add(f, 4, 0.5)

    x = np.full((1, 15), 5, np.uint8)
    f = np.array([math.nan, 0, math.nan, 0, 1], np.float32)
    old = np.zeros(15, np.int64)
    launch(k)[1, 1](x, f, old)
    np.testing.assert_array_equal(old, 5)
    np.testing.assert_array_equal(x[0], [255, 254, 4, 13, 4, 0, 6, 3, 4, 5, 3, 255, 50, 5, 60])
    np.testing.assert_array_equal(f, np.array([math.nan, 0, 1, 0, 1.5], np.float32))


def test_values_are_typed_as_in_compiled_kernels(launch: Any) -> None:
    seen = []

    def k(n, f, b, t, i8, x):
        seen.append([type(v) for v in (n, f, b, t[0], t[1], x[0], x[0] * n, x[0] * 0.5, x.size, i8 + i8)])
        seen.append([
            cuda.popc(i8), cuda.popc(-1), cuda.clz(i8), cuda.clz(1), cuda.ffs(8), cuda.ffs(i8 - i8), cuda.brev(i8),
            cuda.brev(1), int(i8 + i8), cuda.selp(n > 2, 1, 2.0), cuda.selp(n > 3, x[0], 2.0), cuda.cbrt(27.0),
            cuda.rsqrt(np.float32(4)), cuda.rsqrt(0),
        ])  # fmt: skip

    launch(k, "int, float32, bool, Tuple(int, float64), int8, float32[::1]")[1, 1](
        3, 2.5, True, (1, 2), 100, np.ones(2, np.float32)
    )
    expected = [
        int, np.float32, np.bool_, int, np.float64, np.float32, np.float32, np.float32, int, np.int8,
    ]  # fmt: skip
    assert seen[0] == expected
    assert seen[1] == [3, 64, 1, 63, 4, 0, 38, -(1 << 63), -56, 1.0, 2.0, 3.0, 0.5, math.inf]
    assert type(seen[1][10]) is np.float32


def test_fma_rounds_once(launch: Any) -> None:
    def k(a, b, c, out):
        for i in range(a.size):
            out[i] = cuda.fma(a[i], b[i], c[i])

    for dtype, big in ((np.float32, 2.0**-23), (np.float64, 2.0**-52)):
        a = np.array([1 + big, 1, math.inf, 0.0, big**3], dtype)
        b = np.array([1 - big, 1, 0, -1, 1], dtype)
        c = np.array([-1, big / 2, 1, -0.0, 1], dtype)
        out = np.zeros(5, dtype)
        launch(k)[1, 1](a, b, c, out)
        np.testing.assert_array_equal(out, np.array([-(big**2), 1, math.nan, -0.0, 1], dtype))
        assert math.copysign(1, out[3]) == -1
    a = np.array([1 + 2.0**-23], np.float32)  # just above the middle of two float32: float64 would round it to there
    out = np.zeros(1, np.float32)
    launch(k)[1, 1](a, np.array([2.0**-24], np.float32), np.array([1], np.float32), out)
    assert out[0] == np.float32(1 + 2.0**-23)


def test_exceptions_name_the_thread(launch: Any) -> None:
    def k(x):
        cuda.syncthreads()
        x[cuda.grid(1)] = 1
        cuda.syncthreads()

    before = threading.active_count()
    with pytest.raises(IndexError, match="index 5 is out of bounds") as caught:
        launch(k)[2, 3](np.zeros(5))
    if sys.version_info >= (3, 11):
        assert "thread (2, 0, 0) of block (1, 0, 0)" in caught.value.__notes__[0]
    assert threading.active_count() == before


def test_threads_that_can_never_meet(launch: Any) -> None:
    def barrier_and_warp(x):
        if cuda.threadIdx.x < 16:
            cuda.syncthreads()
        else:
            x[0] = cuda.shfl_down_sync(0xFFFFFFFF, 1, 1)

    with pytest.raises(LaunchError) as caught:
        launch(barrier_and_warp)[1, 32](np.zeros(1, np.int32))
    assert str(caught.value) == (
        "threads wait for ever\n"
        "  found:    32 threads, among them thread (0, 0, 0) of block (0, 0, 0) in cuda.syncthreads\n"
        "  expected: every live thread of the block, or every live lane of the mask, to come to the same operation\n"
        "  do:       call it outside divergent branches, or name only the lanes that take the branch"
    )

    def hidden(x):
        x[0] = getattr(cuda, "sync" + "threads")() or 0

    with pytest.raises(LaunchError, match=r"cuda\.syncthreads is reached in a way that cannot be seen"):
        launch(hidden)[1, 2](np.zeros(1, np.int32))


def test_an_interrupt_ends_a_runaway_kernel(launch: Any) -> None:
    def k(x):
        cuda.syncthreads()
        while x[0] == 0:
            pass

    before = threading.active_count()
    timer = threading.Timer(0.2, _thread.interrupt_main)
    timer.start()
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        launch(k)[1, 4](np.zeros(1, np.int32))
    assert time.monotonic() - start < 3
    timer.join()
    assert threading.active_count() == before


def test_breakpoints(launch: Any) -> None:
    output = io.StringIO()
    debugger = pdb.Pdb(stdin=io.StringIO("p ('here', int(x[0]), t)\nc\n"), stdout=output)

    def k(x):
        t = cuda.threadIdx.x
        cuda.syncthreads()
        if t == 1:
            debugger.set_trace()
        x[t] = t

    x = np.array([7, 7])
    launch(k)[1, 2](x)
    assert "('here', 0, 1)" in output.getvalue() or "('here', 7, 1)" in output.getvalue()
    np.testing.assert_array_equal(x, [0, 1])


@device_function
def helper(x):
    return inner(x)


def inner(x):
    cuda.syncwarp()
    return x


def test_what_a_kernel_reaches() -> None:
    def direct(x):
        x[0] = helper(x)

    def plain(x):
        x[0] = math.sqrt(x[0]) + sum(1 for _ in range(3))

    barrier = cuda.syncthreads

    def alias():
        barrier()

    assert "syncwarp" in find_names(direct)
    assert not any(map(is_meeting, find_names(plain)))
    assert any(map(is_meeting, find_names(alias)))


def test_print_is_pythons(launch: Any, capsys: pytest.CaptureFixture[str]) -> None:
    def k(x):
        print("i =", cuda.grid(1), x[0], cuda.threadIdx, cuda.laneid)

    launch(k)[1, 2](np.ones(1))
    assert capsys.readouterr().out == "i = 0 1.0 (0, 0, 0) 0\ni = 1 1.0 (1, 0, 0) 1\n"
    assert (str(cuda.threadIdx), str(cuda.laneid)) == ("cuda.threadIdx", "cuda.laneid")


def made_for(count):
    def filled(value):
        array = cuda.shared.array(count, float32)
        if cuda.threadIdx.x < count:
            array[cuda.threadIdx.x] = value
        return array

    return filled


four, two = made_for(4), made_for(2)


def test_shared_arrays_of_closures(launch: Any) -> None:
    def k(out):
        a, b = four(1), two(2)
        cuda.syncthreads()
        out[cuda.threadIdx.x] = a[cuda.threadIdx.x] + b[cuda.threadIdx.x % 2]

    out = np.zeros(4)
    launch(k)[1, 4](out)
    assert out.tolist() == [3, 3, 3, 3]


def test_laneid_beside_typed_numbers(launch: Any) -> None:
    seen = []

    def k(x):
        lane = cuda.laneid
        seen.append([x[0] + lane, lane * x[0], lane - 1, 2**lane, lane < x[0], -lane, float(lane)])

    launch(k)[1, 3](np.full(1, 1.5, np.float32))
    assert seen[2] == [3.5, 3.0, 1, 4, False, -2, 2.0]
    assert [type(value) for value in seen[2][:2]] == [np.float32, np.float32]


def test_random_numbers(launch: Any) -> None:
    from cudabuild.cuda.random import create_xoroshiro128p_states, xoroshiro128p_normal_float64

    def k(states, out):
        i = cuda.grid(1)
        out[i, 0] = cuda.random.xoroshiro128p_next(states, i)
        out[i, 1] = cuda.random.xoroshiro128p_uniform_float32(states, i)
        out[i, 2] = xoroshiro128p_normal_float64(states, i)

    out = np.zeros((2, 3))
    launch(k)[1, 2](create_xoroshiro128p_states(2, seed=1), out)
    assert np.all((out[:, 1] > 0) & (out[:, 1] < 1))
    assert len(np.unique(out)) == 6
    assert np.all(out[:, 0] > 2.0**32)
    assert np.all(abs(out[:, 2]) < 5)


def test_laneid_is_a_number_in_kernels_only() -> None:
    assert cuda.laneid == cuda.laneid
    assert cuda.laneid != 3
    assert bool(cuda.laneid)
    assert len({cuda.laneid, cuda.laneid}) == 1
    with pytest.raises(RuntimeError, match="works inside a kernel only"):
        _ = cuda.laneid + 1


def test_laneid_beside_floats(launch: Any) -> None:
    def k(x):
        lane = cuda.laneid
        x[0, lane] = 1.5 + lane
        x[1, lane] = lane * 0.5 - 1.5
        x[2, lane] = 2.0**lane if lane < 3.5 else -lane / 2
        x[3, lane] = 20 // (lane + 1) + divmod(9.0, lane + 1)[1]

    x = np.zeros((4, 8))
    launch(k)[1, 8](x)
    n = np.arange(8)
    powers = np.where(n < 4, 2.0**n, -n / 2)
    np.testing.assert_array_equal(x, [1.5 + n, n / 2 - 1.5, powers, 20 // (n + 1) + 9 % (n + 1)])


def test_chosen_by_the_environment() -> None:
    code = (
        "import numpy as np, sys; from cudabuild import kernel, cuda, current_device\n"
        "def k(x): x[cuda.grid(1)] = 1\n"
        "x = np.zeros(4, np.int8); kernel(k)[1, 4](x); assert x.sum() == 4; assert current_device().kind == 'python'\n"
        "assert 'llvmlite' not in sys.modules and 'cudabuild.frontend' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, env={**os.environ, "CUDABUILD_DEVICE": "python"})
    assert PythonDevice().info.cc == (0, 0)
    assert decorators.kernel is kernel


RECORD = np.dtype([("a", "f8"), ("n", "i4"), ("h", "f4", 2), ("text", "U4")], align=True)


def test_records_and_times(launch: Any) -> None:
    kind = from_dtype(RECORD)

    def k(r: Any, one: Any, when: Any, d: Any) -> None:
        tile = cuda.shared.array(2, kind)
        t = cuda.threadIdx.x
        tile[t] = r[t]
        cuda.syncthreads()
        r[t] = tile[1 - t]
        r[t].a = r[t].n + one.h[1]
        r[t]["text"] = "new"
        d[t] = when + np.timedelta64(t, "D")
        if t == 0:
            one.n = 7

    array = np.zeros(3, RECORD)
    array["n"] = [1, 2, 3]
    array["h"][2] = [0.5, 0.25]
    dates = np.zeros(2, "M8[D]")
    launch(k)[1, 2](array, array[2], np.datetime64("2020-01-31", "D"), dates)
    assert array["n"].tolist() == [2, 1, 7]
    assert array["a"].tolist() == [2.25, 1.25, 0]
    assert array["text"].tolist() == ["new", "new", ""]
    assert dates.astype(str).tolist() == ["2020-01-31", "2020-02-01"]


@pytest.mark.parametrize(
    ("kernel", "name", "rows", "flags"),
    [
        (test_half.half_arithmetic, "float16", 10, 6),
        (test_half.brain_arithmetic, "bfloat16", 10, 6),
        (test_half.more_of_brain, "bfloat16", 10, 7),
    ],
)
def test_16_bit_floats(launch: Any, kernel: Any, name: str, rows: int, flags: int) -> None:
    dtype = as_dtype(from_name(name))
    numbers = [0.0, -1.0, 0.75, 2.5, np.inf, np.nan]
    x, y = (np.ravel(grid).astype(dtype) for grid in np.meshgrid(numbers, numbers))
    found: list[Any] = []
    for device in ("python", "cpu"):
        out, tests, signs = np.zeros((rows, x.size), dtype), np.zeros((flags, x.size), bool), np.zeros(x.size, np.int32)
        args = (x, y, out, tests, signs)[: 5 if flags == 7 else 4]
        if device == "python":
            launch(kernel)[1, x.size](*args)
        else:
            spec = f"{name}[::1], {name}[::1], {name}[:, ::1], bool[:, ::1]" + ", int32[::1]" * (flags == 7)
            definition = KernelDefinition(kernel, spec)
            CpuDevice().bind(definition, definition.signatures[0])((1, 1, 1), (x.size, 1, 1), 0, 0, args)
        found.append((out.astype(float), tests, signs))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


def parts(z, out):
    i = cuda.grid(1)
    out[i] = cmath.sqrt(z[i]) * 2 + z[i].conjugate() / 1j
    cuda.atomic.add(z.real, 0, 1)
    out[i] += complex(z[i].imag, cuda.bf16.bfloat16_to_int32_rd(-2.5)) + cuda.bf16.uint16_as_bfloat16(0x3F80)


def test_complex_numbers(launch: Any) -> None:
    z, out = np.array([3 + 4j, -1 + 0j, 2j]), np.zeros(3, complex)
    wanted = np.sqrt(z) * 2 + z.conj() / 1j + z.imag - 3j + 1
    launch(parts)[1, 3](z, out)
    np.testing.assert_allclose(out, wanted, rtol=1e-15)
    assert z[0] == 6 + 4j


@cuda.jit(device=True)
def doubled(x):
    return 2 * x


@cuda.jit
def calls_jit_function(x, y):
    i = cuda.grid(1)
    if i < x.size:
        s, c = cuda.libdevice.sincosf(doubled(x[i]))
        y[i] = s + 10 * c + cuda.libdevice.floorf(x[i])


def test_jit_functions_and_libdevice(launch: Any) -> None:
    x, y = np.linspace(-2, 5, 9, dtype=np.float32), np.zeros(9, np.float32)
    launch(calls_jit_function.py_func)[1, 16](x, y)
    np.testing.assert_allclose(y, np.sin(2 * x) + 10 * np.cos(2 * x) + np.floor(x), rtol=1e-5, atol=1e-5)


def fills(x, value, kind):
    i = cuda.grid(1)
    x[i] = 7 if value is None else kind(value)


def test_none_and_types_as_arguments(launch: Any) -> None:
    x = np.zeros(4)
    launch(fills)[1, 2](x, None, float32)
    launch(fills)[1, 1](x, 2.7, int32)
    np.testing.assert_array_equal(x, [2, 7, 0, 0])
