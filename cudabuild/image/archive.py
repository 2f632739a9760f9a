# SPDX-License-Identifier: Apache-2.0
"""Archives: many images for one target in one file, opened by one ``mmap``; laid out to the byte in ``README.md``.

Finding an overload is a search over fixed-size records, nothing is parsed on the way, and the driver is handed a
pointer into the map. Nothing in a file is believed: every offset and length is bounded by the file's size, every record
and every image has a digest of its own, what a record says must be of the kinds that are written, and what does not fit
is an ImageFormatError, which callers turn into a miss. Digests keep no secret: whoever writes a file can write right
ones, so bounds and kinds are compared all the same.
"""

from __future__ import annotations

import os
import struct

from cudabuild.digest import digest, digest_parts, find_place
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint.checks import Check
from cudabuild.image.codec import unpack
from cudabuild.image.image import KNOWN_LAUNCH_ABIS, KernelImage

TYPE_CHECKING = False
if TYPE_CHECKING:
    import mmap
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from cudabuild.target import Target

    #: Module, qualified name, signature, options, symbol, attributes, image key.
    Details = tuple[str, str, str, dict[str, Any], str, dict[str, Any], bytes]

__all__ = [
    "ALIGNMENT",
    "HEADER",
    "KINDS",
    "MAGIC",
    "RECORD",
    "SCHEMA",
    "Archive",
    "Record",
    "is_description",
    "name_key",
    "record_digest",
    "room_for",
    "write_archive",
]

#: No text file starts like this; a transfer that changes line ends or strips the eighth bit shows.
MAGIC = b"\x93CUAR\r\n\x1a"
SCHEMA = 2

#: Schemas that are read. In the first, records do not say what they are for.
_KNOWN_SCHEMAS = (1, 2)

#: magic, schema, launch ABI, count, reserved, file length, offset of the records, offset of the name index, target,
#: reserved; then the digest of all that.
HEADER = struct.Struct("<8sIIIIQQQ40s8x32s")

#: fingerprint, name key, image digest, record digest; offset and length of the image; offset of the details, lengths of
#: the details and of the checks, offset of the checks; offset and length of the extra; launch ABI, oldest driver, index
#: width, kind, reserved.
RECORD = struct.Struct("<32s32s32s32sQQQIIQQIIIHBx")

#: Images start at multiples of this.
ALIGNMENT = 64

_U8 = struct.Struct("<B")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

#: What one description may take in memory, in bytes, beside half the size of its file. The records that a lookup finds
#: take less than the other half: so reading takes at most that size and a MiB, the map not counted.
_ROOM = 7 << 17

#: Unpacked details that an archive remembers, and up to which length in bytes it remembers several: a launch asks the
#: records of one name for several fields in turn.
_MEMO = 4
_SHORT = 1 << 10

#: By number.
KINDS = ("cubin", "ptx", "object")


def write_archive(path: str | os.PathLike[str], images: Iterable[KernelImage], target: str | Target) -> int:
    """Writes an archive; see :func:`cudabuild.image.write.write_archive`, which the launch path does not import."""
    from cudabuild.image.write import write_archive as write

    return write(path, images, str(target))


def name_key(module: str, qualname: str, signature: str) -> bytes:
    """What the name index is sorted by."""
    return digest_parts(module.encode(), qualname.encode(), signature.encode())


def record_digest(
    record: bytes,
    details: bytes | memoryview,
    checks: bytes | memoryview,
    extra: bytes | memoryview,
    *target: bytes,
) -> bytes:
    """The digest that a record carries: over itself without that field, over what it points to except the image, and
    since schema 2 over the target's name, which only the header has."""
    return digest_parts(record[:96], record[128:], details, checks, extra, *target)


def room_for(packed: bytes | memoryview, size: int) -> int:
    """What unpacking a description may take beyond its own length, in a file of ``size`` bytes."""
    return size // 2 + _ROOM - len(packed)


