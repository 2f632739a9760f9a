# SPDX-License-Identifier: Apache-2.0
"""Damaged archives and indexes give the right image or a miss: never a crash, a wrong image, or much memory.

    python3 tests/experiments/mutated_archives.py [--quick] [--count N] [--seed N] [--jobs N]
    python3 tests/experiments/mutated_archives.py --show SEED

Each seed damages one file: an archive, a cache's index, a package's index, a note, or a file of a whole cache or of a
package. Half are accidents (bit flips, bytes, truncation, growth, swapped halves and blocks, pages of zeros, lying
lengths, two generations in one file): what is found then is what was written. The others lie with every digest right
(offsets, lengths, counts, keys, tables, descriptions that are bombs): what is found then is what the file says under
the name that was asked for. Archives and cache indexes lie against a page that may not be read, and images are read as
a driver reads them, by pointer and length. Memory is what Python's allocator gives out, the map not counted.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import mmap
import os
import random
import resource
import struct
import subprocess
import sys
import tempfile
import time
import tracemalloc
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from reporting import CHECKOUT, Report, clean_environment

sys.path[:0] = [str(CHECKOUT), str(CHECKOUT / "tests")]

from image_making import make_image, repair_archive  # noqa: E402
from mutations import damage, forge_archive, forge_index, make_bomb  # noqa: E402

from cudabuild import config  # noqa: E402
from cudabuild.cache.index import Entry, format_index, parse_index  # noqa: E402
from cudabuild.cache.store import Cache  # noqa: E402
from cudabuild.definition import KernelDefinition  # noqa: E402
from cudabuild.digest import digest  # noqa: E402
from cudabuild.errors import ImageFormatError  # noqa: E402
from cudabuild.fingerprint import compute_fingerprint  # noqa: E402
from cudabuild.image import index as package_index  # noqa: E402
from cudabuild.image.archive import Archive, Record, name_key, write_archive  # noqa: E402
from cudabuild.image.codec import pack, unpack  # noqa: E402
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage  # noqa: E402
from cudabuild.importer import binding  # noqa: E402
from cudabuild.importer.loads import find_loads  # noqa: E402
from cudabuild.types import float32, parse_signature  # noqa: E402

__all__ = ["main"]

#: What is promised beside a file's own size.
ROOM = 1 << 20

SIGNATURE = "float32, float32[::1]"
NAMES = tuple(f"k{number}" for number in range(6))
FIELDS = (
    "module", "qualname", "signature", "fingerprint", "options", "kind", "target", "index_width", "symbol",
    "launch_abi", "attributes", "key", "checks", "toolchain", "parts",
)  # fmt: skip
SITES = (("builtins:AssertionError", "positive", "", 3), ("builtins:ValueError", "größer", "helpers", 4)) * 4


def facts(image: KernelImage) -> tuple[Any, ...]:
    """Everything that an image is, its bytes read through a pointer."""
    attributes = {name: value for name, value in image.attributes.items() if name != "minimum_driver"}
    found = [attributes if field == "attributes" else getattr(image, field) for field in FIELDS]
    return (*found, read_by_pointer(image.data))


def read_by_pointer(data: bytes | memoryview) -> bytes:
    """As the driver does: from an address."""
    import numpy as np

    view = np.frombuffer(data, np.uint8)
    return ctypes.string_at(view.ctypes.data, len(data))


class Guarded:
    """Memory with a page before and a page behind it that may not be read: what reads there dies of it."""

    def __init__(self, capacity: int) -> None:
        page = mmap.PAGESIZE
        self._size = -(-capacity // page) * page
        self._map = mmap.mmap(-1, self._size + 2 * page)
        first = ctypes.addressof(ctypes.c_char.from_buffer(self._map))
        protect = ctypes.CDLL(None, use_errno=True).mprotect
        for at in (first, first + page + self._size):
            if protect(ctypes.c_void_p(at), ctypes.c_size_t(page), 0):
                raise OSError(ctypes.get_errno(), "mprotect")
        self._view = memoryview(self._map)

    def hold(self, data: bytes, at_end: bool) -> memoryview:
        """``data`` against the page behind it, or against the one before it."""
        start = mmap.PAGESIZE + (self._size - len(data) if at_end else 0)
        self._view[start : start + len(data)] = data
        return self._view[start : start + len(data)].toreadonly()


class Subjects:
    """Sound files, and how each kind is damaged and read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        options = {"debug": True, "launch_bounds": (128, 2)}
        debug = {"registers": 16, "shared_bytes": 0, "decorated": ("debug",), "exceptions": SITES}
        changes = {"k0": {"options": options, "attributes": debug}}
        self.images = {
            (name, width): make_image(name, index_width=width, signature=SIGNATURE, **changes.get(name, {}))
            for name in NAMES
            for width in (32, 64)
        }
        self.facts = {place: facts(image) for place, image in self.images.items()}
        self.archive = self._write("a.cuar", list(self.images.values()))
        many = [make_image("k1", key=digest(b"%d" % n), symbol=f"s{n}", data=b"%d" % n * 30) for n in range(60)]
        others = [make_image(name, data=b"other" * 40, key=digest(name.encode())) for name in NAMES]
        self.variants, other = self._write("b.cuar", many), self._write("c.cuar", others)
        self.known = {
            name: [facts(image) for image in (*self.images.values(), *many, *others) if image.qualname == name]
            for name in NAMES
        }
        self.archives = (self.archive, self.variants, other)
        self.entries = [
            Entry(image.key, name_key(image.module, image.qualname, SIGNATURE), image.fingerprint, n, n % 5, n)
            for n, image in enumerate(self.images.values())
        ]
        self.index = format_index(self.entries)
        self.indexes = (self.index, format_index(self.entries[:5]), format_index([]))
        self.package_index = package_index.format_index(
            package_index.build_index("package", self.images.values(), {"sm_90": 1})
        ).encode()
        self.note = pack((b"identity", {"sm_90": {"llvm": "22.1", "compiler": "ab" * 8}, "sm_80": None}))
        self.guarded = Guarded(2 * max(map(len, (*self.archives, *self.indexes))) + (1 << 16))
        self.lines: list[str] = []
        config._write = self.lines.append  # type: ignore[assignment]
        self._make_cache()
        self._make_package()

    def _write(self, name: str, images: list[KernelImage]) -> bytes:
        write_archive(self.folder / name, images, "sm_90")
        return (self.folder / name).read_bytes()

    # archives

    def mutate_archive(self, rng: random.Random, forged: bool) -> bytes:
        base = rng.choice((self.archive, self.archive, self.variants))
        return forge_archive(base, rng) if forged else damage(base, self.archives, rng)

    def judge_archive(self, data: bytes, rng: random.Random, forged: bool) -> str:
        source: memoryview | str = self.guarded.hold(data, at_end=rng.random() < 0.7)
        opener = None
        if rng.random() < 0.1:  # as a package's archive is opened, by a map, or as the cache's, by call
            source, opener = str(self.folder / "damaged.cuar"), rng.choice((None, os.open))
            Path(source).write_bytes(data)
        names = rng.sample(NAMES, 3)
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        told = self._read_archive(source, opener, names, forged)
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= len(data) + ROOM, f"{peak} bytes of memory for a file of {len(data)}"
        return told

    def _read_archive(self, source: memoryview | str, opener: Any, names: list[str], forged: bool) -> str:
        try:
            archive = Archive(source, "damaged.cuar", opener=opener)
            found = 0
            for name in names:
                for records in (
                    archive.find_named("package.module", name, SIGNATURE),
                    archive.find_fingerprint(digest(name.encode())),
                ):
                    for record in records:
                        image = record.load_image("shipped", with_checks=True)
                        self._compare(name, image, forged)
                        found += 1
            for load in find_loads([archive], DeviceInfo((9, 0), 13000)):
                assert load.kind in ("", "cubin", "ptx", "object")
        except ImageFormatError as error:
            return self._told(error, "damaged.cuar: ")
        return "right" if found else "missed"

    def _told(self, error: ImageFormatError, start: str) -> str:
        assert str(error).startswith(start), f"a message without its file: {error}"
        return "refused"

    def _compare(self, name: str, image: KernelImage, forged: bool) -> None:
        told = facts(image)
        if forged:
            asked = (image.module, image.qualname, image.signature) == ("package.module", name, SIGNATURE)
            assert asked or image.fingerprint == digest(name.encode()), "an image that was not asked for"
            assert image.index_width in (32, 64)
        else:
            assert told in self.known[name], "a wrong image"

    # a cache's index

    def mutate_cache_index(self, rng: random.Random, forged: bool) -> bytes:
        return forge_index(self.index, rng) if forged else damage(self.index, self.indexes, rng)

    def judge_cache_index(self, data: bytes, rng: random.Random, forged: bool) -> str:
        view = self.guarded.hold(data, at_end=True)
        image = rng.choice(list(self.images.values()))
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        told = self._read_index(view, image, forged)
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= len(data) + ROOM, f"{peak} bytes of memory for a file of {len(data)}"
        return told

    def _read_index(self, view: memoryview, image: KernelImage, forged: bool) -> str:
        try:
            index = parse_index(view)
            found = [index.find_key(image.key)]
            found += index.find_name(name_key(image.module, image.qualname, image.signature))
            found += index.find_fingerprint(image.fingerprint)
            if forged:
                index.entries()
        except ImageFormatError:
            return "refused"
        assert forged or index.count in (0, 5, 12), "a damaged index was taken"
        return "right" if any(found) else "missed"

    # a package's index, and a note: for people, and beside the images

    def mutate_package_index(self, rng: random.Random, forged: bool) -> bytes:
        return damage(self.package_index, (self.note, self.archive, b'{"schema": 1}'), rng)

    def judge_package_index(self, data: bytes, rng: random.Random, forged: bool) -> str:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            index = package_index.parse_index(data, "index.json")
            json.dumps(index, ensure_ascii=False).encode()
            told = "right" if data == self.package_index else "taken"
        except ImageFormatError as error:
            told = self._told(error, "index.json: ")
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= len(data) + ROOM, f"{peak} bytes of memory for a file of {len(data)}"
        return told

    def mutate_note(self, rng: random.Random, forged: bool) -> bytes:
        if forged and rng.random() < 0.3:
            return make_bomb(rng.choice((20, 300, 5000, 300_000)), rng)
        return damage(self.note, (self.archive, b"(\2\0\0\0"), rng)

    def judge_note(self, data: bytes, rng: random.Random, forged: bool) -> str:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        try:
            value = unpack(data)
            told = "taken"
        except ImageFormatError:
            value, told = None, "refused"
        peak = tracemalloc.get_traced_memory()[1] - before
        assert peak <= len(data) + ROOM, f"{peak} bytes of memory for a file of {len(data)}"
        assert told == "refused" or pack(value) == data, "read as what is written otherwise"
        return told

    # a whole cache on disk

    def _make_cache(self) -> None:
        self.root = self.folder / "cache"
        cache = Cache(str(self.root))
        images = list(self.images.values())
        for part in (images[:4], images[4:7], images[7:]):
            cache.publish(*part)
        shelf = self.root / "sm_90"
        self.sound = {path.name: path.read_bytes() for path in shelf.iterdir() if path.suffix in (".cuar", ".cuix")}

    def mutate_cache(self, rng: random.Random, forged: bool) -> bytes:
        name = rng.choice([*sorted(self.sound), "index.cuix"])
        self.victim = name
        data = self.sound[name]
        others = list(self.sound.values())
        if forged:
            return forge_index(data, rng) if name.endswith("x") else forge_archive(data, rng)
        return damage(data, others, rng)

    def judge_cache(self, data: bytes, rng: random.Random, forged: bool) -> str:
        shelf = self.root / "sm_90"
        for path in shelf.iterdir():
            if path.name not in self.sound and path.suffix in (".cuar", ".cuix", ".tmp"):
                path.unlink()
        for name, sound in self.sound.items():
            (shelf / name).write_bytes(data if name == self.victim else sound)
        self.lines.clear()
        config._warned.clear()
        cache = Cache(str(self.root))
        made: list[str] = []
        for image in rng.sample(list(self.images.values()), 4):
            place = (image.qualname, image.index_width)

            def make(place: tuple[str, int] = place) -> KernelImage:
                made.append(place[0])
                return self.images[place]

            (record,) = cache.shelves("sm_90")
            named = record.find_named("package.module", place[0], SIGNATURE)
            assert all(found.qualname == place[0] for found in named)
            found = cache.build_once(image.key, "sm_90", make)
            assert found.key == image.key, "an image that was not asked for"
            assert forged or facts(found) == self.facts[place], "a wrong image"
            again = Cache(str(self.root)).find(image.key, "sm_90")
            assert forged or again is None or facts(again) == self.facts[place], "a wrong image"
        # One for each file that is blamed: an index that lies may lead to segments that seem to.
        assert len(self.lines) <= (len(self.sound) if forged else 1), f"warnings: {self.lines}"
        assert all(str(self.root) in line for line in self.lines), self.lines
        return "repaired" if made else "right"

    # a package on disk

    def _make_package(self) -> None:
        package = self.folder / "pkg"
        (package / "_cudabuild").mkdir(parents=True)
        (package / "__init__.py").write_text("N = 4\ndef k(x):\n    x[0] = N\n")
        sys.path.insert(0, str(self.folder))
        import pkg  # type: ignore[import-not-found]

        self.definition = KernelDefinition(pkg.k)
        self.signature = parse_signature("float32[::1]")
        self.fingerprint = compute_fingerprint(self.definition, (float32[::1],))
        images = [
            make_image(
                "k", index_width=width, signature="float32[::1]", fingerprint=self.fingerprint.digest, target=target
            ).stamp(self.fingerprint)
            for target in ("sm_90", "sm_80", "compute_75")
            for width in (32, 64)
        ]
        self.shipped = {}
        for target in ("sm_90", "sm_80", "compute_75"):
            group = [image for image in images if image.target == target]
            write_archive(package / "_cudabuild" / f"{target}.cuar", group, target)
            self.shipped[f"{target}.cuar"] = (package / "_cudabuild" / f"{target}.cuar").read_bytes()
        self.shipped["index.json"] = package_index.format_index(package_index.build_index("pkg", images, {})).encode()
        self.package_facts = {(image.target, image.index_width): facts(image) for image in images}

    def mutate_package(self, rng: random.Random, forged: bool) -> bytes:
        self.victim = rng.choice(sorted(self.shipped))
        data = self.shipped[self.victim]
        if rng.random() < 0.1:  # an archive in another's place
            return rng.choice([sound for name, sound in self.shipped.items() if name.endswith(".cuar")])
        if forged and self.victim.endswith(".cuar"):
            return forge_archive(data, rng)
        return damage(data, list(self.shipped.values()), rng)

    def judge_package(self, data: bytes, rng: random.Random, forged: bool) -> str:
        folder = self.folder / "pkg" / "_cudabuild"
        for name, sound in self.shipped.items():
            (folder / name).write_bytes(data if name == self.victim else sound)
        binding._folders.clear()
        binding._left.clear()
        self.lines.clear()
        config._warned.clear()
        device = DeviceInfo((9, 0), 13000)
        width = rng.choice((32, 64))
        request = ImageRequest(self.definition, self.signature, device, width, lambda: self.fingerprint.digest)
        told = "missed"
        for kind in ("cubin", "ptx"):
            provider = binding.ShippedProvider(kind)
            image = provider.find(request)
            provider.find_left(request)
            if image is not None:
                told = f"{kind} {image.target}"
                assert image.index_width >= width
                assert forged or facts_shipped(image) == facts_shipped_of(
                    self.package_facts[image.target, image.index_width]
                )
                break
        binding.find_recorded_options(request)
        assert told != "missed" or forged, "the other archives were not looked into"
        assert len(self.lines) <= 1, f"warnings: {self.lines}"
        return told


