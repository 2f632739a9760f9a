# SPDX-License-Identifier: Apache-2.0
"""Which nvJitLink makes what: of both versions, of one, of one that is too old, and as the setting says."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

from cudabuild.backend import cubin
from cudabuild.build.plan import split_targets
from cudabuild.errors import TargetError
from cudabuild.target import parse_archs

Install = Callable[..., None]

BOTH = {12: ("nvidia/nvjitlink/lib/libnvJitLink.so.12", "12.9.86"), 13: ("nvidia/cu13/lib/x.so.13", "13.5.37")}


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Install:
    """``install(v12="12.9.86", v13=None)``: what is found of NVIDIA's packages."""

    def found(v12: str | None = None, v13: str | None = None) -> None:
        versions = {major: version for major, version in ((12, v12), (13, v13)) if version}
        monkeypatch.setattr(cubin, "_installed", lambda: {major: BOTH[major][0] for major in versions})
        monkeypatch.setattr(cubin, "_package_version", versions.get)

    return found


@pytest.mark.parametrize(
    ("v12", "v13", "setting", "expected"),
    [
        ("12.9.86", "13.5.37", "auto", [(12, ["sm_80", "sm_120", "compute_80"]), (13, ["sm_88", "sm_110"])]),
        ("12.9.86", None, "auto", [(12, ["sm_80", "sm_120", "compute_80"]), (13, ["sm_88", "sm_110"])]),
        (None, "13.5.37", "auto", [(13, ["sm_80", "sm_88", "sm_110", "sm_120", "compute_80"])]),
        ("12.8.93", "13.5.37", "auto", [(13, ["sm_80", "sm_88", "sm_110", "sm_120", "compute_80"])]),
        ("12.9.86", "13.5.37", "13", [(13, ["sm_80", "sm_88", "sm_110", "sm_120", "compute_80"])]),
        (None, None, "auto", [(None, ["sm_80", "sm_88", "sm_110", "sm_120", "compute_80"])]),
    ],
    ids=["both", "12 alone", "13 alone", "a 12 that is too old", "as set", "a toolkit's alone"],
)
def test_targets_by_linker(
    install: Install, v12: str | None, v13: str | None, setting: str, expected: list[tuple[int | None, list[str]]]
) -> None:
    install(v12=v12, v13=v13)
    targets = parse_archs("80 88 110 120 compute_80", "none")
    found = [(linker, [target.name for target in group]) for linker, group in split_targets(targets, setting)]
    assert found == expected


def test_ptx_alone_needs_no_linker(install: Install) -> None:
    install()
    assert [(linker, list(map(str, group))) for linker, group in split_targets(parse_archs("compute_80", "none"))] == [
        (None, ["compute_80"])
    ]


def test_a_setting_that_cannot_make_a_target_is_told(install: Install) -> None:
    install("12.9.86", "13.5.37")
    with pytest.raises(TargetError) as caught:
        split_targets(parse_archs("80 88 110", "none"), "12")
    assert str(caught.value) == (
        "nvJitLink 12 cannot make sm_88, sm_110\n  found:    nvjitlink = 12\n  expected: auto, or 13\n"
        "  do:       with auto, each target is made by the oldest nvJitLink that can; both can be installed"
    )


def test_a_linker_that_is_set_and_missing_is_told() -> None:
    installed = cubin.installed_linkers()
    if set(installed) == {12, 13}:
        pytest.skip("both versions of nvJitLink are installed")
    (here,) = installed
    other = 25 - here
    code = (
        "from cudabuild.backend import cubin; from cudabuild.target import TARGETS; "
        f"cubin.choose_linker({other}); cubin.find_linker(TARGETS['sm_80'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ToolError: nvjitlink = {other} asks for nvJitLink {other}; found {here}." in done.stderr
