# SPDX-License-Identifier: Apache-2.0
"""Image keys: each labelled part changes the key, and nothing else does."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from cudabuild.definition import OPTIONS, Options
from cudabuild.fingerprint import Fingerprint, image_key
from cudabuild.fingerprint.key import differences, key_parts
from cudabuild.target import TARGETS, parse_target

texts = st.text(max_size=6)
parts = st.lists(st.tuples(texts, texts), min_size=1, max_size=5)


def fingerprint(parts: list[tuple[str, str]], module: str = "m", qualname: str = "k") -> Fingerprint:
    return Fingerprint(parts, module=module, qualname=qualname, decorated=(), checks=(), sources=(), unresolved=())


@given(parts, parts)
def test_fingerprints_are_equal_exactly_when_their_parts_are(one: list[tuple[str, str]], two: list[Any]) -> None:
    assert (fingerprint(one).digest == fingerprint(two).digest) is (one == two)


@given(parts, st.data())
def test_one_changed_part_changes_the_digest(old: list[tuple[str, str]], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(old) - 1))
    label, value = old[place]
    changed = data.draw(texts.filter(lambda text: text != value))
    new = [*old[:place], (label, changed), *old[place + 1 :]]
    assert fingerprint(old).digest != fingerprint(new).digest


def test_text_cannot_move_between_label_and_value() -> None:
    digests = {fingerprint([pair]).digest for pair in [("ab", "c"), ("a", "bc"), ("abc", ""), ("", "abc")]}
    assert len(digests) == 4


BASE: dict[str, Any] = {
    "fingerprint": fingerprint([("N", "4")]),
    "target": parse_target("sm_90"),
    "index_width": 32,
    "options": Options({}),
    "toolchain": {"llvm": "22.1", "nvjitlink": "12.9", "libdevice": "ab12"},
    "salt": "",
}
OTHER_OPTIONS = {"opt": 0, "lineinfo": True, "max_registers": 32, "launch_bounds": 128}


def test_every_part_changes_the_key() -> None:
    changes: list[dict[str, Any]] = [
        {"fingerprint": fingerprint([("N", "5")])},
        {"fingerprint": fingerprint([("N", "4")], module="other")},
        {"fingerprint": fingerprint([("N", "4")], qualname="other")},
        *({"target": target} for target in TARGETS.values() if target.name != "sm_90"),
        {"index_width": 64},
        *({"options": Options({name: value})} for name, value in OTHER_OPTIONS.items()),
        *({"toolchain": {**BASE["toolchain"], label: "other"}} for label in BASE["toolchain"]),
        {"toolchain": {**BASE["toolchain"], "driver linker": "12.8"}},
        {"toolchain": {"llvm": "22.1"}},
        {"salt": "mine"},
    ]
    keys = [image_key(**{**BASE, **change}) for change in [{}, *changes]]
    assert len(set(keys)) == len(keys)
    assert all(len(key) == 32 for key in keys)
    for change in changes:
        assert differences(key_parts(**BASE), key_parts(**{**BASE, **change}))


def test_options_that_change_results_count_in_the_fingerprint_only() -> None:
    assert set(OTHER_OPTIONS) == {spec.name for spec in OPTIONS if not spec.changes_results}
    assert image_key(**{**BASE, "options": Options({"fastmath": True})}) == image_key(**BASE)


def test_the_order_of_the_toolchain_does_not_count() -> None:
    mixed = dict(reversed(BASE["toolchain"].items()))
    assert image_key(**{**BASE, "toolchain": mixed}) == image_key(**BASE)


def test_differences_are_told_line_by_line() -> None:
    assert differences([("a", "1"), ("b", "2")], [("b", "3"), ("c", "4")]) == [
        "a: 1 -> nothing", "b: 2 -> 3", "c: nothing -> 4",
    ]  # fmt: skip
