# SPDX-License-Identifier: Apache-2.0
"""Targets: what code can be made for, which tools make it, and which device runs it.

A target is ``sm_XY``, ``sm_XYa`` or ``sm_XYf`` (a cubin) or ``compute_XY`` (PTX). The table is checked before LLVM sees
anything, because LLVM ends the process on a bad processor name. Which image a device takes is :func:`rank_targets`, a
pure function.
"""

from __future__ import annotations

from cudabuild.errors import TargetError, nearest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from cudabuild.image.image import DeviceInfo

__all__ = [
    "FAMILIES",
    "TARGETS",
    "Target",
    "cuda_of_isa",
    "find_target",
    "format_cc",
    "minimum_driver",
    "parse_archs",
    "parse_target",
    "rank_targets",
    "sort_targets",
]


class Target:
    """What code is made for; immutable, and equal to another exactly when ``name`` is equal.

    Attributes:
        name: ``sm_90``, ``sm_90a``, ``sm_100f``, ``compute_75``.
        cc: the compute capability, ``(9, 0)``.
        suffix: ``""``, ``"a"`` (this device only) or ``"f"`` (its family).
        is_ptx: True for ``compute_…``.
        ptx_isa: the PTX ISA version that is written for it, ``(7, 8)``; ``(0, 0)`` if not in the table.
        linker: the oldest nvJitLink that makes its cubin, ``(12, 9)``.
    """

    __slots__ = ("cc", "is_ptx", "linker", "name", "ptx_isa", "suffix")

    cc: tuple[int, int]
    is_ptx: bool
    linker: tuple[int, int]
    name: str
    ptx_isa: tuple[int, int]
    suffix: str

    def __init__(
        self,
        cc: tuple[int, int],
        suffix: str = "",
        is_ptx: bool = False,
        ptx_isa: tuple[int, int] = (0, 0),
        linker: tuple[int, int] = (13, 0),
    ) -> None:
        prefix = "compute" if is_ptx else "sm"
        set_ = object.__setattr__
        set_(self, "name", f"{prefix}_{cc[0]}{cc[1]}{suffix}")
        set_(self, "cc", cc)
        set_(self, "suffix", suffix)
        set_(self, "is_ptx", is_ptx)
        set_(self, "ptx_isa", ptx_isa)
        set_(self, "linker", linker)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Target is immutable: {name}")

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<Target {self.name}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and self.name == other.name

    def __hash__(self) -> int:
        return hash(self.name)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Target, (self.cc, self.suffix, self.is_ptx, self.ptx_isa, self.linker))

    @property
    def kind(self) -> str:
        """``"ptx"`` or ``"cubin"``."""
        return "ptx" if self.is_ptx else "cubin"

    @property
    def processor(self) -> str:
        """The name that LLVM and nvJitLink know it by: ``sm_90a``; for PTX, ``sm_75``."""
        return f"sm_{self.cc[0]}{self.cc[1]}{self.suffix}"

    @property
    def is_known(self) -> bool:
        """Whether this version of cudabuild can make code for it."""
        return self.name in TARGETS


#: compute capability: (PTX ISA per suffix, the oldest with all that we write; oldest nvJitLink).
_TABLE: dict[tuple[int, int], tuple[dict[str, tuple[int, int]], tuple[int, int]]] = {
    (7, 5): ({"": (7, 0)}, (12, 9)),
    (8, 0): ({"": (7, 0)}, (12, 9)),
    (8, 6): ({"": (7, 1)}, (12, 9)),
    (8, 7): ({"": (7, 4)}, (12, 9)),
    (8, 8): ({"": (9, 0)}, (13, 0)),
    (8, 9): ({"": (7, 8)}, (12, 9)),
    (9, 0): ({"": (7, 8), "a": (8, 0)}, (12, 9)),
    (10, 0): ({"": (8, 6), "a": (8, 6), "f": (8, 8)}, (12, 9)),
    (10, 3): ({"": (8, 8), "a": (8, 8), "f": (8, 8)}, (12, 9)),
    (11, 0): ({"": (9, 0), "a": (9, 0), "f": (9, 0)}, (13, 0)),
    (12, 0): ({"": (8, 7), "a": (8, 7), "f": (8, 8)}, (12, 9)),
    (12, 1): ({"": (8, 8), "a": (8, 8), "f": (8, 8)}, (12, 9)),
}

