# SPDX-License-Identifier: Apache-2.0
"""The table of a build: kernel × target → registers, shared, local and spilled bytes, size, time.

A project of a thousand kernels would fill the screen, so rows are put together until they fit: first by module, then
by target alone. What stands out (spilling, the slowest) is named whatever the grouping.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from cudabuild.image.image import KernelImage
from cudabuild.target import find_target, sort_targets

__all__ = ["Overload", "format_driver", "format_notable", "format_table"]

#: Module, qualified name, signature.
Overload: TypeAlias = tuple[str, str, str]

#: The most rows that are shown, unless all are asked for.
_MOST_ROWS = 60

#: How many kernels are named as standing out.
_MOST_NAMED = 5

_HEAD = ("target", "registers", "shared", "local", "spill", "bytes", "seconds")

#: The first driver of a CUDA major version, by cuDriverGetVersion's count.
_DRIVERS = {12000: "525", 13000: "580"}


def format_driver(version: int) -> str:
    """The oldest driver that takes an image, for people: ``driver 525 (CUDA 12.0)``; ``a driver of CUDA 11.8``."""
    cuda = f"CUDA {version // 1000}.{version % 1000 // 10}"
    return f"driver {_DRIVERS[version]} ({cuda})" if version in _DRIVERS else f"a driver of {cuda}"


def format_table(
    images: Sequence[KernelImage], seconds: Mapping[Overload, float], *, everything: bool = False
) -> list[str]:
    """The lines of the table, a headline first; none where there are no images.

    Where index widths differ, a cell says ``32-bit/64-bit``; of several kernels together, ``least-greatest``.

    Args:
        images: of a build.
        seconds: what the images of an overload took, all targets together.
        everything: a row for each kernel and target, however many there are.
    """
    if not images:
        return []
    label, name_of, groups = _group(images, everything)
    spent: dict[str, float] = defaultdict(float)
    counts: dict[str, set[Overload]] = defaultdict(set)
    for image in images:
        overload = _overload(image)
        if overload not in counts[name_of(image)]:
            counts[name_of(image)].add(overload)
            spent[name_of(image)] += seconds.get(overload, 0.0)
    ranks = _rank_targets(images)
    rows: list[tuple[str, ...]] = [(label, *_HEAD)]
    shown = ""
    for (name, target), group in sorted(groups.items(), key=lambda item: (item[0][0], ranks[item[0][1]])):
        text = name if label == "kernel" else f"{name} ({_count(len(counts[name]), 'kernel')})".strip()
        first = len(rows) == 1 or name != shown
        rows.append((text if first else "", target, *_cells(group), f"{spent[name]:.2f}" if first else ""))
        shown = name
    return _align(rows)


_Groups: TypeAlias = dict[tuple[str, str], list[KernelImage]]


def _group(images: Sequence[KernelImage], everything: bool) -> tuple[str, Callable[[KernelImage], str], _Groups]:
    """What the first column names, the name of an image there, and images by (name, target), few enough to read."""

    def group_by(name_of: Callable[[KernelImage], str]) -> _Groups:
        groups: _Groups = defaultdict(list)
        for image in images:
            groups[name_of(image), image.target].append(image)
        return groups

    for label, name_of in (("kernel", _kernel), ("module", _module)):
        groups = group_by(name_of)
        if everything or len(groups) <= _MOST_ROWS:
            return label, name_of, groups
    return "", _no_name, group_by(_no_name)


def _no_name(image: KernelImage) -> str:
    return ""


def format_notable(images: Sequence[KernelImage], seconds: Mapping[Overload, float]) -> list[str]:
    """Which kernels spill registers, the worst first, and which took longest where there are many."""
    worst: dict[Overload, tuple[int, str]] = {}
    for image in images:
        worst[_overload(image)] = max(worst.get(_overload(image), (0, "")), (_spill(image), image.target))
    spilling = sorted((entry for entry in worst.items() if entry[1][0]), key=lambda entry: (-entry[1][0], entry[0]))
    lines = [
        f"spills: {module}:{qualname}({signature}), {size} bytes on {target}"
        for (module, qualname, signature), (size, target) in spilling[:_MOST_NAMED]
    ]
    if len(spilling) > _MOST_NAMED:
        lines.append(f"spills: {len(spilling) - _MOST_NAMED} more kernels")
    if len(worst) > _MOST_ROWS:
        slowest = sorted(seconds.items(), key=lambda entry: (-entry[1], entry[0]))[:_MOST_NAMED]
        lines.append(
            "slowest: " + ", ".join(f"{module}:{qualname} {spent:.2f} s" for (module, qualname, _), spent in slowest)
        )
    return lines


def _overload(image: KernelImage) -> Overload:
    return (image.module, image.qualname, image.signature)


def _kernel(image: KernelImage) -> str:
    return f"{image.module}:{image.qualname}({image.signature})"


def _module(image: KernelImage) -> str:
    return image.module


def _spill(image: KernelImage) -> int:
    return int(image.attributes.get("spill_store_bytes", 0)) + int(image.attributes.get("spill_load_bytes", 0))


def _cells(images: Sequence[KernelImage]) -> tuple[str, ...]:
    if images[0].kind == "ptx":  # the driver says what it uses
        return ("", "", "", "", _range(images, lambda image: len(image.data)))
    measures: list[Callable[[KernelImage], int]] = [
        lambda image: int(image.attributes.get("registers", 0)),
        lambda image: int(image.attributes.get("shared_bytes", 0)),
        lambda image: int(image.attributes.get("local_bytes", 0)),
        _spill,
        lambda image: len(image.data),
    ]
    return tuple(_range(images, measure) for measure in measures)


def _range(images: Sequence[KernelImage], measure: Callable[[KernelImage], int]) -> str:
    by_width = sorted((image.index_width, measure(image)) for image in images)
    values = [value for _, value in by_width]
    if len(set(values)) == 1:
        return str(values[0])
    if len({_overload(image) for image in images}) == 1:
        return "/".join(map(str, values))
    return f"{min(values)}-{max(values)}"


def _rank_targets(images: Sequence[KernelImage]) -> dict[str, int]:
    names = {image.target for image in images}
    known = sort_targets(target for target in map(find_target, names) if target is not None)
    return {name: rank for rank, name in enumerate([target.name for target in known])}


def _align(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns under one another: names to the left, numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip() if widths[0] else "  ".join(cells[1:]).rstrip())
    return lines


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