class Archive:
    """An open archive.

    Attributes:
        name: the file's path, for messages.
        target: the target of all its images, such as ``sm_90a``.
        launch_abi: the newest launch ABI among its images.
        tie: what of the header the records' digests cover.
    """

    __slots__ = ("_bytes", "_memo", "_names", "_records", "_verified", "count", "launch_abi", "name", "target", "tie")

    def __init__(
        self,
        source: str | bytes | memoryview,
        name: str = "",
        *,
        target: str = "",
        opener: Callable[[str, int], int] | None = None,
    ) -> None:
        """Opens an archive.

        Args:
            source: a path, which is mapped; or the bytes of a file (a zip import has no path to map).
            name: what to call it in messages; the path by default.
            target: what its images must be for, where its place says so: files can be mixed up.
            opener: opens the path, as for :func:`open`, or refuses it. The file is then read piece by piece instead of
                mapped: a file server can take a file away, and touching a map of such a file ends the process.

        Raises:
            ImageFormatError: it is not an archive of a schema that this version reads, it was cut off, or it is for
                another target.
            OSError: it cannot be opened.
        """
        self.name = name or (source if isinstance(source, str) else "<bytes>")
        self._bytes: memoryview | _OpenFile
        if isinstance(source, str):
            self._bytes = memoryview(_map(source)) if opener is None or _pread is None else _OpenFile(source, opener)
        else:
            self._bytes = memoryview(source)
        self._verified: set[tuple[int, int, bytes]] = set()
        self._memo: dict[int, Details] = {}
        size = len(self._bytes)
        if size < HEADER.size:
            raise self._damaged("it was cut off")
        head = bytes(self._bytes[: HEADER.size])
        magic, schema, abi, count, reserved, length, records, names, written_for, check = HEADER.unpack(head)
        if magic != MAGIC:
            raise self._damaged("it is no archive of images")
        if schema not in _KNOWN_SCHEMAS:
            raise ImageFormatError(
                f"{self.name}: written in schema {schema}; this version reads schemas up to {SCHEMA}"
            )
        if digest(head[:-32]) != check:
            raise self._damaged("its header is damaged")
        if length != size:
            raise self._damaged(f"it holds {size} bytes instead of {length}")
        if records + count * RECORD.size > size or names + count * 4 > size:
            raise self._damaged("its tables lie beyond its end")
        name_of_target = written_for.rstrip(b"\0")
        if reserved or any(head[88:96]) or not name_of_target.isascii() or b"\0" in name_of_target:
            raise self._damaged("its header has unknown fields")
        self.launch_abi: int = abi
        self.count: int = count
        self.target: str = name_of_target.decode()
        if target and self.target != target:
            raise self._damaged(f"is for {self.target}, not for {target}")
        self.tie: tuple[bytes, ...] = () if schema == 1 else (name_of_target,)
        self._records: int = records
        self._names: int = names

    def find_named(self, module: str, qualname: str, signature: str, most: int | None = None) -> list[Record]:
        """The records of one overload by its name, in every option set and index width.

        Args:
            module, qualname, signature: the name.
            most: so many of them if there are more.

        Raises:
            ImageFormatError: a record is damaged.
        """
        key = name_key(module, qualname, signature)
        return self._collect(key, self._number_of_name, 32, most)

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
        return Record(self, self._records + number * RECORD.size)

    def _collect(
        self, key: bytes, number_of: Callable[[int], int], field: int, most: int | None = None
    ) -> list[Record]:
        """The records whose 32 bytes at ``field`` equal ``key``, in a table sorted by that."""
        place = find_place(key, self.count, lambda place: self._key_at(number_of(place), field))
        found: list[Record] = []
        while place < self.count and len(found) != most:
            number = number_of(place)
            if self._key_at(number, field) != key:
                break
            found.append(self.record(number))
            place += 1
        return found

    def _key_at(self, number: int, field: int) -> bytes:
        at = self._records + number * RECORD.size + field
        return bytes(self._bytes[at : at + 32])

    def _number_of_name(self, place: int) -> int:
        number = self._number(_U32, self._names + place * 4)
        if number >= self.count:
            raise self._damaged("a record number beyond its table")
        return number

    def piece(self, offset: int, length: int) -> bytes | memoryview:
        """Some of its bytes, not copied where it is mapped; raises ImageFormatError where they lie outside the file."""
        if offset + length > len(self._bytes):
            raise self._damaged("a description beyond its end")
        return self._bytes[offset : offset + length]

    def read_description(self, packed: bytes | memoryview) -> Any:
        """What a description says.

        Raises:
            ImageFormatError: it is damaged, or says more than a file of this size should.
        """
        try:
            return unpack(packed, room_for(packed, len(self._bytes)))
        except ImageFormatError as error:
            raise self._damaged(str(error)) from None

    def recall(self, at: int) -> Details:
        """What the details of the record at a place say: unpacked anew unless they were among the last."""
        fields = self._memo.get(at)
        if fields is None:
            packed = self.piece(self._number(_U64, at + 144), self._number(_U32, at + 152))
            fields = self.read_description(packed)
            if len(self._memo) >= _MEMO or len(packed) > _SHORT:
                self._memo.clear()
            self._memo[at] = fields
        return fields

    def _number(self, form: struct.Struct, at: int) -> int:
        number: int = form.unpack(self._bytes[at : at + form.size])[0]
        return number

    def data(self, offset: int, length: int, check: bytes) -> bytes | memoryview:
        """An image's bytes. In a map they are not copied, and their digest is compared once per process."""
        if length == 0 or offset + length > len(self._bytes):
            raise self._damaged("an image beyond its end")
        data = self._bytes[offset : offset + length]
        place = (offset, length, check)
        if place not in self._verified:
            if digest(data) != check:
                raise self._damaged("the bytes of an image are damaged")
            if isinstance(data, memoryview):  # what is read again is compared again
                self._verified.add(place)
        return data

    def _damaged(self, what: str) -> ImageFormatError:
        return ImageFormatError(f"{self.name}: {what}")

    def __repr__(self) -> str:
        return f"<Archive {self.name} {self.target} {self.count} images>"


