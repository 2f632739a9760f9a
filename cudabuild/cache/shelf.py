# SPDX-License-Identifier: Apache-2.0
"""One target's folder: immutable segments in the archive format, and one index that is replaced as a whole.

A reader takes no lock. It sees the old index or the new one; a segment that it misses was merged away, so it reads the
index again; a segment that it has mapped stays readable after its removal. A writer holds the folder's lock while it
reads the index, adds to it and replaces it. A process killed anywhere leaves complete files and perhaps an unreferenced
one, which a later writer removes.
"""

from __future__ import annotations

import errno
import os
import time
from itertools import islice

from cudabuild import config
from cudabuild.cache.index import Entry, Index, format_index, keep_newest, parse_index
from cudabuild.cache.location import check_private, make_folder, open_own, warning_key
from cudabuild.errors import ImageFormatError
from cudabuild.image.archive import Archive, Record, name_key, write_archive

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from cudabuild.image.image import KernelImage

__all__ = ["INDEX_NAME", "Shelf", "segment_of"]

INDEX_NAME = "index.cuix"
_LOCK = ".lock"

#: The longest wait for another process's publishing, in seconds; it takes milliseconds.
_PUBLISH_WAIT = 30.0

#: Segments of like size are merged when there are this many: a folder of n images has about 8 · log₈(n) files.
_FANOUT = 8

#: Segments above this are left alone, so that eviction, which goes by segment, stays fine enough.
_LARGEST_MERGE = 64 << 20

#: A segment this young, in seconds, may be there although it is not seen: for so long a network file system may hide a
#: new name. Its number says when it was made, by the clock of another computer perhaps.
_YOUNG = 60.0

#: The longest wait for a segment that the index names, in seconds: several times what a file system takes to show a
#: name, because merging gives the images new ones.
_LONGEST_HIDDEN = 20.0

#: Unreferenced files older than this, in seconds, belong to no live writer.
_ORPHAN_AGE = 3600.0


#: What stands for an index that is not there, or is damaged.
_NO_INDEX = parse_index(format_index([]))


