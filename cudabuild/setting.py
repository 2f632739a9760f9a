# SPDX-License-Identifier: Apache-2.0
"""One setting as it is declared, and the kinds of values that settings have. The settings themselves: ``config.py``."""

from __future__ import annotations

import os

from cudabuild.errors import SettingError, nearest_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Setting"]


class Setting:
    """One setting.

    Attributes:
        name: what ``get`` takes.
        kind: ``choice``, ``text``, ``path``, ``paths``, ``words``, ``flag``, ``count``, ``size`` (bytes),
            ``signatures`` (files, or kernel -> signatures) or ``kernels`` (kernel -> its own settings).
        default: the value where nothing is set.
        choices: the legal values of a ``choice``, or the legal words of ``words``; any by default.
        limits: the least and the greatest ``count``.
        variable: the environment variable, or "" for none.
        key: the key in ``[tool.cudabuild]``, or "" for none.
        per_kernel: it may also stand in the table of one kernel.
        doc: one sentence.
    """

    __slots__ = ("choices", "default", "doc", "key", "kind", "limits", "name", "per_kernel", "variable")

    def __init__(
        self,
        name: str,
        kind: str,
        default: Any,
        doc: str,
        *,
        choices: tuple[str, ...] = (),
        limits: tuple[int, int | None] = (1, None),
        variable: str = "",
        key: str = "",
        per_kernel: bool = False,
    ) -> None:
        self.name = name
        self.kind = kind
        self.default = default
        self.choices = choices
        self.limits = limits
        self.variable = variable
        self.key = key
        self.per_kernel = per_kernel
        self.doc = doc

    @property
    def accepts(self) -> str:
        """What the setting accepts, for messages."""
        if self.kind == "choice":
            return " or ".join(map(repr, self.choices))
        if self.kind == "words" and self.choices:
            return f"any of {', '.join(self.choices)}, separated by ';', ',' or spaces"
        if self.kind == "count":
            low, high = self.limits
            return f"a whole number above {low - 1}" if high is None else f"a whole number from {low} to {high}"
        return {
            "flag": "true or false",
            "size": "a number of bytes, such as 1073741824 or '1GiB'",
            "words": "a list of names, or one text with names separated by ';', ',' or spaces",
            "paths": f"folders separated by {os.pathsep!r}",
            "path": "a path",
            "signatures": "a file, a list of files, or a table 'module:kernel' = signatures",
            "kernels": 'tables of the form [tool.cudabuild.kernel."module:kernel"]',
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
    spellings = {choice.lower(): choice for choice in setting.choices}
    words = [spellings.get(word.lower(), word) for word in words]
    return words if not setting.choices or set(words) <= set(setting.choices) else None


def _split(text: str) -> list[str]:
    return text.replace(";", " ").replace(",", " ").split()


_FLAGS = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}


def _flag(setting: Setting, value: Any) -> Any:
    return value if isinstance(value, bool) else _FLAGS.get(value.strip().lower()) if isinstance(value, str) else None


def _count(setting: Setting, value: Any) -> Any:
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    low, high = setting.limits
    return value if low <= value and (high is None or value <= high) else None


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


def _signatures(setting: Setting, value: Any) -> Any:
    """A list of files, or a table kernel -> list of signatures."""
    if isinstance(value, dict):
        texts = {name: [text] if isinstance(text, str) else text for name, text in value.items()}
        return texts if all(_is_kernel_name(name) and _is_texts(text) for name, text in texts.items()) else None
    files = [value] if isinstance(value, str) else value
    return files if _is_texts(files) else None


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(text, str) and text.strip() for text in value)


def _is_kernel_name(name: str) -> bool:
    module, colon, kernel = name.partition(":")
    return bool(module and colon and kernel)


def _kernels(setting: Setting, value: Any) -> Any:
    """Only the form; what stands in each table is checked by whoever can say where it stands."""
    if isinstance(value, dict) and all(isinstance(table, dict) and _is_kernel_name(n) for n, table in value.items()):
        return value
    return None


_CONVERTERS = {
    "choice": _choice,
    "text": _text,
    "path": _text,
    "paths": _paths,
    "words": _words,
    "flag": _flag,
    "count": _count,
    "size": _size,
    "signatures": _signatures,
    "kernels": _kernels,
}
