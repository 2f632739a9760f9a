# SPDX-License-Identifier: Apache-2.0
"""The provider of cached images: cubins that were compiled here, or by a build, and that this device runs."""

from __future__ import annotations

import sys

from cudabuild import config
from cudabuild.cache.toolchain import ToolchainMemo
from cudabuild.definition import Options
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint.key import differences, recorded_key
from cudabuild.image.provider import MOST_COMPARED, Matcher
from cudabuild.target import find_target, rank_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cudabuild.cache.shelf import Shelf
    from cudabuild.cache.store import Cache
    from cudabuild.cache.toolchain import Toolchain
    from cudabuild.image.archive import Record
    from cudabuild.image.image import ImageRequest, KernelImage

__all__ = ["CacheProvider"]


class CacheProvider:
    """Finds images in a cache.

    An image counts only if it was made by the toolchain that would make it now: a new compiler makes new images. Where
    no compiler is installed, any image of the kernel is taken, the newest first.
    """

    name = "cached"

    def __init__(
        self,
        cache: Cache,
        toolchain: Toolchain | None = None,
        options_of: Callable[[ImageRequest], Options] = lambda request: request.options,
    ) -> None:
        """Looks into ``cache``.

        Args:
            cache: the cache.
            toolchain: what would make a target's code now, as in the image key, or None if it cannot be made; asked
                only when an image was found, and remembered in the cache. None where nothing can be compiled.
            options_of: what a kernel would be compiled with now: its own options and what its package was built with.
        """
        self._options_of = options_of
        self._cache = cache
        self._toolchain = ToolchainMemo(cache, toolchain) if toolchain is not None else None

    def find(self, request: ImageRequest) -> KernelImage | None:
        """The image for ``request``, or None with the reason appended to ``request.notes``."""
        switches = sys.modules.get("cudabuild.cuda.config")  # what nobody imported nobody set
        if switches is not None and switches.ALWAYS_WARN_UNINIT_VAR:
            request.notes.append("cache: not used (cuda.config.ALWAYS_WARN_UNINIT_VAR)")
            return None
        if config.get("images") != "all":
            request.notes.append(f"cache: not used (CUDABUILD_IMAGES={config.get('images')})")
            return None
        known = [target for target in map(find_target, self._cache.targets()) if target is not None]
        ranked = rank_targets(request.device, [target for target in known if not target.is_ptx])
        matcher = Matcher(request, by_name=False, options=self._options_of(request))
        reason = "holds nothing for this device"
        for target, obstacle in ranked:
            if obstacle is not None:
                continue
            image = self._find_for(self._cache.shelves(target.name), matcher, request.device.driver_version)
            if image is not None:
                return image
            reason = f"{target.name} {matcher.reason}"
        request.notes.append(f"cache: {reason}")
        return None

    def find_nearest(self, request: ImageRequest, *, named: bool = False) -> str:
        """What comes nearest to a missing image, and how it differs: reads the whole cache, for messages only."""
        from cudabuild.image.nearest import describe_nearest

        memo, driver = self._toolchain, request.device.driver_version
        return describe_nearest(
            self._records(request),
            request,
            named=named,
            options=self._options_of(request),
            toolchain=None if memo is None else lambda target: memo.get(target, driver),
        )

    def _records(self, request: ImageRequest) -> Iterator[Record]:
        """Everything that is kept for the device, whosever it is."""
        if config.get("images") != "all":
            return
        known = [target for target in map(find_target, self._cache.targets()) if target is not None]
        for target, obstacle in rank_targets(request.device, [target for target in known if not target.is_ptx]):
            for shelf in self._cache.shelves(target.name) if obstacle is None else ():
                yield from shelf.records()

    def _find_for(self, shelves: Sequence[Shelf], matcher: Matcher, driver: int) -> KernelImage | None:
        """By name in every layer, then by fingerprint, for which the kernel's source is parsed."""
        name = (matcher.module, matcher.qualname, matcher.signature)
        for shelf in shelves:
            # Of many kernels of one name, made by one function, the newest are compared: the fingerprint finds any.
            found = self._choose(shelf, shelf.find_named(*name, most=MOST_COMPARED), matcher, driver)
            if found is not None:
                return found
        live = matcher.live_fingerprint()
        for shelf in shelves:
            records = shelf.find_named(*name) if live is None else shelf.find_fingerprint(live)
            found = self._choose(shelf, records, matcher, driver)
            if found is not None:
                return found
        return None

    def _choose(self, shelf: Shelf, records: Sequence[Record], matcher: Matcher, driver: int) -> KernelImage | None:
        left = list(records)
        if not left and not matcher.reason:
            matcher.reason = f"holds no {matcher.qualname}({matcher.signature}) like this one"
        while left:
            try:
                record = matcher.choose(left)
                if record is None:
                    return None
                obstacle = self._find_obstacle(record, driver)
                if not obstacle:
                    image = self._cache.load(shelf, record, with_checks=False)
                    if image is not None:
                        return image
                    obstacle = "holds it, and it cannot be read"
                matcher.reason = obstacle
            except ImageFormatError as error:
                config.warn(f"the cache {shelf.folder} is damaged ({error})")
                return None
            except OSError as error:
                shelf.report_unreadable(shelf.folder, error)
                matcher.reason = f"cannot be read ({error.strerror or error})"
                return None
            left.remove(record)
        return None

    def _find_obstacle(self, record: Record, driver: int) -> str:
        """Why an image of the right kernel is not what would be made now, or ""."""
        wanted = self._toolchain.get(record.target, driver) if self._toolchain is not None else None
        made_by = record.read_extra()[0]
        if wanted is not None and dict(wanted) != made_by:
            return f"holds it made by another toolchain ({', '.join(differences(made_by.items(), wanted.items()))})"
        options = Options(record.options)
        if recorded_key(record, options, made_by, config.get("cache_salt")) != record.key:
            return "holds it under another CUDABUILD_CACHE_SALT"
        return ""
