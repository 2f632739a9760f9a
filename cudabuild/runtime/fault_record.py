# SPDX-License-Identifier: Apache-2.0
"""The record of one launch of a debug image, in device memory: the first thread that fails leaves its place there."""

from __future__ import annotations

from cudabuild.errors import LaunchError
from cudabuild.faults import RECORD_SIZE, make_fault, unpack_record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.definition import KernelDefinition
    from cudabuild.image.image import KernelImage
    from cudabuild.runtime.driver import Driver

__all__ = ["FaultRecord"]


class FaultRecord:
    """Made, empty, before the launch; ``finish`` waits for the launch, looks, and frees it."""

    __slots__ = ("_driver", "_host", "pointer")

    def __init__(self, driver: Driver) -> None:
        import ctypes

        self._driver = driver
        self._host = ctypes.create_string_buffer(RECORD_SIZE)
        self.pointer = driver.allocate(RECORD_SIZE)
        # On the default stream, and waited for: the launch may be on a stream that does not wait for that one.
        driver.copy_in(self.pointer, ctypes.addressof(self._host), RECORD_SIZE, None)
        driver.synchronize(None)

    def finish(
        self, stream: Any, definition: KernelDefinition, image: KernelImage, *, launched: bool
    ) -> Exception | None:
        """Waits for ``stream`` and gives what the first offender met, if any.

        Args:
            stream: where the kernel was launched.
            definition, image: what was launched.
            launched: False if the launch failed: the record is only freed.
        """
        import ctypes

        try:
            if not launched:
                return None
            self._driver.copy_out(ctypes.addressof(self._host), self.pointer, RECORD_SIZE, stream)
            self._driver.synchronize(stream)
        finally:
            self._driver.free(self.pointer)
        number, thread, block, index, extent = unpack_record(self._host.raw)
        if not number:
            return None
        sites = image.attributes["exceptions"]
        if not 0 < number <= len(sites):  # written over: through a pointer, or by another kernel
            return LaunchError(
                f"{definition.qualname}: the record of what went wrong was written over\n"
                f"  found:    site {number} in it\n"
                f"  expected: one of the {len(sites)} that this kernel has, or none\n"
                "  do:       look for writes out of bounds, through a pointer or in a kernel without debug=True"
            )
        site = sites[number - 1]
        own = definition.function.__code__.co_filename
        return make_fault(site, definition.qualname, own, thread, block, index, extent)
