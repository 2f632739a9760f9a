# SPDX-License-Identifier: Apache-2.0
"""Looking into a cache, verifying, repairing, pruning and emptying it, beside processes that use it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache import upkeep
from cudabuild.cache.store import Cache
from cudabuild.errors import CudabuildError

CHECKOUT = Path(__file__).resolve().parents[2]
posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners of POSIX")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(config, "_warned", set())
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


def fill(root: Path, *names: str, target: str = "sm_90") -> list[Path]:
    """Publishes an image of each name, in segments of their own; their paths."""
    for name in names:
        Cache(str(root)).publish(make_image(name, target=target))
    return sorted((root / target).glob("seg-*"))


def found(root: Path, name: str, target: str = "sm_90") -> bool:
    return Cache(str(root)).find(make_image(name, target=target).key, target) is not None


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 0x10
    path.write_bytes(data)


def kinds(layer: upkeep.Layer) -> list[str]:
    return [fault.kind for fault in upkeep.verify_layer(layer).faults]


# layers


def test_layers_and_their_states(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    fill(site, "k")
    monkeypatch.setenv("CUDABUILD_SITE_CACHE", os.pathsep.join([str(site), str(tmp_path / "none")]))
    assert [(layer.path, layer.kind, layer.state) for layer in upkeep.find_layers()] == [
        (str(root), "user", "absent"),
        (str(site), "site", "read-only"),
        (str(tmp_path / "none"), "site", "absent"),
    ]
    fill(root, "k")
    assert upkeep.user_layer().state == "ready"
    if os.name == "posix":
        root.chmod(0o777)
        assert upkeep.user_layer() == upkeep.Layer(str(root), "user", "refused", "others may write to it")


def test_a_place_where_no_folder_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUDABUILD_CACHE_DIR", str(tmp_path / "file" / "below" / "cache"))
    layer = upkeep.user_layer()
    assert layer.state == "refused"
    assert layer.reason
    with pytest.raises(CudabuildError, match=r"cannot be changed\n  found: .*\n.*\n  do: +set CUDABUILD_CACHE_DIR"):
        upkeep.clear_cache(layer)


def test_what_is_held(root: Path) -> None:
    before = time.time()
    fill(root, "a", "b")
    fill(root, "p", target="compute_80")
    (root / "not ours").mkdir()
    (root / "not ours" / "file").write_text("kept")
    Cache(str(root)).write_note("tools-1", b"x")
    layer = upkeep.user_layer()
    assert [(one.target, one.images, one.segments, one.leftover) for one in upkeep.survey_layer(layer)] == [
        ("compute_80", 1, 1, 0),
        ("sm_90", 2, 2, 0),
    ]
    held = list(upkeep.list_images(layer))
    assert [(one.record.qualname, one.record.target) for one in held] == [
        ("p", "compute_80"),
        ("a", "sm_90"),
        ("b", "sm_90"),
    ]
    assert all(before - 1 < one.published < time.time() + 1 for one in held)
    assert [one.record.qualname for one in upkeep.list_images(layer, ["sm_90"])] == ["a", "b"]
    files = [path for path in root.rglob("*") if path.is_file()]
    assert upkeep.measure(str(root)) == (len(files), sum(path.stat().st_size for path in files))


# verifying


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-40])


DAMAGE: dict[str, tuple[Callable[[Path], object], str, list[str]]] = {
    "a flipped bit in an image": (lambda path: flip(path, -8), "image", ["b", "c"]),
    "a flipped bit in the header": (lambda path: flip(path, 40), "segment", ["b", "c"]),
    "a cut-off segment": (cut, "segment", ["b", "c"]),
    "an empty segment": (lambda path: path.write_bytes(b""), "segment", ["b", "c"]),
    "a missing segment": (Path.unlink, "missing", ["b", "c"]),
    "a flipped bit in the index": (lambda path: flip(path.with_name("index.cuix"), 100), "index", ["a", "b", "c"]),
    "a cut-off index": (lambda path: cut(path.with_name("index.cuix")), "index", ["a", "b", "c"]),
}


@pytest.mark.parametrize("how", DAMAGE)
def test_damage_is_found_and_repaired(root: Path, how: str) -> None:
    damage, kind, kept = DAMAGE[how]
    first, *_ = fill(root, "a", "b", "c")
    verdict = upkeep.verify_layer(upkeep.user_layer())
    assert (verdict.images, verdict.faults) == (3, [])
    assert verdict.bytes == sum(len(make_image(name).data) for name in "abc")
    damage(first)
    (fault,) = upkeep.verify_layer(upkeep.user_layer()).faults
    assert (fault.kind, fault.target) == (kind, "sm_90")
    assert fault.reason
    assert fault.path in (str(first), str(first.with_name("index.cuix")))
    assert upkeep.repair_cache(upkeep.user_layer(), [fault]) == []
    verdict = upkeep.verify_layer(upkeep.user_layer())
    assert (verdict.faults, verdict.images) == ([], len(kept))
    assert [name for name in "abc" if found(root, name)] == kept


def test_whole_images_of_a_damaged_segment_are_kept(root: Path) -> None:
    Cache(str(root)).publish(*(make_image(name) for name in "abc"))
    (segment,) = (root / "sm_90").glob("seg-*")
    data = segment.read_bytes()
    flip(segment, data.index(bytes(make_image("b").data)) + 5)
    faults = upkeep.verify_layer(upkeep.user_layer()).faults
    assert [(fault.kind, fault.image.partition("(")[0]) for fault in faults] == [("image", "package.module.b")]
    upkeep.repair_cache(upkeep.user_layer(), faults)
    assert [found(root, name) for name in "abc"] == [True, False, True]


def test_a_damaged_note(root: Path) -> None:
    fill(root, "a")
    Cache(str(root)).write_note("tools-1", b"x" * 40)
    flip(root / "notes" / "tools-1", 50)
    faults = upkeep.verify_layer(upkeep.user_layer()).faults
    assert [fault.kind for fault in faults] == ["note"]
    upkeep.repair_cache(upkeep.user_layer(), faults)
    assert kinds(upkeep.user_layer()) == []


@posix
def test_a_folder_that_others_may_write_to_is_refused_and_left_alone(root: Path) -> None:
    fill(root, "a")
    (root / "sm_90").chmod(0o777)
    assert kinds(upkeep.user_layer()) == ["refused"]
    upkeep.clear_cache(upkeep.user_layer())
    (root / "sm_90").chmod(0o700)
    assert found(root, "a")


def test_an_index_that_somebody_is_about_to_fill_is_no_damage(root: Path) -> None:
    """It is empty while the first writer holds its lock, whose segment is there already."""
    (path,) = fill(root, "a")
    path.with_name("index.cuix").write_bytes(b"")
    assert kinds(upkeep.user_layer()) == []
    path.rename(path.with_name(f"seg-{time.time_ns() - 100 * 10**9:016x}.cuar"))
    assert kinds(upkeep.user_layer()) == ["index"]


def test_verifying_beside_a_merge(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A segment that was merged away after the index was read is not missing."""
    fill(root, "a", "b", "c")
    read = upkeep._read_index
    reads = []

    def read_then_merge(folder: str) -> Any:
        index = read(folder)
        if not reads:
            fill(root, *"defghijk")
        reads.append(folder)
        return index

    monkeypatch.setattr(upkeep, "_read_index", read_then_merge)
    before = set((root / "sm_90").glob("seg-*"))
    assert kinds(upkeep.user_layer()) == []
    assert before - set((root / "sm_90").glob("seg-*")), "some were merged"
    assert len(reads) == 2