#: Every target that code can be made for, by name: cubins first, then PTX.
TARGETS: dict[str, Target] = {
    target.name: target
    for is_ptx in (False, True)
    for cc, (isas, linker) in _TABLE.items()
    for target in (Target(cc, suffix, is_ptx, isa, linker) for suffix, isa in isas.items() if not (is_ptx and suffix))
}

#: Families of compute capabilities: an ``f`` cubin runs on its own and on higher members of its family.
FAMILIES: tuple[frozenset[tuple[int, int]], ...] = (
    frozenset({(10, 0), (10, 3), (10, 7)}),
    frozenset({(11, 0)}),
    frozenset({(12, 0), (12, 1)}),
)

#: Tegra parts: no binary compatibility among themselves nor with desktop parts of the same major.
_TEGRA = frozenset({(8, 7), (11, 0)})

#: Numbers that CUDA once used, and what to write instead.
_RENAMED = {"101": "110"}

#: PTX ISA version -> the CUDA version that brought it. From 13.0 on both count alike: 9.N is CUDA 13.N.
_ISA_CUDA = {
    (6, 3): (10, 0), (6, 4): (10, 1), (6, 5): (10, 2),
    (8, 6): (12, 7), (8, 7): (12, 8), (8, 8): (12, 9),
}  # fmt: skip


def format_cc(cc: tuple[int, int]) -> str:
    """``"9.0"``."""
    return f"{cc[0]}.{cc[1]}"


def cuda_of_isa(isa: tuple[int, int]) -> tuple[int, int]:
    """The first CUDA version whose driver knows a PTX ISA version: ``(8, 7)`` -> ``(12, 8)``."""
    return _ISA_CUDA.get(isa) or (isa[0] + 4, isa[1])


def minimum_driver(
    target: Target, *, linker: tuple[int, int] | None = None, ptx_isa: tuple[int, int] | None = None
) -> int:
    """The oldest driver that takes an image, as ``cuDriverGetVersion`` counts: 12000, 13000, 11080 …

    A cubin runs on every driver of its linker's major and on newer ones; PTX needs a driver that knows its ISA version.

    Args:
        target: what the image is for.
        linker: the nvJitLink that made the cubin; the oldest that can by default.
        ptx_isa: the ISA version written in the PTX; the target's oldest by default.
    """
    if target.is_ptx:
        major, minor = cuda_of_isa(ptx_isa or target.ptx_isa)
        return major * 1000 + minor * 10
    return (linker or target.linker)[0] * 1000


def find_target(name: str) -> Target | None:
    """The target called ``name`` exactly as it is written in archives, or None.

    A well-formed name outside the table (from a newer cudabuild, such as ``sm_107``) is found too: it may run here.
    """
    known = TARGETS.get(name)
    if known is not None:
        return known
    prefix, _, rest = name.partition("_")
    suffix = rest[-1:] if rest[-1:] in ("a", "f") else ""
    digits = rest[: len(rest) - len(suffix)]
    if prefix not in ("sm", "compute") or not _is_number(digits) or (suffix and prefix == "compute"):
        return None
    return Target((int(digits[:-1]), int(digits[-1])), suffix, prefix == "compute")


def parse_target(text: str) -> Target:
    """The one target that ``text`` spells: ``sm_90a``, ``90a``, ``9.0a``, ``86-real``, ``compute_75``, ``75-virtual``.

    Raises:
        TargetError: unknown, or not one target; names the nearest and lists what there is.
    """
    found = _parse_entry(text)
    if len(found) != 1:
        raise TargetError(
            f"one target expected\n  found:    {text!r}, which is {len(found)}\n"
            f"  expected: one of {_spell(found)}\n  do:       name one of them"
        )
    return found[0]


