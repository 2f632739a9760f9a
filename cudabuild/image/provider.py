# SPDX-License-Identifier: Apache-2.0
"""Which record of an archive answers a request: the one rule that shipped and cached images are bound by.

A record fits when its launch ABI, its options as far as the decorator wrote any, its driver and its index width fit,
and when it still is the same kernel: told by its checks, without parsing source, or else by the fingerprint.
"""

from __future__ import annotations

from cudabuild.errors import SourceError
from cudabuild.fingerprint.checks import check_live, effective_options, read_source_digest
from cudabuild.fingerprint.values import module_name
from cudabuild.image.image import KNOWN_LAUNCH_ABIS
from cudabuild.types.signature import format_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from cudabuild.definition import Options
    from cudabuild.fingerprint.checks import Check
    from cudabuild.image.archive import Archive, Record
    from cudabuild.image.image import ImageRequest

__all__ = ["KNOWN_LAUNCH_ABIS", "MOST_COMPARED", "Matcher", "find_in_archive", "format_driver"]

#: Kernels of one name, made by one function, that a message looks through for what they have in common.
_MOST_VARIANTS = 20

#: So many images of one name are compared with the live kernel by their checks, one after the other. Among more, its
#: fingerprint leads to the right one: parsing a function takes as long as comparing a dozen.
MOST_COMPARED = 12


def format_driver(version: int) -> str:
    """``12090`` -> ``"12.9"``."""
    return f"{version // 1000}.{version % 1000 // 10}"


