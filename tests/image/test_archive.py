# SPDX-License-Identifier: Apache-2.0
"""Archives: round trip, reproducible bytes, the documented layout, damage."""

from __future__ import annotations

import contextlib
import errno
import gc
import mmap
import os
import random
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_making import make_image, repair_archive

from cudabuild.digest import digest, digest_parts
from cudabuild.errors import ImageFormatError
from cudabuild.fingerprint import Check
from cudabuild.image.archive import HEADER, RECORD, Archive, name_key, write_archive
from cudabuild.image.codec import pack
from cudabuild.image.image import LAUNCH_ABI, KernelImage
from cudabuild.image.write import archive_pieces

FIELDS = [
    "module", "qualname", "signature", "fingerprint", "options", "kind", "target", "index_width", "symbol",
    "launch_abi", "toolchain", "key", "checks", "parts",
]  # fmt: skip

names = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
options = st.dictionaries(
    st.sampled_from(["fastmath", "opt", "launch_bounds", "max_registers"]),
    st.booleans() | st.integers(0, 255) | st.tuples(st.integers(1, 1024), st.integers(1, 32)),
)
checks = st.builds(
    Check, names, st.binary(min_size=32, max_size=32), st.lists(st.tuples(names, names), max_size=3).map(tuple)
)
images = st.builds(
    KernelImage,
    module=names,
    qualname=names,
    signature=names,
    fingerprint=st.binary(min_size=32, max_size=32),
    options=options,
    kind=st.sampled_from(["cubin", "ptx", "object"]),
    target=st.just("sm_90a"),
    index_width=st.sampled_from([32, 64]),
    symbol=names,
    data=st.binary(min_size=1, max_size=200),
    launch_abi=st.integers(1, 3),
    attributes=st.dictionaries(names, st.integers(0, 99) | st.booleans() | names, max_size=3),
    toolchain=st.dictionaries(names, names, max_size=3),
    key=st.binary(min_size=32, max_size=32),
    checks=st.lists(checks, max_size=3),
    parts=st.lists(st.tuples(names, names), max_size=3),
)


def facts(image: KernelImage) -> dict[str, Any]:
    found = {field: getattr(image, field) for field in FIELDS} | {"data": bytes(image.data)}
    return {key: dict(sorted(value.items())) if isinstance(value, dict) else value for key, value in found.items()}


def read_bytes(path: Path) -> bytes:
    return path.read_bytes()


@settings(max_examples=60, deadline=None)
@given(st.lists(images, max_size=8, unique_by=lambda image: image.key), st.randoms(use_true_random=False))
def test_images_round_trip_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, written: list[KernelImage], shuffle: random.Random
) -> None:
    path = tmp_path_factory.mktemp("a") / "a.cuar"
    size = write_archive(path, written, "sm_90a")
    data = read_bytes(path)
    assert len(data) == size
    mixed = list(written)
    shuffle.shuffle(mixed)
    write_archive(path, mixed, "sm_90a")
    assert read_bytes(path) == data
    for archive in (Archive(str(path)), Archive(data)):
        assert (archive.target, archive.count) == ("sm_90a", len(written))
        assert archive.launch_abi == max((image.launch_abi for image in written), default=0)
        read = [record.load_image("shipped", with_checks=True) for record in archive.records()]
        assert sorted(map(repr, map(facts, read))) == sorted(map(repr, map(facts, written)))
        for image in written:
            named = archive.find_named(image.module, image.qualname, image.signature)
            printed = archive.find_fingerprint(image.fingerprint)
            for found in (named, printed):
                matching = [
                    record.load_image("shipped", with_checks=True) for record in found if record.key == image.key
                ]
                assert [facts(one) for one in matching] == [facts(image)]
                assert matching[0].attributes == {**image.attributes, "minimum_driver": 12000}


def test_finding_among_many(tmp_path: Path) -> None:
    written = [make_image(f"k{number}", index_width=width) for number in range(300) for width in (32, 64)]
    write_archive(tmp_path / "a.cuar", written, "sm_90")
    archive = Archive(str(tmp_path / "a.cuar"))
    for number in range(300):
        found = archive.find_named("package.module", f"k{number}", "float32, float32[::1]")
        assert [(record.qualname, record.index_width) for record in found] == [(f"k{number}", 32), (f"k{number}", 64)]
        assert [record.index_width for record in archive.find_fingerprint(digest(f"k{number}".encode()))] == [32, 64]
    assert archive.find_named("package.module", "k300", "float32, float32[::1]") == []
    assert archive.find_named("package.module", "k1", "float32") == []
    assert archive.find_fingerprint(bytes(32)) == archive.find_fingerprint(b"\xff" * 32) == []


