#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs every test of the project. Needs only Python >= 3.10 and pip; arguments are pytest's.

    python3 tests/run.py                  everything
    python3 tests/run.py tests/types -x   some of it

Where the running interpreter has this checkout and its ``test`` extra installed, it is used as it is. Anywhere else an
environment is made in ``.venv/`` once, and again when ``pyproject.toml`` or the interpreter changes.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import os
import shutil
import subprocess
import sys
from pathlib import Path

__all__ = ["main"]

CHECKOUT = Path(__file__).resolve().parent.parent


def main(arguments: list[str]) -> int:
    python = Path(sys.executable) if is_installed_here() else make_environment()
    if python is None:
        return 1
    # On all cores; a file's tests stay in one process, where they share what they compile.
    own = arguments or ["-n", "auto", "--dist", "loadfile"]
    return subprocess.call([str(python), "-m", "pytest", *own], cwd=CHECKOUT)


def is_installed_here() -> bool:
    """Whether this interpreter runs cudabuild from this checkout, with everything that ``cudabuild[test]`` names."""
    try:
        distribution = importlib.metadata.distribution("cudabuild")
    except importlib.metadata.PackageNotFoundError:
        return False
    origin = distribution.read_text("direct_url.json") or ""
    if CHECKOUT.as_uri() not in origin or '"editable": true' not in origin:
        return False
    try:
        for name in ("pytest", "pytest-xdist", "hypothesis", "mypy", "ruff", "import-linter", "filecheck", "llvmlite"):
            importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def make_environment() -> Path | None:
    """The interpreter of the environment in ``.venv/test``, made where missing or out of date; None on failure."""
    venv = CHECKOUT / ".venv" / "test"
    python = venv / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    digest = hashlib.sha256(f"{sys.version} {sys.executable}".encode() + (CHECKOUT / "pyproject.toml").read_bytes())
    stamp = venv / "digest"
    if python.exists() and stamp.is_file() and stamp.read_text() == digest.hexdigest():
        return python
    print("making the test environment in .venv/test (once)", flush=True)
    shutil.rmtree(venv, ignore_errors=True)
    commands = [
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-e", f"{CHECKOUT}[test]"],
    ]
    for command in commands:
        if subprocess.call(command, cwd=CHECKOUT):
            print(f"failed: {' '.join(command)}", file=sys.stderr)
            return None
    stamp.write_text(digest.hexdigest())  # last: an interrupted installation starts over
    return python


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
