# SPDX-License-Identifier: Apache-2.0
"""Writes the project that ``big_build.py`` builds: modules of kernels of typical shape, all different."""

from __future__ import annotations

from pathlib import Path

__all__ = ["KERNELS_PER_MODULE", "make_project"]

KERNELS_PER_MODULE = 25

_PYPROJECT = """\
[build-system]
requires = ["setuptools", "cudabuild[build]"]
build-backend = "setuptools.build_meta"
[project]
name = "big"
version = "1"
[tool.setuptools.packages.find]
where = ["src"]
[tool.cudabuild]
archs = {archs}
ptx = "none"
"""

_HEAD = """\
import math

import cudabuild as cb
from cudabuild import cuda, float32
from .sizes import SCALE, TILE

OFFSET = {number}


@cb.device_function
def clamp(value, low, high):
    return min(max(value, low), high)
"""

_SHAPES = (
    '''
@cb.kernel("float32, float32[::1], float32[::1]")
def axpy_{n}(a, x, y):
    """y += a x, shifted."""
    i = cuda.grid(1)
    if i < y.size:
        y[i] += a * x[i] + float32({n}.5)
''',
    """
@cb.kernel("float32[:, ::1], float32[:, ::1]")
def stencil_{n}(a, out):
    i, j = cuda.grid(2)
    if 0 < i < a.shape[0] - 1 and 0 < j < a.shape[1] - 1:
        around = a[i - 1, j] + a[i + 1, j] + a[i, j - 1] + a[i, j + 1]
        out[i, j] = clamp(around / 4 - a[i, j] * {n}, -SCALE, SCALE)
""",
    """
@cb.kernel("float32[::1], float32[::1]")
def block_sum_{n}(x, out):
    part = cuda.shared.array(TILE, float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    part[t] = x[i] * {n} if i < x.size else 0
    cuda.syncthreads()
    step = TILE // 2
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        out[cuda.blockIdx.x] = part[0]
""",
    """
@cb.kernel("int32[:], int32[:]")
def histogram_{n}(values, bins):
    i = cuda.grid(1)
    step = cuda.gridsize(1)
    while i < values.size:
        bucket = (values[i] + OFFSET) % bins.size
        cuda.atomic.add(bins, bucket, {n})
        i += step
""",
    """
@cb.kernel("float64[::1], float64[::1], float64[::1], float64")
def options_{n}(price, strike, out, years):
    i = cuda.grid(1)
    if i < out.size:
        root = math.sqrt(years) * 0.{n}
        d1 = (math.log(price[i] / strike[i]) + years * 0.5) / root
        d2 = d1 - root
        out[i] = price[i] * math.exp(-d1 * d1) - strike[i] * math.exp(-d2 * d2)
""",
    """
@cb.kernel("float32[:, ::1], float32[:, ::1], float32[:, ::1]")
def matmul_{n}(a, b, c):
    i, j = cuda.grid(2)
    if i < c.shape[0] and j < c.shape[1]:
        total = c[i, j] * {n}
        for k in range(a.shape[1]):
            total += a[i, k] * b[k, j]
        c[i, j] = total
""",
)


def make_project(root: Path, kernels: int, archs: list[str]) -> Path:
    """A project of ``kernels`` kernels, 25 a module, that share a device function per module and constants of another.

    Args:
        root: a folder that does not exist yet.
        kernels: how many.
        archs: as in ``[tool.cudabuild]``.
    """
    package = root / "src" / "big"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(_PYPROJECT.format(archs=repr(archs).replace("'", '"')), encoding="utf-8")
    (package / "__init__.py").write_text("", encoding="utf-8")
    (package / "sizes.py").write_text("SCALE = 2.0\nTILE = 64\nTILE *= 2\n", encoding="utf-8")
    for start in range(0, kernels, KERNELS_PER_MODULE):
        number = start // KERNELS_PER_MODULE
        text = _HEAD.format(number=number)
        for n in range(start, min(start + KERNELS_PER_MODULE, kernels)):
            text += "\n" + _SHAPES[n % len(_SHAPES)].replace("{n}", str(n + 1))
        (package / f"part_{number:03}.py").write_text(text, encoding="utf-8")
    return root
