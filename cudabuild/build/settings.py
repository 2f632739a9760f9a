# SPDX-License-Identifier: Apache-2.0
"""What to build: the command line, config settings, the environment and ``[tool.cudabuild]``, and which of them won.

The settings themselves are declared in :mod:`cudabuild.config`; here they become one frozen value.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from cudabuild import config
from cudabuild.build.archs import FOREIGN_LISTS
from cudabuild.build.native import find_native_ccs
from cudabuild.build.toml_lines import find_line
from cudabuild.definition import Options
from cudabuild.errors import SettingError, SignatureError, TargetError, nearest_name
from cudabuild.target import Target, parse_archs

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = [
    "DEFAULT_ARCHS",
    "OPTION_SETTINGS",
    "BuildSettings",
    "config_settings",
    "describe_settings",
    "format_settings",
    "load_settings",
    "read_table",
]

#: Where nothing is said: desktop and server GPUs from Turing on. Each runs its own major's later minors as well.
DEFAULT_ARCHS = ("75", "80", "86", "89", "90", "100", "120")

#: The settings that are compile options of every kernel whose decorator does not say otherwise.
OPTION_SETTINGS = ("debug", "fastmath", "fma", "lineinfo", "max_registers")

#: What a front end gave by ``-C cudabuild.KEY=VALUE``: key (``archs``, ``max-registers``) -> text, or texts where it
#: was given several times. Set by the PEP 517 wrapper around each hook of the real back-end; None outside of one.
config_settings: ContextVar[Mapping[str, Any] | None] = ContextVar("config_settings", default=None)

_DEFAULT = "the default"


@dataclass(frozen=True)
class BuildSettings:
    """Everything that decides what is built.

    Attributes:
        targets: in canonical order, cubins before PTX.
        index_widths: 32, 64 or both.
        signature_files: paths of files with recorded signatures.
        kernels: (pattern of ``module:kernel``, ((setting, value), …)) of every kernel that has settings of its own;
            ``signatures`` among them.
        origins: setting -> where its value comes from, for the report.

    The other attributes are the settings of the same names in :mod:`cudabuild.config`.
    """

    targets: tuple[Target, ...]
    index_widths: tuple[int, ...] = (32, 64)
    nvjitlink: str = "auto"
    packages: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    discovery: str = "slice"
    allow_imports: tuple[str, ...] = ()
    dialect: str = "cudabuild"
    adopt: tuple[str, ...] = ()
    arch_variables: tuple[str, ...] = ()
    signature_files: tuple[str, ...] = ()
    strict: bool = False
    jobs: int | None = None
    executor: str = ""
    debug: bool = False
    fastmath: bool = False
    fma: bool = True
    lineinfo: bool = False
    max_registers: int | None = None
    kernels: tuple[tuple[str, tuple[tuple[str, Any], ...]], ...] = ()
    build_backend: str = ""
    backend_path: tuple[str, ...] = ()
    origins: tuple[tuple[str, str], ...] = ()

    def includes(self, module: str) -> bool:
        """True if ``packages`` and ``exclude`` let a module in."""
        inside = not self.packages or any(_covers(name, module) for name in self.packages)
        return inside and not any(_covers(name, module) for name in self.exclude)

    def takes(self, module: str, dialect: str) -> bool:
        """True if a kernel of this dialect in a module is cudabuild's to build: numba's only where it was adopted."""
        adopted = self.dialect == "numba" or any(module == name or module.startswith(f"{name}.") for name in self.adopt)
        return dialect == "cudabuild" or adopted

    def overrides_of(self, module: str, qualname: str) -> dict[str, Any]:
        """One kernel's own settings; its full name counts before a pattern, a later pattern before an earlier."""
        name = f"{module}:{qualname}"
        found: dict[str, Any] = {}
        for pattern, values in sorted(self.kernels, key=lambda entry: entry[0] == name):
            if _matches(pattern, name):
                found.update(values)
        return found

    def signatures_of(self, module: str, qualname: str) -> tuple[str, ...]:
        """The signatures that the settings add to those of a kernel's decorator, as written."""
        return tuple(self.overrides_of(module, qualname).get("signatures", ()))

    def options_of(self, module: str, qualname: str, written: Options) -> Options:
        """A kernel's options: what its decorator writes, else the kernel's own settings, else the build's.

        Args:
            module, qualname: the kernel.
            written: the decorator's options.

        Raises:
            SettingError: decorator and settings of this kernel contradict each other. An image would never bind: the
                decorator's options are compared when it is loaded.
        """
        values = dict(written.values)
        overrides = self.overrides_of(module, qualname)
        for name in OPTION_SETTINGS:
            if name not in written.written:
                values[name] = overrides.get(name, getattr(self, name))
            elif name in overrides and overrides[name] != written[name]:
                key = config.get_setting(name).key
                raise SettingError(
                    f"{module}:{qualname} has two values of {name}\n"
                    f"  found:    {name}={written[name]!r} in its decorator, and {key} = {overrides[name]!r} in its "
                    "table of [tool.cudabuild.kernel]\n"
                    "  do:       take one of them out"
                )
        return Options(values, written.written)

    def find_unknown_kernels(self, names: Iterable[str]) -> list[str]:
        """One message for each kernel of the settings that is none of ``names`` (``module:kernel``)."""
        known = sorted(names)
        messages = []
        for pattern, values in self.kernels:
            if not any(_matches(pattern, name) for name in known):
                near = nearest_name(pattern, known)
                lines = [
                    "[tool.cudabuild] has settings of a kernel that there is not",
                    f"  found:    {pattern!r} ({', '.join(config.get_setting(name).key for name, _ in values)})",
                    f"  expected: {', '.join(known[:20]) or 'no kernels were found'}{', …' if len(known) > 20 else ''}",
                ]
                messages.append("\n".join(lines + ([f"  do:       did you mean {near!r}?"] if near else [])))
        return messages


