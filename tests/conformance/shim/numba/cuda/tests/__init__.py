# SPDX-License-Identifier: Apache-2.0
"""``numba.cuda.tests``: the unpacked suite. ``support`` beside this file stands for the suite's own, found first."""

from __future__ import annotations

import os
from typing import Any

__all__ = ["load_testsuite"]

__path__.append(os.environ["CONFORMANCE_SUITE"])


def load_testsuite(loader: Any, folder: str) -> Any:
    """unittest's protocol, which the suite's packages name; pytest collects."""
    raise NotImplementedError(f"the suite is run by pytest: {folder}")
