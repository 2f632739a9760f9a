# SPDX-License-Identifier: Apache-2.0
"""``[tool.cudabuild]``, the environment and the command line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cudabuild.build import settings as settings_module
from cudabuild.build.native import find_native_ccs
from cudabuild.build.settings import BuildSettings, load_settings, read_table
from cudabuild.errors import SettingError, TargetError


def write(folder: Path, table: str) -> str:
    (folder / "pyproject.toml").write_text(table, encoding="utf-8")
    return str(folder)


def names(settings: BuildSettings) -> list[str]:
    return [target.name for target in settings.targets]


def test_defaults(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "[tool.cudabuild]\n"))
    assert names(settings) == ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120", "compute_75"]
    assert settings.index_widths == (32, 64)
    assert (settings.strict, settings.jobs, settings.fastmath, settings.lineinfo) == (False, None, False, False)
    assert set(dict(settings.origins).values()) == {"the default"}


def test_everything_can_be_written(tmp_path: Path) -> None:
    settings = load_settings(
        write(
            tmp_path,
            '[tool.cudabuild]\narchs = [80, "90a", "12.0+PTX"]\nptx = "none"\nindex = 32\nstrict = true\n'
            'packages = ["a"]\nexclude = ["a.tests", "*.bench"]\njobs = 3\nfastmath = true\nlineinfo = true\n'
            'allow-imports = ["scipy"]\n',
        )
    )
    assert names(settings) == ["sm_80", "sm_90a", "sm_120", "compute_120"]
    assert (settings.index_widths, settings.strict, settings.jobs) == ((32,), True, 3)
    assert (settings.fastmath, settings.lineinfo, settings.allow_imports) == (True, True, ("scipy",))
    included = [
        m for m in ("a", "a.b", "ab", "a.tests", "a.tests.t", "a.bench", "a.bench.x", "b") if settings.includes(m)
    ]
    assert included == ["a", "a.b"]


@pytest.mark.parametrize(
    ("ptx", "expected"),
    [
        ('"lowest"', ["compute_80"]),
        ('"newest"', ["compute_120"]),
        ('"none"', []),
        ("[75, 90]", ["compute_75", "compute_90"]),
        ('"90"', ["compute_90"]),
    ],
)
def test_ptx(tmp_path: Path, ptx: str, expected: list[str]) -> None:
    settings = load_settings(write(tmp_path, f"[tool.cudabuild]\narchs = [80, 120]\nptx = {ptx}\n"))
    assert names(settings)[2:] == expected


def test_precedence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, '[tool.cudabuild]\narchs = ["75"]\nptx = "none"\n')
    assert names(load_settings(root)) == ["sm_75"]
    assert dict(load_settings(root).origins)["archs"] == f"[tool.cudabuild] of {tmp_path / 'pyproject.toml'}"
    monkeypatch.setenv("CUDABUILD_ARCHS", "80;86")
    assert names(load_settings(root)) == ["sm_80", "sm_86"]
    assert dict(load_settings(root).origins)["archs"] == "the environment variable CUDABUILD_ARCHS"
    assert names(load_settings(root, {"archs": "90 100"})) == ["sm_90", "sm_100"]
    assert dict(load_settings(root, {"archs": "90"}).origins)["archs"] == "the command's options"


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "arch = [80]",
            "unknown setting in [tool.cudabuild] of {file}\n  found:    arch\n  expected: allow-imports, archs, "
            "exclude, fastmath, index, jobs, lineinfo, packages, ptx, strict\n  do:       did you mean 'archs'?",
        ),
        (
            'index = "bot"',
            "bad value of index in [tool.cudabuild] of {file}\n  found:    'bot'\n"
            "  expected: 'both' or '32' or '64'\n  do:       did you mean 'both'?",
        ),
        (
            'strict = "perhaps"',
            "bad value of strict in [tool.cudabuild] of {file}\n  found:    'perhaps'\n  expected: true or false",
        ),
        (
            "jobs = 0",
            "bad value of jobs in [tool.cudabuild] of {file}\n  found:    0\n  expected: a whole number above 0",
        ),
        (
            "archs = [80.5]",
            "bad value of archs in [tool.cudabuild] of {file}\n  found:    [80.5]\n"
            "  expected: a list of names, or one text with names separated by ';', ',' or spaces",
        ),
    ],
)
def test_wrong_settings(tmp_path: Path, line: str, message: str) -> None:
    root = write(tmp_path, f"[tool.cudabuild]\n{line}\n")
    with pytest.raises(SettingError) as caught:
        load_settings(root)
    assert str(caught.value) == message.format(file=tmp_path / "pyproject.toml")


def test_an_unknown_architecture_says_where_it_stands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_ARCHS", "80 91")
    root = write(tmp_path, "[tool.cudabuild]\n")
    with pytest.raises(TargetError, match=re.escape("archs from the environment variable CUDABUILD_ARCHS")) as caught:
        load_settings(root)
    assert "found:    '91'" in str(caught.value)


def test_native(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = write(tmp_path, '[tool.cudabuild]\narchs = ["native"]\nptx = "none"\n')
    monkeypatch.setattr(settings_module, "find_native_ccs", lambda: [(9, 0), (12, 1)])
    assert names(load_settings(root)) == ["sm_90", "sm_121"]
    monkeypatch.setattr(settings_module, "find_native_ccs", list)
    with pytest.raises(TargetError, match="no GPU to build for"):
        load_settings(root)


def test_the_gpus_of_this_machine_are_asked_for_in_another_process() -> None:
    assert all(7 <= major <= 13 and 0 <= minor <= 9 for major, minor in find_native_ccs())


@pytest.mark.parametrize("text", [None, "", "[tool.other]\nname = 'cudabuild'\n"])
def test_a_project_without_the_table(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        write(tmp_path, text)
    assert read_table(str(tmp_path)) is None


def test_a_broken_file(tmp_path: Path) -> None:
    root = write(tmp_path, "[tool.cudabuild\n")
    with pytest.raises(SettingError, match=r"pyproject\.toml cannot be read"):
        read_table(root)
    root = write(tmp_path, "[tool]\ncudabuild = 3\n")
    with pytest.raises(SettingError, match="expected: a table"):
        read_table(root)
