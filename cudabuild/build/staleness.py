# SPDX-License-Identifier: Apache-2.0
"""Whether archives are what a build would make of the sources now. Compares meanings, compiles nothing.

The tools that made an image are not compared: an image of another compiler still is one of this source, and binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from cudabuild.build.settings import BuildSettings
from cudabuild.build.survey import Overload, Survey
from cudabuild.errors import ImageFormatError
from cudabuild.image.archive import Archive, Record
from cudabuild.image.image import LAUNCH_ABI
from cudabuild.image.left import LeftToJit

__all__ = ["Checked", "Problem", "check_archives"]

#: Whether the sources have the overload -> why its image is one too many.
_EXTRA = {
    True: "it is not built any more for this target or index width",
    False: "nothing in the sources makes this image any more",
}

#: Longer texts of values are cut in reasons.
_LONGEST = 60


@dataclass(frozen=True)
class Problem:
    """One kernel whose images are not what a build would make now, or one archive that is damaged.

    Attributes:
        module, qualname, signature: the overload; empty for an archive.
        variant: what tells the kernel from others of its name, or "".
        kind: ``changed``, ``missing``, ``extra`` (nothing in the sources makes it any more) or ``damaged``.
        targets: of the images that this is about.
        reason: for people.
    """

    module: str
    qualname: str
    signature: str
    kind: str
    targets: tuple[str, ...]
    reason: str
    variant: str = ""

    def __str__(self) -> str:
        variant = f" [{self.variant}]" if self.variant else ""
        name = f"{self.module}:{self.qualname}({self.signature}){variant}: " if self.module else ""
        return f"{name}{self.reason}" + (f" [{', '.join(self.targets)}]" if self.targets else "")


@dataclass
class Checked:
    """What a check found.

    Attributes:
        current: how many images are as a build would make them.
        problems: everything else.
    """

    current: int = 0
    problems: list[Problem] = field(default_factory=list)


#: (module, target) -> the archive that should hold its images, or None where there is none.
FindArchive = Callable[[str, str], Archive | None]


def check_archives(
    survey: Survey,
    settings: BuildSettings,
    find_archive: FindArchive,
    others: Iterable[Archive] = (),
    left: Iterable[LeftToJit] = (),
) -> Checked:
    """Compares archives with what a build would make.

    Args:
        survey: of the sources.
        settings: what is to be built.
        find_archive: finds the archive for a module's kernels and a target; it may raise ImageFormatError.
        others: all archives that there are, for what nothing in the sources makes any more.
        left: what the build left to JIT: recorded overloads that could not be compiled, among them.
    """
    check = _Check(find_archive)
    stale = [one for one in left if one.kind == "stale"]
    for overload in survey.overloads:
        if overload.recorded and any(_is_of(one, overload) for one in stale):
            continue
        for target in settings.targets:
            for width in settings.index_widths:
                check.compare(overload, target.name, width)
    for archive in others:
        check.find_extra(archive)
    return check.finish()


def _is_of(left: LeftToJit, overload: Overload) -> bool:
    named = (left.module, left.qualname) == (overload.module, overload.qualname)
    return named and repr(overload.signature) in left.reason


class _Check:
    """A check under way; problems that differ in the target only are told as one."""

    def __init__(self, find_archive: FindArchive) -> None:
        self._find_archive = find_archive
        self._current = 0
        self._problems: dict[tuple[str, str, str, str, str, str], list[str]] = {}
        self._seen: set[tuple[str, str, str, str, int, bytes]] = set()
        self._named: set[tuple[str, str, str, str]] = set()

    def compare(self, overload: Overload, target: str, width: int) -> None:
        """Compares one image."""
        name = (overload.module, overload.qualname, overload.signature)
        try:
            archive = self._find_archive(overload.module, target)
            records = archive.find_named(*name) if archive is not None else []
        except ImageFormatError as error:
            self._add(("", "", ""), "damaged", target, str(error))
            return
        self._named.add((*name, target))
        if archive is None:
            self._add(name, "missing", target, "there is no archive of this target", overload.variant)
            return
        fitting = [record for record in records if record.index_width == width]
        for record in fitting:
            if not self._find_difference(overload, record):
                self._seen.add((*name, target, width, record.fingerprint))
                self._current += 1
                return
        if not fitting:
            what = f"there is no image with {width}-bit indices" if records else "there is no image of it"
            self._add(name, "missing", target, what, overload.variant)
        else:
            nearest = min(fitting, key=lambda record: _count_differences(overload, record))
            self._add(name, "changed", target, self._find_difference(overload, nearest), overload.variant)

    def _find_difference(self, overload: Overload, record: Record) -> str:
        if record.fingerprint != overload.fingerprint:
            return _explain(dict(record.read_extra()[1]), dict(overload.parts), overload.qualname)
        if record.launch_abi != LAUNCH_ABI:
            return f"it was built for launch ABI {record.launch_abi}, and this version makes {LAUNCH_ABI}"
        if dict(record.options) != dict(overload.options):
            return _explain(_texts(record.options), _texts(overload.options), overload.qualname)
        return ""

    def find_extra(self, archive: Archive) -> None:
        """Notes the images that no overload of the sources stands for."""
        try:
            for record in archive.records():
                name = (record.module, record.qualname, record.signature)
                if (*name, archive.target, record.index_width, record.fingerprint) in self._seen:
                    continue
                if (*name, archive.target) in self._named and any(
                    problem[:3] == name and archive.target in targets for problem, targets in self._problems.items()
                ):
                    continue  # told as changed
                known = any(named[:3] == name for named in self._named)
                self._add(name, "extra", archive.target, _EXTRA[known])
        except ImageFormatError as error:
            self._add(("", "", ""), "damaged", archive.target, str(error))

    def _add(self, name: tuple[str, str, str], kind: str, target: str, reason: str, variant: str = "") -> None:
        targets = self._problems.setdefault((*name, variant, kind, reason), [])
        if target not in targets:
            targets.append(target)

    def finish(self) -> Checked:
        problems = [
            Problem(module, qualname, signature, kind, tuple(targets), reason, variant)
            for (module, qualname, signature, variant, kind, reason), targets in self._problems.items()
        ]
        return Checked(self._current, sorted(problems, key=lambda one: (one.module, one.qualname, one.signature)))


def _count_differences(overload: Overload, record: Record) -> int:
    before, now = dict(record.read_extra()[1]), dict(overload.parts)
    return sum(before.get(label) != now.get(label) for label in {*before, *now})


def _texts(options: Mapping[str, object]) -> dict[str, str]:
    return {f"option {name}": repr(value) for name, value in options.items()}


def _explain(before: Mapping[str, str], now: Mapping[str, str], qualname: str) -> str:
    found = []
    for label in dict.fromkeys([*before, *now]):
        old, new = before.get(label), now.get(label)
        if old == new:
            continue
        owner, _, name = label.rpartition("/")
        if name == "(code)":
            found.append(f"the code of {owner.rpartition('/')[2] or qualname} was changed")
        elif name.startswith("(option "):
            found.append(f"{name.strip('()')} was {_cut(old)} and is {_cut(new)} now")
        else:
            found.append(f"{label} was {_cut(old)} and is {_cut(new)} now")
    return "; ".join(found) or "it means something else now"


def _cut(text: str | None) -> str:
    if text is None:
        return "nothing"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
