# SPDX-License-Identifier: Apache-2.0
"""Images in the driver: loaded once, unloaded after the last owner died.

An owner dies wherever the garbage collector runs: in another thread, inside a stream capture, at the interpreter's end.
So dying only puts the library on a list. The list is emptied after a launch that loaded something, unless its stream is
captured; at exit the driver frees everything by itself.
"""

from __future__ import annotations

from cudabuild.errors import DriverError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.image.image import KernelImage
    from cudabuild.runtime.driver import Driver

__all__ = ["Module", "tidy", "unload_dead"]

#: Libraries without an owner: (driver, library).
_dead: list[tuple[Driver, Any]] = []

#: The modules that live, by ``id``.
_living: set[int] = set()


class _Limit:
    """How many modules may live before the garbage collector is asked whether they do.

    A kernel and its launch configurations know each other, so it lives on until a collection, and Python knows nothing
    of the memory that its code takes on a device: kernels made in a loop would fill it.
    """

    LEAST = 256
    count = LEAST


class Module:
    """One loaded image; it stays loaded while this object lives.

    Attributes:
        kernel: the entry point, as the driver's launch takes it; good in every context of its device's kind.
    """

    __slots__ = ("_driver", "_library", "kernel")

    def __init__(self, driver: Driver, image: KernelImage) -> None:
        data = image.data
        if image.kind == "ptx":
            data = bytes(data)
            if not data.endswith(b"\0"):
                data += b"\0"
        self._driver = driver
        self._library: Any = None
        _living.add(id(self))
        # A first launch may be part of a stream capture, which forbids loading to those who do not say that they know.
        driver.relaxed(self._load, data, image)

    def _load(self, data: bytes | memoryview, image: KernelImage) -> None:
        self._library = self._driver.load_library(data)
        self.kernel = self._driver.get_kernel(self._library, image.symbol)
        if image.kind == "ptx":  # whether the driver can compile it is to be known now, while other images can be had
            self._driver.load_kernel(self.kernel)

    def keep(self) -> None:
        """Never unloads it: it is part of a graph, which does not keep it loaded, and whose end nobody tells."""
        self._library = None

    def __del__(self, dead: list[tuple[Driver, Any]] = _dead, living: set[int] = _living) -> None:
        living.discard(id(self))
        if self._library is not None:
            dead.append((self._driver, self._library))


def tidy(driver: Driver, stream: Any, module: Module | None = None) -> None:
    """Unloads what no longer has an owner, after a launch that loaded something; not into a stream capture.

    Args:
        driver, stream: of the launch.
        module: what was loaded; it stays for ever if the launch was captured.
    """
    if driver.is_capturing(stream):
        if module is not None:
            module.keep()
        return
    if len(_living) >= _Limit.count:
        import gc

        gc.collect()
        _Limit.count = max(_Limit.LEAST, 2 * len(_living))  # so collections stay few where the modules do live
    unload_dead()


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