def facts_shipped(image: KernelImage) -> tuple[Any, ...]:
    return facts_shipped_of(facts(image))


def facts_shipped_of(found: tuple[Any, ...]) -> tuple[Any, ...]:
    """Without the checks, which a launch does not take along."""
    return tuple(value for field, value in zip((*FIELDS, "data"), found, strict=True) if field != "checks")


#: Kind -> its share of all seeds, in percent.
KINDS = {"archive": 50, "cache_index": 20, "package_index": 8, "note": 8, "cache": 8, "package": 6}
_WEIGHTS = [kind for kind, share in KINDS.items() for _ in range(share)]


def run_seed(subjects: Subjects, seed: int) -> tuple[str, str]:
    """One seed: its kind, and what came of it."""
    rng = random.Random(seed)
    kind = rng.choice(_WEIGHTS)
    forged = rng.random() < 0.5
    data = getattr(subjects, f"mutate_{kind}")(rng, forged)
    outcome: str = getattr(subjects, f"judge_{kind}")(data, rng, forged)
    return f"{kind}, {'lies' if forged else 'accidents'}", outcome


# children


def child(first: int, count: int) -> int:
    """Runs seeds; one line of JSON for every hundred, so that the parent knows how far it came before it died."""
    tracemalloc.start()
    with tempfile.TemporaryDirectory(prefix="mutated-") as name:
        subjects = Subjects(Path(name))
        told: Counter[str] = Counter()
        failures: list[str] = []
        for seed in range(first, first + count):
            try:
                kind, outcome = run_seed(subjects, seed)
                told[f"{kind}: {outcome}"] += 1
            except BaseException as error:
                failures.append(f"seed {seed}: {type(error).__name__}: {error}")
            if (seed - first) % 100 == 99 or seed == first + count - 1:
                resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
                said = {"next": seed + 1, "told": told, "failures": failures, "resident": resident}
                print(json.dumps(said), flush=True)
                told.clear()
                failures.clear()
    return 0


