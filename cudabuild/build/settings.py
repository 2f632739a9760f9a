# SPDX-License-Identifier: Apache-2.0
"""What to build: ``[tool.cudabuild]``, the environment and the command line, and which of them won.

The settings themselves are declared in :mod:`cudabuild.config`; here they become one frozen value.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from cudabuild import config
from cudabuild.build.native import find_native_ccs
from cudabuild.errors import SettingError, TargetError
from cudabuild.target import Target, parse_archs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["DEFAULT_ARCHS", "BuildSettings", "config_settings", "load_settings", "read_table"]

#: Where nothing is said: desktop and server GPUs from Turing on. Each runs its own major's later minors as well.
DEFAULT_ARCHS = ("75", "80", "86", "89", "90", "100", "120")

#: What the caller of a hook of ``cudabuild.build_meta`` gave as ``-C cudabuild.KEY=VALUE``: KEY -> a text, or a list of
#: texts where it was given several times. None outside of such a hook.
config_settings: ContextVar[Mapping[str, Any] | None] = ContextVar("config_settings", default=None)


@dataclass(frozen=True)
class BuildSettings:
    """Everything that decides what is built.

    Attributes:
        targets: in canonical order, cubins before PTX.
        index_widths: 32, 64 or both.
        origins: setting -> where its value comes from, for the report.
    """

    targets: tuple[Target, ...]
    index_widths: tuple[int, ...] = (32, 64)
    packages: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    allow_imports: tuple[str, ...] = ()
    strict: bool = False
    jobs: int | None = None
    fastmath: bool = False
    lineinfo: bool = False
    origins: tuple[tuple[str, str], ...] = ()

    def includes(self, module: str) -> bool:
        """True if ``packages`` and ``exclude`` let a module in."""
        inside = not self.packages or any(_covers(name, module) for name in self.packages)
        return inside and not any(_covers(name, module) for name in self.exclude)


def _covers(pattern: str, module: str) -> bool:
    """``pattern`` names the module, a package around it, or matches either as a glob."""
    parts = module.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def read_table(root: str) -> Mapping[str, Any] | None:
    """``[tool.cudabuild]`` of a project's pyproject.toml, or None where there is no such table.

    Raises:
        SettingError: the file is not TOML, or ``cudabuild`` is not a table.
    """
    path = os.path.join(root, "pyproject.toml")
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError:
        return None
    if b"cudabuild" not in data:
        return None
    try:
        tool = tomllib.loads(data.decode("utf-8")).get("tool", {})
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingError(f"{path} cannot be read: {error}") from None
    table = tool.get("cudabuild") if isinstance(tool, dict) else None
    if table is not None and not isinstance(table, dict):
        raise SettingError(f"bad [tool.cudabuild] in {path}\n  found:    {table!r}\n  expected: a table")
    return table


def load_settings(root: str, command_line: Mapping[str, Any] | None = None) -> BuildSettings:
    """The settings for building a project.

    Precedence: the command's options, ``-C cudabuild.KEY=VALUE``, environment, ``[tool.cudabuild]``, default.

    Args:
        root: the folder of pyproject.toml.
        command_line: setting name -> what was written as an option of ``build_cuda``, there or in setup.cfg.

    Raises:
        SettingError: an unknown key or a bad value; says where it stands.
        TargetError: an architecture that there is not; says where it stands.
    """
    where = f"[tool.cudabuild] of {os.path.join(root, 'pyproject.toml')}"
    table = config.check_table(read_table(root) or {}, where)
    given = config.check_table(config_settings.get() or {}, "-C cudabuild.KEY=VALUE")
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in config.SETTINGS:
        if not setting.key:
            continue
        name = setting.name
        written = (command_line or {}).get(name)
        if written is not None:
            values[name], origins[name] = setting.check(written, f"--{setting.key}"), "the command's options"
        elif name in given:
            values[name], origins[name] = given[name], f"-C cudabuild.{setting.key}"
        elif setting.variable and (config.environment(setting.variable) or "").strip():
            values[name], origins[name] = config.get(name), f"the environment variable {setting.variable}"
        elif name in table:
            values[name], origins[name] = table[name], where
        else:
            values[name], origins[name] = setting.default, "the default"
    return BuildSettings(
        targets=_targets(values, origins),
        index_widths={"both": (32, 64), "32": (32,), "64": (64,)}[values["index"]],
        packages=tuple(values["packages"]),
        exclude=tuple(values["exclude"]),
        allow_imports=tuple(values["allow_imports"]),
        strict=values["strict"],
        jobs=values["jobs"],
        fastmath=values["fastmath"],
        lineinfo=values["lineinfo"],
        origins=tuple(origins.items()),
    )


def _targets(values: Mapping[str, Any], origins: Mapping[str, str]) -> tuple[Target, ...]:
    archs = list(values["archs"]) or list(DEFAULT_ARCHS)
    ptx: str | list[str] = [word.lower() for word in values["ptx"]]
    if ptx in (["lowest"], ["newest"], ["none"]):
        ptx = ptx[0]
    try:
        return tuple(parse_archs(archs, ptx, native=find_native_ccs))
    except TargetError as error:
        raise TargetError(f"{error}\n  where:    archs from {origins['archs']}, ptx from {origins['ptx']}") from None
