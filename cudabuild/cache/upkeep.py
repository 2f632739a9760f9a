# SPDX-License-Identifier: Apache-2.0
"""What people do with a cache: look into it, verify it, bring it under a size, empty it.

All of it is safe beside processes that read, compile and publish: files go only after the index that no longer names
them is in place, and nothing goes that is not named as a file of ours, whatever folder a setting leads to.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from cudabuild import config
from cudabuild.cache.evict import choose_victims
from cudabuild.cache.index import Index, parse_index
from cudabuild.cache.location import check_private, find_root, open_own
from cudabuild.cache.shelf import INDEX_NAME, Shelf, segment_of
from cudabuild.digest import DIGEST_SIZE, digest
from cudabuild.errors import CudabuildError, ImageFormatError
from cudabuild.image.archive import Archive, Record

__all__ = [
    "Fault", "Held", "Layer", "Removed", "TargetFacts", "Verdict", "clear_cache", "find_layers", "find_targets",
    "list_images", "measure", "prune_cache", "repair_cache", "share_cache", "survey_layer", "user_layer",
    "verify_layer",
]  # fmt: skip

#: Files that no index names and that are older than this, in seconds, belong to no writer that waits for a lock.
_WAITED_OUT = 60.0

#: The index of a folder that has none.
_NOTHING = Index(b"", (), 0, 0)

_NOTES = "notes"
_NOTE_KINDS = ("tools-", "build-")


@dataclass(frozen=True)
class Layer:
    """One cache folder, as the settings name it.

    Attributes:
        path: the folder; "" where this user has no place for one.
        kind: ``user`` or ``site``.
        state: ``ready``; ``read-only``; ``absent``, made at the first publishing; or ``refused``.
        reason: why it is refused, or cannot be made.
    """

    path: str
    kind: str
    state: str
    reason: str = ""

    @property
    def is_read(self) -> bool:
        """Whether images are taken from it."""
        return self.state in ("ready", "read-only")


@dataclass(frozen=True)
class TargetFacts:
    """What a layer holds for one target.

    Attributes:
        target: its name.
        images: how many images the index names.
        segments: how many files hold them.
        bytes: the size of all files in the folder.
        last_used: when something was last published or used, in seconds since 1970, to the hour; 0 for never.
        leftover: how many files no index names: of a writer at work, or left by a killed one.
    """

    target: str
    images: int
    segments: int
    bytes: int
    last_used: float
    leftover: int


@dataclass(frozen=True)
class Held:
    """One image in a layer, and when it was published, in seconds since 1970."""

    layer: Layer
    record: Record
    published: float


@dataclass(frozen=True)
class Fault:
    """What is wrong with a file.

    Attributes:
        path: the file or folder.
        kind: ``refused``, ``unreadable``, ``index``, ``segment``, ``image``, ``missing`` or ``note``.
        reason: what was found.
        target: the folder's target, or "".
        segment: the number of the segment, or 0.
        image: which image, for ``image``.
    """

    path: str
    kind: str
    reason: str
    target: str = ""
    segment: int = 0
    image: str = ""


@dataclass
class Verdict:
    """What verifying found: how many images and bytes of code were read, and what is wrong."""

    images: int = 0
    bytes: int = 0
    faults: list[Fault] = field(default_factory=list)


@dataclass
class Removed:
    """What was removed: images, files and their bytes; ``busy`` are targets whose lock could not be had."""

    images: int = 0
    files: int = 0
    bytes: int = 0
    busy: list[str] = field(default_factory=list)


# where


def user_layer() -> Layer:
    """The user's own cache."""
    root = find_root()
    if root is None:
        return Layer("", "user", "refused", "this user has no home folder")
    found = _look(root, "user")
    if found.state != "absent":
        return found
    above = root
    while not os.path.lexists(above):
        above = os.path.dirname(above)
    if os.path.isdir(above) and os.access(above, os.W_OK):
        return found
    return replace(found, state="refused", reason=f"it cannot be made: {above} is {_not_writable(above)}")


def find_layers() -> list[Layer]:
    """The user's cache, then the site caches, as they are looked into."""
    return [user_layer(), *(_look(path, "site") for path in config.get("site_cache"))]


def _look(path: str, kind: str) -> Layer:
    try:
        reason = check_private(path, writable=kind == "user")
        if not reason and not os.access(path, os.R_OK | os.X_OK):
            reason = "this user may not read it"
    except FileNotFoundError:
        return Layer(path, kind, "absent")
    except OSError as error:
        reason = error.strerror or str(error)
    if reason:
        return Layer(path, kind, "refused", reason)
    return Layer(path, kind, "ready" if kind == "user" and os.access(path, os.W_OK) else "read-only")


