# SPDX-License-Identifier: Apache-2.0
"""Races, divergent barriers and reads of unwritten memory on the CPU device: all that are there, and no others."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import textwrap

import numpy as np
import phase_kernels
import planted_kernels
import pytest
from planted_kernels import CORRECT, FAULTY, PLANTED, marked_lines

from cudabuild import cuda, device_function
from cudabuild.cpu.compile import emit_host_text
from cudabuild.cpu.device import CpuDevice
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import BoundsError, CheckError, Finding
from cudabuild.frontend import build_ir
from cudabuild.types import complex64, complex128, float32, int32, parse_signature


@pytest.fixture
def find(monkeypatch):
    """Launches a function as a kernel under checks, and returns what was found."""

    def launch(kernel, signature, grid, block, *args, shared=0, checks="races barriers uninit", **options):
        monkeypatch.setenv("CUDABUILD_CHECK", checks)
        definition = KernelDefinition(kernel, signature, options=DEFAULT_OPTIONS.replace(**options))
        launcher = CpuDevice().bind(definition, parse_signature(signature))
        sizes = [((*size, 1, 1) if isinstance(size, tuple) else (size, 1, 1))[:3] for size in (grid, block)]
        try:
            launcher(*sizes, 0, shared, args)
        except CheckError as error:
            return error.findings
        return ()

    return launch


def lines(findings) -> set[tuple[str, int]]:
    return {(finding.kind, party.location.line) for finding in findings for party in finding.parties}


def marks(kind, kernel) -> set[tuple[str, int]]:
    return {(kind, line) for line in marked_lines(kernel)}


@pytest.mark.parametrize("launch", PLANTED, ids=lambda launch: launch.kernel.__name__)
def test_planted_faults_are_found(find, launch):
    found = find(*launch[1:5], *launch.arguments(), shared=launch.shared)
    assert lines(found) == marks(launch.check, launch.kernel)
    others = {"races", "barriers", "uninit"} - {launch.check}
    assert find(*launch[1:5], *launch.arguments(), shared=launch.shared, checks=" ".join(others)) == ()


@pytest.mark.parametrize("checks", ["bounds", "bounds races barriers uninit"])
@pytest.mark.parametrize("fault", FAULTY, ids=lambda fault: fault.kernel.__name__)
def test_planted_offenders_are_told(find, fault, checks):
    with pytest.raises((BoundsError, ZeroDivisionError), match=fault.says) as caught:
        find(*fault[1:5], *fault.arguments(), checks=checks, debug=fault.check == "division")
    assert {caught.value.line} == marked_lines(fault.kernel)
    assert (caught.value.thread, caught.value.block) == (fault.thread, fault.place)


@pytest.mark.parametrize("launch", CORRECT, ids=lambda launch: launch.kernel.__name__)
def test_correct_kernels_are_left_alone(find, launch):
    assert find(*launch[1:5], *launch.arguments(), shared=launch.shared) == ()


@pytest.mark.parametrize("seed", range(24))
def test_random_phases(find, seed, tmp_path):
    grid = phase_kernels.BLOCKS, phase_kernels.THREADS
    kernel = phase_kernels.PhaseKernel(seed)
    function = phase_kernels.load_kernel(kernel, tmp_path / "phases.py")
    arguments = phase_kernels.make_arguments()
    assert find(function, phase_kernels.SIGNATURE, *grid, *arguments, opt=seed % 3) == (), kernel.source()
    if kernel.break_one():
        function = phase_kernels.load_kernel(kernel, tmp_path / "broken.py")
        found = find(function, phase_kernels.SIGNATURE, *grid, *phase_kernels.make_arguments())
        assert {finding.kind for finding in found} == {"races"}, kernel.source()


@pytest.mark.parametrize("name", ["overlapping_blocks", "reduction", "two_barriers", "unwritten_local", "histogram"])
def test_messages(find, golden, name):
    (launch,) = [launch for launch in PLANTED if launch.kernel.__name__ == name]
    error = CheckError(find(launch.kernel, launch.signature, launch.grid, launch.block, *launch.arguments()))
    golden.check(f"checks/{name}.txt", str(error).replace(planted_kernels.__file__, "planted_kernels.py"))


def test_races_are_counted(find):
    def crowd(x):
        x[cuda.blockIdx.x] = cuda.threadIdx.x

    (finding,) = find(crowd, "int32[::1]", 50, 64, np.zeros(50, np.int32))
    assert finding.count == 50 * 63


@pytest.mark.parametrize("order", ["", "3", "11"])
@pytest.mark.parametrize("atomic", [False, True])
def test_a_write_to_what_many_blocks_read_is_found(find, atomic, order, monkeypatch):
    # Of reads by more than two blocks nothing is recorded: whoever writes must still meet one that is.
    def read_by_all(x, out):
        i = cuda.grid(1)
        out[i] = x[i % 8]
        if cuda.blockIdx.x == 150 and cuda.threadIdx.x == 9:
            if atomic:
                cuda.atomic.add(x, 3, 1)
            else:
                x[3] = 1

    monkeypatch.setenv("CUDABUILD_CPU_ORDER", order) if order else None
    found = find(read_by_all, "int32[::1], int32[::1]", 300, 32, np.zeros(8, np.int32), np.zeros(9600, np.int32))
    assert {finding.kind for finding in found} == {"races"}
    (parties,) = {tuple(sorted(party.does for party in finding.parties)) for finding in found}
    assert parties == ("reads it", "updates it atomically" if atomic else "writes it")


def test_reads_alone_are_no_race(find):
    def read_twice(x, out):
        i = cuda.grid(1)
        total = 0
        for k in range(64):
            total += x[k]
        for k in range(64):
            total += x[63 - k] * x[(k + i) % 64]
        out[i] = total

    assert find(read_twice, "int32[::1], int32[::1]", 200, 64, np.zeros(64, np.int32), np.zeros(12800, np.int32)) == ()


def test_both_parties_are_named(find):
    def neighbours(x):
        s = cuda.shared.array((4, 16), int32)
        s[cuda.threadIdx.y, cuda.threadIdx.x] = 1
        if cuda.threadIdx.x == 5 and cuda.threadIdx.y == 2 and cuda.blockIdx.y == 1:
            x[0] = s[3, 7]  # fault

    # Thread (7, 3) writes after thread (5, 2) has read.
    (finding,) = find(neighbours, "int32[::1]", (2, 2), (16, 4), np.zeros(1, np.int32), checks="races")[:1]
    writer, reader = finding.parties
    assert (writer.thread, writer.does) == ((7, 3, 0), "writes it")
    assert (reader.thread, reader.does) == ((5, 2, 0), "reads it")
    assert writer.block == reader.block
    assert writer.block[1] == 1
    assert (finding.kind, finding.kernel) == ("races", f"{neighbours.__qualname__}")


def test_errors_survive_pickling(find):
    launch = PLANTED[0]
    error = CheckError(find(*launch[1:5], *launch.arguments()))
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error)
    assert isinstance(copy.findings[0], Finding)


# warps


def test_syncwarp_orders_the_lanes_of_its_mask(find):
    def within(x):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = t
        cuda.syncwarp()
        x[t] = s[t ^ 31]

    def across(x):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = t  # fault
        cuda.syncwarp()
        x[t] = s[t ^ 32]  # fault

    def halves(x):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = t  # fault
        if t & 16:
            cuda.syncwarp(0xFFFF0000)
        else:
            cuda.syncwarp(0x0000FFFF)
        x[t] = s[t ^ 16] + s[t ^ 1]  # fault

    def chain(x):
        # Lanes 0 to 7 meet 8 to 15, which meet 16 to 23: those know of the first by then.
        s = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        s[t] = t
        if t < 16:
            cuda.syncwarp(0x0000FFFF)
        if 8 <= t < 24:
            cuda.syncwarp(0x00FFFF00)
        if 16 <= t < 24:
            x[t] = s[t - 16]

    for kernel, threads in ((within, 64), (across, 64), (halves, 64), (chain, 32)):
        found = find(kernel, "int32[::1]", 1, threads, np.zeros(64, np.int32), checks="races")
        assert lines(found) == marks("races", kernel), kernel.__name__


def test_a_shuffle_orders_nothing(find):
    def shuffled(x):
        s = cuda.shared.array(32, int32)
        t = cuda.threadIdx.x
        s[t] = t  # fault
        a = cuda.shfl_sync(0xFFFFFFFF, t, 0)
        x[t] = s[t ^ 1] + a  # fault

    assert lines(find(shuffled, "int32[::1]", 1, 32, np.zeros(32, np.int32))) == marks("races", shuffled)


def test_where_threads_wait_for_ever(find):
    def stuck(x):
        t = cuda.threadIdx.x
        if t < 16:
            x[t] = cuda.shfl_sync(0xFFFFFFFF, t, 0)  # fault
        else:
            cuda.syncthreads()  # fault
        cuda.syncthreads()

    found = find(stuck, "int32[::1]", 1, 64, np.zeros(64, np.int32), checks="barriers")
    assert lines(found) == marks("barriers", stuck)


# blocks


def test_grid_sync_orders_blocks(find):
    def synced(x):
        i = cuda.grid(1)
        n = cuda.gridsize(1)
        x[i] = i
        for _ in range(3):
            cuda.cg.this_grid().sync()
            value = x[(i + 100) % n]
            cuda.cg.this_grid().sync()
            x[i] = value

    def once(x):
        i = cuda.grid(1)
        n = cuda.gridsize(1)
        x[i] = i
        cuda.cg.this_grid().sync()
        value = x[(i + 100) % n]  # fault
        x[i] = value  # fault

    assert find(synced, "int32[::1]", 8, 64, np.zeros(512, np.int32)) == ()
    assert lines(find(once, "int32[::1]", 8, 64, np.zeros(512, np.int32))) == marks("races", once)


def test_fences_order_what_a_lock_protects(find):
    def locked(lock, count):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        cuda.threadfence()
        count[0] = count[0] + 1
        cuda.threadfence()
        cuda.atomic.exch(lock, 0, 0)

    def unfenced(lock, count):
        while cuda.atomic.cas(lock, 0, 0, 1) != 0:
            pass
        count[0] = count[0] + 1  # fault
        cuda.atomic.exch(lock, 0, 0)

    signature = "int32[::1], int64[::1]"
    count = np.zeros(1, np.int64)
    assert find(locked, signature, 20, 32, np.zeros(1, np.int32), count) == ()
    assert count[0] == 640
    found = find(unfenced, signature, 20, 32, np.zeros(1, np.int32), np.zeros(1, np.int64))
    assert lines(found) == marks("races", unfenced)


def test_atomics_race_with_plain_accesses_only(find):
    def mixed(x, out):
        i = cuda.grid(1)
        cuda.atomic.add(x, 0, 1)
        cuda.atomic.max(x, 1, i)  # fault
        if i == 40:
            out[0] = x[1]  # fault

    assert lines(find(mixed, "int32[::1], int32[::1]", 2, 32, *np.zeros((2, 2), np.int32))) == marks("races", mixed)


def test_many_blocks_on_all_cores(find):
    def crowded(x, total):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = x[cuda.grid(1)]
        cuda.syncthreads()
        cuda.atomic.add(total, 0, s[63 - t])
        if cuda.blockIdx.x >= 1998 and t == 0:
            total[1] = cuda.blockIdx.x  # fault

    x, total = np.ones(2000 * 64, np.int32), np.zeros(2, np.int32)
    assert lines(find(crowded, "int32[::1], int32[::1]", 2000, 64, x, total)) == marks("races", crowded)
    assert total[0] == 2000 * 64


# memory


def test_elements_of_other_sizes_in_the_same_memory(find):
    def disjoint(words, bytes_):
        t = cuda.threadIdx.x
        if t < 32:
            words[2 * t] = t
        else:
            bytes_[8 * (t - 32) + 5] = t
        cuda.syncthreads()
        words[63 - t] = 0

    def touching(words, bytes_):
        t = cuda.threadIdx.x
        if t < 32:
            words[2 * t] = t  # fault
        else:
            bytes_[8 * (t - 32) + 3] = t  # fault

    memory = np.zeros(256, np.uint8)
    for kernel in (disjoint, touching):
        found = find(kernel, "int32[::1], uint8[::1]", 1, 64, memory.view(np.int32), memory)
        assert lines(found) == marks("races", kernel), kernel.__name__


@device_function
def swap(s, i, j):
    value = s[i]
    s[i] = s[j]  # fault
    s[j] = value


@device_function
def total_of(a):
    scratch = cuda.local.array(3, float32)
    scratch[0] = a[0]
    scratch[2] = a[1]
    return scratch[0] + scratch[1]  # fault


def test_faults_in_device_functions(find):
    def swapping(x):
        s = cuda.shared.array(64, int32)
        t = cuda.threadIdx.x
        s[t] = x[t]
        cuda.syncthreads()
        swap(s, t, (t + 1) % 64)

    def local_arrays(x):
        i = cuda.grid(1)
        for k in range(2):
            a = cuda.local.array(2, float32)
            a[0] = x[i] + k
            a[1] = x[i]
            x[i] = total_of(a)

    found = find(swapping, "int32[::1]", 1, 64, np.zeros(64, np.int32))
    assert marked_lines(swap.py_func) <= {line for kind, line in lines(found)}
    assert {finding.kind for finding in found} == {"races"}
    assert lines(find(local_arrays, "float32[::1]", 2, 32, np.ones(64, np.float32))) == marks(
        "uninit", total_of.py_func
    )


def test_an_array_that_may_be_local_or_shared(find):
    def either(x, flag):
        mine = cuda.local.array(4, float32)
        ours = cuda.shared.array(4, float32)
        a = mine if flag > 0 else ours
        for k in range(4):
            a[k] = k
        x[cuda.threadIdx.x] = mine[2]

    assert find(either, "float32[::1], int32", 1, 32, np.ones(32, np.float32), 1) == ()


NO_MEMORY = """
    import resource
    import numpy as np
    from cudabuild import cuda
    from cudabuild.cpu.device import CpuDevice
    from cudabuild.definition import KernelDefinition
    from cudabuild.errors import LaunchError
    from cudabuild.types import parse_signature

    def count(x):
        x[cuda.grid(1)] += 1

    launch = CpuDevice().bind(KernelDefinition(count), parse_signature("float32[::1]"))
    x = np.zeros(1 << 23, np.float32)
    launch((1, 1, 1), (32, 1, 1), 0, 0, (x,))
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (128 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        launch((1 << 15, 1, 1), (256, 1, 1), 0, 0, (x,))
    except LaunchError as error:
        print(str(error).partition(": ")[2])
    launch((1, 1, 1), (32, 1, 1), 0, 0, (x,))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="memory is limited through /proc and RLIMIT_AS")