class Matcher:
    """Matches records with one request; remembers what it found out about the live kernel.

    Attributes:
        module, qualname, signature: what records of the kernel are named.
        reason: why the last records did not fit.
    """

    __slots__ = (
        "_by_name",
        "_fingerprints",
        "_options",
        "_request",
        "_verdicts",
        "module",
        "qualname",
        "reason",
        "signature",
    )

    def __init__(self, request: ImageRequest, *, by_name: bool, options: Options | None = None) -> None:
        """Matches with ``request``.

        Args:
            request: what is wanted.
            by_name: as in :func:`check_live`: the images came with the code.
            options: what a record must have been compiled with, to the last option. None for images that came with the
                code: there the decorator's options count, and the build may have chosen others beside them.
        """
        self._request = request
        self._by_name = by_name
        self._options = options
        self._verdicts: dict[tuple[bytes, tuple[Check, ...]], str] = {}
        self._fingerprints: dict[Options, bytes] = {}
        function = request.definition.function
        self.module = module_name(function)
        self.qualname = function.__qualname__
        self.signature = format_signature(request.signature)
        self.reason = ""

    def choose(self, records: Sequence[Record]) -> Record | None:
        """The record to load, of the narrowest width that serves the request; or None, with ``reason``.

        There may be many of one name: kernels that a function made, each with its own captured values. All are compared
        by their checks before the source of the live kernel is parsed.
        """
        self.reason = ""
        differing: list[tuple[Record, str]] = []
        for record in sorted(records, key=lambda record: record.index_width):
            reason = self._find_obstacle(record)
            if reason:
                self.reason = self.reason or reason
                continue
            verdict = self._check(record)
            if not verdict:
                return record
            differing.append((record, verdict))
        for record, _ in differing:
            if self._is_same(record):
                return record
        if differing:  # nearer than what could not be loaded at all
            self.reason = self._explain(differing)
        if not records:
            self.reason = f"holds no {self.qualname}({self.signature})"
        return None

    def _find_obstacle(self, record: Record) -> str:
        request = self._request
        if record.launch_abi not in KNOWN_LAUNCH_ABIS:
            known = ", ".join(map(str, sorted(KNOWN_LAUNCH_ABIS)))
            return f"has launch ABI {record.launch_abi}; this version serves {known}"
        if record.index_width < request.index_width:
            return f"has {record.index_width}-bit indices only; this launch needs {request.index_width}"
        if record.minimum_driver > request.device.driver_version:
            return (
                f"needs a driver for CUDA {format_driver(record.minimum_driver)} or newer; "
                f"this one is for CUDA {format_driver(request.device.driver_version)}"
            )
        if request.refused and record.data_digest in request.refused:
            return f"was refused by the driver: {request.refused[record.data_digest]}"
        built, reason = effective_options(request.options, record.options, record.decorated)
        if reason or self._options is None:
            return reason
        for name, value in built.values.items():
            if value != self._options[name]:
                return f"{name} was {value!r} when compiled and is {self._options[name]!r} now"
        return ""

    def _check(self, record: Record) -> str:
        """How the live kernel differs from the record by its checks, or ""."""
        checks = record.read_checks()
        key = (record.fingerprint, checks)
        verdict = self._verdicts.get(key)
        if verdict is None:
            function = self._request.definition.function
            verdict = check_live(function, checks, by_name=self._by_name) if checks else "was kept without checks"
            self._verdicts[key] = verdict
        return verdict

    def _is_same(self, record: Record) -> bool:
        """Whether the record is what the live kernel means, though their checks differ."""
        if not self._has_source:
            return False
        try:
            return self._fingerprint(self._options_for(record)) == record.fingerprint
        except SourceError:
            return False

    @property
    def _has_source(self) -> bool:
        return not self._by_name or bool(read_source_digest(self._request.definition.function))

    def _options_for(self, record: Record) -> Options:
        return effective_options(self._request.options, record.options, record.decorated)[0]

    def _explain(self, differing: Sequence[tuple[Record, str]]) -> str:
        """What differs, for people; the verdict of the checks where there is no source to tell it from."""
        (first, verdict), *rest = {record.fingerprint: (record, verdict) for record, verdict in differing}.values()
        try:
            parts = self._differences(first) if self._has_source else {}
            others = [self._differences(record) for record, _ in rest[:_MOST_VARIANTS]] if parts else []
        except SourceError:
            parts, others = {}, []
        if rest and len(parts) == 1 and len(rest) == len(others) and all(set(other) == set(parts) for other in others):
            ((label, (before, now)),) = parts.items()  # variants of one kernel that differ in one captured value
            if not label.endswith("(code)"):
                values = sorted({before, *(other[label][0] for other in others)})
                return f"{label} was {', '.join(values[:-1])} or {values[-1]} when built and is {now} now"
        told = ", ".join(self._tell(label, *values) for label, values in parts.items()) or verdict
        return told + (f", and {len(rest)} more of this name differ{'' if len(rest) > 1 else 's'} too" if rest else "")

    def _tell(self, label: str, before: str, now: str) -> str:
        owner, _, name = label.rpartition("/")
        if name == "(code)":
            return f"the code of {owner.rpartition('/')[2] or self.qualname} differs from what was built"
        return f"{label} was {before} when built and is {now} now"

    def _differences(self, record: Record) -> dict[str, tuple[str, str]]:
        """The parts of the meaning that differ: label -> (what it was, what it is)."""
        from cudabuild.fingerprint import compute_fingerprint

        request = self._request
        before = dict(record.read_extra()[1])
        now = dict(compute_fingerprint(request.definition, request.signature, self._options_for(record)).parts)
        labels = dict.fromkeys([*before, *now])
        pairs = {label: (before.get(label, "missing"), now.get(label, "missing")) for label in labels}
        return {label: values for label, values in pairs.items() if values[0] != values[1]}

    def live_fingerprint(self, record: Record | None = None) -> bytes | None:
        """The fingerprint of the kernel as it is now; None where it has no source.

        Args:
            record: an image of it, for the options that its build chose; without one, the kernel's own options or those
                that records must have been compiled with.
        """
        if not self._has_source:
            return None
        options = self._options or (self._request.options if record is None else self._options_for(record))
        try:
            return self._fingerprint(options)
        except SourceError:
            return None

    def _fingerprint(self, options: Options) -> bytes:
        """The live kernel's fingerprint under some options."""
        request = self._request
        if options == request.options:
            return request.fingerprint
        if options not in self._fingerprints:
            from cudabuild.fingerprint import compute_fingerprint

            found = compute_fingerprint(request.definition, request.signature, options)
            self._fingerprints[options] = found.digest
        return self._fingerprints[options]


def find_in_archive(archive: Archive, matcher: Matcher) -> Record | None:
    """The record of an archive that answers a request, or None with ``matcher.reason``.

    A kernel that goes by another name now (a vendored copy) is found by its fingerprint.

    Raises:
        ImageFormatError: the archive is damaged.
    """
    name = (matcher.module, matcher.qualname, matcher.signature)
    named = archive.find_named(*name, most=MOST_COMPARED + 1)
    if len(named) > MOST_COMPARED:
        live = matcher.live_fingerprint(named[0])
        found = matcher.choose(archive.find_fingerprint(live)) if live is not None else None
        if found is not None:
            return found
        named = archive.find_named(*name)
    found = matcher.choose(named)
    if found is None and not named:
        live = matcher.live_fingerprint()
        renamed = archive.find_fingerprint(live) if live is not None else []
        if renamed:
            found = matcher.choose(renamed)
    return found
