# SPDX-License-Identifier: Apache-2.0
"""Shapes, strides and the copies between two layouts: pure arithmetic on addresses that nobody touches here."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

__all__ = [
    "Move",
    "can_broadcast",
    "cannot_broadcast",
    "gapless_strides",
    "plan_moves",
    "resolve_shape",
    "take",
    "transposed_axes",
]


class Move:
    """Rows to copy: byte offsets of the first one, bytes from one to the next, bytes in a row, number of rows."""

    __slots__ = ("rows", "source", "source_step", "target", "target_step", "width")

    def __init__(
        self, target: int, source: int, width: int, rows: int = 1, target_step: int = 0, source_step: int = 0
    ) -> None:
        self.target = target
        self.source = source
        self.width = width
        self.rows = rows
        self.target_step = target_step
        self.source_step = source_step


def gapless_strides(shape: Sequence[int], itemsize: int, order: str = "C") -> tuple[int, ...]:
    """Byte strides of an array without gaps in order ``C`` or ``F``."""
    axes = range(len(shape)) if order == "F" else range(len(shape) - 1, -1, -1)
    strides, step = [0] * len(shape), itemsize
    for axis in axes:
        strides[axis] = step
        step *= shape[axis]
    return tuple(strides)


def resolve_shape(shape: Sequence[int], size: int) -> tuple[int, ...]:
    """``shape`` with one -1 made what ``size`` elements need.

    Raises:
        ValueError: the elements do not fill the shape.
    """
    known = 1
    for extent in shape:
        known *= 1 if extent == -1 else extent
    full = tuple(shape)
    if -1 in full and full.count(-1) == 1 and known > 0 and size % known == 0:
        return tuple(size // known if extent == -1 else extent for extent in full)
    if any(extent < 0 for extent in full) or known != size:
        raise ValueError(f"cannot reshape array of size {size} into shape {full}")
    return full


def transposed_axes(ndim: int, axes: Sequence[int] | None) -> tuple[int, ...]:
    """For each axis of a transposed array the one of the array; reversed where ``axes`` is None.

    Raises:
        ValueError: not each axis once; in NumPy's words.
    """
    if axes is None:
        return tuple(reversed(range(ndim)))
    if len(axes) != ndim:
        raise ValueError("axes don't match array")
    for axis in axes:
        if not -ndim <= axis < ndim:
            raise ValueError(f"axis {axis} is out of bounds for array of dimension {ndim}")
    order = tuple(int(axis) % ndim for axis in axes)
    if len(set(order)) != ndim:
        raise ValueError("repeated axis in transpose")
    return order


def can_broadcast(source: Sequence[int], target: Sequence[int]) -> bool:
    """Whether an array of one shape can be assigned to one of another: extents of 1 serve all, as do missing axes."""
    added = len(target) - len(source)
    return added >= 0 and all(have in (1, want) for have, want in zip(source, target[added:], strict=True))


def cannot_broadcast(source: Sequence[int], target: Sequence[int]) -> str:
    """What NumPy says of an assignment whose shapes do not go together."""
    from_, into = (f"({','.join(map(str, shape))}{',' if len(shape) == 1 else ''})" for shape in (source, target))
    return f"could not broadcast input array from shape {from_} into shape {into}"


def take(shape: Sequence[int], strides: Sequence[int], key: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """What basic indexing gives: byte offset, shape and strides.

    Args:
        shape, strides: the array's.
        key: integers, slices, ``...`` and None, as NumPy takes them.

    Raises:
        IndexError: too many indices, or one beyond the array.
        TypeError: an array or a list as an index, which would be a gather and not a view.
    """
    parts = key if isinstance(key, tuple) else (key,)
    count = sum(1 for part in parts if part is not None and part is not Ellipsis)
    if count > len(shape):
        raise IndexError(f"too many indices: the array has {len(shape)} axes, {count} were indexed")
    ellipses = sum(1 for part in parts if part is Ellipsis)
    if ellipses > 1:
        raise IndexError("an index can only have a single ellipsis ('...')")
    if not ellipses:
        parts = (*parts, Ellipsis)
    offset, axis = 0, 0
    new_shape: list[int] = []
    new_strides: list[int] = []
    for part in parts:
        if part is None:
            new_shape.append(1)
            new_strides.append(0)
        elif part is Ellipsis:
            rest = len(shape) - count
            new_shape += shape[axis : axis + rest]
            new_strides += strides[axis : axis + rest]
            axis += rest
        elif isinstance(part, slice):
            start, stop, step = part.indices(shape[axis])
            extent = len(range(start, stop, step))
            offset += start * strides[axis] if extent else 0
            new_shape.append(extent)
            new_strides.append(step * strides[axis])
            axis += 1
        else:
            offset += _position(part, shape[axis], axis) * strides[axis]
            axis += 1
    return offset, tuple(new_shape), tuple(new_strides)


def _position(index: Any, extent: int, axis: int) -> int:
    if isinstance(index, bool) or not hasattr(type(index), "__index__") or getattr(index, "shape", ()) != ():
        raise TypeError(
            f"a device array is indexed by integers, slices, ... and None, not by {type(index).__name__}\n"
            "  do:       copy_to_host() first, or gather in a kernel"
        )
    number = index.__index__()
    if not -extent <= number < extent:
        raise IndexError(f"index {number} is out of bounds for axis {axis} with size {extent}")
    return int(number % extent)


def plan_moves(shape: Sequence[int], target: Sequence[int], source: Sequence[int], itemsize: int) -> Iterator[Move]:
    """The fewest plain copies that bring an array from one layout into another.

    Args:
        shape: of both.
        target, source: byte strides.
        itemsize: bytes of an element.
    """
    if any(extent == 0 for extent in shape):
        return
    axes = [list(axis) for axis in zip(shape, target, source, strict=True) if axis[0] > 1]
    at = [0, 0]
    for axis in axes:
        if axis[1] < 0 and axis[2] < 0:  # backwards on both sides is forwards from the other end
            at[0] += (axis[0] - 1) * axis[1]
            at[1] += (axis[0] - 1) * axis[2]
            axis[1:] = -axis[1], -axis[2]
    axes.sort(key=lambda axis: (abs(axis[1]), abs(axis[2])))
    width = itemsize
    while axes and axes[0][1] == width == axes[0][2]:
        width *= axes.pop(0)[0]
    merged: list[list[int]] = []
    for extent, step, origin in axes:
        if merged and step == merged[-1][0] * merged[-1][1] and origin == merged[-1][0] * merged[-1][2]:
            merged[-1][0] *= extent
        else:
            merged.append([extent, step, origin])
    rows, steps = 1, (0, 0)
    if merged and merged[0][1] >= width and merged[0][2] >= width:
        rows, *inner = merged.pop(0)
        steps = inner[0], inner[1]
    for target_at, source_at in _offsets(merged, at[0], at[1]):
        yield Move(target_at, source_at, width, rows, *steps)


def _offsets(axes: list[list[int]], target: int, source: int) -> Iterator[tuple[int, int]]:
    if not axes:
        yield target, source
        return
    extent, step, origin = axes[-1]
    for index in range(extent):
        yield from _offsets(axes[:-1], target + index * step, source + index * origin)
