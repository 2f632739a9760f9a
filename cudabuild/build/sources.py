# SPDX-License-Identifier: Apache-2.0
"""The files that a build reads besides modules: a source distribution without them could not be built."""

from __future__ import annotations

import os
from typing import Any

from cudabuild.build.settings import read_table
from cudabuild.errors import SettingError

__all__ = ["find_signature_files", "read_signature_files"]


def find_signature_files(root: str) -> list[str]:
    """The signature files that ``[tool.cudabuild]`` names, and the arrays beside them.

    Args:
        root: the folder of pyproject.toml.

    Returns:
        Paths below ``root`` with forward slashes, sorted; none that lie elsewhere or do not exist.
    """
    try:
        table = read_table(root) or {}
    except SettingError:
        return []  # told where the settings are read
    named: Any = table.get("signatures", ())
    found: set[str] = set()
    for name in [named] if isinstance(named, str) else named if isinstance(named, list) else []:
        path = os.path.join(root, name) if isinstance(name, str) else ""
        if not os.path.isfile(path):
            continue
        found.add(path)
        folder = os.path.splitext(path)[0] + ".arrays"
        if os.path.isdir(folder):
            found |= {os.path.join(folder, array) for array in os.listdir(folder) if array.endswith(".npy")}
    inside = (os.path.relpath(path, root).replace(os.sep, "/") for path in found)
    return sorted(path for path in inside if not path.startswith("../"))


def read_signature_files(root: str) -> dict[str, bytes]:
    """The same files with their contents."""
    found = {}
    for name in find_signature_files(root):
        with open(os.path.join(root, *name.split("/")), "rb") as stream:
            found[name] = stream.read()
    return found
