# SPDX-License-Identifier: Apache-2.0
"""Parts of the language that are themselves written in the kernel language, compiled as device functions."""

from __future__ import annotations

from typing import Any

__all__ = ["greatest_common_divisor", "integer_power"]


def integer_power(base: Any, exponent: Any) -> Any:
    """``base ** exponent`` of integers; a negative exponent truncates the true value towards zero."""
    if exponent < 0:
        if base == 1:
            return base
        if base == -1:
            return base if exponent & 1 else -base
        return base * 0
    result = base * 0 + 1
    while exponent > 0:
        if exponent & 1:
            result = result * base
        base = base * base
        exponent = exponent >> 1
    return result


def greatest_common_divisor(a: Any, b: Any) -> Any:
    """Euclid's algorithm; ``gcd(0, 0)`` is 0. The absolute value comes last: the smallest integer has none."""
    while b != 0:
        a, b = b, a % b
    return abs(a)
