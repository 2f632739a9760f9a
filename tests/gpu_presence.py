# SPDX-License-Identifier: Apache-2.0
"""Whether this machine has a GPU."""

from __future__ import annotations

import functools

__all__ = ["missing_device"]


@functools.cache
def missing_device() -> str | None:
    """Why there is no GPU here, or None. Only *no device* counts: a driver that fails otherwise must fail the tests."""
    try:
        from cuda.bindings import driver
    except ImportError as error:
        return f"cuda-bindings is not installed ({error})"
    try:
        (status,) = driver.cuInit(0)
    except RuntimeError as error:  # cuda-bindings: the driver library itself is not there
        return f"no driver library ({str(error).splitlines()[0]})"
    if status == driver.CUresult.CUDA_ERROR_NO_DEVICE:
        return "the driver finds no device"
    assert status == driver.CUresult.CUDA_SUCCESS, f"cuInit: {status.name}"
    status, count = driver.cuDeviceGetCount()
    assert status == driver.CUresult.CUDA_SUCCESS, f"cuDeviceGetCount: {status.name}"
    return None if count else "the driver counts no device"