def test_images_are_aligned_shared_and_not_copied(tmp_path: Path) -> None:
    written = [make_image("a", data=b"same"), make_image("b", data=b"same"), make_image("c", data=b"other")]
    size = write_archive(tmp_path / "a.cuar", written, "sm_90")
    archive = Archive(str(tmp_path / "a.cuar"))
    data = read_bytes(tmp_path / "a.cuar")
    assert data.count(b"same") == 1
    assert data.index(b"same") % 64 == data.index(b"other") % 64 == 0
    image = archive.find_fingerprint(digest(b"a"))[0].load_image("shipped")
    assert isinstance(image.data, memoryview)
    assert image.data.readonly
    assert image.source == "shipped cubin sm_90"
    assert len(data) == size


def test_the_layout_is_the_documented_one(tmp_path: Path) -> None:
    """Reads an archive by the numbers in the room's README, without the reader."""
    image = make_image("kernel", attributes={"registers": 7, "minimum_driver": 12345}, index_width=64)
    write_archive(tmp_path / "a.cuar", [image], "sm_90")
    data = read_bytes(tmp_path / "a.cuar")
    assert data[:8] == b"\x93CUAR\r\n\x1a"
    schema, abi, count, reserved, length, records, names_at = struct.unpack_from("<IIIIQQQ", data, 8)
    assert (schema, abi, count, reserved, length, records, names_at) == (2, LAUNCH_ABI, 1, 0, len(data), 128, 128 + 192)
    assert data[48:96] == b"sm_90".ljust(48, b"\0")
    assert data[96:128] == digest(data[:96])
    record = data[128:320]
    assert record[0:32] == image.fingerprint
    assert record[32:64] == name_key("package.module", "kernel", "float32, float32[::1]")
    assert record[32:64] == digest_parts(b"package.module", b"kernel", b"float32, float32[::1]")
    at, size, details, details_size, checks_size, checks_at, extra, extra_size = struct.unpack_from(
        "<QQQIIQQI", record, 128
    )
    assert data[at : at + size] == image.data
    assert record[64:96] == digest(image.data)
    pieces = [data[details : details + details_size], data[checks_at : checks_at + checks_size]]
    pieces.append(data[extra : extra + extra_size])
    assert record[96:128] == digest_parts(record[:96], record[128:], *pieces, b"sm_90")
    assert struct.unpack_from("<IIHBx", record, 180) == (LAUNCH_ABI, 12345, 64, 0)
    assert data[320:324] == b"\0\0\0\0"
    assert pieces[0].startswith(b"(\x07\0\0\0s\x0e\0\0\0package.modules\x06\0\0\0kernel")
    assert (HEADER.size, RECORD.size) == (128, 192)


@pytest.mark.parametrize(
    ("written", "target", "message"),
    [
        ([make_image(), make_image()], "sm_90", "is there twice"),
        ([make_image(target="sm_80")], "sm_90", "does not belong in an archive for sm_90"),
        ([make_image(data=b"")], "sm_90", "is empty"),
        ([], "nonsense", "is no target's name"),
    ],
)
def test_what_is_not_written(tmp_path: Path, written: list[KernelImage], target: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        write_archive(tmp_path / "a.cuar", written, target)
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "a.cuar"
    write_archive(path, [make_image("old")], "sm_90")
    before = read_bytes(path)

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="No space"):
        write_archive(path, [make_image("new")], "sm_90")
    assert read_bytes(path) == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.cuar"]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "a.cuar"
    write_archive(path, [make_image(f"k{n}", index_width=w) for n in range(5) for w in (32, 64)], "sm_90")
    return path.read_bytes()


def look_at_everything(data: bytes) -> list[KernelImage]:
    """Every way in: what is found must be what was asked for."""
    archive = Archive(data, "damaged.cuar")
    found = []
    for number in range(5):
        for records in (
            archive.find_named("package.module", f"k{number}", "float32, float32[::1]"),
            archive.find_fingerprint(digest(f"k{number}".encode())),
        ):
            for record in records:
                image = record.load_image("shipped", with_checks=True)
                assert image.qualname == f"k{number}"
                assert image.parts
                found.append(image)
    return found


