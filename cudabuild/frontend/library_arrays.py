# SPDX-License-Identifier: Apache-2.0
"""Assignment to several elements, and texts, written in the kernel language and compiled as device functions.

An assignment to an element of an array with several axes assigns a row, and so comes back here with one axis less.
"""

from __future__ import annotations

from typing import Any

__all__ = ["assign", "assign_each", "clear_text", "compare_codes", "copy_text", "fill", "text_length"]


def fill(target: Any, value: Any) -> None:
    """Every element becomes ``value``: a number, a record or a text."""
    for i in range(target.shape[0]):
        target[i] = value


def assign(target: Any, source: Any, backwards: bool) -> None:
    """Element by element, of an array of as many axes; one of extent 1 is repeated.

    Where an extent fits no other way, nothing is assigned: under debug the caller has raised.
    """
    n = target.shape[0]
    m = source.shape[0]
    if m != n and m != 1:
        return
    for k in range(n):
        i = n - 1 - k if backwards else k
        target[i] = source[i if m == n else 0]


def assign_each(target: Any, source: Any) -> None:
    """``source`` to every row of ``target``, which has more axes."""
    for i in range(target.shape[0]):
        target[i] = source


def copy_text(target: Any, source: Any) -> None:
    """Character codes, and zeros behind them."""
    m = source.shape[0]
    for i in range(target.shape[0]):
        target[i] = source[i] if i < m else 0


def clear_text(target: Any, first: int) -> None:
    """Zeros from the character ``first`` on."""
    for i in range(first, target.shape[0]):
        target[i] = 0


def compare_codes(a: Any, b: Any) -> int:
    """-1, 0 or 1: which text comes first. Zeros at the end do not count."""
    m = a.shape[0]
    n = b.shape[0]
    for i in range(max(m, n)):
        x = a[i] if i < m else 0
        y = b[i] if i < n else 0
        if x < y:
            return -1
        if x > y:
            return 1
    return 0


def text_length(text: Any) -> Any:
    """The number of characters up to the last that is not zero."""
    n = text.shape[0]
    while n > 0 and text[n - 1] == 0:
        n -= 1
    return n