class Tally:
    def __init__(self) -> None:
        self.told: Counter[str] = Counter()
        self.failures: list[str] = []
        self.grown = 0

    def run(self, first: int, count: int) -> None:
        """Seeds in a child, and in the next one where it dies."""
        end = first + count
        while first < end:
            command = [sys.executable, __file__, "--child", str(first), str(end - first)]
            done = subprocess.run(command, capture_output=True, text=True, env=clean_environment(), check=False)
            told = [json.loads(line) for line in done.stdout.splitlines()]
            if told:
                self.grown = max(self.grown, told[-1]["resident"] - told[0]["resident"])
            for said in told:
                self.told.update(said["told"])
                self.failures += said["failures"]
                first = said["next"]
            if first < end:
                place = f"among seeds {first} to {min(first + 99, end - 1)}"
                self.failures.append(f"a crash {place}: status {done.returncode}: {done.stderr[-400:]}")
                first += 100


# files made to take memory


def measure(read: Callable[..., object], *arguments: object) -> int:
    """The most memory that is taken meanwhile, in bytes; what is wrong may be refused."""
    tracemalloc.start()
    try:
        with contextlib.suppress(ImageFormatError):
            read(*arguments)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def find_all(data: bytes, named: tuple[str, str, str]) -> list[Record]:
    return Archive(data, "bomb.cuar").find_named(*named)


