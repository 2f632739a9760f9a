# SPDX-License-Identifier: Apache-2.0
"""CUDA's vector types: ``cuda.float32x4`` and its other spelling ``cuda.float4``.

A vector is a tuple of one to four numbers of one type, named x, y, z and w; there is no arithmetic on it. It is made
from numbers and vectors, one after the other: ``cuda.float4(xy, z, 1)``. (CUDA C++ Programming Guide, "Built-in Vector
Types".)
"""

from __future__ import annotations

from cudabuild.lang.name import KernelName

__all__ = ["ALIASES", "FIELDS", "VECTORS", "VectorType"]

FIELDS = ("x", "y", "z", "w")

#: Element type -> C's names for it, as they begin the other spellings.
_ELEMENTS = {
    "int8": ("char",), "uint8": ("uchar",), "int16": ("short",), "uint16": ("ushort",), "int32": ("int",),
    "uint32": ("uint",), "int64": ("long", "longlong"), "uint64": ("ulong", "ulonglong"), "float32": ("float",),
    "float64": ("double",),
}  # fmt: skip


class VectorType(KernelName):  # makes a vector when it is called in a kernel
    __slots__ = ("__doc__", "count", "element")

    def __init__(self, element: str, count: int) -> None:
        name = f"{element}x{count}"
        made = ", ".join(FIELDS[:count])
        super().__init__(name, f"{name}({made}): a vector of {count} {element}, from numbers and shorter vectors.")
        self.element = element
        self.count = count

    @property
    def aliases(self) -> tuple[str, ...]:
        """Its other names."""
        return tuple(name for name, vector in ALIASES.items() if vector is self)


#: Name -> the type: ``float32x4``.
VECTORS = {vector.name: vector for element in _ELEMENTS for n in range(1, 5) for vector in (VectorType(element, n),)}

#: Other spellings: ``float4``.
ALIASES = {
    f"{alias}{n}": VECTORS[f"{element}x{n}"]
    for element, aliases in _ELEMENTS.items()
    for alias in aliases
    for n in range(1, 5)
}
