# SPDX-License-Identifier: Apache-2.0
"""The text of the ``print`` operation: ``printf``'s, with one placeholder per operand.

``%lld`` takes an int64, ``%llu`` a uint64, ``%f`` a float64, ``%+f`` one that always shows its sign, ``%s`` a bool
(written ``True`` or ``False``); ``%%`` is a percent sign. Every operand is thus 8 bytes, or a choice of two texts.
"""

from __future__ import annotations

import re

from cudabuild.types import Scalar, bool_, float64, int64, uint64

__all__ = ["PLACEHOLDERS", "placeholder_of", "split_text"]

PLACEHOLDERS: dict[str, Scalar] = {"%lld": int64, "%llu": uint64, "%f": float64, "%+f": float64, "%s": bool_}

_PLACEHOLDER = re.compile(r"(%lld|%llu|%f|%\+f|%s|%%)")


def placeholder_of(kind: Scalar) -> str:
    """The placeholder of a type of ``PLACEHOLDERS``."""
    return next(text for text, known in PLACEHOLDERS.items() if known == kind)


def split_text(text: str) -> list[str]:
    """Placeholders and what stands between them (``%%`` still doubled), in order; joined they are ``text``."""
    return [part for part in _PLACEHOLDER.split(text) if part]
