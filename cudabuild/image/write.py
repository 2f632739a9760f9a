# SPDX-License-Identifier: Apache-2.0
"""Writing an archive: the same images give the same bytes, in whatever order they were made."""

from __future__ import annotations

import contextlib
import itertools
import os

from cudabuild.digest import digest
from cudabuild.errors import ImageFormatError
from cudabuild.image.archive import (
    ALIGNMENT,
    HEADER,
    KINDS,
    MAGIC,
    RECORD,
    SCHEMA,
    is_description,
    name_key,
    record_digest,
    room_for,
)
from cudabuild.image.codec import pack, unpack
from cudabuild.target import find_target, minimum_driver

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cudabuild.image.image import KernelImage

    #: Place and bytes of the details, the checks and the extra.
    Described = tuple[tuple[int, bytes], tuple[int, bytes], tuple[int, bytes]]

__all__ = ["archive_pieces", "write_archive"]

#: A shorter description fits into any archive, whatever it says.
_LARGE = 1 << 14


def write_archive(path: str | os.PathLike[str], images: Iterable[KernelImage], target: str) -> int:
    """Writes an archive: to a temporary file beside ``path``, then in its place.

    Args:
        path: the file to write.
        images: images for one target, in any order.
        target: that target's name.

    Returns:
        The file's size in bytes.

    Raises:
        ValueError: an image is for another target, two are the same overload, or one says what no reader would take.
        OSError: the file cannot be written; nothing is left behind.
    """
    path = os.fspath(path)
    temporary = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    size = 0
    try:
        with open(temporary, "wb") as stream:
            for piece in archive_pieces(images, target):
                stream.write(piece)
                size += len(piece)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):  # it was never made, or is gone: the first error is the one to tell
            os.unlink(temporary)
        raise
    return size


def archive_pieces(images: Iterable[KernelImage], target: str) -> Iterator[bytes | memoryview]:
    """The bytes of an archive, piece by piece: an archive of any size is written without holding it in memory."""
    ordered = sorted(images, key=_order)
    _check(ordered, target)
    tables = HEADER.size + len(ordered) * (RECORD.size + 4)
    blobs = _Blobs(tables)
    described = [_describe(image, blobs) for image in ordered]
    digests = [digest(image.data) for image in ordered]
    places, pads, end = _place(ordered, digests, blobs.end)
    _check_readable(ordered, described, end)
    records = [
        _record(image, check, places[check], blob)
        for image, check, blob in zip(ordered, digests, described, strict=True)
    ]
    by_fingerprint = sorted(range(len(records)), key=lambda number: (records[number][:32], number))
    place_of = {number: place for place, number in enumerate(by_fingerprint)}
    by_name = sorted(range(len(records)), key=lambda number: (records[number][32:64], number))
    yield _header(target, max((image.launch_abi for image in ordered), default=0), len(records), end)
    for number in by_fingerprint:
        yield records[number]
    yield b"".join(place_of[number].to_bytes(4, "little") for number in by_name)
    yield from blobs.pieces
    for data, pad in pads:
        yield b"\0" * pad
        yield data


class _Blobs:
    """Descriptions, each kept once: the overloads of a kernel share their checks."""

    def __init__(self, start: int) -> None:
        self.end = start
        self.pieces: list[bytes] = []
        self._places: dict[bytes, int] = {}

    def add(self, blob: bytes) -> int:
        place = self._places.get(blob)
        if place is None:
            place = self._places[blob] = self.end
            self.pieces.append(blob)
            self.end += len(blob)
        return place


def _order(image: KernelImage) -> tuple[str, str, str, str, int, bytes, bytes]:
    options = repr(sorted(image.options.items()))
    return (image.module, image.qualname, image.signature, options, image.index_width, image.fingerprint, image.key)


def _check(ordered: list[KernelImage], target: str) -> None:
    if len(target.encode()) > 40 or (find_target(target) is None and not target.startswith("host-")):
        raise ValueError(f"{target!r} is no target's name")
    for image in ordered:
        if image.target != target:
            raise ValueError(f"{image!r} does not belong in an archive for {target}")
        if not len(image.data):
            raise ValueError(f"{image!r} is empty")
        if len(image.fingerprint) != 32 or image.index_width not in (32, 64) or image.kind not in KINDS:
            raise ValueError(f"{image!r} has a fingerprint, an index width or a kind that no image has")
    for one, other in itertools.pairwise(ordered):
        if _order(one) == _order(other):
            raise ValueError(f"{one!r} is there twice")


def _describe(image: KernelImage, blobs: _Blobs) -> Described:
    attributes = {name: value for name, value in image.attributes.items() if name != "minimum_driver"}
    fields = (image.module, image.qualname, image.signature, image.options, image.symbol, attributes, image.key)
    details = pack(fields)
    checks = pack(tuple((check.label, check.source, check.values) for check in image.checks))
    extra = pack((image.toolchain, image.parts))
    return (blobs.add(details), details), (blobs.add(checks), checks), (blobs.add(extra), extra)


def _check_readable(
    ordered: list[KernelImage],
    described: list[tuple[tuple[int, bytes], tuple[int, bytes], tuple[int, bytes]]],
    end: int,
) -> None:
    """Raises ValueError for what a reader of this version would refuse."""
    for image, ((_, details), (_, checks), (_, extra)) in zip(ordered, described, strict=True):
        try:
            fields = unpack(details, room_for(details, end))
            for packed in (checks, extra):
                if len(packed) > _LARGE:
                    unpack(packed, room_for(packed, end))
        except ImageFormatError as error:
            raise ValueError(f"{image!r} cannot be kept in an archive: {error}") from None
        if not is_description(fields, image.kind, image.launch_abi):
            raise ValueError(f"{image!r} has options or attributes of a kind that no image has")


def _place(
    ordered: list[KernelImage], digests: list[bytes], start: int
) -> tuple[dict[bytes, int], list[tuple[bytes | memoryview, int]], int]:
    """Where each image's bytes go, by their digest; what to write, each with the padding before it; the end."""
    places: dict[bytes, int] = {}
    pads: list[tuple[bytes | memoryview, int]] = []
    end = start
    for image, check in zip(ordered, digests, strict=True):
        if check not in places:
            pad = -end % ALIGNMENT
            places[check] = end + pad
            pads.append((image.data, pad))
            end += pad + len(image.data)
    return places, pads, end


def _record(
    image: KernelImage,
    check: bytes,
    place: int,
    described: Described,
) -> bytes:
    (details_at, details), (checks_at, checks), (extra_at, extra) = described
    target = find_target(image.target)
    driver = image.attributes.get("minimum_driver")
    if driver is None:
        driver = minimum_driver(target) if target is not None else 0
    fields = [
        image.fingerprint, name_key(image.module, image.qualname, image.signature), check, bytes(32),
        place, len(image.data), details_at, len(details), len(checks), checks_at, extra_at, len(extra),
        image.launch_abi, driver, image.index_width, KINDS.index(image.kind),
    ]  # fmt: skip
    fields[3] = record_digest(RECORD.pack(*fields), details, checks, extra, image.target.encode())
    return RECORD.pack(*fields)


def _header(target: str, launch_abi: int, count: int, length: int) -> bytes:
    records = HEADER.size
    names = records + count * RECORD.size
    fields = (MAGIC, SCHEMA, launch_abi, count, 0, length, records, names, target.encode())
    head = HEADER.pack(*fields, bytes(32))
    return HEADER.pack(*fields, digest(head[:-32]))
