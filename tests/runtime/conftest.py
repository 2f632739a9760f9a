# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the launch wing's tests."""

from __future__ import annotations

import pytest
from runtime_kit import Host

from cudabuild import config


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Warnings are told anew, whatever other tests were told."""
    monkeypatch.setattr(config, "_warned", set())


@pytest.fixture
def host() -> Host:
    return Host()
