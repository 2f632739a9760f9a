# SPDX-License-Identifier: Apache-2.0
"""Stands where numba would, for the conformance suite only: every name leads to cudabuild's.

A real package on ``PYTHONPATH`` rather than patches in a conftest, because the suite starts child processes that must
see the same world. Modules that numba has and this package has no file for are made by the table in ``_modules.py``.
"""

from __future__ import annotations

import sys
from typing import Any

from numba import _dummies, _modules, _source_hook

__all__ = ["_dummies", "_modules", "_source_hook", "cuda", "guvectorize", "jit", "njit", "vectorize"]

_source_hook.install()
sys.meta_path.insert(0, _modules.Finder())

#: What the suite asks of a numba release: nothing that depends on it is in scope.
__version__ = "0.66.0"
version_info = (0, 66, 0)


class Jitted:
    """What ``numba.jit`` gives: callable on the host, and a device function by its ``py_func``."""

    def __init__(self, py_func: Any) -> None:
        self.py_func = self.__wrapped__ = py_func
        self.__name__ = py_func.__name__
        self.__qualname__ = py_func.__qualname__
        self.__module__ = py_func.__module__
        self.__doc__ = py_func.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.py_func(*args, **kwargs)


def jit(spec: Any = None, **options: Any) -> Any:
    """``numba.jit``, ``numba.njit``: bare, or with a signature and options, none of which matter on the host."""
    return Jitted(spec) if callable(spec) and hasattr(spec, "__code__") else Jitted


njit = jit


def vectorize(spec: Any = None, **options: Any) -> Any:
    """``numba.vectorize``: for the CPU, NumPy's own; for CUDA, the product's."""
    import numpy

    if options.get("target") == "cuda":
        from numba import cuda

        return cuda.vectorize(spec, **options)
    return numpy.vectorize(spec) if callable(spec) else numpy.vectorize


def guvectorize(*spec: Any, **options: Any) -> Any:
    """``numba.guvectorize`` for CUDA."""
    from numba import cuda

    return cuda.guvectorize(*spec, **options)


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # the submodules of this package too: the import statement asks before it looks
        raise AttributeError(name)
    import importlib

    if name in ("core", "cuda", "errors", "extending", "types"):
        return importlib.import_module(f"numba.{name}")
    from numba import _answers

    given = _answers.ANSWERS["numba"]
    return given[name]() if name in given else _modules.find(name, _modules.CUDA, "numba")
