# SPDX-License-Identifier: Apache-2.0
"""Every setting, declared once: name, kind, default, documentation, environment variable and TOML key.

The only module that reads ``os.environ``. Nothing is cached: a setting is read when it is asked for, so a test or a
program may change the environment at any time. Also the one door to standard error: :func:`log` and :func:`warn`.
"""

from __future__ import annotations

import os
import sys

from cudabuild.errors import SettingError, nearest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

__all__ = ["SETTINGS", "Setting", "check_table", "environment", "get", "get_setting", "log", "warn"]


class Setting:
    """One setting.

    Attributes:
        name: what ``get`` takes.
        kind: ``choice``, ``text``, ``path``, ``paths``, ``words``, ``flag``, ``count`` or ``size`` (bytes).
        default: the value where nothing is set.
        choices: the legal values of a ``choice``, or the legal words of ``words``; any by default.
        variable: the environment variable, or "" for none.
        key: the key in ``[tool.cudabuild]``, or "" for none.
        doc: one sentence.
    """

    __slots__ = ("choices", "default", "doc", "key", "kind", "name", "variable")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        doc: str,
        *,
        choices: tuple[str, ...] = (),
        variable: str = "",
        key: str = "",
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.choices = choices
        self.variable = variable
        self.key = key
        self.doc = doc

    @property
    def accepts(self) -> str:
        """What the setting accepts, for messages."""
        if self.kind == "choice":
            return " or ".join(map(repr, self.choices))
        if self.kind == "words" and self.choices:
            return f"any of {', '.join(self.choices)}, separated by ';', ',' or spaces"
        return {
            "flag": "true or false",
            "count": "a whole number above 0",
            "size": "a number of bytes, such as 1073741824 or '1GiB'",
            "words": "a list of names, or one text with names separated by ';', ',' or spaces",
            "paths": f"folders separated by {os.pathsep!r}",
            "path": "a folder",
        }.get(self.kind, "a text")

    def check(self, value: Any, where: str) -> Any:
        """``value`` (a text from the environment, or any TOML value) as this setting's type.

        Args:
            value: what was written.
            where: where it stands, for the message.

        Raises:
            SettingError: not a legal value; says where it stands and what it may be.
        """
        converted = _CONVERTERS[self.kind](self, value)
        if converted is None:
            lines = [
                f"bad value of {where}",
                f"  found:    {value!r}",
                f"  expected: {self.accepts}",
            ]
            near = None
            if isinstance(value, str):
                words = [value] if self.kind == "choice" else _split(value)
                near = nearest_name(next((word for word in words if word not in self.choices), ""), self.choices)
            if near:
                lines.append(f"  do:       did you mean {near!r}?")
            raise SettingError("\n".join(lines))
        return converted


def _choice(setting: Setting, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)  # index = 64
    if isinstance(value, str) and value.strip().lower() in setting.choices:
        return value.strip().lower()
    return None


def _text(setting: Setting, value: Any) -> Any:
    return value.strip() if isinstance(value, str) else None


def _paths(setting: Setting, value: Any) -> Any:
    if isinstance(value, str):
        value = value.split(os.pathsep)
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return [part for part in value if part]
    return None


def _words(setting: Setting, value: Any) -> Any:
    parts = [value] if isinstance(value, str | int) else value
    if not isinstance(parts, list) or any(isinstance(part, bool) or not isinstance(part, str | int) for part in parts):
        return None
    # A bare number is an architecture written without quotes: archs = [80, 90].
    words = [word for part in parts for word in _split(str(part))]
    if setting.choices:
        words = [word.lower() for word in words]
    return words if not setting.choices or set(words) <= set(setting.choices) else None


def _split(text: str) -> list[str]:
    return text.replace(";", " ").replace(",", " ").split()


_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _flag(setting: Setting, value: Any) -> Any:
    return value if isinstance(value, bool) else _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None


def _count(setting: Setting, value: Any) -> Any:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "kb": 10**3, "mb": 10**6, "gb": 10**9}