def _not_writable(path: str) -> str:
    return "read-only" if os.path.isdir(path) else "no folder"


def find_targets(path: str) -> list[str]:
    """The targets that a cache has a folder for: one that holds files of a cache, whatever else lies beside it."""
    found = []
    for entry in _scan(path):
        if entry.is_dir(follow_symlinks=False) and any(map(_is_ours, _scan(entry.path))):
            found.append(entry.name)
    return sorted(found)


def _scan(path: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(path) as entries:
            return sorted(entries, key=lambda entry: entry.name)
    except OSError:  # not made yet, taken away meanwhile, or another user's
        return []


def _is_ours(entry: os.DirEntry[str]) -> bool:
    return entry.name == INDEX_NAME or segment_of(entry.name) is not None


# what it holds


def survey_layer(layer: Layer) -> list[TargetFacts]:
    """What a layer holds, by target; nothing where it is not read."""
    return [_survey_target(layer, target) for target in find_targets(layer.path)] if layer.is_read else []


def _survey_target(layer: Layer, target: str) -> TargetFacts:
    folder = os.path.join(layer.path, target)
    try:
        index = _read_index(folder)
    except (ImageFormatError, OSError):  # ``verify`` says what is wrong with it
        index = None
    named = set(index.segments) if index is not None else set()
    here = Shelf(folder, target, writable=False).segment_files()
    return TargetFacts(
        target,
        index.count if index is not None else 0,
        sum(segment in named for segment, _ in here),
        sum(_files_in(folder).values()),
        max((found.st_mtime for _, found in here), default=0.0),
        sum(segment not in named for segment, _ in here),
    )


def measure(path: str) -> tuple[int, int]:
    """The files below a folder, and their bytes."""
    sizes = [size for folder, _, _ in os.walk(path) for size in _files_in(folder).values()]
    return len(sizes), sum(sizes)


def _files_in(folder: str) -> dict[str, int]:
    sizes = {}
    for entry in _scan(folder):
        try:
            found = entry.stat(follow_symlinks=False)
        except OSError:  # taken away meanwhile, by another process
            continue
        if not stat.S_ISDIR(found.st_mode):
            sizes[entry.path] = found.st_size
    return sizes


def list_images(layer: Layer, targets: Iterable[str] = ()) -> Iterator[Held]:
    """The images of a layer, target by target; of ``targets`` only, if there are any."""
    if not layer.is_read:
        return
    wanted = set(targets)
    for target in find_targets(layer.path):
        if not wanted or target in wanted:
            shelf = Shelf(os.path.join(layer.path, target), target, writable=layer.state == "ready")
            for record in sorted(shelf.records(), key=_order):
                yield Held(layer, record, shelf.published(record.key))


def _order(record: Record) -> tuple[str, str, str, int, bytes]:
    return record.module, record.qualname, record.signature, record.index_width, record.key


# verifying


def verify_layer(layer: Layer) -> Verdict:
    """Reads every byte that a layer's indexes lead to, and compares digests."""
    verdict = Verdict()
    if layer.state == "refused":
        verdict.faults.append(Fault(layer.path, "refused", layer.reason))
    if layer.is_read:
        for target in find_targets(layer.path):
            _verify_target(os.path.join(layer.path, target), target, layer.kind == "user", verdict)
        for path in _notes(layer.path):
            _verify_note(path, verdict)
    return verdict


def _verify_target(folder: str, target: str, writable: bool, verdict: Verdict) -> None:
    path = os.path.join(folder, INDEX_NAME)
    try:
        refused = check_private(folder, writable=writable)
        if refused:
            verdict.faults.append(Fault(folder, "refused", refused, target))
            return
        entries = _numbers_by_segment(_read_index(folder))
    except ImageFormatError as error:
        verdict.faults.append(Fault(path, "index", str(error), target))
        entries = {segment: None for segment, _ in Shelf(folder, target, writable=False).segment_files()}
    except OSError as error:
        verdict.faults.append(Fault(error.filename or path, "unreadable", error.strerror or str(error), target))
        return
    missing = [
        segment
        for segment, numbers in entries.items()
        if not _verify_segment(folder, target, segment, numbers, verdict)
    ]
    if missing:  # merged away or evicted meanwhile, unless the index still names it
        try:
            still = set(_read_index(folder).segments)
        except (ImageFormatError, OSError):
            still = set()
        verdict.faults += [
            Fault(_segment_path(folder, segment), "missing", "the index names it, and it is not there", target, segment)
            for segment in missing
            if segment in still
        ]


def _read_index(folder: str) -> Index:
    """The index of a target's folder; an empty one where there is none.

    Raises:
        ImageFormatError: it is damaged, or another user's.
        OSError: it cannot be read.
    """
    try:
        with open(os.path.join(folder, INDEX_NAME), "rb", opener=open_own) as stream:
            data = stream.read()
    except FileNotFoundError:
        return _NOTHING
    newest = time.time() - _WAITED_OUT
    segments = map(segment_of, os.listdir(folder) if not data else ())
    if not data and all(segment is None or segment / 1e9 > newest for segment in segments):
        return _NOTHING  # made a moment ago; nothing was published yet
    return parse_index(data)


def _numbers_by_segment(index: Index) -> dict[int, list[tuple[int, bytes]] | None]:
    found: dict[int, list[tuple[int, bytes]] | None] = {segment: [] for segment in index.segments}
    for entry in index.entries():
        numbers = found[entry.segment]
        assert numbers is not None
        numbers.append((entry.number, entry.key))
    return found


def _segment_path(folder: str, segment: int) -> str:
    return os.path.join(folder, f"seg-{segment:016x}.cuar")


def _verify_segment(
    folder: str, target: str, segment: int, numbers: list[tuple[int, bytes]] | None, verdict: Verdict
) -> bool:
    """False where the file is not there.

    Args:
        folder: the target's folder.
        target: its target.
        segment: the segment's number.
        numbers: record numbers, and the image keys that the index says they have; None for all records.
        verdict: is added to.
    """
    path = _segment_path(folder, segment)
    try:
        archive = Archive(path, target=target, opener=open_own)
    except FileNotFoundError:
        return False
    except ImageFormatError as error:
        verdict.faults.append(Fault(path, "segment", _plain(error, path), target, segment))
        return True
    except OSError as error:
        verdict.faults.append(Fault(path, "unreadable", error.strerror or str(error), target, segment))
        return True
    for number, key in [(number, None) for number in range(archive.count)] if numbers is None else numbers:
        name = f"image {number}"
        try:
            record = archive.record(number)
            name = f"{record.module}.{record.qualname}({record.signature}), {record.index_width}-bit indices"
            if key is not None and record.key != key:
                raise ImageFormatError("the index takes it for another image")
            verdict.bytes += len(record.load_image("cached", with_checks=True).data)
            verdict.images += 1
        except ImageFormatError as error:
            verdict.faults.append(Fault(path, "image", _plain(error, path), target, segment, name))
    return True


def _plain(error: Exception, path: str) -> str:
    return str(error).removeprefix(f"{path}: ")


def _notes(root: str) -> list[str]:
    return [
        entry.path
        for entry in _scan(os.path.join(root, _NOTES))
        if entry.name.startswith(_NOTE_KINDS) and not entry.name.endswith(".tmp")
    ]


def _verify_note(path: str, verdict: Verdict) -> None:
    try:
        with open(path, "rb", opener=open_own) as stream:
            data = stream.read()
        if digest(data[DIGEST_SIZE:]) != data[:DIGEST_SIZE]:
            raise ImageFormatError("its bytes are damaged")
    except FileNotFoundError:  # the oldest go when new ones come
        return
    except ImageFormatError as error:
        verdict.faults.append(Fault(path, "note", str(error)))
    except OSError as error:
        verdict.faults.append(Fault(path, "unreadable", error.strerror or str(error)))


def repair_cache(layer: Layer, faults: Iterable[Fault]) -> list[str]:
    """Takes damaged files out of the user's cache; what is whole in them is kept.

    Args:
        layer: the user's cache.
        faults: what verifying it found.

    Returns:
        The targets whose lock could not be had.

    Raises:
        CudabuildError: it is not a cache that this user may write to.
        OSError: it cannot be written.
    """
    _check_writable(layer)
    damaged: dict[str, set[int]] = {}
    for fault in faults:
        if fault.kind == "note":
            with contextlib.suppress(FileNotFoundError):  # a newer one took its place, or it was one too many
                os.unlink(fault.path)
        elif fault.kind in ("index", "segment", "image", "missing"):
            damaged.setdefault(fault.target, set()).update({fault.segment} - {0})
    return [
        target
        for target, segments in damaged.items()
        if not Shelf(os.path.join(layer.path, target), target).remove((), damaged=segments)
    ]


def share_cache(path: str) -> None:
    """Lets all users read the images of a cache; writing stays its owner's. Caches are private otherwise.

    Raises:
        OSError: the mode of a file cannot be changed.
    """
    os.chmod(path, os.stat(path).st_mode | 0o055)
    for target in find_targets(path):
        folder = os.path.join(path, target)
        os.chmod(folder, 0o755)
        for entry in _scan(folder):
            if _is_ours(entry) and entry.is_file(follow_symlinks=False):
                os.chmod(entry.path, 0o644)


# removing


def prune_cache(
    layer: Layer, *, limit: int | None = None, unused_days: float | None = None, dry_run: bool = False
) -> Removed:
    """Removes the least recently used segments until a cache is within a size, and what killed writers left.

    Args:
        layer: the user's cache.
        limit: the most bytes to keep; the setting ``cache_size`` by default.
        unused_days: removes besides what was not used for so many days.
        dry_run: tells what would be removed, and removes nothing.

    Raises:
        CudabuildError: it is not a cache that this user may write to.
        OSError: it cannot be written.
    """
    _check_writable(layer)
    folders = {target: os.path.join(layer.path, target) for target in _trusted_targets(layer)}
    found = [
        (target, segment, seen.st_mtime, seen.st_size)
        for target, folder in folders.items()
        for segment, seen in Shelf(folder, target).segment_files()
    ]
    oldest = time.time() - unused_days * 86400 if unused_days is not None else 0.0
    victims = {(target, segment) for target, segment, used, _ in found if used < oldest}
    left = [one for one in found if one[:2] not in victims]
    victims.update(choose_victims(left, config.get("cache_size") if limit is None else limit))
    removed = Removed()
    for target, folder in folders.items():
        segments = {segment for name, segment in victims if name == target}
        if dry_run:
            sizes = {segment: size for name, segment, _, size in found if name == target}
            removed.images += _count_images(folder, segments)
            removed.files += len(segments)
            removed.bytes += sum(sizes[segment] for segment in segments)
        else:
            _remove(folder, target, segments, removed)
    return removed


def clear_cache(layer: Layer, targets: Iterable[str] = ()) -> Removed:
    """Empties a cache, or what it holds for some targets; folders and lock files stay.

    Removing a lock file while somebody waits for it would leave two of them with a lock each. What another process
    publishes meanwhile stays too.

    Args:
        layer: the user's cache.
        targets: names of targets; all of them, and the notes, by default.

    Raises:
        CudabuildError: it is not a cache that this user may write to, or holds nothing for one of the targets.
        OSError: it cannot be written.
    """
    _check_writable(layer)
    wanted = list(dict.fromkeys(targets))
    here = _trusted_targets(layer)
    unknown = [target for target in wanted if target not in here]
    if unknown:
        raise CudabuildError(
            f"nothing is cached for {', '.join(unknown)}\n  found:    {layer.path}\n"
            f"  expected: {' or '.join(here) or 'a cache that holds something'}"
        )
    removed = Removed()
    for target in wanted or here:
        folder = os.path.join(layer.path, target)
        segments = {segment for segment, _ in Shelf(folder, target).segment_files()}
        _remove(folder, target, segments, removed, orphan_age=_WAITED_OUT)
    for path in [] if wanted else _notes(layer.path):
        try:
            size = os.stat(path).st_size
            os.unlink(path)
        except FileNotFoundError:  # somebody else removed it
            continue
        removed.files += 1
        removed.bytes += size
    return removed


def _remove(folder: str, target: str, segments: set[int], removed: Removed, orphan_age: float | None = None) -> None:
    before = _files_in(folder)
    images = _count_images(folder, segments)
    shelf = Shelf(folder, target)
    if not (shelf.remove(segments) if orphan_age is None else shelf.remove(segments, orphan_age=orphan_age)):
        removed.busy.append(target)
        return
    after = _files_in(folder)
    gone = {path: size for path, size in before.items() if path not in after}
    removed.images += images
    removed.files += len(gone)
    removed.bytes += sum(gone.values())


def _count_images(folder: str, segments: set[int]) -> int:
    try:
        return sum(entry.segment in segments for entry in _read_index(folder).entries())
    except (ImageFormatError, OSError):  # a damaged index names none
        return 0


def _trusted_targets(layer: Layer) -> list[str]:
    """The targets of a cache whose folders nobody else can have filled."""
    return [target for target in find_targets(layer.path) if not check_private(os.path.join(layer.path, target))]


def _check_writable(layer: Layer) -> None:
    if layer.kind == "user" and layer.state in ("ready", "absent"):
        return
    raise CudabuildError(
        f"the cache {layer.path or '(no folder)'} cannot be changed\n"
        f"  found:    {layer.reason or 'it is read-only'}\n"
        "  expected: a folder that belongs to this user alone\n"
        "  do:       set CUDABUILD_CACHE_DIR to one"
    )
