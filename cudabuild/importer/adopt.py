# SPDX-License-Identifier: Apache-2.0
"""Adopted packages: numba packages whose ``numba.cuda`` is :mod:`cudabuild.cuda`, without a changed line.

A module's import statements call the ``__import__`` of the builtins that its globals name. An adopted module is given
builtins of its own before its first statement runs; all else (its code, its bytecode file, its loader, ``sys.modules``)
stays as it is. So one process holds both: the real numba for everybody else, this package's names for the adopted.
"""

from __future__ import annotations

import builtins
import sys
from types import ModuleType

from cudabuild import config
from cudabuild.errors import CudabuildError
from cudabuild.importer.finder import ADOPTED, is_adopted
from cudabuild.numba.tree import NumbaTree, is_numba

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from importlib.machinery import ModuleSpec
    from typing import Any

__all__ = ["TREE", "adopt", "adopt_configured", "prepare_spec"]

#: The modules that the adopted see.
TREE = NumbaTree()

#: Never adopted: numba itself, and what both stand on.
_REFUSED = frozenset({"builtins", "cudabuild", "importlib", "llvmlite", "numba", "numpy", "sys"})

#: The builtins of all adopted modules; the dictionary must be a plain one, or every look-up of a global gets slower.
_own_builtins: dict[str, Any] = {}


def adopt(*names: str) -> None:
    """Makes ``numba`` mean this package's names in modules that are imported from now on.

    Args:
        names: packages, sub-packages or modules, by their dotted names: ``adopt("stumpy")``. All modules below are
            adopted with them.

    Raises:
        CudabuildError: a name that cannot be adopted, or of a module that has been imported already.
    """
    for name in names:
        _check(name)
    new = [name for name in names if not is_adopted(name)]
    ADOPTED.update(new)
    for name, module in list(sys.modules.items()):
        if new and is_adopted(name) and isinstance(module, ModuleType):  # a package that adopts itself, in __init__
            _prepare(module)


def _check(name: str) -> None:
    parts = name.split(".") if isinstance(name, str) else [""]
    if not all(part.isidentifier() for part in parts) or parts[0] in _REFUSED:
        raise CudabuildError(
            f"this cannot be adopted\n  found:    {name!r}\n"
            "  expected: the dotted name of a package or module that imports numba, such as 'stumpy'"
        )
    if is_adopted(name):
        return
    for loaded, module in list(sys.modules.items()):
        if _is_below(loaded, name) and not getattr(getattr(module, "__spec__", None), "_initializing", False):
            raise CudabuildError(
                f"{name} cannot be adopted any more\n  found:    {loaded} has been imported, with the real numba\n"
                f"  do:       call cudabuild.adopt({name!r}) before the first import of {name}, or set "
                f"CUDABUILD_ADOPT={name} and import cudabuild first"
            )


def _is_below(module: str, name: str) -> bool:
    return module == name or module.startswith(f"{name}.")


def adopt_configured() -> None:
    """Adopts what ``CUDABUILD_ADOPT`` names; called when this package is imported."""
    adopt(*config.get("adopt"))


# The hook


def prepare_spec(spec: ModuleSpec) -> None:
    """Has the spec's loader prepare the module before it executes it.

    The loader's own method is wrapped, on the instance: the loader keeps its class and its other methods, which
    ``inspect``, ``pkgutil`` and ``importlib.resources`` ask. One that serves many modules (a zip file's) is wrapped
    once, and prepares those that are adopted.
    """
    loader: Any = spec.loader
    execute = getattr(loader, "exec_module", None)
    if execute is None or isinstance(loader, type) or getattr(execute, "prepares_adopted", False):
        return

    def exec_module(module: ModuleType) -> None:
        if is_adopted(module.__name__):
            _prepare(module)
        execute(module)

    exec_module.prepares_adopted = True  # type: ignore[attr-defined]
    try:
        loader.exec_module = exec_module
    except AttributeError:
        config.warn(
            f"{spec.name} is not adopted: its loader, a {type(loader).__module__}.{type(loader).__name__}, "
            "takes no hook; it keeps numba"
        )


def _prepare(module: ModuleType) -> None:
    """Gives a module the builtins of adopted ones, with whatever was added to Python's meanwhile."""
    _own_builtins.update(vars(builtins))
    _own_builtins["__import__"] = _import
    module.__dict__["__builtins__"] = _own_builtins


def _import(
    name: str,
    globals: dict[str, Any] | None = None,
    locals: dict[str, Any] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """``__import__`` in adopted modules."""
    if level == 0:
        if is_numba(name):
            return TREE.import_name(name, fromlist)
        if name == "importlib" or name.startswith("importlib."):
            found = builtins.__import__(name, globals, locals, fromlist or (), 0)
            return _views.get(found.__name__, found)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


class _View(ModuleType):
    """A module with some names of our own in it."""

    def __init__(self, name: str, names: dict[str, Any]) -> None:
        super().__init__(name)
        self.__dict__.update(names)

    def __getattr__(self, name: str) -> Any:
        if self.__name__ == "importlib" and name == "util":
            builtins.__import__("importlib.util")
            return _views["importlib.util"]
        return getattr(sys.modules[self.__name__], name)

    def __dir__(self) -> list[str]:
        return sorted({*self.__dict__, *dir(sys.modules[self.__name__])})


def _absolute(name: str, package: str | None) -> str:
    if not name.startswith("."):
        return name
    import importlib.util

    return importlib.util.resolve_name(name, package)


def _import_module(name: str, package: str | None = None) -> Any:
    """``importlib.import_module`` in adopted modules."""
    import importlib

    absolute = _absolute(name, package)
    return TREE.find_module(absolute) if is_numba(absolute) else importlib.import_module(name, package)


def _find_spec(name: str, package: str | None = None) -> Any:
    """``importlib.util.find_spec`` in adopted modules."""
    import importlib.util

    absolute = _absolute(name, package)
    if not is_numba(absolute):
        return importlib.util.find_spec(name, package)
    try:
        TREE.find_module(absolute)
    except ModuleNotFoundError:
        return None
    return importlib.util.spec_from_loader(absolute, None, is_package=True)


_views = {
    "importlib": _View("importlib", {"import_module": _import_module}),
    "importlib.util": _View("importlib.util", {"find_spec": _find_spec}),
}
