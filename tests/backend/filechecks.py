# SPDX-License-Identifier: Apache-2.0
"""CHECK lines against text, by the ``filecheck`` package."""

from __future__ import annotations

import io
import re

from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser, pattern_for_opts

__all__ = ["GENERIC", "filecheck", "generic_accesses"]

#: A load, store or atomic without an address space.
GENERIC = re.compile(
    r"\b(?:ld|st)\.(?:volatile\.|relaxed\.\w+\.)?(?:v[248]\.)?[busf]\d"
    r"|(?<!bar\.)\b(?:atom|red)\.(?!.*(?:global|shared))"
)


def filecheck(text: str, checks: str) -> None:
    """Fails, showing ``text``, unless it matches the CHECK lines."""
    options = Options("<checks>")
    parser = Parser(options, io.StringIO(checks), *pattern_for_opts(options))
    status = Matcher(options, FInput("<text>", text), parser).run()
    assert status == 0, f"the text does not match its checks:\n{text}"


def generic_accesses(ptx: str) -> list[str]:
    """The lines of ``ptx`` that go through the generic address space."""
    return [line.strip() for line in ptx.splitlines() if GENERIC.search(line)]
