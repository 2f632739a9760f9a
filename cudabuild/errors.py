# SPDX-License-Identifier: Apache-2.0
"""The exception tree, and how an error shows the place in the user's file.

Every error says what was found, what was expected and what to do. A compile error carries all diagnostics of a kernel;
its text shows the file, the line, the line's text and a caret under the expression, and none of our own frames.
All errors keep their fields and survive pickling, because builds compile in worker processes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

__all__ = [
    "ArgumentError",
    "BoundsError",
    "BuildError",
    "CheckError",
    "CompilationError",
    "ConfigurationError",
    "ConfigurationTypeError",
    "CudabuildError",
    "Diagnostic",
    "DriverError",
    "Finding",
    "ImageFormatError",
    "KernelResultError",
    "KernelValueError",
    "LaunchError",
    "LinkedCodeError",
    "Location",
    "NoImageError",
    "NotAKernelError",
    "Party",
    "SettingError",
    "SignatureError",
    "SourceError",
    "TargetError",
    "ToolError",
    "WheelError",
    "nearest_name",
]


class CudabuildError(Exception):
    """The root of every error that cudabuild raises on purpose."""


class Location:
    """A span of the user's source: 1-based lines, 0-based character columns, the end exclusive."""

    __slots__ = ("column", "end_column", "end_line", "file", "line")

    def __init__(self, file: str, line: int, column: int, end_line: int, end_column: int) -> None:
        self.file = file
        self.line = line
        self.column = column
        self.end_line = end_line
        self.end_column = end_column

    def __repr__(self) -> str:
        return f"{self.file}:{self.line}:{self.column + 1}"

    def _key(self) -> tuple[Any, ...]:
        return (self.file, self.line, self.column, self.end_line, self.end_column)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Location) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        return (Location, self._key())


