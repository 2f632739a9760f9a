# SPDX-License-Identifier: Apache-2.0
"""Whether ``cuda.jit`` tells the mistakes of a function with signatures when it decorates it, as numba-cuda does.

A build does not want them then: it collects every kernel first, and tells the mistakes of all of them at once.
"""

from __future__ import annotations

from contextlib import contextmanager

from cudabuild import config

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["is_wanted", "suspended"]

_suspended = 0


@contextmanager
def suspended() -> Iterator[None]:
    """Decorators inside tell no mistakes."""
    global _suspended
    _suspended += 1
    try:
        yield
    finally:
        _suspended -= 1


def is_wanted() -> bool:
    """Whether they are to be told now."""
    return not _suspended and bool(config.get("early_errors")) and config.get("jit") != "never"