# removing


def test_pruning_by_size_takes_the_least_recently_used(root: Path) -> None:
    paths = fill(root, "a", "b", "c", "d")
    for age, path in enumerate(reversed(paths)):
        os.utime(path, (time.time() - age * 1000,) * 2)
    size = paths[0].stat().st_size
    layer = upkeep.user_layer()
    told = upkeep.prune_cache(layer, limit=3 * size, dry_run=True)
    assert all(found(root, name) for name in "abcd")
    removed = upkeep.prune_cache(layer, limit=3 * size)
    assert (removed.images, removed.files, removed.bytes) == (told.images, told.files, told.bytes)
    assert removed.images == removed.files == 2
    assert [found(root, name) for name in "abcd"] == [False, False, True, True]
    assert upkeep.prune_cache(layer) == upkeep.Removed()


def test_pruning_by_use(root: Path) -> None:
    first, second = fill(root, "a", "b")
    os.utime(first, (time.time() - 40 * 86400,) * 2)
    os.utime(second, (time.time() - 20 * 86400,) * 2)
    assert upkeep.prune_cache(upkeep.user_layer(), unused_days=30).images == 1
    assert [found(root, name) for name in "ab"] == [False, True]


def test_pruning_sweeps_what_killed_writers_left(root: Path) -> None:
    (path,) = fill(root, "a")
    young, old = path.with_name("seg-00000000000000aa.cuar"), path.with_name("seg-00000000000000bb.cuar")
    for leftover in (young, old):
        shutil.copyfile(path, leftover)
    os.utime(old, (time.time() - 7200,) * 2)
    assert [one.leftover for one in upkeep.survey_layer(upkeep.user_layer())] == [2]
    removed = upkeep.prune_cache(upkeep.user_layer())
    assert (removed.images, removed.files) == (0, 1)
    assert young.exists()
    assert found(root, "a")


