# SPDX-License-Identifier: Apache-2.0
"""The cache: images by image key, for this user, shared by builds and by compilation at run time.

What goes wrong on disk is never the caller's problem: a miss, one warning, and the image kept in this process's memory.
"""

from __future__ import annotations

import os
import time
from _thread import LockType, allocate_lock
from functools import cache

from cudabuild import config
from cudabuild.cache.location import check_private, find_root, make_folder, open_own, prepare_root, warning_key
from cudabuild.cache.shelf import Shelf
from cudabuild.digest import DIGEST_SIZE, digest
from cudabuild.errors import ImageFormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabuild.cache.locks import KeyLocks
    from cudabuild.image.archive import Record
    from cudabuild.image.image import KernelImage

__all__ = ["BUILD_WAIT", "Cache", "get_cache"]

#: The longest wait for another process that compiles the same image, in seconds.
BUILD_WAIT = 120.0


class Cache:
    """A user's cache, with read-only layers under it.

    Attributes:
        root: the folder of the writable layer, or None where there is none: then images live in memory only.
    """

    def __init__(self, root: str | None, site: Iterable[str] = (), *, limit: int | None = None) -> None:
        """Opens a cache; nothing is made before the first publishing.

        Args:
            root: the folder of the writable layer.
            site: folders of read-only layers, looked into after it.
            limit: the most bytes to keep; the setting ``cache_size`` by default.
        """
        self.root = root
        self._site = [path for path in site if _is_trusted(path)]
        if root is not None and os.path.lexists(root) and not _is_trusted(root, writable=True):
            self.root = None
        self._is_reached = root is None or _is_reached(root)
        self._limit = limit
        self._prepared: bool | None = None
        self._memory: dict[bytes, KernelImage] = {}
        self._shelves: dict[tuple[str, str], Shelf] = {}
        self._threads: dict[bytes, tuple[LockType, int]] = {}
        self._guard = allocate_lock()  # not threading's: importing that costs 3 ms

    @classmethod
    def open(cls) -> Cache:
        """The cache that the settings name."""
        return cls(find_root(), config.get("site_cache"))

    # reading

    def find(self, key: bytes, target: str, *, sure: bool = False) -> KernelImage | None:
        """The image with an image key, with everything that an archive needs; or None.

        Args:
            key: the image key.
            target: the target's name.
            sure: what was published a moment ago, on another computer too, is found: for who holds the key's lock.
        """
        known = self._memory.get(key)
        if known is not None:
            return known
        for shelf in self.shelves(target):
            record = shelf.find_surely(key) if sure and shelf.is_writable and self._prepare() else shelf.find_key(key)
            image = self.load(shelf, record) if record is not None else None
            if image is not None:
                return image
        return None

    def load(self, shelf: Shelf, record: Record, with_checks: bool = True) -> KernelImage | None:
        """The image of a record, its bytes verified; None, with a warning, where they are damaged or cannot be read."""
        try:
            image = record.load_image("cached", with_checks)
        except ImageFormatError as error:
            shelf.report_damaged_record(record, error)
            return None
        except OSError as error:
            shelf.report_unreadable(record.file, error)
            return None
        if shelf.is_writable:
            _note_use(record.file)
        return image

    def shelves(self, target: str) -> list[Shelf]:
        """The folders of a target, layer by layer; those that do not exist are empty."""
        layers = [(path, False) for path in self._site]
        if self.root is not None and (self._is_reached or self._prepared):
            layers.insert(0, (self.root, True))
        found = []
        for root, writable in layers:
            shelf = self._shelves.get((root, target))
            if shelf is None:
                shelf = Shelf(os.path.join(root, target), target, writable=writable)
                shelf = self._shelves.setdefault((root, target), shelf)
            found.append(shelf)
        return found

    def targets(self) -> list[str]:
        """The targets that any layer has a folder for."""
        names: set[str] = set()
        for root in [*([self.root] if self.root is not None else []), *self._site]:
            try:
                names.update(
                    entry.name for entry in os.scandir(root) if entry.is_dir() and entry.name not in (_LOCKS, _NOTES)
                )
            except OSError:  # not made yet, or gone: an empty layer
                continue
        return sorted(names - {_LOCKS, _NOTES})

    def find_in_memory(self) -> list[KernelImage]:
        """What this process could not write."""
        return list(self._memory.values())

    # writing

    def publish(self, *images: KernelImage) -> None:
        """Adds images; each must have its image key. Never raises for the disk's sake.

        Raises:
            ValueError: an image has no key.
        """
        by_target: dict[str, list[KernelImage]] = {}
        for image in images:
            if len(image.key) != 32:
                raise ValueError(f"{image!r} has no image key")
            by_target.setdefault(image.target, []).append(image)
        published = {}
        for target, group in by_target.items():
            if self._publish(target, group):
                published[target] = group[0].key
            else:
                self._memory.update((image.key, image) for image in group)
        if published:
            try:
                self._evict(published)
            except OSError as error:  # what was published is there: the next publishing evicts
                config.log("debug", f"the cache {self.root} cannot be kept under its size: {error}")

    def _publish(self, target: str, images: list[KernelImage]) -> bool:
        if not self._prepare():
            return False
        shelf = self.shelves(target)[0]
        try:
            if not shelf.publish(images):
                return False
        except OSError as error:
            config.warn(
                f"the cache {self.root} cannot be written ({error.strerror or error}): "
                "compiled kernels are kept in memory only",
                warning_key(self.root or ""),
            )
            return False
        except ValueError as error:  # thousands of free values: more than readers take
            config.warn(f"{error}: it is compiled in each process")
            return False
        return True

    def _prepare(self, *, quiet: bool = False) -> bool:
        """Whether the writable layer can be written to; its folder is made where it is missing.

        Args:
            quiet: nothing is told where it cannot be: nobody loses anything by it.
        """
        if self.root is None or self._prepared is False:
            return False
        if not (self._prepared and os.path.isdir(self.root)):
            usable = prepare_root(self.root, quiet=quiet)
            if quiet and not usable:
                return False
            self._prepared = usable
        return self._prepared

    def _evict(self, published: dict[str, bytes]) -> None:
        """Keeps the whole cache under its size; segments stay that hold these keys, of what was published just now."""
        limit = config.get("cache_size") if self._limit is None else self._limit
        shelves = {target: self.shelves(target)[0] for target in self.targets()}
        files = sum(stat.st_size for shelf in shelves.values() for _, stat in shelf.segment_files())
        if files <= limit or self.root is None:
            return
        from cudabuild.cache.evict import choose_victims
        from cudabuild.cache.locks import try_lock

        # Two that count the same segments at once would remove as much twice.
        release = try_lock(os.path.join(self._locks_folder(self.root), "evict"), warning_key(self.root))
        if release is None:
            return
        try:
            found = [
                (target, segment, stat.st_mtime, stat.st_size)
                for target, shelf in shelves.items()
                for segment, stat in shelf.live_segments()
            ]
            newest = frozenset((target, shelves[target].find_segment(key)) for target, key in published.items())
            victims = choose_victims(found, limit, newest)
            for target in dict(victims):
                shelves[target].remove(segment for name, segment in victims if name == target)
        finally:
            release()

    def build_once(self, key: bytes, target: str, make: Callable[[], KernelImage]) -> KernelImage:
        """The image with an image key, made if nobody has made it: once, however many threads and processes ask at
        once.

        Args:
            key: the image key.
            target: the target's name.
            make: compiles the image; what it raises passes through, and the next asker tries again.
        """
        with self._guard:
            lock, users = self._threads.get(key) or (allocate_lock(), 0)
            self._threads[key] = lock, users + 1
        try:
            with lock:
                found = self.find(key, target)
                return self._build(key, target, make) if found is None else found
        finally:
            with self._guard:
                lock, users = self._threads.pop(key)
                if users > 1:  # the next one has it
                    self._threads[key] = lock, users - 1

    def _build(self, key: bytes, target: str, make: Callable[[], KernelImage]) -> KernelImage:
        locks = self.open_locks()
        if locks is None:
            image = make()
            image.key = key
            self._memory[key] = image
            return image
        with locks:
            locks.take(key, BUILD_WAIT, "a kernel that is being compiled")
            found = self.find(key, target, sure=True)
            if found is None:
                found = make()
                found.key = key
                self.publish(found)
        return found

    def open_locks(self) -> KeyLocks | None:
        """What takes the locks under which images are made, one for each key; None where nothing can be written."""
        if not self._prepare() or self.root is None:
            return None
        from cudabuild.cache.locks import KeyLocks

        return KeyLocks(self._locks_folder(self.root), warning_key(self.root))

    def _locks_folder(self, root: str) -> str:
        folder = os.path.join(root, _LOCKS)
        try:
            make_folder(folder)
        except OSError as error:  # taking a lock in it will warn
            config.log("debug", f"{folder} cannot be made: {error}")
        return folder

    # notes

    def read_note(self, name: str) -> bytes | None:
        """A small record that was kept beside the images, or None; a damaged one is none."""
        if self.root is None:
            return None
        try:
            with open(os.path.join(self.root, _NOTES, name), "rb", opener=open_own) as stream:
                data = stream.read()
        except (ImageFormatError, OSError):
            return None
        return data[DIGEST_SIZE:] if digest(data[DIGEST_SIZE:]) == data[:DIGEST_SIZE] else None

    def write_note(self, name: str, data: bytes) -> None:
        """Keeps a small record beside the images; where that cannot be done it is found out anew next time."""
        if not self._prepare(quiet=True) or self.root is None:
            return
        folder = os.path.join(self.root, _NOTES)
        temporary = os.path.join(folder, f"{name}.{os.getpid()}.{os.urandom(4).hex()}.tmp")
        try:
            os.makedirs(folder, mode=0o700, exist_ok=True)
            try:
                with open(temporary, "wb") as stream:
                    stream.write(digest(data) + data)
                os.replace(temporary, os.path.join(folder, name))
            except BaseException:
                _try_unlink(temporary)
                raise
            _sweep_notes(folder)
        except OSError as error:
            config.log("debug", f"{folder} cannot be written: {error}")