class Shelf:
    """The images of one target in one cache folder."""

    def __init__(self, folder: str, target: str, *, writable: bool = True) -> None:
        self.folder = folder
        self.target = target
        self.is_writable = writable
        self._warning = warning_key(os.path.dirname(folder))
        # The index and the looks of its file, in one: other threads read it too.
        self._known: tuple[tuple[int, ...] | None, Index] = None, _NO_INDEX
        self._archives: dict[int, Archive] = {}
        self._damaged: set[int] = set()
        self._missed: set[int] = set()  # that were waited for in vain

    # reading

    def find_key(self, key: bytes) -> Record | None:
        """The record of an image key, or None."""
        found = self._find(lambda index: [entry for entry in [index.find_key(key)] if entry])
        return found[0] if found else None

    def find_surely(self, key: bytes) -> Record | None:
        """As ``find_key``, and sees what was published on another computer a moment ago.

        A network file system may hide new names for seconds from who has looked for them before. The index is opened so
        that it does not; a segment that the index names is waited for.
        """
        try:
            make_folder(self.folder)
        except OSError as error:
            self.report_unreadable(self.folder, error)
            return None
        until = time.monotonic() + _LONGEST_HIDDEN
        while True:
            try:
                entry = self._read_index(make=True).find_key(key)
                return self._read(entry) if entry is not None else None
            except FileNotFoundError:
                assert entry is not None
                if entry.segment in self._missed or not _is_young(entry.segment) or time.monotonic() >= until:
                    self._missed.add(entry.segment)
                    return None
            except ImageFormatError as error:
                self._report_damaged_index(error)
                return None
            time.sleep(0.02)

    def find_named(self, module: str, qualname: str, signature: str, most: int | None = None) -> list[Record]:
        """The records of an overload by its name, the newest first; ``most`` of them if there are more."""
        name = name_key(module, qualname, signature)
        wanted = (module, qualname, signature)

        def fits(record: Record) -> bool:
            return (record.module, record.qualname, record.signature) == wanted

        return self._find(lambda index: islice(index.find_name(name), most), fits)

    def find_fingerprint(self, fingerprint: bytes) -> list[Record]:
        """The records of a fingerprint, the newest first."""
        return self._find(
            lambda index: index.find_fingerprint(fingerprint), lambda record: record.fingerprint == fingerprint
        )

    def records(self) -> list[Record]:
        """Every record."""
        return self._find(lambda index: index.entries())

    def published(self, key: bytes) -> float:
        """When the image of a key was published, in seconds since 1970; 0 where it is not here."""
        try:
            entry = self._read_index().find_key(key)
        except ImageFormatError as error:
            self._report_damaged_index(error)
            return 0.0
        return entry.sequence / 1e9 if entry is not None else 0.0

    def find_segment(self, key: bytes) -> int:
        """The number of the segment that holds the image of a key; 0 where it is not here."""
        try:
            entry = self._read_index().find_key(key)
        except ImageFormatError as error:
            self._report_damaged_index(error)
            return 0
        return entry.segment if entry is not None else 0

    def _find(
        self, look_up: Callable[[Index], Iterable[Entry]], fits: Callable[[Record], bool] = lambda record: True
    ) -> list[Record]:
        """The records that ``look_up`` leads to and that are what was looked for: the index may lie."""
        records, complete = self._read_all(look_up, fits)
        if not complete:  # segments were merged or evicted after the index was read
            records, _ = self._read_all(look_up, fits, fresh=True)
        return records

    def _read_all(
        self,
        look_up: Callable[[Index], Iterable[Entry]],
        fits: Callable[[Record], bool],
        fresh: bool = False,
    ) -> tuple[list[Record], bool]:
        records: list[Record] = []
        complete = True
        try:
            for entry in look_up(self._read_index(fresh)):
                try:
                    record = self._read(entry, fits)
                except FileNotFoundError:
                    complete = False
                    continue
                if record is not None:
                    records.append(record)
        except ImageFormatError as error:
            self._report_damaged_index(error)
        return records, complete

    def _read(self, entry: Entry, fits: Callable[[Record], bool] = lambda record: True) -> Record | None:
        """The record that an entry points to; None where it is damaged, or another image's."""
        if entry.segment in self._damaged:
            return None
        try:
            record = self._open(entry.segment).record(entry.number)
            return record if record.key == entry.key and fits(record) else None
        except FileNotFoundError:
            raise
        except ImageFormatError as error:
            self.report_damage(entry.segment, error)
            return None
        except OSError as error:  # no damage: too many open files, a file server that is away
            self.report_unreadable(self._path(entry.segment), error)
            return None

    def report_damage(self, segment: int, error: Exception) -> None:
        """Counts a segment as a miss from now on; the next publishing keeps what is whole of it."""
        self._damaged.add(segment)
        path = self._path(segment)
        config.warn(f"the cache file {path} is damaged and will be repaired ({error})", f"damaged {path}")

    def report_unreadable(self, path: str, error: OSError) -> None:
        """Warns of what cannot be read now; it is a miss, and no damage."""
        config.warn(
            f"the cache file {path} cannot be read ({error.strerror or error}): its images are compiled anew",
            self._warning,
        )

    def report_damaged_record(self, record: Record, error: Exception) -> None:
        """As ``report_damage``, for an image whose bytes turned out damaged."""
        for segment, archive in list(self._archives.items()):  # another thread may open one meanwhile
            if archive.name == record.file:
                self.report_damage(segment, error)
                return

    def _open(self, segment: int) -> Archive:
        archive = self._archives.get(segment)
        if archive is None:
            archive = Archive(self._path(segment), target=self.target, opener=open_own)
            self._archives[segment] = archive
        return archive

    def _read_index(self, fresh: bool = False, *, make: bool = False, must: bool = False) -> Index:
        """The index as it is on disk now; empty where there is none or it is damaged.

        Args:
            fresh: it is read even where it looks as it did.
            make: an empty file is made where there is none: to make a name is the sure way to see it.
            must: ``make``, and an index that cannot be read is an OSError. To a reader it is an empty one; a writer
                would put one in its place that lacks all that it lists.
        """
        path = os.path.join(self.folder, INDEX_NAME)
        make = make or must
        try:
            look, known = self._known
            if not (fresh or make) and _look_of(os.stat(path)) == look:
                return known
            if not self._is_trusted():
                return self._forget()
            with open(path, "rb", opener=_open_or_make if make else open_own) as stream:
                seen = _look_of(os.fstat(stream.fileno()))
                if seen == look and not fresh:
                    return known
                data = stream.read()
            if not data and (make or all(_is_young(segment) for segment, _ in self.segment_files())):
                return self._forget()  # made a moment ago; nothing was published yet
            known = parse_index(data, whole=fresh or must)
            self._known = seen, known
            self._archives = {s: a for s, a in list(self._archives.items()) if s in known.segments}
            return known
        except (FileNotFoundError, NotADirectoryError):  # the latter is told when something is to be kept there
            return self._forget()
        except ImageFormatError as error:
            return self._report_damaged_index(error)
        except OSError as error:
            if must:
                self._forget()
                raise
            self.report_unreadable(path, error)
            return self._forget()

    def _forget(self) -> Index:
        self._known = None, _NO_INDEX
        return _NO_INDEX

    def _report_damaged_index(self, error: Exception) -> Index:
        """Counts the index as empty; the next publishing makes a new one."""
        path = os.path.join(self.folder, INDEX_NAME)
        config.warn(f"the cache index {path} is damaged and will be rebuilt ({error})", f"damaged {path}")
        return self._forget()

    def _is_trusted(self) -> bool:
        """Whether nobody else can have filled the folder: the cache's own being private does not say it of this one."""
        reason = check_private(self.folder, writable=self.is_writable)
        if reason:
            config.warn(f"the cache {self.folder} is not used: {reason}", self._warning)
        return not reason

    # writing

    def publish(self, images: Iterable[KernelImage]) -> bool:
        """Adds images, each with its image key; False where the lock could not be had.

        Raises:
            OSError: the folder cannot be written.
        """
        new = list({image.key: image for image in images}.values())
        if not new:
            return True
        make_folder(self.folder)
        if not self._is_trusted():
            return False
        from cudabuild.cache.locks import hold_lock

        written: list[int] = []
        try:
            segment = self._write_segment(new, written)  # before the lock: nobody waits for it
            with hold_lock(os.path.join(self.folder, _LOCK), _PUBLISH_WAIT, "a cache update", self._warning) as held:
                if held:
                    entries = keep_newest(self._current_entries(written) + self._entries_of(segment))
                    if not _hold(entries, new):
                        # Who made a lost index anew put all segments into it, ours too, and then emptied the cache.
                        entries = keep_newest(entries + self._entries_of(self._write_segment(new, written)))
                    if not _hold(entries, new):
                        raise OSError(errno.EIO, "what was written does not read as it was", self.folder)
                    self._replace_index(self._merge(entries, written), *written)
                    return True
        except BaseException:
            self._discard(written)
            raise
        self._discard(written)
        return False

    def remove(self, segments: Iterable[int], *, damaged: Iterable[int] = (), orphan_age: float = _ORPHAN_AGE) -> bool:
        """Takes segments out of the index, then removes their files; saves what is whole of damaged ones, and sweeps.

        Args:
            segments: the segments.
            damaged: segments that are known to be damaged; what is whole of them is written anew.
            orphan_age: how old files must be, in seconds, that no index names and that are removed too. A writer that
                is alive has its new segment for as long as it waits for the lock.

        Returns:
            False where the lock could not be had: nothing was done.

        Raises:
            OSError: the folder cannot be written.
        """
        from cudabuild.cache.locks import hold_lock

        victims = set(segments)
        self._damaged.update(damaged)
        with hold_lock(os.path.join(self.folder, _LOCK), _PUBLISH_WAIT, "a cache update", self._warning) as held:
            if not held:
                return False
            written: list[int] = []
            try:
                entries = self._current_entries(written)
                kept = [entry for entry in entries if entry.segment not in victims]
                self._replace_index(kept, *written, orphan_age=orphan_age)
            except BaseException:
                self._discard(written)
                raise
        return True

    def segment_files(self) -> list[tuple[int, os.stat_result]]:
        """The segments on disk with what ``stat`` says of them; another process may remove any of them at any time."""
        found = []
        try:
            names = os.listdir(self.folder)
        except OSError:
            return []
        for name in names:
            segment = segment_of(name)
            if segment is not None:
                try:
                    found.append((segment, os.stat(os.path.join(self.folder, name))))
                except OSError:
                    continue
        return sorted(found, key=lambda item: item[0])

    def live_segments(self) -> list[tuple[int, os.stat_result]]:
        """The segments that the index names, as one moment had them, with what ``stat`` says of them.

        While segments are merged there are files of both generations: who counts files counts images twice.
        """
        named: tuple[int, ...] = ()
        here: dict[int, os.stat_result] = {}
        for _ in range(3):  # another process may merge in between
            named = self._read_index().segments
            here = dict(self.segment_files())
            if here.keys() >= set(named):
                break
        return [(segment, here[segment]) for segment in named if segment in here]

    def _current_entries(self, written: list[int]) -> list[Entry]:
        """What the index should say now: what it says, or what the segments hold where it is missing or damaged.

        Args:
            written: the segments that this writer has made; one for what is saved of damaged ones is added.

        Raises:
            OSError: the index, the folder or a segment cannot be read. What cannot be read now is not gone.
        """
        index = self._read_index(fresh=True, must=True)
        try:
            known = index.entries()
        except ImageFormatError as error:
            index, known = self._report_damaged_index(error), []
        here = {segment for segment in map(segment_of, os.listdir(self.folder)) if segment is not None}
        if index is _NO_INDEX:
            return [entry for segment in sorted(here - {*written}) for entry in self._entries_of(segment)]
        damaged = self._damaged & set(index.segments)
        entries = [
            entry
            for entry in known
            if entry.segment not in damaged and (entry.segment in here or _is_young(entry.segment))
        ]
        for segment in damaged:
            self._archives.pop(segment, None)
            entries += self._salvage([entry for entry in known if entry.segment == segment], written)
        self._damaged -= damaged
        return entries

    def _entries_of(self, segment: int) -> list[Entry]:
        """An entry for every whole record of a segment.

        Raises:
            OSError: it cannot be read.
        """
        try:
            archive = Archive(self._path(segment), target=self.target, opener=open_own)
        except (ImageFormatError, FileNotFoundError):
            return []
        entries = []
        for number in range(archive.count):
            try:
                record = archive.record(number)
            except ImageFormatError:
                continue
            name = name_key(record.module, record.qualname, record.signature)
            entries.append(Entry(record.key, name, record.fingerprint, segment, segment, number))
        return entries

    def _salvage(self, entries: list[Entry], written: list[int]) -> list[Entry]:
        """The whole images of ``entries``, written to a segment of their own; their entries there.

        Raises:
            OSError: a segment cannot be read, or the new one not be written.
        """
        images: list[KernelImage] = []
        sequence_of: dict[bytes, int] = {}
        for entry in entries:
            try:
                record = self._open(entry.segment).record(entry.number)
                if record.key != entry.key:
                    continue
                images.append(record.load_image("cached", with_checks=True))
            except (ImageFormatError, FileNotFoundError):
                continue
            sequence_of[entry.key] = entry.sequence
        if not images:
            return []
        moved = self._entries_of(self._write_segment(images, written))
        for entry in moved:
            entry.sequence = sequence_of[entry.key]
        return moved

    def _merge(self, entries: list[Entry], written: list[int]) -> list[Entry]:
        """Merges segments of like size when there are ``_FANOUT`` of them, smallest first."""
        seen = dict(self.segment_files())
        tiers: dict[int, list[int]] = {}
        counts: dict[int, int] = {}
        for entry in entries:
            counts[entry.segment] = counts.get(entry.segment, 0) + 1
        for segment, count in counts.items():
            if segment in seen and seen[segment].st_size < _LARGEST_MERGE:
                tiers.setdefault((count.bit_length() - 1) // 3, []).append(segment)
        for tier in sorted(tiers):
            group = set(tiers[tier])
            if len(group) >= _FANOUT:
                try:
                    moved = self._salvage([entry for entry in entries if entry.segment in group], written)
                    if moved:  # as old as what is in it
                        used = max(seen[segment].st_mtime for segment in group)
                        os.utime(self._path(moved[0].segment), (used, used))
                except OSError:  # a later publishing merges
                    return entries
                return [entry for entry in entries if entry.segment not in group] + moved
        return entries

    def _replace_index(self, entries: list[Entry], *written: int, orphan_age: float = _ORPHAN_AGE) -> None:
        """Puts a new index in place, then removes the segments that it no longer needs; ``written`` are new ones."""
        data = format_index(entries)
        path = os.path.join(self.folder, INDEX_NAME)
        temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
        before = {*self._known[1].segments, *written}
        try:
            with open(temporary, "wb") as stream:
                stream.write(data)
            os.replace(temporary, path)
        except BaseException:
            _try_unlink(temporary)
            raise
        needed = set(parse_index(data).segments)
        for segment in before - needed:
            self._unlink(segment)
        self._sweep(needed, orphan_age)

    def _discard(self, written: list[int]) -> None:
        """Removes segments that were written in vain, unless the index has them after all."""
        try:
            needed = set(self._read_index(fresh=True, must=True).segments)
        except OSError:  # a later sweep knows
            return
        for segment in written:
            if segment not in needed:
                self._unlink(segment)

    def _sweep(self, needed: set[int], age: float) -> None:
        """Removes what killed writers left behind, ``age`` seconds ago or more."""
        oldest = time.time() - age
        try:
            names = os.listdir(self.folder)
        except OSError:  # the next writer sweeps
            return
        for name in names:
            segment = segment_of(name)
            if name.endswith(".tmp") or (segment is not None and segment not in needed):
                path = os.path.join(self.folder, name)
                try:
                    if os.stat(path).st_mtime < oldest:
                        os.unlink(path)
                except OSError:
                    continue

    def _write_segment(self, images: list[KernelImage], written: list[int]) -> int:
        # Later segments get higher numbers; the low bits keep two writers of one instant apart.
        segment = (time.time_ns() & ~0xFFFF) | int.from_bytes(os.urandom(2), "little")
        written.append(segment)
        write_archive(self._path(segment), images, self.target)
        return segment

    def _path(self, segment: int) -> str:
        return os.path.join(self.folder, f"seg-{segment:016x}.cuar")

    def _unlink(self, segment: int) -> None:
        self._archives.pop(segment, None)
        _try_unlink(self._path(segment))


def _hold(entries: Iterable[Entry], images: Iterable[KernelImage]) -> bool:
    return {image.key for image in images} <= {entry.key for entry in entries}


def _open_or_make(path: str, flags: int) -> int:
    return open_own(path, flags, make=True)


def _look_of(found: os.stat_result) -> tuple[int, ...]:
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_young(segment: int) -> bool:
    return time.time() - segment / 1e9 < _YOUNG


def segment_of(name: str) -> int | None:
    """The number of the segment that a file is by its name; None where it is no segment."""
    if name.startswith("seg-") and name.endswith(".cuar") and len(name) == 25:
        try:
            return int(name[4:20], 16)
        except ValueError:
            return None
    return None


def _try_unlink(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:  # gone already, or open in another process on Windows: a later sweep takes it
        return
