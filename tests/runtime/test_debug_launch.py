# SPDX-License-Identifier: Apache-2.0
"""Launches of debug images: the record goes along, is read after each launch, and becomes an exception."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np
import pytest
from runtime_kit import Host

from cudabuild.errors import BoundsError, LaunchError
from cudabuild.faults import BOUNDS

SITES = (
    ("builtins:ValueError", "so it goes", "", 12),
    (BOUNDS, "index {wrapped} is out of range for axis 1 with {extent} elements", "elsewhere.py", 30),
)


@pytest.fixture
def host() -> Host:
    host = Host()
    host.attributes = {"exceptions": SITES}
    return host


def record(address: int, site: int, index: int = 0, extent: int = 0) -> None:
    """What a thread that fails writes."""
    ctypes.memmove(address, struct.pack("<i4x6iqq", site, 3, 0, 1, 7, 2, 0, index, extent), 48)


def test_nothing_happens_where_nothing_fails_and_the_record_is_freed(host: Host) -> None:
    seen: list[tuple[Any, ...]] = []
    kernel = host.kernel("int32", "n", lambda n, at: seen.append((n, ctypes.string_at(at, 48))), debug=True)
    for n in range(3):
        kernel[2, 4](n)
    assert seen == [(n, bytes(48)) for n in range(3)]
    assert not host.fake.memory


def test_the_record_becomes_the_exception(host: Host) -> None:
    kernel = host.kernel("int32", "n", lambda n, at: record(at, 1), debug=True)
    for _ in range(2):
        with pytest.raises(ValueError, match="so it goes") as caught:
            kernel[2, 4](1)
        error: Any = caught.value
        assert str(error) == (
            "so it goes\n  kernel: kernel, thread (3, 0, 1) of block (7, 2, 0)\n  at:     <string>:12"
        )
        assert (error.file, error.line, error.thread, error.block) == ("<string>", 12, (3, 0, 1), (7, 2, 0))
    assert not host.fake.memory


def test_an_index_is_told_with_its_extent_after_host_arrays_came_back(host: Host) -> None:
    def body(data: int, count: int, at: int) -> None:
        ctypes.c_float.from_address(data).value = 5.0
        record(at, 2, -2, 4)

    kernel = host.kernel("float32[::1]", "x", body, debug=True)
    x = np.zeros(4, np.float32)
    with pytest.raises(BoundsError, match=r"^index -6 is out of range for axis 1 with 4 elements\n") as caught:
        kernel[2, 4](x)
    assert "at:     elsewhere.py:30" in str(caught.value)
    assert x[0] == 5
    assert not host.fake.memory


@pytest.mark.parametrize("site", [3, -1, 2**31 - 1, -(2**31)])
def test_a_record_that_was_written_over_is_told_as_such(host: Host, site: int) -> None:
    kernel = host.kernel("int32", "n", lambda n, at: record(at, site), debug=True)
    with pytest.raises(LaunchError) as caught:
        kernel[2, 4](1)
    assert str(caught.value) == (
        "kernel: the record of what went wrong was written over\n"
        f"  found:    site {site} in it\n"
        "  expected: one of the 2 that this kernel has, or none\n"
        "  do:       look for writes out of bounds, through a pointer or in a kernel without debug=True"
    )
    assert not host.fake.memory
