# SPDX-License-Identifier: Apache-2.0
"""Which record of an archive answers a request."""

from __future__ import annotations

import importlib
import itertools
import linecache
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from image_making import make_image

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition, Options
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.archive import Archive, write_archive
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage
from cudabuild.image.provider import Matcher, find_in_archive
from cudabuild.types import float32

TEXT = "N = 4\ndef other(x): x[0] = 1\ndef k(x): x[0] = N\n"
SIGNATURE = (float32[::1],)
_numbers = itertools.count()


@pytest.fixture(autouse=True)
def _importable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))


def load(folder: Path, text: str = TEXT, name: str = "") -> ModuleType:
    name = name or f"matching_{next(_numbers)}"
    (folder / f"{name}.py").write_text(text, "utf-8")
    importlib.invalidate_caches()
    sys.modules.pop(name, None)
    return importlib.import_module(name)


def archive_of(folder: Path, module: ModuleType, *variants: dict[str, Any]) -> Archive:
    """An archive with images of ``module.k``, as a build makes them; each variant changes some fields."""
    images: list[KernelImage] = []
    for number, variant in enumerate(variants):
        options = Options(variant.get("options", {}))
        fingerprint = compute_fingerprint(KernelDefinition(module.k), SIGNATURE, options)
        fields = {"signature": "float32[::1]", "fingerprint": fingerprint.digest, "symbol": f"k{number}", **variant}
        images.append(make_image("k", **fields).stamp(fingerprint))
    path = folder / f"a{next(_numbers)}.cuar"

    write_archive(path, images, "sm_90")
    return Archive(str(path))


class Asked:
    """A request that counts how often its fingerprint was computed."""

    def __init__(
        self, module: ModuleType, width: int = 32, options: Options = DEFAULT_OPTIONS, driver: int = 13000, k: str = "k"
    ) -> None:
        self.count = 0
        self.definition = KernelDefinition(getattr(module, k), options=options)
        device = DeviceInfo((9, 0), driver)
        self.request = ImageRequest(self.definition, SIGNATURE, device, width, self.fingerprint)
        self.matcher = Matcher(self.request, by_name=True)

    def fingerprint(self) -> bytes:
        self.count += 1
        return compute_fingerprint(self.definition, SIGNATURE).digest

    def find(self, archive: Archive) -> Any:
        record = find_in_archive(archive, self.matcher)
        return None if record is None else record.load_image("shipped")


BOTH = ({"index_width": 32}, {"index_width": 64})


def test_an_untouched_install_is_bound_without_a_fingerprint(tmp_path: Path) -> None:
    module = load(tmp_path)
    asked = Asked(module)
    image = asked.find(archive_of(tmp_path, module, *BOTH))
    assert (image.index_width, image.origin, asked.count) == (32, "shipped", 0)


def test_widths(tmp_path: Path) -> None:
    module = load(tmp_path)
    both, narrow, wide = (archive_of(tmp_path, module, *widths) for widths in (BOTH, BOTH[:1], BOTH[1:]))
    assert Asked(module, 64).find(both).index_width == 64
    assert Asked(module, 32).find(wide).index_width == 64, "a 64-bit image serves any launch"
    asked = Asked(module, 64)
    assert asked.find(narrow) is None, "a 32-bit one never replaces a missing 64-bit one"
    assert asked.matcher.reason == "has 32-bit indices only; this launch needs 64"


def test_another_kernel_of_the_file_was_edited(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, *BOTH)
    edited = load(tmp_path, TEXT.replace("x[0] = 1", "x[0] = 2"), module.__name__)
    asked = Asked(edited)
    assert asked.find(archive).index_width == 32
    assert asked.count == 1


def test_this_kernel_was_edited(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, *BOTH)
    edited = load(tmp_path, TEXT.replace("x[0] = N", "x[0] = N + 1"), module.__name__)
    asked = Asked(edited)
    assert asked.find(archive) is None
    assert "differs from what was built" in asked.matcher.reason


def test_a_free_value_differs(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, *BOTH)
    module.N = 5
    asked = Asked(module)
    assert asked.find(archive) is None
    assert asked.matcher.reason == "N was 4 when built and is 5 now"
    module.N = 4
    assert Asked(module).find(archive) is not None


def test_build_settings_are_taken_over_unless_the_decorator_says_otherwise(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, {"options": {"fastmath": True, "lineinfo": True}})
    assert Asked(module).find(archive).options == {"fastmath": True, "lineinfo": True}
    said = Options({"fastmath": False}, frozenset({"fastmath"}))
    asked = Asked(module, options=said)
    assert asked.find(archive) is None
    assert asked.matcher.reason == "fastmath was True when built and is False now"
    edited = load(tmp_path, "# moved\n" + TEXT, module.__name__)
    assert Asked(edited).find(archive) is not None, "the fingerprint is taken under the recorded options"


def test_the_fitting_one_of_two_option_sets(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, {"options": {"opt": 0}}, {"options": {"opt": 2}})
    asked = Asked(module, options=Options({"opt": 2}, frozenset({"opt"})))
    assert asked.find(archive).options == {"opt": 2}


