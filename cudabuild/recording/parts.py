# SPDX-License-Identifier: Apache-2.0
"""The parts of a signature file: what running processes append to, until it is merged.

``FILE.parts/`` holds one text per process. A record is one append of whole lines that ends with a mark of its length,
so a record that a kill or a full disk cut short is known, and left out alone.
"""

from __future__ import annotations

import os
import re

__all__ = ["PARTS", "complete_records", "format_record", "part_texts"]

#: The ending of the folder beside a signature file.
PARTS = ".parts"

_RECORD = re.compile(r"# end of a record of (\d+) characters\n")


def format_record(text: str) -> str:
    """A record as it is appended to a part."""
    return f"{text}# end of a record of {len(text)} characters\n"


def complete_records(text: str) -> str:
    """What of a part was written to its end."""
    found, start = [], 0
    for match in _RECORD.finditer(text):
        length = int(match.group(1))
        if match.start() - length >= start:  # else its beginning is missing
            found.append(text[match.start() - length : match.start()])
        start = match.end()
    return "".join(found)


def part_texts(path: str) -> list[tuple[str, str]]:
    """The names and complete records of the parts of a signature file, sorted by name."""
    folder = path + PARTS
    try:
        names = sorted(name for name in os.listdir(folder) if name.endswith((".toml", ".merging")))
    except OSError:
        return []
    found = []
    for name in names:
        try:
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as stream:
                found.append((os.path.join(folder, name), complete_records(stream.read())))
        except OSError:  # merged meanwhile: it is in the file by now
            continue
    return [(name, text) for name, text in found if text]
