# SPDX-License-Identifier: Apache-2.0
"""Functions that kernel factories of the projects are given, where they take one."""

from __future__ import annotations

from types import SimpleNamespace

from numba import cuda

__all__ = [
    "COVERED", "area_kernel", "combine", "held", "jitted", "line_kernel", "mesh_kernel", "metric_kernel",
    "point_kernel", "twice_and_one",
]  # fmt: skip

#: Kernels of ours that call functions of a project -> those functions, whose lines count.
COVERED = {}


def twice_and_one(value):
    return value * 2 + 1


def held(function, name):
    """A function that ``function`` has captured, at any depth."""
    function = getattr(function, "py_func", function)  # numba's functions for the CPU
    for cell, value in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        found = value.cell_contents
        if cell == name:
            return found
        if hasattr(found, "__code__") or hasattr(found, "py_func"):
            deeper = held(found, name)
            if deeper is not None:
                return deeper
    return None


def jitted(function):
    """A function as one for kernels to call."""
    return cuda.jit(device=True)(function)


def combine(where, selector, categorical, several):
    """The kernel with which datashader joins two parts of an image."""
    chosen = selector("x", 4) if several else selector("x")
    return where(chosen)._combine_callback(True, False, categorical)


def metric_kernel(metric, precision):
    """A kernel that feeds rows to one of cubie's metrics, which are two device functions made by a method."""
    settings = SimpleNamespace(precision=precision, sample_summaries_every=0.25)
    made = metric.build(SimpleNamespace(compile_settings=settings, jit_kwargs={}))
    update, save = made.update_fn, made.save_fn

    @cuda.jit
    def kernel(values, buffers, outputs, parameter):
        i = cuda.grid(1)
        if i < values.shape[0]:
            for k in range(values.shape[1]):
                update(values[i, k], buffers[i], k, parameter)
            save(buffers[i], outputs[i], values.shape[1], parameter)

    COVERED[kernel] = (update.py_func, save.py_func)
    return kernel


def _same(x):
    return x


def _count(i, x, y, image):
    cuda.atomic.add(image, (y, x), 1)


def point_kernel(glyph):
    """datashader's kernel for points, each of which counts as one."""
    extend = glyph("x", "y")._build_extend(jitted(_same), jitted(_same), None, jitted(_count), None, None)
    return held(extend, "extend_cuda")


def line_kernel(glyph, build_segment, build_kernel):
    """datashader's kernel for lines through points, each pixel of which counts as one."""
    count = jitted(_count)
    expand = glyph("x", "y").expand_aggs_and_cols(count)
    segment, _ = build_segment(jitted(_same), jitted(_same), count, 0, None, None, expand)
    return build_kernel(segment, expand, None)[1]


def area_kernel(glyph, build_map, build_trapezoid, build_kernel):
    """datashader's kernel for areas below or between lines, each pixel of which counts as one."""
    count = jitted(_count)
    expand = glyph("x", "y").expand_aggs_and_cols(count)
    trapezoid = build_trapezoid(count, build_map(jitted(_same), jitted(_same)), expand)
    return build_kernel(trapezoid, expand)[1]


def _add(j, i, x, y, image, values):
    cuda.atomic.add(image, (y, x), values[j, i])


def mesh_kernel(glyph, name):
    """One of datashader's kernels for meshes, which adds the value of a cell to each of its pixels."""
    extend = glyph("x", "y", "z")._build_extend(jitted(_same), jitted(_same), None, jitted(_add), None, None)
    return held(extend, name)
