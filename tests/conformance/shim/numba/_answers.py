# SPDX-License-Identifier: Apache-2.0
"""Names that the suite asks of numba's insides and that cudabuild has another way to say.

Each is answered from what cudabuild does itself: the type of a value is the type that its launch would give it.
"""

from __future__ import annotations

import importlib
import sys
from collections import namedtuple
from typing import TYPE_CHECKING, Any

from numba import _modules
from numba._dummies import StandIn

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["ANSWERS"]


def _product(name: str) -> Any:
    """The product's own ``name``, or None."""
    try:
        return _modules.find(name, _modules.CUDA, "numba")
    except AttributeError:
        return None


def typeof(value: Any, purpose: Any = None) -> Any:
    """The type of a value: as a kernel's argument."""
    own = _product("typeof")
    if own is not None:
        return own(value)
    arguments = importlib.import_module("cudabuild.runtime.arguments")
    return arguments.read_argument(value).type


def from_dtype(dtype: Any) -> Any:
    """The type of an array's elements, by NumPy's dtype."""
    import numpy

    own = _product("from_dtype")
    return own(numpy.dtype(dtype)) if own is not None else typeof(numpy.zeros(1, dtype)).dtype


def as_dtype(type_: Any) -> Any:
    """NumPy's dtype of a scalar type."""
    import numpy

    own = _product("as_dtype")
    return own(type_) if own is not None else numpy.dtype(type_.name)


def signature(return_type: Any, *arguments: Any) -> Any:
    """``signature(int32, float32)`` is ``int32(float32)``."""
    return return_type(*arguments)


def wrap_arg(value: Any, default: Any = None) -> Any:
    """An argument with a hint of which way it is copied; ``default`` where it has none."""
    from numba import cuda

    hinted = isinstance(value, (cuda.In, cuda.Out, cuda.InOut))
    return value if hinted else (default or cuda.InOut)(value)


def _numpy_version() -> tuple[int, ...]:
    import numpy

    return tuple(map(int, numpy.__version__.split(".")[:2]))


def _toolkit_version() -> tuple[int, int]:
    """That of the linker in use: the suite expects some failures of 12.x linkers, which real numba-cuda would show."""
    from cuda.bindings import nvjitlink

    major, minor = nvjitlink.version()
    return int(major), int(minor)


def _integers(prefix: str) -> frozenset[Any]:
    names = [f"{prefix}{bits}" for bits in (8, 16, 32, 64)]
    return frozenset(_modules.find(name, _modules.TYPES, "numba.types") for name in names)


def _driver_error() -> Any:
    return importlib.import_module("cudabuild.errors").DriverError


def _stream() -> Any:
    return importlib.import_module("cudabuild.runtime.streams").Stream


def _closest_arch(cc: tuple[int, int]) -> tuple[int, int]:
    """The newest target that a device of a compute capability runs."""
    targets = importlib.import_module("cudabuild.target").TARGETS.values()
    return max(target.cc for target in targets if not target.suffix and target.cc <= cc)


def _device_array() -> Any:
    return importlib.import_module("cudabuild.runtime.device_array").DeviceArray


def _is_contiguous(array: Any) -> bool:
    return bool(array.flags["C_CONTIGUOUS"] or array.flags["F_CONTIGUOUS"])


def _insides(module: str, *names: str) -> dict[str, Callable[[], Any]]:
    """Stand-ins for functions of a module of numba whose other names cudabuild has."""
    return {name: (lambda name=name: StandIn(f"{module}.{name}")) for name in names}  # type: ignore[misc]


class _VectorType:
    """What the suite wants of a vector type: its name, constructor, element type and number of elements."""

    def __init__(self, name: str, constructor: Any, base_type: Any, count: int) -> None:
        self.name = name
        self.user_facing_object = constructor
        self.base_type = base_type
        self.num_elements = count


def _vector_types() -> dict[str, _VectorType]:
    from numba import cuda

    scalars = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)] + ["float32", "float64"]
    found = {}
    for scalar in scalars:
        for count in (1, 2, 3, 4):
            name = f"{scalar}x{count}"
            base = _modules.find(scalar, _modules.TYPES, "numba.types")
            try:
                constructor = getattr(cuda, name)
            except AttributeError as error:  # as an AttributeError it would be lost in the import statement
                raise ImportError(str(error)) from None
            found[name] = _VectorType(name, constructor, base, count)
    return found


