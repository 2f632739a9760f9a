# SPDX-License-Identifier: Apache-2.0
"""A second writer of archives and of cache indexes, made after the rooms' READMEs alone, gives the same bytes."""

from __future__ import annotations

import hashlib
import struct
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from image_making import make_image

from cudabuild.cache.index import Entry, format_index
from cudabuild.fingerprint import Check
from cudabuild.image.image import KernelImage
from cudabuild.image.write import archive_pieces


def digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=32).digest()


def digest_of_parts(*parts: bytes) -> bytes:
    return digest(b"".join(struct.pack("<Q", len(part)) + part for part in parts))


def encode(value: Any) -> bytes:
    if value is None or isinstance(value, bool):
        return {None: b"n", True: b"t", False: b"f"}[value]
    if isinstance(value, int):
        return b"i" + struct.pack("<q", value)
    if isinstance(value, float):
        return b"d" + struct.pack("<d", value)
    if isinstance(value, (str, bytes)):
        data = value.encode("utf-8") if isinstance(value, str) else value
        return (b"s" if isinstance(value, str) else b"b") + struct.pack("<I", len(data)) + data
    if isinstance(value, tuple):
        return b"(" + struct.pack("<I", len(value)) + b"".join(map(encode, value))
    items = sorted(value.items(), key=lambda item: [ord(letter) for letter in item[0]])
    return b"{" + struct.pack("<I", len(items)) + b"".join(encode(key) + encode(item) for key, item in items)


def write(images: list[KernelImage], target: str, driver: int) -> bytes:
    """After ``image/README.md``."""

    def order(image: KernelImage) -> tuple[Any, ...]:
        options = repr(sorted(image.options.items()))
        return image.module, image.qualname, image.signature, options, image.index_width, image.fingerprint, image.key

    ordered = sorted(images, key=order)
    end = 128 + len(images) * (192 + 4)
    body, places, records = b"", {}, []
    pieces: list[tuple[bytes, bytes, bytes]] = []

    def place(piece: bytes, kind: str, align: int = 1) -> int:
        nonlocal body
        if (kind, piece) not in places:
            body += bytes(-(end + len(body)) % align)
            places[kind, piece] = end + len(body)
            body += piece
        return places[kind, piece]

    for image in ordered:
        details = encode((image.module, image.qualname, image.signature, image.options, image.symbol,
                          image.attributes, image.key))  # fmt: skip
        checks = encode(tuple((check.label, check.source, check.values) for check in image.checks))
        pieces.append((details, checks, encode((image.toolchain, image.parts))))
        for piece in pieces[-1]:
            place(piece, "description")
    for image in ordered:
        place(bytes(image.data), "image", 64)
    for image, (details, checks, extra) in zip(ordered, pieces, strict=True):
        name = digest_of_parts(image.module.encode(), image.qualname.encode(), image.signature.encode())
        first = image.fingerprint + name + digest(bytes(image.data))
        last = struct.pack(
            "<QQQIIQQIIIHBB",
            place(bytes(image.data), "image", 64), len(image.data), place(details, "description"), len(details),
            len(checks), place(checks, "description"), place(extra, "description"), len(extra), image.launch_abi,
            driver, image.index_width, ("cubin", "ptx", "object").index(image.kind), 0,
        )  # fmt: skip
        records.append(first + digest_of_parts(first, last, details, checks, extra, target.encode()) + last)
    by_fingerprint = sorted(range(len(records)), key=lambda number: records[number][:32])
    by_name = sorted(range(len(records)), key=lambda number: records[number][32:64])
    head = b"\x93CUAR\r\n\x1a" + struct.pack(
        "<IIIIQQQ", 2, max((image.launch_abi for image in images), default=0), len(images), 0, end + len(body), 128,
        128 + 192 * len(images),
    )  # fmt: skip
    head = (head + target.encode()).ljust(96, b"\0")
    table = b"".join(records[number] for number in by_fingerprint)
    names = b"".join(struct.pack("<I", by_fingerprint.index(number)) for number in by_name)
    return head + digest(head) + table + names + body


names = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
few = st.sampled_from([b"\0" * 32, b"\1" * 32, b"\xff" * 32])
plain = st.none() | st.booleans() | st.integers(-9, 2**62) | st.floats(allow_nan=False) | names
checks = st.builds(Check, names, few, st.lists(st.tuples(names, names), max_size=2).map(tuple))
images = st.builds(
    make_image,
    names,
    module=st.sampled_from(["a", "b.c", "é"]),
    signature=st.sampled_from(["", "float32"]),
    fingerprint=few,
    options=st.dictionaries(st.sampled_from(["opt", "fastmath"]), plain, max_size=2),
    kind=st.sampled_from(["cubin", "ptx", "object"]),
    index_width=st.sampled_from([32, 64]),
    data=st.sampled_from([b"x", b"y" * 64, b"z" * 65]),
    launch_abi=st.integers(1, 3),
    attributes=st.dictionaries(names.filter(lambda name: name != "exceptions"), st.integers(0, 9), max_size=2),
    key=st.binary(min_size=32, max_size=32),
    checks=st.lists(checks, max_size=2),
    parts=st.lists(st.tuples(names, names), max_size=2),
)


@settings(max_examples=80, deadline=None)
@given(st.lists(images, max_size=6, unique_by=lambda image: image.key))
def test_archives_are_written_as_specified(written: list[KernelImage]) -> None:
    assert b"".join(map(bytes, archive_pieces(written, "sm_90"))) == write(written, "sm_90", driver=12000)


entries = st.builds(
    Entry, st.binary(min_size=32, max_size=32), few, few, st.integers(0, 9), st.integers(0, 5), st.integers(0, 9)
)


@given(st.lists(entries, max_size=8, unique_by=lambda entry: entry.key))
def test_indexes_are_written_as_specified(written: list[Entry]) -> None:
    """After ``cache/README.md``."""
    ordered = sorted(written, key=lambda entry: entry.key)
    segments = sorted({entry.segment for entry in written})
    body = b"".join(struct.pack("<Q", segment) for segment in segments)
    for entry in ordered:
        place = struct.pack("<QII", entry.sequence, segments.index(entry.segment), entry.number)
        body += entry.key + entry.name + entry.fingerprint + place
    for field in ("name", "fingerprint"):
        numbers = sorted(range(len(ordered)), key=lambda number: getattr(ordered[number], field))
        body += b"".join(struct.pack("<I", number) for number in numbers)
    head = b"\x93CUIX\r\n\x1a" + struct.pack("<IIII", 1, len(segments), len(ordered), 0)
    assert format_index(written) == head + digest(head + body) + body
