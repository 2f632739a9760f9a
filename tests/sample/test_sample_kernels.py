# SPDX-License-Identifier: Apache-2.0
"""The sample's kernels, straight from the checkout: each equals its NumPy reference on every device at hand."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SAMPLE = Path(__file__).resolve().parent.parent.parent / "sample_project"
sys.path.insert(0, str(SAMPLE / "src"))

from cudabuild_sample.cases import make_cases  # noqa: E402

CASES = make_cases()


def names(case: Any) -> str:
    return f"{case.kernel.py_func.__name__}-{case.signature.partition('[')[0]}"


def launch(case: Any) -> float:
    arguments = tuple(np.copy(a) if isinstance(a, np.ndarray) else a for a in case.arguments)
    case.kernel[case.grid, case.block](*arguments)
    return float(case.error(arguments))


def test_eight_kernels() -> None:
    import cudabuild_sample

    assert {case.kernel.py_func.__name__ for case in CASES} == set(cudabuild_sample.__all__)
    assert len(cudabuild_sample.__all__) == 8


@pytest.mark.parametrize("case", CASES, ids=names)
def test_on_the_default_device(case: Any) -> None:
    assert launch(case) <= case.tolerance


@pytest.mark.gpu
@pytest.mark.parametrize("case", CASES, ids=names)
def test_on_the_gpu(case: Any) -> None:
    import cudabuild

    assert cudabuild.current_device().kind == "gpu"
    assert launch(case) <= case.tolerance
    assert "sm_" in case.kernel.image_source(case.signature)


@pytest.mark.parametrize("case", CASES, ids=names)
def test_the_check_can_fail(case: Any) -> None:
    """Arguments that no kernel has touched are not accepted as results."""
    assert not case.error(case.arguments) <= case.tolerance
