# SPDX-License-Identifier: Apache-2.0
"""Images published together: what is not published yet is found, and nobody makes it a second time."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest
from image_making import make_image

from cudabuild import config
from cudabuild.cache import batch as module
from cudabuild.cache.batch import Batch
from cudabuild.cache.store import Cache


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "cache")


@pytest.fixture(autouse=True)
def _warn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())


def test_what_waits_is_found_here_and_after_the_flush_everywhere(root: str) -> None:
    batch = Batch(Cache(root))
    images = [make_image(f"k{n}", target=target) for n in range(5) for target in ("sm_80", "sm_90")]
    for image in images:
        batch.claim(image.key)
        batch.add(image)
        assert batch.find(image.key, image.target) is image
        assert Cache(root).find(image.key, image.target) is None
    batch.flush()
    for image in images:
        assert Cache(root).find(image.key, image.target) is not None
    assert len(list(Path(root).rglob("seg-*"))) == 2  # one a target


def test_many_or_old_images_are_published_by_themselves(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST_IMAGES", 3)
    batch = Batch(Cache(root))
    images = [make_image(f"k{n}") for n in range(5)]
    for image in images[:3]:
        batch.claim(image.key)
        batch.add(image)
    assert all(Cache(root).find(image.key, "sm_90") for image in images[:3])
    batch.claim(images[3].key)
    batch._longest = 0.0
    batch.add(images[3])
    assert Cache(root).find(images[3].key, "sm_90") is not None


def test_who_wants_the_same_image_waits_for_the_flush(root: str) -> None:
    first, second = Batch(Cache(root)), Batch(Cache(root))
    image = make_image("k")
    first.claim(image.key)
    first.add(image)
    found: list[object] = []

    def want() -> None:
        second.claim(image.key)
        found.append(second.find(image.key, "sm_90"))
        second.flush()

    thread = threading.Thread(target=want)
    thread.start()
    time.sleep(0.2)
    assert found == []
    first.flush()
    thread.join(10)
    assert found != [None]
    assert len(found) == 1


def test_two_batches_never_wait_for_each_other(root: str) -> None:
    one, other = make_image("one"), make_image("other")
    batches = [Batch(Cache(root)), Batch(Cache(root))]
    ready = threading.Barrier(2)

    def work(batch: Batch, mine: bytes, theirs: bytes) -> None:
        batch.claim(mine)
        ready.wait()
        batch.claim(theirs)  # held by the other batch, which claims ours
        batch.flush()

    threads = [
        threading.Thread(target=work, args=(batches[0], one.key, other.key)),
        threading.Thread(target=work, args=(batches[1], other.key, one.key)),
    ]
    start = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert time.monotonic() - start < 30  # far below the bound of a wait


def test_without_a_place_to_write_images_stay_in_memory(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    cache = Cache(str(tmp_path / "file" / "cache"))
    batch = Batch(cache)
    image = make_image("k")
    batch.claim(image.key)
    batch.add(image)
    batch.flush()
    assert cache.find(image.key, "sm_90") is not None
