# SPDX-License-Identifier: Apache-2.0
"""Archives: many images for one target in one file, opened by one ``mmap``; laid out to the byte in ``README.md``.

Finding an overload is a binary search over fixed-size records, nothing is parsed on the way, and the driver is handed a
pointer into the map. Nothing in a file is believed: every offset and length is bounded by the file's size, every record
and every image has a digest of its own, and what does not fit is an ImageFormatError, which callers turn into a miss.
"""

from __future__ import annotations

import mmap
import struct

from cudabuild.digest import digest, digest_parts
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint.checks import Check
from cudabuild.image.codec import unpack
from cudabuild.image.image import KernelImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from cudabuild.target import Target

__all__ = [
    "ALIGNMENT",
    "HEADER",
    "KINDS",
    "MAGIC",
    "RECORD",
    "SCHEMA",
    "Archive",
    "Record",
    "name_key",
    "record_digest",
    "write_archive",
]

#: No text file starts like this; a transfer that changes line ends or strips the eighth bit shows.
MAGIC = b"\x93CUAR\r\n\x1a"
SCHEMA = 1

#: magic, schema, launch ABI, count, reserved, file length, offset of the records, offset of the name index, target,
#: reserved; then the digest of all that.
HEADER = struct.Struct("<8sIIIIQQQ40s8x32s")

#: fingerprint, name key, image digest, record digest; offset and length of the image; offset of the details, lengths of
#: the details and of the checks, offset of the checks; offset and length of the extra; launch ABI, oldest driver, index
#: width, kind, reserved.
RECORD = struct.Struct("<32s32s32s32sQQQIIQQIIIHBx")

#: Images start at multiples of this.
ALIGNMENT = 64

_U32 = struct.Struct("<I")

#: By number.
KINDS = ("cubin", "ptx", "object")


def write_archive(path: str | os.PathLike[str], images: Iterable[KernelImage], target: str | Target) -> int:
    """Writes an archive; see :func:`cudabuild.image.write.write_archive`, which the launch path does not import."""
    from cudabuild.image.write import write_archive as write

    return write(path, images, str(target))


def name_key(module: str, qualname: str, signature: str) -> bytes:
    """What the name index is sorted by."""
    return digest_parts(module.encode(), qualname.encode(), signature.encode())


def record_digest(record: bytes, details: bytes, checks: bytes, extra: bytes) -> bytes:
    """The digest that a record carries: over itself without that field, and over what it points to except the image."""
    return digest_parts(record[:96], record[128:], details, checks, extra)


class Archive:
    """An open archive.

    Attributes:
        name: the file's path, for messages.
        target: the target of all its images, such as ``sm_90a``.
        launch_abi: the newest launch ABI among its images.
    """

    __slots__ = ("_bytes", "_names", "_records", "_verified", "count", "launch_abi", "name", "target")

    def __init__(self, source: str | bytes, name: str = "") -> None:
        """Opens an archive.

        Args:
            source: a path, which is mapped; or the bytes of a file (a zip import has no path to map).
            name: what to call it in messages; the path by default.

        Raises:
            ImageFormatError: it is not an archive of a schema that this version reads, or it was cut off.
            OSError: it cannot be opened.
        """
        self.name = name or (source if isinstance(source, str) else "<bytes>")
        self._bytes = _map(source) if isinstance(source, str) else source
        self._verified: set[int] = set()
        size = len(self._bytes)
        if size < HEADER.size:
            raise self._damaged("it was cut off")
        head = bytes(self._bytes[: HEADER.size])
        magic, schema, abi, count, _, length, records, names, target, check = HEADER.unpack(head)
        if magic != MAGIC:
            raise self._damaged("it is no archive of images")
        if schema != SCHEMA:
            raise ImageFormatError(f"{self.name}: written in schema {schema}; this version reads schema {SCHEMA}")
        if digest(head[:-32]) != check:
            raise self._damaged("its header is damaged")
        if length != size:
            raise self._damaged(f"it holds {size} bytes instead of {length}")
        if records + count * RECORD.size > size or names + count * 4 > size:
            raise self._damaged("its tables lie beyond its end")
        self.launch_abi: int = abi
        self.count: int = count
        self.target: str = target.rstrip(b"\0").decode("ascii", "replace")
        self._records: int = records
        self._names: int = names

    def find_named(self, module: str, qualname: str, signature: str) -> list[Record]:
        """The records of one overload by its name, in every option set and index width.

        Raises:
            ImageFormatError: a record is damaged.
        """
        key = name_key(module, qualname, signature)
        return self._collect(key, self._number_of_name, 32)

    def find_fingerprint(self, fingerprint: bytes) -> list[Record]:
        """The records with a fingerprint, in every option set and index width.

        Raises:
            ImageFormatError: a record is damaged.
        """
        return self._collect(fingerprint, _same, 0)

    def records(self) -> Iterator[Record]:
        """All records, by fingerprint; for people and for merging, not for launching.

        Raises:
            ImageFormatError: a record is damaged.
        """
        return map(self.record, range(self.count))

    def record(self, number: int) -> Record:
        """The record at a place in the table, with its digest checked.

        Raises:
            ImageFormatError: there is none, or it is damaged.
        """
        if not 0 <= number < self.count:
            raise self._damaged("a record number beyond its table")
        at = self._records + number * RECORD.size
        return Record(self, bytes(self._bytes[at : at + RECORD.size]))

    def _collect(self, key: bytes, number_of: Callable[[int], int], field: int) -> list[Record]:
        """The records whose 32 bytes at ``field`` equal ``key``, in a table sorted by that."""
        low, high = 0, self.count
        while low < high:
            middle = (low + high) // 2
            if self._key_at(number_of(middle), field) < key:
                low = middle + 1
            else:
                high = middle
        found = []
        while low < self.count:
            number = number_of(low)
            if self._key_at(number, field) != key:
                break
            found.append(self.record(number))
            low += 1
        return found

    def _key_at(self, number: int, field: int) -> bytes:
        at = self._records + number * RECORD.size + field
        return bytes(self._bytes[at : at + 32])

    def _number_of_name(self, place: int) -> int:
        number: int = _U32.unpack_from(self._bytes, self._names + place * 4)[0]
        if number >= self.count:
            raise self._damaged("a record number beyond its table")
        return number

    def piece(self, offset: int, length: int) -> bytes:
        """A copy of some bytes; raises ImageFormatError where they lie outside the file."""
        if offset + length > len(self._bytes):
            raise self._damaged("a description beyond its end")
        return bytes(self._bytes[offset : offset + length])

    def data(self, offset: int, length: int, check: bytes) -> memoryview:
        """An image's bytes, not copied; their digest is compared once per process."""
        if length == 0 or offset + length > len(self._bytes):
            raise self._damaged("an image beyond its end")
        data = memoryview(self._bytes)[offset : offset + length]
        if offset not in self._verified:
            if digest(data) != check:
                raise self._damaged("the bytes of an image are damaged")
            self._verified.add(offset)
        return data

    def _damaged(self, what: str) -> ImageFormatError:
        return ImageFormatError(f"{self.name}: {what}")

    def __repr__(self) -> str:
        return f"<Archive {self.name} {self.target} {self.count} images>"