def parse_archs(
    archs: str | Sequence[str],
    ptx: str | Sequence[str] = "lowest",
    *,
    linker: tuple[int, int] | None = None,
    native: Callable[[], Sequence[tuple[int, int]]] | None = None,
) -> list[Target]:
    """The targets that an architecture list stands for, cubins first, in ascending order, without repeats.

    Entries are separated by ``;``, ``,`` or spaces; case does not matter. ``86``, ``8.6``, ``sm_86`` and ``86-real``
    are cubins; ``86-virtual`` and ``compute_86`` are PTX; ``8.6+PTX`` is both; ``a`` or ``f`` may end a number.
    ``all`` is every plain cubin, ``all-major`` the lowest of every major, ``native`` the GPUs of this machine.

    Args:
        archs: the list, as one text or as several.
        ptx: PTX in addition: ``"lowest"`` or ``"newest"`` of the list's compute capabilities, ``"none"``, or a list.
        linker: the newest nvJitLink at hand; ``all`` and ``all-major`` leave out what it cannot make.
        native: the compute capabilities of this machine's GPUs; it may raise, and may return none.

    Raises:
        TargetError: an unknown entry, no entry, or ``native`` without a GPU.
    """
    entries = _split(archs)
    if not entries:
        raise TargetError(
            "no target\n  found:    an empty list of architectures\n"
            '  expected: names such as 80, 90a or all-major\n  do:       set archs, for example archs = ["80", "90"]'
        )
    found: list[Target] = []
    for entry in entries:
        found += _parse_word(entry, linker, native)
    ccs = sorted(target.cc for target in found)
    if ptx == "lowest":
        found.append(_ptx(ccs[0]))
    elif ptx == "newest":
        found.append(_ptx(ccs[-1]))
    elif ptx != "none":
        for entry in _split(ptx):
            found += [target if target.is_ptx else _ptx(target.cc) for target in _parse_word(entry, linker, native)]
    return sort_targets(found)


def sort_targets(targets: Iterable[Target]) -> list[Target]:
    """Targets in canonical order, without repeats: cubins before PTX, by number, plain before ``a`` before ``f``."""
    return sorted(set(targets), key=lambda target: (target.is_ptx, target.cc, target.suffix))


def _split(archs: str | Sequence[str]) -> list[str]:
    texts = [archs] if isinstance(archs, str) else archs
    return [word for text in texts for word in text.replace(";", " ").replace(",", " ").split()]


def _ptx(cc: tuple[int, int]) -> Target:
    return TARGETS[f"compute_{cc[0]}{cc[1]}"]


def _parse_word(
    word: str, linker: tuple[int, int] | None, native: Callable[[], Sequence[tuple[int, int]]] | None
) -> list[Target]:
    lowered = word.lower()
    if lowered == "native":
        return _native_targets(native)
    if lowered not in ("all", "all-major"):
        return _parse_entry(word)
    plain = [t for t in TARGETS.values() if not t.is_ptx and not t.suffix and (linker is None or t.linker <= linker)]
    if lowered == "all-major":
        lowest: dict[int, Target] = {}
        for target in plain:
            lowest.setdefault(target.cc[0], target)
        plain = list(lowest.values())
    return plain


def _native_targets(native: Callable[[], Sequence[tuple[int, int]]] | None) -> list[Target]:
    ccs = native() if native is not None else ()
    if not ccs:
        raise TargetError(
            "no GPU to build for\n  found:    'native' on a machine without an NVIDIA GPU\n"
            "  expected: the numbers of the GPUs that the code is to run on\n"
            '  do:       name them, for example archs = ["80", "90"], or "all-major"'
        )
    plain = [target for target in TARGETS.values() if not target.is_ptx and not target.suffix]
    found = []
    for cc in ccs:
        ranked = sorted((rank, target.name) for target in plain for reason, rank in [_match(cc, target)] if not reason)
        if not ranked:
            raise TargetError(
                f"this machine's GPU is not supported\n  found:    compute capability {format_cc(cc)}\n"
                f"  expected: {_spell(plain)}\n  do:       name the targets instead of 'native'"
            )
        found.append(TARGETS[ranked[0][1]])
    return found


def _parse_entry(text: str) -> list[Target]:
    """The targets of one entry that is not a word such as ``all``."""
    word = text.strip().lower()
    with_ptx = word.endswith("+ptx")
    word = word.removesuffix("+ptx")
    is_ptx = False
    for ending, meaning in (("-real", False), ("-virtual", True)):
        if word.endswith(ending):
            word, is_ptx = word.removesuffix(ending), meaning
            break
    else:
        if word.startswith("compute_"):
            word, is_ptx = word.removeprefix("compute_"), True
        else:
            word = word.removeprefix("sm_")
    suffix = word[-1:] if word[-1:] in ("a", "f") else ""
    number = word[: len(word) - len(suffix)]
    major, dot, minor = number.partition(".")
    if dot and major.isascii() and major.isdigit() and len(minor) == 1 and minor.isdigit():
        number = major + minor
    target = TARGETS.get(f"sm_{number}{suffix}") if _is_number(number) else None
    if target is None:
        raise _unknown(text, number, suffix)
    if is_ptx and suffix:
        raise TargetError(
            f"no such target\n  found:    {text!r}\n  expected: PTX without {suffix!r}: "
            "it runs on its own device and on newer ones\n"
            f"  do:       write 'compute_{number}', or 'sm_{number}{suffix}' for a cubin"
        )
    if is_ptx:
        return [_ptx(target.cc)]
    return [target, _ptx(target.cc)] if with_ptx else [target]


