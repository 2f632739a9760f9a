# SPDX-License-Identifier: Apache-2.0
"""Random kernels give on every device what Python and NumPy give."""

from __future__ import annotations

import itertools
import linecache
from typing import Any

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from interpret import run_python
from kernel_texts import FOOTER, HEADER, kernels

from cudabuild.definition import DEFAULT_OPTIONS

SIGNATURE = (
    "const int32[::1], const uint8[::1], const int64[::1], const float32[::1], const float64[::1], int, float32,"
    "int32[::1], int64[::1], float32[::1], float64[::1]"
)
SIZE = 5
OPTIONS = DEFAULT_OPTIONS.replace(fma=False)
numbers = itertools.count()


def define(text: str) -> Any:
    name = f"<random kernel {next(numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {}
    exec(compile(text, name, "exec"), namespace)  # the generator's own text
    return namespace["kernel"]


def arguments() -> list[Any]:
    return [
        np.array([3, -2, 0, 7, -5], np.int32),
        np.array([1, 200, 3, 0, 255], np.uint8),
        np.array([10, -1, 4, 6, -8], np.int64),
        np.array([0.5, -1.25, 2.0, 0.0, 3.5], np.float32),
        np.array([1.5, -0.75, 0.125, 4.0, -2.0], np.float64),
        3,
        np.float32(0.75),
        np.zeros(SIZE, np.int32),
        np.zeros(SIZE, np.int64),
        np.zeros(SIZE, np.float32),
        np.zeros(SIZE, np.float64),
    ]


def with_body(*lines: str) -> str:
    return HEADER + "".join(f"        {line}\n" for line in lines) + FOOTER


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@example(with_body("for p in range(5, 0, -2):", "    k = k + p", "    if p == 3: continue", "    m += k"))
@given(kernels)
def test_devices_agree_with_python(run: Any, text: str) -> None:
    kernel = define(text)
    expected, found = arguments(), arguments()
    run_python(kernel, (1, 1, 1), (8, 1, 1), *expected)
    run(kernel, SIGNATURE, 1, 8, *found, options=OPTIONS)
    for name, want, have in zip(("int", "long", "single", "double"), expected[-4:], found[-4:], strict=True):
        if name in ("int", "long"):
            np.testing.assert_array_equal(have, want, err_msg=text)
        else:
            np.testing.assert_allclose(have, want, rtol=2e-5, atol=1e-30, err_msg=text)
