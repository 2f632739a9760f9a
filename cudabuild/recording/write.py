# SPDX-License-Identifier: Apache-2.0
"""Records -> the text of a signature file; and new records into a text that a person may have edited.

Nothing that stands in a text is changed: a kernel that gains signatures gains lines, a new kernel a table. No TOML
library is asked, because those that keep comments would be needed by the program that is recorded; what is written here
is read back and compared before it counts.
"""

from __future__ import annotations

import bisect
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

_HEAD = """\
# Kernels and the signatures that they were launched with, written by cudabuild record. A build takes this file by
#   [tool.cudabuild]
#   signatures = {name}
# It may be edited; what stands here stays when more is recorded.
schema = {schema}
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
    text = text if text.strip() else _HEAD.format(name=format_value(os.path.basename(path)), schema=SCHEMA)
    standing = parse_text(text, path)
    held: dict[tuple[str, ...], set[str]] = {}
    for kernel in standing:
        held.setdefault(kernel.key, set()).update(kernel.signatures)
    tables = _Tables(text, standing)
    for kernel in sorted(merge_kernels(kernels), key=_order):
        signatures = [one for one in kernel.signatures if one not in held.get(kernel.key, ())]
        if kernel.key not in held:
            tables.add(kernel)
        elif signatures and not tables.grow(kernel, signatures, path):
            tables.add(kernel.with_signatures(signatures))
    return tables.join()


def _order(kernel: RecordedKernel) -> tuple[Any, ...]:
    return (kernel.module, kernel.qualname, kernel.line, kernel.key)


class _Tables:
    """The tables of a text. Where headers cannot be told from other text, it is one piece, and new tables follow it."""

    def __init__(self, text: str, standing: Sequence[RecordedKernel]) -> None:
        self._head, parts = split_tables(text, len(standing))
        known = list(standing) if parts else []
        self._tables = [(_order(kernel), kernel, part, False) for kernel, part in zip(known, parts, strict=True)]
        orders = [table[0] for table in self._tables]
        self._sorted = orders == sorted(orders)

    def add(self, kernel: RecordedKernel) -> None:
        """Puts in a new table: in order, if those that stand there are, else at the end."""
        table = (_order(kernel), kernel, format_kernel(kernel), True)
        place = len(self._tables)
        if self._sorted:
            place = bisect.bisect_right(self._tables, table[0], key=lambda one: one[0])
        self._tables.insert(place, table)

    def grow(self, kernel: RecordedKernel, signatures: Sequence[str], path: str) -> bool:
        """Adds signatures to a kernel's table; False where that is not possible."""
        for number, (order, known, text, is_new) in enumerate(self._tables):
            if known.key == kernel.key:
                grown = _grow(text, path, known, signatures)
                if grown is not None:
                    self._tables[number] = (order, known, grown, is_new)
                return grown is not None
        return False

    def join(self) -> str:
        """The text again; only around new tables there are new blank lines."""
        parts = [self._head]
        after_new = False
        for _, _, table, is_new in self._tables:
            if (is_new or after_new) and not parts[-1].endswith("\n\n"):
                parts.append("\n" if parts[-1].endswith("\n") else "\n\n")
            parts.append(table)
            after_new = is_new
        return "".join(parts)


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
