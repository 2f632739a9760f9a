# SPDX-License-Identifier: Apache-2.0
"""Which module of numba is which place in this package, as a table."""

from __future__ import annotations

__all__ = ["MODULES", "SAME", "TRANSLATED"]

_CUDA = ("cudabuild.cuda", "cudabuild.cuda.types")
_TYPES = ("cudabuild.cuda.types", "cudabuild.types")
_ERRORS = ("cudabuild.cuda.errors",)

#: numba's module -> where its names are looked for, in order. Names that none of these has are the real numba's, where
#: it is installed and the module is not one of numba-cuda's.
MODULES: dict[str, tuple[str, ...]] = {
    "numba": ("cudabuild.cuda.types", "cudabuild.cuda.errors"),
    "numba.types": _TYPES,
    "numba.errors": _ERRORS,
    "numba.core": (),
    "numba.core.types": _TYPES,
    "numba.core.errors": _ERRORS,
    "numba.core.typing": (),
    "numba.core.typing.typeof": (),
    "numba.experimental": (),
    "numba.np": (),
    "numba.np.numpy_support": (),
    "numba.typed": (),
    "numba.cuda": _CUDA,
    "numba.cuda.api": _CUDA,
    "numba.cuda.args": _CUDA,
    "numba.cuda.compiler": _CUDA,
    "numba.cuda.core": (),
    "numba.cuda.core.errors": _ERRORS,
    "numba.cuda.core.types": _TYPES,
    "numba.cuda.cudadrv": (),
    "numba.cuda.cudadrv.devicearray": _CUDA,
    "numba.cuda.cudadrv.devices": _CUDA,
    "numba.cuda.cudadrv.driver": _CUDA,
    "numba.cuda.cudadrv.error": _ERRORS,
    "numba.cuda.devicearray": _CUDA,
    "numba.cuda.dispatcher": (),
    "numba.cuda.errors": _ERRORS,
    "numba.cuda.extending": (),
    "numba.cuda.kernels": (),
    "numba.cuda.kernels.reduction": _CUDA,
    "numba.cuda.misc": (),
    "numba.cuda.misc.special": _CUDA,
    "numba.cuda.np": (),
    "numba.cuda.np.numpy_support": (),
    "numba.cuda.types": _TYPES,
    "numba.cuda.typing": _CUDA,
    "numba.cuda.typing.typeof": _CUDA,
    "numba.cuda.vector_types": _CUDA,
}

#: numba's module -> the module, or namespace of names, that it simply is.
SAME: dict[str, tuple[str, str]] = {
    "numba.cuda.bf16": ("cudabuild.cuda", "bf16"),
    "numba.cuda.fp16": ("cudabuild.cuda", "fp16"),
    "numba.cuda.libdevice": ("cudabuild.cuda", "libdevice"),
    "numba.cuda.random": ("cudabuild.cuda", "random"),
    "numba.cuda.core.config": ("cudabuild.cuda", "config"),
    "numba.cuda.config": ("cudabuild.cuda", "config"),
}

#: The real numba's classes and functions that take types, by the module that they are asked of: they get numba's types.
#: A module of which only these are ours is there only where numba is.
TRANSLATED: dict[str, tuple[str, ...]] = {
    "numba.core.types": ("DictType", "FunctionType", "List", "ListType", "Optional", "Set"),
    "numba.experimental": ("jitclass",),
    "numba.typed": ("Dict", "List"),
    "numba.types": ("DictType", "FunctionType", "List", "ListType", "Optional", "Set"),
}
