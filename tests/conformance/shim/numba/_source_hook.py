# SPDX-License-Identifier: Apache-2.0
"""Gives text to functions that have none: those of the suite's ``exec`` calls, and of ``python -c``.

Python keeps no text of either before 3.13, and cudabuild compiles from text. What passes only because of this hook is
counted apart: a user's own ``exec`` gets no such help. Off with ``CONFORMANCE_SOURCE_HOOK=0``.
"""

from __future__ import annotations

import builtins
import linecache
import os
import sys
from typing import Any

__all__ = ["install", "registered"]

#: How many texts were registered in this process.
registered = 0


def install() -> None:
    """Wraps ``exec`` for the suite's modules and registers the text of ``-c``."""
    if os.environ.get("CONFORMANCE_SOURCE_HOOK", "1") == "0":
        return
    arguments = sys.orig_argv
    if "-c" in arguments[1:-1]:
        _register("<string>", arguments[arguments.index("-c", 1) + 1])
    plain = builtins.exec

    def execute(text: Any, namespace: Any = None, *rest: Any, **named: Any) -> None:
        caller = sys._getframe(1)
        ours = str(caller.f_globals.get("__name__", "")).startswith("numba.cuda.tests")
        if isinstance(text, str) and namespace is not None and ours:
            file = f"<text {registered + 1} of {caller.f_code.co_name}>"
            _register(file, text)
            text = compile(text, file, "exec", flags=0, dont_inherit=True)
        if namespace is None:
            namespace, rest = caller.f_globals, (caller.f_locals, *rest)
        plain(text, namespace, *rest, **named)

    builtins.exec = execute


def _register(file: str, text: str) -> None:
    global registered
    registered += 1
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
