# SPDX-License-Identifier: Apache-2.0
"""Page-locking of host memory that shares a page with what is locked already."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cudabuild.errors import DriverError
from cudabuild.runtime.memory import GpuMemory

PAGE = 4096


class Driver:
    """Locks whole pages, and refuses a page twice, as the driver does."""

    def __init__(self) -> None:
        self.pages: dict[int, int] = {}

    def lock_host(self, address: int, size: int) -> None:
        pages = range(address // PAGE, (address + size - 1) // PAGE + 1)
        if any(page in self.pages for page in pages):
            raise DriverError("cuMemHostRegister", 712, "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED")
        self.pages.update(dict.fromkeys(pages, address))

    def unlock_host(self, address: int) -> None:
        self.pages = {page: first for page, first in self.pages.items() if first != address}

    def current_context(self) -> int:
        return 1

    def in_context(self, context: int, call: Callable[[int], None], address: int) -> None:
        call(address)

    def is_locked(self, address: int, size: int) -> bool:
        return all(at // PAGE in self.pages for at in (address, address + size - 1))


def test_a_page_with_two_arrays_is_locked_once() -> None:
    driver = Driver()
    memory = GpuMemory(driver)  # type: ignore[arg-type]
    first = memory.lock_host(5 * PAGE + 16, 100)
    second = memory.lock_host(5 * PAGE + 200, 100)
    assert second.pointer == 5 * PAGE + 200
    del second
    assert driver.pages == {5: 5 * PAGE + 16}
    del first
    assert not driver.pages


def test_an_array_that_is_locked_in_part_is_refused() -> None:
    memory = GpuMemory(Driver())  # type: ignore[arg-type]
    first = memory.lock_host(5 * PAGE, 100)
    with pytest.raises(DriverError, match="ALREADY_REGISTERED"):
        memory.lock_host(5 * PAGE + 200, 2 * PAGE)
    del first
