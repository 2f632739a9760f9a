# SPDX-License-Identifier: Apache-2.0
"""Of many images, which comes nearest to what is wanted, and what is told of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from cases_kit import SPEC, TOOLS, Array, Machine, load, ship
from image_making import make_image

from cudabuild.definition import DEFAULT_OPTIONS, KernelDefinition
from cudabuild.errors import ImageFormatError, NoImageError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.image.archive import Archive, write_archive
from cudabuild.image.image import DeviceInfo, ImageRequest, KernelImage
from cudabuild.image.nearest import describe_nearest
from cudabuild.types import float32, float64

KERNEL = "N = 4\nM = 1\ndef k(x):\n    x[0] = N * M\n"


class Maker:
    """Images of kernels of one module, and what is said of them."""

    def __init__(self, folder: Path, text: str = KERNEL) -> None:
        self.folder = folder
        self.module = load(folder, text, "near_module")

    def make(self, name: str = "k", spec: Any = SPEC, values: Mapping[str, Any] | None = None, **changes: Any) -> Any:
        """An image of a kernel as it was when some of its values were others."""
        now = {key: vars(self.module)[key] for key in values or {}}
        vars(self.module).update(values or {})
        options = DEFAULT_OPTIONS.replace(**changes.pop("written", {}))
        definition = KernelDefinition(vars(self.module)[name], spec, None, options)
        fingerprint = compute_fingerprint(definition, definition.signatures[0])
        vars(self.module).update(now)
        extra = {"toolchain": TOOLS, "target": "sm_90", "index_width": 32, "options": {}, **changes}
        differing = {key: value for key, value in options.values.items() if value != DEFAULT_OPTIONS[key]}
        extra["options"] = {**differing, **extra["options"]}
        signature = dict(fingerprint.parts)["(signature)"]
        image = make_image(name, signature=signature, fingerprint=fingerprint.digest, **extra)
        stamped: KernelImage = image.stamp(fingerprint)
        stamped.key = bytes(32)
        return stamped

    def describe(self, *images: KernelImage, width: int = 32, spec: Any = SPEC, **how: Any) -> str:
        definition = KernelDefinition(self.module.k, spec)
        signature = definition.signatures[0]
        request = ImageRequest(
            definition, signature, DeviceInfo((9, 0), 13000), width,
            lambda: compute_fingerprint(definition, signature).digest,
        )  # fmt: skip
        write_archive(self.folder / "sm_90.cuar", images, "sm_90")
        return describe_nearest(Archive(str(self.folder / "sm_90.cuar")).records(), request, **how)


@pytest.fixture
def maker(tmp_path: Path) -> Maker:
    return Maker(tmp_path)


HEAD = "near_module:k(float32[::1]) for sm_90; "


def test_the_image_that_is_wanted_is_not_told_of(maker: Maker) -> None:
    assert maker.describe(maker.make()) == ""
    assert maker.describe(maker.make(), named=True) == ""
    other = maker.make(spec="float64[::1]")
    assert maker.describe(other, maker.make(), named=True) == ""


def test_an_image_of_the_same_overload_is_described_where_that_is_asked_for(maker: Maker) -> None:
    changed = maker.make(values={"N": 5})
    assert maker.describe(changed) == "", "the provider told of it"
    assert maker.describe(changed, named=True) == HEAD + "N: 5 -> 4"


def test_the_fewest_differences_win(maker: Maker) -> None:
    images = [maker.make(values={"N": 5, "M": 2}), maker.make(values={"M": 3})]
    assert maker.describe(*images, named=True) == HEAD + "M: 3 -> 1"
    assert maker.describe(*reversed(images), named=True) == HEAD + "M: 3 -> 1"


def test_another_signature_comes_before_another_name(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KERNEL + "def copy(x):\n    x[0] = N * M\n")
    double, copy = maker.make(spec="float64[::1]"), maker.make("copy", values={"N": 9})
    expected = "near_module:k(float64[::1]) for sm_90; (signature): float64[::1] -> float32[::1]"
    assert maker.describe(copy, double) == expected


def test_a_copy_by_another_name_with_other_values(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KERNEL + "def copy(x):\n    x[0] = N * M\n")
    copy = maker.make("copy", values={"N": 9})
    expected = "near_module:copy(float32[::1]) for sm_90; kernel: near_module:copy -> near_module:k; N: 9 -> 4"
    assert maker.describe(copy) == expected


def test_what_has_other_code_and_another_name_is_not_near(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KERNEL + "def other(x):\n    x[0] = N + M\n")
    assert maker.describe(maker.make("other")) == ""


def test_width_options_tools_and_code_are_told(maker: Maker) -> None:
    assert maker.describe(maker.make(), width=64, named=True) == HEAD + "index width: 32 -> 64"
    fast = maker.make(written={"fastmath": True, "opt": 1})
    told = maker.describe(fast, named=True, options=DEFAULT_OPTIONS)
    assert told == HEAD + "(option fastmath): True -> False; option opt: 1 -> 3"
    newer = {**TOOLS, "llvmlite": "0.51", "linker": "x"}
    told = maker.describe(maker.make(), named=True, toolchain=lambda target: newer)
    assert told == HEAD + "tool llvmlite: 0.50 -> 0.51; tool linker: nothing -> x"
    assert maker.describe(maker.make(), named=True, toolchain=lambda target: None) == ""
    older = maker.make(launch_abi=99)
    assert maker.describe(older, named=True).startswith(HEAD + "launch ABI: 99 -> ")


def test_long_values_are_told_by_their_beginnings(tmp_path: Path) -> None:
    maker = Maker(tmp_path, KERNEL)
    edited = maker.make(values={"N": "a" * 500})
    maker.module = load(tmp_path, KERNEL.replace("N * M", "N - M"), "near_module")
    told = maker.describe(edited, named=True)
    code, value = told.removeprefix(HEAD).split("; ")
    before, after = code.removeprefix("(code): ").split(" -> ")
    assert len(before) == len(after) == 13
    assert before.endswith("…")
    assert value.startswith("N: str ")
    assert value.endswith("… -> 4")
    assert len(value) < 80


def test_where_there_is_no_source_nothing_is_near(maker: Maker) -> None:
    image = maker.make(values={"N": 5})
    (maker.folder / "near_module.py").unlink()
    import linecache

    linecache.clearcache()
    assert maker.describe(image, named=True) == ""


def test_a_damaged_record_is_passed_over(maker: Maker) -> None:
    class Damaged:
        module, qualname, signature, options, decorated = "near_module", "k", "float32[::1]", {}, ()

        def read_extra(self) -> Any:
            raise ImageFormatError("the record of an image is damaged")

    write_archive(maker.folder / "sm_90.cuar", [maker.make(values={"N": 5})], "sm_90")
    records: list[Any] = [Damaged(), *Archive(str(maker.folder / "sm_90.cuar")).records(), Damaged()]
    definition = KernelDefinition(maker.module.k, SPEC)
    request = ImageRequest(definition, (float32[::1],), DeviceInfo((9, 0), 13000), 32, bytes)
    assert describe_nearest(records, request, named=True) == HEAD + "N: 5 -> 4"


def test_a_launch_without_an_image_names_the_nearest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what ships, and of what is kept."""
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    module = load(tmp_path, KERNEL, "near_shipped")
    ship(tmp_path / "_cudabuild_near_shipped", [module.k], "sm_90")
    machine = Machine(tmp_path / "cache")
    kernel = machine.kernel(module.k)
    kernel.definition = KernelDefinition(module.k, "float64[::1]")

    class Doubles(Array):
        __cuda_array_interface__ = {**Array.__cuda_array_interface__, "typestr": "<f8"}

    with pytest.raises(NoImageError) as told:
        kernel[1, 32](Doubles())
    expected = "near_shipped:k(float32[::1]) for sm_90; (signature): float32[::1] -> float64[::1]"
    assert f"  shipped: nearest is {expected}" in str(told.value).splitlines()
    monkeypatch.delenv("CUDABUILD_JIT")
    kept = load(tmp_path, KERNEL, "near_kept")
    machine = Machine(tmp_path / "cache")
    machine.launch(kept.k)
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    kernel = machine.kernel(kept.k)
    kernel.definition = KernelDefinition(kept.k, [(float64[::1],)])
    with pytest.raises(NoImageError) as told:
        kernel[1, 32](Doubles())
    assert f"  cached: nearest is {expected.replace('shipped', 'kept')}" in str(told.value).splitlines()
