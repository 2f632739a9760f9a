# SPDX-License-Identifier: Apache-2.0
"""A random program: expressions and statements that know two texts, the kernel's and the oracle's.

The oracle's text has the same statements, and calls a function of ``program_meaning`` for every operation. At a
barrier it yields.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = ["ArraySpec", "Clause", "Expr", "Function", "Program", "Statement"]

_INDENT = "    "


@dataclass
class Expr:
    """``source`` and ``meaning`` are templates with a ``{}`` for each part; ``tag`` counts among the features.

    Attributes:
        kind: the type.
        parts: the operands.
        fixed: whether its surroundings count on it, so that no other expression of the type can stand for it.
    """

    kind: str
    source: str
    meaning: str
    parts: list[Expr] = field(default_factory=list)
    tag: str = ""
    fixed: bool = False

    def as_source(self) -> str:
        return self.source.format(*(part.as_source() for part in self.parts))

    def as_meaning(self) -> str:
        return self.meaning.format(*(part.as_meaning() for part in self.parts))

    def walk(self) -> Iterator[Expr]:
        yield self
        for part in self.parts:
            yield from part.walk()


@dataclass
class Clause:
    """A line of both texts, and the block under it."""

    source: str
    meaning: str
    parts: list[Expr] = field(default_factory=list)
    body: list[Statement] | None = None


@dataclass
class Statement:
    """Lines that stand or fall together: ``if`` with its ``else``, a barrier with what it guards.

    Attributes:
        tag: for the features: ``assign``, ``if``, ``for`` …
    """

    tag: str
    clauses: list[Clause]
    python_differs: bool = False

    def write(self, lines: list[str], depth: int, meaning: bool) -> None:
        for clause in self.clauses:
            template = clause.meaning if meaning else clause.source
            parts = [part.as_meaning() if meaning else part.as_source() for part in clause.parts]
            if template:
                lines += [_INDENT * depth + line for line in template.format(*parts).split("\n")]
            if clause.body is not None:
                deeper = template.startswith(_INDENT)  # a ``case``, which stands within its ``match``
                write_block(clause.body, lines, depth + 1 + deeper, meaning)

    def walk(self) -> Iterator[Statement]:
        yield self
        for clause in self.clauses:
            for statement in clause.body or ():
                yield from statement.walk()


def write_block(block: Sequence[Statement], lines: list[str], depth: int, meaning: bool) -> None:
    start = len(lines)
    for statement in block:
        statement.write(lines, depth, meaning)
    if len(lines) == start:
        lines.append(_INDENT * depth + "pass")


@dataclass
class Function:
    """A device function, or the kernel."""

    head: str
    body: list[Statement]
    oracle_head: str = ""

    def lines(self, meaning: bool) -> list[str]:
        lines = ["", "", (self.oracle_head or self.head) if meaning else self.head]
        write_block(self.body, lines, 1, meaning)
        return lines


@dataclass
class ArraySpec:
    """An array argument.

    Attributes:
        role: ``in``, ``out``, ``count`` (atomics), ``near`` (results of functions that are not exact).
        limits: for ``near``: the functions whose results are stored.
    """

    name: str
    kind: str
    shape: tuple[int, ...]
    layout: str
    role: str
    limits: list[str] = field(default_factory=list)

    @property
    def type(self) -> str:
        axes = [":"] * len(self.shape)
        if self.layout == "C":
            axes[-1] = "::1"
        elif self.layout == "F":
            axes[0] = "::1"
        return f"{'const ' if self.role == 'in' else ''}{self.kind}[{', '.join(axes)}]"


@dataclass
class Program:
    """A kernel with its device functions, and how it is launched.

    Attributes:
        seed: what made it, and its arguments.
        literals: the dialect.
        arrays, scalars: the parameters; scalars as (name, type).
        constants: lines at the module's top that both texts share.
        wild: whether arguments hold the types' extreme values.
    """

    seed: int
    literals: str
    wild: bool
    grid: tuple[int, int]
    block: tuple[int, int]
    threads: int
    arrays: list[ArraySpec]
    scalars: list[tuple[str, str]]
    constants: list[str]
    functions: list[Function]
    kernel: Function

    @property
    def signature(self) -> str:
        return ", ".join([*(array.type for array in self.arrays), *(kind for _, kind in self.scalars)])

    def source(self) -> str:
        """The module of the kernel."""
        head = ["import math", "", "import numpy as np", "", "from cudabuild import cuda", _TYPES, "", *self.constants]
        return "\n".join([*head, *(line for part in self._parts() for line in part.lines(False)), ""])

    def meaning(self) -> str:
        """The oracle's: ``kernel`` is a generator function that takes a thread's place before the arguments."""
        return "\n".join([*self.constants, *(line for part in self._parts() for line in part.lines(True)), ""])

    def _parts(self) -> list[Function]:
        return [*self.functions, self.kernel]

    def statements(self) -> Iterator[Statement]:
        for part in self._parts():
            for statement in part.body:
                yield from statement.walk()

    def expressions(self) -> Iterator[Expr]:
        for statement in self.statements():
            for clause in statement.clauses:
                for part in clause.parts:
                    yield from part.walk()

    @property
    def python_differs(self) -> bool:
        """Whether something in it means another thing to Python by its nature, whatever the values."""
        return any(statement.python_differs for statement in self.statements()) or any(
            "!" in expression.tag for expression in self.expressions()
        )

    def features(self) -> Counter[str]:
        """How often each feature is in it."""
        found: Counter[str] = Counter()
        for statement in self.statements():
            found[f"statement {statement.tag}"] += 1
            found["statements"] += 1
        for expression in self.expressions():
            found[f"type {expression.kind}"] += 1
            for tag in expression.tag.replace("!", "").split():
                found[f"operation {tag}"] += 1
        for array in self.arrays:
            found[f"layout {array.layout} of {len(array.shape)} axes"] += 1
            found[f"layout {array.layout}"] += 1
        found[f"literals {self.literals}"] += 1
        found["device functions"] += len(self.functions)
        return found


_TYPES = """\
from cudabuild.types import (
    bfloat16, complex64, complex128, float16, float32, float64, int8, int16, int32, int64,
    uint8, uint16, uint32, uint64,
)"""