def test_checks_that_do_not_fit_in_memory(tmp_path):
    script = tmp_path / "no_memory.py"
    script.write_text(textwrap.dedent(NO_MEMORY))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "CUDABUILD_CHECK": "races"}
    command = [sys.executable, str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment, check=False)
    assert (done.stderr, done.returncode) == ("", 0)
    assert done.stdout.strip() == (
        "no memory left for the threads and shared arrays of a block of (256, 1, 1) threads, or for what the checks "
        "keep: 48 bytes for each element that the kernel touches"
    )


def test_a_kernel_that_is_not_checked_holds_no_checks():
    launch = PLANTED[0]
    function = build_ir(KernelDefinition(launch.kernel, launch.signature), parse_signature(launch.signature))
    assert "check." not in emit_host_text(function)[0]
    assert "@check.access" in emit_host_text(function, checks=frozenset(("races",)))[0]


def parts_by_two_threads(z, out):
    i = cuda.threadIdx.x
    if i % 2 == 0:
        z.real[i // 2] = i
    else:
        z.imag[i // 2] = i
    tile = cuda.shared.array(32, complex128)
    tile[i] = out[i]
    cuda.syncthreads()
    out[i] = tile[31 - i]


def whole_beside_a_part(z, out):
    i = cuda.threadIdx.x
    if i % 2 == 0:
        z.real[i // 2] = i
    else:
        out[i] = z[i // 2]


def half_written(z, out):
    i = cuda.threadIdx.x
    tile = cuda.shared.array(32, complex64)
    tile.real[i] = 1
    out[i] = tile[i].real
    if z[0] == 1:
        out[i] += tile[i]


def test_parts_of_complex_numbers_are_watched_apart(find):
    z, out = np.zeros(16, complex), np.zeros(32, complex)
    signature = "complex128[::1], complex128[::1]"
    assert find(parts_by_two_threads, signature, 1, 32, z, out) == ()
    np.testing.assert_array_equal(z, np.arange(0, 32, 2) + 1j * np.arange(1, 32, 2))
    (race,) = find(whole_beside_a_part, signature, 1, 32, z, out)
    assert race.kind == "races"
    assert {"uninit"} == {finding.kind for finding in find(half_written, signature, 1, 32, z, out)}


def out_of_range(z, out):
    i = cuda.threadIdx.x
    out.imag[i + 1] = z.real[i]


def test_an_index_beyond_a_part_is_told(find):
    z, out = np.ones(8, np.complex64), np.zeros(8, np.complex64)
    with pytest.raises(BoundsError, match="index 8 is out of range for axis 0 with 8 elements"):
        find(out_of_range, "complex64[::1], complex64[::1]", 1, 8, z, out, checks="bounds")
    np.testing.assert_array_equal(out, [0, *[1j] * 7])
