# SPDX-License-Identifier: Apache-2.0
"""Which segments to remove when a cache is over its size: the least recently used first.

Use shows in a segment's modification time, which a reader renews (``Cache.load``).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["choose_victims"]

#: Eviction goes a little below the limit, so that not every publishing evicts.
_SLACK = 0.9


def choose_victims(
    segments: Iterable[tuple[str, int, float, int]], limit: int, newest: frozenset[tuple[str, int]] = frozenset()
) -> list[tuple[str, int]]:
    """The segments to remove.

    Args:
        segments: ``(target, segment, time of last use, size in bytes)``.
        limit: the most bytes that may stay.
        newest: segments that stay in any case: what was published just now.

    Returns:
        ``(target, segment)``, the least recently used first.
    """
    found = sorted(segments, key=lambda item: (item[2], item[0], item[1]))
    total = sum(item[3] for item in found)
    if total <= limit:
        return []
    victims = []
    for target, segment, _, size in found:
        if total <= limit * _SLACK:
            break
        if (target, segment) not in newest:
            victims.append((target, segment))
            total -= size
    return victims
