# SPDX-License-Identifier: Apache-2.0
"""Computing a fingerprint: walks from a kernel to every function and value that it reaches.

Functions are met breadth first, their free names in sorted order, so two processes meet them alike. A function is known
by the names that first led to it, so recursion ends and no identity enters the digest.
"""

from __future__ import annotations

from types import FunctionType

from cudabuild.definition import OPTIONS, KernelDefinition, Options
from cudabuild.errors import SourceError
from cudabuild.fingerprint.canonical import canonical_form
from cudabuild.fingerprint.checks import DEFAULTS, LINE, LINKED, UNREADABLE, Check, default_values, read_source_digest
from cudabuild.fingerprint.key import Fingerprint
from cudabuild.fingerprint.values import (
    describe_value,
    function_identity,
    is_unresolved,
    module_name,
    options_text,
    place_of,
    resolve_name,
)
from cudabuild.linking import describe_links
from cudabuild.source import get_source
from cudabuild.types.signature import Signature, format_signature

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["compute_fingerprint"]


def compute_fingerprint(
    definition: KernelDefinition, signature: Signature, options: Options | None = None
) -> Fingerprint:
    """See :func:`cudabuild.fingerprint.compute_fingerprint`."""
    options = options or definition.options
    kernel = definition.function
    if not isinstance(kernel, FunctionType):
        raise SourceError(f"{kernel!r} is not a Python function: expected a plain 'def'")
    walk = _Walk(kernel, with_lines=options["debug"])
    parts = [
        ("(signature)", format_signature(signature)),
        *((f"(option {spec.name})", repr(options[spec.name])) for spec in OPTIONS if spec.changes_results),
        *walk.parts,
    ]
    return Fingerprint(
        parts,
        module=module_name(kernel),
        qualname=kernel.__qualname__,
        decorated=tuple(sorted(definition.options.written)),
        checks=tuple(walk.checks),
        sources=tuple(walk.sources.items()),
        unresolved=tuple(walk.unresolved),
    )


class _Walk:
    """One walk; ``functions`` grows while it goes.

    Args:
        kernel: where it starts.
        with_lines: whether the text of the source files counts too: a debug image tells the lines of what went wrong.
    """

    def __init__(self, kernel: FunctionType, *, with_lines: bool) -> None:
        self.with_lines = with_lines
        self.parts: list[tuple[str, str]] = []
        self.checks: list[Check] = []
        self.sources: dict[str, bytes] = {}
        self.unresolved: list[tuple[str, str]] = []
        self._functions: list[tuple[FunctionType, str]] = [(kernel, "")]
        number = 0
        while number < len(self._functions):
            self._visit(*self._functions[number])
            number += 1

    def _visit(self, function: FunctionType, label: str) -> None:
        try:
            form = canonical_form(get_source(function).tree)
        except SourceError as error:
            if not label:
                raise
            self.unresolved.append((label, str(error)))
            self.parts.append((f"{label}/(code)", "missing"))
            self.checks.append(Check(label, b"", ()))
            return
        prefix = f"{label}/" if label else ""
        self.parts.append((f"{prefix}(code)", form.digest.hex()))
        source = read_source_digest(function)
        if source == UNREADABLE:  # nothing that a later kernel could be compared to
            source = b""
        self.sources.setdefault(function.__code__.co_filename, source)
        if self.with_lines:
            self.parts.append((f"{prefix}(source file)", source.hex()))
        values: dict[str, str] = {}
        if not label:
            values[LINE] = place_of(function)
        if function.__defaults__ or function.__kwdefaults__:
            self._record(prefix, DEFAULTS, default_values(function), values)
        linked = describe_links(function)
        if linked:
            self.parts.append((f"{prefix}{LINKED}", linked))
            values[LINKED] = linked
        for chain in form.free_names:
            value, used = resolve_name(function, chain)
            name = ".".join(chain[:used])
            if name not in values:
                self._record(prefix, name, value, values)
        self.checks.append(Check(label, source, tuple(values.items())))

    def _record(self, prefix: str, name: str, value: Any, values: dict[str, str]) -> None:
        met = False

        def meet(function: FunctionType, definition: KernelDefinition | None) -> str:
            nonlocal met
            met = True
            for known, label in self._functions:
                if known is function:
                    return f"function {label or '(itself)'}{options_text(definition)}"
            label = f"{prefix}{name}"
            if any(label == taken for _, taken in self._functions):  # several functions in one tuple
                label += f"[{len(self._functions)}]"
            self._functions.append((function, label))
            return f"function {label}{options_text(definition)}"

        text = describe_value(value, meet)
        self.parts.append((prefix + name, text))
        values[name] = describe_value(value, function_identity) if met else text
        if is_unresolved(text):
            self.unresolved.append((prefix + name, text))
