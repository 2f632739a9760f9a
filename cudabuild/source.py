# SPDX-License-Identifier: Apache-2.0
"""The text and syntax tree of a function, with true positions in the user's file.

The whole file is parsed once and the function found in it by its first line, so line numbers and columns are the
file's own for nested, indented and decorated functions alike.
"""

from __future__ import annotations

import ast
import linecache
from dataclasses import dataclass
from types import FunctionType
from typing import Any

from cudabuild.errors import Location, SourceError

__all__ = ["FunctionSource", "as_function", "get_source"]


@dataclass(frozen=True)
class FunctionSource:
    """A function's place and tree.

    Attributes:
        file: as in tracebacks.
        lines: the whole file, without line ends; ``lines[0]`` is line 1.
        tree: the ``def``; ``lineno`` and ``col_offset`` count from the start of the *file*.
    """

    file: str
    lines: tuple[str, ...]
    tree: ast.FunctionDef

    def line_text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def locate(self, node: ast.AST) -> Location:
        """The span of ``node``; ``ast`` counts columns in UTF-8 bytes, a Location in characters."""
        line = getattr(node, "lineno", self.tree.lineno)
        end_line = getattr(node, "end_lineno", None) or line
        column = self._characters(line, getattr(node, "col_offset", 0))
        end_column = self._characters(end_line, getattr(node, "end_col_offset", None) or 0)
        return Location(self.file, line, column, end_line, end_column)

    def _characters(self, line: int, offset: int) -> int:
        text = self.line_text(line)
        return offset if text.isascii() else len(text.encode()[:offset].decode(errors="ignore"))


def as_function(node: ast.FunctionDef | ast.Lambda) -> ast.FunctionDef:
    """A lambda as the ``def`` that it stands for, with the lambda's own places; a ``def`` as it is."""
    if isinstance(node, ast.FunctionDef):
        return node
    known = getattr(node, "_cudabuild_def", None)
    if isinstance(known, ast.FunctionDef):
        return known
    returned = ast.copy_location(ast.Return(node.body), node.body)
    made = ast.copy_location(ast.FunctionDef("<lambda>", node.args, [returned], []), node)
    node._cudabuild_def = made  # type: ignore[attr-defined]  # lives and dies with the tree, as a memo should
    return made


#: file -> (lines, functions by (first line, name)); an entry is replaced when the text read for the file differs.
_parsed: dict[str, tuple[tuple[str, ...], dict[tuple[int, str], ast.FunctionDef]]] = {}


def get_source(function: Any) -> FunctionSource:
    """The source of a Python function.

    Raises:
        SourceError: it is not a plain function, or its text cannot be had or does not hold it.
    """
    if not isinstance(function, FunctionType):
        raise SourceError(f"{function!r} is not a Python function: expected a plain 'def'")
    code = function.__code__
    linecache.checkcache(code.co_filename)  # a reloaded module's text is not the one that linecache read first
    lines = tuple(line.rstrip("\r\n") for line in linecache.getlines(code.co_filename, function.__globals__))
    if not lines:
        raise SourceError(
            f"the source text of {function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) cannot be had; "
            "a kernel is compiled from its text: define it in a file, or in an IPython cell"
        )
    known = _parsed.get(code.co_filename)
    if known is None or known[0] != lines:
        known = _parsed[code.co_filename] = (lines, _functions("\n".join(lines), code.co_filename))
    tree = known[1].get((code.co_firstlineno, code.co_name))
    if tree is None:
        what = "lambda" if code.co_name == "<lambda>" else f"'def {code.co_name}'"
        raise SourceError(
            f"{code.co_filename}:{code.co_firstlineno} holds no {what} that can be compiled; "
            "the file may have changed since it was imported, or the function was not written as a plain 'def'"
        )
    return FunctionSource(code.co_filename, lines, tree)


def _functions(text: str, file: str) -> dict[tuple[int, str], ast.FunctionDef]:
    """Every ``def`` by the line that its code object calls first (that of its first decorator) and its name."""
    try:
        module = ast.parse(text + "\n", filename=file)
    except SyntaxError as error:
        raise SourceError(f"{file}:{error.lineno}: cannot be parsed: {error.msg}") from None
    found: dict[tuple[int, str], ast.FunctionDef] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.FunctionDef):
            first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
            found[first, node.name] = node
    return found
