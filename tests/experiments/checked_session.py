# SPDX-License-Identifier: Apache-2.0
"""A pytest plug-in: the whole session runs its kernels under the checks of the CPU device (``planted_faults.py``)."""

from __future__ import annotations

import os

__all__ = ["pytest_collection_finish"]


def pytest_collection_finish() -> None:
    # After collection: tests/conftest.py takes our settings out of the environment before it.
    os.environ["CUDABUILD_CHECK"] = "races barriers uninit"
