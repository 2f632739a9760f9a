# SPDX-License-Identifier: Apache-2.0
"""Blocks of 1,024 threads, grids of three axes, all the shared memory there is: right results, little memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.types import float32

MEMORY = """
import json, sys
from pathlib import Path
import numpy as np
from cudabuild.cpu.device import CpuDevice
from cudabuild.cpu.workers import core_count
from cudabuild.definition import KernelDefinition
from cudabuild.types import parse_signature

sys.path.insert(0, sys.argv[1])
from test_large_launches import reverse_block, shuffle_block, wait_for_all

def memory(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) << 10

rows = {}
for function in (reverse_block, shuffle_block, wait_for_all):
    signature = parse_signature("float32[::1], int32[::1]")
    launch = CpuDevice().bind(KernelDefinition(function), signature)
    out, count = np.zeros(1024, np.float32), np.zeros(1, np.int32)
    launch((1, 1, 1), (32, 1, 1), 0, 4096, (out, count))
    for blocks in (16, 1600) if function is not wait_for_all else (16, 64):
        count[0] = 0
        Path("/proc/self/clear_refs").write_text("5")
        before = memory("VmRSS")
        launch((blocks // 16, 4, 4), (16, 8, 8), 0, 4096, (out, count))
        live = 1024 * (blocks if function is wait_for_all else core_count())
        rows[f"{function.__name__} {blocks}"] = (memory("VmHWM") - before) / live
print(json.dumps(rows))
"""


def reverse_block(out, count):
    shared = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    threads = cuda.blockDim.x * cuda.blockDim.y * cuda.blockDim.z
    shared[t] = t
    cuda.syncthreads()
    value = shared[threads - 1 - t]
    cuda.syncthreads()
    cuda.atomic.add(out, t, value)


def shuffle_block(out, count):
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    value = cuda.shfl_xor_sync(0xFFFFFFFF, float32(t), 31)
    cuda.syncthreads()
    cuda.atomic.add(out, t, value)


def wait_for_all(out, count):
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    if t == 0:
        cuda.atomic.add(count, 0, 1)
    while cuda.atomic.add(count, 0, 0) < cuda.gridDim.x * cuda.gridDim.y * cuda.gridDim.z:
        pass
    out[t] = t


def hundred_kib(out, count):
    shared = cuda.shared.array(0, float32)
    t = cuda.threadIdx.x + cuda.blockDim.x * (cuda.threadIdx.y + cuda.blockDim.y * cuda.threadIdx.z)
    shared[25 * t] = t
    cuda.syncthreads()
    cuda.atomic.add(out, t, shared[25 * (1023 - t)])
    if t == 0:
        cuda.atomic.add(count, 0, 1)


def test_a_hundred_kib_of_shared_memory(run):
    out, count = np.zeros(1024, np.float32), np.zeros(1, np.int32)
    run(hundred_kib, "float32[::1], int32[::1]", (20, 10, 5), (16, 8, 8), out, count, shared=100 * 1024)
    assert count[0] == 1000
    np.testing.assert_array_equal(out, 1000 * np.arange(1023, -1, -1))


@pytest.mark.skipif(not os.path.exists("/proc/self/clear_refs"), reason="counts memory as Linux does")
def test_memory_per_live_thread():
    """At most 1 KiB, shared memory included, however many blocks there are."""
    command = [sys.executable, "-c", MEMORY, os.path.dirname(__file__)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)
    assert len(rows) == 6
    for name, each in rows.items():
        assert each < 1024, (name, each)