def check_bombs(report: Report, folder: Path, records: int) -> None:
    """Files that are larger than any package's, and say one thing over and over."""
    images = [make_image("k", key=digest(b"%d" % n), symbol=f"s{n}", data=b"%d" % n * 9) for n in range(records)]
    write_archive(folder / "many.cuar", images, "sm_90")
    sound = (folder / "many.cuar").read_bytes()
    named = ("package.module", "k", SIGNATURE)
    for what, data in (
        (f"{records} records of one name", sound),
        (f"{records} records that share 60 kB of details", share_details(sound, records)),
    ):
        peak = measure(find_all, data, named)
        detail = f"{peak / 1e6:.2f} MB for a file of {len(data) / 1e6:.2f} MB"
        report.check(what, peak <= len(data) + ROOM, detail)
    name = name_key(*named)
    data = format_index(Entry(digest(b"%d" % n), name, digest(b"k"), n, n % 3, n) for n in range(records))
    peak = measure(lambda: sum(1 for _ in parse_index(data).find_name(name)))
    detail = f"{peak / 1e6:.2f} MB for a file of {len(data) / 1e6:.2f} MB"
    report.check(f"{records} entries of one name", peak <= len(data) + ROOM, detail)
    rng = random.Random(1)
    for size in (5000, 200_000, 2_000_000):
        bombs = [make_bomb(size, rng) for _ in range(16)]
        peak = max(measure(unpack, bomb) for bomb in bombs)
        detail = f"{peak / 1e6:.2f} MB"
        report.check(f"descriptions of {size} bytes that stand for much", peak <= size + ROOM, detail)


