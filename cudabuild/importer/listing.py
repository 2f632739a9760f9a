# SPDX-License-Identifier: Apache-2.0
"""What a package ships, for people: ``python -m cudabuild list`` and ``inspect``."""

from __future__ import annotations

import importlib.util
import os

from cudabuild.errors import CudabuildError
from cudabuild.image.archive import Archive
from cudabuild.image.index import INDEX_NAME, read_index
from cudabuild.image.left import find_left
from cudabuild.importer.finder import FOLDER
from cudabuild.target import find_target, sort_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cudabuild.image.archive import Record
    from cudabuild.image.left import LeftToJit

__all__ = ["find_archives", "find_left_kernels", "format_details", "format_left", "format_table"]


def find_archives(what: str) -> list[Archive]:
    """The archives that a name stands for, cubins first.

    Args:
        what: an archive file, a folder that holds archives or a package, or the name of a package or module, which is
            looked for but not imported.

    Raises:
        CudabuildError: nothing there.
        ImageFormatError: a file is no archive, or damaged.
    """
    if os.path.isfile(what):
        return [Archive(what)]
    for folder in _folders(what):
        names = sorted(name for name in os.listdir(folder) if name.endswith(".cuar")) if os.path.isdir(folder) else []
        if names:
            archives = {archive.target: archive for archive in (Archive(os.path.join(folder, name)) for name in names)}
            known = sort_targets(target for target in map(find_target, archives) if target is not None)
            order = [target.name for target in known]
            return [archives[name] for name in [*order, *sorted(set(archives) - set(order))]]
    raise CudabuildError(
        f"no archives\n  found:    {what}\n"
        "  expected: an archive, a folder that holds some, or a package that ships some"
    )


def _folders(what: str) -> Iterator[str]:
    yield what
    yield os.path.join(what, FOLDER)
    head, *rest = what.split(".")
    try:
        spec = importlib.util.find_spec(head) if head.isidentifier() else None
    except (ImportError, ValueError):  # a module without a spec
        return
    if spec is None:
        return
    for location in spec.submodule_search_locations or ():
        for count in range(len(rest) + 1):
            yield os.path.join(location, *rest[:count], FOLDER)
        if rest:
            yield os.path.join(location, *rest[:-1], f"{FOLDER}_{rest[-1]}")
    if spec.origin is not None:
        yield os.path.join(os.path.dirname(spec.origin), f"{FOLDER}_{head}")


def find_left_kernels(what: str) -> list[LeftToJit]:
    """What the build of a package left to JIT, as its index says; empty where there is no index.

    Args:
        what: as for :func:`find_archives`.

    Raises:
        ImageFormatError: the index cannot be read.
    """
    folders = [os.path.dirname(what)] if os.path.isfile(what) else _folders(what)
    for folder in folders:
        path = os.path.join(folder, INDEX_NAME)
        if os.path.isfile(path):
            return find_left(read_index(path))
    return []


def format_left(left: Sequence[LeftToJit], kernel: str = "") -> str:
    """Why each kernel is compiled at run time, a block for each; "" if there is none.

    Args:
        left: what :func:`find_left_kernels` found.
        kernel: only kernels whose name holds this text.
    """
    chosen = [one for one in left if kernel in f"{one.module}.{one.qualname}"]
    return "\n\n".join(f"left to JIT: {one.explain()}" for one in chosen)


def format_table(archives: Sequence[Archive]) -> str:
    """One line per kernel and signature: the targets that it was built for, and their index widths."""
    found: dict[tuple[str, str, str], dict[str, list[int]]] = {}
    for archive in archives:
        for record in archive.records():
            key = (record.module, record.qualname, record.signature)
            found.setdefault(key, {}).setdefault(archive.target, []).append(record.index_width)
    lines = [f"{archive.name}: {archive.target}, {archive.count} images" for archive in archives]
    for (module, qualname, signature), targets in sorted(found.items()):
        groups: dict[str, list[str]] = {}
        for target, widths in targets.items():
            groups.setdefault("+".join(map(str, sorted(set(widths)))), []).append(target)
        where = "; ".join(f"{', '.join(names)} ({widths}-bit indices)" for widths, names in groups.items())
        lines.append(f"{module}.{qualname}({signature}): {where}")
    return "\n".join(lines)


def format_details(archives: Sequence[Archive], kernel: str = "") -> str:
    """Everything recorded with each image.

    Args:
        archives: where to look.
        kernel: only kernels whose name holds this text.
    """
    blocks = []
    for archive in archives:
        for record in archive.records():
            if kernel in f"{record.module}.{record.qualname}":
                blocks.append(_format_record(archive, record))
    return "\n\n".join(blocks) or f"no kernel whose name holds {kernel!r}"


def _format_record(archive: Archive, record: Record) -> str:
    toolchain, parts = record.read_extra()
    driver = f"{record.minimum_driver // 1000}.{record.minimum_driver % 1000 // 10}"
    rows = [
        ("archive", archive.name),
        ("image", f"{record.kind} {archive.target}, {record.index_width}-bit indices, {record.size} bytes"),
        ("symbol", record.symbol),
        ("fingerprint", record.fingerprint.hex()),
        ("launch ABI", str(record.launch_abi)),
        ("driver", f"for CUDA {driver} or newer"),
        ("options", _spell(record.options) or "defaults"),
        ("uses", _spell(record.attributes)),
        ("made by", _spell(toolchain)),
        ("free values", _spell({name: text for name, text in parts if not name.rpartition("/")[2].startswith("(")})),
    ]
    head = f"{record.module}.{record.qualname}({record.signature})"
    return "\n".join([head, *(f"  {label + ':':<13} {text}" for label, text in rows if text)])


def _spell(values: dict[str, object] | dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
