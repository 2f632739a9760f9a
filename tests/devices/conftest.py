# SPDX-License-Identifier: Apache-2.0
"""``run``: launches a plain Python function as a kernel, on the CPU device and, where there is one, on the GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from agreement import Agreement, Notes
from launching import Device, Run


@pytest.fixture(scope="session")
def notes(request: pytest.FixtureRequest) -> Iterator[Notes]:
    """What this session measures; ``--agreement FILE`` keeps it."""
    kept = Notes()
    yield kept
    file = request.config.getoption("--agreement")
    if file is not None:
        kept.write(Path(file))


@pytest.fixture(
    scope="session",
    params=["cpu", pytest.param("gpu32", marks=pytest.mark.gpu), pytest.param("gpu64", marks=pytest.mark.gpu)],
)
def run(request: pytest.FixtureRequest, notes: Notes) -> Run:
    device = Device(request.param)
    if request.config.getoption("--agreement") is None or request.param != "cpu":
        return device
    return Agreement(device, notes)