def share_details(sound: bytes, records: int) -> bytes:
    """An archive whose records all have the same long details, which stand once in it."""
    attributes = {"registers": 1, "shared_bytes": 0, "text": "x" * 60_000}
    details = pack(("package.module", "k", SIGNATURE, {}, "s", attributes, bytes(32)))
    shared = bytearray(sound + details)
    for number in range(records):
        place = 128 + 192 * number
        struct.pack_into("<Q", shared, place + 144, len(sound))
        struct.pack_into("<I", shared, place + 152, len(details))
    struct.pack_into("<Q", shared, 24, len(shared))
    return repair_archive(shared)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="2,000 files instead of 100,000")
    parser.add_argument("--count", type=int, help="how many files")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--show", type=int, metavar="SEED", help="one seed, with its traceback")
    parser.add_argument("--child", type=int, nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(*options.child)
    if options.show is not None:
        tracemalloc.start()
        with tempfile.TemporaryDirectory(prefix="mutated-") as name:
            print(*run_seed(Subjects(Path(name)), options.show))
        return 0
    count = options.count or (2000 if options.quick else 100_000)
    report = Report("damaged archives and indexes")
    with tempfile.TemporaryDirectory(prefix="mutated-") as name:
        check_bombs(report, Path(name), 2000 if options.quick else 20_000)
    tally = Tally()
    start = time.perf_counter()
    share = -(-count // options.jobs)
    with ThreadPoolExecutor(options.jobs) as pool:
        for job in [pool.submit(tally.run, options.seed + at, min(share, count - at)) for at in range(0, count, share)]:
            job.result()
    seconds = time.perf_counter() - start
    for what, number in sorted(tally.told.items()):
        report.note(f"{number:7} {what}")
    for failure in tally.failures[:20]:
        report.note(failure)
    report.note(f"the largest growth of a process after its first 100 files: {tally.grown / 1024:.1f} MB resident")
    judged = sum(tally.told.values())
    report.check(
        "every damaged file was judged", judged + len(tally.failures) == count, f"{judged} of {count}, {seconds:.0f} s"
    )
    report.check("right, or a miss", not tally.failures, f"{len(tally.failures)} failures")
    return report.status()


if __name__ == "__main__":
    sys.exit(main())