def test_clearing_leaves_what_is_not_ours(root: Path) -> None:
    fill(root, "a", "b")
    fill(root, "a", target="sm_80")
    Cache(str(root)).write_note("tools-1", b"x")
    others = [root / "mine.txt", root / "sm_90" / "mine.txt", root / "notes" / "mine.txt", root / "work" / "seg-x.cuar"]
    for path in others:
        path.parent.mkdir(exist_ok=True)
        path.write_text("kept")
    assert upkeep.clear_cache(upkeep.user_layer(), ["sm_80"]).images == 1
    assert [found(root, "a", target) for target in ("sm_80", "sm_90")] == [False, True]
    removed = upkeep.clear_cache(upkeep.user_layer())
    assert (removed.images, removed.files, removed.busy) == (2, 3, [])
    assert not any(found(root, name) for name in "ab")
    assert [path.read_text() for path in others] == ["kept"] * 4
    assert not list(root.glob("*/seg-0*"))
    fill(root, "a")
    assert found(root, "a")
    with pytest.raises(CudabuildError, match="nothing is cached for sm_35\n"):
        upkeep.clear_cache(upkeep.user_layer(), ["sm_35"])


def test_a_link_to_elsewhere_in_a_cache_is_not_followed(root: Path, tmp_path: Path) -> None:
    fill(root, "a")
    fill(tmp_path / "other", "a", target="sm_80")
    (root / "sm_80").symlink_to(tmp_path / "other" / "sm_80", target_is_directory=True)
    upkeep.clear_cache(upkeep.user_layer())
    assert found(tmp_path / "other", "a", "sm_80")


def test_an_emptied_cache_whose_index_was_damaged(root: Path) -> None:
    (path,) = fill(root, "a")
    path.with_name("index.cuix").write_bytes(b"nonsense")
    os.utime(path, (time.time() - 100,) * 2)
    assert upkeep.clear_cache(upkeep.user_layer()).files == 1
    assert not path.exists()
    assert not found(root, "a")


# beside others

_WORKER = """
    import os, sys, time
    sys.path[:0] = sys.argv[1:3]
    from image_making import make_image
    from cudabuild.cache.store import Cache
    root, number, enough = sys.argv[3], int(sys.argv[4]), sys.argv[5]
    made = turn = 0
    while turn < 30 or not os.path.exists(enough):
        turn += 1
        cache = Cache(root)
        for name in (f"k{number}", "common", f"r{turn % 7}"):
            wanted = make_image(name)
            def make():
                global made
                made += 1
                return make_image(name)
            image = cache.build_once(wanted.key, "sm_90", make)
            assert bytes(image.data) == bytes(wanted.data) and image.symbol == wanted.symbol
    print(made)
"""


def run_beside(root: Path, disturb: Callable[[], bool]) -> tuple[int, str]:
    """Four processes look and compile until ``disturb`` has removed something five times; how much they compiled, and
    what they told."""
    enough = root.with_name("enough")
    paths = [str(CHECKOUT), str(CHECKOUT / "tests"), str(root)]
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(_WORKER), *paths, str(number), str(enough)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    count = 0
    while any(worker.poll() is None for worker in workers):
        count += disturb()
        if count >= 5:
            enough.touch()
        time.sleep(0.01)
    told = [worker.communicate() for worker in workers]
    assert [worker.returncode for worker in workers] == [0] * 4, told
    return sum(int(out) for out, _ in told), "".join(err for _, err in told)


def test_clearing_and_pruning_while_others_compile_and_read(root: Path) -> None:
    removed = []

    def disturb() -> bool:
        layer = upkeep.user_layer()
        if layer.state != "ready":
            return False
        removed.append(upkeep.clear_cache(layer).images)
        removed.append(upkeep.prune_cache(layer, limit=2000).images)
        assert kinds(layer) == []
        return sum(removed[-2:]) > 0

    made, told = run_beside(root, disturb)
    assert told == ""
    assert made > 12, "each of twelve once, and what was cleared anew"
    assert sum(removed) > 5


def test_the_whole_folder_goes_while_others_compile_and_read(root: Path) -> None:
    """``rm -rf``: the right images all the same, and a warning at most."""

    def disturb() -> bool:
        time.sleep(0.04)
        found = any(root.glob("sm_90/seg-*"))
        shutil.rmtree(root, ignore_errors=True)
        return found

    made, told = run_beside(root, disturb)
    assert made > 12
    assert "Traceback" not in told
    assert len(told.splitlines()) <= 4 * 2, told
