# SPDX-License-Identifier: Apache-2.0
"""Fixtures of the build tests: tiny projects in a temporary folder."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from build_helpers import Found, MakeProject, Setuptools, read_project

from cudabuild.build.project import Project

__all__: list[str] = []


@pytest.fixture
def make_project(tmp_path: Path) -> MakeProject:
    """``make_project(pkg__mod="text")``: a module per keyword, ``__`` for a dot in its name; ``pkg="…"`` a package."""

    def make(**modules: str) -> Project:
        names = {keyword.replace("__", ".") for keyword in modules}
        packages = {name for name in names if any(other.startswith(name + ".") for other in names)}
        for keyword, text in modules.items():
            name = keyword.replace("__", ".")
            stem = os.path.join(*name.split("."), "__init__") if name in packages else os.path.join(*name.split("."))
            path = tmp_path / (stem + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
        for package in packages | {name.rpartition(".")[0] for name in names if "." in name}:
            init = tmp_path.joinpath(*package.split("."), "__init__.py")
            init.touch()
        return read_project(tmp_path)

    return make


@pytest.fixture
def discover(make_project: MakeProject) -> Callable[..., Found]:
    """``discover(pkg__mod="text")``: what is found in such a project."""
    return lambda **modules: Found(make_project(**modules))


@pytest.fixture(scope="session")
def setuptools(tmp_path_factory: pytest.TempPathFactory) -> Setuptools:
    return Setuptools(tmp_path_factory.mktemp("metadata"))