def _is_number(text: str) -> bool:
    return 2 <= len(text) <= 3 and text.isascii() and text.isdigit() and text[0] != "0"


def _unknown(text: str, number: str, suffix: str) -> TargetError:
    cubins = [target for target in TARGETS.values() if not target.is_ptx]
    near = _RENAMED.get(number)
    if near:
        near += suffix
    elif _is_number(number):
        ccs = sorted(_TABLE, key=lambda cc: (abs(10 * cc[0] + cc[1] - int(number)), cc))
        near = f"{ccs[0][0]}{ccs[0][1]}"
    else:
        found = nearest_name(text.strip().lower(), [*TARGETS, "native", "all", "all-major"])
        near = found.removeprefix("sm_") if found else None
    lines = [
        "no such target",
        f"  found:    {text!r}",
        f"  expected: {_spell(cubins)}, each also as compute_… without a suffix, or native, all, all-major",
    ]
    if near:
        lines.append(f"  do:       did you mean {near!r}?")
    return TargetError("\n".join(lines))


def _spell(targets: Iterable[Target]) -> str:
    return ", ".join(target.name for target in targets)


def rank_targets(
    device: DeviceInfo, targets: Iterable[Target], minimum_drivers: Mapping[Target, int] | None = None
) -> list[tuple[Target, str | None]]:
    """The images that a device can take, best first (reason None), then those it cannot, each with its reason.

    Order: its own ``a`` cubin; its own ``f``; its own plain one; ``f`` of a lower member of its family; plain of the
    same major and the highest lower minor (Tegra parts: their own only); then PTX, the highest first.

    Args:
        device: compute capability and driver version.
        targets: what there is.
        minimum_drivers: the oldest driver per target, as recorded with the images; where it is not given, what the
            target's oldest tool asks for.
    """
    usable: list[tuple[tuple[int, ...], Target]] = []
    skipped: list[tuple[Target, str | None]] = []
    for target in sort_targets(targets):
        reason, rank = _match(device.cc, target)
        if reason is None:
            driver = (minimum_drivers or {}).get(target) or minimum_driver(target)
            if device.driver_version < driver:
                reason = (
                    f"needs a driver for CUDA {_format_cuda(driver)} or newer; "
                    f"this one is for CUDA {_format_cuda(device.driver_version)}"
                )
        if reason is None:
            usable.append((rank, target))
        else:
            skipped.append((target, reason))
    ranked: list[tuple[Target, str | None]] = [(target, None) for _, target in sorted(usable, key=lambda item: item[0])]
    return ranked + skipped


def _match(cc: tuple[int, int], target: Target) -> tuple[str | None, tuple[int, ...]]:
    """Why ``target`` does not run on compute capability ``cc``, or None and its rank (lower is better)."""
    lower = (-target.cc[0], -target.cc[1])
    here = format_cc(cc)
    if target.is_ptx:
        if target.cc > cc:
            return f"PTX for {format_cc(target.cc)} and newer; the device is {here}", ()
        return None, (5, *lower)
    if target.cc == cc:
        return None, ({"a": 0, "f": 1, "": 2}[target.suffix],)
    if target.suffix == "a":
        return f"runs on {format_cc(target.cc)} only; the device is {here}", ()
    if target.suffix == "f":
        if target.cc < cc and any(target.cc in family and cc in family for family in FAMILIES):
            return None, (3, *lower)
        return f"runs on {format_cc(target.cc)} and newer of its family only; the device is {here}", ()
    if target.cc[0] == cc[0] and target.cc < cc:
        if target.cc in _TEGRA or cc in _TEGRA:
            return f"cubins for {format_cc(target.cc)} do not run on {here}: Tegra parts take their own only", ()
        return None, (4, *lower)
    return f"runs on {format_cc(target.cc)} and newer of major {target.cc[0]} only; the device is {here}", ()


def _format_cuda(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
