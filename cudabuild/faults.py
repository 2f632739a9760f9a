# SPDX-License-Identifier: Apache-2.0
"""What can go wrong inside a kernel, and the exception that tells it after the launch.

Code that checks has a table of *sites*, one for each place in the source that can fail: the exception's class as
``module:qualname``, its message, the file, the line. A thread that fails leaves the number of its site (from 1), its
place and, for an index, two numbers in a record; the first to come keeps it. The launch wing reads the record.

The file of a site in an image is "" for the kernel's own, else the name of a module: no path of the machine that built
it ships.
"""

from __future__ import annotations

import sys

from cudabuild.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from cudabuild.definition import KernelDefinition
    from cudabuild.errors import Location

    #: Class, message, file, line.
    Site = tuple[str, str, str, int]
    Dim = tuple[int, int, int]

__all__ = [
    "ASSERTION",
    "BOUNDS",
    "DIVISION",
    "RECORD_SIZE",
    "FaultTable",
    "make_fault",
    "portable_sites",
    "unpack_record",
]

ASSERTION = "builtins:AssertionError"
BOUNDS = "cudabuild.errors:BoundsError"
DIVISION = "builtins:ZeroDivisionError"

#: A GPU's record, little endian: site, three zeros' room for alignment, thread x y z, block x y z, index, extent.
_RECORD = "<i4x6iqq"
RECORD_SIZE = 48


class FaultTable:
    """The sites of one kernel, while it is being compiled."""

    def __init__(self) -> None:
        self._numbers: dict[Site, int] = {}

    def add(self, exception: str, message: str, location: Location | None) -> int:
        """The number of a site, from 1; equal sites share one."""
        site = (exception, message, location.file if location else "", location.line if location else 0)
        return self._numbers.setdefault(site, len(self._numbers) + 1)

    @property
    def sites(self) -> tuple[Site, ...]:
        return tuple(self._numbers)


def portable_sites(sites: Sequence[Site], definition: KernelDefinition) -> tuple[Site, ...]:
    """``sites`` with files as an image holds them."""
    own = definition.function.__code__.co_filename
    names = {getattr(module, "__file__", None): name for name, module in list(sys.modules.items())}
    names[own] = ""
    return tuple(
        (exception, message, names.get(file, file.replace("\\", "/").rpartition("/")[2]), line)
        for exception, message, file, line in sites
    )


def unpack_record(data: bytes) -> tuple[int, Dim, Dim, int, int]:
    """Site number (0: nothing happened), thread, block, index and extent of a GPU's record."""
    import struct

    number, x, y, z, block_x, block_y, block_z, index, extent = struct.unpack(_RECORD, data)
    return number, (x, y, z), (block_x, block_y, block_z), index, extent


def make_fault(
    site: Site, kernel: str, own: str, thread: Dim, block: Dim, index: int = 0, extent: int = 0
) -> Exception:
    """The exception for the first offender of a launch.

    Args:
        site: where and what; its file a path, or as ``portable_sites`` makes it.
        kernel, own: the kernel's qualified name and the file it is in.
        thread, block: who.
        index, extent: for an index out of range: the index as counted from the start, and how many elements there are.

    Returns:
        An exception of the site's class, its message followed by kernel, thread, block, file and line; these are its
        attributes too. A :class:`LaunchError` where the class cannot be had.
    """
    name, message, file, line = site
    if name == BOUNDS:
        if index < 0 and "{wrapped}" in message:
            index -= extent
        unsigned = index & (1 << 64) - 1 if index < 0 else index
        # Not str.format: the message comes from a file, and a format may ask for any attribute and any width.
        for name_in_message, value in (("{wrapped}", index), ("{index}", unsigned), ("{extent}", extent)):
            message = message.replace(name_in_message, str(value))
    elif name == DIVISION and not message:
        message = "integer division or modulo by zero"
    elif not message:
        message = "assertion failed" if name == ASSERTION else "raised without a message"
    path = own if not file else getattr(sys.modules.get(file), "__file__", None) or file
    text = f"{message}\n  kernel: {kernel}, thread {thread} of block {block}\n  at:     {path}:{line}"
    import linecache

    source = linecache.getline(path, line).strip()
    if source:
        text += f": {source}"
    error = _make_exception(name, text)
    place: dict[str, Any] = {
        "kernel": kernel, "file": path, "line": line, "thread": thread, "block": block,
    }  # fmt: skip
    for attribute, value in place.items():
        try:
            setattr(error, attribute, value)
        except (AttributeError, TypeError):  # a class with slots: the text says it all
            break
    return error


def _make_exception(name: str, text: str) -> Exception:
    """An exception of the class that ``name`` stands for.

    The name may come from a file. The kernel that raises the class has it from a module that is imported, so nothing is
    imported here; and nothing but a class of exceptions is called.
    """
    module, _, qualname = name.partition(":")
    found: Any = sys.modules.get(module)
    try:
        for part in qualname.split("."):
            found = getattr(found, part)
        if isinstance(found, type) and issubclass(found, Exception):
            return found(text)
    except (AttributeError, TypeError):  # made inside a function, or its constructor takes other things
        pass
    return LaunchError(f"{qualname.rpartition('.')[2]}: {text}")
