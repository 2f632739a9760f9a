# SPDX-License-Identifier: Apache-2.0
"""The text and syntax tree of a function, with true positions in the user's file.

The whole file is parsed once and the function found in it by its first line, so line numbers and columns are the
file's own for nested, indented and decorated functions alike.
"""

from __future__ import annotations

import ast
import linecache
import os
import stat
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType
from typing import Any

from cudabuild.definition import STARTED, is_sourceless
from cudabuild.errors import Location, SourceError

__all__ = ["FunctionSource", "as_function", "get_source", "register_source"]


@dataclass(frozen=True)
class FunctionSource:
    """A function's place and tree.

    Attributes:
        file: as in tracebacks.
        lines: the whole file, without line ends; ``lines[0]`` is line 1.
        tree: the ``def``; ``lineno`` and ``col_offset`` count from the start of the *file*.
        is_ascii: whether the file is known to hold nothing else.
    """

    file: str
    lines: tuple[str, ...]
    tree: ast.FunctionDef
    is_ascii: bool = False

    def line_text(self, line: int) -> str:
        return self.lines[line - 1] if 0 < line <= len(self.lines) else ""

    def locate(self, node: ast.AST) -> Location:
        """The span of ``node``; ``ast`` counts columns in UTF-8 bytes, a Location in characters."""
        if self.is_ascii and isinstance(node, (ast.expr, ast.stmt)):
            line, end_line = node.lineno, node.end_lineno or node.lineno
            return Location(self.file, line, node.col_offset, end_line, node.end_col_offset or 0)
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


#: (file name, the namespace that its functions live in) -> the namespace and the texts, as ``source=`` gave them: a
#: program may run several in one namespace.
_registered: dict[tuple[str, int], tuple[dict[str, Any], list[tuple[str, ...]]]] = {}

#: file -> (lines, syntax trees of its functions); an entry is replaced when the text read for the file differs.
_parsed: dict[str, tuple[tuple[str, ...], _Trees]] = {}


def register_source(function: FunctionType, text: str) -> None:
    """Notes the text that a function, and others of the same namespace and file name, were compiled from.

    Args:
        function: one that ``exec`` made, say.
        text: the whole text that was given to ``exec`` or ``compile``, not the function's part of it.
    """
    namespace = function.__globals__
    lines = tuple(text.splitlines())
    texts = _registered.setdefault((function.__code__.co_filename, id(namespace)), (namespace, []))[1]
    if lines in texts:
        texts.remove(lines)
    texts.append(lines)


def get_source(function: Any) -> FunctionSource:
    """The source of a Python function or lambda.

    Raises:
        SourceError: it is not a plain function, or its text cannot be had or does not hold it.
    """
    if not isinstance(function, FunctionType):
        raise SourceError(f"{function!r} is not a Python function: expected a plain 'def'")
    code = function.__code__
    lines = _read_lines(function)
    if not lines:
        raise SourceError(
            f"the source text of {function.__qualname__} ({code.co_filename}:{code.co_firstlineno}) cannot be had; "
            "a kernel is compiled from its text: define it in a file or an IPython cell, or give the text that "
            "exec ran: kernel(…, source=text)"
        )
    known = _parsed.get(code.co_filename)
    if known is None or known[0] != lines:
        known = _parsed[code.co_filename] = (lines, _Trees("\n".join(lines), code.co_filename))
    is_lambda = code.co_name == "<lambda>"
    tree = known[1].find_lambda(code) if is_lambda else known[1].functions.get((code.co_firstlineno, code.co_name))
    if tree is None:
        what = "lambda" if is_lambda else f"'def {code.co_name}'"
        raise SourceError(
            f"{code.co_filename}:{code.co_firstlineno} holds no {what} that can be compiled; "
            "the file may have changed since it was imported, or the function was not written as a plain 'def'"
        )
    if (_is_newer(code.co_filename) or is_sourceless(function)) and not known[1].holds(code):
        raise SourceError(
            f"{code.co_filename}:{code.co_firstlineno}: the text has changed since {function.__qualname__} was made; "
            "import it again, or start the program again"
        )
    return FunctionSource(code.co_filename, lines, tree, known[1].is_ascii)


