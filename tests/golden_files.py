# SPDX-License-Identifier: Apache-2.0
"""Golden files: text that the tests found right once, and compare with from then on."""

from __future__ import annotations

from pathlib import Path

__all__ = ["Golden"]


class Golden:
    """Compares text with a file below ``tests/golden``; ``--update-golden`` rewrites the file instead."""

    def __init__(self, folder: Path, update: bool) -> None:
        self.folder = folder
        self.update = update

    def check(self, name: str, text: str) -> None:
        """Fails, showing the difference, unless ``text`` is what the golden file ``name`` holds."""
        path = self.folder / name
        text = text.rstrip("\n") + "\n"
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8", newline="\n")
        assert path.is_file(), f"no golden file {path.name}: run pytest with --update-golden and read what it wrote"
        assert text == path.read_text(encoding="utf-8")