def _covers(pattern: str, module: str) -> bool:
    """``pattern`` names the module, a package around it, or matches either as a glob."""
    parts = module.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[:end]), pattern) for end in range(1, len(parts) + 1))


def _matches(pattern: str, name: str) -> bool:
    return pattern == name or fnmatch.fnmatchcase(name, pattern)


def read_table(root: str) -> Mapping[str, Any] | None:
    """``[tool.cudabuild]`` of a project's pyproject.toml, or None where there is no such table.

    Raises:
        SettingError: the file is not TOML, or ``cudabuild`` is not a table.
    """
    return _Pyproject(root).table


class _Pyproject:
    """``[tool.cudabuild]`` of a project's pyproject.toml, and where its keys stand.

    Attributes:
        where: the file and the table, for messages.
        table: the table, or None.
    """

    def __init__(self, root: str) -> None:
        self.path = os.path.join(root, "pyproject.toml")
        self.where = f"[tool.cudabuild] of {self.path}"
        self.text = ""
        self.table: Mapping[str, Any] | None = None
        try:
            with open(self.path, "rb") as stream:
                data = stream.read()
        except OSError:
            return
        if b"cudabuild" not in data:
            return
        try:
            self.text = data.decode("utf-8")
            tool = tomllib.loads(self.text).get("tool", {})
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise SettingError(f"{self.path} cannot be read: {error}") from None
        table = tool.get("cudabuild") if isinstance(tool, dict) else None
        if table is not None and not isinstance(table, dict):
            raise SettingError(f"bad [tool.cudabuild] in {self.path}\n  found:    {table!r}\n  expected: a table")
        self.table = table

    def place(self, *keys: str) -> str:
        """Where a key stands, with its line."""
        *tables, _ = keys
        table = ".".join(["tool.cudabuild", *(f'"{name}"' if ":" in name else name for name in tables)])
        line = find_line(self.text, ["tool", "cudabuild", *keys])
        return f"[{table}] of {self.path}" + (f", line {line}" if line else "")

    def read(self) -> dict[str, Any]:
        """The settings written in it, by name; those of single kernels checked as well.

        Raises:
            SettingError: an unknown key or a bad value.
        """
        values = config.check_table(self.table or {}, self.where, self.place)
        kernels = {name: self._read_kernel(name, own) for name, own in values.get("kernel", {}).items()}
        signatures = values.get("signatures", ())
        if isinstance(signatures, dict):
            for name, texts in signatures.items():
                self._check_signatures(texts, "signatures", name)
                kernels.setdefault(name, {})
                kernels[name]["signatures"] = [*kernels[name].get("signatures", ()), *texts]
            del values["signatures"]
        if kernels:
            values["kernel"] = kernels
        return values

    def _read_kernel(self, name: str, table: Mapping[str, Any]) -> dict[str, Any]:
        def place(key: str) -> str:
            return self.place("kernel", name, key)

        own = config.check_table(table, self.where, place, lambda one: one.per_kernel)
        texts = own.get("signatures", ())
        if isinstance(texts, dict):
            raise SettingError(
                f"bad value of signatures in {place('signatures')}\n  found:    a table\n"
                f"  expected: the signatures of {name}, one text or a list of texts"
            )
        self._check_signatures(texts, "kernel", name, "signatures")
        return own

    def _check_signatures(self, texts: Iterable[str], *keys: str) -> None:
        from cudabuild.types.signature import parse_signatures

        for text in texts:
            try:
                parse_signatures(text)
            except SignatureError as error:
                raise SettingError(f"{self.place(*keys)}: {error}") from None


