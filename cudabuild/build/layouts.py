# SPDX-License-Identifier: Apache-2.0
"""Where projects of other build back-ends than setuptools keep their modules, by the back-end's own table.

For builds in place and for commands that look at sources. A wheel needs none of this: it says itself what it holds.
Read is what is commonly written; where nothing is, or a back-end has no table to read, setuptools' own search decides.
"""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from cudabuild.build.project import ModuleFile
from cudabuild.build.real_backend import DEFAULT_BACKEND, OURS
from cudabuild.build.wheel_file import name_module
from cudabuild.errors import SettingError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["find_declared_modules"]

#: A folder or a file of the source tree, and its path below ``site-packages``.
_Places = Iterable[tuple[str, str]]


def find_declared_modules(root: str) -> dict[str, ModuleFile] | None:
    """The modules that a project's back-end packs, by name; None where setuptools is to look for them.

    Args:
        root: the folder of pyproject.toml.

    Raises:
        SettingError: pyproject.toml cannot be read.
    """
    document = _read(os.path.join(root, "pyproject.toml"))
    backend = _table(document, "build-system").get("build-backend", DEFAULT_BACKEND)
    if backend == OURS:
        backend = _table(document, "tool", "cudabuild").get("build-backend", DEFAULT_BACKEND)
    reader = _READERS.get(str(backend).partition(":")[0].partition(".")[0])
    if reader is None:
        return None
    files: dict[str, ModuleFile] = {}
    for source, inside in reader(root, document):
        for path, below in _walk(os.path.join(root, source), inside):
            named = name_module(below)
            if named is not None:
                files.setdefault(named[0], ModuleFile(named[0], os.path.abspath(path), named[1]))
    return files or None


def _read(path: str) -> Mapping[str, Any]:
    try:
        with open(path, "rb") as stream:
            document: Mapping[str, Any] = tomllib.load(stream)
    except OSError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from None
    return document


def _walk(path: str, inside: str) -> Iterator[tuple[str, str]]:
    if os.path.isfile(path):
        yield path, inside
    for folder, folders, names in os.walk(path):
        folders.sort()
        below = os.path.relpath(folder, path).replace(os.sep, "/")
        prefix = "/".join(part for part in (inside, below) if part not in ("", "."))
        for name in sorted(names):
            yield os.path.join(folder, name), f"{prefix}/{name}" if prefix else name


def _table(document: Any, *keys: str) -> Mapping[str, Any]:
    for key in keys:
        document = document.get(key) if isinstance(document, Mapping) else None
    return document if isinstance(document, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, str) else []


def _own_name(document: Mapping[str, Any]) -> str:
    """The package that a distribution has by convention: its name, with underscores."""
    name = _table(document, "project").get("name") or _table(document, "tool", "poetry").get("name") or ""
    return re.sub(r"[-.\s]+", "_", str(name)).lower()


def _find(root: str, name: str, folders: Iterable[str] = ("src", "")) -> _Places:
    """A package or module by its dotted name, in the first of ``folders`` that has it."""
    inside = name.replace(".", "/")
    for folder in folders:
        for ending in ("", ".py"):
            path = os.path.join(folder, inside + ending)
            if os.path.exists(os.path.join(root, path)):
                return [(path, inside + ending)]
    return []


def _read_hatchling(root: str, document: Mapping[str, Any]) -> _Places:
    build = _table(document, "tool", "hatch", "build")
    wheel = {**build, **_table(build, "targets", "wheel")}
    packages = _list(wheel.get("packages"))
    if packages:
        return [(path, os.path.basename(path.rstrip("/"))) for path in packages]
    only = _list(wheel.get("only-include"))
    if not only:
        name = _own_name(document)
        return _find(root, name, ("src", "")) or _find_in_namespace(root, name)
    sources = wheel.get("sources", {})
    renamed = dict.fromkeys(sources, "") if isinstance(sources, list) else dict(sources)
    return [(path, _rename(path.strip("/"), renamed)) for path in only]


def _find_in_namespace(root: str, name: str) -> _Places:
    """hatchling's last guess: the only folder that has such a package."""
    found = glob.glob(os.path.join(glob.escape(root), "*", name, "__init__.py"))
    if len(found) != 1:
        return []
    path = os.path.relpath(os.path.dirname(found[0]), root)
    return [(path, path.replace(os.sep, "/"))]


def _rename(path: str, renamed: Mapping[str, Any]) -> str:
    for old, new in sorted(renamed.items(), key=lambda entry: -len(entry[0])):
        old = old.strip("/")
        if path == old or path.startswith(f"{old}/"):
            return f"{new}{path[len(old) :]}".strip("/")
    return path


def _read_uv(root: str, document: Mapping[str, Any]) -> _Places:
    table = _table(document, "tool", "uv", "build-backend")
    names = _list(table.get("module-name")) or [_own_name(document)]
    folder = str(table.get("module-root", "src"))
    return [place for name in names for place in _find(root, name, (folder,))]


def _read_poetry(root: str, document: Mapping[str, Any]) -> _Places:
    packages = _table(document, "tool", "poetry").get("packages")
    if not isinstance(packages, list):
        return _find(root, _own_name(document))
    places = []
    for package in packages:
        start = os.path.join(root, package.get("from", ""))
        for path in sorted(glob.glob(os.path.join(glob.escape(start), package.get("include", "")), recursive=True)):
            below = os.path.relpath(path, start)
            places.append(
                (os.path.relpath(path, root), os.path.join(package.get("to", ""), below).replace(os.sep, "/"))
            )
    return places


def _read_flit(root: str, document: Mapping[str, Any]) -> _Places:
    return _find(root, str(_table(document, "tool", "flit", "module").get("name") or _own_name(document)))


def _read_scikit_build_core(root: str, document: Mapping[str, Any]) -> _Places:
    table = _table(document, "tool", "scikit-build")
    packages = table.get("wheel.packages", _table(table, "wheel").get("packages"))
    if isinstance(packages, Mapping):
        return [(str(source), str(inside)) for inside, source in packages.items()]
    if packages is None:
        return _find(root, _own_name(document), ("src", "python", ""))
    return [(path, os.path.basename(path.rstrip("/"))) for path in _list(packages)]


def _read_maturin(root: str, document: Mapping[str, Any]) -> _Places:
    table = _table(document, "tool", "maturin")
    folder = str(table.get("python-source", ""))
    names = _list(table.get("python-packages")) or [
        str(table.get("module-name") or _own_name(document)).partition(".")[0]
    ]
    return [place for name in names for place in _find(root, name, (folder,))]


#: First part of the back-end's name -> what reads its table.
_READERS: Mapping[str, Callable[[str, Mapping[str, Any]], _Places]] = {
    "hatchling": _read_hatchling,
    "uv_build": _read_uv,
    "poetry": _read_poetry,
    "flit_core": _read_flit,
    "scikit_build_core": _read_scikit_build_core,
    "maturin": _read_maturin,
}