def _same(place: int) -> int:
    return place


def _map(path: str) -> mmap.mmap | bytes:
    with open(path, "rb") as stream:
        import mmap  # an extension module; the segments of a cache do not need it

        try:
            return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:  # an empty file cannot be mapped
            return b""


#: Reads at a place of an open file; missing on Windows, where nobody can take an open file away.
_pread: Callable[[int, int, int], bytes] | None = getattr(os, "pread", None)


class _OpenFile:
    """A file that is read by slices, in place of a map of it; reading raises OSError where it is not there any more."""

    __slots__ = ("_descriptor", "_path", "_size")

    def __init__(self, path: str, opener: Callable[[str, int], int]) -> None:
        self._path = path
        self._descriptor = -1
        with open(path, "rb", buffering=0, opener=opener) as stream:
            self._descriptor = os.dup(stream.fileno())
        self._size = os.fstat(self._descriptor).st_size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, place: slice) -> bytes:
        at, end, _ = place.indices(self._size)
        pieces = []
        while at < end:
            # An OSError is no damage: another computer took the file away, a file server does not answer.
            piece = os.pread(self._descriptor, end - at, at)
            if not piece:
                raise ImageFormatError(f"{self._path}: it was cut off while it was read")
            pieces.append(piece)
            at += len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def __del__(self, close: Callable[[int], None] = os.close) -> None:
        if self._descriptor >= 0:
            close(self._descriptor)


