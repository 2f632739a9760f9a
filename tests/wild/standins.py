# SPDX-License-Identifier: Apache-2.0
"""Lets single files of a project be imported: its packages are empty, and what it depends on is not there.

A package's ``__init__`` is not run, for it would import the whole project. A module that is missing here is a stand-in
whose names are stand-ins too: enough to import a file, useless in a kernel.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
import types
from abc import ABCMeta
from types import ModuleType
from typing import TYPE_CHECKING, Any
from unittest.mock import MagicMock

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

__all__ = ["mount"]

#: Stand-ins also where they are installed: the same world on every machine.
_ABSENT = frozenset({
    "cucim", "cudf", "cupy", "cupyx", "dask", "datashader", "devito", "distributed", "matplotlib", "mpi4py", "pandas",
    "psutil", "pynvml", "scipy", "sklearn", "sympy", "torch", "tqdm", "xarray", "zarr",
})  # fmt: skip

#: What numba looks for and does without: it would take a stand-in for the real one.
_MAY_MISS = frozenset({"IPython", "cffi", "coverage", "gdb", "graphviz", "jinja2", "ml_dtypes", "pygments", "yaml"})


class _Any:
    """What is made of a stand-in's classes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return MagicMock()


class _Anything(ABCMeta):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return MagicMock(name=name)


def _is_class(name: str) -> bool:
    return name[:1].isupper() or name == "ndarray"


class StandInModule(ModuleType):
    """A module that has every name: classes where the name begins like one, objects that take anything otherwise."""

    __version__ = "99"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = _Anything(name, (_Any,), {}) if _is_class(name) else MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Package(ModuleType):
    """A package of the project without its ``__init__``: submodules are imported, other names are stand-ins."""

    __version__ = "0"  # some files ask for it

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        try:
            return importlib.import_module(f"{self.__name__}.{name}")
        except ModuleNotFoundError as error:
            if error.name != f"{self.__name__}.{name}":
                raise
            return StandInModule.__getattr__(self, name)  # type: ignore[arg-type]


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the project's files, and stand-ins for what nobody else finds."""

    def __init__(self, root: Path, replace: Mapping[str, Mapping[str, Any]]) -> None:
        self.root = root
        self.replace = replace
        self.own = {path.stem if path.suffix == ".py" else path.name for path in root.iterdir()}
        self._asking = False

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        parts = name.split(".")
        if name in self.replace:
            return self._made(name)
        if parts[0] in self.own and parts[0] not in ("numba", "numpy"):
            place = self.root.joinpath(*parts)
            file = place.with_suffix(".py")
            if file.is_file():
                return importlib.util.spec_from_file_location(name, file)
            return self._made(name, str(place)) if place.is_dir() else None
        if parts[0] in _ABSENT or isinstance(sys.modules.get(parts[0]), StandInModule):
            return self._made(name)
        if self._asking or len(parts) > 1 or name.startswith("_") or name in sys.stdlib_module_names | _MAY_MISS:
            return None
        return None if self._is_found(name) else self._made(name)

    def _is_found(self, name: str) -> bool:
        self._asking = True
        try:
            return importlib.util.find_spec(name) is not None
        finally:
            self._asking = False

    def _made(self, name: str, place: str | None = None) -> importlib.machinery.ModuleSpec:
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = [place] if place else []
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        own = spec.name.split(".")[0] in self.own and spec.name not in self.replace
        return (Package if own else StandInModule)(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        for name, value in self.replace.get(module.__name__, {}).items():
            setattr(module, name, value)


class LastFinder(Finder):
    """Stand-ins for modules of numba's CPU side, where nobody else has them."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        return self._made(name) if name.startswith("numba.") and not name.startswith("numba.cuda") else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return StandInModule(spec.name)


def mount(root: Path, replace: Mapping[str, Mapping[str, str]]) -> None:
    """Makes the project's files importable in this process.

    Args:
        root: the folder that its packages are in.
        replace: module -> name in it -> an expression for what stands there instead; ``cuda`` and ``numba`` are known.
    """
    import numba
    import numpy
    from numba import cuda

    numba.prange = range  # what CPU code beside the kernels is written with
    known = {"cuda": cuda, "numba": numba, "numpy": numpy, "types": types}
    values = {m: {name: eval(text, dict(known)) for name, text in names.items()} for m, names in replace.items()}
    sys.meta_path.insert(0, Finder(root, values))
    sys.meta_path.append(LastFinder(root, {}))
    if hasattr(numba, "_source_hook"):  # ours stands for numba: names of its CPU side are stand-ins
        own_getattr = numba.__getattr__

        def get(name: str) -> Any:
            try:
                return own_getattr(name)
            except AttributeError:
                if name.startswith("__"):
                    raise
                return MagicMock(name=f"numba.{name}")

        def guvectorize(*spec: Any, **options: Any) -> Any:
            if options.get("target") == "cuda":
                return cuda.guvectorize(*spec, **options)
            return lambda function: function

        numba.__getattr__ = get
        numba.guvectorize = guvectorize
        kinds = importlib.import_module("numba.types")
        kinds.unicode_type = kinds.DictType = kinds.ListType = MagicMock()
