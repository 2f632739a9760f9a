# SPDX-License-Identifier: Apache-2.0
"""The pages of settings and screens say what is so now; ``--update-golden`` rewrites them."""

from __future__ import annotations

import pytest
from pages import SCREENS, SETTINGS, format_screens_page, format_settings_page, mask

from cudabuild import config
from cudabuild.cli import COMMANDS


def test_the_table_of_settings(pytestconfig: pytest.Config) -> None:
    page = format_settings_page()
    if pytestconfig.getoption("--update-golden"):
        SETTINGS.write_text(page, encoding="utf-8", newline="\n")
    assert SETTINGS.read_text(encoding="utf-8") == page
    for setting in config.SETTINGS:
        assert f"`{setting.key or setting.variable}`" in page


def test_the_screens(pytestconfig: pytest.Config) -> None:
    page = format_screens_page()
    if pytestconfig.getoption("--update-golden"):
        SCREENS.write_text(page, encoding="utf-8", newline="\n")
    assert mask(SCREENS.read_text(encoding="utf-8")) == mask(page)
    assert "Traceback" not in page
    for command in ("list", "build", "inspect", "check", "doctor", "cache"):
        assert f"\n## {command}\n" in page
        assert command in COMMANDS


def test_what_is_masked() -> None:
    text = "sm_90  10  3368/3496 1.05 s, 0.50.0 (LLVM 22.1.0), saxpy_89ec7713_w64 float32 89ec77135307e4858ae077b3"
    assert mask(text) == "sm_90 # # # s, # (LLVM #), saxpy_#_w64 float32 #"
