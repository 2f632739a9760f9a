# SPDX-License-Identifier: Apache-2.0
"""Settings: where they are read, what they accept, what is said of a bad one."""

from __future__ import annotations

import sys

import pytest

from cudabuild import config
from cudabuild.errors import SettingError


@pytest.mark.parametrize("setting", config.SETTINGS, ids=lambda setting: setting.name)
def test_every_setting_is_declared_in_full(setting: config.Setting) -> None:
    assert setting.doc.endswith(".")
    assert setting.variable or setting.key
    assert not setting.variable or setting.variable.startswith("CUDABUILD_")
    assert setting.kind != "choice" or setting.default in setting.choices
    assert config.get_setting(setting.name) is setting


def test_names_variables_and_keys_are_used_once() -> None:
    for field in ("name", "variable", "key"):
        used = [value for value in (getattr(setting, field) for setting in config.SETTINGS) if value]
        assert len(used) == len(set(used))


def test_defaults_where_nothing_or_an_empty_text_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDABUILD_JIT", raising=False)
    assert config.get("jit") == "auto"
    monkeypatch.setenv("CUDABUILD_JIT", " ")
    assert config.get("jit") == "auto"


def test_the_environment_is_read_anew_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_JIT", "never")
    assert config.get("jit") == "never"
    monkeypatch.setenv("CUDABUILD_JIT", "Auto")
    assert config.get("jit") == "auto"


def test_a_bad_value_says_where_it_stands_and_what_it_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_IMAGES", "shiped")
    with pytest.raises(SettingError) as caught:
        config.get("images")
    assert str(caught.value) == (
        "bad value of the environment variable CUDABUILD_IMAGES\n"
        "  found:    'shiped'\n"
        "  expected: 'all' or 'shipped' or 'ptx' or 'none'\n"
        "  do:       did you mean 'shipped'?"
    )


def test_words_from_a_list_are_checked_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDABUILD_CHECK", "Races, uninit")
    assert config.get("check") == ["races", "uninit"]
    monkeypatch.setenv("CUDABUILD_CHECK", "bounds race")
    with pytest.raises(SettingError) as caught:
        config.get("check")
    assert str(caught.value) == (
        "bad value of the environment variable CUDABUILD_CHECK\n"
        "  found:    'bounds race'\n"
        "  expected: any of bounds, races, barriers, uninit, none, separated by ';', ',' or spaces\n"
        "  do:       did you mean 'races'?"
    )


def test_an_unknown_key_names_the_nearest() -> None:
    with pytest.raises(SettingError) as caught:
        config.check_table({"arch": ["80"]}, "pyproject.toml, [tool.cudabuild]")
    text = str(caught.value)
    assert text.startswith("unknown setting in pyproject.toml, [tool.cudabuild]\n  found:    arch\n  expected: ")
    assert text.endswith("did you mean 'archs'?")


@pytest.mark.parametrize("written", [["80", "90a+PTX"], "80;90a+PTX", "80, 90a+PTX"])
def test_lists_are_written_as_lists_or_as_text(written: object) -> None:
    assert config.check_table({"archs": written}, "a table") == {"archs": ["80", "90a+PTX"]}


@pytest.mark.parametrize(
    ("text", "size"), [("1024", 1024), ("1 GiB", 1 << 30), ("512MiB", 512 << 20), ("2kB", 2000), (7, 7)]
)
def test_sizes(text: object, size: int) -> None:
    assert config.get_setting("cache_size").check(text, "a test") == size


@pytest.mark.parametrize("text", ["", "GiB", "-1", "1 parsec", "٣", True, -5, 1.5])
def test_bad_sizes(text: object) -> None:
    with pytest.raises(SettingError, match="a number of bytes"):
        config.get_setting("cache_size").check(text, "a test")


def test_paths_are_split_as_the_system_does(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setenv("CUDABUILD_SITE_CACHE", f"one{os.pathsep}{os.pathsep}two")
    assert config.get("site_cache") == ["one", "two"]


@pytest.mark.parametrize(("level", "told"), [("off", []), ("info", ["i"]), ("debug", ["i", "d"])])
def test_log_levels(
    level: str, told: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CUDABUILD_LOG", level)
    config.log("info", "i")
    config.log("debug", "d")
    assert capsys.readouterr().err == "".join(f"cudabuild: {word}\n" for word in told)


def test_a_warning_is_told_once_for_each_key(capsys: pytest.CaptureFixture[str]) -> None:
    config.warn("test_config: the first", "test_config")
    config.warn("test_config: the second", "test_config")
    config.warn("test_config: another")
    assert capsys.readouterr().err == "cudabuild: test_config: the first\ncudabuild: test_config: another\n"


def test_telling_never_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    config.warn("test_config: nobody hears this")
    closed = open(__file__)  # noqa: SIM115
    closed.close()
    monkeypatch.setattr(sys, "stderr", closed)
    config.warn("test_config: nor this")
    assert "test_config: nor this" in config._warned
