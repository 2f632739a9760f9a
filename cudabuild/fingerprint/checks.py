# SPDX-License-Identifier: Apache-2.0
"""Whether a live kernel still is what an image was built from, told without parsing any source.

For every function that an image contains, a :class:`Check` holds the digest of its source *file* and the text of every
free value that it reads. Where all files and all values are the same, so is the fingerprint. An image is never bound by
trust in a file's time or size; these only save hashing an unchanged file again within one process.
"""

from __future__ import annotations

import errno

from cudabuild.definition import STARTED, Options, is_sourceless
from cudabuild.digest import digest
from cudabuild.errors import SourceError
from cudabuild.fingerprint.values import MISSING, describe_value, function_identity, module_name, place_of, resolve_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence
    from types import FunctionType
    from typing import Any

    from cudabuild.definition import KernelDefinition

__all__ = [
    "DEFAULTS",
    "LINE",
    "LINKED",
    "UNREADABLE",
    "Check",
    "check_live",
    "default_values",
    "effective_options",
    "read_source_digest",
]

#: The name under which a function's parameter defaults are kept; no Python name is spelled like it.
DEFAULTS = "(defaults)"

#: The name under which the code that a decorator links to a function is kept.
LINKED = "(linked)"

#: The name under which the kernel's first line is kept: the branches of an ``if`` may define kernels of one name,
#: with the same free values. The lines of other functions are in the texts of the names that lead to them.
LINE = "(line)"


#: What the file names of modules begin with that stand in the interpreter itself; obfuscators take it too.
_FROZEN = "<frozen "


class Check:
    """One function of an image.

    Attributes:
        label: the names that lead to it: "" for the kernel itself, ``helper``, ``helper/inner``.
        source: the digest of its source file; b"" where it had none.
        values: ``(dotted name, text of its value)`` of every free name, and what ``DEFAULTS`` and ``LINE`` stand for.
    """

    __slots__ = ("label", "source", "values")

    def __init__(self, label: str, source: bytes, values: Sequence[tuple[str, str]]) -> None:
        self.label = label
        self.source = source
        self.values = tuple(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Check) and (self.label, self.source, self.values) == (
            other.label,
            other.source,
            other.values,
        )

    def __hash__(self) -> int:
        return hash((self.label, self.source, self.values))

    def __repr__(self) -> str:
        return f"<Check {self.label or 'kernel'} {self.source.hex()[:8]} {len(self.values)} values>"


def check_live(function: FunctionType, checks: Sequence[Check], *, by_name: bool) -> str:
    """Compares a kernel, as it is now, to what an image was built from.

    Functions are met in the order in which the fingerprint met them.

    Args:
        function: the kernel.
        checks: of the image.
        by_name: a function without readable source (an installation of ``.pyc`` files only) is compared by its name and
            its free values. Only for images that came with the code; functions made by ``exec``, in notebook cells and
            at prompts share their names with others and never count by them.

    Returns:
        "" where nothing differs, so that the fingerprint is the same too; else the first difference, for people. Where
        there is source, a fingerprint then tells whether the difference matters (another kernel of the file may have
        changed).
    """
    functions: list[FunctionType] = [function]

    def meet(found: FunctionType, definition: KernelDefinition | None) -> str:
        if not any(found is known for known in functions):
            functions.append(found)
        return function_identity(found, definition)

    for number, check in enumerate(checks):
        if number >= len(functions):
            return f"{check.label} is not reached any more"
        owner = functions[number]
        source, changed = _look_at_source(owner)
        file = owner.__code__.co_filename
        if not source and not (by_name and (not file.startswith("<") or file.startswith(_FROZEN))):
            return f"{owner.__qualname__} has no source file to compare ({file})"
        if source == UNREADABLE:
            return f"the source of {module_name(owner)} cannot be read now ({file})"
        if source and source != check.source:
            return f"the source of {module_name(owner)} differs from what was built ({file})"
        if changed > STARTED * 1e9 and not _is_current(owner):  # an upgrade in place: the file is new, the code old
            return f"the source of {module_name(owner)} has changed since it was imported ({file})"
        for name, text in check.values:
            if name == LINE:
                line = place_of(owner)
                if line != text:
                    return f"{owner.__qualname__} was defined on line {text} when built and is on line {line} now"
                continue
            if name == LINKED:
                from cudabuild.linking import describe_links

                live = describe_links(owner)
            else:
                found = default_values(owner) if name == DEFAULTS else _find(owner, name)
                live = describe_value(found, meet)
            if live != text and not (by_name and _is_missing_only(text, live)):
                label = f"{check.label}/{name}" if check.label else name
                return f"{label} was {text} when built and is {live} now"
    return ""


