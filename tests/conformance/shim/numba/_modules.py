# SPDX-License-Identifier: Apache-2.0
"""The module tree that the suite imports, as a table: which module of numba is which place in cudabuild.

A name that cudabuild has not fails where it is asked for, with a message that says so: nothing that belongs in the
product is made up here. The exceptions are answers that the product has no reason to give, in ``_answers.py``.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

from numba._dummies import DummyModule, StandIn

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["CUDA", "DUMMIES", "ERRORS", "MODULES", "OUT_OF_SCOPE", "SAME", "TYPES", "Finder", "find"]

#: Where names are looked for, in order.
CUDA = ("cudabuild.cuda", "cudabuild.cuda.types", "cudabuild.types", "cudabuild")
TYPES = ("cudabuild.cuda.types", "cudabuild.types", "cudabuild")
ERRORS = ("cudabuild.cuda.errors", "cudabuild.errors", "cudabuild.cuda")

#: numba's module -> where its names are; one that has answers of its own is asked first (``_answers.py``).
MODULES: dict[str, tuple[str, ...]] = {
    "cuda.core": (),
    "cuda.core._utils": (),
    "cuda.core._utils.cuda_utils": (),
    "numba.types": TYPES,
    "numba.core": (),
    "numba.core.types": TYPES,
    "numba.core.errors": ERRORS,
    "numba.errors": ERRORS,
    "numba.cuda.types": TYPES,
    "numba.cuda.errors": ERRORS,
    "numba.cuda.core": (),
    "numba.cuda.core.errors": ERRORS,
    "numba.cuda.api": CUDA,
    "numba.cuda.args": CUDA,
    "numba.cuda.compiler": CUDA,
    "numba.cuda.cudadrv": (),
    "numba.cuda.cudadrv.devicearray": CUDA,
    "numba.cuda.cudadrv.devices": CUDA,
    "numba.cuda.cudadrv.driver": CUDA,
    "numba.cuda.cudadrv.error": ERRORS,
    "numba.cuda.cudadrv.linkable_code": CUDA,
    "numba.cuda.cudadrv.nvrtc": (),
    "numba.cuda.cudadrv.runtime": (),
    "numba.cuda.devicearray": CUDA,
    "numba.cuda.libdevicefuncs": (),
    "numba.cuda.misc": (),
    "numba.cuda.misc.special": CUDA,
    "numba.cuda.np": (),
    "numba.cuda.np.numpy_support": CUDA,
    "numba.cuda.typing": CUDA,
    "numba.cuda.typing.typeof": CUDA,
    "numba.cuda.utils": (),
    "numba.cuda.vector_types": CUDA,
}

#: numba's module -> the module, or namespace of names, that it simply is.
SAME = {
    "numba.cuda.bf16": "cudabuild.cuda.bf16",
    "numba.cuda.core.config": "numba.cuda.config",
    "numba.cuda.fp16": "cudabuild.cuda.fp16",
    "numba.cuda.libdevice": "cudabuild.cuda.libdevice",
    "numba.cuda.random": "cudabuild.cuda.random",
}

#: Inside numba, with no counterpart: see ``_dummies.py``.
DUMMIES = (
    "numba.core.extending", "numba.core.target_extension", "numba.core.typing", "numba.core.typing.typeof",
    "numba.cuda._compat", "numba.cuda._internal", "numba.cuda._internal.cuda_bf16", "numba.cuda._internal.cuda_fp8",
    "numba.cuda.cgutils", "numba.cuda.cloudpickle", "numba.cuda.codegen", "numba.cuda.core.analysis",
    "numba.cuda.core.annotations", "numba.cuda.core.bytecode", "numba.cuda.core.caching", "numba.cuda.core.callconv",
    "numba.cuda.core.compiler", "numba.cuda.core.compiler_machinery", "numba.cuda.core.controlflow",
    "numba.cuda.core.imputils", "numba.cuda.core.inline_closurecall", "numba.cuda.core.ir",
    "numba.cuda.core.ir_utils", "numba.cuda.core.options", "numba.cuda.core.postproc", "numba.cuda.core.pythonapi",
    "numba.cuda.core.rewrites", "numba.cuda.core.tracing", "numba.cuda.core.typed_passes",
    "numba.cuda.core.untyped_passes", "numba.cuda.cuda_paths", "numba.cuda.cudadecl", "numba.cuda.cudadrv.dummyarray",
    "numba.cuda.cudadrv.nvvm", "numba.cuda.cudaimpl", "numba.cuda.datamodel",
    "numba.cuda.datamodel.models", "numba.cuda.descriptor", "numba.cuda.deviceufunc", "numba.cuda.extending",
    "numba.cuda.flags", "numba.cuda.itanium_mangler", "numba.cuda.kernels", "numba.cuda.kernels.transpose",
    "numba.cuda.launchconfig", "numba.cuda.memory_management", "numba.cuda.memory_management.nrt",
    "numba.cuda.serialize", "numba.cuda.simulator", "numba.cuda.simulator.vector_types", "numba.cuda.typeconv",
    "numba.cuda.typeconv.rules", "numba.cuda.typeconv.typeconv", "numba.cuda.typing.cffi_utils",
    "numba.cuda.typing.templates", "numba.extending",
)  # fmt: skip


#: Product names of tags that are out of scope, which some files import or use at the top beside tests in scope. Where
#: cudabuild has one it is used; otherwise a stand-in lets the file be imported and skips the test that calls it.
OUT_OF_SCOPE = frozenset(
    {
        "Archive", "CUSource", "Cubin", "Fatbin", "LTOIR", "LinkableCode", "Object", "PTXSource", "Reduce",
        "declare_device", "guvectorize", "is_fp8_supported", "reduce", "vectorize",
    }
)  # fmt: skip


def find(name: str, places: Sequence[str], asked_of: str) -> Any:
    """The first of ``places`` that has ``name``.

    Raises:
        AttributeError: none has; the message is what the report of failures shows.
    """
    for place in places:
        try:
            return getattr(importlib.import_module(place), name)
        except ModuleNotFoundError as error:
            if error.name is None or not place.startswith(error.name):
                raise  # the module is there, and something that it imports is not
        except AttributeError:
            continue
    if "cudabuild.types" in places:
        from cudabuild.types import scalar_by_name

        scalar = scalar_by_name(name)  # the short names of signatures: ``f4``, ``boolean``, ``intp``
        if scalar is not None:
            return scalar
    if name in OUT_OF_SCOPE:
        return StandIn(f"{asked_of}.{name}")
    raise AttributeError(f"cudabuild has no {name} (asked of {asked_of})")


class _Mirror(ModuleType):
    """A module whose names are found when they are asked for, and kept."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in MODULES or full in SAME or full in DUMMIES:
            return importlib.import_module(full)
        from numba import _answers

        given = _answers.ANSWERS.get(self.__name__, {})
        value = given[name]() if name in given else find(name, MODULES[self.__name__], self.__name__)
        setattr(self, name, value)
        return value


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes the modules of the two tables."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in MODULES and name not in SAME and name not in DUMMIES:
            return None
        if name.startswith("cuda.") and importlib.machinery.PathFinder.find_spec(name, path) is not None:
            return None  # cuda-core is installed
        spec = importlib.machinery.ModuleSpec(name, self, is_package=True)
        spec.submodule_search_locations = []
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return (DummyModule if spec.name in DUMMIES else _Mirror)(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        if name in SAME:
            parent, _, last = SAME[name].rpartition(".")
            try:
                sys.modules[name] = getattr(importlib.import_module(parent), last)
            except AttributeError:
                try:
                    sys.modules[name] = importlib.import_module(SAME[name])
                except ModuleNotFoundError as error:
                    if error.name != SAME[name]:
                        raise
                    raise ImportError(f"cudabuild has no {last} (asked of {parent})") from None
