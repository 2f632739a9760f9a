# SPDX-License-Identifier: Apache-2.0
"""The target table, the architecture-list grammar and its messages."""

from __future__ import annotations

import pickle

import pytest

from cudabuild.errors import TargetError
from cudabuild.target import (
    TARGETS,
    Target,
    cuda_of_isa,
    find_target,
    minimum_driver,
    parse_archs,
    parse_target,
    sort_targets,
)

PLAIN = ["75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"]
SUFFIXED = ["90a"] + [number + suffix for number in ("100", "103", "110", "120", "121") for suffix in "af"]


def names(targets: list[Target]) -> list[str]:
    return [target.name for target in targets]


def test_the_table_holds_these_targets_and_no_other() -> None:
    cubins = {f"sm_{number}" for number in PLAIN + SUFFIXED}
    assert set(TARGETS) == cubins | {f"compute_{number}" for number in PLAIN}


def test_only_two_numbers_need_a_linker_of_cuda_13() -> None:
    assert {t.name for t in TARGETS.values() if t.linker == (13, 0)} == {
        "sm_88", "sm_110", "sm_110a", "sm_110f", "compute_88", "compute_110",
    }  # fmt: skip
    assert {t.linker for t in TARGETS.values()} == {(12, 9), (13, 0)}


@pytest.mark.parametrize(
    ("name", "isa"),
    [
        ("75", (7, 0)), ("80", (7, 0)), ("86", (7, 1)), ("87", (7, 4)), ("88", (9, 0)), ("89", (7, 8)), ("90", (7, 8)),
        ("90a", (8, 0)), ("100", (8, 6)), ("100a", (8, 6)), ("100f", (8, 8)), ("103", (8, 8)), ("110", (9, 0)),
        ("120", (8, 7)), ("121", (8, 8)),
    ],
)  # fmt: skip
def test_oldest_isa(name: str, isa: tuple[int, int]) -> None:
    assert parse_target(name).ptx_isa == isa


def test_a_target_is_immutable_and_survives_pickling() -> None:
    target = parse_target("sm_100f")
    with pytest.raises(AttributeError, match="immutable"):
        target.suffix = "a"
    copy = pickle.loads(pickle.dumps(target))
    assert copy == target
    assert (copy.cc, copy.suffix, copy.linker, copy.ptx_isa) == ((10, 0), "f", (12, 9), (8, 8))
    assert str(copy) == "sm_100f"
    assert hash(copy) == hash(target)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("86", "sm_86"), ("8.6", "sm_86"), ("sm_86", "sm_86"), ("SM_86", "sm_86"), ("86-real", "sm_86"),
        ("86-virtual", "compute_86"), ("compute_86", "compute_86"), ("9.0a", "sm_90a"), ("90a", "sm_90a"),
        ("sm_100F", "sm_100f"), ("12.0f", "sm_120f"), ("100f-real", "sm_100f"), ("103", "sm_103"), ("10.3", "sm_103"),
    ],
)  # fmt: skip
def test_spellings_of_one_target(text: str, expected: str) -> None:
    assert parse_target(text).name == expected


@pytest.mark.parametrize("name", list(TARGETS))
def test_names_round_trip(name: str) -> None:
    assert parse_target(name) is TARGETS[name]
    assert find_target(name) is TARGETS[name]


@pytest.mark.parametrize("name", ["", "sm_", "sm_9", "sm_1000", "sm_9x", "gfx_90", "compute_90a", "sm_٩٠", "host-x"])
def test_find_target_refuses_what_is_no_name(name: str) -> None:
    assert find_target(name) is None


def test_a_newer_target_is_found_but_not_known() -> None:
    target = find_target("sm_107f")
    assert target is not None
    assert (target.cc, target.suffix, target.is_known) == ((10, 7), "f", False)


def test_lists_are_sorted_and_without_repeats() -> None:
    archs = "90a;8.6, 75 86-real 120+PTX sm_90"
    assert names(parse_archs(archs, ptx="none")) == ["sm_75", "sm_86", "sm_90", "sm_90a", "sm_120", "compute_120"]
    assert parse_archs(archs) == parse_archs(list(reversed(archs.replace(";", " ").replace(",", " ").split())))
    assert sort_targets(reversed(list(TARGETS.values()))) == list(TARGETS.values())


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        ("lowest", ["compute_80"]),
        ("newest", ["compute_90"]),
        ("none", []),
        (["75", "8.9"], ["compute_75", "compute_89"]),
        ("compute_86", ["compute_86"]),
    ],
)
def test_ptx_in_addition(ptx: str | list[str], expected: list[str]) -> None:
    assert names(parse_archs(["80", "90a"], ptx=ptx)) == ["sm_80", "sm_90a", *expected]


