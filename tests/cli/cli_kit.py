# SPDX-License-Identifier: Apache-2.0
"""A small project, and commands run on it: as a user runs them, in processes of their own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jsonschema

from cudabuild.cli.output import load_schema

__all__ = ["CHECKOUT", "KERNELS", "PYPROJECT", "attempt", "command", "json_of", "make_project"]

CHECKOUT = Path(__file__).resolve().parents[2]

KERNELS = """\
from cudabuild import cuda, kernel

from .sizes import SCALE


@kernel("float32[::1], float32[::1]")
def scale(x, y):
    i = cuda.grid(1)
    if i < x.size:
        y[i] = SCALE * x[i]


@kernel(["int32[::1]", "int64[::1]"], fastmath=True)
def count_up(x):
    i = cuda.grid(1)
    if i < x.size:
        x[i] = i


@kernel
def without_signature(x):
    x[0] = 1
"""

PYPROJECT = """\
[build-system]
requires = ["setuptools>=77", "cudabuild[build]"]
build-backend = "setuptools.build_meta"

[project]
name = "mypackage"
version = "1.0"

[tool.setuptools.packages.find]
where = ["src"]

[tool.cudabuild]
archs = [80, 90]
index = 64
"""


def make_project(root: Path) -> Path:
    """A project of one package with three kernels, one of which declares no signature."""
    package = root / "src" / "mypackage"
    package.mkdir(parents=True)
    (root / "pyproject.toml").write_text(PYPROJECT, encoding="utf-8")
    (package / "__init__.py").write_text("import not_installed_anywhere\n", encoding="utf-8")
    (package / "kernels.py").write_text(KERNELS, encoding="utf-8")
    (package / "sizes.py").write_text("SCALE = 3\n", encoding="utf-8")
    return root


def attempt(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs ``python -m cudabuild``, whatever its status."""
    variables = {**os.environ, "PYTHONPATH": str(CHECKOUT), "SOURCE_DATE_EPOCH": "1700000000", **environment}
    full = [sys.executable, "-m", "cudabuild", *arguments]
    return subprocess.run(full, cwd=cwd, env=variables, capture_output=True, text=True, timeout=240, check=False)


def command(*arguments: str, cwd: Path, status: int = 0, **environment: str) -> str:
    """What a command prints; fails with both outputs unless it ends with ``status``."""
    done = attempt(*arguments, cwd=cwd, **environment)
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout


def json_of(*arguments: str, cwd: Path, status: int = 0, **environment: str) -> dict[str, Any]:
    """What a command prints with ``--json``, which must keep to its schema."""
    values: dict[str, Any] = json.loads(command(*arguments, "--json", cwd=cwd, status=status, **environment))
    jsonschema.Draft202012Validator(load_schema(arguments[0])).validate(values)
    return values
