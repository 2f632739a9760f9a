# SPDX-License-Identifier: Apache-2.0
"""What is known of names outside of a project: which calls change nothing they receive, which give a number."""

from __future__ import annotations

__all__ = ["PURE_BUILTINS", "SCALAR_BUILTINS", "changes_nothing", "is_pure", "makes_scalar"]

#: Built-in functions that change none of their arguments.
PURE_BUILTINS = frozenset(
    {
        "abs", "all", "any", "ascii", "bin", "bool", "bytes", "callable", "chr", "complex", "dict", "divmod",
        "enumerate", "float", "format", "frozenset", "getattr", "hasattr", "hash", "hex", "id", "int",
        "isinstance", "issubclass", "len", "list", "max", "min", "oct", "ord", "pow", "print", "range",
        "repr", "reversed", "round", "set", "slice", "sorted", "str", "sum", "tuple", "type", "zip",
    }
)  # fmt: skip

#: Built-in functions that give a number, a text or a tuple of these whatever they are given.
SCALAR_BUILTINS = frozenset(
    {
        "abs", "bin", "bool", "bytes", "chr", "complex", "divmod", "float", "format", "hash", "hex", "int", "len",
        "oct", "ord", "pow", "range", "repr", "round", "str",
    }
)  # fmt: skip

#: Modules whose functions change none of their arguments and keep no state …
_PURE_MODULES = frozenset({"__future__", "cmath", "cudabuild", "math", "numba", "numpy", "os.path", "typing"})
_PURE_FUNCTIONS = frozenset({"collections.namedtuple", "dataclasses.dataclass", "functools.partial", "os.getenv"})
#: … except these of NumPy, by the last part of their name, and all of numpy.random.
_NUMPY_MUTATORS = frozenset(
    {"at", "copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask", "resize", "shuffle"}
)
#: NumPy functions that write into none of their arguments; of the others, a later argument may be ``out``.
_NUMPY_MAKERS = frozenset(
    {
        "arange", "array", "asarray", "ascontiguousarray", "broadcast_to", "concatenate", "diag", "dtype", "empty",
        "empty_like", "eye", "finfo", "full", "full_like", "geomspace", "hstack", "identity", "iinfo", "interp",
        "linspace", "logspace", "meshgrid", "ones", "ones_like", "repeat", "reshape", "roll", "stack", "tile",
        "transpose", "vstack", "where", "zeros", "zeros_like",
    }
)  # fmt: skip
_NUMPY_SCALARS = ("bool", "int", "uint", "float", "complex", "dtype")


def is_pure(dotted: str) -> bool:
    """True for a name outside of the project whose call changes none of its arguments and no state."""
    if dotted in _PURE_FUNCTIONS or dotted in _PURE_MODULES:
        return True
    parts = dotted.split(".")
    if not any(".".join(parts[:end]) in _PURE_MODULES for end in range(1, len(parts))):
        return False
    return parts[0] != "numpy" or (parts[1] != "random" and parts[-1] not in _NUMPY_MUTATORS)


def changes_nothing(dotted: str, positions: int, keywords: frozenset[str]) -> bool:
    """True if a call of this name, so many positional arguments and these keywords, changes nothing it gets."""
    if not is_pure(dotted) or keywords & {"out", "**"}:
        return False
    return not dotted.startswith("numpy.") or positions < 2 or dotted.rpartition(".")[2] in _NUMPY_MAKERS


def makes_scalar(dotted: str) -> bool:
    """True for a name outside of the project whose call gives an immutable value: ``math.sqrt``, ``numpy.float32``."""
    if dotted.startswith(("math.", "cmath.", "cudabuild.")):
        return True
    package, _, name = dotted.rpartition(".")
    return package == "numpy" and name.rstrip("0123456789_") in _NUMPY_SCALARS
