# SPDX-License-Identifier: Apache-2.0
"""Gives text to functions that have none: those of the suite's ``exec`` calls, and of ``python -c``.

Python keeps no text of either before 3.13, and cudabuild compiles from text. What passes only because of this hook is
counted apart: a user's own ``exec`` gets no such help. Off with ``CONFORMANCE_SOURCE_HOOK=0``.
"""

from __future__ import annotations

import linecache
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["attach", "install", "registered"]

#: How many texts were registered in this process.
registered = 0


def install() -> None:
    """Registers the text of ``python -c``."""
    text = _command_text(sys.orig_argv[1:])
    if _is_on() and text is not None:
        _register("<string>", text)


def _command_text(arguments: list[str]) -> str | None:
    """What follows ``-c``, which is one of Python's own options only before a script's or module's name."""
    left = iter(arguments)
    for argument in left:
        if argument == "-c":
            return next(left, None)
        if argument in ("-X", "-W"):
            next(left, None)
        elif not argument.startswith("-") or argument in ("-", "-m"):
            return None
    return None


def attach(module: ModuleType) -> None:
    """Gives a file of the suite, before it runs, an ``exec`` of its own, which keeps the text.

    All calls in the suite name their globals.
    """
    if _is_on():
        module.exec = _execute  # type: ignore[attr-defined]


def _is_on() -> bool:
    return os.environ.get("CONFORMANCE_SOURCE_HOOK", "1") != "0"


def _execute(text: Any, namespace: dict[str, Any], *rest: Any) -> None:
    if isinstance(text, str):
        file = f"<text {registered + 1} of {sys._getframe(1).f_code.co_name}>"
        _register(file, text)
        text = compile(text, file, "exec", dont_inherit=True)
    exec(text, namespace, *rest)


def _register(file: str, text: str) -> None:
    global registered
    registered += 1
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
