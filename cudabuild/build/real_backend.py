# SPDX-License-Identifier: Apache-2.0
"""The build back-end behind ``cudabuild.build_meta``: which it is, what it is given, whether it ships archives itself.

Nothing here needs a compiler: hooks that tell requirements run where none is installed yet.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from cudabuild import config
from cudabuild.build.settings import config_settings, load_settings, read_table
from cudabuild.errors import SettingError, ToolError

__all__ = [
    "call_with_settings",
    "choose_extras",
    "find_compile_requirements",
    "get_backend",
    "is_delegating",
    "note_shipped",
]

DEFAULT_BACKEND = "setuptools.build_meta"
OURS = "cudabuild.build_meta"
_PREFIX = "cudabuild."

#: A list while a hook of ours runs: not empty once a plug-in of the real back-end has put the archives into place.
_shipped: ContextVar[list[bool] | None] = ContextVar("shipped", default=None)

#: ``name; marker and extra == "jit"``, as all tools write the requirements of extras.
_OF_EXTRA = re.compile(
    r"""(?P<name>[^;]+?)\s*;\s*(?:(?P<marker>.+)\s+and\s+)?extra\s*==\s*["'](?P<extra>[\w.-]+)["']\s*"""
)
_SELF = re.compile(r"cudabuild\s*\[(?P<extras>[\w., -]+)\]")


def note_shipped() -> None:
    """Says that the archives are where the back-end wants them: the wrapper must not put them into the wheel again."""
    noted = _shipped.get()
    if noted is not None:
        noted.append(True)


def is_delegating() -> bool:
    """True while a hook of ``cudabuild.build_meta`` runs."""
    return _shipped.get() is not None


@contextlib.contextmanager
def call_with_settings(given: Mapping[str, Any] | None) -> Iterator[tuple[dict[str, Any] | None, list[bool]]]:
    """Makes our part of ``config_settings`` known to everything that is called inside.

    Yields:
        What is left of ``given`` for the real back-end, as some refuse what they do not know; and a list that is not
        empty once a plug-in has shipped the archives.
    """
    ours = {key.removeprefix(_PREFIX): value for key, value in (given or {}).items() if key.startswith(_PREFIX)}
    rest = {key: value for key, value in (given or {}).items() if not key.startswith(_PREFIX)}
    noted: list[bool] = []
    settings, shipped = config_settings.set(ours), _shipped.set(noted)
    try:
        yield rest or None, noted
    finally:
        config_settings.reset(settings)
        _shipped.reset(shipped)


def get_backend(root: str) -> Any:
    """The object that has the real back-end's hooks, by ``build-backend`` and ``backend-path`` of ``[tool.cudabuild]``.

    Raises:
        SettingError: the setting is no text, names ourselves, or a path outside of the project.
        ToolError: it is not installed.
    """
    table = read_table(root) or {}
    where = f"[tool.cudabuild] of {os.path.join(root, 'pyproject.toml')}"
    text = table.get("build-backend", DEFAULT_BACKEND)
    if not isinstance(text, str) or text.partition(":")[0].strip() == OURS:
        raise SettingError(
            f"bad value of build-backend in {where}\n  found:    {text!r}\n"
            "  expected: the back-end that makes the wheel, such as 'hatchling.build' or 'uv_build'"
        )
    _extend_path(root, table.get("backend-path", []), where)
    module, _, attributes = text.partition(":")
    try:
        backend: Any = importlib.import_module(module.strip())
        for name in filter(None, attributes.strip().split(".")):
            backend = getattr(backend, name)
    except ImportError as error:
        raise ToolError(
            f"the build back-end {text!r} cannot be imported: {error}\n  where:    build-backend in {where}\n"
            "  do:       list the package that has it in [build-system] requires"
        ) from None
    except AttributeError as error:
        raise ToolError(f"there is no build back-end {text!r}: {error}\n  where:    build-backend in {where}") from None
    return backend


def _extend_path(root: str, paths: Any, where: str) -> None:
    """Puts the folders of an in-tree back-end first on ``sys.path``, as front-ends do with their own backend-path."""
    for path in reversed(config.get_setting("backend_path").check(paths, f"backend-path in {where}")):
        folder = os.path.realpath(os.path.join(root, path))
        if os.path.commonpath([folder, os.path.realpath(root)]) != os.path.realpath(root):
            raise SettingError(
                f"bad value of backend-path in {where}\n  found:    {path!r}\n  expected: a folder inside the project"
            )
        if folder not in sys.path:
            sys.path.insert(0, folder)


def choose_extras(root: str) -> list[str]:
    """The extras of cudabuild that building a project takes, by its settings: which nvJitLink, and what else.

    Raises:
        SettingError, TargetError: a setting is wrong.
    """
    settings = load_settings(root)
    needs_13 = any(not target.is_ptx and target.linker[0] > 12 for target in settings.targets)
    extras = ["build13" if settings.nvjitlink == "13" else "build"]
    if needs_13 and "build13" not in extras:
        extras.append("build13")
    if settings.executor.startswith("dask"):
        extras.append("dask")
    return extras


def find_compile_requirements(extras: Iterable[str] = ("build",)) -> list[str]:
    """What compiling needs beyond what ``cudabuild`` itself depends on, read from its own metadata.

    setuptools is left out: only projects that use it need it, and theirs say which. Empty where cudabuild is not
    installed but merely on the path: then whoever put it there looks after its tools.
    """
    try:
        lines = importlib.metadata.requires("cudabuild") or []
    except importlib.metadata.PackageNotFoundError:
        return []
    found: list[str] = []
    wanted, seen = list(extras), set()
    while wanted:
        extra = wanted.pop(0)
        seen.add(extra)
        for line in lines:
            match = _OF_EXTRA.fullmatch(line)
            if match is None or match["extra"] != extra:
                continue
            ourselves = _SELF.fullmatch(match["name"])
            if ourselves is not None:
                names = [name.strip() for name in ourselves["extras"].split(",")]
                wanted += [name for name in names if name not in seen]
            elif not match["name"].startswith("setuptools"):
                found.append(match["name"] + (f"; {match['marker']}" if match["marker"] else ""))
    return list(dict.fromkeys(found))
