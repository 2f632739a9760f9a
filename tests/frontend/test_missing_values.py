# SPDX-License-Identifier: Apache-2.0
"""The warning of variables that may have no value, which ``cuda.config.ALWAYS_WARN_UNINIT_VAR`` asks for."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from cudabuild import cuda
from cudabuild.cuda.errors import NumbaWarning


def helper(flag: Any) -> Any:
    if flag > 0:
        value = 2
    return value


def work(o: Any, n: Any) -> None:
    for k in range(2):
        if n > 0:
            c = k
    o[0] = c + helper(n)
    if n > 5:
        unused = 1  # noqa: F841


@pytest.mark.filterwarnings("ignore:(Grid size|Host array)")
@pytest.mark.parametrize("asked", [0, 1])
def test_warning(monkeypatch: pytest.MonkeyPatch, asked: int) -> None:
    monkeypatch.setattr(cuda.config, "ALWAYS_WARN_UNINIT_VAR", asked, raising=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        out = np.zeros(1)
        for _ in range(2):
            cuda.jit(work)[1, 1](out, 3)
    assert out[0] == 3
    told = [str(one.message) for one in caught if type(one.message) is NumbaWarning]
    once = ["Detected uninitialized variable c in work", "Detected uninitialized variable value in helper"]
    assert told == once * 2 * asked