class Record:
    """One image of an archive, as far as its fixed fields and its description tell.

    Its digest was compared, and its description found to be of the kinds that are written, when it was made. It holds
    nothing but its place: there may be thousands of records of one name.
    """

    __slots__ = ("_archive", "_at")

    def __init__(self, archive: Archive, at: int) -> None:
        self._archive = archive
        self._at = at
        raw = bytes(archive.piece(at, RECORD.size))
        (
            _, name, _, own, _, _, details_at, details_size, checks_size, checks_at, extra_at, extra_size, abi, _,
            width, kind,
        ) = RECORD.unpack(raw)  # fmt: skip
        details = archive.piece(details_at, details_size)
        checks = archive.piece(checks_at, checks_size)
        extra = archive.piece(extra_at, extra_size)
        if record_digest(raw, details, checks, extra, *archive.tie) != own:
            raise ImageFormatError(f"{archive.name}: the record of an image is damaged")
        fields = self._fields
        known = width in (32, 64) and kind < len(KINDS) and not raw[-1]
        if not known or not is_description(fields, KINDS[kind], abi):
            raise ImageFormatError(f"{archive.name}: the record of an image has unknown fields")
        if name != name_key(*fields[:3]):
            raise ImageFormatError(f"{archive.name}: the record of an image belongs to another name")

    def _number(self, form: struct.Struct, offset: int) -> int:
        return self._archive._number(form, self._at + offset)

    def _piece(self, offset: int, length: int) -> bytes | memoryview:
        """What the record points to: by the places of an offset and a length in it."""
        return self._archive.piece(self._number(_U64, offset), self._number(_U32, length))

    @property
    def fingerprint(self) -> bytes:
        return bytes(self._archive.piece(self._at, 32))

    @property
    def data_digest(self) -> bytes:
        """Of the image's bytes."""
        return bytes(self._archive.piece(self._at + 64, 32))

    @property
    def size(self) -> int:
        """Of the image, in bytes."""
        return self._number(_U64, 136)

    @property
    def launch_abi(self) -> int:
        return self._number(_U32, 180)

    @property
    def minimum_driver(self) -> int:
        """As ``cuDriverGetVersion`` counts."""
        return self._number(_U32, 184)

    @property
    def index_width(self) -> int:
        return self._number(_U16, 188)

    @property
    def kind(self) -> str:
        return KINDS[self._number(_U8, 190)]

    @property
    def _fields(self) -> Details:
        return self._archive.recall(self._at)

    @property
    def module(self) -> str:
        return self._fields[0]

    @property
    def qualname(self) -> str:
        return self._fields[1]

    @property
    def signature(self) -> str:
        return self._fields[2]

    @property
    def options(self) -> dict[str, Any]:
        """The options that differ from their defaults."""
        return self._fields[3]

    @property
    def symbol(self) -> str:
        return self._fields[4]

    @property
    def attributes(self) -> dict[str, Any]:
        return self._fields[5]

    @property
    def key(self) -> bytes:
        """The image key; b"" where none was made."""
        return self._fields[6]

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
        names = self.attributes.get("decorated", ())
        return names if isinstance(names, tuple) else ()  # another launch ABI may keep something else there

    def read_checks(self) -> tuple[Check, ...]:
        """What a live kernel is compared to.

        Raises:
            ImageFormatError: they are damaged.
        """
        checks = self._archive.read_description(self._piece(160, 156))
        if not isinstance(checks, tuple) or not all(map(_is_check, checks)):
            raise ImageFormatError(f"{self._archive.name}: the checks of an image have unknown fields")
        return tuple(Check(*check) for check in checks)

    def read_extra(self) -> tuple[dict[str, str], tuple[tuple[str, str], ...]]:
        """Toolchain, and the parts of the fingerprint.

        Raises:
            ImageFormatError: they are damaged.
        """
        extra = self._archive.read_description(self._piece(168, 176))
        if not _is_extra(extra):
            raise ImageFormatError(f"{self._archive.name}: the toolchain of an image has unknown fields")
        toolchain, parts = extra
        return toolchain, parts

    def load_image(self, origin: str, with_checks: bool = False) -> KernelImage:
        """The image, its bytes verified and not copied.

        Args:
            origin: ``shipped`` or ``cached``.
            with_checks: whether to read the checks too, and what a launch never reads: for writing the image elsewhere.

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
            data=self._archive.data(self._number(_U64, 128), self.size, bytes(self._archive.piece(self._at + 64, 32))),
            launch_abi=self.launch_abi,
            attributes=attributes,
            origin=origin,
            key=self.key,
            checks=self.read_checks() if with_checks else (),
        )
        image.set_extra(self.read_extra)
        if with_checks:
            image.read_extra()
        return image

    def __repr__(self) -> str:
        return f"<Record {self.module}:{self.qualname}({self.signature}) {self.target} index={self.index_width}>"


_SCALARS = (type(None), bool, int, float, str)


def is_description(fields: object, kind: str, launch_abi: int) -> bool:
    """Whether details are of the kinds that are written; who reads them relies on it.

    What a GPU's launch reads of the attributes is compared for the launch ABIs that this version knows; others may have
    others.
    """
    if not isinstance(fields, tuple) or len(fields) != 7:
        return False
    module, qualname, signature, options, symbol, attributes, key = fields
    return (
        all(isinstance(text, str) for text in (module, qualname, signature, symbol))
        and isinstance(options, dict)
        and isinstance(attributes, dict)
        and isinstance(key, bytes)
        and len(key) in (0, 32)
        and all(map(_is_plain, options.values()))
        and all(map(_is_plain, attributes.values()))
        and (kind == "object" or launch_abi not in KNOWN_LAUNCH_ABIS or _are_attributes(attributes, options))
    )


def _is_plain(value: object) -> bool:
    return isinstance(value, _SCALARS) or (isinstance(value, tuple) and all(map(_is_plain, value)))


def _are_attributes(attributes: dict[str, Any], options: dict[str, Any]) -> bool:
    if ("exceptions" in attributes) != bool(options.get("debug")):  # the block's last field, and what is told of it
        return False
    sites, decorated = attributes.get("exceptions", ()), attributes.get("decorated", ())
    return (
        isinstance(sites, tuple)
        and all(map(_is_site, sites))
        and isinstance(decorated, tuple)
        and all(isinstance(option, str) for option in decorated)
        and isinstance(attributes.get("shared_bytes", 0), int)
    )


def _is_site(site: object) -> bool:
    return isinstance(site, tuple) and tuple(map(type, site)) == (str, str, str, int)


def _is_check(check: object) -> bool:
    if not isinstance(check, tuple) or tuple(map(type, check)) != (str, bytes, tuple):
        return False
    return all(map(_is_pair, check[2]))


def _is_extra(extra: object) -> bool:
    if not isinstance(extra, tuple) or tuple(map(type, extra)) != (dict, tuple):
        return False
    toolchain, parts = extra
    return all(isinstance(version, str) for version in toolchain.values()) and all(map(_is_pair, parts))


def _is_pair(pair: object) -> bool:
    return isinstance(pair, tuple) and tuple(map(type, pair)) == (str, str)
