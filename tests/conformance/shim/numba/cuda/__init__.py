# SPDX-License-Identifier: Apache-2.0
"""``numba.cuda``: cudabuild's ``cuda`` namespace under numba's name, with the submodules that numba has."""

from __future__ import annotations

import importlib
from typing import Any

from numba import _answers, _modules

__all__ = ["HAS_NUMBA"]

#: Says that ``numba.jit`` exists: without it the suite leaves out the tests that call such functions from kernels.
HAS_NUMBA = True

_SUBMODULES = {
    name.removeprefix("numba.cuda.")
    for name in (*_modules.MODULES, *_modules.DUMMIES, *(f"numba.cuda.{own}" for own in ("config", "testing", "tests")))
    if name.startswith("numba.cuda.") and name.count(".") == 2
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _SUBMODULES:
        return importlib.import_module(f"numba.cuda.{name}")
    given = _answers.ANSWERS["numba.cuda"]
    value = given[name]() if name in given else _modules.find(name, _modules.CUDA, "numba.cuda")
    globals()[name] = value
    return value
