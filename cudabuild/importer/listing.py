# SPDX-License-Identifier: Apache-2.0
"""What a package ships, for people: ``python -m cudabuild list`` and ``inspect``."""

from __future__ import annotations

import importlib.util
import os

from cudabuild import config
from cudabuild.errors import CudabuildError
from cudabuild.image.archive import Archive
from cudabuild.image.index import INDEX_NAME, parse_index, read_index
from cudabuild.image.left import find_left
from cudabuild.importer.finder import FOLDER
from cudabuild.target import find_target, sort_targets

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec

    from cudabuild.image.archive import Record
    from cudabuild.image.left import LeftToJit
    from cudabuild.target import Target

__all__ = ["Shipped", "find_shipped", "format_details", "format_left", "format_table"]

_ENDING = ".cuar"


class Shipped:
    """What a package, a wheel or a folder ships.

    Attributes:
        archives: cubins first, folder by folder.
        left: what its build left to JIT.
    """

    __slots__ = ("archives", "left")

    def __init__(self, archives: Sequence[Archive], left: Sequence[LeftToJit] = ()) -> None:
        self.archives = list(archives)
        self.left = list(left)


def find_shipped(what: str) -> Shipped:
    """The archives that a name stands for, and what the index beside them says.

    Args:
        what: a wheel, an archive file, a folder that holds archives or packages, or the name of a package or module,
            which is looked for but not imported.

    Raises:
        CudabuildError: nothing there.
        ImageFormatError: a file is no archive, or damaged.
    """
    if os.path.isfile(what):
        if what.endswith(".whl"):
            return _read_wheel(what)
        return Shipped([Archive(what)], _read_left(os.path.join(os.path.dirname(what), INDEX_NAME)))
    folders = [folder for folder in _folders(what) if _holds_something(folder)][:1] or list(_search(what))
    if not folders:
        raise CudabuildError(
            f"no archives\n  found:    {what}\n"
            "  expected: a wheel, an archive, a folder that holds some, or a package that ships some"
        )
    archives: list[Archive] = []
    left: list[LeftToJit] = []
    for folder in folders:
        names = [name for name in os.listdir(folder) if name.endswith(_ENDING)]
        archives += _sort([Archive(os.path.join(folder, name)) for name in names])
        left += _read_left(os.path.join(folder, INDEX_NAME))
    return Shipped(archives, left)


def _read_wheel(path: str) -> Shipped:
    import zipfile

    try:
        with zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if _is_folder(os.path.dirname(name))]
            files = {name: wheel.read(name) for name in names if name.endswith(_ENDING)}
            indexes = {name: wheel.read(name) for name in names if os.path.basename(name) == INDEX_NAME}
    except (OSError, zipfile.BadZipFile, EOFError, ValueError) as error:
        raise CudabuildError(f"{path} cannot be read as a wheel: {error}") from None
    if not files and not indexes:
        raise CudabuildError(f"no archives\n  found:    {path}\n  expected: a wheel that holds some")
    archives = [Archive(data, f"{path}/{name}") for name, data in sorted(files.items())]
    left = [one for name, data in sorted(indexes.items()) for one in find_left(parse_index(data, f"{path}/{name}"))]
    return Shipped(_sort(archives), left)


def _sort(archives: Sequence[Archive]) -> list[Archive]:
    """Archives by folder, then in canonical order of their targets; unknown targets last."""
    known = {target.name: number for number, target in enumerate(sort_targets(filter(None, map(_target_of, archives))))}
    return sorted(archives, key=lambda one: (os.path.dirname(one.name), known.get(one.target, len(known)), one.target))


def _target_of(archive: Archive) -> Target | None:
    return find_target(archive.target)


def _is_folder(path: str) -> bool:
    name = os.path.basename(path)
    return name == FOLDER or name.startswith(f"{FOLDER}_")


def _holds_something(folder: str) -> bool:
    try:
        return any(name.endswith(_ENDING) or name == INDEX_NAME for name in os.listdir(folder)) and (
            _is_folder(folder) or any(name.endswith(_ENDING) for name in os.listdir(folder))
        )
    except OSError:
        return False


def _search(what: str) -> Iterator[str]:
    """Folders of archives below a folder, or below a namespace package."""
    tops = [what] if os.path.isdir(what) else []
    if not tops and what.isidentifier():
        spec = _find_spec(what)
        tops = list(spec.submodule_search_locations or ()) if spec is not None else []
    for top in tops:
        for folder, names, _ in os.walk(top):
            names.sort()
            if _is_folder(folder) and _holds_something(folder):
                yield folder


def _read_left(path: str) -> list[LeftToJit]:
    return find_left(read_index(path)) if os.path.isfile(path) else []


def _find_spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):  # a module without a spec
        return None


def _folders(what: str) -> Iterator[str]:
    yield what
    yield os.path.join(what, FOLDER)
    head, *rest = what.split(".")
    spec = _find_spec(head) if head.isidentifier() else None
    if spec is not None:
        yield from _folders_of(spec, head, rest)
    if head.isidentifier():
        for base in config.get("archives"):
            for count in range(len(rest) + 1):
                yield os.path.join(base, head, *rest[:count], FOLDER)
            *outer, name = [head, *rest]
            yield os.path.join(base, *outer, f"{FOLDER}_{name}")


def _folders_of(spec: ModuleSpec, head: str, rest: list[str]) -> Iterator[str]:
    for location in spec.submodule_search_locations or ():
        for count in range(len(rest) + 1):
            yield os.path.join(location, *rest[:count], FOLDER)
        if rest:
            yield os.path.join(location, *rest[:-1], f"{FOLDER}_{rest[-1]}")
    if spec.origin is not None:
        yield os.path.join(os.path.dirname(spec.origin), f"{FOLDER}_{head}")


def format_left(left: Sequence[LeftToJit], kernel: str = "") -> str:
    """Why each kernel is compiled at run time, a block for each; "" if there is none.

    Args:
        left: see :class:`Shipped`.
        kernel: only kernels whose name holds this text.
    """
    chosen = [one for one in left if kernel in f"{one.module}.{one.qualname}"]
    return "\n\n".join(f"left to JIT: {one.explain()}" for one in chosen)


def format_table(shipped: Shipped) -> str:
    """One line per kernel and signature: the targets that it was built for, and their index widths."""
    archives = shipped.archives
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
    lines += [f"left to JIT: {one.module}.{one.qualname}: {one}" for one in shipped.left]
    return "\n".join(lines)


def format_details(shipped: Shipped, kernel: str = "") -> str:
    """Everything recorded with each image, and why kernels were left to JIT.

    Args:
        shipped: where to look.
        kernel: only kernels whose name holds this text.
    """
    blocks = []
    for archive in shipped.archives:
        for record in archive.records():
            if kernel in f"{record.module}.{record.qualname}":
                blocks.append(_format_record(archive, record))
    left = format_left(shipped.left, kernel)
    if left:
        blocks.append(left)
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
        ("decorator", f"writes {', '.join(record.decorated)}" if record.decorated else ""),
        ("uses", _spell({name: value for name, value in record.attributes.items() if name != "decorated"})),
        ("made by", _spell(toolchain)),
        ("free values", _spell({name: text for name, text in parts if not name.rpartition("/")[2].startswith("(")})),
    ]
    head = f"{record.module}.{record.qualname}({record.signature})"
    return "\n".join([head, *(f"  {label + ':':<13} {text}" for label, text in rows if text)])


def _spell(values: dict[str, object] | dict[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items()))
