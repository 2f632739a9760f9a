# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the launch wing's tests."""

from __future__ import annotations

import pytest
from runtime_kit import Host


@pytest.fixture
def host() -> Host:
    return Host()
