# SPDX-License-Identifier: Apache-2.0
"""What the README shows works as it stands there."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import numpy as np
import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

CHECKOUT = Path(__file__).resolve().parent.parent
TEXT = (CHECKOUT / "README.md").read_text("utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", TEXT, re.DOTALL)


def test_first_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written, launched = blocks("python")
    package = tmp_path / "mypackage"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "vectors.py").write_text(written)
    monkeypatch.syspath_prepend(str(tmp_path))
    x, y = np.arange(1000, dtype=np.float32), np.ones(1000, np.float32)
    try:
        exec(compile(launched, "README.md", "exec"), {"x": x, "y": y})
    finally:
        for name in [name for name in sys.modules if name.partition(".")[0] == "mypackage"]:
            del sys.modules[name]
    assert np.array_equal(y, 2 * np.arange(1000) + 1)


def test_build_settings() -> None:
    from cudabuild.target import parse_archs

    (text,) = blocks("toml")
    settings = tomllib.loads(text)
    assert settings["build-system"]["requires"] == ["setuptools>=77", "cudabuild[build]"]
    targets = parse_archs([str(arch) for arch in settings["tool"]["cudabuild"]["archs"]], ptx="lowest")
    cubins = {"sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120"}
    assert {target.name for target in targets} == {*cubins, "compute_75"}


def test_the_two_commands_exist() -> None:
    commands = re.findall(r"^    python3 (\S+)", TEXT, re.MULTILINE)
    assert commands == ["sample_project/run.py", "tests/run.py"]
    for command in commands:
        spec = importlib.util.spec_from_file_location("command", CHECKOUT / command)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        assert callable(module.main)


def test_licence_stands_at_the_end() -> None:
    assert TEXT.rstrip().splitlines()[-1] == "Licence: [Apache-2.0](LICENSE)."


def test_links_lead_somewhere() -> None:
    prose = re.sub(r"```.*?```", "", TEXT, flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)]+)\)", prose):
        assert (CHECKOUT / target).exists(), target