def _same(place: int) -> int:
    return place


def _map(path: str) -> mmap.mmap | bytes:
    with open(path, "rb") as stream:
        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return b""


class Record:
    """One image of an archive, as far as its fixed fields and its description tell."""

    __slots__ = (
        "_archive", "_checks", "_data", "_extra", "attributes", "fingerprint", "index_width", "key",
        "kind", "launch_abi", "minimum_driver", "module", "options", "qualname", "signature", "size", "symbol",
    )  # fmt: skip

    def __init__(self, archive: Archive, raw: bytes) -> None:
        (
            fingerprint, name, check, own, at, size, details_at, details_size, checks_size, checks_at,
            extra_at, extra_size, abi, driver, width, kind,
        ) = RECORD.unpack(raw)  # fmt: skip
        details = archive.piece(details_at, details_size)
        checks = archive.piece(checks_at, checks_size)
        extra = archive.piece(extra_at, extra_size)
        if record_digest(raw, details, checks, extra) != own:
            raise ImageFormatError(f"{archive.name}: the record of an image is damaged")
        self._archive = archive
        self._data = (at, size, check)
        self._checks = checks
        self._extra = extra
        self.size: int = size
        self.fingerprint: bytes = fingerprint
        self.launch_abi: int = abi
        self.minimum_driver: int = driver
        self.index_width: int = width
        try:
            self.kind: str = KINDS[kind]
            (self.module, self.qualname, self.signature, self.options, self.symbol, self.attributes, self.key) = unpack(
                details
            )
        except (IndexError, TypeError, ValueError):
            raise ImageFormatError(f"{archive.name}: the record of an image has unknown fields") from None
        if name != name_key(self.module, self.qualname, self.signature):
            raise ImageFormatError(f"{archive.name}: the record of an image belongs to another name")

    @property
    def target(self) -> str:
        return self._archive.target

    @property
    def file(self) -> str:
        """The archive's name."""
        return self._archive.name

    @property
    def decorated(self) -> tuple[str, ...]:
        """The options that the decorator wrote when the image was made; the build chose the others."""
        return tuple(self.attributes.get("decorated", ()))

    def read_checks(self) -> tuple[Check, ...]:
        """What a live kernel is compared to.

        Raises:
            ImageFormatError: they are damaged.
        """
        try:
            return tuple(Check(label, source, values) for label, source, values in unpack(self._checks))
        except (TypeError, ValueError):
            raise ImageFormatError(f"{self._archive.name}: the checks of an image have unknown fields") from None

    def read_extra(self) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
        """Toolchain, and the parts of the fingerprint.

        Raises:
            ImageFormatError: they are damaged.
        """
        try:
            toolchain, parts = unpack(self._extra)
        except (TypeError, ValueError):
            raise ImageFormatError(f"{self._archive.name}: the toolchain of an image has unknown fields") from None
        return toolchain, parts

    def load_image(self, origin: str, with_checks: bool = False) -> KernelImage:
        """The image, its bytes verified and not copied.

        Args:
            origin: ``shipped`` or ``cached``.
            with_checks: whether to read the checks too: for writing the image elsewhere, not for launching it.

        Raises:
            ImageFormatError: its bytes are damaged.
        """
        attributes: dict[str, Any] = {**self.attributes, "minimum_driver": self.minimum_driver}
        image = KernelImage(
            module=self.module,
            qualname=self.qualname,
            signature=self.signature,
            fingerprint=self.fingerprint,
            options=self.options,
            kind=self.kind,
            target=self._archive.target,
            index_width=self.index_width,
            symbol=self.symbol,
            data=self._archive.data(*self._data),
            launch_abi=self.launch_abi,
            attributes=attributes,
            origin=origin,
            key=self.key,
            checks=self.read_checks() if with_checks else (),
        )
        image.set_extra(self.read_extra)
        return image

    def __repr__(self) -> str:
        return f"<Record {self.module}:{self.qualname}({self.signature}) {self.target} index={self.index_width}>"
