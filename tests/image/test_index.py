# SPDX-License-Identifier: Apache-2.0
"""The JSON index: what it says, and that its schema holds."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path
from typing import Any

import pytest
from image_making import make_image

from cudabuild.errors import ImageFormatError
from cudabuild.image.index import build_index, check_index, format_index, read_index, write_index
from cudabuild.image.left import KINDS, LeftToJit, find_left

IMAGES = [
    make_image(name, target=target, index_width=width, options={"launch_bounds": (128, 2)})
    for name in ("b", "a")
    for target in ("sm_90", "sm_80", "compute_75")
    for width in (64, 32)
]
LEFT = [
    LeftToJit("package.module", "late", "no-signature", "package/module.py", 12, "def late(x):", "", "none", ["do"])
]


def index() -> dict[str, Any]:
    return build_index("package", IMAGES, {"sm_80": 1000, "sm_90": 2000, "compute_75": 3000}, LEFT)


def test_what_a_person_asks() -> None:
    found = index()
    assert list(found["targets"]) == ["sm_80", "sm_90", "compute_75"]
    assert found["targets"]["sm_90"] == {
        "file": "sm_90.cuar",
        "images": 4,
        "bytes": 2000,
        "minimum_driver": 12000,
        "toolchain": {"llvm": "22.1", "nvjitlink": "12.9"},
    }
    assert found["targets"]["compute_75"]["minimum_driver"] == 11000
    assert [kernel["qualname"] for kernel in found["kernels"]] == ["a", "b"]
    kernel = found["kernels"][0]
    assert kernel["free_values"] == {"N": "4"}
    assert kernel["options"] == {"launch_bounds": [128, 2]}
    assert [(image["target"], image["index_width"]) for image in kernel["images"]] == [
        ("sm_80", 32), ("sm_80", 64), ("sm_90", 32), ("sm_90", 64), ("compute_75", 32), ("compute_75", 64),
    ]  # fmt: skip
    assert find_left(found) == LEFT
    assert find_left(found, "package.module", "late") == LEFT
    assert find_left(found, "package.module", "a") == []


def test_the_same_images_give_the_same_text() -> None:
    again = build_index("package", reversed(IMAGES), {"compute_75": 3000, "sm_90": 2000, "sm_80": 1000}, LEFT)
    assert format_index(again) == format_index(index())


def test_files_round_trip(tmp_path: Path) -> None:
    write_index(tmp_path / "index.json", index())
    assert read_index(tmp_path / "index.json") == json.loads(format_index(index()))
    assert [entry.name for entry in tmp_path.iterdir()] == ["index.json"]


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["schema"], 2, "index.schema is 2, expected one of [1]"),
        (["package"], None, "index.package is a NoneType, expected string"),
        (["launch_abi"], True, "index.launch_abi is a bool, expected integer"),
        (["more"], 1, "index has an unknown field more"),
        (
            ["kernels", 0, "images", 1, "index_width"],
            16,
            "index.kernels[0].images[1].index_width is 16, expected one of",
        ),
        (["kernels", 0, "free_values", "N"], 4, "index.kernels[0].free_values.N is a int, expected string"),
        (["left_to_jit", 0], {"module": "m"}, "index.left_to_jit[0] lacks qualname, kind, file, line"),
        (["targets", "sm_80", "toolchain"], [], "index.targets.sm_80.toolchain is a list, expected object"),
    ],
)
def test_the_schema_holds(path: list[Any], value: Any, message: str) -> None:
    changed = copy.deepcopy(index())
    place: Any = changed
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(ImageFormatError) as caught:
        check_index(changed)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 5000, b'{"schema": 1}'])
def test_damaged_files_are_one_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "index.json"
    path.write_bytes(data)
    with pytest.raises(ImageFormatError, match="no index of this version"):
        read_index(path)


def test_why_a_kernel_was_left_to_jit_for_people() -> None:
    left = LeftToJit("p.m", "k", "import", "p/m.py", 3, "import x", "T", "imports 'x'", ["do this", "or that"])
    assert str(left) == "p/m.py:3: imports 'x' (needed for T)"
    assert left.explain() == (
        "p.m:k\n  reason:   p/m.py:3: imports 'x'\n  found:    import x\n  needed:   for T\n"
        "  do:       do this\n  or:       or that"
    )
    assert LeftToJit.from_entry(left.as_entry()) == left == pickle.loads(pickle.dumps(left))
    assert all(remedies and all(remedies) for remedies in KINDS.values())
