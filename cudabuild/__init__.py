# SPDX-License-Identifier: Apache-2.0
"""CUDA kernels in Python as a normal build artefact.

Importing this package puts one finder into ``sys.meta_path`` and does nothing else: every public name is imported when
it is first used.
"""

from __future__ import annotations

from cudabuild.importer.finder import install as _install

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from cudabuild import cuda as cuda
    from cudabuild.decorators import current_device as current_device
    from cudabuild.decorators import device_function as device_function
    from cudabuild.decorators import kernel as kernel
    from cudabuild.errors import CompilationError as CompilationError
    from cudabuild.errors import CudabuildError as CudabuildError
    from cudabuild.errors import DriverError as DriverError
    from cudabuild.errors import LaunchError as LaunchError
    from cudabuild.errors import NoImageError as NoImageError
    from cudabuild.importer.adopt import adopt as adopt
    from cudabuild.preflight import coverage as coverage
    from cudabuild.types import Array as Array
    from cudabuild.types import Tuple as Tuple
    from cudabuild.types import bfloat16 as bfloat16
    from cudabuild.types import bool_ as bool_
    from cudabuild.types import complex64 as complex64
    from cudabuild.types import complex128 as complex128
    from cudabuild.types import float16 as float16
    from cudabuild.types import float32 as float32
    from cudabuild.types import float64 as float64
    from cudabuild.types import int8 as int8
    from cudabuild.types import int16 as int16
    from cudabuild.types import int32 as int32
    from cudabuild.types import int64 as int64
    from cudabuild.types import none as void
    from cudabuild.types import uint8 as uint8
    from cudabuild.types import uint16 as uint16
    from cudabuild.types import uint32 as uint32
    from cudabuild.types import uint64 as uint64

    __version__: str

__all__ = [
    "Array",
    "CompilationError",
    "CudabuildError",
    "DriverError",
    "LaunchError",
    "NoImageError",
    "Tuple",
    "adopt",
    "bfloat16",
    "bool_",
    "complex64",
    "complex128",
    "coverage",
    "cuda",
    "current_device",
    "device_function",
    "float16",
    "float32",
    "float64",
    "int8",
    "int16",
    "int32",
    "int64",
    "kernel",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "void",
]

_HOMES = {
    "cudabuild.decorators": ("current_device", "device_function", "kernel"),
    "cudabuild.importer.adopt": ("adopt",),
    "cudabuild.preflight": ("coverage",),
    "cudabuild.errors": ("CompilationError", "CudabuildError", "DriverError", "LaunchError", "NoImageError"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "cuda":
        return _import("cudabuild.cuda")
    if name == "__version__":
        from importlib.metadata import version

        value: Any = version("cudabuild")
    elif name in __all__:
        home = _import(_HOME_OF.get(name, "cudabuild.types"))
        value = getattr(home, "none" if name == "void" else name)
    else:
        raise AttributeError(f"module 'cudabuild' has no attribute {name!r}")
    globals()[name] = value
    return value


def _import(name: str) -> Any:
    return __import__(name, fromlist=("",))  # importlib itself would cost more than the module


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_install()