def load_settings(
    root: str, command_line: Mapping[str, Any] | None = None, places: Mapping[str, str] | None = None
) -> BuildSettings:
    """The settings for building a project.

    Precedence: the command line, config settings (``-C``), environment, ``[tool.cudabuild]``, default.

    Args:
        root: the folder of pyproject.toml.
        command_line: setting name -> what was written as an option of the command.
        places: setting name -> where that was, if not on the command line: options of ``build_cuda`` may stand in
            setup.cfg.

    Raises:
        SettingError: an unknown key or a bad value; says where it stands.
        TargetError: an architecture that there is not; says where it stands.
    """
    pyproject = _Pyproject(root)
    table = pyproject.read()
    given = _read_config_settings()
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    for setting in config.SETTINGS:
        if not setting.key:
            continue
        name = setting.name
        written = (command_line or {}).get(name)
        if written is not None:
            origins[name] = (places or {}).get(name, "the command line")
            values[name] = setting.check(written, f"{setting.key} of {origins[name]}")
        elif name in given:
            values[name], origins[name] = given[name], f"-C cudabuild.{setting.key}"
        elif setting.variable and (config.environment(setting.variable) or "").strip():
            values[name], origins[name] = config.get(name), f"the environment variable {setting.variable}"
        elif name in table:
            values[name], origins[name] = table[name], pyproject.where
        else:
            values[name], origins[name] = setting.default, _DEFAULT
    targets = _find_targets(values, origins, pyproject.where)
    plain = {name: values[name] for name in (*OPTION_SETTINGS, "nvjitlink", "discovery", "dialect", "strict", "jobs")}
    return BuildSettings(
        targets=targets,
        index_widths={"both": (32, 64), "32": (32,), "64": (64,)}[values["index"]],
        packages=tuple(values["packages"]),
        exclude=tuple(values["exclude"]),
        allow_imports=tuple(values["allow_imports"]),
        adopt=tuple(values["adopt"]),
        arch_variables=tuple(values["arch_variables"]),
        signature_files=_find_files(root, values["signatures"], origins["signatures"]),
        executor=values["executor"],
        build_backend=values["build_backend"],
        backend_path=tuple(values["backend_path"]),
        kernels=tuple((name, tuple(own.items())) for name, own in values["kernel"].items()),
        origins=tuple(origins.items()),
        **plain,
    )


def _read_config_settings() -> dict[str, Any]:
    """The settings given by ``-C``, by name."""
    found = {}
    for key, value in (config_settings.get() or {}).items():
        where = f"-C cudabuild.{key}"
        setting = config.find_setting(key, "-C cudabuild.KEY=VALUE", lambda one: bool(one.variable))
        found[setting.name] = setting.check(value, where)
    return found


def _find_files(root: str, files: Iterable[str] | Mapping[str, Any], origin: str) -> tuple[str, ...]:
    paths = tuple(os.path.normpath(os.path.join(root, file)) for file in files)
    for path in paths:
        if not os.path.isfile(path):
            raise SettingError(
                f"bad value of signatures in {origin}\n  found:    {path}, where there is no file\n"
                "  expected: a file that 'cudabuild record' wrote\n"
                f"  do:       cudabuild record --out {path} -- pytest"
            )
    return paths


def _find_targets(values: Mapping[str, Any], origins: dict[str, str], table: str) -> tuple[Target, ...]:
    archs: list[str] = list(values["archs"]) if origins["archs"] != _DEFAULT else list(DEFAULT_ARCHS)
    ptx: str | list[str] = [word.lower() for word in values["ptx"]]
    if origins["archs"] in (_DEFAULT, table):
        foreign = _find_foreign_list(values["arch_variables"])
        if foreign is not None:
            origins["archs"], archs, besides = foreign
            if origins["ptx"] in (_DEFAULT, table):
                origins["ptx"], ptx = origins["archs"], [besides]
    if ptx in (["lowest"], ["newest"], ["none"]):
        ptx = ptx[0]
    try:
        linker = (12, 99) if values["nvjitlink"] == "12" else None  # 'all' leaves out what it cannot make
        return tuple(parse_archs(archs, ptx, linker=linker, native=find_native_ccs))
    except TargetError as error:
        raise TargetError(f"{error}\n  where:    archs from {origins['archs']}, ptx from {origins['ptx']}") from None


def _find_foreign_list(variables: Iterable[str]) -> tuple[str, list[str], str] | None:
    """Where another tool's list stands, its architectures in our words, and the PTX that it asks for besides."""
    for variable in variables:
        text = config.environment(variable) or ""
        if text.strip():
            return f"the environment variable {variable}", *FOREIGN_LISTS[variable](text)
    return None


def describe_settings(settings: BuildSettings) -> list[tuple[str, str, str]]:
    """(key, value, where it comes from) of each setting that somebody set."""
    return [
        (config.get_setting(name).key, _spell_setting(settings, name), origin)
        for name, origin in settings.origins
        if origin != _DEFAULT
    ]


def format_settings(settings: BuildSettings) -> list[str]:
    """A line for each setting that somebody set: its key, its value, and where that comes from."""
    return [f"{key} = {value} from {origin}" for key, value, origin in describe_settings(settings)]


def _spell_setting(settings: BuildSettings, name: str) -> str:
    special: dict[str, Callable[[], Iterable[str]]] = {
        "archs": lambda: [target.name for target in settings.targets if not target.is_ptx],
        "ptx": lambda: [target.name for target in settings.targets if target.is_ptx] or ["none"],
        "index": lambda: map(str, settings.index_widths),
        "signatures": lambda: settings.signature_files,
        "kernel": lambda: [name for name, _ in settings.kernels],
    }
    value = special[name]() if name in special else getattr(settings, name)
    if isinstance(value, bool):
        return str(value).lower()
    return " ".join(value) if isinstance(value, Iterable) and not isinstance(value, str) else str(value)
