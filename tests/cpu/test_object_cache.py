# SPDX-License-Identifier: Apache-2.0
"""Host code that a second process finds: no front end, no code generation; and what makes it be compiled anew."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cache.store import Cache
from cudabuild.cpu import compile as compiling
from cudabuild.cpu.device import CpuDevice
from cudabuild.cpu.store import host_target
from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import BoundsError
from cudabuild.types import parse_signature

SIGNATURE = "float32[::1], int64"

PROGRAM = """
import json, sys, time
start = time.perf_counter()
import numpy as np
from cudabuild import cuda, kernel

@kernel("float32[::1], float32[::1]")
def neighbours(x, y):
    shared = cuda.shared.array(64, np.float32)
    t = cuda.threadIdx.x
    shared[t] = x[cuda.grid(1)]
    cuda.syncthreads()
    y[cuda.grid(1)] = shared[63 - t] + cuda.shfl_xor_sync(0xFFFFFFFF, shared[t], 1)

x = np.arange(128, dtype=np.float32)
y = np.zeros_like(x)
neighbours[2, 64](x, y)
t = np.arange(128)
np.testing.assert_array_equal(y, x[t // 64 * 64 + 63 - t % 64] + x[t ^ 1])
print(json.dumps([time.perf_counter() - start, sorted(name for name in sys.modules if name.startswith("cudabuild."))]))
"""


def scale(x, n):
    i = cuda.grid(1)
    if i < n:
        x[i] *= 2


@pytest.fixture
def cache(tmp_path):
    return Cache(str(tmp_path / "cache"))


@pytest.fixture
def compiled(monkeypatch):
    """The names of the kernels that were compiled."""
    names = []
    make = compiling.compile_object
    monkeypatch.setattr(compiling, "compile_object", lambda d, *rest: names.append(d.qualname) or make(d, *rest))
    return names


def launch(store, function, options=DEFAULT_OPTIONS):
    definition = KernelDefinition(function, SIGNATURE, options=options)
    launcher = CpuDevice(store).bind(definition, parse_signature(SIGNATURE))
    x = np.ones(64, np.float32)
    launcher((1, 1, 1), (64, 1, 1), 0, 0, (x, 40))
    np.testing.assert_array_equal(x, np.where(np.arange(64) < 40, 2, 1))
    return launcher.kernel.object


def test_a_second_binding_finds_it(cache, compiled):
    first = launch(cache, scale)
    again = launch(Cache(cache.root), scale)
    assert compiled == ["scale"]
    assert again == first
    assert cache.targets() == [host_target()]


@pytest.mark.parametrize(("variable", "value"), [
    ("CUDABUILD_CHECK", "none"), ("CUDABUILD_CACHE_SALT", "another"), ("CUDABUILD_IMAGES", "none"),
])  # fmt: skip
def test_settings_that_compile_anew(cache, compiled, monkeypatch, variable, value):
    launch(cache, scale)
    monkeypatch.setenv(variable, value)
    launch(cache, scale)
    assert compiled == ["scale", "scale"]


def test_options_and_processors_that_compile_anew(cache, compiled, monkeypatch):
    launch(cache, scale)
    launch(cache, scale, DEFAULT_OPTIONS.replace(fma=False))
    launch(cache, scale, DEFAULT_OPTIONS.replace(opt=1))
    assert len(compiled) == 3
    from cudabuild.cpu import objects, store

    for module in (objects, store):
        monkeypatch.setattr(module, "host_target", lambda: "host-other-0123456789abcdef")
    launch(cache, scale)
    assert len(compiled) == 4


def test_a_watched_kernel_is_never_kept(cache, monkeypatch):
    monkeypatch.setenv("CUDABUILD_CHECK", "races")
    launch(cache, scale)
    assert cache.targets() == [] or all(image.kind != "object" for image in cache.find_in_memory())


def load(path, text):
    path.write_text(text)
    spec = importlib.util.spec_from_file_location("moved_kernels", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.reads


def test_lines_are_those_of_the_file_as_it_is(cache, compiled, tmp_path):
    text = "def reads(x, n):\n    x[0] = x[n + 100]\n"
    for shift in (0, 3):
        function = load(tmp_path / "moved_kernels.py", "#\n" * shift + text)
        launcher = CpuDevice(cache).bind(KernelDefinition(function, SIGNATURE), parse_signature(SIGNATURE))
        with pytest.raises(BoundsError) as caught:
            launcher((1, 1, 1), (1, 1, 1), 0, 0, (np.ones(4, np.float32), 0))
        assert f"moved_kernels.py:{2 + shift}: x[0] = x[n + 100]" in str(caught.value)
    assert compiled == ["reads", "reads"]


def test_a_second_process_needs_no_compiler(tmp_path):
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    environment = {**os.environ, "CUDABUILD_CACHE_DIR": str(tmp_path / "cache"), "CUDABUILD_DEVICE": "cpu"}
    told = []
    for _ in range(2):
        done = subprocess.run(
            [sys.executable, str(script)], env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        told.append(json.loads(done.stdout))
    (cold, before), (warm, after) = told
    assert "cudabuild.cpu.compile" in before
    assert not {"cudabuild.frontend", "cudabuild.ir.ranges", "cudabuild.backend.emit", "cudabuild.cpu.compile"} & set(
        after
    )
    assert warm < cold
