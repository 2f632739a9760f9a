# SPDX-License-Identifier: Apache-2.0
"""Modules of numba's own insides, which some files import at the top beside tests that never touch them.

Any attribute is a stand-in: usable while a file is imported (as a decorator, a base class, a constant), and skipping
the test when it is called from one. What a test wants of numba's insides cannot pass by accident.
"""

from __future__ import annotations

import types
import unittest
from typing import Any

__all__ = ["DummyModule", "StandIn", "running"]

#: Set while a test runs, by the pytest plugin.
running = False


class StandIn:
    """An attribute of a dummy module."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, name: str) -> StandIn:
        if name.startswith("__"):
            raise AttributeError(f"{self._name} is a stand-in and has no {name}")
        return StandIn(f"{self._name}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if running:
            raise unittest.SkipTest(f"asks for {self._name}, which is inside numba or out of scope")
        # While a file is imported: a decorator, or what makes one.
        plain = len(args) == 1 and not kwargs and isinstance(args[0], types.FunctionType)
        return args[0] if plain else StandIn(f"{self._name}(…)")

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        return (_Base,)

    def __contains__(self, item: Any) -> bool:
        return False

    def __repr__(self) -> str:
        return f"<stand-in for {self._name}>"


class _Base:
    """The base of classes that were derived from a stand-in."""


class DummyModule(types.ModuleType):
    """A module of stand-ins."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return StandIn(f"{self.__name__}.{name}")
