# SPDX-License-Identifier: Apache-2.0
"""Which statements of a kernel its own Python code ran: the share that a launch's result can speak for."""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import CodeType, FrameType

__all__ = ["Coverage", "statements"]


class Coverage:
    """Notes the lines that run in functions of a folder's files, while it is entered."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.lines: dict[CodeType, set[int]] = {}

    def __enter__(self) -> Coverage:
        threading.settrace(self._trace)
        sys.settrace(self._trace)
        return self

    def __exit__(self, *error: object) -> None:
        sys.settrace(None)
        threading.settrace(None)  # type: ignore[arg-type]

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if not code.co_filename.startswith((self.root, "<")):  # < of functions that exec has made
            return None
        lines = self.lines.setdefault(code, set())

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            lines.add(frame.f_lineno)
            return line

        return line

    def missed(self, function: Any) -> tuple[int, list[int]]:
        """How many statements ``function`` has, and the lines of those that never ran."""
        wanted = statements(function)
        ran = self.lines.get(function.__code__, set())
        return len(wanted), [first for first, last in wanted if not any(first <= line <= last for line in ran)]


def statements(function: Any) -> list[tuple[int, int]]:
    """First and last line of each statement that has code, its body not counted in; docstrings have none."""
    lines, start = inspect.getsourcelines(function)
    tree = ast.parse(textwrap.dedent("".join(lines)))
    definition = tree.body[0]
    with_code = {line for _, _, line in function.__code__.co_lines() if line is not None}
    found = []
    for node in ast.walk(definition):
        if node is definition or not isinstance(node, ast.stmt) or _is_text(node):
            continue
        head = getattr(node, "test", None) or getattr(node, "iter", None)
        last = head.end_lineno if head is not None and hasattr(node, "body") else node.end_lineno
        first, last = node.lineno + start - 1, (last or node.lineno) + start - 1
        if any(first <= line <= last for line in with_code):
            found.append((first, last))
    return sorted(found)


def _is_text(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