def expect_right_or_refused(data: bytes) -> None:
    try:
        found = look_at_everything(data)
    except ImageFormatError as error:
        assert str(error).startswith("damaged.cuar: ")  # noqa: PT017
        return
    for image in found:
        expected = make_image(image.qualname, index_width=image.index_width)
        assert facts(image) == facts(expected)


@pytest.mark.parametrize("length", [0, 1, 7, 8, 100, 127, 128, 300, -100, -1])
def test_cut_off_files(whole: bytes, length: int) -> None:
    with pytest.raises(ImageFormatError, match=r"damaged\.cuar: "):
        look_at_everything(whole[:length])


def test_an_empty_file_on_disk(tmp_path: Path) -> None:
    (tmp_path / "a.cuar").write_bytes(b"")
    with pytest.raises(ImageFormatError, match=r"a\.cuar: it was cut off"):
        Archive(str(tmp_path / "a.cuar"))


def test_another_schema_says_so(whole: bytes) -> None:
    head = bytearray(whole)
    head[8] = 3
    with pytest.raises(ImageFormatError, match="written in schema 3; this version reads schemas up to 2"):
        Archive(bytes(head), "a.cuar")


def test_the_first_schema_is_read(whole: bytes) -> None:
    """Its records' digests do not cover the target; all else is the same."""
    first = bytearray(whole)
    first[8] = 1
    records = list(Archive(repair_archive(first), "a.cuar").records())
    assert [facts(record.load_image("shipped")) for record in records] == [
        facts(record.load_image("shipped")) for record in Archive(whole, "a.cuar").records()
    ]


def test_the_header_of_one_target_before_the_rest_of_another_is_damage(tmp_path: Path) -> None:
    for target in ("sm_80", "sm_90"):
        write_archive(tmp_path / f"{target}.cuar", [make_image("kernel", target=target)], target)
    older, newer = ((tmp_path / f"{target}.cuar").read_bytes() for target in ("sm_80", "sm_90"))
    assert len(older) == len(newer)
    archive = Archive(newer[:128] + older[128:], "sm_90.cuar", target="sm_90")
    with pytest.raises(ImageFormatError, match="the record of an image is damaged"):
        list(archive.records())


def test_single_bit_flips(whole: bytes) -> None:
    rng = random.Random(7)
    places = [*range(128 + 192), *(rng.randrange(len(whole)) for _ in range(1500))]
    for place in places:
        damaged = bytearray(whole)
        damaged[place] ^= 1 << rng.randrange(8)
        expect_right_or_refused(bytes(damaged))


def test_lying_numbers_with_a_right_header_digest(whole: bytes) -> None:
    """A header that was made to lie: offsets and counts are bounded all the same."""
    for field, value in [
        (16, 2**32 - 1),
        (16, 11),
        (32, 2**63),
        (32, 2**64 - 1),
        (40, 2**64 - 8),
        (40, len(whole) - 3),
    ]:
        head = bytearray(whole[:96])
        struct.pack_into("<I" if field == 16 else "<Q", head, field, value)
        with pytest.raises(ImageFormatError):
            look_at_everything(bytes(head) + digest(bytes(head)) + whole[128:])


def forge(written: KernelImage, *changes: tuple[int, str, int], details: Any = None) -> bytes:
    """An archive of one image whose record says something else, under right digests.

    Args:
        written: the image.
        changes: offset in the record, ``struct`` format, and value of what is changed.
        details: what its details say instead.
    """
    (header, *pieces) = archive_pieces([written], "sm_90")
    data = bytearray(header + b"".join(bytes(piece) for piece in pieces))
    for at, form, value in changes:
        struct.pack_into(form, data, 128 + at, value)
    if details is not None:
        packed = pack(details)
        struct.pack_into("<QI", data, 128 + 144, len(data), len(packed))
        data += packed
        struct.pack_into("<Q", data, 24, len(data))
    return repair_archive(data)


def fields_of(image: KernelImage, **changes: Any) -> tuple[Any, ...]:
    names = ("module", "qualname", "signature", "options", "symbol", "attributes", "key")
    return tuple(changes.get(name, getattr(image, name)) for name in names)


SITE = ("builtins:ValueError", "no", "", 3)


