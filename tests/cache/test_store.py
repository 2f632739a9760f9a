# SPDX-License-Identifier: Apache-2.0
"""The cache in one process: publishing, finding, merging, evicting, damage, places that cannot be used."""

from __future__ import annotations

import os
import random
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache import locks, shelf
from cudabuild.cache.evict import choose_victims
from cudabuild.cache.shelf import Shelf
from cudabuild.cache.store import Cache
from cudabuild.digest import digest
from cudabuild.image.image import KernelImage


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


@pytest.fixture
def warnings(capsys: pytest.CaptureFixture[str]) -> Any:
    return lambda: capsys.readouterr().err.splitlines()


def same(one: KernelImage | None, other: KernelImage) -> bool:
    assert one is not None
    fields = ("key", "module", "qualname", "signature", "fingerprint", "symbol", "checks", "parts", "toolchain")
    return bytes(one.data) == bytes(other.data) and all(getattr(one, f) == getattr(other, f) for f in fields)


def segments(root: str, target: str = "sm_90") -> list[Path]:
    return sorted(Path(root, target).glob("seg-*"))


def test_published_images_are_found_by_key_name_and_fingerprint(root: str) -> None:
    images = [make_image(f"k{n}", target=target) for n in range(3) for target in ("sm_80", "sm_90")]
    Cache(root).publish(*images)
    cache = Cache(root)
    assert cache.targets() == ["sm_80", "sm_90"]
    for image in images:
        assert same(cache.find(image.key, image.target), image)
        (shelf,) = cache.shelves(image.target)
        assert [r.key for r in shelf.find_named(image.module, image.qualname, image.signature)] == [image.key]
        assert [r.key for r in shelf.find_fingerprint(image.fingerprint)] == [image.key]
    assert cache.find(digest(b"other"), "sm_90") is None
    assert cache.find(images[0].key, "sm_86") is None
    found = cache.find(images[0].key, "sm_80")
    assert found is not None
    assert found.source == "cached cubin sm_80"


def test_an_open_cache_sees_what_others_publish(root: str) -> None:
    reader, writer = Cache(root), Cache(root)
    image = make_image()
    assert reader.find(image.key, "sm_90") is None
    writer.publish(image)
    assert same(reader.find(image.key, "sm_90"), image)
    newer = make_image(data=b"newer")
    writer.publish(newer)
    assert same(reader.find(image.key, "sm_90"), newer)


def test_images_without_a_key_are_refused(root: str) -> None:
    with pytest.raises(ValueError, match="has no image key"):
        Cache(root).publish(make_image(key=b""))


def test_segments_are_merged_and_files_stay_few(root: str) -> None:
    cache, reader = Cache(root), Cache(root)
    images = [make_image(f"k{n}") for n in range(150)]
    for image in images:
        cache.publish(image)
        assert reader.find(images[0].key, "sm_90") is not None
    assert len(segments(root)) == 2 + 2 + 6, "two of 64 images, two of 8, six of one"
    names = {path.name for path in Path(root, "sm_90").iterdir()}
    assert names == {".lock", "index.cuix"} | {path.name for path in segments(root)}
    for image in images:
        assert same(reader.find(image.key, "sm_90"), image)
        assert same(Cache(root).find(image.key, "sm_90"), image)


def test_a_mapped_image_outlives_its_file(root: str) -> None:
    cache = Cache(root)
    cache.publish(make_image())
    image = Cache(root).find(make_image().key, "sm_90")
    for path in segments(root):
        path.unlink()
    assert same(image, make_image())
    assert Cache(root).find(make_image().key, "sm_90") is None
    cache.publish(make_image("other"))
    assert Cache(root).find(make_image("other").key, "sm_90") is not None


def test_build_once_makes_each_image_once_for_all_threads(root: str) -> None:
    cache = Cache(root)
    made: list[str] = []
    gate = threading.Barrier(16)
    results: list[KernelImage] = []

    def work(number: int) -> None:
        name = f"k{number % 4}"

        def make() -> KernelImage:
            time.sleep(0.02)
            made.append(name)
            return make_image(name, key=b"")

        gate.wait()
        results.append(cache.build_once(make_image(name).key, "sm_90", make))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(made) == ["k0", "k1", "k2", "k3"]
    assert len(results) == 16
    assert all(same(image, make_image(image.qualname)) for image in results)