class Diagnostic:
    """One mistake in a kernel: where it is, what was found, what was expected, what to do.

    ``text`` is the source line at ``location.line`` (without its line end), or ``""`` where it is not known.
    """

    __slots__ = ("do", "expected", "found", "kernel", "location", "text", "title")

    def __init__(
        self, title: str, location: Location, text: str, *, kernel: str, found: str, expected: str, do: str
    ) -> None:
        self.title = title
        self.location = location
        self.text = text
        self.kernel = kernel
        self.found = found
        self.expected = expected
        self.do = do

    def __str__(self) -> str:
        where = self.location
        lines = [f"{where.file}:{where.line}: {self.title} (in {self.kernel})", *_picture(where, self.text)]
        for label, value in (("found", self.found), ("expected", self.expected), ("do", self.do)):
            if value:
                lines.append(f"  {label + ':':<9} {value}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        fields = (self.title, self.location, self.text, self.kernel, self.found, self.expected, self.do)
        return (_diagnostic, fields)


def _picture(where: Location, text: str) -> list[str]:
    """The source line with its number, and a caret line under the span; nothing where the line is not known."""
    if not text:
        return []
    number = str(where.line)
    stripped = text.lstrip()
    indent = len(text) - len(stripped)
    end = where.end_column if where.end_line == where.line else len(text)
    caret = " " * max(where.column - indent, 0) + "^" * max(end - where.column, 1)
    return [f"  {number} | {stripped}", f"  {' ' * len(number)} | {caret}"]


def _diagnostic(
    title: str, location: Location, text: str, kernel: str, found: str, expected: str, do: str
) -> Diagnostic:
    return Diagnostic(title, location, text, kernel=kernel, found=found, expected=expected, do=do)


class CompilationError(CudabuildError):
    """A kernel that cannot be compiled, with every mistake found in it (``diagnostics``, at least one)."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        self.diagnostics = tuple(diagnostics)
        super().__init__(self.diagnostics)

    def __str__(self) -> str:
        count = len(self.diagnostics)
        head = "" if count == 1 else f"{count} errors\n\n"
        return head + "\n\n".join(map(str, self.diagnostics))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.diagnostics,))


class KernelResultError(CompilationError, TypeError):
    """A kernel that returns a value, perhaps among other mistakes."""


class KernelValueError(CompilationError, ValueError):
    """A kernel that gives a name a number which it never takes, such as an alignment of 3; perhaps among others."""


class SourceError(CudabuildError):
    """A function whose source text cannot be had, or is not a plain function."""


class SignatureError(CudabuildError, TypeError):
    """A signature that cannot be read; ``offset`` is where in ``text``, in characters."""

    def __init__(
        self,
        text: str,
        offset: int,
        *,
        found: str,
        expected: str,
        nearest: tuple[str, Sequence[str]] | None = None,
    ) -> None:
        self.text = text
        self.offset = offset
        self.found = found
        self.expected = expected
        self.nearest = nearest
        super().__init__(text, offset)

    def __str__(self) -> str:
        lines = [
            "bad signature",
            f"  {self.text}",
            "  " + " " * self.offset + "^",
            f"  found:    {self.found}",
            f"  expected: {self.expected}",
        ]
        near = nearest_name(*self.nearest) if self.nearest else None
        hint = f"did you mean {near!r}?" if near else "write the argument types, such as 'float32, float32[::1]'"
        lines.append(f"  do:       {hint}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (_signature_error, (self.text, self.offset, self.found, self.expected, self.nearest))


def _signature_error(
    text: str, offset: int, found: str, expected: str, nearest: tuple[str, Sequence[str]] | None
) -> SignatureError:
    return SignatureError(text, offset, found=found, expected=expected, nearest=nearest)


class TargetError(CudabuildError, ValueError):
    """A target that is not known, or that the installed tools cannot make."""


class ToolError(CudabuildError):
    """A tool that is missing or failed: names the package and the command that installs it, or the tool's own log."""


class LinkedCodeError(ToolError):
    """Code that is to be linked into a kernel, and cannot be read or linked; says which and why."""


class SettingError(CudabuildError, ValueError):
    """A setting with an unknown key or a bad value: says where it stands and what it may be."""


class BuildError(CudabuildError):
    """Kernels of a project are wrong: the text says all that is, and where."""


class WheelError(CudabuildError):
    """A wheel that archives cannot be put into; says what is odd about it."""


class ImageFormatError(CudabuildError):
    """An archive, index or image whose bytes are not what they claim to be."""


class NoImageError(CudabuildError):
    """No image of a kernel can be had for this device: lists what ships, what the device is, and the ways out."""


class LaunchError(CudabuildError):
    """A launch with a bad configuration or arguments."""


class ConfigurationError(LaunchError, ValueError):
    """A launch configuration that is missing, or whose numbers no device takes."""


class ConfigurationTypeError(LaunchError, TypeError):
    """A launch configuration made of something else than whole numbers."""


class NotAKernelError(LaunchError, RuntimeError):
    """A launch of a device function."""


class ArgumentError(LaunchError, TypeError):
    """Arguments that a kernel does not take: too few or too many of them, or of other types."""


class BoundsError(LaunchError, IndexError):
    """A kernel indexed an array out of range; told after the launch (``debug=True``, or the CPU device)."""


class Party:
    """A thread that has part in a finding: where it is, what it does there, who it is."""

    __slots__ = ("block", "does", "location", "text", "thread")

    def __init__(
        self, location: Location, text: str, does: str, thread: tuple[int, int, int], block: tuple[int, int, int]
    ) -> None:
        self.location = location
        self.text = text
        self.does = does
        self.thread = thread
        self.block = block

    def __str__(self) -> str:
        return f"thread {self.thread} of block {self.block} {self.does}"

    def __reduce__(self) -> tuple[Any, ...]:
        return (Party, (self.location, self.text, self.does, self.thread, self.block))


class Finding:
    """One fault that a check (``CUDABUILD_CHECK``) saw: ``kind`` is ``races``, ``barriers`` or ``uninit``.

    ``parties`` are one thread or two, the one that gave the fault away first; ``count`` says how often these two lines
    met in the launch.
    """

    __slots__ = ("count", "kernel", "kind", "parties")

    _TEXTS = {
        "races": (
            "data race",
            "a barrier between the two, or atomic operations on both sides",
            "call cuda.syncthreads() between the two lines, or let each element belong to one thread",
            "two blocks meet only at the end of the kernel, a grid sync, or atomic operations on both sides",
            "let each element belong to one block, use cuda.atomic, or launch a second kernel",
        ),
        "barriers": (
            "threads of a block wait at different barriers",
            "every thread that has not returned comes to the same barrier",
            "move the barrier out of the branch or loop whose condition differs between threads",
        ),
        "uninit": (
            "memory read before it is written",
            "an element that a thread has written: shared and local arrays begin with no values of their own",
            "write the element first, and for a shared one call cuda.syncthreads() in between",
        ),
    }

    def __init__(self, kind: str, kernel: str, parties: Iterable[Party], count: int = 1) -> None:
        self.kind = kind
        self.kernel = kernel
        self.parties = tuple(parties)
        self.count = count

    def __str__(self) -> str:
        first = self.parties[0]
        title, expected, do, *between = self._TEXTS[self.kind]
        if between:
            second = self.parties[1]
            if first.block != second.block:
                expected, do = between
            elif first.location.line == second.location.line:
                do = "let each element belong to one thread, or use cuda.atomic"
        lines = [f"{first.location.file}:{first.location.line}: {title} (in {self.kernel})"]
        lines += [*_picture(first.location, first.text), f"  found:    {first}"]
        for other in self.parties[1:]:
            lines += [f"  and at:   {other.location.file}:{other.location.line}", *_picture(other.location, other.text)]
            lines.append(f"  found:    {other}")
        lines += [f"  expected: {expected}", f"  do:       {do}"]
        if self.count > 1:
            lines.append(f"  seen:     {self.count} times")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[Any, ...]:
        return (Finding, (self.kind, self.kernel, self.parties, self.count))


class CheckError(LaunchError):
    """What the checks of ``CUDABUILD_CHECK`` saw in one launch (``findings``, at least one), in order of lines."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        count = len(self.findings)
        head = "" if count == 1 else f"{count} faults\n\n"
        return head + "\n\n".join(map(str, self.findings))

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.findings,))


class DriverError(CudabuildError):
    """A CUDA driver call that failed; ``code`` is the CUresult, ``name`` its name."""

    def __init__(self, call: str, code: int, name: str, text: str = "") -> None:
        self.call = call
        self.code = code
        self.name = name
        self.text = text
        super().__init__(call, code, name, text)

    def __str__(self) -> str:
        return f"{self.call} failed: {self.name} ({self.code}){': ' + self.text if self.text else ''}"


def nearest_name(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like ``name``, if one is close enough to be a typing mistake."""
    if not name:
        return None
    import difflib

    matches = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.6)
    return matches[0] if matches else None