@pytest.mark.parametrize(
    ("changes", "details"),
    [
        ([(188, "<H", 16)], {}),
        ([(190, "<B", 3)], {}),
        ([(191, "<B", 1)], {}),
        ([], {"module": 5}),
        ([], {"qualname": None}),
        ([], {"signature": b"float32"}),
        ([], {"symbol": ("k",)}),
        ([], {"options": ()}),
        ([], {"options": {"opt": {}}}),
        ([], {"attributes": None}),
        ([], {"attributes": {"registers": b"16"}}),
        ([], {"attributes": {"shared_bytes": "many"}}),
        ([], {"attributes": {"decorated": "opt"}}),
        ([], {"attributes": {"decorated": (1,)}}),
        ([], {"attributes": {"exceptions": ()}}),
        ([], {"options": {"debug": True}}),
        ([], {"options": {"debug": True}, "attributes": {"exceptions": None}}),
        ([], {"options": {"debug": True}, "attributes": {"exceptions": (SITE[:3],)}}),
        ([], {"options": {"debug": True}, "attributes": {"exceptions": ((*SITE[:3], "3"),)}}),
        ([], {"key": b"short"}),
        ([], {"key": "k" * 32}),
    ],
)
def test_a_record_of_other_kinds_of_values_is_refused(changes: Any, details: dict[str, Any]) -> None:
    """Whoever asks a record for its attributes gets what a writer may put there, whoever wrote the file."""
    image = make_image()
    data = forge(image, *changes, details=fields_of(image, **details) if details else None)
    with pytest.raises(ImageFormatError, match=r"unknown fields"):
        Archive(data, "a.cuar").record(0)
    known = {"symbol", "key"} | {name for name in ("options", "attributes") if isinstance(details.get(name), dict)}
    if details and set(details) <= known:
        with pytest.raises(ValueError, match=r"of a kind that no image has"):
            list(archive_pieces([make_image(**{"attributes": {}, **details})], "sm_90"))


def test_the_kinds_of_values_that_are_written() -> None:
    image = make_image()
    fields = fields_of(image, options={"debug": True}, attributes={"exceptions": (SITE, SITE), "decorated": ("debug",)})
    (record,) = Archive(forge(image, details=fields)).records()
    assert record.attributes["exceptions"] == (SITE, SITE)
    others = {"exceptions": 5, "decorated": 6}
    foreign = forge(image, (180, "<I", 99), details=fields_of(image, attributes=others))
    (record,) = Archive(foreign).records()
    assert (record.launch_abi, record.attributes) == (99, others), "another launch ABI may have others"
    assert record.decorated == ()
    for details in (fields[:6], (*fields, 1), list(fields) * 2, 5):
        with pytest.raises(ImageFormatError, match="unknown fields"):
            Archive(forge(image, details=details)).record(0)


def test_checks_and_extra_of_other_kinds_are_refused() -> None:
    image = make_image()
    for at, length_at, read in ((160, 156, "read_checks"), (168, 176, "read_extra")):
        for lie in (5, (), ((),), (("", b"", (("N",),)),), ({"llvm": 22}, ()), ({}, (("N", 4),))):
            data = bytearray(forge(image))
            packed = pack(lie)
            struct.pack_into("<Q", data, 128 + at, len(data))
            struct.pack_into("<I", data, 128 + length_at, len(packed))
            data += packed
            struct.pack_into("<Q", data, 24, len(data))
            record = Archive(repair_archive(data), "a.cuar").record(0)
            if lie == () and read == "read_checks":
                assert record.read_checks() == ()
                continue
            with pytest.raises(ImageFormatError, match=r"a\.cuar: the .* of an image ha(s|ve) unknown fields"):
                getattr(record, read)()


def test_one_digest_does_not_vouch_for_another(tmp_path: Path) -> None:
    """Two records that point to one place: the bytes are compared with the digest of each."""
    write_archive(tmp_path / "a.cuar", [make_image("a", data=b"same"), make_image("b", data=b"same")], "sm_90")
    data = bytearray(read_bytes(tmp_path / "a.cuar"))
    forged = bytearray(repair_archive(bytearray(data)))
    assert bytes(forged) == bytes(data)
    forged[128 + 192 + 64] ^= 1
    at = 128 + 192
    pieces = [struct.unpack_from("<Q", forged, at + o)[0] for o in (144, 160, 168)]
    sizes = [struct.unpack_from("<I", forged, at + o)[0] for o in (152, 156, 176)]
    told = [bytes(forged[place : place + size]) for place, size in zip(pieces, sizes, strict=True)]
    raw = bytes(forged[at : at + 192])
    forged[at + 96 : at + 128] = digest_parts(raw[:96], raw[128:], *told, b"sm_90")
    archive = Archive(bytes(forged), "a.cuar")
    sound, lying = archive.records()
    assert bytes(sound.load_image("shipped").data) == b"same"
    with pytest.raises(ImageFormatError, match="the bytes of an image are damaged"):
        lying.load_image("shipped")


