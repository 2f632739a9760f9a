# SPDX-License-Identifier: Apache-2.0
"""Refusals: how a rule says that something in the user's kernel is wrong, and where they are collected."""

from __future__ import annotations

from cudabuild.errors import Diagnostic, Location
from cudabuild.frontend.tables import WEAK, Table
from cudabuild.source import FunctionSource

__all__ = ["KERNEL_RETURNS", "NO_ALIGNMENT", "DiagnosticSink", "Refusal"]


#: The titles of the mistakes that have errors of their own.
KERNEL_RETURNS = "a kernel returns a value"
NO_ALIGNMENT = "Alignment must be a power of two"


class Refusal(Exception):
    """Raised by a typing rule or the AST builder; the caller knows the place and turns it into a Diagnostic.

    Attributes:
        title: what is wrong, in a few words.
        found, expected, do: the three lines of the message.
        operand: index of the offending operand of the instruction, for the caret; None for the whole expression.
    """

    def __init__(self, title: str, *, found: str, expected: str = "", do: str = "", operand: int | None = None) -> None:
        super().__init__(title)
        self.title = title
        self.found = found
        self.expected = expected
        self.do = do
        self.operand = operand


class DiagnosticSink:
    """The diagnostics of one function, each place and title once.

    Attributes:
        refused: whether something has no result; not set by mere complaints.
    """

    def __init__(self, source: FunctionSource, name: str, table: Table = WEAK) -> None:
        self.source = source
        self.name = name
        self.table = table
        self.refused = False
        self._found: dict[tuple[Location, str], Diagnostic] = {}

    def add(self, refusal: Refusal, location: Location, *, complaint: bool = False) -> None:
        self.refused = self.refused or not complaint
        familiar = self.table.familiar(refusal.title)
        self._found.setdefault(
            (location, refusal.title),
            Diagnostic(
                refusal.title,
                location,
                self.source.line_text(location.line),
                kernel=self.name,
                found=refusal.found,
                expected=refusal.expected,
                do=f"{refusal.do}\n  numba:    {familiar}" if familiar else refusal.do,
            ),
        )

    @property
    def diagnostics(self) -> list[Diagnostic]:
        return sorted(self._found.values(), key=lambda d: (d.location.line, d.location.column))