def test_a_failed_make_passes_through_and_is_tried_again(root: str) -> None:
    cache = Cache(root)

    def fail() -> KernelImage:
        raise RuntimeError("no")

    key = make_image().key
    with pytest.raises(RuntimeError, match="no"):
        cache.build_once(key, "sm_90", fail)
    assert same(cache.build_once(key, "sm_90", make_image), make_image())
    assert not cache._threads


def test_layers_below_are_only_read(root: str, tmp_path: Path) -> None:
    site = str(tmp_path / "site")
    Cache(site).publish(make_image())
    before = {path: path.stat().st_mtime_ns for path in Path(site).rglob("*")}
    cache = Cache(root, [site])
    assert same(cache.find(make_image().key, "sm_90"), make_image())
    cache.publish(make_image("mine"))
    assert {path: path.stat().st_mtime_ns for path in Path(site).rglob("*")} == before
    assert same(Cache(root).find(make_image("mine").key, "sm_90"), make_image("mine"))


# damage


def damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    if how == "empty":
        data = bytearray()
    elif how == "half":
        del data[len(data) // 2 :]
    elif how == "last byte":
        del data[-1:]
    elif how == "header":
        data[20] ^= 1
    else:
        data[-10] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("how", ["empty", "half", "last byte", "header", "image"])
def test_a_damaged_segment_is_a_miss_one_warning_and_repaired(root: str, how: str, warnings: Any) -> None:
    keep, lose = make_image("keep"), make_image("lose")
    Cache(root).publish(keep)
    Cache(root).publish(lose)
    damage(segments(root)[-1], how)
    cache = Cache(root)
    assert cache.find(lose.key, "sm_90") is None
    assert cache.find(lose.key, "sm_90") is None
    assert same(cache.find(keep.key, "sm_90"), keep)
    told = warnings()
    assert len(told) == 1
    assert segments(root)[-1].name in told[0]
    made = cache.build_once(lose.key, "sm_90", lambda: make_image("lose", key=b""))
    assert same(made, lose)
    fresh = Cache(root)
    assert same(fresh.find(lose.key, "sm_90"), lose)
    assert same(fresh.find(keep.key, "sm_90"), keep)
    assert warnings() == []
    assert all(fresh.shelves("sm_90")[0]._open(int(path.name[4:20], 16)).count for path in segments(root))


def test_whole_images_of_a_damaged_segment_are_saved(root: str, warnings: Any) -> None:
    images = [make_image(f"k{n}") for n in range(6)]
    Cache(root).publish(*images)
    (path,) = segments(root)
    damage(path, "image")
    cache = Cache(root)
    found = {image.qualname for image in images if cache.find(image.key, "sm_90") is not None}
    cache.publish(make_image("new"))
    fresh = Cache(root)
    kept = {image.qualname for image in images if fresh.find(image.key, "sm_90") is not None}
    assert len(kept) == 5
    assert kept >= found
    assert len(warnings()) == 1


@pytest.mark.parametrize("how", ["empty", "half", "last byte", "header", "image", "gone"])
def test_a_damaged_index_is_rebuilt_from_the_segments(
    root: str, how: str, warnings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shelf, "_YOUNG", 0.0)  # beside young segments an empty index is one that was not written yet
    images = [make_image(f"k{n}") for n in range(3)]
    for image in images:
        Cache(root).publish(image)
    index = Path(root, "sm_90", "index.cuix")
    if how == "gone":
        index.unlink()
    else:
        damage(index, how)
    cache = Cache(root)
    assert cache.find(images[0].key, "sm_90") is None
    assert len(warnings()) == (how != "gone")
    cache.publish(make_image("new"))
    for image in [*images, make_image("new")]:
        assert same(Cache(root).find(image.key, "sm_90"), image)


def test_damage_in_a_large_index_hides_an_image_until_the_next_is_published(root: str, warnings: Any) -> None:
    """A reader does not compare megabytes with their digest; the writer does, and makes the index anew."""
    images = [make_image(f"k{n}") for n in range(1000)]
    Cache(root).publish(*images)
    index = Path(root, "sm_90", "index.cuix")
    data = index.read_bytes()
    lost = images[500]
    at = data.index(lost.key)
    index.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
    cache = Cache(root)
    assert cache.find(lost.key, "sm_90") is None
    assert all(same(cache.find(image.key, "sm_90"), image) for image in images[:400])
    assert warnings() == []
    made = cache.build_once(lost.key, "sm_90", lambda: make_image("k500", key=b""))
    assert same(made, lost)
    (told,) = warnings()
    assert "index.cuix is damaged and will be rebuilt" in told
    fresh = Cache(root)
    assert all(same(fresh.find(image.key, "sm_90"), image) for image in images)
    assert warnings() == []


def test_segments_of_two_generations_mixed_up(root: str, tmp_path: Path) -> None:
    """The index of one cache over the segments of another: wrong keys are misses, never wrong images."""
    other = str(tmp_path / "other")
    for name in ("a", "b"):
        Cache(root).publish(make_image(name))
        Cache(other).publish(make_image(f"other {name}"))
    for mine, theirs in zip(segments(root), segments(other), strict=True):
        theirs.rename(mine)
    cache = Cache(root)
    assert cache.find(make_image("a").key, "sm_90") is None
    (shelf,) = cache.shelves("sm_90")
    assert shelf.find_named("package.module", "a", "float32, float32[::1]") == []
    assert shelf.find_fingerprint(make_image("a").fingerprint) == []


def test_random_damage_never_gives_a_wrong_image(root: str, warnings: Any) -> None:
    rng = random.Random(3)
    images = [make_image(f"k{n}") for n in range(8)]
    for _ in range(40):
        Cache(root).publish(*images[:4])
        Cache(root).publish(*images[4:])
        paths = [*segments(root), Path(root, "sm_90", "index.cuix")]
        victim = rng.choice(paths)
        data = bytearray(victim.read_bytes())
        for _ in range(rng.randrange(1, 4)):
            if data:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                del data[rng.choice([len(data), len(data), rng.randrange(len(data) + 1)]) :]
        victim.write_bytes(data)
        cache = Cache(root)
        for image in images:
            made = cache.build_once(image.key, "sm_90", lambda image=image: make_image(image.qualname, key=b""))
            assert same(made, image)
    for image in images:
        assert same(Cache(root).find(image.key, "sm_90"), image)


# size


def test_the_least_recently_used_segments_go_first(root: str) -> None:
    cache = Cache(root, limit=40_000)
    images = [
        make_image(f"k{n}", data=os.urandom(9000), target=target) for n, target in enumerate(["sm_80", "sm_90"] * 3)
    ]
    now = time.time()
    for number, image in enumerate(images[:4]):
        cache.publish(image)
        for path in segments(root, image.target):
            if path.stat().st_mtime > now - 50:
                os.utime(path, (now - 8000 + number, now - 8000 + number))
    assert Cache(root).find(images[0].key, "sm_80") is not None, "using one renews it"
    cache.publish(images[4])
    left = [n for n, image in enumerate(images[:5]) if Cache(root).find(image.key, image.target) is not None]
    assert left[0] == 0
    assert left[-1] == 4
    assert 1 not in left
    assert sum(path.stat().st_size for path in Path(root).rglob("seg-*")) <= 40_000


def test_what_was_just_published_stays(root: str) -> None:
    cache = Cache(root, limit=10)
    cache.publish(make_image("a"))
    cache.publish(make_image("b"))
    assert Cache(root).find(make_image("b").key, "sm_90") is not None
    assert Cache(root).find(make_image("a").key, "sm_90") is None


def test_choosing_victims() -> None:
    found = [("sm_80", 1, 10.0, 50), ("sm_90", 2, 5.0, 30), ("sm_80", 3, 20.0, 40)]
    assert choose_victims(found, 120) == []
    assert choose_victims(found, 100) == [("sm_90", 2)]
    assert choose_victims(found, 100, frozenset({("sm_90", 2)})) == [("sm_80", 1)]
    assert choose_victims(found, 1) == [("sm_90", 2), ("sm_80", 1), ("sm_80", 3)]


def test_what_killed_writers_left_is_swept_later(root: str) -> None:
    Cache(root).publish(make_image())
    folder = Path(root, "sm_90")
    old, young = folder / "seg-0000000000000001.cuar", folder / "x.tmp"
    old.write_bytes(b"half")
    young.write_bytes(b"half")
    os.utime(old, (1, 1))
    Cache(root).publish(make_image("other"))
    assert not old.exists()
    assert young.exists()


# writers that meet


@pytest.mark.parametrize("then", ["merges", "evicts", "empties the index"])
def test_another_writer_takes_ours_for_left_over(
    root: str, then: str, monkeypatch: pytest.MonkeyPatch, warnings: Any
) -> None:
    """The first index of a folder names every segment there is: also one whose writer waits for the lock."""
    real, met = Shelf._write_segment, []

    def write(self: Shelf, *args: Any) -> int:
        segment = real(self, *args)
        if not met:
            met.append(segment)
            other = Cache(root)
            for number in range(7 if then == "merges" else 1):
                other.publish(make_image(f"other{number}"))
            (shelf,) = other.shelves("sm_90")
            if then == "evicts":
                shelf.remove([segment])
            elif then == "empties the index":
                shelf.remove([segment for segment, _ in shelf.segment_files()])
            assert segment not in dict(shelf.segment_files())
        return segment

    monkeypatch.setattr(Shelf, "_write_segment", write)
    image = make_image("mine")
    cache = Cache(root)
    cache.publish(image)
    assert cache.find_in_memory() == []
    assert same(Cache(root).find(image.key, "sm_90"), image)
    assert warnings() == []
    assert {path.name for path in segments(root)} == {
        f"seg-{segment:016x}.cuar" for segment, _ in Cache(root).shelves("sm_90")[0].live_segments()
    }


# size: evictors that meet


def kept(root: str, images: list[KernelImage]) -> list[int]:
    return [number for number, image in enumerate(images) if Cache(root).find(image.key, image.target) is not None]


def age(root: str, images: list[KernelImage]) -> None:
    """Publishes images, one segment each, the first used the longest ago."""
    for number, image in enumerate(images):
        before = set(Path(root).rglob("seg-*"))
        Cache(root).publish(image)
        for path in set(Path(root).rglob("seg-*")) - before:
            os.utime(path, (time.time() - 1000 + number,) * 2)


def test_segments_of_two_generations_are_counted_once(root: str) -> None:
    """While others merge, or until the leavings of a killed one are swept, images lie in two files."""
    images = [make_image(f"k{n}", data=os.urandom(9000)) for n in range(4)]
    age(root, images)
    for number, path in enumerate(segments(root)):
        (path.parent / f"seg-{number + 1:016x}.cuar").write_bytes(path.read_bytes())
    Cache(root, limit=60_000).publish(make_image("new"))
    assert kept(root, images) == [0, 1, 2, 3]
    Cache(root, limit=30_000).publish(make_image("newer"))
    assert kept(root, images) == [2, 3]


def test_one_evicts_at_a_time(root: str) -> None:
    images = [make_image(f"k{n}", data=os.urandom(9000)) for n in range(4)]
    age(root, images)
    os.mkdir(os.path.join(root, "locks"))
    release = locks.try_lock(os.path.join(root, "locks", "evict"))
    assert release is not None
    Cache(root, limit=20_000).publish(make_image("new"))
    assert kept(root, images) == [0, 1, 2, 3]
    release()
    Cache(root, limit=20_000).publish(make_image("newer"))
    assert kept(root, images) == [3]


def test_two_evictors_that_see_the_same_remove_it_once(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second begins when the first has counted and removed nothing yet; a third comes after both."""
    images = [make_image(f"k{n}", data=os.urandom(9000)) for n in range(6)]
    age(root, images)
    limit = 5 * 9600
    real, met = Shelf.remove, []

    def remove(self: Shelf, *args: Any, **kwargs: Any) -> bool:
        if not met:
            met.append(True)
            Cache(root, limit=limit).publish(make_image("second", target="sm_80"))
        return real(self, *args, **kwargs)

    monkeypatch.setattr(Shelf, "remove", remove)
    Cache(root, limit=limit).publish(make_image("first", target="sm_80"))
    left = kept(root, images)
    assert met
    assert left == list(range(6 - len(left), 6))
    assert sum(path.stat().st_size for path in segments(root)) > 0.9 * limit - 9600
    Cache(root, limit=limit).publish(make_image("third", target="sm_80"))
    assert kept(root, images) == left


def test_merged_segments_are_as_old_as_what_is_in_them(root: str) -> None:
    old = [make_image(f"k{n}") for n in range(7)]
    age(root, old)
    Cache(root).publish(make_image("new", data=os.urandom(200)))
    (merged,) = segments(root)
    assert time.time() - merged.stat().st_mtime < 100, "the newest was used now"
    for number in range(7):
        for other in range(8):
            Cache(root).publish(make_image(f"more{number} {other}"))
        for path in segments(root):
            os.utime(path, (time.time() - 5000,) * 2)
    assert len(segments(root)) == 8
    Cache(root).publish(make_image("last"))
    last, merged = sorted(segments(root), key=lambda path: path.stat().st_size)
    assert time.time() - merged.stat().st_mtime > 1000
    assert time.time() - last.stat().st_mtime < 100


def test_threads_that_miss_while_another_fails_make_it_one_at_a_time() -> None:
    cache = Cache(None)
    key = make_image().key
    inside, most = [0], [0]
    entered = threading.Event()
    results: list[object] = []

    def make() -> KernelImage:
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        entered.set()
        time.sleep(0.05)
        inside[0] -= 1
        if len(results) < 2:
            raise RuntimeError("no")
        return make_image()

    def work() -> None:
        try:
            results.append(cache.build_once(key, "sm_90", make))
        except RuntimeError as error:
            results.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
        entered.wait(5)
        time.sleep(0.03)  # some come while another has just failed
    for thread in threads:
        thread.join()
    assert most == [1]
    assert [type(result).__name__ for result in results] == ["RuntimeError"] * 2 + ["KernelImage"] * 4
    assert not cache._threads


# places


def test_without_a_place_images_live_in_memory(warnings: Any) -> None:
    cache = Cache(None)
    made = cache.build_once(make_image().key, "sm_90", make_image)
    assert cache.build_once(made.key, "sm_90", lambda: pytest.fail("made twice")) is made
    assert cache.find(made.key, "sm_90") is made
    assert cache.find_in_memory() == [made]
    cache.publish(make_image("other"))
    assert cache.find(make_image("other").key, "sm_90") is not None
    assert warnings() == []


@pytest.mark.parametrize("error", [28, 30, 13, 122, 24, 16, 116, 2])
@pytest.mark.parametrize("call", ["os.replace", "os.mkdir", "builtins.open"])
def test_an_os_error_costs_one_warning_and_no_image(
    root: str, error: int, call: str, monkeypatch: pytest.MonkeyPatch, warnings: Any
) -> None:
    cache = Cache(root)

    def fail(path: Any, *args: Any, **kwargs: Any) -> Any:
        if str(path).startswith(root):
            raise OSError(error, os.strerror(error))
        return real(path, *args, **kwargs)

    module, name = call.split(".")
    real = getattr(__import__(module), name)
    monkeypatch.setattr(call, fail)
    for name in ("a", "b"):
        assert same(
            cache.build_once(make_image(name).key, "sm_90", lambda name=name: make_image(name)), make_image(name)
        )
        assert same(cache.find(make_image(name).key, "sm_90"), make_image(name))
    told = warnings()
    assert len(told) <= 1
    assert all(root in line for line in told)


def test_an_image_that_no_archive_takes_stays_in_memory(root: str, warnings: Any) -> None:
    cache = Cache(root)
    huge = make_image("huge", parts=tuple((f"name {n}", "value") for n in range(20_000)))
    assert cache.build_once(huge.key, "sm_90", lambda: huge) is huge
    assert cache.find(huge.key, "sm_90") is huge
    (told,) = warnings()
    assert "cannot be kept in an archive" in told
    assert "it is compiled in each process" in told
    cache.publish(make_image("other"))
    assert Cache(root).find(make_image("other").key, "sm_90") is not None
