# SPDX-License-Identifier: Apache-2.0
"""Records -> the text of a signature file; and new records into a text that a person may have edited.

Nothing that stands in a text is changed: a kernel that gains signatures gains lines, a new kernel a table. No TOML
library is asked, because those that keep comments would be needed by the program that is recorded; what is written here
is read back and compared before it counts.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from typing import Any

from cudabuild.errors import CudabuildError
from cudabuild.recording.captured import options_form
from cudabuild.recording.read import SCHEMA, parse_text, split_tables
from cudabuild.recording.records import RecordedKernel, merge_kernels

__all__ = ["add_to_text", "format_kernel", "format_value", "replace_file", "write_signatures"]

_HEAD = f"""\
# Kernels and the signatures that they were launched with, written by cudabuild record. A build takes this file by
#   [tool.cudabuild]
#   signatures = "…"
# It may be edited; what stands here stays when more is recorded.
schema = {SCHEMA}
"""

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def format_value(value: Any) -> str:
    """A value on one line of TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(format_value, value))}]"
    if not value:
        return "{}"
    return f"{{ {', '.join(f'{_key(key)} = {format_value(item)}' for key, item in value.items())} }}"


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else format_value(name)


def format_kernel(kernel: RecordedKernel) -> str:
    """One record as a table."""
    lines = ["[[kernel]]", f"name = {format_value(kernel.name)}", "signatures = ["]
    lines += [f"    {format_value(text)}," for text in kernel.signatures]
    lines.append("]")
    if kernel.dialect != "cudabuild":
        lines.append(f"dialect = {format_value(kernel.dialect)}")
    if kernel.options:
        lines.append(f"options = {format_value(options_form(kernel.options))}")
    if kernel.line:
        lines.append(f"line = {kernel.line}")
    if kernel.code:
        lines.append(f"code = {format_value(kernel.code)}")
    for key, values in (("captured", kernel.captured), ("defaults", kernel.defaults)):
        lines += [f"{key}.{_key(name)} = {format_value(value)}" for name, value in values.items()]
    return "\n".join(lines) + "\n"


def add_to_text(text: str, path: str, kernels: Iterable[RecordedKernel]) -> str:
    """The text of a signature file with more records.

    Args:
        text: as it stands; "" for a new file.
        path: the file, for messages.
        kernels: the records; what the text says already is left out.

    Raises:
        SettingError: something in the text is wrong.
    """
    text = text if text.strip() else _HEAD
    standing = parse_text(text, path)
    head, tables = split_tables(text, len(standing))
    known = standing if tables or not standing else []  # headers inside of texts, say: add at the end
    known, new = list(known), set[int]()
    held: dict[tuple[str, ...], set[str]] = {}
    for kernel in standing:
        held.setdefault(kernel.key, set()).update(kernel.signatures)
    for kernel in sorted(merge_kernels(kernels), key=_order):
        signatures = [one for one in kernel.signatures if one not in held.get(kernel.key, ())]
        if kernel.key in held and not signatures:
            continue
        number = next((number for number, other in enumerate(known) if other.key == kernel.key), None)
        grown = None if number is None else _grow(tables[number], path, known[number], signatures)
        if number is not None and grown is not None:
            tables[number] = grown
            continue
        place = _place(known, kernel)
        known.insert(place, kernel)
        tables.insert(place, format_kernel(kernel.with_signatures(signatures)))
        new = {number + (number >= place) for number in new} | {place}
    return _join(head, tables, new)


def _join(head: str, tables: Sequence[str], new: set[int]) -> str:
    """The text again; only around new tables there are new blank lines."""
    text = head
    for number, table in enumerate(tables):
        if number in new or number - 1 in new:
            text = text.rstrip("\n") + "\n\n" if not text.endswith("\n\n") else text
        text += table
    return text


def _order(kernel: RecordedKernel) -> tuple[Any, ...]:
    return (kernel.module, kernel.qualname, kernel.line, kernel.key)


def _place(known: Sequence[RecordedKernel], kernel: RecordedKernel) -> int:
    """Where a new table goes: in order, if those that stand there are, else at the end."""
    orders = [_order(other) for other in known]
    if orders != sorted(orders):
        return len(orders)
    return sum(order < _order(kernel) for order in orders)


def _grow(table: str, path: str, kernel: RecordedKernel, new: Sequence[str]) -> str | None:
    """A table with more signatures; None where its list is written in a way that cannot be added to."""
    lines = "".join(f"    {format_value(text)},\n" for text in new)
    last = re.search(r",[ \t]*(#[^\n]*)?\n(?=[ \t]*\])", table)
    first = re.search(r"^[ \t]*signatures[ \t]*=[ \t]*\[", table, re.MULTILINE)
    for match, before, after in ((last, "", ""), (first, "\n", "    ")):
        if match is None:
            continue
        made = f"{table[: match.end()]}{before}{lines}{after}{table[match.end() :]}"
        try:
            (found,) = parse_text(made, path)
        except CudabuildError:
            continue
        if found.key == kernel.key and set(found.signatures) == {*kernel.signatures, *new}:
            return made
    return None


def write_signatures(path: str | os.PathLike[str], kernels: Iterable[RecordedKernel]) -> None:
    """Writes a new signature file, or adds to one.

    Raises:
        SettingError: something in the file that is there is wrong.
    """
    path = os.path.realpath(path)
    try:
        with open(path, encoding="utf-8", newline="") as stream:
            before = stream.read()
    except FileNotFoundError:
        before = ""
    after = add_to_text(before, path, kernels)
    if after != before:
        replace_file(path, after.encode())


def replace_file(path: str, data: bytes) -> None:
    """Puts ``data`` in place of a file, whole or not at all."""
    folder, name = os.path.split(path)
    os.makedirs(folder, exist_ok=True)
    temporary = os.path.join(folder, f".{name}.{os.urandom(8).hex()}")
    try:
        with open(temporary, "xb") as stream:
            stream.write(data)
        with contextlib.suppress(FileNotFoundError):  # a new file has the mode that the process gives to files
            os.chmod(temporary, os.stat(path).st_mode & 0o777)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
