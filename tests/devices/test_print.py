# SPDX-License-Identifier: Apache-2.0
"""``print`` in kernels: on the CPU device to Python's ``sys.stdout``, on the GPU through the driver's ``printf``."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.decorators import device_function

LABEL = "100% of"


@pytest.fixture
def printed(run: Any, capfd: pytest.CaptureFixture[str]) -> Any:
    """``printed(function, signature, grid, block, *args)``: the lines that a launch writes, sorted."""

    def launch(*args: Any, **options: Any) -> list[str]:
        capfd.readouterr()
        run(*args, **options)
        if run.kind != "cpu":
            cuda.synchronize()
            import ctypes

            ctypes.CDLL(None).fflush(None)
        return sorted(capfd.readouterr().out.splitlines())

    return launch


def values(i8, u64, f32, flag, pair):
    print("values", i8, u64, f32, flag, not flag, pair, (1, "a", None), -3, sep=", ")


def test_values(printed: Any) -> None:
    signature = "int8, uint64, float32, bool, Tuple(int, float64)"
    args = (np.int8(-5), np.uint64((1 << 64) - 1), np.float32(1.5), True, (7, 0.25))
    assert printed(values, signature, 1, 1, *args) == [
        "values, -5, 18446744073709551615, 1.500000, True, False, (7, 0.250000), (1, 'a', None), -3"
    ]


def texts(x):
    print(LABEL, x[0], end=" %d.\n")
    print()
    print("a", "b", sep="")
    print((x[0],), ())


def test_texts(printed: Any) -> None:
    assert printed(texts, "int32[::1]", 1, 1, np.array([3], np.int32)) == ["", "(3,) ()", "100% of 3 %d.", "ab"]


def special(x):
    print(x[0], x[1], x[2], x[3])


def test_special_floats(printed: Any) -> None:
    x = np.array([math.inf, -math.inf, -0.0, 1e20])
    assert printed(special, "float64[::1]", 1, 1, x) == ["inf -inf -0.000000 100000000000000000000.000000"]


def where(x):
    print(cuda.blockIdx, cuda.threadIdx, cuda.blockDim, cuda.gridDim, cuda.laneid)


def test_dim3(printed: Any) -> None:
    expected = sorted(
        f"({b}, 0, 0) ({t}, {u}, 0) (3, 2, 1) (2, 1, 1) {t + 3 * u}"
        for b in range(2)
        for t in range(3)
        for u in range(2)
    )
    assert printed(where, "int32[::1]", 2, (3, 2), np.zeros(1, np.int32)) == expected


@device_function
def describe(i, value):
    print("thread", i, "has", value)


def after_barriers(x):
    i = cuda.grid(1)
    part = cuda.shared.array(64, np.int32)
    part[cuda.threadIdx.x] = x[i]
    cuda.syncthreads()
    describe(i, part[63 - cuda.threadIdx.x])
    cuda.syncthreads()
    if i % 2:
        print("odd", cuda.shfl_down_sync(0xAAAAAAAA, x[i], 2))


def test_every_thread_prints_whole_lines(printed: Any) -> None:
    x = np.arange(256, dtype=np.int32)
    lines = printed(after_barriers, "int32[::1]", 4, 64, x)
    expected = [f"thread {i} has {i // 64 * 64 + 63 - i % 64}" for i in range(256)]
    expected += [f"odd {i + 2 if i % 32 < 30 else i}" for i in range(1, 256, 2)]
    assert lines == sorted(expected)


def many(x):
    print(
        x[0], x[1], x[2], x[3], x[4], x[5], x[6], x[7], x[8], x[9], x[10], x[11], x[12], x[13], x[14], x[15], x[16],
        x[17], x[18], x[19], x[20], x[21], x[22], x[23], x[24], x[25], x[26], x[27], x[28], x[29], x[30], x[31], x[32],
        x[33], x[34], x[35],
    )  # fmt: skip


def test_more_values_than_printf_takes(printed: Any) -> None:
    assert printed(many, "int64[::1]", 1, 1, np.arange(36)) == [" ".join(map(str, range(36)))]
