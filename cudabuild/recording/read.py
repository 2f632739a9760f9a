# SPDX-License-Identifier: Apache-2.0
"""Reads signature files: TOML -> records, every mistake with its file, line and key."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, NoReturn

from cudabuild.definition import OPTIONS
from cudabuild.errors import SettingError, SignatureError, nearest_name
from cudabuild.recording.forms import find_form_error
from cudabuild.recording.parts import part_texts
from cudabuild.recording.records import DIALECTS, RecordedKernel, merge_kernels
from cudabuild.types.signature import format_signature, parse_signatures

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["SCHEMA", "parse_table", "parse_text", "read_signatures", "split_tables"]

#: The number of the format that this version writes, and the newest that it reads.
SCHEMA = 1

_TOP = ("schema", "kernel")
_KEYS = ("name", "signatures", "dialect", "options", "captured", "defaults", "line", "code")
_NAME = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:([^\W\d]\w*|<lambda>)(\.([^\W\d]\w*|<locals>|<lambda>))*")
_HEADER = re.compile(r"^[ \t]*\[\[[ \t]*kernel[ \t]*\]\]", re.MULTILINE)


def read_signatures(path: str | os.PathLike[str]) -> list[RecordedKernel]:
    """Everything that a signature file holds, what is not merged into it yet (its ``.parts``) included.

    Args:
        path: the file; where it is absent, its parts alone count.

    Returns:
        One record for each kernel, in the file's order.

    Raises:
        SettingError: there is no such file, or something in it is wrong; names file, line and key.
    """
    path = os.fspath(path)
    parts = part_texts(path)
    try:
        with open(path, encoding="utf-8") as stream:
            text = stream.read()
    except FileNotFoundError:
        if not parts:
            raise SettingError(
                f"no signature file\n  found:    nothing at {path}\n  expected: a file that cudabuild record wrote\n"
                f"  do:       cudabuild record --out {path} -- pytest"
            ) from None
        text = ""
    except (OSError, UnicodeDecodeError) as error:
        raise SettingError(f"the signature file {path} cannot be read: {error}") from None
    folder = os.path.dirname(os.path.abspath(path))
    return merge_kernels(parse_text(text, path, folder), *(parse_text(part, name, folder) for name, part in parts))


def parse_table(table: Mapping[str, Any], where: str) -> list[RecordedKernel]:
    """The short form, for kernels that need no more: ``{"pkg.mod:kernel": ["float32[::1]", …]}``.

    Args:
        table: a kernel's name -> a signature, or a list of these.
        where: the table and its file, for messages.

    Raises:
        SettingError: a name or a signature that cannot be read.
    """
    found = []
    for name, value in table.items():
        entry = _Entry(f"{name} in {where}", where)
        module, qualname = entry.name(name, "the key")
        found.append(RecordedKernel(module, qualname, entry.signatures(value, "the value"), where=where))
    return merge_kernels(found)


def parse_text(text: str, path: str, folder: str = "") -> list[RecordedKernel]:
    """The records in the text of a signature file, as they stand.

    Args:
        text: TOML.
        path: the file, for messages.
        folder: that of the signature file; by default the file's own.
    """
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"the signature file {path} is not TOML: {error}") from None
    head = _Entry(path, path)
    head.check_keys(document, _TOP)
    schema = document.get("schema", SCHEMA)
    if not isinstance(schema, int) or isinstance(schema, bool) or not 1 <= schema <= SCHEMA:
        head.refuse("schema", repr(schema), f"{SCHEMA}, the newest that this version of cudabuild reads")
    entries = document.get("kernel", [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        head.refuse("kernel", "something else", "tables, each under [[kernel]]")
    places = [*_places(text, len(entries)), *[(0, "")] * len(entries)]
    return [
        _Entry(f"{path}:{line}" if line else path, path, line, body).kernel(entry, folder or os.path.dirname(path))
        for entry, (line, body) in zip(entries, places, strict=False)
    ]


def split_tables(text: str, count: int) -> tuple[str, list[str]]:
    """What stands before the first ``[[kernel]]``, and the text of each, with the comment right above it.

    Args:
        text: of a signature file.
        count: how many there are; where headers cannot be told from other text, all is the first part.
    """
    starts = [_above(text, match.start()) for match in _HEADER.finditer(text)]
    if len(starts) != count or not starts:
        return text, []
    return text[: starts[0]], [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]


def _above(text: str, start: int) -> int:
    """Where the comment lines right above a header begin, or the header."""
    while start:
        line = text.rfind("\n", 0, start - 1) + 1
        if not text[line:start].lstrip().startswith("#"):
            break
        start = line
    return start


def _places(text: str, count: int) -> list[tuple[int, str]]:
    """The line of every ``[[kernel]]`` and the text from there on; nothing where they cannot be told."""
    found = []
    head, tables = split_tables(text, count)
    line = head.count("\n") + 1
    for table in tables:
        match = _HEADER.search(table)
        assert match is not None
        found.append((line + table.count("\n", 0, match.start()), table[match.start() :]))
        line += table.count("\n")
    return found


@cache
def _canonical(text: str) -> tuple[str, ...]:
    """The canonical texts of what is written as one signature; the same few stand in a file again and again."""
    return tuple(map(format_signature, parse_signatures(text)))


@dataclass
class _Entry:
    """One table and its place: what it says, or what is wrong with it and where."""

    place: str
    path: str
    line: int = 0
    text: str = ""

    def refuse(self, key: str, found: str, expected: str, do: str = "") -> NoReturn:
        place = self.place
        for name in (key, key.partition(".")[0]):
            match = re.search(rf'^[ \t]*["\']?{re.escape(name)}\b', self.text, re.MULTILINE)
            if self.line and match is not None:
                place = f"{self.path}:{self.line + self.text.count(chr(10), 0, match.start())}"
                break
        lines = [f"{place}: bad {key}", f"  found:    {found}", f"  expected: {expected}"]
        raise SettingError("\n".join([*lines, f"  do:       {do}"] if do else lines))

    def check_keys(self, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                near = nearest_name(key, known)
                self.refuse(f"{key}", "an unknown key", ", ".join(known), f"did you mean {near!r}?" if near else "")

    def kernel(self, table: Mapping[str, Any], folder: str) -> RecordedKernel:
        """The record that a table stands for."""
        self.check_keys(table, _KEYS)
        for key in ("name", "signatures"):
            if key not in table:
                self.refuse(key, "nothing", f"every [[kernel]] has a {key}")
        module, qualname = self.name(table["name"], "name")
        dialect = table.get("dialect", DIALECTS[0])
        if dialect not in DIALECTS:
            self.refuse("dialect", repr(dialect), " or ".join(map(repr, DIALECTS)))
        line, code = table.get("line", 0), table.get("code", "")
        if not isinstance(line, int) or isinstance(line, bool) or line < 0:
            self.refuse("line", repr(line), "a line's number")
        if not isinstance(code, str) or not re.fullmatch("[0-9a-f]*", code):
            self.refuse("code", repr(code), "hexadecimal digits")
        return RecordedKernel(
            module,
            qualname,
            self.signatures(table["signatures"], "signatures"),
            dialect,
            self.options(table.get("options", {})),
            self.values(table.get("captured", {}), "captured"),
            self.values(table.get("defaults", {}), "defaults"),
            line,
            code,
            self.place,
            folder,
        )

    def name(self, value: Any, key: str) -> tuple[str, str]:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            do = ""
            if isinstance(value, str) and ":" not in value and "." in value:
                do = f"did you mean {':'.join(value.rsplit('.', 1))!r}?"
            self.refuse(key, repr(value), "module:name of a kernel, such as 'mypkg.filters:blur'", do)
        module, _, qualname = value.partition(":")
        return module, qualname

    def signatures(self, value: Any, key: str) -> tuple[str, ...]:
        """Canonical texts."""
        texts = [value] if isinstance(value, str) else value
        if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
            self.refuse(key, repr(value), "a list of signatures, such as ['float32[::1], int64']")
        found: dict[str, None] = {}
        for text in texts:
            try:
                found.update(dict.fromkeys(_canonical(text)))
            except SignatureError as error:
                raise SettingError(f"{self._place_of(text)}: bad {key}\n{error}") from None
        return tuple(found)

    def _place_of(self, text: str) -> str:
        at = self.text.find(text)
        return f"{self.path}:{self.line + self.text.count(chr(10), 0, at)}" if self.line and at >= 0 else self.place

    def options(self, table: Any) -> dict[str, Any]:
        if not isinstance(table, dict):
            self.refuse("options", repr(table), "a table, such as { fastmath = true }")
        known = {spec.name: spec for spec in OPTIONS}
        self.check_keys({f"options.{key}": value for key, value in table.items()}, tuple(f"options.{k}" for k in known))
        found = {}
        for name, value in table.items():
            spec = known[name]
            whole = isinstance(value, int) and not isinstance(value, bool)
            if isinstance(spec.default, bool):
                right = isinstance(value, bool)
            elif isinstance(spec.default, str):
                right = isinstance(value, str)
            elif spec.default is None and value == "none":
                right, value = True, None
            else:
                numbers = value if isinstance(value, list) else [value]
                right = whole or (bool(numbers) and all(type(number) is int for number in numbers))
            if not right:
                self.refuse(f"options.{name}", repr(value), spec.accepts)
            found[name] = tuple(value) if isinstance(value, list) else value
        return found

    def values(self, table: Any, key: str) -> dict[str, Any]:
        if not isinstance(table, dict):
            self.refuse(key, repr(table), "a table of names and values")
        for name, value in table.items():
            wrong = find_form_error(value)
            if wrong is not None:
                self.refuse(f"{key}.{name}", *wrong)
        return dict(table)
