# SPDX-License-Identifier: Apache-2.0
"""Images in the driver: loaded once, unloaded after the last owner died.

An owner dies wherever the garbage collector runs: in another thread, inside a stream capture, at the interpreter's end.
So dying only puts the library on a list, and the next load empties the list; at exit the driver frees everything by
itself.
"""

from __future__ import annotations

from cudabuild.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.image.image import KernelImage
    from cudabuild.runtime.driver import Driver

__all__ = ["Module", "unload_dead"]

#: Libraries without an owner: (driver, library).
_dead: list[tuple[Driver, Any]] = []


class Module:
    """One loaded image; it stays loaded while this object lives.

    Attributes:
        kernel: the entry point, as the driver's launch takes it; good in every context of its device's kind.
    """

    __slots__ = ("_driver", "_library", "kernel")

    def __init__(self, driver: Driver, image: KernelImage) -> None:
        unload_dead()
        data = image.data
        if image.kind == "ptx":
            data = bytes(data)
            if not data.endswith(b"\0"):
                data += b"\0"
        self._driver = driver
        self._library: Any = None
        self._library = driver.load_library(data)
        self.kernel = driver.get_kernel(self._library, image.symbol)
        if image.kind == "ptx":  # whether the driver can compile it is to be known now, while other images can be had
            driver.load_kernel(self.kernel)

    def __del__(self, dead: list[tuple[Driver, Any]] = _dead) -> None:
        if self._library is not None:
            dead.append((self._driver, self._library))


def unload_dead() -> None:
    """Unloads what no longer has an owner."""
    while True:
        try:
            driver, library = _dead.pop()
        except IndexError:  # emptied, perhaps by another thread
            return
        try:
            driver.unload_library(library)
        except DriverError:  # its context is gone, and the library with it
            continue
