# SPDX-License-Identifier: Apache-2.0
"""Where a key stands in a TOML file: the standard library's parser does not tell.

Only for messages, and for files that the parser has accepted: headers and ``key =`` at the start of a line are looked
at, not values. The line of a key inside an inline table is that of the table.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["find_line"]

_PART = re.compile(r"""\s*(?:"((?:[^"\\]|\\.)*)"|'([^']*)'|([A-Za-z0-9_-]+))\s*""")


def find_line(text: str, keys: Sequence[str]) -> int:
    """The number of the line that writes a key, from 1; 0 if none is found.

    Args:
        text: the file.
        keys: the way to the key: ``["tool", "cudabuild", "archs"]``.
    """
    wanted = tuple(keys)
    table: tuple[str, ...] = ()
    best, depth = 0, 0
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped.startswith("["):
            path, rest = _read_path(stripped.lstrip("["))
            if not rest.startswith("]"):
                continue  # a line of an array
            table = found = path
        else:
            path, rest = _read_path(line)
            if not path or not rest.startswith("="):
                continue
            found = table + path
        # A table's header counts for the keys in it, until a better line is found.
        if found == wanted:
            return number
        if wanted[: len(found)] == found and len(found) > depth:
            best, depth = number, len(found)
        elif found[: len(wanted)] == wanted and depth < len(wanted):  # [a.b.c] or a.b.c = 1, for a.b
            best, depth = number, len(wanted)
    return best


def _read_path(text: str) -> tuple[tuple[str, ...], str]:
    """The dotted key at the start of a text, and what follows it."""
    parts: list[str] = []
    while True:
        match = _PART.match(text)
        if match is None:
            return (), text
        parts.append(next(group for group in match.groups() if group is not None))
        text = text[match.end() :]
        if not text.startswith("."):
            return tuple(parts), text
        text = text[1:]
