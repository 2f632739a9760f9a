# SPDX-License-Identifier: Apache-2.0
"""What numba calls a mistake: a line more for those who know, or search for, its words.

Title of a refusal -> numba's words for it; ``{0}`` and so on stand for the groups of the pattern.
"""

from __future__ import annotations

import re

__all__ = ["familiar_words"]

_WORDS = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"cuda\.(?:grid|gridsize) of a number of dimensions that is not a constant", "RequireLiteralValue"),
        (
            r"the shape of a (shared|local) array is not a constant",
            "No implementation of function Function(<function {0}.array>) found for signature",
        ),
        (r"the mask is not an integer", "Mask type must be an integer"),
        (r"a vote of something else than true or false", "Predicate must be an integer or boolean"),
        (r"name ('\w+') is not defined", "NameError: name {0} is not defined"),
    )
)


def familiar_words(title: str) -> str:
    """numba's words for a refusal of this title; "" where it has none of its own."""
    for pattern, words in _WORDS:
        match = pattern.match(title)
        if match is not None:
            return words.format(*match.groups())
    return ""
