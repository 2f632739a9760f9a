# SPDX-License-Identifier: Apache-2.0
"""Of the images that there are, the one that comes nearest to what is wanted, and every part that differs.

Nearest are images of the same module and qualified name, then those of the same code with other free values (a copy of
the kernel that goes by another name); among these the one of which the fewest parts differ. Reads everything that the
records say: for messages only.
"""

from __future__ import annotations

from cudabuild.definition import OPTIONS
from cudabuild.errors import ImageFormatError, SourceError
from cudabuild.fingerprint import compute_fingerprint
from cudabuild.fingerprint.checks import effective_options
from cudabuild.fingerprint.key import differences
from cudabuild.fingerprint.values import module_name
from cudabuild.image.image import KNOWN_LAUNCH_ABIS
from cudabuild.types.signature import format_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from cudabuild.definition import Options
    from cudabuild.image.archive import Record
    from cudabuild.image.image import ImageRequest

__all__ = ["describe_nearest"]

#: A part's value longer than this is told by its beginning.
_LONGEST = 60


def describe_nearest(
    records: Iterable[Record],
    request: ImageRequest,
    *,
    named: bool = False,
    options: Options | None = None,
    toolchain: Callable[[str], Mapping[str, str] | None] | None = None,
) -> str:
    """The nearest of some records and how it differs from what is wanted, on one line.

    Args:
        records: those that this device could run.
        request: what is wanted.
        named: where records have the name and signature that are wanted, they are described too.
        options: what a record must have been compiled with, to the last option; None where only what the decorator
            writes counts.
        toolchain: what would make a target's code now; None where that does not count.

    Returns:
        "" where nothing is near, or nothing differs.
    """
    search = _Search(request, options, toolchain)
    best: tuple[tuple[int, int], str] | None = None
    for record in records:
        try:
            found = search.compare(record)
        except (ImageFormatError, SourceError):  # told where it was looked for; without source nothing can be compared
            continue
        if found is None:
            continue
        if found[0][0] == 0 and not (named and found[1]):
            return ""
        if best is None or found[0] < best[0]:
            best = found
    return best[1] if best is not None else ""


class _Search:
    def __init__(
        self,
        request: ImageRequest,
        options: Options | None,
        toolchain: Callable[[str], Mapping[str, str] | None] | None,
    ) -> None:
        self._request = request
        self._options = options
        self._toolchain = toolchain
        self._kernel = (module_name(request.definition.function), request.definition.qualname)
        self._signature = format_signature(request.signature)
        self._live: dict[Options, tuple[tuple[str, str], ...]] = {}

    def compare(self, record: Record) -> tuple[tuple[int, int], str] | None:
        """How near a record is (lower is nearer), and how it differs; None if it has nothing to do with the kernel."""
        same_name = (record.module, record.qualname) == self._kernel
        options = self._options or effective_options(self._request.options, record.options, record.decorated)[0]
        toolchain, before = record.read_extra()
        now = self._parts(options)
        if not same_name and _code_of(before) != _code_of(now):
            return None
        told = [*self._identity(record, same_name), *differences(before, now)]
        if self._options is not None:
            told += self._other_options(record)
        wanted = self._toolchain(record.target) if self._toolchain is not None else None
        if wanted is not None:
            told += differences(_tools(toolchain), _tools(wanted))
        rank = 2 if not same_name else 0 if record.signature == self._signature else 1
        if not told:
            return (rank, 0), ""
        what = f"{record.module}:{record.qualname}({record.signature}) for {record.target}"
        return (rank, len(told)), f"{what}; {'; '.join(map(_shorten, told))}"

    def _parts(self, options: Options) -> tuple[tuple[str, str], ...]:
        if options not in self._live:
            request = self._request
            self._live[options] = compute_fingerprint(request.definition, request.signature, options).parts
        return self._live[options]

    def _identity(self, record: Record, same_name: bool) -> list[str]:
        """Differences in what is no part of a fingerprint."""
        told = []
        if not same_name:
            told.append(f"kernel: {record.module}:{record.qualname} -> {':'.join(self._kernel)}")
        if record.index_width < self._request.index_width:
            told.append(f"index width: {record.index_width} -> {self._request.index_width}")
        if record.launch_abi not in KNOWN_LAUNCH_ABIS:
            told.append(f"launch ABI: {record.launch_abi} -> {', '.join(map(str, sorted(KNOWN_LAUNCH_ABIS)))}")
        return told

    def _other_options(self, record: Record) -> list[str]:
        """Differences in the options that only change code."""
        assert self._options is not None
        pairs = [
            (spec.name, record.options.get(spec.name, spec.default), self._options[spec.name])
            for spec in OPTIONS
            if not spec.changes_results
        ]
        return [f"option {name}: {before!r} -> {now!r}" for name, before, now in pairs if before != now]


def _tools(toolchain: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(f"tool {name}", version) for name, version in sorted(toolchain.items())]


def _code_of(parts: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """What is left of parts without the free values and the signature."""
    return [(label, value) for label, value in parts if label.rpartition("/")[2] == "(code)"]


def _shorten(text: str) -> str:
    """A difference with long values (digests, arrays) told by their beginnings."""
    label, _, values = text.partition(": ")
    return f"{label}: {' -> '.join(_begin(value) for value in values.split(' -> '))}"


def _begin(value: str) -> str:
    is_digest = len(value) == 64 and all(letter in "0123456789abcdef" for letter in value)
    longest = 12 if is_digest else _LONGEST
    return value if len(value) <= longest else f"{value[:longest]}…"
