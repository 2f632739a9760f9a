# SPDX-License-Identifier: Apache-2.0
"""Every name of the kernel language is in at least two kernels of these tests, and in one where not all threads go."""

from __future__ import annotations

from pathlib import Path

import pytest
from corpus import TOGETHER, find_uses, kernel_names, python_names


@pytest.fixture(scope="module")
def uses() -> dict[str, dict[str, bool]]:
    return find_uses(Path(__file__).parent)


@pytest.mark.parametrize("name", [*kernel_names(), *sorted(python_names().values())])
def test_every_name_is_in_two_kernels_and_in_a_branch(uses: dict[str, dict[str, bool]], name: str) -> None:
    kernels = uses[name]
    assert len(kernels) >= 2, kernels
    assert name in TOGETHER or any(kernels.values()), kernels
