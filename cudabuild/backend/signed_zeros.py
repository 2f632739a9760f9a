# SPDX-License-Identifier: Apache-2.0
"""Keeps the sign of zero where LLVM's code generator for NVPTX makes an extreme of a comparison.

``x if x < 0.0 else 0.0`` becomes ``min.f32``, whose result for -0.0 is -0.0: to PTX, -0.0 is less than 0.0, to a
comparison they are equal (PTX ISA, min and max). Of the zeros that a comparison may be written with, equal to it all,
the one that the selection does not name keeps LLVM (22) from seeing the extreme.
"""

from __future__ import annotations

import re

__all__ = ["keep_zero_signs"]

_ZERO = r"-?0\.0+e\+00|0x[HR][08]000|zeroinitializer|splat \(\w+ (?:-0\.0+e\+00|0x[HR]8000)\)"
_TYPE = r"(?:<\d+ x )?(?:half|bfloat|float|double)>?"
_COMPARISON = re.compile(rf"(%\S+) = fcmp ([ou])([lg])t ({_TYPE}) (%[^\s,]+), ({_ZERO})$", re.MULTILINE)
_OPPOSITE = {
    "0.000000e+00": "-0.000000e+00",
    "0xH0000": "0xH8000",
    "0xR0000": "0xR8000",
}
_OPPOSITE.update({negative: positive for positive, negative in tuple(_OPPOSITE.items())})


def keep_zero_signs(text: str) -> str:
    """An optimised module's text in which no extreme that could give the other zero is seen.

    ``max(x, 0.0)`` and ``min(x, -0.0)`` stay: there both rules give the same.
    """
    for found in _COMPARISON.finditer(text):
        name, order, way, kind, value, zero = found.groups()
        first, second = (re.escape(f"{kind} {arm}") for arm in (value, zero))
        arms = re.compile(
            rf"= select (?:<\d+ x )?i1>? {re.escape(name)}, (?:({first}), {second}|{second}, {first})$", re.MULTILINE
        )
        same = way == ("l" if _is_negative(zero) else "g") and order == "o"
        if any(not (same and select.group(1)) for select in arms.finditer(text)):
            changed = f"{name} = fcmp {order}{way}t {kind} {value}, {_opposite(zero, kind)}"
            text = text.replace(found.group(), changed)
    return text


def _is_negative(zero: str) -> bool:
    return "-0." in zero or "8000" in zero


def _opposite(zero: str, kind: str) -> str:
    if zero in _OPPOSITE:
        return _OPPOSITE[zero]
    element = kind.rpartition(" ")[2].rstrip(">")
    plain = {"half": "0xH8000", "bfloat": "0xR8000"}.get(element, "-0.000000e+00")
    return f"splat ({element} {plain})" if zero == "zeroinitializer" else "zeroinitializer"
