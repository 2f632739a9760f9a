# SPDX-License-Identifier: Apache-2.0
"""The two identities: the fingerprint (what an overload means) and the image key (that, and what made the code)."""

from __future__ import annotations

from cudabuild.definition import OPTIONS
from cudabuild.digest import digest_parts
from cudabuild.fingerprint.values import is_in_process

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Protocol

    from cudabuild.definition import Options
    from cudabuild.fingerprint.checks import Check

    class Named(Protocol):
        """A target: it counts by its name."""

        @property
        def name(self) -> str: ...

    class Recorded(Protocol):
        """An image as an archive describes it."""

        @property
        def module(self) -> str: ...
        @property
        def qualname(self) -> str: ...
        @property
        def fingerprint(self) -> bytes: ...
        @property
        def target(self) -> str: ...
        @property
        def index_width(self) -> int: ...


__all__ = ["Fingerprint", "Parts", "differences", "image_key", "key_parts", "recorded_key"]

#: Labelled parts, in their canonical order.
Parts = tuple[tuple[str, str], ...]

#: The number of the rules by which parts are made; another number never meets this one's fingerprints.
_RULES = "2"


class Fingerprint:
    """What an overload means, as a digest over labelled parts.

    Attributes:
        digest: 32 bytes, compared in full.
        parts: ``(label, value)``, all texts. Labels in parentheses are rules, the others are free names; those of a
            device function start with the name that reaches it: ``helper/N``.
        module, qualname: the kernel's name; not part of the digest.
        decorated: the options that the decorator writes; the others are the build's.
        checks: what a later process compares instead of parsing source, see :mod:`cudabuild.fingerprint.checks`.
        sources: the files that contributed, with their digests (b"" where a file cannot be read).
        unresolved: names that stand for nothing, or for something that a kernel cannot use, with what was found.
    """

    __slots__ = ("checks", "decorated", "digest", "module", "parts", "qualname", "sources", "unresolved")

    def __init__(
        self,
        parts: Iterable[tuple[str, str]],
        *,
        module: str,
        qualname: str,
        decorated: tuple[str, ...],
        checks: tuple[Check, ...],
        sources: tuple[tuple[str, bytes], ...],
        unresolved: tuple[tuple[str, str], ...],
    ) -> None:
        self.parts: Parts = tuple(parts)
        self.digest = _digest_of(self.parts)
        self.module = module
        self.qualname = qualname
        self.decorated = decorated
        self.checks = checks
        self.sources = sources
        self.unresolved = unresolved

    @property
    def in_process(self) -> str:
        """The first name, or parameters' defaults, that hold a device array's address; such code is of this process
        only. Else ""."""
        return next((label for label, value in self.parts if is_in_process(value)), "")

    @property
    def free_values(self) -> list[tuple[str, str]]:
        """The free names and the texts of their values, those of device functions included."""
        return [(label, value) for label, value in self.parts if not label.rpartition("/")[2].startswith("(")]

    def __repr__(self) -> str:
        return f"<Fingerprint {self.module}:{self.qualname} {self.digest.hex()[:16]}>"


def _digest_of(parts: Parts) -> bytes:
    return digest_parts(*(text.encode() for part in (("(rules)", _RULES), *parts) for text in part))


def key_parts(
    fingerprint: Fingerprint,
    target: Named,
    index_width: int,
    options: Options,
    toolchain: Mapping[str, str],
    salt: str = "",
) -> Parts:
    """The labelled parts of an image key; see :func:`image_key`."""
    name = f"{fingerprint.module}:{fingerprint.qualname}"
    return _key_parts(fingerprint.digest, name, target.name, index_width, options, toolchain, salt)


def _key_parts(
    fingerprint: bytes,
    kernel: str,
    target: str,
    index_width: int,
    options: Options,
    toolchain: Mapping[str, str],
    salt: str,
) -> Parts:
    return (
        ("fingerprint", fingerprint.hex()),
        ("kernel", kernel),
        ("target", target),
        ("index width", str(index_width)),
        *((f"option {spec.name}", repr(options[spec.name])) for spec in OPTIONS if not spec.changes_results),
        *((f"tool {label}", version) for label, version in sorted(toolchain.items())),
        ("salt", salt),
    )


def recorded_key(record: Recorded, options: Options, toolchain: Mapping[str, str], salt: str) -> bytes:
    """The image key that a record would have under a salt; another one was made under another.

    Args:
        record: of an archive.
        options: everything that it was compiled with.
        toolchain: what it was made by.
        salt: as for :func:`image_key`.
    """
    name = f"{record.module}:{record.qualname}"
    return _digest_of(_key_parts(record.fingerprint, name, record.target, record.index_width, options, toolchain, salt))


def image_key(
    fingerprint: Fingerprint,
    target: Named,
    index_width: int,
    options: Options,
    toolchain: Mapping[str, str],
    salt: str = "",
) -> bytes:
    """The 32-byte key that builds and the cache find an image by.

    Args:
        fingerprint: what the overload means.
        target: what the code is for.
        index_width: 32 or 64.
        options: those that only change code are counted here, the others in the fingerprint.
        toolchain: label -> version or digest of everything that makes the code.
        salt: the user's own text (the setting ``cache_salt``).
    """
    return _digest_of(key_parts(fingerprint, target, index_width, options, toolchain, salt))


def differences(old: Iterable[tuple[str, str]], new: Iterable[tuple[str, str]]) -> list[str]:
    """What differs between two lists of parts, one line each: ``"N: 4 -> 8"``."""
    before, after = dict(old), dict(new)
    labels = [*before, *(label for label in after if label not in before)]
    return [
        f"{label}: {before.get(label, 'nothing')} -> {after.get(label, 'nothing')}"
        for label in labels
        if before.get(label) != after.get(label)
    ]