def test_an_archive_in_the_place_of_another(whole: bytes) -> None:
    assert Archive(whole, "sm_90.cuar", target="sm_90").count == 10
    with pytest.raises(ImageFormatError, match=r"sm_80\.cuar: is for sm_90, not for sm_80"):
        Archive(whole, "sm_80.cuar", target="sm_80")


@pytest.mark.parametrize("at", [20, 50, 88, 95])
def test_what_is_reserved_is_zero(whole: bytes, at: int) -> None:
    head = bytearray(whole[:96])
    head[at] = 0 if at == 50 else 1
    with pytest.raises(ImageFormatError, match="its header has unknown fields"):
        Archive(bytes(head) + digest(bytes(head)) + whole[128:])


def with_free_values(count: int) -> KernelImage:
    values = tuple((f"helper_{n}/CONSTANT_{n}", f"a value of some length {n}") for n in range(count))
    checks = tuple(Check(f"helper_{n}", digest(b"source"), values[n : n + 7]) for n in range(0, count, 7))
    return make_image(parts=values, checks=checks, data=b"code" * 16_000)


def test_a_kernel_of_thousands_of_free_values_is_kept(tmp_path: Path) -> None:
    written = with_free_values(3000)
    write_archive(tmp_path / "a.cuar", [written], "sm_90")
    data = read_bytes(tmp_path / "a.cuar")
    tracemalloc.start()
    (record,) = Archive(data).records()
    found = record.load_image("shipped", with_checks=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert facts(found) == facts(written)
    assert peak <= 2 * (len(data) + (1 << 20)), "checks and parts at once, each within what is promised"


def test_what_no_reader_would_take_is_not_written(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"cannot be kept in an archive: .* stands for more than its length allows"):
        write_archive(tmp_path / "a.cuar", [with_free_values(20_000)], "sm_90")
    assert list(tmp_path.iterdir()) == []


def test_thousands_of_records_of_one_name_take_less_than_the_file(tmp_path: Path) -> None:
    written = [make_image(key=digest(b"%d" % n), symbol=f"s{n}") for n in range(3000)]
    write_archive(tmp_path / "a.cuar", written, "sm_90")
    data = read_bytes(tmp_path / "a.cuar")
    tracemalloc.start()
    found = Archive(data).find_named("package.module", "k", "float32, float32[::1]")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(found) == 3000
    assert peak < len(data) // 2


def test_halves_of_two_generations(whole: bytes, tmp_path: Path) -> None:
    write_archive(tmp_path / "a.cuar", [make_image(f"k{n}", data=b"other" * 40) for n in range(10)], "sm_90")
    other = read_bytes(tmp_path / "a.cuar")
    for cut in range(128, min(len(whole), len(other)), 97):
        expect_right_or_refused(whole[:cut] + other[cut:])
        expect_right_or_refused((other[:cut] + whole[cut:])[: len(other)])


def test_image_bytes_are_compared_once_per_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(tmp_path / "a.cuar", [make_image()], "sm_90")
    archive = Archive(str(tmp_path / "a.cuar"))
    archive.find_fingerprint(digest(b"k"))[0].load_image("shipped")

    def fail(_: object) -> bytes:
        raise AssertionError("compared again")

    monkeypatch.setattr("cudabuild.image.archive.digest", fail)
    archive.find_fingerprint(digest(b"k"))[0].load_image("shipped")
    with pytest.raises(AssertionError, match="compared again"):
        archive.data(128, 8, bytes(32))


def test_an_archive_is_opened_once_by_one_map(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(tmp_path / "a.cuar", [make_image(f"k{n}") for n in range(20)], "sm_90")
    calls: list[str] = []

    def counted(name: str, real: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return real(*args, **kwargs)

        return call

    monkeypatch.setattr("builtins.open", counted("open", open))
    monkeypatch.setattr("os.read", counted("read", os.read))
    monkeypatch.setattr("os.pread", counted("pread", os.pread), raising=False)
    monkeypatch.setattr("mmap.mmap", counted("mmap", mmap.mmap))
    archive = Archive(str(tmp_path / "a.cuar"))
    images = [record.load_image("shipped") for record in archive.records()]
    assert calls == ["open", "mmap"]
    assert all(isinstance(image.data, memoryview) for image in images)


def opened(path: Path) -> Archive:
    """As the cache opens its files: read by call, not mapped."""
    return Archive(str(path), opener=lambda name, flags: os.open(name, flags))


reads_by_call = pytest.mark.skipif(not hasattr(os, "pread"), reason="this system maps the cache's files too")


def test_a_file_that_is_read_by_call_gives_the_same(tmp_path: Path) -> None:
    written = [make_image(f"k{n}", index_width=width) for n in range(9) for width in (32, 64)]
    write_archive(tmp_path / "a.cuar", written, "sm_90")
    mapped, read = Archive(str(tmp_path / "a.cuar")), opened(tmp_path / "a.cuar")
    for one, other in zip(mapped.records(), read.records(), strict=True):
        assert facts(one.load_image("cached", with_checks=True)) == facts(other.load_image("cached", with_checks=True))
    assert len(read.find_named("package.module", "k3", "float32, float32[::1]")) == 2
    (tmp_path / "a.cuar").unlink()
    assert facts(read.find_fingerprint(digest(b"k3"))[0].load_image("cached")) is not None, "an open file stays"


@reads_by_call
def test_a_file_that_shrinks_while_it_is_open_ends_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_archive(tmp_path / "a.cuar", [make_image("k", data=b"x" * 9000)], "sm_90")
    archive = opened(tmp_path / "a.cuar")
    (record,) = archive.records()
    os.truncate(tmp_path / "a.cuar", 4096)
    with pytest.raises(ImageFormatError, match=r"a\.cuar: it was cut off while it was read"):
        record.load_image("cached")
    os.truncate(tmp_path / "a.cuar", 0)
    with pytest.raises(ImageFormatError, match=r"a\.cuar: it was cut off while it was read"):
        archive.record(0)

    def stale(*_: object) -> bytes:
        raise OSError(errno.ESTALE, os.strerror(errno.ESTALE))

    monkeypatch.setattr("os.pread", stale)
    with pytest.raises(OSError, match="Stale file handle"):  # no damage: it may be readable again
        archive.record(0)


@reads_by_call
def test_what_is_read_by_call_is_compared_each_time(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.cuar", [make_image("k", data=b"x" * 9000)], "sm_90")
    (record,) = opened(tmp_path / "a.cuar").records()
    assert bytes(record.load_image("cached").data) == b"x" * 9000
    with open(tmp_path / "a.cuar", "r+b") as stream:
        stream.seek(-1, os.SEEK_END)
        stream.write(b"y")
    with pytest.raises(ImageFormatError, match="the bytes of an image are damaged"):
        record.load_image("cached")


@pytest.mark.skipif(sys.platform != "linux", reason="counts the entries of /proc/self/fd")
def test_no_descriptor_is_left_open(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.cuar", [make_image()], "sm_90")
    (tmp_path / "b.cuar").write_bytes(b"none")
    gc.collect()  # what other tests have left
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        for path in (tmp_path / "a.cuar", tmp_path / "b.cuar", tmp_path / "c.cuar"):
            with contextlib.suppress(ImageFormatError, FileNotFoundError):
                opened(path).record(0).load_image("cached")
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) == before


def test_opening_and_loading_import_nothing_heavy(tmp_path: Path) -> None:
    write_archive(tmp_path / "a.cuar", [make_image()], "sm_90")
    checkout = str(Path(__file__).resolve().parent.parent.parent)
    code = (
        f"import sys\nsys.path.insert(0, {checkout!r})\nfrom cudabuild.image.archive import Archive\n"
        "import cudabuild.image.provider\n"
        f"record, = Archive({str(tmp_path / 'a.cuar')!r}).find_named('package.module', 'k', 'float32, float32[::1]')\n"
        "assert record.load_image('shipped').symbol.startswith('k_')\n"
        "heavy = {'ast', 'inspect', 'json', 'numpy', 're', 'typing', 'dataclasses', 'hashlib', 'pathlib', 'filelock'}\n"
        "print(sorted(heavy & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=False)
    assert done.stdout == "[]\n", done.stderr