_LOCKS = "locks"
_NOTES = "notes"
_MOST_NOTES = 32

#: A temporary file older than this, in seconds, belongs to no living writer.
_ORPHAN_AGE = 3600.0

#: The time of a segment's last use is renewed when it is older than this, in seconds.
_RENEWAL = 3600.0


@cache
def get_cache() -> Cache:
    """The cache of this process: the one that the settings named when it was first asked for."""
    return Cache.open()


def _is_reached(path: str) -> bool:
    """Whether this user may come so far as to see whether ``path`` is there: HOME may be another user's.

    Where not, nothing is told before there is something to keep: all may be found in the layers below.
    """
    try:
        os.lstat(path)
    except OSError as error:  # not made yet; what else it may be is told by whoever opens a file in it
        return not isinstance(error, PermissionError)
    return True


def _is_trusted(path: str, *, writable: bool = False) -> bool:
    try:
        reason = check_private(path, writable=writable)
        if not reason and not os.access(path, os.R_OK | os.X_OK):
            reason = "this user may not read it"
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        hint = "; set CUDABUILD_CACHE_DIR to a folder of your own" if writable else ""
        config.warn(f"the cache {path} is not used: {reason}{hint}", warning_key(path))
    return not reason


def _note_use(path: str) -> None:
    """Renews a segment's time of use; where that cannot be done it only looks older than it is."""
    try:
        if time.time() - os.stat(path).st_mtime > _RENEWAL:
            os.utime(path)
    except OSError:
        return


def _sweep_notes(folder: str) -> None:
    """Keeps the newest notes; what a killed writer left goes once it is no living one's."""
    by_age = sorted((entry.stat().st_mtime, entry.path) for entry in os.scandir(folder))
    oldest = time.time() - _ORPHAN_AGE
    for number, (written, path) in enumerate(by_age):
        if number < len(by_age) - _MOST_NOTES or (path.endswith(".tmp") and written < oldest):
            os.unlink(path)


def _try_unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # it was never made
        return
