# SPDX-License-Identifier: Apache-2.0
"""What all cases share."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cudabuild import config


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Warnings are told anew, and modules that a test loaded are forgotten."""
    monkeypatch.setattr(config, "_warned", set())
    known = set(sys.modules)
    yield
    for name in set(sys.modules) - known:
        if name.startswith("case_"):
            del sys.modules[name]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of a cache that is not there yet."""
    return tmp_path / "cache"
