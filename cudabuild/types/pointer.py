# SPDX-License-Identifier: Apache-2.0
"""``CPointer(float32)``: the address of elements of a type, without an extent. The launch path imports this module."""

from __future__ import annotations

from cudabuild.types.type import Integer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild.types.type import Scalar

__all__ = ["Pointer"]


class Pointer(Integer):
    """An address in global memory, passed as a Python integer.

    Attributes:
        dtype: the elements' type.
    """

    __slots__ = ("dtype",)

    def __init__(self, dtype: Scalar) -> None:
        super().__init__(64, False)
        self.dtype = dtype
        self.name = f"CPointer({dtype.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Pointer, (self.dtype,))