_Parameter = namedtuple("_Parameter", ("name", "ty", "is_ptr"))


def _libdevice_functions() -> dict[str, tuple[Any, list[_Parameter]]]:
    """libdevice's functions as numba has them: result and parameters, pointers marked."""
    table = importlib.import_module("cudabuild.lang.libdevice").FUNCTIONS

    def type_of(name: str) -> Any:
        return _modules.find(name.lstrip("*"), _modules.TYPES, "numba.types")

    return {
        f"__nv_{name}": (
            type_of(function.result),
            [_Parameter(f"a{i}", type_of(ty), ty[0] == "*") for i, ty in enumerate(function.parameters)],
        )
        for name, function in table.items()
        if not any("[" in ty for ty in function.parameters)
    }


def _libdevice_signature(result: Any, parameters: list[_Parameter]) -> Any:
    """The signature that a caller sees: what is stored through pointers is returned."""
    void = _modules.find("void", _modules.TYPES, "numba.types")
    results = [] if result == void else [result]
    results += [parameter.ty for parameter in parameters if parameter.is_ptr]
    returned = results[0] if len(results) == 1 else _modules.find("Tuple", _modules.TYPES, "numba.types")(results)
    return returned(*(parameter.ty for parameter in parameters if not parameter.is_ptr))


_TYPES: dict[str, Callable[[], Any]] = {
    "signed_domain": lambda: _integers("int"),
    "unsigned_domain": lambda: _integers("uint"),
}
_TYPEOF: dict[str, Callable[[], Any]] = {"typeof": lambda: typeof, "signature": lambda: signature}

#: Module of numba -> name -> what makes the answer.
ANSWERS: dict[str, dict[str, Callable[[], Any]]] = {
    "cuda.core": _insides("cuda.core", "Buffer", "Device", "LaunchConfig", "ObjectCode", "Stream", "launch"),
    "cuda.core._utils.cuda_utils": {"CUDAError": _driver_error},
    "numba": {"typeof": lambda: typeof},
    "numba.cuda": {"typeof": lambda: typeof},
    "numba.types": _TYPES,
    "numba.core.types": _TYPES,
    "numba.cuda.types": _TYPES,
    "numba.cuda.args": {"wrap_arg": lambda: wrap_arg},
    "numba.cuda.np.numpy_support": {
        "from_dtype": lambda: from_dtype,
        "as_dtype": lambda: as_dtype,
        "numpy_version": _numpy_version,
    },
    "numba.cuda.typing": _TYPEOF,
    "numba.cuda.typing.typeof": _TYPEOF,
    "numba.cuda.libdevicefuncs": {
        "functions": _libdevice_functions,
        "create_signature": lambda: _libdevice_signature,
    },
    "numba.cuda.utils": {"PYVERSION": lambda: sys.version_info[:2]},
    "numba.cuda.vector_types": {"vector_types": _vector_types},
    "numba.cuda.cudadrv.runtime": {"get_version": lambda: _toolkit_version},
    "numba.cuda.cudadrv.driver": {
        "CudaAPIError": _driver_error,
        "Stream": _stream,
        "_have_nvjitlink": lambda: lambda: True,
        **_insides(
            "numba.cuda.cudadrv.driver",
            "_Linker",
            "LinkerError",
            "binding",
            "device_memset",
            "device_to_device",
            "device_to_host",
            "driver",
            "host_memory_extents",
            "host_memory_size",
            "host_to_device",
        ),
    },
    "numba.cuda.cudadrv.devices": {"get_context": lambda: _product("current_context")},
    "numba.cuda.cudadrv.nvrtc": {
        "find_closest_arch": lambda: _closest_arch,
        "_get_nvrtc_version": lambda: _toolkit_version,
        **_insides("numba.cuda.cudadrv.nvrtc", "get_arch_option", "get_lowest_supported_cc", "get_supported_ccs"),
    },
    "numba.cuda.cudadrv.devicearray": {
        "DeviceNDArray": _device_array,
        "is_contiguous": lambda: _is_contiguous,
        **_insides(
            "numba.cuda.cudadrv.devicearray",
            "DeviceRecord",
            "array_core",
            "auto_device",
            "from_array_like",
            "from_record_like",
        ),
    },
}
