# SPDX-License-Identifier: Apache-2.0
"""Names of numba that this package has under other names, and what numba's switches are where it is not installed."""

from __future__ import annotations

from cudabuild.errors import LaunchError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["ANSWERS", "SWITCHES"]

#: The numba whose kernel language this package speaks.
_VERSION = "0.66.0"


def _get(module: str, name: str) -> Any:
    return getattr(__import__(module, fromlist=("",)), name)


def _named(module: str, name: str) -> Callable[[], Any]:
    return lambda: _get(module, name)


def _wrap_arg() -> Any:
    hints = __import__("cudabuild.runtime.hints", fromlist=("",))

    def wrap_arg(value: Any, default: Any = None) -> Any:
        hinted = isinstance(value, (hints.In, hints.Out, hints.InOut))
        return value if hinted else (default or hints.InOut)(value)

    return wrap_arg


def _raise_driver_not_found() -> Any:
    cuda = __import__("cudabuild.cuda", fromlist=("",))

    def raise_driver_not_found() -> None:
        raise LaunchError(
            f"no GPU\n  found:    {cuda.cuda_error()}\n  expected: an NVIDIA GPU when the package was imported\n"
            "  do:       set CUDABUILD_DEVICE=cpu before it is imported, to run its kernels on the CPU device"
        )

    return raise_driver_not_found


def _is_contiguous() -> Any:
    return lambda array: bool(array.flags["C_CONTIGUOUS"] or array.flags["F_CONTIGUOUS"])


_DEVICE_ARRAY = {
    "DeviceNDArray": _named("cudabuild.runtime.device_array", "DeviceArray"),
    "DeviceNDArrayBase": _named("cudabuild.runtime.device_array", "DeviceArray"),
    "is_contiguous": _is_contiguous,
}
_NUMPY = {"as_dtype": _named("cudabuild.types", "as_dtype"), "from_dtype": _named("cudabuild.types", "from_dtype")}
_TYPEOF = {"typeof": _named("cudabuild.cuda.types", "typeof"), "signature": _named("cudabuild.cuda.types", "signature")}

#: Module of numba -> name -> what finds its value.
ANSWERS: dict[str, dict[str, Callable[[], Any]]] = {
    "numba": {
        "carray": _named("cudabuild.cuda", "carray"),
        "farray": _named("cudabuild.cuda", "farray"),
        "from_dtype": _NUMPY["from_dtype"],
        "literal_unroll": _named("cudabuild.cuda", "literal_unroll"),
        "literally": _named("cudabuild.cuda", "literally"),
    },
    "numba.core.typing": _TYPEOF,
    "numba.core.typing.typeof": _TYPEOF,
    "numba.np.numpy_support": _NUMPY,
    "numba.cuda": {
        "HAS_NUMBA": lambda: True,
    },
    "numba.cuda.args": {"wrap_arg": _wrap_arg},
    "numba.cuda.cudadrv.devicearray": _DEVICE_ARRAY,
    "numba.cuda.cudadrv.devices": {"get_context": _named("cudabuild.cuda", "current_context")},
    "numba.cuda.cudadrv.driver": {
        "CudaAPIError": _named("cudabuild.errors", "DriverError"),
        "Stream": _named("cudabuild.runtime.streams", "Stream"),
        "_raise_driver_not_found": _raise_driver_not_found,
    },
    "numba.cuda.devicearray": _DEVICE_ARRAY,
    "numba.cuda.dispatcher": {"CUDADispatcher": _named("cudabuild.runtime.jit_dispatcher", "JitDispatcher")},
    "numba.cuda.np.numpy_support": _NUMPY,
}

#: ``numba.config`` where numba is not installed: what packages read.
SWITCHES: dict[str, Any] = {
    "DEBUG": 0,
    "DISABLE_JIT": 0,
    "NUMBA_DEFAULT_NUM_THREADS": 1,
    "NUMBA_NUM_THREADS": 1,
    "OPT": 3,
    "THREADING_LAYER": "default",
    "VERSION": _VERSION,
}
