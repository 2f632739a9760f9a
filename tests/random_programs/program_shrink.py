# SPDX-License-Identifier: Apache-2.0
"""Makes a failing program small: statements go, expressions give way to their parts or to a literal."""

from __future__ import annotations

import copy
import re
import time
from collections.abc import Callable, Iterator

from program_meaning import COMPLEX, PARTS
from program_rules import is_float, is_integer
from program_tree import Expr, Program, Statement

__all__ = ["shrink"]


def shrink(program: Program, fails: Callable[[Program], bool], seconds: float = 120) -> Program:
    """A smaller program for which ``fails`` still holds; the smallest found within the time."""
    deadline = time.monotonic() + seconds
    best, attempt, progress = program, 0, False
    while time.monotonic() < deadline:
        candidate = copy.deepcopy(best)
        change = next(_skip(_changes(candidate), attempt), None)
        if change is None:  # once more from the beginning, as long as that helps
            if not progress:
                break
            attempt, progress = 0, False
            continue
        change()
        if _still(fails, candidate):
            best, progress = candidate, True
        else:
            attempt += 1
    candidate = copy.deepcopy(best)
    _drop_unused(candidate)
    return candidate if _still(fails, candidate) else best


def _still(fails: Callable[[Program], bool], candidate: Program) -> bool:
    try:
        return fails(candidate)
    except Exception:  # what is no program any more does not fail in the way looked for
        return False


def _drop_unused(program: Program) -> None:
    """Takes away the arguments that nothing names; what the others hold does not depend on them."""
    lines = [line for part in (*program.functions, program.kernel) for line in part.lines(False)[3:]]
    named = set(re.findall(r"\w+", "\n".join(lines)))
    program.arrays = [array for array in program.arrays if array.name in named]
    program.scalars = [scalar for scalar in program.scalars if scalar[0] in named or scalar[0] == "n"]
    names = ", ".join([*(array.name for array in program.arrays), *(name for name, _ in program.scalars)])
    program.kernel.head = f"def kernel({names}):"
    program.kernel.oracle_head = f"def kernel(th, {names}):"


def _skip(changes: Iterator[Callable[[], None]], count: int) -> Iterator[Callable[[], None]]:
    for number, change in enumerate(changes):
        if number >= count:
            yield change


def _changes(program: Program) -> Iterator[Callable[[], None]]:
    """Everything that can be taken away, the largest first; each is applied to ``program`` itself."""
    for function in list(program.functions):
        yield lambda function=function: program.functions.remove(function)  # type: ignore[misc]
    for part in (program.kernel, *program.functions):
        yield from _block_changes(part.body)
    for expression, replace in _expressions(program):
        for smaller in _smaller(expression):
            yield lambda replace=replace, smaller=smaller: replace(smaller)  # type: ignore[misc]


def _block_changes(block: list[Statement]) -> Iterator[Callable[[], None]]:
    size = len(block) // 2
    while size >= 2:
        for start in range(0, len(block) - size + 1, size):
            yield lambda start=start, size=size: _delete(block, start, size)  # type: ignore[misc]
        size //= 2
    for index, statement in enumerate(block):
        yield lambda index=index: _delete(block, index, 1)  # type: ignore[misc]
        bodies = [clause.body for clause in statement.clauses if clause.body is not None]
        for body in bodies:
            yield lambda index=index, body=body: _splice(block, index, body)  # type: ignore[misc]
        if len(bodies) > 1:
            for clause in statement.clauses[1:]:
                if clause.body is not None:
                    yield lambda statement=statement, clause=clause: statement.clauses.remove(clause)  # type: ignore[misc]
    for statement in block:
        for clause in statement.clauses:
            if clause.body is not None:
                yield from _block_changes(clause.body)


def _delete(block: list[Statement], start: int, size: int) -> None:
    del block[start : start + size]


def _splice(block: list[Statement], index: int, body: list[Statement]) -> None:
    block[index : index + 1] = body


def _expressions(program: Program) -> Iterator[tuple[Expr, Callable[[Expr], None]]]:
    for statement in program.statements():
        for clause in statement.clauses:
            yield from _within(clause.parts)


def _within(parts: list[Expr]) -> Iterator[tuple[Expr, Callable[[Expr], None]]]:
    for index, part in enumerate(parts):

        def replace(smaller: Expr, parts: list[Expr] = parts, index: int = index) -> None:
            parts[index] = smaller

        yield part, replace
        yield from _within(part.parts)


def _smaller(expression: Expr) -> Iterator[Expr]:
    """What can stand for it: parts of the same type, and a literal."""
    if expression.fixed or _is_literal(expression) or expression.source.isidentifier():
        return
    for part in expression.walk():
        if part is not expression and part.kind == expression.kind:
            yield part
    kind = expression.kind
    if kind == "bool":
        yield Expr(kind, "True", "True")
        yield Expr(kind, "False", "False")
    elif is_integer(kind):
        yield Expr(kind, "1" if kind == "int" else f"{kind}(1)", "1")
    elif is_float(kind):
        yield Expr(kind, "1.5" if kind == "float" else f"{kind}(1.5)", f"float_to_{kind}(np.float64(1.5))")
    elif kind in COMPLEX:
        one = f"float_to_{PARTS[kind]}(np.float64(1.5))"
        yield Expr(kind, f"{kind}(1.5 + 1.5j)", f"({one}, {one})")


def _is_literal(expression: Expr) -> bool:
    return not expression.parts and "[" not in expression.source
