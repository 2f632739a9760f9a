# SPDX-License-Identifier: Apache-2.0
"""Images on their way into a cache: published together, because publishing one by one costs a replaced index each.

What a batch holds is not in the cache yet, so it keeps the locks of what it compiles until it has published: another
process that misses on the same key waits, and then finds the image.
"""

from __future__ import annotations

import time

from cudabuild.cache.store import BUILD_WAIT, Cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from cudabuild.cache.locks import KeyLocks
    from cudabuild.image.image import KernelImage

__all__ = ["Batch"]

#: A batch is published when it holds this many images, or when its first one has waited this long, in seconds.
_MOST_IMAGES = 512
_LONGEST = 2.0

#: In a large cache publishing takes longer: at most one part in this many of the time is spent on it.
_SHARE = 25


class Batch:
    """Images that one thread makes; :meth:`flush` puts them into the cache and lets go of the locks."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self._images: dict[tuple[bytes, str], KernelImage] = {}
        self._locks: KeyLocks | None = None
        self._since = 0.0
        self._longest = _LONGEST

    def find(self, key: bytes, target: str, *, sure: bool = False) -> KernelImage | None:
        """The image with an image key, from the batch or the cache; ``sure`` as :meth:`Cache.find` has it."""
        return self._images.get((key, target)) or self.cache.find(key, target, sure=sure)

    def claim(self, key: bytes) -> None:
        """Takes the right to make the image of a key; look surely for it once more afterwards.

        Never waits while it holds another lock, so that two batches cannot wait for each other.
        """
        self._locks = self._locks or self.cache.open_locks()
        if self._locks is None:
            return
        if not self._locks.try_take(key):
            self.flush()
            self._locks.take(key, BUILD_WAIT, "a kernel that is being compiled")
        self._since = self._since or time.monotonic()

    def add(self, *images: KernelImage) -> None:
        """Adds images, each with its image key, and publishes if it is time to."""
        self._images.update(((image.key, image.target), image) for image in images)
        if len(self._images) >= _MOST_IMAGES or time.monotonic() - self._since >= self._longest:
            self.flush()

    def flush(self) -> None:
        """Publishes what there is."""
        images, self._images = self._images, {}
        start = time.monotonic()
        try:
            self.cache.publish(*images.values())
        finally:
            self._longest = max(_LONGEST, _SHARE * (time.monotonic() - start))
            if self._locks is not None:
                self._locks.release()
            self._since = 0.0
