# SPDX-License-Identifier: Apache-2.0
"""Which way a host array travels at a launch: ``kernel[grid, block](cuda.In(x), cuda.Out(y))``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["CopyHint", "In", "InOut", "Out"]


class CopyHint:
    """An array argument and which way it is copied.

    Attributes:
        value: the array.
    """

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value: Any = value.value if isinstance(value, CopyHint) else value

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.value!r})"

    def argument(self, to_device: Callable[[Any], Any]) -> Any:
        """What a launch takes for it: the host array, copied to the device and back, is right for most."""
        return self.value


class In(CopyHint):
    """Copied to the device; what the kernel writes stays there."""

    __slots__ = ()

    def argument(self, to_device: Callable[[Any], Any]) -> Any:
        return to_device(self.value)


class Out(CopyHint):
    """Copied back from the device. It is copied there too, for elements that the kernel leaves alone."""

    __slots__ = ()


class InOut(CopyHint):
    """Copied to the device and back, as an array without a hint is."""

    __slots__ = ()