def test_launch_abi_and_driver(tmp_path: Path) -> None:
    module = load(tmp_path)
    asked = Asked(module)
    assert asked.find(archive_of(tmp_path, module, {"launch_abi": 99})) is None
    assert asked.matcher.reason == "has launch ABI 99; this version serves 2"
    newer = archive_of(tmp_path, module, {"attributes": {"minimum_driver": 13000}})
    asked = Asked(module, driver=12080)
    assert asked.find(newer) is None
    assert asked.matcher.reason == "needs a driver for CUDA 13.0 or newer; this one is for CUDA 12.8"
    assert Asked(module, driver=13000).find(newer) is not None


def test_a_kernel_under_another_name_is_found_by_its_fingerprint(tmp_path: Path) -> None:
    module = load(tmp_path)
    archive = archive_of(tmp_path, module, *BOTH)
    vendored = load(tmp_path, TEXT, "matching_vendored")
    asked = Asked(vendored)
    assert asked.find(archive).module == module.__name__
    asked = Asked(vendored, k="other")
    assert asked.find(archive) is None
    assert asked.matcher.reason == "holds no other(float32[::1])"


def test_without_checks_only_the_fingerprint_binds(tmp_path: Path) -> None:
    module = load(tmp_path)
    fingerprint = compute_fingerprint(KernelDefinition(module.k), SIGNATURE)

    image = make_image("k", module=module.__name__, signature="float32[::1]", fingerprint=fingerprint.digest, checks=())
    write_archive(tmp_path / "n.cuar", [image], "sm_90")
    asked = Asked(module)
    assert asked.find(Archive(str(tmp_path / "n.cuar"))) is not None
    assert asked.count == 1


def test_stamping_another_kernel_is_refused(tmp_path: Path) -> None:
    module = load(tmp_path)
    fingerprint = compute_fingerprint(KernelDefinition(module.k), SIGNATURE)
    with pytest.raises(ValueError, match="has another fingerprint"):
        make_image("k").stamp(fingerprint)
    image = make_image("k", fingerprint=fingerprint.digest).stamp(fingerprint)
    assert (image.module, image.checks, image.parts) == (module.__name__, fingerprint.checks, fingerprint.parts)
    assert image.toolchain == {"llvm": "22.1", "nvjitlink": "12.9"}


def made_at_a_prompt(text: str) -> Any:
    """A kernel as a prompt, a notebook cell or ``exec`` makes it: text in ``linecache``, no file, a name many share."""
    name = f"<cell {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), namespace)
    return namespace["k"]


@pytest.mark.parametrize("by_name", [True, False])
def test_a_kernel_without_a_file_never_counts_by_its_name(tmp_path: Path, by_name: bool) -> None:
    built = made_at_a_prompt("def k(x): x[0] = 1\n")
    definition = KernelDefinition(built)
    fingerprint = compute_fingerprint(definition, SIGNATURE)
    assert fingerprint.checks[0].source == b""
    fields = {"signature": "float32[::1]", "fingerprint": fingerprint.digest, "symbol": "k", "module": "__main__"}
    path = tmp_path / "cells.cuar"
    write_archive(path, [make_image("k", **fields).stamp(fingerprint)], "sm_90")
    archive = Archive(str(path))

    def find(text: str) -> Any:
        live = KernelDefinition(made_at_a_prompt(text))
        request = ImageRequest(
            live, SIGNATURE, DeviceInfo((9, 0), 13000), 32, lambda: compute_fingerprint(live, SIGNATURE).digest
        )
        return find_in_archive(archive, Matcher(request, by_name=by_name))

    assert find("def k(x): x[0] = 2\n") is None
    if not by_name:
        assert find("def k(x): x[0] = 1  # the same again\n") is not None


def test_one_of_many_kernels_of_one_name_is_found_by_its_fingerprint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A factory made them: comparing all would cost the first launch of each more than making its code."""
    module = load(tmp_path, "def make(n):\n    def k(x): x[0] = n\n    return k\n")
    count = 300
    made = [KernelDefinition(module.make(n), options=Options({})) for n in range(count)]
    fast = Options({"fastmath": True})  # as the build's settings said
    prints = [compute_fingerprint(definition, SIGNATURE, fast) for definition in made]
    images = [
        make_image("make.<locals>.k", signature="float32[::1]", fingerprint=found.digest, symbol=f"k{n}",
                   key=found.digest, options={"fastmath": True}).stamp(found)
        for n, found in enumerate(prints)
    ]  # fmt: skip
    write_archive(tmp_path / "many.cuar", images, "sm_90")
    archive = Archive(str(tmp_path / "many.cuar"))
    compared = 0
    real = Matcher._check

    def counted(self: Matcher, record: Any) -> str:
        nonlocal compared
        compared += 1
        return real(self, record)

    monkeypatch.setattr(Matcher, "_check", counted)

    def find(definition: KernelDefinition, known: Archive) -> Any:
        device = DeviceInfo((9, 0), 13000)
        request = ImageRequest(
            definition, SIGNATURE, device, 32, lambda: compute_fingerprint(definition, SIGNATURE).digest
        )
        return find_in_archive(known, Matcher(request, by_name=True))

    for n in (0, 7, count - 1):
        assert find(made[n], archive).symbol == f"k{n}"
    assert compared <= 3
    assert find(KernelDefinition(module.make(count)), archive) is None
    # Without source the values decide, however many there are.
    monkeypatch.setattr("cudabuild.image.provider.read_source_digest", lambda function: b"")
    monkeypatch.setattr("cudabuild.fingerprint.checks.read_source_digest", lambda function: b"")
    assert find(made[200], archive).symbol == "k200"