def _is_newer(file: str) -> bool:
    """Whether a file was written while this process ran, so that what was imported may differ from it."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):
        return False
    return max(found.st_mtime, found.st_ctime) > STARTED  # tools that unpack files set the first into the past


#: file -> what it looked like when its text was read.
_looks: dict[str, tuple[int, ...]] = {}

#: A file that was changed this recently, in ns, may change again without its times showing it.
_RACY_NS = 2_000_000_000


def _forget_changed(file: str) -> None:
    """Makes ``linecache`` read a file anew that may have changed. It compares size and time, which an edit may keep."""
    try:
        found = os.stat(file)
    except (OSError, ValueError):  # no file: what stands in linecache was put there
        linecache.checkcache(file)
        return
    look = (found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino, found.st_dev)
    racy = time.time_ns() - max(look[:2]) < _RACY_NS
    known = linecache.cache.get(file)
    if (racy or _looks.get(file) != look) and known is not None and (len(known) == 1 or known[1] is not None):
        del linecache.cache[file]
    _looks[file] = look


def _read_lines(function: FunctionType) -> tuple[str, ...]:
    """The lines of the text that a function is in; none where they cannot be had."""
    file, namespace = function.__code__.co_filename, function.__globals__
    registered = _registered.get((file, id(namespace)))
    if registered is not None:
        return _text_of(function.__code__, registered[1])
    _forget_changed(file)  # a reloaded module's text is not the one that linecache read first
    lines = linecache.getlines(file, namespace)
    if lines:
        return tuple(line.rstrip("\r\n") for line in lines)
    main = sys.modules.get("__main__")
    if main is None or namespace is not main.__dict__:
        return ()
    if file == "<string>":
        return tuple(_command().splitlines())
    return tuple(_standard_input().splitlines()) if file == "<stdin>" else ()


def _text_of(code: CodeType, texts: list[tuple[str, ...]]) -> tuple[str, ...]:
    """The latest of several texts that ``code`` can have been compiled from."""
    if len(texts) > 1:
        for lines in reversed(texts):
            try:
                module = compile("\n".join(lines) + "\n", code.co_filename, "exec", dont_inherit=True)
            except SyntaxError:
                continue
            if any(_is_same(code, found) for found in _codes_in(module)):
                return lines
    return texts[-1]


def _codes_in(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _codes_in(constant)


def _statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements, and those in the branches of an ``if``."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from _statements([*node.body, *node.orelse])


def _is_same(one: CodeType, other: CodeType) -> bool:
    """Whether two functions do the same and stand on the same line."""
    facts = [
        (code.co_name, code.co_firstlineno, code.co_code, code.co_names, code.co_varnames, code.co_freevars)
        for code in (one, other)
    ]
    if facts[0] != facts[1] or len(one.co_consts) != len(other.co_consts):
        return False
    for a, b in zip(one.co_consts, other.co_consts, strict=True):
        if isinstance(a, CodeType) and isinstance(b, CodeType):
            if not _is_same(a, b):
                return False
        elif repr(a) != repr(b):
            return False
    return True


def _command() -> str:
    """The text of ``python -c``."""
    arguments = sys.orig_argv[1:]
    for position, argument in enumerate(arguments):
        if argument.startswith("-") and not argument.startswith("--") and "c" in argument:
            text = argument[argument.index("c") + 1 :]
            return text or "".join(arguments[position + 1 : position + 2])
    return ""


def _standard_input() -> str:
    """The text of a script that standard input was redirected to; a pipe keeps none."""
    try:
        size = os.fstat(0).st_size
        return os.pread(0, size, 0).decode() if stat.S_ISREG(os.fstat(0).st_mode) else ""
    except (OSError, UnicodeDecodeError):
        return ""


def _mangle(node: ast.AST, name: str) -> None:
    """Gives private names in the body of a class the names that Python gives them: ``__N`` in ``K`` is ``_K__N``."""
    for child in ast.iter_child_nodes(node):
        inside = child.name.lstrip("_") if isinstance(child, ast.ClassDef) else name
        field = _PRIVATE.get(type(child)) if name else None
        if field is not None:
            written = getattr(child, field)
            if written.startswith("__") and not written.endswith("__"):
                setattr(child, field, f"_{name}{written}")
        _mangle(child, inside)


#: Where names stand in a syntax tree.
_PRIVATE: dict[type[ast.AST], str] = {ast.Name: "id", ast.Attribute: "attr", ast.arg: "arg"}


class _Trees:
    """The functions and lambdas of one text.

    Attributes:
        functions: by the line that a function's code object calls its first (that of its first decorator) and its name.
        lambdas: by their first line.
        is_ascii: whether the text is ASCII.
    """

    def __init__(self, text: str, file: str) -> None:
        try:
            module = ast.parse(text + "\n", filename=file)
        except SyntaxError as error:
            raise SourceError(f"{file}:{error.lineno}: cannot be parsed: {error.msg}") from None
        self._text, self._file = text, file
        self.is_ascii = text.isascii()
        self._codes: list[CodeType] | None = None
        self._codes_alone: list[CodeType] | None = None
        self.functions: dict[tuple[int, str], ast.FunctionDef] = {}
        self.lambdas: dict[int, list[ast.Lambda]] = {}
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                self.functions[first, node.name] = node
            elif isinstance(node, ast.ClassDef):
                _mangle(node, node.name.lstrip("_"))
            elif isinstance(node, ast.Lambda):
                self.lambdas.setdefault(node.lineno, []).append(node)

    def holds(self, code: CodeType) -> bool:
        """Whether the text compiles to ``code``, among others; true where something else has rewritten that."""
        if any(name.startswith("@py_") for name in code.co_varnames):  # pytest, for its assertions
            return True
        if self._codes is None:
            self._codes = list(_codes_in(compile(self._text + "\n", self._file, "exec", dont_inherit=True)))
        if any(_is_same(code, found) for found in self._codes):
            return True
        if self._codes_alone is None:  # a slice compiles statements one by one; Python 3.11 then calls `cuda.grid(1)`
            nodes = _statements(ast.parse(self._text).body)  # in another way: it does not see that `cuda` is imported
            alone = [compile(ast.Module([node], []), self._file, "exec", dont_inherit=True) for node in nodes]
            self._codes_alone = [found for one in alone for found in _codes_in(one)]
        return any(_is_same(code, found) for found in self._codes_alone)

    def find_lambda(self, code: CodeType) -> ast.FunctionDef | None:
        """The lambda that ``code`` is of, as a ``def``.

        Raises:
            SourceError: it cannot be told from others of its line.
        """
        found = self.lambdas.get(code.co_firstlineno, [])
        if len(found) > 1:
            found = [node for node in found if _is_of(node, code)]
            if len({ast.dump(node) for node in found}) > 1:
                raise SourceError(
                    f"{code.co_filename}:{code.co_firstlineno} holds several lambdas that cannot be told apart here: "
                    "write them on lines of their own, or as 'def'"
                )
        return as_function(found[0]) if found else None


def _is_of(node: ast.Lambda, code: CodeType) -> bool:
    """Whether code can be that of a lambda: by the place of its body, where Python keeps places, else by the code."""
    body = node.body
    positions = getattr(code, "co_positions", None)  # from Python 3.11 on
    places = set(positions()) if positions is not None else set()
    if any(place[2] is not None for place in places):
        return (body.lineno, body.end_lineno, body.col_offset, body.end_col_offset) in places
    expression = ast.Expression(node)
    made = compile(expression, code.co_filename, "eval").co_consts[0]
    names = (code.co_names, code.co_varnames, code.co_code)
    return (made.co_names, made.co_varnames, made.co_code) == names and made.co_consts == code.co_consts