def _size(setting: Setting, value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value if value >= 0 else None
    if not isinstance(value, str):
        return None
    text = value.strip().lower()
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = _UNITS.get(text[len(digits) :].strip())
    return int(digits) * unit if digits.isascii() and digits.isdigit() and unit else None


_CONVERTERS = {
    "choice": _choice,
    "text": _text,
    "path": _text,
    "paths": _paths,
    "words": _words,
    "flag": _flag,
    "count": _count,
    "size": _size,
}

SETTINGS: tuple[Setting, ...] = (
    Setting(
        "jit",
        "choice",
        "auto",
        "Whether a kernel without a usable image may be compiled at run time; with 'never' that is an error.",
        choices=("auto", "never"),
        variable="CUDABUILD_JIT",
    ),
    Setting(
        "images",
        "choice",
        "all",
        "Which images may be used: all; only those shipped in packages; only shipped PTX; or none (always compile).",
        choices=("all", "shipped", "ptx", "none"),
        variable="CUDABUILD_IMAGES",
    ),
    Setting(
        "device",
        "choice",
        "auto",
        "Where kernels run: 'auto' takes the GPU if there is one and the CPU device otherwise; 'python' runs their own "
        "bytecode, for debugging.",
        choices=("auto", "cpu", "gpu", "python"),
        variable="CUDABUILD_DEVICE",
    ),
    Setting(
        "check",
        "words",
        ("bounds",),
        "What the CPU device checks in kernels: bounds of indices; races; barriers that some threads of a block miss; "
        "uninit, reads of unwritten shared and local memory. The last three make kernels many times slower.",
        choices=("bounds", "races", "barriers", "uninit", "none"),
        variable="CUDABUILD_CHECK",
    ),
    Setting(
        "cpu_order",
        "count",
        None,
        "A seed that shuffles the order in which the CPU device begins blocks, to find kernels that count on one.",
        variable="CUDABUILD_CPU_ORDER",
    ),
    Setting(
        "early_errors",
        "flag",
        True,
        "Whether a cuda.jit function with signatures is typed when it is decorated, to tell its mistakes there.",
        variable="CUDABUILD_EARLY_ERRORS",
    ),
    Setting(
        "low_occupancy_warnings",
        "flag",
        True,
        "Whether a launch of a cuda.jit kernel with fewer than 128 blocks is warned of, as numba-cuda does.",
        variable="CUDABUILD_LOW_OCCUPANCY_WARNINGS",
    ),
    Setting(
        "implicit_copy_warnings",
        "flag",
        True,
        "Whether a NumPy array given to a cuda.jit kernel, copied there and back, is warned of, as in numba-cuda.",
        variable="CUDABUILD_IMPLICIT_COPY_WARNINGS",
    ),
    Setting(
        "log",
        "choice",
        "off",
        "What is told on standard error: 'info' says once per kernel where its image came from and how long it took.",
        choices=("off", "info", "debug"),
        variable="CUDABUILD_LOG",
    ),
    Setting(
        "cache_dir",
        "path",
        "",
        "The folder of the user cache; empty: the platform's cache folder.",
        variable="CUDABUILD_CACHE_DIR",
    ),
    Setting(
        "cache_size",
        "size",
        1 << 30,
        "The most bytes that the user cache keeps; the least recently used entries go first.",
        variable="CUDABUILD_CACHE_SIZE",
    ),
    Setting(
        "cache_salt",
        "text",
        "",
        "A text that is part of every image key: another salt never meets the entries of this one.",
        variable="CUDABUILD_CACHE_SALT",
    ),
    Setting(
        "site_cache",
        "paths",
        (),
        "Read-only caches that are looked into after the user's own.",
        variable="CUDABUILD_SITE_CACHE",
    ),
    Setting(
        "archs",
        "words",
        (),
        "The targets to build for, such as '80 90a 120+PTX', 'native', 'all' or 'all-major'.",
        variable="CUDABUILD_ARCHS",
        key="archs",
    ),
    Setting(
        "ptx",
        "words",
        ("lowest",),
        "PTX to build besides: 'lowest' or 'newest' of the targets, 'none', or a list of architectures.",
        key="ptx",
    ),
    Setting(
        "index",
        "choice",
        "both",
        "The index widths to build: a 32-bit image serves launches whose sizes all stay below 2^31, a 64-bit one any.",
        choices=("both", "32", "64"),
        key="index",
    ),
    Setting(
        "packages",
        "words",
        (),
        "The packages and modules to look for kernels in, sub-packages included; all of the distribution by default.",
        key="packages",
    ),
    Setting("exclude", "words", (), "Modules to leave out, such as 'mypkg.tests' or 'mypkg.*.bench'.", key="exclude"),
    Setting(
        "allow_imports",
        "words",
        (),
        "Packages that a kernel's constants may come from, besides this project, NumPy and the standard library; "
        "they must be in [build-system] requires too.",
        key="allow-imports",
    ),
    Setting(
        "strict",
        "flag",
        False,
        "Whether a kernel that cannot be built ahead of time, for want of a signature or otherwise, is an error.",
        key="strict",
    ),
    Setting(
        "jobs", "count", None, "How many processes compile; as many as there are processors by default.", key="jobs"
    ),
    Setting("fastmath", "flag", False, "fastmath for every kernel that does not say otherwise.", key="fastmath"),
    Setting("lineinfo", "flag", False, "lineinfo for every kernel that does not say otherwise.", key="lineinfo"),
)

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def get_setting(name: str) -> Setting:
    """The declaration of the setting called ``name``."""
    return _BY_NAME[name]


def get(name: str) -> Any:
    """The value of a setting: from its environment variable if that is set and not empty, else its default.

    Raises:
        SettingError: the environment variable holds an illegal value.
    """
    setting = _BY_NAME[name]
    text = os.environ.get(setting.variable, "") if setting.variable else ""
    if not text.strip():
        return setting.default
    return setting.check(text, f"the environment variable {setting.variable}")


def environment(variable: str) -> str | None:
    """A variable of the environment that is not ours (``SOURCE_DATE_EPOCH`` …), or None."""
    return os.environ.get(variable)


def check_table(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings written in a TOML table, by name.

    Args:
        table: the table, such as ``[tool.cudabuild]``.
        where: the file and the table, for messages.

    Raises:
        SettingError: an unknown key, with the nearest right one, or a bad value.
    """
    by_key = {setting.key: setting for setting in SETTINGS if setting.key}
    values = {}
    for key, value in table.items():
        setting = by_key.get(key)
        if setting is None:
            near = nearest_name(key, by_key)
            lines = [
                f"unknown setting in {where}",
                f"  found:    {key}",
                f"  expected: {', '.join(sorted(by_key))}",
            ]
            raise SettingError("\n".join(lines + ([f"  do:       did you mean {near!r}?"] if near else [])))
        values[setting.name] = setting.check(value, f"{key} in {where}")
    return values


def log(level: str, message: str) -> None:
    """Writes one line to standard error if ``CUDABUILD_LOG`` asks for ``level`` (``info`` or ``debug``)."""
    wanted = os.environ.get("CUDABUILD_LOG")
    if not wanted:  # the launch path passes here: one dictionary look-up
        return
    wanted = get("log")
    if wanted == "debug" or wanted == level:
        _write(message)


_warned: set[str] = set()


def warn(message: str, key: str | None = None) -> None:
    """Writes one line to standard error, whatever ``CUDABUILD_LOG`` says; once per process for each ``key``.

    Not ``warnings.warn``: under ``-W error`` a damaged cache would then end the program that it must never disturb.

    Args:
        message: one line.
        key: what makes two warnings the same; the message itself by default.
    """
    key = message if key is None else key
    if key not in _warned:
        _warned.add(key)
        _write(message)


def _write(message: str) -> None:
    stream = sys.stderr
    if stream is None:  # a windowed process has none
        return
    try:
        stream.write(f"cudabuild: {message}\n")
    except (OSError, ValueError):  # closed, or a full pipe: telling is never worth failing
        return