def _is_missing_only(text: str, live: str) -> bool:
    """Whether a value differs from what was built by foreign code alone that cannot be read here."""
    from cudabuild.linking import same_but_missing  # few kernels have any

    return same_but_missing(text, live)


def _find(owner: FunctionType, name: str) -> Any:
    chain = name.split(".")
    value, used = resolve_name(owner, chain)
    return value if used == len(chain) else MISSING


def default_values(function: FunctionType) -> tuple[Any, ...]:
    """What a function's parameter defaults are, as one value."""
    return (function.__defaults__, function.__kwdefaults__)


#: file -> (what it looked like, digest of its bytes)
_known_files: dict[str, tuple[tuple[int, ...], bytes]] = {}

#: A file changed this recently may change again without its time showing it.
_RACY_NS = 2_000_000_000


#: In place of the digest of a file that is there and cannot be read now (too many open files, a file server that is
#: away). It equals no digest: a kernel whose source may have been edited must not count as one without source.
UNREADABLE = b"unreadable"

#: What it is called when there is no such file. Archives of modules (zip) raise errors without a number.
_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, 0, None})


def read_source_digest(function: FunctionType) -> bytes:
    """The digest of the file that a function was defined in; b"" where there is none.

    :data:`UNREADABLE` where it cannot be read now.
    """
    return _look_at_source(function)[0]


def _look_at_source(function: FunctionType) -> tuple[bytes, int]:
    """What :func:`read_source_digest` says, and when the file was last changed: in ns, 0 where it is no file."""
    import os
    import time

    file = function.__code__.co_filename
    if is_sourceless(function):
        return b"", 0
    try:
        stat = os.stat(file)
        look = (stat.st_mtime_ns, stat.st_ctime_ns, stat.st_size, stat.st_ino, stat.st_dev)
        known = _known_files.get(file)
        if known is not None and known[0] == look:
            return known[1], max(look[:2])
        with open(file, "rb") as stream:
            found = digest(stream.read())
    except ValueError:  # no name of a file
        return _digest_from_loader(function, file), 0
    except OSError as error:
        return (_digest_from_loader(function, file) if error.errno in _ABSENT else UNREADABLE), 0
    if time.time_ns() - max(look[:2]) > _RACY_NS:
        _known_files[file] = (look, found)
    return found, max(look[:2])


def _is_current(function: FunctionType) -> bool:
    """Whether a function is what its file says now; parses the file."""
    from cudabuild.source import get_source

    try:
        get_source(function)
    except SourceError:
        return False
    return True


def _digest_from_loader(function: FunctionType, file: str) -> bytes:
    """For modules in zip files and other loaders that keep the text themselves."""
    loader = function.__globals__.get("__loader__")
    get_data = getattr(loader, "get_data", None)
    if get_data is None:
        return b""
    try:
        return digest(get_data(file))
    except OSError as error:
        return b"" if error.errno in _ABSENT else UNREADABLE
    except Exception:  # what loaders raise is up to them, and to a damaged zip file: there is no source to compare
        return b""


def effective_options(
    written: Options, recorded: Mapping[str, Any], decorated: Collection[str] = ()
) -> tuple[Options, str]:
    """The options that a kernel has now: what the decorator writes, and else what the build chose.

    Args:
        written: the kernel's options.
        recorded: the options recorded with an image that differ from their defaults.
        decorated: the names of those that the decorator wrote when the image was built; the others are the build's.

    Returns:
        The options; and why the image does not fit them, or "" if it does.
    """
    built = Options(recorded)
    unknown = sorted(name for name in recorded if name not in built.values)
    if unknown:
        return written, f"it was built with {', '.join(unknown)}, which this version does not know"
    now = {name: value for name, value in built.values.items() if name not in decorated}
    now.update((name, written[name]) for name in written.written)
    options = Options(now, written.written)
    for name in sorted(built.values):
        if options[name] != built[name]:
            return options, f"{name} was {built[name]!r} when built and is {options[name]!r} now"
    return options, ""
