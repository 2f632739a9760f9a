# SPDX-License-Identifier: Apache-2.0
"""Which type an operation of a random program has: NumPy's own answer for ``literals="weak"``, numba's rule beside it.

Types are names; ``int`` and ``float`` are the weak numbers, which ``literals="numba"`` does not have: there literals
are int64 and float64.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from program_meaning import COMPLEX, FLOATS, INTEGERS

__all__ = ["Rules", "is_float", "is_integer", "is_weak"]


def is_weak(kind: str) -> bool:
    return kind in ("int", "float")


def is_integer(kind: str) -> bool:
    return kind in INTEGERS


def is_float(kind: str) -> bool:
    return kind in FLOATS


class Rules:
    """One dialect.

    Attributes:
        weak: whether Python numbers take the other operand's type.
        integer: the type of an integer literal, a length, a grid index.
        position: the type of ``threadIdx.x``.
        floating: the type of a float literal.
    """

    def __init__(self, literals: str) -> None:
        self.literals = literals
        self.weak = literals == "weak"
        self.integer, self.floating, self.position = (
            ("int", "float", "int") if self.weak else ("int64", "float64", "int32")
        )
        self.result = cache(self._result)

    def _result(self, op: str, left: str, right: str) -> str | None:
        """The type in which ``op`` is done; None where programs do without this pair.

        Args:
            op: ``add``, ``and``, ``shl``, ``min``, ``cmp`` and their like.
            left, right: the operands' types.
        """
        if left in COMPLEX or right in COMPLEX:
            return self._complex(op, left, right)
        if op in ("and", "or", "xor", "shl", "shr"):
            if left == right == "bool":
                return "bool" if op in ("and", "or", "xor") else None
            if "float" in left + right or "bool" in (left, right):
                return None
            return self._integers(op, left, right)
        if op in ("min", "max") and left != right:
            return None if "bool" in (left, right) or not self.weak else self._integers_or_floats(left, right)
        if op in ("min", "max"):
            return left if left != "bool" else None
        kind = self._arithmetic(left, right)
        if kind is None or (op in ("floordiv", "mod") and not self.weak and kind == "float16"):
            return None
        if op == "div" and is_integer(kind):
            return "float" if kind == "int" else "float64"
        return kind

    def _arithmetic(self, left: str, right: str) -> str | None:
        if left == right == "bool":
            return "int" if self.weak else "int64"
        if not self.weak and "bool" in (left, right) and "float" in left + right:
            return right if left == "bool" else left
        if left == "bool":
            left = self.integer
        if right == "bool":
            right = self.integer
        return self._integers_or_floats(left, right)

    def _integers_or_floats(self, left: str, right: str) -> str | None:
        if is_integer(left) and is_integer(right):
            return self._integers("add", left, right)
        if "bfloat16" in (left, right):
            return self._brain(left if right == "bfloat16" else right)
        if not self.weak and "uint" in left + right and "float" in left + right:
            return None
        if left == right or (is_weak(left) and is_weak(right)):
            return left if left == right else "float"
        return _by_numpy(left, right)

    @staticmethod
    def _brain(other: str) -> str | None:
        return (
            "bfloat16" if other in ("bfloat16", "int", "float") else other if other in ("float32", "float64") else None
        )

    def _integers(self, op: str, left: str, right: str) -> str | None:
        if not self.weak:
            unsigned = left[0] == "u" and (right[0] == "u" or op in ("shl", "shr"))
            return "uint64" if unsigned else "int64"
        if left == right:
            return left
        kind = _by_numpy(left, right)
        return kind if op == "add" or is_integer(kind) else None

    def _complex(self, op: str, left: str, right: str) -> str | None:
        other = right if left in COMPLEX else left
        if op not in ("add", "sub", "mul", "cmp") or other == "bool" or not (other in COMPLEX or self.weak):
            return None
        if other == "bfloat16":
            return None
        return _by_numpy(left, right) if left != right else left

    def extreme(self, op: str, kind: str) -> str:
        """The oracle's word for ``min`` or ``max``: numba's of floats are C's."""
        return f"f{op}_{kind}" if not self.weak and is_float(kind) else f"{op}_{kind}"


def _by_numpy(left: str, right: str) -> str:
    weak: dict[str, Any] = {"int": 1, "float": 1.0}
    values = [weak[kind] if kind in weak else np.dtype(kind) for kind in (left, right)]
    return str(np.result_type(*values).name)
