# SPDX-License-Identifier: Apache-2.0
"""Lets another thread of the operating system run: what a worker does while all its blocks wait for other workers'."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

__all__ = ["find_yield"]


@cache
def _function() -> Any:
    if sys.platform == "win32":
        return ctypes.WinDLL("kernel32").SwitchToThread
    return ctypes.CDLL(None).sched_yield


def find_yield() -> int:
    """The address of an ``int (void)``, valid for the life of the process."""
    return int(ctypes.cast(_function(), ctypes.c_void_p).value or 0)
