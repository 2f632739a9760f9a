# SPDX-License-Identifier: Apache-2.0
"""The record of one launch of a debug image, in device memory: the first thread that fails leaves its place there."""

from __future__ import annotations

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
        site = image.attributes["exceptions"][number - 1]
        own = definition.function.__code__.co_filename
        return make_fault(site, definition.qualname, own, thread, block, index, extent)
