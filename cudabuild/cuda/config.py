# SPDX-License-Identifier: Apache-2.0
"""Switches that numba-cuda programs set at run time: ``cuda.config.CUDA_LOW_OCCUPANCY_WARNINGS = 0``.

A name assigned here counts; one that is not has the value of this package's own setting (``config.py``). While
``ALWAYS_WARN_UNINIT_VAR`` is set, kernels are compiled anew and tell which variables may be read without a value.
``CUDA_NVRTC_EXTRA_SEARCH_PATHS`` names folders with headers for CUDA C++ that is linked into kernels.
"""

from __future__ import annotations

from cudabuild import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = [  # noqa: F822 - found by __getattr__
    "ALWAYS_WARN_UNINIT_VAR",
    "CUDA_LOW_OCCUPANCY_WARNINGS",
    "CUDA_NVRTC_EXTRA_SEARCH_PATHS",
    "CUDA_WARN_ON_IMPLICIT_COPY",
    "DISABLE_PERFORMANCE_WARNINGS",
    "ENABLE_CUDASIM",
]

_SETTINGS = {
    "CUDA_LOW_OCCUPANCY_WARNINGS": "low_occupancy_warnings",
    "CUDA_WARN_ON_IMPLICIT_COPY": "implicit_copy_warnings",
}
_FIXED: dict[str, Any] = {
    "ALWAYS_WARN_UNINIT_VAR": 0, "CUDA_NVRTC_EXTRA_SEARCH_PATHS": "", "DISABLE_PERFORMANCE_WARNINGS": 0,
    "ENABLE_CUDASIM": 0,
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _SETTINGS:
        return int(config.get(_SETTINGS[name]))
    if name in _FIXED:
        return _FIXED[name]
    raise AttributeError(f"module 'cudabuild.cuda.config' has no attribute {name!r}")