def test_ptx_beside_a_suffix_has_none() -> None:
    assert names(parse_archs("90a+PTX", ptx="none")) == ["sm_90a", "compute_90"]


def test_all_leaves_out_what_the_linker_cannot_make() -> None:
    assert names(parse_archs("all", ptx="none")) == [f"sm_{number}" for number in PLAIN]
    without = [f"sm_{number}" for number in PLAIN if number not in ("88", "110")]
    assert names(parse_archs("ALL", ptx="none", linker=(12, 9))) == without
    assert names(parse_archs("all-major", ptx="none", linker=(12, 9))) == [
        "sm_75",
        "sm_80",
        "sm_90",
        "sm_100",
        "sm_120",
    ]


def test_native_takes_the_best_plain_cubin_of_each_gpu() -> None:
    assert names(parse_archs("native", ptx="none", native=lambda: [(9, 0), (8, 6), (9, 0)])) == ["sm_86", "sm_90"]
    assert names(parse_archs("native", ptx="none", native=lambda: [(10, 7)])) == ["sm_103"]


def message(archs: str | list[str], **options: object) -> str:
    with pytest.raises(TargetError) as caught:
        parse_archs(archs, **options)  # type: ignore[arg-type]
    return str(caught.value)


EVERY = (
    "sm_75, sm_80, sm_86, sm_87, sm_88, sm_89, sm_90, sm_90a, sm_100, sm_100a, sm_100f, sm_103, sm_103a, sm_103f, "
    "sm_110, sm_110a, sm_110f, sm_120, sm_120a, sm_120f, sm_121, sm_121a, sm_121f"
)


@pytest.mark.parametrize(
    ("entry", "near"),
    [("sm_91", "90"), ("101", "110"), ("101a", "110a"), ("70", "75"), ("natve", "native"), ("compute_99", "100"),
     ("80a", "80"), ("all-majors", "all-major"), ("13.0", "121")],
)  # fmt: skip
def test_unknown_entries_name_the_nearest(entry: str, near: str) -> None:
    assert message(entry) == (
        "no such target\n"
        f"  found:    {entry!r}\n"
        f"  expected: {EVERY}, each also as compute_… without a suffix, or native, all, all-major\n"
        f"  do:       did you mean {near!r}?"
    )


def test_ptx_with_a_suffix() -> None:
    assert message("compute_90a") == (
        "no such target\n"
        "  found:    'compute_90a'\n"
        "  expected: PTX without 'a': it runs on its own device and on newer ones\n"
        "  do:       write 'compute_90', or 'sm_90a' for a cubin"
    )


def test_an_empty_list() -> None:
    assert message(" ; ,") == (
        "no target\n"
        "  found:    an empty list of architectures\n"
        "  expected: names such as 80, 90a or all-major\n"
        '  do:       set archs, for example archs = ["80", "90"]'
    )


def test_native_without_a_gpu() -> None:
    expected = (
        "no GPU to build for\n"
        "  found:    'native' on a machine without an NVIDIA GPU\n"
        "  expected: the numbers of the GPUs that the code is to run on\n"
        '  do:       name them, for example archs = ["80", "90"], or "all-major"'
    )
    assert message("native") == expected
    assert message("native", native=list) == expected


def test_native_with_a_gpu_too_old() -> None:
    assert "found:    compute capability 6.1" in message("native", native=lambda: [(6, 1)])


def test_one_target_is_not_two() -> None:
    with pytest.raises(TargetError, match="one target expected") as caught:
        parse_target("86+PTX")
    assert "one of sm_86, compute_86" in str(caught.value)


@pytest.mark.parametrize(
    ("isa", "cuda"),
    [((6, 3), (10, 0)), ((7, 8), (11, 8)), ((8, 0), (12, 0)), ((8, 5), (12, 5)), ((8, 6), (12, 7)), ((8, 8), (12, 9)),
     ((9, 0), (13, 0)), ((9, 5), (13, 5))],
)  # fmt: skip
def test_cuda_of_isa(isa: tuple[int, int], cuda: tuple[int, int]) -> None:
    assert cuda_of_isa(isa) == cuda


def test_minimum_driver() -> None:
    assert minimum_driver(parse_target("90")) == 12000
    assert minimum_driver(parse_target("90"), linker=(13, 2)) == 13000
    assert minimum_driver(parse_target("110")) == 13000
    assert minimum_driver(parse_target("compute_75")) == 11000
    assert minimum_driver(parse_target("compute_75"), ptx_isa=(8, 7)) == 12080
