# SPDX-License-Identifier: Apache-2.0
"""The package of ``recorded_package.py``, file by file: kernels of every kind, none but one with a signature."""

from __future__ import annotations

__all__ = ["FILES"]

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "cudabuild[build]"]
build-backend = "setuptools.build_meta"

[project]
name = "recorded-example"
version = "1.0"

[tool.setuptools.packages.find]
where = ["src"]

[tool.cudabuild]
signatures = "cudabuild-signatures.toml"
strict = true
"""

KERNELS = '''\
"""Kernels that stand in a module."""

from cudabuild import cuda, device_function, kernel

OFFSET = 3


@kernel
def axpy(a, x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = a * x[i] + y[i] + OFFSET


@kernel("float32[::1]", fastmath=True)
def halve(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = x[i] / 2


class Counters:
    @staticmethod
    @kernel(launch_bounds=64)
    def count(x, found):
        i = cuda.grid(1)
        if i < x.size and x[i] > 0:
            cuda.atomic.add(found, 0, 1)


@device_function
def square(x):
    return x * x
'''

FACTORIES = '''\
"""Kernels that functions make."""

import numpy as np

from cudabuild import cuda, kernel

from .kernels import OFFSET


def make_filter(taps):
    """Captures an array."""

    @kernel
    def apply_filter(x, y):
        i = cuda.grid(1)
        if i < x.size:
            total = y[i]
            for k in range(taps.size):
                if i + k < x.size:
                    total += taps[k] * x[i + k]
            y[i] = total

    return apply_filter


def make_map(function):
    """Captures a device function."""

    @kernel
    def apply_map(x):
        i = cuda.grid(1)
        if i < x.size:
            x[i] = function(x[i]) + OFFSET

    return apply_map


def add(amount):
    """A function for :func:`make_map`, with a value of its own."""

    def added(x):
        return x + amount

    return added


def make_sum(dtype, threads=64):
    """Captures a dtype and a number."""

    @kernel(launch_bounds=threads)
    def block_sum(x, total):
        shared = cuda.shared.array(threads, dtype)
        i = cuda.grid(1)
        t = cuda.threadIdx.x
        shared[t] = x[i] if i < x.size else 0
        cuda.syncthreads()
        step = threads // 2
        while step > 0:
            if t < step:
                shared[t] += shared[t + step]
            cuda.syncthreads()
            step //= 2
        if t == 0:
            cuda.atomic.add(total, 0, shared[0])

    return block_sum


class Scaling:
    """What a kernel takes from an object."""

    def __init__(self, factor, shift):
        self.factor = factor
        self.shift = shift

    def make(self):
        scaling = self

        @cuda.jit
        def scale(x, power=2):
            i = cuda.grid(1)
            if i < x.size:
                x[i] = x[i] ** power * scaling.factor + scaling.shift

        return scale


#: 8 kB: it is kept beside the signature file.
TABLE = np.arange(2000, dtype=np.float32)
'''

CASES = '''\
"""Every kernel once: what it leaves in its arrays, and what it should."""

import numpy as np

from . import factories, kernels

N = 200


def run():
    """(name, kernel, largest difference) of every launch."""
    x = np.linspace(-1, 1, N, dtype=np.float32)

    def launch(name, kernel, expected, *arguments, block=64):
        kernel[-(-N // block), block](*arguments)
        difference = np.max(np.abs(np.asarray(arguments[-1], np.float64) - expected))
        return name, kernel, float(difference)

    for dtype in (np.float32, np.float64):
        data, y = x.astype(dtype), np.ones(N, dtype)
        yield launch(f"axpy {dtype.__name__}", kernels.axpy, 2 * data + 4, dtype(2), data, y)
    yield launch("halve", kernels.halve, x / 2, x.copy())
    found = np.zeros(1, np.int32)
    yield launch("count", kernels.Counters.count, np.sum(x > 0), x, found)
    for taps in ([0.25, 0.5, 0.25], [1.0, -1.0]):
        kernel = factories.make_filter(np.array(taps, np.float32))
        padded = np.concatenate([x, np.zeros(len(taps), np.float32)])
        expected = sum(tap * padded[k : k + N] for k, tap in enumerate(taps))
        yield launch(f"filter {taps}", kernel, expected, x, np.zeros(N, np.float32))
    kernel = factories.make_filter(factories.TABLE)
    expected = [np.sum(factories.TABLE[: N - i].astype(np.float64) * x[i:]) for i in range(N)]
    yield launch("filter with a large table", kernel, expected, x, np.zeros(N, np.float32))
    yield launch("map square", factories.make_map(kernels.square), x.astype(np.float64) ** 2 + 3, x.copy())
    yield launch("map add(2)", factories.make_map(factories.add(2)), x + 5.0, x.copy())
    for dtype in (np.float32, np.float64):
        yield launch(f"sum {dtype.__name__}", factories.make_sum(dtype), np.sum(x), x.astype(dtype), np.zeros(1, dtype))
    yield launch("scale", factories.Scaling(0.5, 1).make(), 0.5 * x.astype(np.float64) ** 2 + 1, x.copy())
'''

TESTS = """\
from recorded_example import cases


def test_every_kernel():
    results = list(cases.run())
    assert len(results) == 12
    for name, _, difference in results:
        assert difference < (1e-2 if "large" in name else 1e-5), (name, difference)
"""

#: What a fresh process of the installed package tells: per launch its kernel, image source and difference, as JSON.
PROBE = """\
import json, sys
if {fake}:
    sys.path.insert(0, {runtime!r})
    import fake_driver
    from cudabuild.runtime.driver import use_driver
    driver = fake_driver.FakeDriver()
    driver.takes_any_code = True
    use_driver(driver)
import numpy as np
from recorded_example import cases, factories
found = []
for name, kernel, difference in cases.run():
    sources = {{kernel.image_source(signature) for signature in kernel.signatures}}
    found.append((name, sorted(sources), difference))
missed = ""
try:
    factories.make_filter(np.array([5, 6], np.float32))[4, 64](np.ones(200, np.float32), np.ones(200, np.float32))
except Exception as error:
    missed = f"{{type(error).__name__}}: {{error}}"
compiler = [name for name in ("llvmlite", "cudabuild.frontend", "cudabuild.recording") if name in sys.modules]
print(json.dumps([found, missed, compiler]))
"""

#: Path below the project -> text.
FILES = {
    "pyproject.toml": PYPROJECT,
    "src/recorded_example/__init__.py": '"""Kernels that are recorded from a test run."""\n',
    "src/recorded_example/kernels.py": KERNELS,
    "src/recorded_example/factories.py": FACTORIES,
    "src/recorded_example/cases.py": CASES,
    "tests/test_cases.py": TESTS,
}
